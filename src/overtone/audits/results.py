"""What a study has left to audit: metrics of finished cells, checkpoints of cells and transplants. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from overtone.errors import UserError
from overtone.study import Cell, Study, study_cells
from overtone.study.schema import read_metrics

LEAKY = "leaky"  # the kind of block that every audit of a model must flag


@dataclass(frozen=True)
class FinishedCell:
    """A cell with its metrics.json."""

    cell: Cell
    metrics: Mapping[str, Any]
    folder: Path

    @property
    def ok(self) -> bool:
        """Whether it trained to the end."""
        return bool(self.metrics["status"] == "ok")


def finished_cells(study: Study, results: Path) -> tuple[list[FinishedCell], list[str]]:
    """Cells of the study that have metrics, and remarks on those that have none or did not end ok. UserError if there is none."""
    cells, missing = [], []
    for cell in study_cells(study):
        folder = results / "cells" / cell.key
        if (folder / "metrics.json").is_file():
            cells.append(FinishedCell(cell, read_metrics(folder / "metrics.json"), folder))
        else:
            missing.append(cell.key)
    if not cells:
        raise UserError(f"{results / 'cells'}: no finished cell of study {study.name!r}. Train first (snakemake --cores all).")
    notes = [f"{item.cell.key} ended as {item.metrics['status']}" for item in cells if not item.ok]
    if missing:
        notes.append(f"{len(missing)} of {len(cells) + len(missing)} cells are not finished, the first is {missing[0]}")
    return cells, notes


@dataclass(frozen=True)
class Checkpoint:
    """A folder with a model. `control`: known to be wrong, so an audit must flag it."""

    subject: str
    folder: Path
    transplant: bool = False
    control: bool = False


def checkpoints(study: Study, results: Path) -> tuple[list[Checkpoint], list[str]]:
    """Every model that the study keeps: cells that ended ok, then transplants; with remarks. UserError if there is none."""
    found: list[Checkpoint] = []
    notes: list[str] = []
    if study.experiments:
        cells, notes = finished_cells(study, results)
        lost = [item.cell.key for item in cells if item.ok and not (item.folder / "model" / "config.json").is_file()]
        if lost:
            raise UserError(f"{results / 'cells' / lost[0]}: ended ok but has no model/. Run that cell again ({len(lost)} such cells).")
        found = [Checkpoint(item.cell.key, item.folder / "model") for item in cells if item.ok]
    for folder in sorted((results / "transplants").glob("*/*/model")):
        name, variant = folder.parts[-3], folder.parts[-2]
        if name in study.transplants and variant in study.transplants[name]["variants"]:
            found.append(Checkpoint(f"transplants/{name}/{variant}", folder, True, is_control(study, name, variant)))
    for name in sorted(study.transplants):
        if not any(item.control and item.subject.startswith(f"transplants/{name}/") for item in found):
            notes.append(f"transplant {name} has no {LEAKY} control with a saved model: nothing shows here that a leak would be seen")
    if not found:
        raise UserError(f"{results}: no model to audit. Train first (snakemake --cores all).")
    return found, notes


def is_control(study: Study, name: str, variant: str) -> bool:
    """Whether the study calls a variant a control, or gives it the leaky block."""
    item = study.transplants[name]
    settings = item["variants"][variant]
    block = {**(item.get("block") or {}), **(settings.get("block") or {})}
    return bool(settings.get("control")) or block.get("kind") == LEAKY
