"""Cells: what a study asks for, and that a change of one thing changes exactly the cells concerned."""

from __future__ import annotations

import dataclasses

import pytest
import yaml

from overtone.cli import main
from overtone.errors import UserError
from overtone.files import write_json
from overtone.study import Cell, experiment_cells, load_study, resolve_study, study_cells, sweep_trials
from overtone.study.cells import rate_owner
from overtone.study.load import workflow_root
from overtone.study.schema import read_metrics, schema

STUDIES = ["smoke", "mini", "paper"]


@pytest.fixture(scope="module")
def mini():
    return load_study("mini")


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_loads_and_its_cells_are_distinct(name):
    study = load_study(name)
    cells = study_cells(study)
    assert cells
    assert len({cell.key for cell in cells}) == len({cell.hash for cell in cells}) == len(cells)


def test_a_cell_survives_its_own_json(mini):
    for cell in study_cells(mini):
        assert Cell.from_config(cell.config()) == cell


def test_a_cell_config_with_a_wrong_field_is_refused(mini):
    config = study_cells(mini)[0].config()
    with pytest.raises(UserError, match="sead"):
        Cell.from_config({**config, "sead": 1})


def test_experiments_that_name_the_same_coordinates_share_the_cell(mini):
    crossover = {cell.key: cell for cell in experiment_cells(mini, "crossover")}
    ablations = {cell.key: cell for cell in experiment_cells(mini, "ablations")}
    shared = set(crossover) & set(ablations)
    assert shared
    assert all(crossover[key] == ablations[key] for key in shared)


def test_the_protocol_is_the_same_for_every_architecture(mini):
    for name in mini.experiments:
        by_architecture: dict[str, set[str]] = {}
        for cell in experiment_cells(mini, name):
            by_architecture.setdefault(cell.architecture, set()).add(cell.training)
        assert len({frozenset(rules) for rules in by_architecture.values()}) == 1


def test_an_added_seed_adds_one_cell_a_row_and_changes_no_other():
    before = {cell.key: cell.hash for cell in study_cells(load_study("mini"))}
    edits = {"experiments": {"crossover": {"seeds": [1, 2, 3, 9]}}}
    after = {cell.key: cell.hash for cell in study_cells(load_study("mini", edits))}
    assert {key: after[key] for key in before} == before
    assert {key.rsplit("/", 1)[1] for key in set(after) - set(before)} == {"9"}
    assert len(set(after) - set(before)) == 12  # 4 architectures, 3 lengths


def test_a_changed_budget_changes_only_its_protocol():
    before = {cell.key: cell.hash for cell in study_cells(load_study("mini"))}
    after = {cell.key: cell.hash for cell in study_cells(load_study("mini", {"protocols": {"resonator": {"budget": 4096}}}))}
    changed = {key.split("/")[0] for key in before if before[key] != after[key]}
    assert changed == {"resonator"}


@pytest.mark.parametrize("name", STUDIES)
def test_every_architecture_gets_the_same_trials(name):
    study = load_study(name)
    for protocol in study.lr_sweep:
        rates: dict[str, list[str]] = {}
        for architecture, rate, cell in sweep_trials(study, protocol):
            rates.setdefault(architecture, []).append(rate)
            assert cell.config()["training"]["lr"] == float(rate)
        assert len({tuple(found) for found in rates.values()}) == 1
        trained = {rate_owner(study, cell.architecture) for cell in study_cells(study) if cell.protocol == protocol}
        assert set(rates) == trained


def test_the_evaluation_length_is_one_for_all_lengths_of_a_protocol(mini):
    for protocol in mini.protocols:
        lengths = {cell.config()["training"]["evaluation_length"] for cell in study_cells(mini) if cell.protocol == protocol}
        assert len(lengths) == 1


def test_a_swept_protocol_without_a_sweep_is_refused():
    with pytest.raises(UserError, match="lr_sweep"):
        load_study("mini", {"protocols": {"transplant": {"lr": "swept"}}})


def test_a_rate_per_architecture_is_looked_up_and_a_missing_one_is_named():
    edits = {"protocols": {"resonator": {"lr": {"resonator": 0.01, "transformer": 0.02}}}}
    study = load_study("smoke", edits)
    rates = {cell.architecture: cell.config()["training"]["lr"] for cell in experiment_cells(study, "quality")}
    assert rates == {"resonator": 0.01, "transformer": 0.02}
    edits["protocols"]["resonator"]["lr"] = {"resonator": 0.01}
    with pytest.raises(UserError, match="transformer"):
        load_study("smoke", edits)


def test_the_hash_covers_every_field(mini):
    cell = study_cells(mini)[0]
    for field in dataclasses.fields(Cell):
        value = getattr(cell, field.name)
        other = value + 1 if isinstance(value, int) else '{"x":1}' if field.name in ("options", "training") else "other"
        assert dataclasses.replace(cell, **{field.name: other}).hash != cell.hash


