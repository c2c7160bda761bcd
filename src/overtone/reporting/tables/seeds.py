"""seeds: how far single runs are apart, alone and paired.

Rows of kind `seed`: one run, its bpt and, of the same seed, its gap to the Transformer. Rows of kind `summary`: mean and
standard deviation between seeds of both. The paper's own seeds stand beside (source `published`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd

from overtone.reporting import formats
from overtone.reporting.collect import Results, outcome
from overtone.reporting.rows import each, select
from overtone.reporting.statistics import gap, t_interval
from overtone.reporting.tables import caption, published
from overtone.reporting.tables.compare import interval_columns, scores
from overtone.reporting.tables.table import Table, not_measured

_PLACE = ["corpus", "tokenizer", "size", "length"]
COLUMNS = ["source", "kind", *_PLACE, "architecture", "seed", "status", "seeds", "bpt", "bpt_low", "bpt_high", "bpt_sd",
           "gap_pct", "gap_pct_low", "gap_pct_high", "gap_pct_sd"]
_HEADER = ["Source", "Length (tokens)", "Architecture", "Seeds", "Mean bpt [95% t interval]", "sd between seeds, bpt",
           "Paired gap to Transformer, % [95% t interval]", "sd of the paired gap, %"]


def build(name: str, results: Results) -> Table:
    """Measured and published seeds."""
    cells = results.cells(name)
    if cells.empty:
        return not_measured(caption.missing_experiment(results.study, name), COLUMNS)
    measured = cells.rename(columns={"test_bpt": "bpt"})
    paper = pd.DataFrame(published.seeds()).assign(corpus="enwik8", tokenizer="gpt2", size="d256", length=8192, status="ok")
    data = pd.DataFrame([*_rows(measured, "measured"), *_rows(paper, "published")], columns=COLUMNS)
    rows = [
        [row.source, formats.length(row.length), formats.architecture(row.architecture), f"{row.seeds:.0f}",
         formats.interval(row.bpt, row.bpt_low, row.bpt_high) if row.status == "ok" else row.status,
         formats.number(row.bpt_sd), formats.interval(row.gap_pct, row.gap_pct_low, row.gap_pct_high, 1, sign=True),
         formats.number(row.gap_pct_sd, 2)]
        for row in each(select(data, kind="summary"))
    ]
    return Table(
        data, _HEADER, rows,
        f"Test loss of single runs and gaps of equal seeds; {caption.setting(cells, scores(cells))}.",
        [*caption.substitution(name, cells),
         "A spread that all architectures share (large sd of bpt, small sd of the paired gap) belongs to the data order and the "
         "evaluation text, not to the models."],
    )


def _rows(cells: pd.DataFrame, source: str) -> Iterable[dict[str, Any]]:
    for place, rows in cells.groupby(_PLACE, sort=True):
        where = {"source": source} | dict(zip(_PLACE, place, strict=True))
        baseline = select(rows, architecture="transformer", status="ok").set_index("seed")["bpt"].to_dict()
        for architecture in sorted(set(rows["architecture"]), key=formats.architecture_order):
            own = select(rows, architecture=architecture)
            gaps = []
            for run in each(own):
                row = where | {"kind": "seed", "architecture": architecture, "seed": run.seed, "status": run.status}
                if run.status == "ok":
                    row["bpt"] = float(run.bpt)
                    if architecture != "transformer" and run.seed in baseline:
                        row["gap_pct"] = gap(float(baseline[run.seed]), float(run.bpt))
                        gaps.append(row["gap_pct"])
                yield row
            yield where | {"kind": "summary", "architecture": architecture, "status": outcome(own["status"])} | _summary(own, gaps)


def _summary(own: pd.DataFrame, gaps: list[float]) -> dict[str, Any]:
    values = select(own, status="ok")["bpt"].astype(float)
    found: dict[str, Any] = {"seeds": len(values)}
    for column, numbers in (("bpt", list(values)), ("gap_pct", gaps)):
        if numbers:
            mean = t_interval(numbers)
            found |= interval_columns(column, mean) | {f"{column}_sd": mean.seed_sd}
    return found
