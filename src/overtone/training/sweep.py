"""Picking a learning rate from the trials of a sweep. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from overtone.errors import UserError


def choose_rate(trials: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Choose among trial metrics (metrics.json of one architecture, one protocol, different rates) by `best_rate`.

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
    chosen = best_rate([(row["rate"], row["validation_bpt"]) for row in rows])
    return {
        "architecture": found[0]["cell"]["architecture"],
        "protocol": found[0]["cell"]["protocol"],
        "trials": rows,
        "chosen": chosen,
        "edge": chosen in (rates[0], rates[-1]),
    }


def best_rate(trials: Iterable[tuple[float, float | None]]) -> float:
    """Of (rate, validation bpt; None for a trial that did not end `ok`): the rate with the lowest bpt, of equal ones the lowest rate.

    Where none ended `ok`, the lowest rate tried: it is the least likely to diverge, and the cells then tell their own outcome.
    """
    found = list(trials)
    ended = [(bpt, rate) for rate, bpt in found if bpt is not None]
    return min(ended)[1] if ended else min(rate for rate, _ in found)


def _validation_bpt(trial: Mapping[str, Any]) -> float | None:
    return float(trial["evaluation"]["validation"]["bpt"]) if trial["status"] == "ok" else None
