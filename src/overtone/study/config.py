"""config.yaml -> (config, study)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from overtone.study.load import Study, load_study
from overtone.study.schema import check


def load_config(raw: Mapping[str, Any], root: Path | None = None) -> tuple[dict[str, Any], Study]:
    """Validate the workflow's config and load the study it names, edits applied. Raises UserError."""
    config: dict[str, Any] = check("config", dict(raw) | {"edit": typed(raw.get("edit", {}))}, "config")
    return config, load_study(config["study"], config["edit"], root)


def typed(value: Any) -> Any:
    """Numbers, booleans and nulls from their words: Snakemake reads every scalar of `--config edit={...}` as text."""
    if isinstance(value, Mapping):
        return {key: typed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [typed(item) for item in value]
    if not isinstance(value, str):
        return value
    try:
        word = yaml.safe_load(value)
    except yaml.YAMLError:
        return value
    return word if word is None or isinstance(word, bool | int | float) else value
