"""config.yaml -> (config, study)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from overtone.study.load import Study, load_study
from overtone.study.schema import check


def load_config(raw: Mapping[str, Any], root: Path | None = None) -> tuple[dict[str, Any], Study]:
    """Validate the workflow's config and load the study it names, edits applied. Raises UserError."""
    config: dict[str, Any] = check("config", dict(raw), "config")
    return config, load_study(config["study"], config["edit"], root)
