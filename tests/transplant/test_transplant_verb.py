"""The verb from end to end, for a base trained in the study and for one from a (local) hub repository."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from overtone.cli import main
from overtone.corpora.documents import Document
from overtone.corpora.tokenize import write_token_file
from overtone.errors import UserError
from overtone.files import read_json, sha256_file, write_json

WORDS = "the quick brown fox jumps over the lazy dog while seven small cats sleep in warm sun near an old stone wall and dream of fish "
PHASE = {"budget": 2048, "lr": 0.01, "tokens_per_step": 256}


def documents(count: int, seed: int) -> list[Document]:
    random = np.random.default_rng(seed)
    words = WORDS.split()
    return [Document(str(number), "t", "\n".join(" ".join(random.choice(words, 40)) for _ in range(3)), None) for number in range(count)]


def write_splits(results: Path, corpus: str, counts: dict[str, int]) -> None:
    folder = results / "corpora" / corpus / "splits"
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (split, count) in enumerate(counts.items()):
        lines = [json.dumps({"id": item.id, "title": item.title, "text": item.text}) + "\n" for item in documents(count, seed)]
        (folder / f"{split}.jsonl").write_text("".join(lines))
    write_json(folder / "splits.json", {"corpus": corpus, "splits": {split: {"documents": count} for split, count in counts.items()}})


def write_study(folder: Path, base: dict[str, Any], **changes: Any) -> Path:
    study = {
        "study": "t", "description": "d", "price_per_hour": 3.0, "corpora": {"enwiki-mini": {}, "lambada": {}},
        "tokenizers": {"bytes": {"kind": "bytes"}},
        "protocols": {"p": {"budget": 4096, "tokens_per_step": 256, "lr": 0.01}}, "architectures": {"llama": {"model": "llama"}},
        "sizes": {"d32": {"hidden": 32}}, "experiments": {},
        "transplants": {"tiny": {
            "base": base, "corpus": "enwiki-mini", "length": 32, "block": {"d_state": 8}, "validation_windows": 4,
            "variants": {
                "align": {"phase1": {**PHASE, "objective": "align"}, "phase2": {**PHASE, "budget": 1024, "train": "blocks"}},
                "continued": {"block": {"kind": "attention"}, "phase1": {**PHASE, "objective": "cross_entropy"},
                              "phase2": {**PHASE, "budget": 1024, "train": "all"}},
                "distill": {"phase1": {**PHASE, "objective": "distill"}},
                "leaky": {"control": True, "block": {"kind": "leaky"},
                          "phase1": {**PHASE, "objective": "cross_entropy", "random_share": 0.5}},
            },
            "evaluation": {"lengths": [32, 64, 128], "windows": 3, "recall": [8], "recall_windows": 4,
                           "lambada": {"corpus": "enwiki-mini", "passages": 3}},
        } | changes},
    }
    write_json(folder / "study.json", study)
    write_splits(folder, "enwiki-mini", {"train": 8, "validation": 8, "test": 8})
    return folder / "study.json"


def call(results: Path, step: str, out: str, *more: str) -> int:
    return main(["transplant", step, "--study", str(results / "study.json"), "--results", str(results), "--name", "tiny",
                 "--out", str(results / "transplants" / "tiny" / out), *more])


@pytest.fixture
def cell_results(tmp_path: Path) -> Path:
    """A study whose base is a finished cell with bytes as tokens."""
    from overtone.models import build_model, save_checkpoint

    results = tmp_path / "results" / "t"
    base = {"kind": "cell", "protocol": "p", "corpus": "enwiki-mini", "tokenizer": "bytes", "architecture": "llama", "size": "d32",
            "length": 32, "seed": 1}
    write_study(results, base)
    tokens = results / "tokens" / "enwiki-mini" / "bytes"
    from overtone.corpora.tokenizers.byte import ByteTokenizer

    tokenizer = ByteTokenizer()
    write_json(tokens / "tokenizer.json", {"kind": "bytes", "options": {}, "vocab_size": 256, "digest": tokenizer.digest, "corpus": "c"})
    for seed, split in enumerate(("train", "validation", "test")):
        write_token_file(tokens / f"{split}.json", documents(8, seed), tokenizer.encode, vocab_size=256, tokenizer=tokenizer.digest)
    torch.manual_seed(0)
    save_checkpoint(build_model("llama", vocab_size=256, hidden=32, heads=4, layers=2),
                    results / "cells" / "p" / "enwiki-mini" / "bytes" / "llama" / "d32" / "32" / "1" / "model")
    return results


def test_from_a_cell_to_an_evaluation(cell_results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = cell_results / "transplants" / "tiny"
    assert call(cell_results, "base", "base.json") == 0
    base = read_json(folder / "base.json")
    assert base["context"] == 32
    assert base["sha256"] == sha256_file(folder / "base" / "model.safetensors")
    for variant, phase in (("align", 1), ("align", 2), ("continued", 1), ("continued", 2), ("distill", 1), ("leaky", 1)):
        assert call(cell_results, "train", f"{variant}/phase{phase}.json", "--variant", variant, "--phase", str(phase)) == 0
    assert not list((cell_results / "state").glob("*/*.safetensors"))

    report = read_json(folder / "align" / "phase1.json")
    assert {"variant", "phase", "objective", "block", "tokens", "steps", "seconds", "parameters", "bpt", "environment"} <= set(report)
    assert report["tokens"] == 2048
    assert report["parameters"]["new"] + report["parameters"]["frozen"] == report["parameters"]["total"]
    assert report["curve"][-1]["loss"] < report["curve"][1]["loss"]
    assert [read_json(folder / name / "phase1.json")["plan"] for name in ("align", "distill", "leaky")] == [report["plan"]] * 3
    untouched = read_json(folder / "continued" / "phase1.json")
    assert (untouched["plan"], untouched["time_constants"]) == (report["plan"], [])
    assert untouched["curve"][0]["bpt"] == pytest.approx(report_of_base(cell_results), abs=1e-5)  # starts as the base itself
    assert json.loads((folder / "continued" / "model" / "config.json").read_text())["model_type"] == "llama"
    second = read_json(folder / "align" / "phase2.json")
    assert second["curve"][0]["bpt"] == pytest.approx(report["curve"][-1]["bpt"], abs=1e-6)  # a warm start
    model = AutoModelForCausalLM.from_pretrained(folder / "align" / "model")
    assert model.generate(torch.zeros(1, 3, dtype=torch.long), max_new_tokens=3, do_sample=False).shape == (1, 6)
    assert (folder / "align" / "phase1" / "model" / "config.json").is_file()
    capsys.readouterr()
    assert main(["generate", "--checkpoint", str(folder / "align"), "--prompt", "the fox", "--max-tokens", "6"]) == 0
    assert capsys.readouterr().out.strip()

    for options, told in ((["--prompt", ""], "no token"), (["--prompt", "a", "--tokens", "x"], "its own tokenizer"),
                          (["--prompt", "a\udcff"], "not UTF-8")):
        assert main(["generate", "--checkpoint", str(folder / "align"), *options]) == 2
        assert told in capsys.readouterr().err

    assert call(cell_results, "evaluate", "evaluation.json") == 0
    found = read_json(folder / "evaluation.json")
    rows = {(row["model"], row["length"]): row for row in found["rows"]}
    assert {model for model, _ in rows} == {"base", "base+linear", "base+dynamic", "align", "align/phase1", "continued", "continued/phase1",
                                             "distill", "leaky"}
    assert ("base+linear", 32) not in rows
    assert {row["targets"] for row in rows.values()} == {3 * 128}  # the same targets at every length
    assert rows["align", 128]["loss_by_position"]["position"][-1] == 128
    assert len(rows["leaky", 64]["window_bpt"]) == 6
    assert found["variants"]["leaky"]["control"] is True
    assert {row["model"] for row in found["random_tokens"]} == {
        "base", "align", "align/phase1", "continued", "continued/phase1", "distill", "leaky"}
    for name in ("continued/phase1", "continued"):  # the same layers, trained on
        assert rows[name, 32]["bpt"] < rows["base", 32]["bpt"]
    assert all(row["floor"] == 8.0 for row in found["random_tokens"])
    assert next(row for row in found["random_tokens"] if row["model"] == "align")["bpt"] > 8.0
    assert found["lambada"][0]["passages"] == 3
    cost = found["cost"][0]
    assert cost["hours"] == pytest.approx(cost["seconds"] / 3600)
    assert cost["extrapolated_hours"] == pytest.approx(cost["published_tokens"] / cost["tokens_per_s"] / 3600)
    assert json.dumps(found, allow_nan=False)


def report_of_base(results: Path) -> float:
    """bpt of the base on the windows of a phase's curve."""
    from overtone.study import load_study
    from overtone.training.stream import Region
    from overtone.transplant.base import load_base
    from overtone.transplant.config import load_transplant
    from overtone.transplant.scoring import bpt, whole_targets
    from overtone.transplant.text import open_tokens

    config = load_transplant(load_study(str(results / "study.json")), "tiny")
    region = Region.of(open_tokens(config, results, config.corpus, "validation"))
    return bpt(load_base(config, results), region, whole_targets(region, 32, 4), 32, batch_tokens=4096)


