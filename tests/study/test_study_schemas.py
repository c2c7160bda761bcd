"""The schemas themselves: they are read without being checked, since each verb reads one."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from overtone.study.schema import SCHEMAS


@pytest.mark.parametrize("path", sorted(SCHEMAS.glob("*.json")), ids=lambda path: path.stem)
def test_a_schema_is_one_of_its_draft(path: Path) -> None:
    definition = json.loads(path.read_text(encoding="utf-8"))
    assert definition["$schema"] == jsonschema.Draft202012Validator.META_SCHEMA["$id"]
    jsonschema.Draft202012Validator.check_schema(definition)
