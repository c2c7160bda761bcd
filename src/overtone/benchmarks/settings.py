"""Settings of a benchmark: the defaults of a dataclass, over them study.benchmarks[NAME], over them the flags.

A benchmark runs where the study's cells do, unless its section or a flag names another device.
"""

from __future__ import annotations

import argparse
import dataclasses
import types
import typing
from typing import Any, TypeVar

from overtone.errors import UserError, unknown_name
from overtone.study import Study, load_study

S = TypeVar("S")


def setting(default: Any, help: str) -> Any:
    """A dataclass field with its help text."""
    return dataclasses.field(default=default, metadata={"help": help})


def add_settings(parser: argparse.ArgumentParser, kind: type[Any]) -> None:
    """One flag a field: `--vocab-size 256`, `--contexts 2048 4096`, `--compile` / `--no-compile`."""
    for field in dataclasses.fields(kind):
        many, element = _shape(kind, field.name)
        options: dict[str, Any] = {"default": None, "help": f"{field.metadata['help']} (default: {_shown(field.default)})"}
        if element is bool:
            options["action"] = argparse.BooleanOptionalAction
        else:
            options |= {"type": element, "metavar": element.__name__.upper()} | ({"nargs": "+"} if many else {})
        parser.add_argument(f"--{field.name.replace('_', '-')}", **options)


def resolve_settings(args: argparse.Namespace, name: str, kind: type[S]) -> tuple[S, Study | None]:
    """The settings of benchmark `name` and the study they come from (None without --study)."""
    study = load_study(args.study) if getattr(args, "study", None) else None
    given = dict(study.benchmarks.get(name) or {}) if study else {}
    known = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    where = f"benchmarks.{name}"
    if study and "device" in known:
        given.setdefault("device", _device(study))
    for key, value in given.items():
        if key not in known:
            raise unknown_name(f"{where}: key", key, known)
        given[key] = _converted(kind, key, value, where)
    for key in known:
        value = getattr(args, key, None)
        if value is not None:
            given[key] = _converted(kind, key, value, f"--{key.replace('_', '-')}")
    return kind(**given), study


def _device(study: Study) -> str:
    """Where the study's cells run: `auto` is a GPU where there is one."""
    if study.data["device"] != "auto":
        return str(study.data["device"])
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def _shown(value: Any) -> str:
    return (" ".join(map(str, value)) if isinstance(value, tuple) else str(value)) or "none"


def _shape(kind: type[Any], name: str) -> tuple[bool, type]:
    """(is a list, element type) of a field annotated T, T | None or tuple[T, ...]."""
    annotation = typing.get_type_hints(kind)[name]
    if typing.get_origin(annotation) is tuple:
        return True, typing.get_args(annotation)[0]
    if isinstance(annotation, types.UnionType):
        annotation = next(part for part in typing.get_args(annotation) if part is not type(None))
    return False, annotation


def _converted(kind: type[Any], key: str, value: Any, where: str) -> Any:
    many, element = _shape(kind, key)
    items = value if many and isinstance(value, list | tuple) else [value]
    right = [
        isinstance(item, (int, float) if element is float else element) and isinstance(item, bool) == (element is bool) for item in items
    ]
    if value is None and not many:
        return None
    if not all(right) or (many and not items):
        raise UserError(f"{where}{'' if where.startswith('--') else '.' + key}: found {value!r}, expected "
                        f"{'a list of ' if many else ''}{element.__name__}.")
    converted = [element(item) for item in items]
    if element in (int, float) and any(item < 0 for item in converted):
        raise UserError(f"{where}{'' if where.startswith('--') else '.' + key}: found {value!r}, expected no negative number.")
    return tuple(converted) if many else converted[0]
