"""papers/reported.yaml, what the papers report, and how the YAML under papers/ is read."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from overtone.errors import UserError
from overtone.study.load import UniqueKeyLoader, check_finite, workflow_root


@cache
def load_reported(path: Path | None = None) -> Mapping[str, Any]:
    """papers/reported.yaml: paper -> its numbers."""
    path = path or workflow_root() / "papers" / "reported.yaml"
    loaded = read_yaml(path)
    if not isinstance(loaded, dict):
        raise UserError(f"{path}: expected a mapping of papers.")
    return loaded


def read_yaml(path: Path) -> Any:
    """The content of a file of papers/; UserError where it is missing or damaged."""
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), UniqueKeyLoader)
        check_finite(content, str(path))
        return content
    except FileNotFoundError:
        raise UserError(f"{path}: not found. Run from a checkout of the workflow, which carries papers/.") from None
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        raise UserError(f"{path}: not valid YAML ({' '.join(str(error).split())}).") from None
