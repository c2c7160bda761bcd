"""Reading results: what is absent, what must be there, what is outdated."""

import json

import numpy as np
import pytest
import results_factory as factory

from overtone.errors import UserError
from overtone.files import read_json, write_json
from overtone.reporting.collect import Results, paired
from overtone.reporting.rows import select
from overtone.study.schema import check


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return factory.write_results(tmp_path_factory.mktemp("results"))


@pytest.fixture
def results(root):
    return Results.open(root / "study.json", root)


def test_the_factory_writes_what_training_writes(root):
    paths = sorted((root / "cells").rglob("metrics.json"))
    statuses = {check("metrics", read_json(path), path.name)["status"] for path in [*paths[::9], *_failed(paths)]}
    assert statuses == {"ok", "oom", "diverged"}


def _failed(paths):
    return [path for path in paths if read_json(path)["status"] != "ok"][:3]


def test_one_row_a_cell_failures_included(results):
    cells = results.cells("crossover")
    assert len(cells) == 4 * 3 * 3
    assert set(cells["status"]) == {"ok", "oom", "diverged"}
    lost = select(cells, architecture="transformer", length=2048)
    assert set(lost["status"]) == {"oom"}
    assert lost["test_bpt"].isna().all()
    assert "allocate" in lost["failure"].iloc[0]["message"]
    assert results.sources[0].startswith("cells/harmonic/")


def test_an_experiment_that_the_study_lacks_is_empty(results):
    cells = results.cells("carry_state")
    assert cells.empty
    assert "test_window_bpt" in cells.columns


def test_every_cell_once(results):
    cells = results.cells("*")
    assert cells["key"].is_unique
    assert len(results.cells("crossover", "ablations")) < len(results.cells("crossover")) + len(results.cells("ablations"))


def test_pairs_share_seeds_and_blocks_over_lengths(results):
    cells = results.cells("crossover")
    short, long = (select(cells, architecture="harmonic", length=length) for length in (128, 2048))
    pair = paired(short, long)
    assert [array.shape for array in pair] == [(3, factory.BLOCKS), (3, factory.BLOCKS)]
    assert np.allclose(pair[0].mean(axis=1), short.sort_values("seed")["test_bpt"].astype(float))


def test_pairs_keep_only_seeds_that_both_ended_ok(results):
    cells = results.cells("crossover")
    mamba, transformer = (select(cells, architecture=name, length=512) for name in ("mamba", "transformer"))
    assert [array.shape[0] for array in paired(mamba, transformer)] == [2, 2]
    assert paired(select(cells, architecture="transformer", length=2048), transformer) == []


def test_other_corpora_cannot_be_paired(results):
    harmonic = select(results.cells("crossover"), architecture="harmonic", length=128)
    other = select(results.cells("quality"), architecture="harmonic")
    pair = paired(harmonic, other)
    assert pair == [] or pair[0].shape == pair[1].shape


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.unlink(), "not found"),
        (lambda path: path.write_text("{"), "not valid JSON"),
        (lambda path: write_json(path, {"status": "ok"}), "the key 'schema' is missing"),
        (lambda path: write_json(path, read_json(path) | {"status": "fine"}), "status 'fine'"),
        (lambda path: write_json(path, read_json(path) | {"hash": "0" * 16}), "another configuration"),
        (lambda path: write_json(path, read_json(path) | {"evaluation": {}}), "without an evaluation"),
    ],
)
def test_a_bad_file_is_named(tmp_path, damage, message):
    data = factory.study_data(transplants={}, lr_sweep={}, experiments={"quality": factory.study_data()["experiments"]["quality"]},
                              protocols={"resonator": factory.study_data()["protocols"]["resonator"]})
    root = factory.write_results(tmp_path, data, statuses=lambda cell: "ok")
    path = sorted((root / "cells").rglob("metrics.json"))[0]
    damage(path)
    with pytest.raises(UserError, match=message) as error:
        Results.open(root / "study.json", root).cells("quality")
    assert str(path) in str(error.value)


def test_no_results_folder(tmp_path):
    with pytest.raises(UserError, match="no such folder"):
        Results.open(tmp_path / "study.json", tmp_path / "nothing")


def test_benchmarks_audits_diagnostics_and_transplants(results):
    assert results.benchmark("decode")["rows"]
    assert results.audit("causality")["violations"] == 0
    assert results.diagnostics()["impulse"]
    found = results.transplants()["tiny"]
    assert [(phase["variant"], phase["phase"]) for phase in found["phases"]] == [("align", 1), ("align", 2), ("ce", 1), ("leaky", 1)]
    assert len(results.sweep()) == 3 * 4


def test_metrics_carry_no_nan(root):
    text = sorted((root / "cells").rglob("metrics.json"))[0].read_text()
    json.loads(text, parse_constant=lambda name: pytest.fail(name))
