"""`overtone audit` as it is called: exit codes, files, Hugging Face folders, controls."""

import json

import pytest
import torch
from toy_study import toy_study
from transformers import BertConfig, BertLMHeadModel, LlamaConfig

from overtone.cli import main
from overtone.files import write_json
from overtone.transplant import HarmonicLlamaConfig, HarmonicLlamaForCausalLM

SHAPE = {"vocab_size": 53, "hidden_size": 48, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 6}


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    """An honest causal model and one that attends both ways, as anybody's folders."""
    from transformers import LlamaForCausalLM

    torch.manual_seed(0)
    root = tmp_path_factory.mktemp("hf")
    LlamaForCausalLM(LlamaConfig(num_key_value_heads=2, **SHAPE)).save_pretrained(root / "honest")
    BertLMHeadModel(BertConfig(is_decoder=False, **SHAPE)).save_pretrained(root / "bidirectional")
    return root


def test_an_honest_folder_passes_and_its_report_is_written(folders, tmp_path, capsys):
    out = tmp_path / "causality.json"
    assert main(["audit", "causality", "--hf", str(folders / "honest"), "--out", str(out)]) == 0
    written = json.loads(out.read_text())
    assert written["violations"] == 0
    assert {row["mode"] for row in written["rows"]} == {"parallel", "prefill", "step"}
    assert "causality: 3 rows, 0 violations" in capsys.readouterr().out
    assert main(["audit", "entropy", "--hf", str(folders / "honest")]) == 0


def test_a_model_that_attends_both_ways_exits_1(folders, tmp_path, capsys):
    words = ["audit", "causality", "--hf", str(folders / "bidirectional"), "--out", str(tmp_path / "x.json")]
    assert main(words) == 1
    assert "FAIL" in capsys.readouterr().out
    assert json.loads((tmp_path / "x.json").read_text())["violations"] >= 1
    assert main([*words, "--report-only"]) == 0


def test_our_own_checkpoint_is_taken_by_hf_too(toy):
    _, results = toy
    assert main(["audit", "causality", "--hf", str(results / "cells/harmonic/enwiki-mini/bytes/harmonic/d16/64/1/model")]) == 0


@pytest.mark.parametrize("audit", ["causality", "entropy", "budget", "timing", "baseline"])
def test_every_audit_passes_on_a_trained_study(toy, tmp_path, audit):
    _, results = toy
    out = tmp_path / "audits" / f"{audit}.json"
    assert main(["audit", audit, "--study", str(results / "study.json"), "--results", str(results), "--out", str(out)]) == 0
    written = json.loads(out.read_text())
    assert written["audit"] == audit
    assert written["rows"]
    cells = {row["subject"] for row in written["rows"]}
    if audit in ("causality", "entropy"):
        assert len(cells) == 8


@pytest.fixture
def transplanted(spoilable):
    """The toy study with a transplant: an honest variant and the leaky control, untrained."""
    _, results = spoilable
    variants = {"honest": {"phase1": {"objective": "align", "budget": 64, "lr": 0.1}},
                "leaky": {"control": True, "block": {"kind": "leaky"}, "phase1": {"objective": "align", "budget": 64, "lr": 0.1}}}
    study = toy_study(transplants={"tiny": {"base": {"kind": "hub", "repository": "a/b", "revision": "0" * 40}, "corpus": "enwiki-mini",
                                            "variants": variants}})
    write_json(results / "study.json", dict(study.data))
    torch.manual_seed(0)
    for name, kind in (("honest", "harmonic"), ("leaky", "leaky")):
        config = HarmonicLlamaConfig(num_key_value_heads=2, block={"kind": kind, "d_state": 8}, **SHAPE)
        HarmonicLlamaForCausalLM(config).save_pretrained(results / "transplants" / "tiny" / name / "model")
    return results


def call(results, audit, *more):
    return main(["audit", audit, "--study", str(results / "study.json"), "--results", str(results), *more])


def test_the_leaky_transplant_is_flagged_in_every_mode_and_the_honest_one_passes(transplanted, tmp_path):
    out = tmp_path / "c.json"
    assert call(transplanted, "causality", "--out", str(out)) == 0
    rows = {(row["subject"], row["mode"]): row for row in json.loads(out.read_text())["rows"] if row["subject"].startswith("transplants")}
    assert len(rows) == 6
    for (subject, _), row in rows.items():
        assert row["control"] == subject.endswith("leaky")
        assert row["passed"] != row["control"]


def test_a_control_that_is_not_flagged_is_a_violation(transplanted, capsys):
    """Untrained, the leaky block cannot predict anything yet: the entropy audit does not see it, and says so."""
    assert call(transplanted, "entropy") == 1
    assert "NOT FLAGGED" in capsys.readouterr().out


def test_a_transplant_without_a_control_is_a_remark(transplanted, capsys):
    (transplanted / "transplants/tiny/leaky/model/config.json").unlink()
    import shutil

    shutil.rmtree(transplanted / "transplants/tiny/leaky/model")
    assert call(transplanted, "causality") == 0
    assert "has no leaky control" in capsys.readouterr().out


@pytest.mark.parametrize(("words", "told"), [
    (["budget", "--hf", "x"], "goes with causality and entropy"),
    (["causality"], "give --study"),
    (["causality", "--hf", "/nowhere/at/all"], "no such model folder"),
    (["causality", "--hf", "x", "--study", "y"], "either --hf or"),
    (["causality", "--hf", "x", "--device", "abacus"], "--device: 'abacus' cannot be used"),
])
def test_mistakes_are_one_line(words, told, capsys):
    assert main(["audit", *words]) == 2
    said = capsys.readouterr().err
    assert told in said
    assert len(said.strip().splitlines()) == 1


def test_an_empty_folder_and_an_unknown_setting_are_mistakes(tmp_path, toy, capsys):
    assert main(["audit", "causality", "--hf", str(tmp_path)]) == 2
    assert "0 GGUF files" in capsys.readouterr().err
    _, results = toy
    write_json(tmp_path / "study.json", dict(toy_study(audits={"causality": {"lenght": 3}}).data))
    assert main(["audit", "causality", "--study", str(tmp_path / "study.json"), "--results", str(results)]) == 2
    assert "Did you mean 'length'" in capsys.readouterr().err
    for audit, settings, told in (("causality", {"length": 3}, "length: found 3, expected a whole number of at least 4"),
                                  ("entropy", {"windows": 1.5}, "windows: found 1.5, expected a whole number"),
                                  ("baseline", {"edge_gain": "x"}, "edge_gain: found 'x', expected a number")):
        write_json(tmp_path / "study.json", dict(toy_study(audits={audit: settings}).data))
        assert main(["audit", audit, "--study", str(tmp_path / "study.json"), "--results", str(results)]) == 2
        assert f"audits.{audit}: {told}" in capsys.readouterr().err


def test_an_ok_cell_without_its_model_is_a_mistake(spoilable, capsys):
    import shutil

    _, results = spoilable
    shutil.rmtree(results / "cells/harmonic/enwiki-mini/bytes/llama/d16/64/1/model")
    assert call(results, "causality") == 2
    assert "has no model/" in capsys.readouterr().err
