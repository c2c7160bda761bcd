"""kernel_tail: the mixer alone, time beside FLOPs and bytes, so that an asymptotic ratio can be told from a constant.

Ratios are over the quadratic causal reference at the same length.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from overtone.reporting import formats
from overtone.reporting.collect import Results
from overtone.reporting.rows import each
from overtone.reporting.tables import caption, published
from overtone.reporting.tables.table import Table, not_measured, quartile_columns

COLUMNS = ["source", "method", "length", "outputs", "ms", "ms_q25", "ms_q75", "flops", "bytes", "error", "speedup_to_quadratic",
           "flops_ratio_to_quadratic"]
METHODS = {"tail": "last outputs only, sum over the past", "state": "one step on the carried state", "quadratic": "quadratic reference",
           "fft": "FFT", "chunked": "chunked products", "undescribed": "not described"}
_HEADER = ["Source", "Length (tokens)", "Method", "Outputs", "ms: median [quartiles]", "FLOPs", "Bytes moved", "Speed-up over quadratic",
           "FLOPs of quadratic over FLOPs"]


def build(name: str, results: Results) -> Table:
    """From benchmarks/kernel_tail.json."""
    measured = results.benchmark("kernel_tail")
    if not measured or not measured["rows"]:
        return not_measured(f"study {results.study.name} has no benchmark kernel_tail; run overtone bench kernel-tail.", COLUMNS)
    reference = {row["length"]: row for row in measured["rows"] if row["method"] == "quadratic"}
    own = [_row(row, reference.get(row["length"])) for row in measured["rows"]]
    paper = [{"source": "published", "method": "undescribed", "length": length, "speedup_to_quadratic": ratio}
             for length, ratio in published.kernel_tail().items()]
    data = pd.DataFrame([*own, *paper], columns=COLUMNS)
    rows = [
        [row.source, formats.length(row.length), METHODS.get(row.method, row.method), formats.significant(row.outputs, 5),
         formats.quartiles(row.ms, row.ms_q25, row.ms_q75),
         formats.count(row.flops), formats.size(row.bytes), formats.significant(row.speedup_to_quadratic),
         formats.significant(row.flops_ratio_to_quadratic)]
        for row in each(data.sort_values(["source", "length"], kind="stable"))
    ]
    return Table(
        data, _HEADER, rows,
        f"The resonant mixer without the rest of the model, median and quartiles, on {caption.machine(measured.get('environment', {}))}.",
        ["The tail computes the last outputs only, the quadratic reference all of them: most of such a ratio is the number of outputs, "
         "which the FLOPs beside it show.", "Published: 440 times at 8K and 576 times at 32K over a quadratic causal reference; neither "
         "method is described."],
    )


def _row(row: dict[str, Any], reference: dict[str, Any] | None) -> dict[str, Any]:
    time = row["ms"]
    found = {key: row.get(key) for key in ("method", "length", "outputs", "flops", "bytes", "error")}
    found |= {"source": "measured"} | quartile_columns("ms", time)
    if reference and row["method"] != "quadratic":
        found["speedup_to_quadratic"] = reference["ms"]["median"] / time["median"]
        found["flops_ratio_to_quadratic"] = reference["flops"] / row["flops"] if row.get("flops") else None
    return found
