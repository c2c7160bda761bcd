"""memory_wall: peak training memory by length, the longest length that trains under a limit, and a model of an 80 GB card.

Rows of kind `peak` (a training step at one length), `longest` (under the limit), `modelled` (from the measured slope), `cell`
(peak of the study's own runs) and `published` (the logs' profile).
"""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from overtone.reporting import formats
from overtone.reporting.collect import Results
from overtone.reporting.rows import each, select
from overtone.reporting.tables import published
from overtone.reporting.tables.table import Table, not_measured

COLUMNS = ["kind", "architecture", "attention", "length", "status", "peak_bytes", "limit_bytes", "seed"]
_WORDS = {"peak": "one training step", "cell": "whole run", "published": "published profile"}


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
    header, shown = _by_length(data)
    environment = (measured or {}).get("environment", {})
    return Table(
        data, header, shown,
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


def _by_length(data: pd.DataFrame) -> tuple[list[str], list[list[str]]]:
    """A row a kind of measurement, architecture and attention; powers of two as columns (the CSV has all), then the longest."""
    profiles = data[data["kind"].isin(list(_WORDS))]
    lengths = sorted({int(length) for length in profiles["length"].dropna() if math.log2(length).is_integer()})
    limits = {kind: select(data, kind=kind)["limit_bytes"].dropna() for kind in ("longest", "modelled")}
    ends = [kind for kind, found in limits.items() if len(found)]
    words = {"longest": "Longest, {}", "modelled": "Longest, modelled, {}"}
    header = ["What", "Architecture", "Attention", *(f"Peak at {formats.length(length)}" for length in lengths),
              *(words[kind].format(formats.size(limits[kind].iloc[0])) for kind in ends)]
    rows = []
    for kind, what in _WORDS.items():
        own = profiles[profiles["kind"] == kind].assign(attention=profiles["attention"].fillna(""))
        for architecture in sorted(set(own["architecture"]), key=formats.architecture_order):
            for attention in dict.fromkeys(select(own, architecture=architecture)["attention"]):
                part = select(own, architecture=architecture, attention=attention)
                same = data[(data["architecture"] == architecture) & (data["attention"].fillna("") == attention)]
                rows.append([what, formats.architecture(architecture), formats.text(attention),
                             *(_peak(select(part, length=length)) for length in lengths),
                             *(_reach(select(same, kind=end)) if kind == "peak" else formats.ABSENT for end in ends)])
    return header, rows


def _peak(rows: pd.DataFrame) -> str:
    """The largest peak of several seeds; a failure before it."""
    failed = rows[rows["status"] != "ok"]
    if len(failed):
        return str(failed["status"].iloc[0])
    return formats.size(float(rows["peak_bytes"].max())) if len(rows) else formats.ABSENT


def _reach(rows: pd.DataFrame) -> str:
    if rows.empty:
        return formats.ABSENT
    length = rows["length"].iloc[0]
    return formats.count(length) if rows["kind"].iloc[0] == "modelled" else formats.length(length)
