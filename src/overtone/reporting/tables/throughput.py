"""throughput, training_throughput: training tokens per second, the device waited for, same tokens for every architecture."""

from __future__ import annotations

from typing import Any

import pandas as pd

from overtone.reporting import formats
from overtone.reporting.collect import Results
from overtone.reporting.rows import each, records
from overtone.reporting.tables import caption, published
from overtone.reporting.tables.table import Table, not_measured, quartile_columns

COLUMNS = ["source", "architecture", "length", "tokens_per_s", "tokens_per_s_q25", "tokens_per_s_q75", "samples", "synchronised",
           "parameters", "status", "ratio_to_transformer"]
_HEADER = ["Source", "Length (tokens)", "Architecture", "Parameters", "Tokens per second: median [quartiles]", "Device waited for",
           "Ratio to Transformer"]


def build(name: str, results: Results) -> Table:
    """All architectures with the Harmonic logs beside, or ResonatorLM and the Transformer with the paper's pair."""
    measured = results.benchmark("throughput")
    if not measured or not measured["rows"]:
        return not_measured(f"study {results.study.name} has no benchmark throughput; run overtone bench throughput.", COLUMNS)
    frame = _measured(measured["rows"])
    if name == "training_throughput":
        frame = frame[frame["architecture"].isin(["resonator", "transformer"])]
        paper = pd.DataFrame(
            {"architecture": architecture, "tokens_per_s": values["train_tokens_per_s"]}
            for architecture, values in published.quality().items()
        )
        words = "6M parameters, WikiText-2 characters; whether the device was waited for is not said"
    else:
        paper = pd.DataFrame(published.throughput())
        words = "28M parameters, one H100; the unsynchronised rates were taken without waiting for the GPU"
    data = pd.DataFrame([*_ratios(frame, "measured"), *_ratios(paper, "published")], columns=COLUMNS)
    rows = [
        [row.source, formats.length(row.length), formats.architecture(row.architecture), formats.count(row.parameters),
         str(row.status) if formats.absent(row.tokens_per_s) else
         formats.quartiles(row.tokens_per_s, row.tokens_per_s_q25, row.tokens_per_s_q75),
         {True: "yes", False: "no"}.get(row.synchronised, formats.ABSENT), formats.number(row.ratio_to_transformer, 2)]
        for row in each(data)
    ]
    return Table(
        data, _HEADER, rows,
        f"Median and quartiles of repeated training steps on {caption.machine(measured.get('environment', {}))}.",
        [f"Published: {words}."],
    )


def _measured(rows: list[dict[str, Any]]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "architecture": row["architecture"], "length": row["length"], "status": row.get("status", "ok"),
            "synchronised": row.get("synchronised"), "parameters": row.get("parameters"),
            **quartile_columns("tokens_per_s", row.get("tokens_per_s")),
        }
        for row in rows
    )


def _ratios(frame: pd.DataFrame, source: str) -> list[dict[str, Any]]:
    rows = records(frame)
    keys = ("length", "synchronised")
    baseline = {tuple(row.get(key) for key in keys): row.get("tokens_per_s") for row in rows if row["architecture"] == "transformer"}
    found: list[dict[str, Any]] = []
    for row in rows:
        base, own = baseline.get(tuple(row.get(key) for key in keys)), row.get("tokens_per_s")
        ratio = None if formats.absent(base) or formats.absent(own) or base is None else own / base
        found.append({"source": source} | row | {"ratio_to_transformer": ratio})
    return sorted(found, key=lambda row: (row.get("length") or 0, formats.architecture_order(row["architecture"])))
