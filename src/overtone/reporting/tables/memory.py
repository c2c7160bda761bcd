"""memory_wall: peak training memory by length, the longest length that trains under a limit, and a model of an 80 GB card.

Rows of kind `peak` (a training step at one length), `longest` (under the limit), `modelled` (from the measured slope), `cell`
(peak of the study's own runs) and `published` (the logs' profile).
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from overtone.reporting import formats
from overtone.reporting.collect import Results, each
from overtone.reporting.tables import published
from overtone.reporting.tables.table import Table, not_measured

COLUMNS = ["kind", "architecture", "attention", "length", "status", "peak_bytes", "limit_bytes", "seed"]
_HEADER = ["What", "Architecture", "Attention", "Length (tokens)", "Peak memory", "Limit", "Outcome"]
_WORDS = {"peak": "one training step", "longest": "longest that trains", "modelled": "longest, modelled", "cell": "whole run",
          "published": "published profile"}


def build(name: str, results: Results) -> Table:
    """From benchmarks/memory.json and the crossover cells."""
    measured = results.benchmark("memory")
    cells = results.cells("crossover")
    if not (measured and measured["rows"]) and cells.empty:
        return not_measured(f"study {results.study.name} has neither the benchmark memory nor the experiment crossover; run "
                            "overtone bench memory.", COLUMNS)
    rows = [*_benchmark(measured or {}), *_cells(cells)]
    rows += [{"kind": "published", "attention": "flash" if row["architecture"] == "transformer" else None, "status": "ok"} | row
             for row in published.memory()]
    data = pd.DataFrame(rows, columns=COLUMNS)
    shown = [
        [_WORDS[row.kind], formats.architecture(row.architecture), formats.text(row.attention), formats.length(row.length),
         formats.size(row.peak_bytes), formats.size(row.limit_bytes), row.status]
        for row in each(_thinned(data))
    ]
    environment = (measured or {}).get("environment", {})
    return Table(
        data, _HEADER, shown,
        f"Attention as SDPA and as the quadratic reference, measured on {environment.get('device', 'the device of the cells')}; the "
        "longest lengths were found by doubling and bisection under the limit.",
        ["Published: forward profile at batch 2, bfloat16, flash attention on an 80 GB H100; there, too, the Transformer's memory is "
         "linear in length.", "Modelled rows extrapolate the measured memory to the card named by their limit; they are not measurements."],
    )


def _benchmark(measured: dict[str, Any]) -> list[dict[str, Any]]:
    rows = []
    for kind, key in (("peak", "rows"), ("longest", "longest"), ("modelled", "modelled")):
        for row in measured.get(key, []):
            rows.append({"kind": kind, "status": "ok"} | {column: row[column] for column in COLUMNS if column in row})
    return rows


def _cells(cells: pd.DataFrame) -> list[dict[str, Any]]:
    return [{"kind": "cell"} | {column: getattr(cell, column) for column in ("architecture", "length", "status", "peak_bytes", "seed")}
            for cell in each(cells)]


def _thinned(data: pd.DataFrame) -> pd.DataFrame:
    """One row instead of one a seed for the cells: the largest peak, a failure before success."""
    cells = data[data["kind"] == "cell"].copy()
    cells["failed"] = cells["status"] != "ok"
    worst = cells.sort_values(["failed", "peak_bytes"]).groupby(["architecture", "length"], as_index=False).last()
    worst = worst.sort_values(["length", "architecture"], kind="stable")
    return pd.concat([data[data["kind"].isin(["peak", "longest", "modelled"])], worst, data[data["kind"] == "published"]])
