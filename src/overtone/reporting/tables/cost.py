"""cost: what the study took, by experiment and architecture: cells, tokens, FLOPs, hours, dollars.

FLOPs are each run's own `training_flops`: three forward passes of matrices, head and mixer (attention's scores, recurrences) at its
length. A cell that several experiments share is counted in the first of them. A transplant's hours are those of its training steps.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from overtone.reporting import formats
from overtone.reporting.collect import Results
from overtone.reporting.rows import records
from overtone.reporting.tables.table import Table, not_measured

COLUMNS = ["what", "architecture", "cells", "failed", "tokens", "flops", "hours", "dollars"]
_HEADER = ["What", "Architecture", "Runs", "of them oom or diverged", "Tokens", "FLOPs", "Process hours", "Dollars"]


def build(name: str, results: Results) -> Table:
    """Cells by experiment, sweeps, transplants."""
    price = float(results.study.data["price_per_hour"])
    rows: list[dict[str, Any]] = []
    counted: set[str] = set()
    for experiment in results.study.experiments:
        cells = results.cells(experiment)
        rows += _cells(experiment, cells[~cells["key"].isin(counted)])
        counted |= set(cells["key"])
    everything = results.cells("*")
    rows += _cells("transplant bases", everything[~everything["key"].isin(counted)])
    rows += _cells("lr_sweep", results.sweep())
    for transplant, parts in results.transplants().items():
        rows += [{"what": f"transplant {transplant}", "architecture": f"{phase['variant']}, phase {phase['phase']}", "cells": 1,
                  "failed": 0, "tokens": phase["tokens"], "hours": phase["seconds"] / 3600,
                  "price": results.price_of_transplant(transplant)} for phase in parts["phases"]]
    if not rows:
        return not_measured(f"study {results.study.name} trains nothing; add one to its experiments.", COLUMNS)
    data = pd.DataFrame(rows, columns=COLUMNS)
    data["dollars"] = [row["hours"] * row.get("price", price) for row in rows]
    shown = [_row(row) for row in records(data)]
    total = {"what": "together", "architecture": None} | {column: data[column].sum() for column in COLUMNS[2:]}
    devices = ", ".join(sorted({device for device in everything["device"] if device})) or "no device recorded"
    return Table(
        data, _HEADER, [*shown, _row(total)],
        f"Every run of study {results.study.name} on {devices}; processes ran side by side, so the hours are not wall time.",
        ["FLOPs: three forward passes a training token, attention scores and recurrences included; norms, activations and evaluation are "
         "not. ResonatorLM is counted by its recurrence, though it trains by FFT, which takes more. Transplants: not counted.",
         "Hours of cells include their evaluation, those of transplants do not.",
         f"Dollars at {price:g} an hour of the device (price_per_hour of the study; a transplant may have its own)."],
    )


def _cells(what: str, cells: pd.DataFrame) -> list[dict[str, Any]]:
    rows = []
    for architecture in sorted(set(cells["architecture"]), key=formats.architecture_order):
        own = cells[cells["architecture"] == architecture]
        rows.append({
            "what": what, "architecture": architecture, "cells": len(own), "failed": int((own["status"] != "ok").sum()),
            "tokens": int(own["tokens_seen"].sum()), "flops": float(own["training_flops"].astype(float).sum()),
            "hours": float(own["wall_s"].astype(float).sum()) / 3600,
        })
    return rows


def _row(row: dict[str, Any]) -> list[str]:
    architecture = row["architecture"]
    return [row["what"], formats.ABSENT if formats.absent(architecture) else formats.architecture(architecture), f"{row['cells']:.0f}",
            f"{row['failed']:.0f}", formats.count(row["tokens"]), formats.count(row["flops"]), formats.number(row["hours"]),
            formats.number(row["dollars"])]
