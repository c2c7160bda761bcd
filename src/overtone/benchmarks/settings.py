"""Settings of a benchmark: the defaults of a dataclass, over them study.benchmarks[NAME], over them the flags.

A benchmark runs where the study's cells do, unless its section or a flag names another device. A whole number counts something and
is at least 1, a seed 0; any other number is not negative.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import typing
from typing import TYPE_CHECKING, Any, TypeVar

from overtone.errors import UserError, unknown_name
from overtone.study import Study, load_study
from overtone.training.devices import usable

if TYPE_CHECKING:
    import torch

S = TypeVar("S")
DTYPES = ("bfloat16", "float16", "float32", "float64")


def setting(default: Any, help: str, least: int | None = None) -> Any:
    """A dataclass field with its help text; least: the smallest value, where it is not the usual one."""
    return dataclasses.field(default=default, metadata={"help": help, "least": least})


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
    """The settings of benchmark `name` and the study they come from (None without --study); their device is here."""
    study = load_study(args.study) if getattr(args, "study", None) else None
    given = _of_study(study, name, kind) if study else {}
    for field in dataclasses.fields(kind):  # type: ignore[arg-type]
        value = getattr(args, field.name, None)
        if value is not None:
            given[field.name] = _converted(kind, field.name, value, f"--{field.name.replace('_', '-')}")
    settings = kind(**given)
    if hasattr(settings, "device"):
        usable(settings.device)
    return settings, study


def check_benchmarks(study: Study) -> None:
    """The study's settings of every benchmark, before anything has run; the first mistake is a UserError."""
    from overtone.benchmarks.candidates import candidates_of

    for name in study.benchmarks:
        kind = importlib.import_module(f"overtone.benchmarks.{name}").Settings
        settings = kind(**_of_study(study, name, kind))
        if hasattr(settings, "architectures"):
            candidates_of(settings, study)


def device_name(name: str) -> str:
    """A GPU as its driver names it, else `cpu`."""
    import torch

    return torch.cuda.get_device_name(name) if torch.device(name).type == "cuda" else "cpu"


def numbered(name: str) -> torch.device:
    """The device, a GPU with its number: some of torch.cuda takes no less than `cuda:0`."""
    import torch

    device = torch.device(name)
    return torch.device("cuda", torch.cuda.current_device()) if (device.type, device.index) == ("cuda", None) else device


def _of_study(study: Study, name: str, kind: type[Any]) -> dict[str, Any]:
    """What the study sets of a benchmark, converted."""
    known = [field.name for field in dataclasses.fields(kind)]
    given = dict(study.benchmarks.get(name) or {})
    if "device" in known:
        given.setdefault("device", _device(study))
    for key, value in given.items():
        if key not in known:
            raise unknown_name(f"benchmarks.{name}: key", key, known)
        given[key] = _converted(kind, key, value, f"benchmarks.{name}.{key}")
    return given


def _device(study: Study) -> str:
    """Where the study's cells run: `auto` is a GPU where there is one."""
    if study.data["device"] != "auto":
        return str(study.data["device"])
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def _shown(value: Any) -> str:
    return (" ".join(map(str, value)) if isinstance(value, tuple) else str(value)) or "none"


def _shape(kind: type[Any], name: str) -> tuple[bool, type]:
    """(is a list, element type) of a field annotated T or tuple[T, ...]."""
    annotation = typing.get_type_hints(kind)[name]
    if typing.get_origin(annotation) is tuple:
        return True, typing.get_args(annotation)[0]
    return False, annotation


def _converted(kind: type[Any], key: str, value: Any, where: str) -> Any:
    many, element = _shape(kind, key)
    items = value if many and isinstance(value, list | tuple) else [value]
    right = [
        isinstance(item, (int, float) if element is float else element) and isinstance(item, bool) == (element is bool) for item in items
    ]
    if not all(right) or (many and not items):
        raise UserError(f"{where}: found {value!r}, expected {'a list of ' if many else ''}{element.__name__}.")
    converted = [element(item) for item in items]
    least = kind.__dataclass_fields__[key].metadata["least"]
    if least is None:
        least = 1 if element is int and key != "seed" else 0
    if element in (int, float) and any(item < least for item in converted):
        raise UserError(f"{where}: found {value!r}, expected at least {least}.")
    if key == "dtype" and value not in DTYPES:
        raise unknown_name(where, value, DTYPES)
    return tuple(converted) if many else converted[0]
