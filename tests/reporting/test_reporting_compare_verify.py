"""`overtone verify`: every kind of disagreement between a cell and its manifest is found and told."""

import shutil

import numpy as np
import pytest
from report_factory import small_study
from results_factory import study_data, write_results

from overtone.cli import main
from overtone.files import digest_json, read_json, sha256_file, write_bytes, write_json
from overtone.reporting.verify import verify
from overtone.study import load_study, study_cells
from overtone.study.outcome import outcome
from overtone.training.plan import Plan


def tiny():
    swept = study_data()
    data = small_study(lr_sweep=swept["lr_sweep"], protocols=swept["protocols"])
    crossover = data["experiments"]["crossover"] | {"architectures": ["harmonic", "transformer"], "lengths": [128], "seeds": [1]}
    return data | {"experiments": {"crossover": crossover}, "audits": {}}


def write_tokens(folder, split, count):
    """A token file by hand: ids, document starts, sidecar."""
    ids = np.random.default_rng(len(split)).integers(0, 256, count).astype("<u2")
    write_bytes(folder / f"{split}.bin", ids.tobytes())
    write_bytes(folder / f"{split}.starts", np.zeros(1, "<u8").tobytes())
    write_json(folder / f"{split}.json", {
        "digest": sha256_file(folder / f"{split}.bin"), "vocab_size": 256, "tokens": count, "bytes": count, "bytes_per_token": 1.0,
        "dtype": "uint16", "documents": 1, "starts_digest": sha256_file(folder / f"{split}.starts"), "tokenizer": digest_json("bytes"),
        "unknown": 0, "unknown_bits": 0.0,
    })


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    """Two cells whose manifests are true."""
    root = write_results(tmp_path_factory.mktemp("honest"), tiny(), lambda cell: "ok")
    tokens = root / "tokens" / "enwiki-mini" / "bytes"
    for split, count in (("train", 70_000), ("validation", 3000), ("test", 3000)):
        write_tokens(tokens, split, count)
    for cell in study_cells(load_study(str(root / "study.json"))):
        folder = root / "cells" / cell.key
        write_bytes(folder / "model" / "model.safetensors", cell.key.encode())
        metrics = read_json(folder / "metrics.json")
        metrics["weights"]["sha256"] = sha256_file(folder / "model" / "model.safetensors")
        metrics["tokens"] = {split: read_json(tokens / f"{split}.json")["digest"] for split in ("train", "validation", "test")}
        training = cell.config()["training"]
        plan = Plan(metrics["tokens"]["train"], 70_000, cell.length, training["budget"], training["tokens_per_step"], cell.seed)
        metrics["plan"] |= {"digest": plan.digest}
        write_json(folder / "metrics.json", metrics)
    return root


@pytest.fixture
def root(honest, tmp_path):
    shutil.copytree(honest, tmp_path / "factory")
    return tmp_path / "factory"


def harmonic(root):
    return next(path for path in sorted((root / "cells").rglob("metrics.json")) if "/bytes/harmonic/" in str(path))


def change(path, edit):
    content = read_json(path)
    edit(content)
    write_json(path, content)


def checks(root):
    return [problem.check for problem in verify(root).problems]


def test_honest_results_pass(honest, capsys):
    assert main(["verify", "--results", str(honest)]) == 0
    assert capsys.readouterr().out == "2 cells looked at: no problems\n"


def test_changed_weights(root, capsys):
    write_bytes(harmonic(root).parent / "model" / "model.safetensors", b"other")
    assert main(["verify", "--results", str(root)]) == 1
    out = capsys.readouterr().out
    assert "model.safetensors: weights: sha256" in out
    assert out.endswith("2 cells looked at: 1 problem\n")


def test_lost_weights(root):
    (harmonic(root).parent / "model" / "model.safetensors").unlink()
    assert checks(root) == ["weights"]


def test_a_config_that_was_edited_after_the_fact(root):
    change(harmonic(root), lambda metrics: metrics["config"]["training"].update(clip=9.0))
    assert checks(root) == ["hash", "study"]


def test_a_study_that_asks_for_something_else(root):
    change(root / "study.json", lambda study: study["protocols"]["harmonic"].update(clip=0.5))
    problems = verify(root).problems
    assert [problem.check for problem in problems] == ["study", "study"]
    assert "training.clip 0.5 (trained with 1.0)" in problems[0].message


def test_a_folder_that_was_moved(root):
    folder = harmonic(root).parent
    folder.rename(folder.with_name("7"))
    found = verify(root)
    assert [problem.check for problem in found.problems] == ["path", "study"]
    assert found.missing == 1


def test_tokens_that_changed_and_tokens_that_are_damaged(root):
    tokens = root / "tokens" / "enwiki-mini" / "bytes"
    write_bytes(tokens / "test.bin", b"\x01" * 6000)
    assert checks(root) == ["tokens", "tokens"]
    assert "sha256" in verify(root).problems[0].message
    write_tokens(tokens, "test", 2000)
    assert checks(root) == ["tokens", "tokens"]
    assert "trained on" in verify(root).problems[0].message


def test_a_plan_that_is_not_the_plan(root):
    change(harmonic(root), lambda metrics: metrics["plan"].update(digest="0" * 64))
    assert checks(root) == ["plan"]


def test_metrics_that_are_no_metrics(root):
    change(harmonic(root), lambda metrics: metrics.pop("curve"))
    assert checks(root) == ["schema"]
    harmonic(root).write_text("{", encoding="utf-8")
    assert checks(root) == ["schema"]


def test_scores_that_their_windows_contradict(root):
    change(harmonic(root), lambda metrics: metrics["evaluation"]["test"].update(bpt=0.9 * metrics["evaluation"]["test"]["bpt"]))
    assert checks(root) == ["scores"]
    change(harmonic(root), lambda metrics: metrics["evaluation"]["validation"]["window_bpt"].pop())
    assert checks(root) == ["scores", "scores"]


def test_a_rate_that_the_sweep_did_not_choose_and_an_outcome_of_other_cells(root):
    study = load_study(str(root / "study.json"))
    (name,) = study.experiments
    path = root / "experiments" / f"{name}.json"
    write_json(path, outcome(study, name, root))
    chosen = root / "lr_sweep" / "harmonic" / "harmonic" / "chosen.json"
    write_json(chosen, {"chosen": read_json(harmonic(root))["lr"]})
    assert checks(root) == []
    write_json(chosen, {"chosen": 0.5})
    change(path, lambda content: content.update(digest="0" * 64))
    assert checks(root) == ["rate", "outcome"]


def test_nan_is_no_number(root, capsys):
    path = harmonic(root)
    path.write_text(path.read_text().replace('"bpt": ', '"bpt": NaN, "old": ', 1))
    assert checks(root) == ["schema"]
    assert main(["table", "crossover", "--study", str(root / "study.json"), "--results", str(root), "--out", str(root)]) == 2
    assert "NaN is no number of JSON" in capsys.readouterr().err


def test_a_cell_that_is_not_there_yet_is_no_problem(root, capsys):
    shutil.rmtree(harmonic(root).parent)
    assert main(["verify", "--results", str(root)]) == 0
    assert "1 cell looked at, 1 not there yet" in capsys.readouterr().out


def test_a_folder_that_is_no_results_folder(tmp_path, capsys):
    assert main(["verify", "--results", str(tmp_path)]) == 2
    assert "no study.json" in capsys.readouterr().err