def test_a_resolved_study_keeps_its_numbers(tmp_path):
    """1e-05 is a number in JSON and a string in YAML 1.1."""
    study = load_study("smoke", {"protocols": {"resonator": {"lr": 1e-05}}})
    write_json(tmp_path / "study.json", study.data)
    assert load_study(tmp_path / "study.json").data == study.data


def _set(data, path, value):
    *parents, last = path.split(".")
    for key in parents:
        data = data[key]
    data[last] = value


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        ("protocols.harmonic.match", {"harmonik": "llama"}, "protocols.harmonic.match: 'harmonik' is not known. Did you mean 'harmonic'"),
        ("protocols.transplant.lr", {"lama": 0.1}, "protocols.transplant.lr: 'lama' is not known. Did you mean 'llama'"),
        ("protocols.harmonic.per_length", {"512": {"bugdet": 5}}, "per_length.512: key: 'bugdet' is not known. Did you mean 'budget'"),
        ("protocols.harmonic.per_length", {"512": {"budget": -5}}, "per_length.512: budget: found -5, expected at least 1"),
        ("protocols.harmonic.per_length", {"long": {}}, "per_length: 'long' found, a length in tokens expected"),
        ("sizes.d32.per_architecture", {"harmonik": {}}, "sizes.d32.per_architecture: 'harmonik' is not known"),
        ("sizes", {256: {"hidden": 256}}, "size: 'd32' is not known. Allowed: 256"),
        ("experiments.crossover.corpora", ["enwik"], "corpus: 'enwik' is not known. Did you mean 'enwik8'"),
        ("experiments.crossover.lengths", [128, 128], r"lengths: found \[128, 128\], expected each item once"),
        ("transplants", {"t": {"base": {"kind": "cell"}, "corpus": "x", "variants": {"a": {}}}}, "key 'architecture' is missing"),
        ("transplants.tiny.corpus", "enwik8", "transplants.tiny: corpus: 'enwik8' is not known. Did you mean 'enwiki-mini'"),
    ],
)
def test_a_mistake_in_a_study_is_one_line_that_names_it(path, value, told):
    data = yaml.safe_load((workflow_root() / "workflow" / "studies" / "smoke.yaml").read_text())
    _set(data, path, value)
    with pytest.raises(UserError, match=told) as caught:
        resolve_study(data, where="mine.yaml")
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(("mine.yaml: ", "smoke: "))


def test_a_length_may_be_written_as_yaml_reads_it():
    study = load_study("smoke", {"protocols": {"harmonic": {"per_length": {512: {"budget": 512}}}}})
    budgets = {cell.length: cell.config()["training"]["budget"] for cell in experiment_cells(study, "crossover")}
    assert budgets[512] == 512
    assert set(budgets.values()) != {512}


def test_a_name_given_twice_is_refused(tmp_path):
    text = (workflow_root() / "workflow" / "studies" / "smoke.yaml").read_text()
    (tmp_path / "mine.yaml").write_text(text.replace("\narchitectures:\n", "\narchitectures:\n  llama: {model: harmonic}\n"))
    with pytest.raises(UserError, match="the key 'llama' is given twice, keep one"):
        load_study(tmp_path / "mine.yaml")


@pytest.mark.parametrize(
    ("changes", "told"),
    [({"training": None}, "training: found None, expected a mapping"), ({"length": "x"}, "length: found 'x', expected a whole number"),
     ({"match": 3}, "match: found 3, expected a string or null"), ({"model": None}, "model: found None, expected a string")],
)
def test_a_cell_of_other_types_is_refused(mini, changes, told):
    with pytest.raises(UserError, match=told):
        Cell.from_config(study_cells(mini)[0].config() | changes)
    with pytest.raises(UserError, match="found a list, expected a mapping"):
        Cell.from_config([1])


def test_a_damaged_metrics_file_is_named_with_its_key(tmp_path, capsys):
    path = tmp_path / "metrics.json"
    for content, told in (([], "the key 'schema' is missing"), (dict.fromkeys(schema("metrics")["required"], 1), "status 1, expected one")):
        write_json(path, content)
        with pytest.raises(UserError, match=told) as caught:
            read_metrics(path)
        assert str(caught.value).startswith(str(path))
        assert main(["choose-rate", "--trials", str(path), "--out", str(tmp_path / "chosen.json")]) == 2
        assert capsys.readouterr().err.startswith(f"overtone: {path}: ")
    assert not (tmp_path / "chosen.json").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [(["study", "smoke", "--edit", "[1]"], "--edit: found [1], expected a mapping of keys to change"),
     (["plan", "--study", "smoke", "--price", "-3"], "--price: -3 found, at least 0 expected"),
     (["plan", "--study", "smoke", "--results", "nowhere"], "--results nowhere: no such folder")],
)
def test_mistakes_of_a_call_are_one_line(words, told, capsys):
    assert main(words) == 2
    assert capsys.readouterr().err.startswith(f"overtone: {told}")
