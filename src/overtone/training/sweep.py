"""Picking a learning rate from the trials of a sweep. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from overtone.errors import UserError


def choose_rate(trials: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Choose among trial metrics (metrics.json of one architecture, one protocol, different rates).

    The rate with the lowest validation bpt of the trials that ended `ok`; of equal ones the lowest rate. Where none
    did, the lowest rate tried: it is the least likely to diverge, and the cells then tell their own outcome.
    `edge`: the choice is the smallest or largest rate tried, so a better one may lie outside the grid.
    """
    found = list(trials)
    if not found:
        raise UserError("choose-rate: no trials. Give the metrics.json of every trial of one architecture.")
    for name in ("architecture", "protocol"):
        values = sorted({str(trial["cell"][name]) for trial in found})
        if len(values) > 1:
            raise UserError(f"choose-rate: trials of more than one {name}: {', '.join(values)}. Give those of one.")
    budgets = sorted({int(trial["budget"]) for trial in found})
    if len(budgets) > 1:
        raise UserError(f"choose-rate: trials with different budgets {budgets}: they cannot be compared.")
    rows = sorted(
        (
            {"rate": float(trial["lr"]), "status": trial["status"], "validation_bpt": _validation_bpt(trial)}
            for trial in found
        ),
        key=lambda row: row["rate"],
    )
    rates = [row["rate"] for row in rows]
    if len(set(rates)) < len(rates):
        raise UserError(f"choose-rate: a rate was tried twice in {rates}. Give each trial once.")
    ended = [row for row in rows if row["validation_bpt"] is not None]
    chosen = min(ended, key=lambda row: (row["validation_bpt"], row["rate"]))["rate"] if ended else rates[0]
    return {
        "architecture": found[0]["cell"]["architecture"],
        "protocol": found[0]["cell"]["protocol"],
        "trials": rows,
        "chosen": chosen,
        "edge": chosen in (rates[0], rates[-1]),
    }


def _validation_bpt(trial: Mapping[str, Any]) -> float | None:
    return float(trial["evaluation"]["validation"]["bpt"]) if trial["status"] == "ok" else None
