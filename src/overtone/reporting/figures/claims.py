"""claims: the verdict on every claim, one mark a row."""

from __future__ import annotations

import textwrap

import pandas as pd
from matplotlib.figure import Figure

from overtone.reporting import style
from overtone.reporting.collect import each
from overtone.reporting.figures.data import need

VERDICTS = {"reproduced": (style.GREEN, "o"), "contradicted": (style.VERMILION, "X"), "inconclusive": (style.ORANGE, "D"),
            "self-inconsistent": (style.PURPLE, "v"), "not measured": (style.GREY, "_")}


def draw(name: str, data: pd.DataFrame) -> Figure:
    """Columns of verdicts; the claim's words beside its id."""
    need(data, ["id", "statement", "verdict"], name)
    drawn, (axis,) = style.figure(height=0.8 + 0.28 * len(data))
    columns = list(VERDICTS)
    for y, row in enumerate(each(data)):
        verdict = "not measured" if str(row.verdict).startswith("not measured") else str(row.verdict)
        color, marker = VERDICTS.get(verdict, (style.INK, "o"))
        x = columns.index(verdict) if verdict in columns else len(columns) - 1
        axis.plot([x], [y], marker=marker, color=color, markersize=8, markeredgecolor="white" if marker != "_" else color, linestyle="none")
    words = [f"{row.id}  {textwrap.shorten(str(row.statement), 56, placeholder='…')}" for row in each(data)]
    axis.set_yticks(range(len(data)), [item.replace("$", r"\$") for item in words], fontsize=7)
    axis.set_ylim(len(data) - 0.5, -0.5)
    axis.set_xticks(range(len(columns)), [item.replace(" ", "\n").replace("-", "-\n").replace("reproduced", "repro-\nduced").replace(
        "contradicted", "contra-\ndicted").replace("inconclusive", "incon-\nclusive") for item in columns], fontsize=7)
    axis.set_xlim(-0.6, len(columns) - 0.4)
    axis.xaxis.tick_top()
    axis.tick_params(length=0)
    axis.spines[["left", "bottom"]].set_visible(False)
    return drawn
