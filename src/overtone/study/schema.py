"""JSON schemas of studies, config, claims and results, with errors that name key, value and what is allowed."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema

from overtone.errors import UserError, unknown_name
from overtone.files import StrPath, read_json

SCHEMAS = Path(__file__).resolve().parents[3] / "workflow" / "schemas"
PROTOCOL = ("properties", "protocols", "additionalProperties")  # where the schema of a study describes one
# JSON knows one kind of number, so the standard takes 2048.0 for an integer; a range or a tensor's size does not.
_TYPES = jsonschema.Draft202012Validator.TYPE_CHECKER.redefine(
    "integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool)
)
_Validator = jsonschema.validators.extend(jsonschema.Draft202012Validator, type_checker=_TYPES)


@cache
def schema(name: str, *part: str) -> dict[str, Any]:
    """The schema workflow/schemas/NAME.schema.json, or the part of it under these keys."""
    loaded: dict[str, Any] = json.loads((SCHEMAS / f"{name}.schema.json").read_text(encoding="utf-8"))
    for key in part:
        loaded = loaded[key]
    return loaded


@cache
def _validator(name: str, *part: str) -> Any:
    return _Validator(schema(name, *part))


def check(name: str, value: Any, where: str, part: Sequence[str] = ()) -> Any:
    """Validate `value` against schema NAME (or a part of it that needs no other); returns a copy with the defaults filled in.

    Raises UserError with the first problem: `where: key: found; allowed; nearest valid name`.
    """
    filled = copy.deepcopy(value)
    _fill(schema(name, *part), filled, schema(name))
    problems = sorted(_validator(name, *part).iter_errors(filled), key=lambda problem: [str(part) for part in problem.absolute_path])
    if problems:
        raise _explain(problems[0], where)
    return filled


def read_metrics(path: StrPath) -> dict[str, Any]:
    """A cell's metrics.json. One that is missing, damaged or lacks a key is a UserError; `check` would look at every number, too."""
    found = read_json(path)
    missing = [key for key in schema("metrics")["required"] if not isinstance(found, dict) or key not in found]
    if missing:
        raise UserError(f"{path}: the key {missing[0]!r} is missing: damaged, or of an older version. Run snakemake, which makes it again.")
    known = schema("metrics", "properties", "status")["enum"]
    if found["status"] not in known:
        raise UserError(f"{path}: status {found['status']!r}, expected one of {', '.join(known)}. Run it again.")
    return dict(found)


def _resolve(definition: Any, root: dict[str, Any]) -> dict[str, Any]:
    while isinstance(definition, dict) and "$ref" in definition:
        target: Any = root
        for part in definition["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        definition = target
    return definition if isinstance(definition, dict) else {}


def _fill(definition: Any, value: Any, root: dict[str, Any]) -> None:
    definition = _resolve(definition, root)
    if isinstance(value, list):
        for item in value:
            _fill(definition.get("items"), item, root)
    if not isinstance(value, dict):
        return
    properties = definition.get("properties", {})
    for key, sub in properties.items():
        sub = _resolve(sub, root)
        if key not in value and "default" in sub:
            value[key] = copy.deepcopy(sub["default"])
        if key in value:
            _fill(sub, value[key], root)
    extra = definition.get("additionalProperties")
    if isinstance(extra, dict):
        for key in value:
            if key not in properties:
                _fill(extra, value[key], root)


def _explain(problem: Any, where: str) -> UserError:
    while problem.context:
        problem = problem.context[0]
    key = ".".join(str(part) for part in problem.absolute_path)
    place = f"{where}: {key}" if key else where
    found = json.dumps(problem.instance, default=str)
    found = found if len(found) <= 80 else found[:77] + "..."
    rule = problem.validator
    if rule == "additionalProperties":
        known = problem.schema.get("properties", {})
        extra = sorted(set(problem.instance) - set(known))
        return unknown_name(f"{place}: key", extra[0], known) if extra else UserError(f"{place}: {problem.message}")
    if rule == "required":
        missing = sorted(set(problem.validator_value) - set(problem.instance))
        return UserError(f"{place}: the key {missing[0]!r} is missing. Add it; required here: {', '.join(problem.validator_value)}.")
    if rule == "enum":
        return unknown_name(place, problem.instance, [str(item) for item in problem.validator_value])
    if rule == "type":
        return UserError(f"{place}: found {found}, expected {problem.validator_value}.")
    limits = {"minimum": "at least", "maximum": "at most", "exclusiveMinimum": "more than", "exclusiveMaximum": "less than",
              "pattern": "a value of the form"}
    if rule in ("minItems", "minProperties"):
        return UserError(f"{place}: found {found}, expected at least {problem.validator_value} of them.")
    if rule == "uniqueItems":
        return UserError(f"{place}: found {found}, expected each item once.")
    if rule in limits:
        return UserError(f"{place}: found {found}, expected {limits[rule]} {problem.validator_value}.")
    return UserError(f"{place}: {problem.message if len(problem.message) <= 160 else f'found {found}, against {rule} of the schema'}.")
