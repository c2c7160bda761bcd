"""metrics.json of a cell: one shape for every outcome, checked against its schema before it is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from overtone.files import write_json
from overtone.study import Cell
from overtone.study.schema import check
from overtone.training.plan import Plan
from overtone.training.run import RunState


def cell_metrics(
    cell: Cell,
    plan: Plan,
    run: RunState,
    *,
    status: str,
    failure: dict[str, Any] | None,
    rate: float,
    parameters: dict[str, int],
    flops_per_token: float,
    tokens: dict[str, str],
    evaluation: dict[str, Any],
    diagnostics_after: dict[str, Any],
    weights: dict[str, str] | None,
    measured: dict[str, Any],
    environment: dict[str, Any],
) -> dict[str, Any]:
    """The metrics of a cell that ended `ok`, `oom` or `diverged`. flops_per_token: of training, forward and backward."""
    return {
        "schema": 1,
        "status": status,
        "failure": failure,
        "key": cell.key,
        "hash": cell.hash,
        "cell": cell.coordinates,
        "config": cell.config(),
        "parameters": parameters,
        "budget": plan.budget,
        "tokens_seen": run.tokens,
        "training_flops": flops_per_token * run.tokens,
        "steps": run.step,
        "lr": rate,
        "plan": {"digest": plan.digest, "windows": plan.windows, "consumed": run.windows},
        "tokens": tokens,
        "evaluation": evaluation,
        "curve": run.curve,
        "validation_curve": run.validation_curve,
        "diagnostics": {"before": run.diagnostics_before, "after": diagnostics_after},
        "weights": weights,
        "measured": measured,
        "environment": environment,
    }


def write_metrics(path: Path, metrics: dict[str, Any]) -> None:
    """Check against workflow/schemas/metrics.schema.json, then write atomically."""
    check("metrics", metrics, path.name)
    write_json(path, metrics)
