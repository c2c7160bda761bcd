"""ablations, resonator_ablations: what a model loses without one of its parts.

delta_bpt = bpt_ablation - bpt_full, positive where the part helps; paired over windows and seeds.
"""

from __future__ import annotations

from overtone.reporting import formats
from overtone.reporting.collect import Results
from overtone.reporting.rows import each
from overtone.reporting.statistics import difference
from overtone.reporting.tables import caption, published
from overtone.reporting.tables.compare import SCORE_COLUMNS, compare, comparison_columns, scores, with_comparison
from overtone.reporting.tables.table import Table, not_measured

COLUMNS = [*SCORE_COLUMNS, *comparison_columns("delta_bpt"), "published_delta_bpt"]
_FULL = {"ablations": "harmonic", "resonator_ablations": "resonator"}
_HEADER = ["Length (tokens)", "Model", "Parameters", "Test bpt [95% interval]", "Perplexity",
           "Difference from full, bpt [95% interval]", "p (Holm)", "Effect (sd of seeds)", "Seeds ok"]


def build(name: str, results: Results) -> Table:
    """One table of ablations."""
    cells = results.cells(name)
    if cells.empty:
        return not_measured(caption.missing_experiment(results.study, name), COLUMNS)
    full = _FULL[name]
    measured = with_comparison(scores(cells), compare(cells, difference, "delta_bpt", full))
    deltas = _published(name)
    measured["published_delta_bpt"] = [deltas.get(architecture) for architecture in measured["architecture"]]
    header = [*_HEADER, "Published difference, bpt"] if deltas else _HEADER
    rows = []
    for row in each(measured):
        bits = formats.interval(row.bpt, row.bpt_low, row.bpt_high) if row.status == "ok" else row.status
        text = [formats.length(row.length), formats.architecture(row.architecture), formats.count(row.parameters), bits,
                formats.significant(row.perplexity),
                formats.interval(row.delta_bpt, row.delta_bpt_low, row.delta_bpt_high, sign=True),
                formats.p_value(row.delta_bpt_p_holm), formats.signed(row.delta_bpt_effect, 1), f"{row.seeds}/{row.seeds_run}"]
        rows.append([*text, formats.signed(row.published_delta_bpt, 3)] if deltas else text)
    return Table(
        measured, header, rows,
        f"Test loss without one part, differences from the full {formats.architecture(full)} paired over windows and seeds; "
        f"{caption.setting(cells, measured)}.",
        [*caption.substitution(name, cells), *caption.tuning(results.study, cells), *caption.inherited(results.study, cells),
         *caption.failures(measured), *caption.single_seed(measured)],
    )


def _published(name: str) -> dict[str, float]:
    if name != "ablations":
        return {}
    values = published.ablations()
    return {architecture: value - values["harmonic"] for architecture, value in values.items() if architecture != "harmonic"}
