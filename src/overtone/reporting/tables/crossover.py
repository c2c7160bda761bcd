"""crossover, crossover_wikitext103, scaling: bits per token by length and size, and the gap to the Transformer.

gap_pct = 100 * (bpt_transformer - bpt) / bpt_transformer, positive where the architecture needs fewer bits.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd

from overtone.reporting import formats
from overtone.reporting.collect import Results
from overtone.reporting.rows import each, records
from overtone.reporting.statistics import gap
from overtone.reporting.tables import caption, published
from overtone.reporting.tables.compare import SCORE_COLUMNS, compare, comparison_columns, scores, with_comparison
from overtone.reporting.tables.table import Table, not_measured
from overtone.study import exhibit

COLUMNS = ["source", *SCORE_COLUMNS, *comparison_columns("gap_pct")]
_SECTIONS = {"crossover": "crossover_enwik8_28M", "crossover_wikitext103": "crossover_wikitext103_28M"}
_HEADER = ["Length (tokens)", "Architecture", "Parameters", "Test bpt [95% interval]", "bpb", "Gap to Transformer, % [95% interval]",
           "p (Holm)", "Seeds ok", "Published gap, %"]


def build(name: str, results: Results) -> Table:
    """The table of one crossover experiment."""
    cells = results.cells(*exhibit(name).experiments)
    if cells.empty:
        return not_measured(caption.missing_experiment(results.study, name), COLUMNS)
    reported = list(published.crossover(_SECTIONS[name]))
    measured = measure(cells)
    gaps = {(row["architecture"], row["length"]): row["gap_pct"] for row in reported}
    several = measured["protocol"].nunique() > 1
    rows = [[*([row.protocol] if several else []), formats.length(row.length), *_cells(row),
             formats.number(gaps.get((row.architecture, row.length)), 1)] for row in each(measured)]
    return Table(
        joined(measured, reported), ["Protocol", *_HEADER] if several else _HEADER, rows,
        f"Test loss at an equal token budget, gaps paired over windows and seeds; {caption.setting(cells, measured)}.",
        [*caption.substitution(name, cells), *caption.failures(measured), *caption.single_seed(measured),
         *caption.tuning(results.study, cells), *budgets(cells)],
    )


def build_scaling(name: str, results: Results) -> Table:
    """Gap by model size, at every length that the experiment has."""
    cells = results.cells("scaling")
    if cells.empty:
        return not_measured(caption.missing_experiment(results.study, "scaling"), COLUMNS)
    cells = with_more_seeds(cells, results.cells("crossover"))
    reported = list(published.scaling())
    measured = measure(cells).sort_values(["length", "parameters"], kind="stable")
    gaps = {(row["size"], row["architecture"], row["length"]): row["gap_pct"] for row in reported}
    rows = [[formats.length(row.length), row.size, *_cells(row),
             formats.number(gaps.get((row.size, row.architecture, row.length)), 1)] for row in each(measured)]
    return Table(
        joined(measured, reported), [_HEADER[0], "Size", *_HEADER[1:]], rows,
        f"Test loss at an equal token budget, gaps paired over windows and seeds; {caption.setting(cells, measured)}.",
        [*caption.substitution(name, cells), *caption.failures(measured), *caption.single_seed(measured),
         "Published gaps are recomputed with one denominator, the Transformer's bits per token; the paper mixes two."],
    )


def with_more_seeds(cells: pd.DataFrame, others: pd.DataFrame) -> pd.DataFrame:
    """Cells, and those of another experiment at the same places (other seeds of the same groups)."""
    keys = ["protocol", "corpus", "tokenizer", "size", "length", "architecture"]
    wanted = set(cells[keys].itertuples(index=False, name=None))
    extra = others[[place in wanted for place in others[keys].itertuples(index=False, name=None)]]
    both = [frame for frame in (cells, extra) if not frame.empty]
    return pd.concat(both).drop_duplicates("key").sort_values("key")


def measure(cells: pd.DataFrame) -> pd.DataFrame:
    """Scores and gaps of every group."""
    frame = with_comparison(scores(cells), compare(cells, gap, "gap_pct", "transformer"))
    frame.insert(0, "source", "measured")
    return frame


def joined(measured: pd.DataFrame, reported: Iterable[dict[str, Any]]) -> pd.DataFrame:
    """Measured rows, then published ones."""
    rows = [*records(measured), *({"source": "published"} | row for row in reported)]
    return pd.DataFrame(rows, columns=COLUMNS)


def _cells(row: Any) -> list[str]:
    bits = formats.interval(row.bpt, row.bpt_low, row.bpt_high) if row.status == "ok" else row.status
    return [
        formats.architecture(row.architecture), formats.count(row.parameters), bits, formats.number(row.bpb),
        formats.interval(row.gap_pct, row.gap_pct_low, row.gap_pct_high, 1, sign=True), formats.p_value(row.gap_pct_p_holm),
        f"{row.seeds}/{row.seeds_run}",
    ]


def budgets(cells: pd.DataFrame) -> list[str]:
    """The budget of each protocol's cells; where it differs between lengths, that they cannot be compared."""
    notes = []
    for protocol, own in cells.groupby("protocol"):
        by_length = own.groupby("length")["budget"].max()
        listed = ", ".join(f"{formats.length(length)}: {formats.count(budget)}" for length, budget in by_length.items())
        notes.append(f"Protocol {protocol}: every cell trained on {formats.count(by_length.iloc[0])} tokens." if by_length.nunique() == 1
                     else f"Protocol {protocol}: the token budget differs between lengths ({listed}), so they cannot be compared.")
    return notes
