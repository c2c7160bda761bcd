"""`overtone params` and `overtone generate`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from model_variants import small_model

from overtone.cli import main
from overtone.corpora.tokenizers import ByteTokenizer
from overtone.errors import UserError
from overtone.files import write_json
from overtone.models import build_model, save_checkpoint
from overtone.models.tokenizer_files import save_hf_tokenizer
from overtone.verbs.generate import stream_text
from overtone.verbs.params import parse_options


def test_params_prints_the_count_by_part(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["params", "--arch", "harmonic", "--hidden", "256", "--vocab", "50257"]) == 0
    lines = dict(line.rsplit(maxsplit=1) for line in capsys.readouterr().out.splitlines() if not line.startswith("-"))
    assert lines["total"] == "27,965,952"
    assert lines["levels.predict"] == f"{2 * 256 * 256:,}"


def test_params_as_json_with_options(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["params", "--arch", "harmonic", "--hidden", "512", "--vocab", "50257", "--json"]
    assert main([*words, "--option", "tied=true", "--option", "timescales=[4, 40, 400]"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["total"] == 34_656_768 == sum(told["parts"].values())
    assert told["config"]["timescales"] == [4, 40, 400]


def test_params_of_a_matched_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["params", "--arch", "mamba", "--hidden", "256", "--vocab", "50257", "--match", "harmonic", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["total"] == pytest.approx(27_965_952, rel=0.02)


def test_params_tells_mistakes_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["params", "--arch", "harmonick", "--hidden", "8", "--vocab", "8"]) == 2
    assert "Did you mean 'harmonic'" in capsys.readouterr().err
    with pytest.raises(UserError, match="KEY=VALUE expected"):
        parse_options(["tied"])
    assert parse_options(["a=true", "b=[1, 2]", "c=sdpa", "d=0.5"]) == {"a": True, "b": [1, 2], "c": "sdpa", "d": 0.5}


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A cell's folder: model/ with weights and tokenizer."""
    write_json(tmp_path / "tokens/tokenizer.json", {"kind": "bytes", "vocab_size": 256, "digest": ByteTokenizer.digest})
    save_checkpoint(build_model("harmonic", vocab_size=256, hidden=16, seed=0), tmp_path / "model")
    save_hf_tokenizer(tmp_path / "tokens", tmp_path / "model")
    return tmp_path


def test_generate_streams_text_that_follows_the_seed(checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def text(*words: str) -> str:
        assert main(["generate", "--checkpoint", str(checkpoint), "--prompt", "Über", "--max-tokens", "24", *words]) == 0
        return capsys.readouterr().out

    assert text("--temperature", "1", "--seed", "1") == text("--temperature", "1", "--seed", "1")
    assert text("--temperature", "1", "--seed", "1") != text("--temperature", "1", "--seed", "2")
    assert text() == text("--tokens", str(checkpoint / "tokens"))  # the study's own tokenizer: the same ids


def test_generate_runs_what_transformers_loads(tmp_path: Path, checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    LlamaForCausalLM(LlamaConfig(vocab_size=256, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
                                 eos_token_id=None)).save_pretrained(tmp_path / "llama")
    save_hf_tokenizer(checkpoint / "tokens", tmp_path / "llama")
    assert main(["generate", "--checkpoint", str(tmp_path / "llama"), "--prompt", "ab", "--max-tokens", "5", "--temperature", "0.7"]) == 0
    assert len(capsys.readouterr().out) > 1


def test_generate_without_a_tokenizer_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_checkpoint(small_model("harmonic", {}), tmp_path)
    assert main(["generate", "--checkpoint", str(tmp_path), "--prompt", "a"]) == 2
    assert "--tokens" in capsys.readouterr().err


@pytest.mark.parametrize(("flag", "value"), [("--seed", str(2**64)), ("--seed", "-1"), ("--max-tokens", "0")])
def test_generate_refuses_a_number_in_one_line(flag: str, value: str, checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "--checkpoint", str(checkpoint), "--prompt", "a", flag, value]) == 2
    said = capsys.readouterr().err
    assert f"{flag}: {value} found" in said
    assert len(said.strip().splitlines()) == 1


def test_text_is_streamed_in_whole_characters() -> None:
    ids = [*"aé漢🙂b".encode(), 0xFF, 0x61, 0xC3]
    pieces = list(stream_text(ids, lambda some: bytes(some).decode("utf-8", "replace")))
    assert pieces[:5] == ["a", "é", "漢", "🙂", "b"]
    assert "".join(pieces[5:]) == "\ufffda\ufffd"
