"""Architectures by name: ours, and third parties' through the entry point group `overtone.architectures`."""

from __future__ import annotations

import importlib
import sys
from functools import cache
from importlib import metadata
from types import UnionType
from typing import TYPE_CHECKING, Any, Union, cast, get_args, get_origin, get_type_hints

from overtone.errors import UserError, unknown_name

if TYPE_CHECKING:
    from overtone.models.base import LanguageModel
    from overtone.study.cells import Cell

GROUP = "overtone.architectures"
_OURS = {
    "harmonic": "overtone.models.harmonic:Harmonic",
    "transformer": "overtone.models.transformer:Transformer",
    "llama": "overtone.models.llama:Llama",
    "mamba": "overtone.models.mamba:Mamba",
    "resonator": "overtone.models.resonator:Resonator",
}
_registered: dict[str, type[LanguageModel]] = {}


def register(architecture: type[LanguageModel]) -> type[LanguageModel]:
    """Add a class under its `name` in this process (a class decorator). Installed packages use the entry point group instead."""
    known = _registered.get(architecture.name)
    if architecture.name in _OURS or (known is not None and known.__qualname__ != architecture.__qualname__):
        raise UserError(f"architecture {architecture.name!r} is registered already; choose another name.")
    _registered[architecture.name] = architecture
    if "overtone.models.hf" in sys.modules:  # transformers' Auto classes are to know it too
        sys.modules["overtone.models.hf"].register_auto_classes()
    return architecture


@cache
def _entry_points() -> dict[str, metadata.EntryPoint]:
    return {point.name: point for point in metadata.entry_points(group=GROUP) if point.name not in _OURS}


def architecture_names() -> list[str]:
    """Every registered name, sorted."""
    return sorted({*_OURS, *_entry_points(), *_registered})


def architecture(name: str) -> type[LanguageModel]:
    """The class registered as `name`; an unknown name is a UserError that offers the nearest."""
    if name in _OURS:
        module, _, attribute = _OURS[name].partition(":")
        return cast("type[LanguageModel]", getattr(importlib.import_module(module), attribute))
    if name in _registered:
        return _registered[name]
    if name not in _entry_points():
        raise unknown_name("architecture", name, architecture_names())
    point = _entry_points()[name]
    try:
        found = point.load()
    except Exception as error:
        raise UserError(f"architecture {name!r}: {point.value} cannot be imported ({error}). Repair or remove the package.") from error
    if getattr(found, "name", None) != name:
        raise UserError(f"architecture {name!r}: {point.value} has name {getattr(found, 'name', None)!r}; both must be the same.")
    return cast("type[LanguageModel]", found)


def build_model(name: str, *, vocab_size: int, hidden: int, seed: int | None = None, **options: Any) -> LanguageModel:
    """A new model with random weights.

    With `seed` the weights depend on it alone and the global generator stays as it was; without, they come from torch's
    global generator. Works under `torch.device("meta")`. An unknown name or option is a UserError.
    """
    import torch

    found = architecture(name)
    for option in options:
        if option not in found.Config.option_names():
            raise unknown_name(f"{name}: option", option, found.Config.option_names())
    hints = get_type_hints(found.Config)
    for option, value in options.items():
        if not _fits(value, hints[option]):
            hint = hints[option]
            expected = str(hint).replace("None", "null") if get_args(hint) else hint.__name__
            raise UserError(f"{name}: {option}: {value!r} found, {expected} expected.")
    for key, size in (("vocab_size", vocab_size), ("hidden", hidden)):
        if size < 1:
            raise UserError(f"{name}: {key}: {size} found, at least 1 expected.")
    config = found.Config(vocab_size=vocab_size, hidden=hidden, **options)
    if seed is None:
        return found(config)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return found(config)


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value read from YAML or JSON is of an option's type: whole numbers pass for float, lists for tuple, bool only for bool."""
    if get_origin(hint) in (Union, UnionType):
        return any(_fits(value, part) for part in get_args(hint))
    if get_origin(hint) is tuple:
        parts = get_args(hint)
        if not isinstance(value, list | tuple):
            return False
        wanted = parts[:1] * len(value) if parts[-1] is Ellipsis else parts
        return len(value) == len(wanted) and all(map(_fits, value, wanted))
    if isinstance(value, bool) or hint is bool:
        return isinstance(value, bool) and hint is bool
    return isinstance(value, (int, float) if hint is float else hint)


def build_for_cell(cell: Cell, vocab_size: int) -> LanguageModel:
    """The model of a cell: its options, sized to the architecture it is matched with, weights from the cell's seed."""
    from overtone.models.matching import matched_dimensions

    config = cell.config()
    hidden, options = config["hidden"], config["options"]
    if cell.match is not None and cell.match != cell.model:
        hidden, options = matched_dimensions(cell.model, reference=cell.match, vocab_size=vocab_size, hidden=hidden, options=options)
    return build_model(cell.model, vocab_size=vocab_size, hidden=hidden, seed=cell.seed, **options)
