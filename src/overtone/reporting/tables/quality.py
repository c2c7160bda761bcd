"""quality, breadth: test perplexity and accuracy at equal size, and the reduction of perplexity against the Transformer.

reduction_pct = 100 * (1 - PPL / PPL_transformer), PPL = 2**bpt; positive where the architecture is better.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from overtone.reporting import formats
from overtone.reporting.collect import Results
from overtone.reporting.rows import each, records
from overtone.reporting.statistics import perplexity_reduction
from overtone.reporting.tables import caption, published
from overtone.reporting.tables.compare import SCORE_COLUMNS, compare, comparison_columns, scores, with_comparison
from overtone.reporting.tables.table import Table, not_measured

COLUMNS = ["source", *SCORE_COLUMNS, "perplexity_low", "perplexity_high", *comparison_columns("reduction_pct")]
_HEADER = ["Architecture", "Parameters", "Test perplexity [95% interval]", "Test accuracy, % [95% t interval]", "Test bpt", "bpb",
           "Reduction of perplexity, % [95% interval]", "p (Holm)", "Seeds ok"]
_PLACE = {"corpus": "Corpus", "tokenizer": "Tokenizer", "length": "Length (tokens)"}


def build(name: str, results: Results) -> Table:
    """quality: one place, all architectures; breadth: many places, ResonatorLM beside the Transformer."""
    cells = results.cells(name)
    if cells.empty:
        return not_measured(caption.missing_experiment(results.study, name), COLUMNS)
    measured = with_comparison(scores(cells), compare(cells, perplexity_reduction, "reduction_pct", "transformer"))
    for side in ("low", "high"):
        measured[f"perplexity_{side}"] = np.exp2(measured[f"bpt_{side}"].astype(float))
    measured["perplexity"] = np.exp2(measured["bpt"].astype(float))
    measured.insert(0, "source", "measured")
    paper = _published() if name == "quality" else []
    data = pd.DataFrame([*records(measured), *paper], columns=COLUMNS)
    varying = [column for column in _PLACE if name == "breadth" or measured[column].nunique() > 1]
    shown = [[*(_place(row, column) for column in varying), *_cells(row)] for row in each(data)]
    return Table(
        data, [*(_PLACE[column] for column in varying), *_HEADER], shown,
        f"Equal size and token budget, reductions of perplexity paired over windows and seeds; {caption.setting(cells, measured)}.",
        [*caption.substitution(name, cells), *caption.failures(measured), *caption.single_seed(measured)],
    )


def _published() -> list[dict[str, Any]]:
    reported = published.quality()
    base = reported["transformer"]["test_ppl"]
    return [
        {"source": "published", "architecture": name, "corpus": "wikitext-2", "tokenizer": "characters", "status": "ok",
         "perplexity": values["test_ppl"], "bpt": float(np.log2(values["test_ppl"])), "accuracy": values["test_accuracy_pct"] / 100,
         "parameters": 6_000_000, "reduction_pct": 100 * (1 - values["test_ppl"] / base) if name != "transformer" else None}
        for name, values in reported.items()
    ]


def _place(row: Any, column: str) -> str:
    value = getattr(row, column)
    return formats.length(value) if column == "length" else str(value)


def _cells(row: Any) -> list[str]:
    name = formats.architecture(row.architecture) + (" (published)" if row.source == "published" else "")
    ended = row.status == "ok"
    scaled = [None if formats.absent(value) else 100 * value for value in (row.accuracy, row.accuracy_low, row.accuracy_high)]
    return [
        name, formats.count(row.parameters),
        formats.interval(row.perplexity, row.perplexity_low, row.perplexity_high) if ended else row.status,
        formats.interval(scaled[0], scaled[1], scaled[2], 2) if ended else row.status, formats.number(row.bpt), formats.number(row.bpb),
        formats.interval(row.reduction_pct, row.reduction_pct_low, row.reduction_pct_high, 1, sign=True),
        formats.p_value(row.reduction_pct_p_holm), formats.ABSENT if row.source == "published" else f"{row.seeds:.0f}/{row.seeds_run:.0f}",
    ]
