"""A model on disk in the Hugging Face layout: config.json and model.safetensors. No pickle is written or read.

The same folder loads with `load_checkpoint` (needs no transformers) and, after `import overtone`, with
`AutoModelForCausalLM.from_pretrained`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from overtone.errors import UserError
from overtone.files import StrPath, atomic_path, read_json, write_json
from overtone.models.base import LanguageModel
from overtone.models.checkpoint_names import TYPE_PREFIX, WEIGHT_PREFIX, class_stem
from overtone.models.registry import build_model


def config_dict(model: LanguageModel) -> dict[str, Any]:
    """What config.json says of a model."""
    options = model.config.to_dict()
    return {
        "model_type": TYPE_PREFIX + model.name,
        "architectures": [f"{class_stem(model.name)}ForCausalLM"],
        "vocab_size": options.pop("vocab_size"),
        "hidden_size": options.pop("hidden"),
        "options": options,
        "dtype": str(model.embedding.weight.dtype).removeprefix("torch."),
    }


def save_checkpoint(model: LanguageModel, directory: StrPath) -> None:
    """Write model.safetensors, then config.json; each is whole or absent."""
    folder = Path(directory)
    tensors = {WEIGHT_PREFIX + name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    with atomic_path(folder / "model.safetensors") as temporary:
        save_file(tensors, temporary, metadata={"format": "pt"})
    write_json(folder / "config.json", config_dict(model))


def load_checkpoint(directory: StrPath) -> LanguageModel:
    """The model of a folder written by `save_checkpoint` or `save_pretrained`, on the CPU, in the dtype it was stored in."""
    folder = Path(directory)
    model = model_of_config(folder / "config.json")
    tensors = _tensors(folder)
    expected = model.state_dict()
    wrong = sorted(set(expected) ^ set(tensors)) or [name for name in expected if expected[name].shape != tensors[name].shape]
    if wrong:
        raise UserError(f"{folder}: the weights do not fit config.json; first at {wrong[0]!r}. The folder mixes two models: save it again.")
    model.load_state_dict(tensors, assign=True)
    return model


def model_of_config(path: StrPath) -> LanguageModel:
    """A model with random weights as config.json describes it, also on the meta device; UserError where it describes none of ours."""
    config = read_json(path)
    kind = str(config.get("model_type", "")) if isinstance(config, dict) else ""
    if not kind.startswith(TYPE_PREFIX):
        raise UserError(f"{path}: model_type {kind!r} found, one that starts with {TYPE_PREFIX!r} expected. "
                        "Load other models with transformers.")
    for key, wanted in (("vocab_size", int), ("hidden_size", int), ("options", dict)):
        if not isinstance(config.get(key), wanted):
            raise UserError(f"{path}: {key}: {config.get(key)!r} found, {wanted.__name__} expected. Save the model again.")
    return build_model(kind.removeprefix(TYPE_PREFIX), vocab_size=config["vocab_size"], hidden=config["hidden_size"], **config["options"])


def _tensors(folder: Path) -> dict[str, torch.Tensor]:
    files = sorted(folder.glob("*.safetensors"))  # several where transformers split a large model
    if not files:
        raise UserError(f"{folder}: no model.safetensors found. Only safetensors files are read; pickled weights can run code.")
    tensors: dict[str, torch.Tensor] = {}
    for file in files:
        try:
            with safe_open(file, framework="pt") as opened:
                # A copy is aligned in memory; the file's own is not, and sums over it would round differently.
                tensors |= {name.removeprefix(WEIGHT_PREFIX): opened.get_tensor(name).clone() for name in opened.keys()}  # noqa: SIM118
        except SafetensorError as error:
            raise UserError(f"{file}: not a whole safetensors file ({error}). Delete it and run the stage that makes it again.") from error
    return tensors
