"""timescales: quantiles of the time constants tau (tokens) of each Harmonic level, before and after training."""

from __future__ import annotations

from typing import Any

import pandas as pd

from overtone.reporting import formats
from overtone.reporting.collect import Results
from overtone.reporting.rows import each
from overtone.reporting.tables import caption
from overtone.reporting.tables.compare import scores
from overtone.reporting.tables.table import Table, not_measured

COLUMNS = ["corpus", "tokenizer", "size", "length", "architecture", "seed", "when", "level", "quantile", "tau_tokens"]


def build(name: str, results: Results) -> Table:
    """From what the models say of their gate biases."""
    cells = results.cells("crossover", "ablations")
    cells = cells[[cell.status == "ok" and bool(_taus(cell.diagnostics, "after")) for cell in each(cells)]]
    if cells.empty:
        return not_measured("no Harmonic cell of the experiments crossover or ablations ended ok; add the architecture "
                            "harmonic to one of them.", COLUMNS)
    data = pd.DataFrame([row for cell in each(cells) for row in _rows(cell)], columns=COLUMNS)
    means = data.groupby(["length", "architecture", "when", "level", "quantile"], as_index=False)["tau_tokens"].mean()
    rows = []
    for (length, architecture, level), part in means.groupby(["length", "architecture", "level"]):
        rows.append([formats.length(length), formats.architecture(str(architecture)), str(level),
                     *(_range(part[part["when"] == when]) for when in ("before", "after"))])
    return Table(
        data, ["Length (tokens)", "Model", "Level", "tau before: median [lowest, highest], tokens",
               "tau after: median [lowest, highest], tokens"], rows,
        f"From the gate biases, mean over seeds; {caption.setting(cells, scores(cells))}.",
        [*caption.substitution(name, cells),
         "The gates also depend on the token; the bias gives the time constant of a neutral input."],
    )


def _taus(diagnostics: Any, when: str) -> dict[str, list[float]]:
    return ((diagnostics or {}).get(when) or {}).get("tau") or {}


def _rows(cell: Any) -> list[dict[str, Any]]:
    where = {key: getattr(cell, key) for key in COLUMNS[:6]}
    rows = []
    for when in ("before", "after"):
        quantiles = (cell.diagnostics.get(when) or {}).get("tau_quantiles") or []
        for level, values in _taus(cell.diagnostics, when).items():
            rows += [where | {"when": when, "level": int(level), "quantile": quantile, "tau_tokens": value}
                     for quantile, value in zip(quantiles, values, strict=True)]
    return rows


def _range(part: pd.DataFrame) -> str:
    if part.empty:
        return formats.ABSENT
    by_quantile = part.set_index("quantile")["tau_tokens"].sort_index()
    middle = int((pd.Series(by_quantile.index) - 0.5).abs().argmin())
    return "{1} [{0}, {2}]".format(*(formats.significant(by_quantile.iloc[index]) for index in (0, middle, -1)))
