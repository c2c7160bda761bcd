"""zoo: every architecture under every protocol, at the place where most of them stand side by side."""

from __future__ import annotations

import pandas as pd

from overtone.reporting import formats
from overtone.reporting.collect import Results
from overtone.reporting.rows import each, select
from overtone.reporting.statistics import gap
from overtone.reporting.tables import caption
from overtone.reporting.tables.compare import (
    PLACE,
    SCORE_COLUMNS,
    compare,
    comparison_columns,
    groups,
    scores,
    with_comparison,
)
from overtone.reporting.tables.table import Table, not_measured

COLUMNS = [*SCORE_COLUMNS, "bpb_low", "bpb_high", *comparison_columns("gap_pct"), "train_tokens_per_s", "peak_bytes"]
_HEADER = ["Protocol", "Architecture", "Parameters", "Length (tokens)", "Test bits per byte [95% interval]", "Accuracy, %",
           "Gap to Transformer, % [95% interval]", "Training, tokens/s", "Peak memory", "Seeds ok"]


def build(name: str, results: Results) -> Table:
    """Bits per byte make tokenizers comparable; the interval is that of bpt, scaled."""
    cells = results.cells(*results.study.experiments)
    if cells.empty:
        return not_measured(f"study {results.study.name} has no experiment; add one to its experiments.", COLUMNS)
    chosen = pd.concat([_widest(part) for _, part in cells.groupby("protocol")])
    measured = with_comparison(scores(chosen), compare(chosen, gap, "gap_pct", "transformer"))
    measured = measured.merge(_costs(chosen), how="left", on=[*PLACE, "architecture"])
    scale = measured["bpb"].astype(float) / measured["bpt"].astype(float)
    for side in ("low", "high"):
        measured[f"bpb_{side}"] = measured[f"bpt_{side}"].astype(float) * scale
    rows = [
        [row.protocol, formats.architecture(row.architecture), formats.count(row.parameters), formats.length(row.length),
         formats.interval(row.bpb, row.bpb_low, row.bpb_high) if row.status == "ok" else row.status,
         formats.number(None if formats.absent(row.accuracy) else 100 * row.accuracy, 2),
         formats.interval(row.gap_pct, row.gap_pct_low, row.gap_pct_high, 1, sign=True), formats.significant(row.train_tokens_per_s),
         formats.size(row.peak_bytes), f"{row.seeds}/{row.seeds_run}"]
        for row in each(measured)
    ]
    places = caption.listed(f"{place.protocol}: {place.corpus} ({place.tokenizer}), {place.size}, length {formats.length(place.length)}"
                            for place in each(measured[list(PLACE)].drop_duplicates()))
    return Table(
        measured[COLUMNS], _HEADER, rows,
        f"At the place where most architectures stand side by side ({places}); {caption.setting(chosen, measured)}.",
        [*caption.failures(measured), *caption.single_seed(measured)],
    )


def _widest(cells: pd.DataFrame) -> pd.DataFrame:
    """The place with the most architectures, of equals the one with the most cells, then the longest length."""
    places = [(rows["architecture"].nunique(), len(rows), place[-1], place) for place, rows in cells.groupby(list(PLACE), sort=True)]
    best = max(places, key=lambda item: item[:3])[3]
    return select(cells, **dict(zip(PLACE, best, strict=True)))


def _costs(cells: pd.DataFrame) -> pd.DataFrame:
    rows = [place | {"train_tokens_per_s": own["train_tokens_per_s"].astype(float).median(), "peak_bytes": own["peak_bytes"].max()}
            for place, own in groups(cells)]
    return pd.DataFrame(rows)
