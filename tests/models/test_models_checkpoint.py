"""Models on disk: whole, without pickles, and errors that say what to do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from model_variants import VARIANTS, identify, random_ids, small_model

from overtone.errors import UserError
from overtone.models import load_checkpoint, save_checkpoint


@pytest.mark.parametrize("variant", VARIANTS, ids=identify)
def test_every_option_survives(variant: tuple[str, dict], tmp_path: Path) -> None:
    model, ids = small_model(*variant), random_ids(1, 12)
    save_checkpoint(model, tmp_path)
    again = load_checkpoint(tmp_path)
    assert again.config == model.config
    assert again.name == model.name
    with torch.no_grad():
        assert torch.equal(again(ids), model(ids))
    assert all(parameter.requires_grad for parameter in again.parameters())


def test_the_same_model_is_the_same_file(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        save_checkpoint(small_model("harmonic", {}), tmp_path / folder)
    for name in ("config.json", "model.safetensors"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_a_pickle_is_never_read(tmp_path: Path) -> None:
    save_checkpoint(small_model("harmonic", {}), tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path / "pytorch_model.bin")
    with pytest.raises(UserError, match=r"Only safetensors files are read"):
        load_checkpoint(tmp_path)


def test_damage_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"config\.json: not found"):
        load_checkpoint(tmp_path)
    save_checkpoint(small_model("harmonic", {}), tmp_path)
    whole = (tmp_path / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(whole[:-100])
    with pytest.raises(UserError, match="not a whole safetensors file"):
        load_checkpoint(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(whole)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"vocab_size": 38}))
    with pytest.raises(UserError, match=r"weights do not fit config\.json; first at 'embedding\.weight'"):
        load_checkpoint(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(config | {"vocab_size": None}))
    with pytest.raises(UserError, match="vocab_size: None found, int expected"):
        load_checkpoint(tmp_path)
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(UserError, match="model_type '' found"):
        load_checkpoint(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(config | {"model_type": "llama"}))
    with pytest.raises(UserError, match="model_type 'llama' found"):
        load_checkpoint(tmp_path)
