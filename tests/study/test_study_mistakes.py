"""Mistakes in a study file: one line that names the key, never a traceback."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from overtone.cli import main
from overtone.errors import UserError
from overtone.study import load_study


@pytest.mark.parametrize(("edit", "told"), [
    ({"protocols": {"harmonic": {"weight_decay": float("nan")}}}, "protocols.harmonic.weight_decay: nan"),
    ({"split": {"validation": float("nan")}}, "split.validation: nan"),
    ({"price_per_hour": float("inf")}, "price_per_hour: inf"),
    ({"lr_sweep": {"harmonic": {"rates": [0.1, float("inf")]}}}, "lr_sweep.harmonic.rates.1: inf"),
    ({"experiments": {"crossover": {"seeds": [2**63]}}}, "seeds.0: found 9223372036854775808, expected at most"),
])
def test_numbers_that_are_none_or_too_large(edit: dict[str, object], told: str) -> None:
    with pytest.raises(UserError) as caught:
        load_study("smoke", edit)
    assert told in str(caught.value)


@pytest.mark.parametrize(("text", "told"), [
    ("? [a, b]\n: 1\n", "a key is a word or a number"),
    ("study: {{name}}\n", "a key is a word or a number"),
    ("a: &a {b: *a}\n", "not valid YAML"),
    ("[" * 5000, "not valid YAML"),
    ("study: .nan\n", "study: nan found, a finite number expected"),
])
def test_yaml_that_is_no_study(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(UserError) as caught:
        load_study(str(path))
    assert told in str(caught.value)


def test_json_that_only_python_reads(tmp_path: Path) -> None:
    path = tmp_path / "study.json"
    path.write_text(json.dumps({"price_per_hour": float("nan")}))
    with pytest.raises(UserError, match="NaN is no number of JSON"):
        load_study(str(path))


@pytest.mark.parametrize(("words", "told"), [
    (["plan", "--study", "smoke", "--price", "nan"], "--price: nan"),
    (["params", "--arch", "harmonic", "--hidden", "100000000000", "--vocab", "256"], "no such model can be built"),
    (["train", "--cell", "{}", "--tokens", "x", "--state", "x", "--out", "x", "--gpus", "-1"], "--gpus: -1"),
    (["generate", "--checkpoint", "nowhere", "--prompt", "a"], "no model folder"),
])
def test_options_out_of_range(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert told in capsys.readouterr().err
