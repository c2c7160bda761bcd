"""What a study measures besides its cells. Benchmarks, most audits and diagnostics are about cells: transplants alone need none."""

from __future__ import annotations

from overtone.study.cells import Cell, experiment_cells
from overtone.study.load import Study

MODEL_AUDITS = ("causality", "entropy")  # of any saved model; the others compare cells


def measured_benchmarks(study: Study) -> list[str]:
    """Benchmarks that the study runs."""
    return sorted(study.benchmarks) if study.experiments else []


def measured_audits(study: Study) -> list[str]:
    """Audits that the study runs."""
    if study.experiments:
        return list(study.audits)
    return [name for name in MODEL_AUDITS if name in study.audits] if study.transplants else []


def diagnosed_cells(study: Study) -> list[Cell]:
    """The ResonatorLM cells of the experiment `quality`, one of which is diagnosed."""
    return [cell for cell in experiment_cells(study, "quality") if cell.model == "resonator"]