def half_written(model: Any, folder: Path) -> None:
    (Path(folder) / "config.json").write_text("{}")
    raise OSError(28, "No space left on device")


def test_a_base_that_cannot_be_written_is_one_line_and_leaves_none(
    cell_results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("transformers.LlamaForCausalLM.save_pretrained", half_written)
    assert call(cell_results, "base", "base.json") == 2
    said = capsys.readouterr().err
    assert "tiny/base: cannot be written (No space left on device)" in said
    assert len(said.strip().splitlines()) == 1
    assert not [path for path in (cell_results / "transplants" / "tiny").rglob("*") if path.is_file()]


def test_a_phase_that_cannot_be_written_leaves_the_model_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from overtone.transplant.train import _save

    class Student:
        def save_pretrained(self, folder: Path) -> None:
            (folder / "model.safetensors").write_text("weights")

    base = tmp_path / "base"
    base.mkdir()
    for name in ("tokenizer.json", "config.json"):
        (base / name).write_text("{}")
    student: Any = Student()
    _save(student, tmp_path / "align" / "model", base)
    monkeypatch.setattr(Student, "save_pretrained", half_written)
    with pytest.raises(UserError, match="cannot be written"):
        _save(student, tmp_path / "align" / "model", base)
    assert sorted(path.name for path in (tmp_path / "align" / "model").iterdir()) == ["model.safetensors", "tokenizer.json"]
    assert [path.name for path in (tmp_path / "align").iterdir()] == ["model"]


def test_same_input_same_bits(cell_results: Path) -> None:
    folder = cell_results / "transplants" / "tiny"
    call(cell_results, "base", "base.json")
    digests = []
    for _ in range(2):
        call(cell_results, "train", "distill/phase1.json", "--variant", "distill", "--phase", "1")
        weights = sha256_file(folder / "distill" / "model" / "model.safetensors")
        digests.append((weights, read_json(folder / "distill" / "phase1.json")["curve"]))
    assert digests[0] == digests[1]


def test_a_hub_base_brings_its_tokenizer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tokenizers
    from transformers import PreTrainedTokenizerFast
    from transplant_models import make_llama

    words = {word: index for index, word in enumerate(["<s>", "?", *sorted(set(WORDS.split()))])}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="?"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    inner.post_processor = tokenizers.processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, bos_token="<s>", unk_token="?")
    repository = tmp_path / "owner" / "model"
    make_llama(vocab=61, tied=True).save_pretrained(repository)
    tokenizer.save_pretrained(repository)
    monkeypatch.chdir(tmp_path)  # transformers takes owner/model for the folder that it is here
    results = tmp_path / "results" / "t"
    write_study(results, {"kind": "hub", "repository": "owner/model", "revision": "0" * 40}, evaluation={
        "lengths": [32, 64], "windows": 2, "recall": [8], "recall_windows": 2, "corpora": ["enwiki-mini", "lambada"], "rope_scaling": [],
        "lambada": {"corpus": "lambada", "unit": "document", "passages": 3},
    })
    write_splits(results, "lambada", {"train": 0, "validation": 0, "test": 4})  # a task, not a corpus to train on
    assert call(results, "base", "base.json") == 0
    folder = results / "transplants" / "tiny"
    base = read_json(folder / "base.json")
    assert base["bos"] == 0
    assert base["tied"] is True
    sidecar = read_json(folder / "tokens" / "enwiki-mini" / "train.json")
    assert sidecar["tokens"] == 8 * 3 * 40  # a word a token, no <s>
    assert call(results, "train", "align/phase1.json", "--variant", "align", "--phase", "1") == 0
    assert (folder / "align" / "phase1" / "model" / "tokenizer.json").is_file()
    assert call(results, "train", "align/phase2.json", "--variant", "align", "--phase", "2") == 0
    assert (folder / "align" / "model" / "tokenizer.json").is_file()
    for variant, phase in (("continued", 1), ("continued", 2), ("distill", 1), ("leaky", 1)):
        assert call(results, "train", f"{variant}/phase{phase}.json", "--variant", variant, "--phase", str(phase)) == 0
    assert call(results, "evaluate", "evaluation.json") == 0
    found = read_json(folder / "evaluation.json")
    assert {row["corpus"] for row in found["rows"]} == {"enwiki-mini", "lambada"}
    assert {row["passages"] for row in found["lambada"]} == {3}
    assert not (folder / "tokens" / "lambada" / "train.json").exists()


def test_mistakes_are_told_in_one_line(cell_results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(cell_results, "train", "align/phase1.json") == 2
    assert "--variant and --phase" in capsys.readouterr().err
    assert call(cell_results, "train", "align/phase1.json", "--variant", "align", "--phase", "1") == 2
    assert "overtone transplant base" in capsys.readouterr().err
    call(cell_results, "base", "base.json")
    assert call(cell_results, "train", "align/phase2.json", "--variant", "align", "--phase", "2") == 2
    assert "phase1.json: not found" in capsys.readouterr().err
    study = read_json(cell_results / "study.json")
    changed = copy.deepcopy(study)
    changed["transplants"]["tiny"]["base"]["size"] = "d32"
    changed["transplants"]["tiny"]["base"]["seed"] = 2
    write_json(cell_results / "study.json", changed)
    assert call(cell_results, "base", "base.json") == 2
    assert "config.json" in capsys.readouterr().err
