"""claims: the verdict on every claim, one mark a row."""

from __future__ import annotations

import textwrap

import pandas as pd
from matplotlib.figure import Figure

from overtone.reporting import style
from overtone.reporting.figures.data import need
from overtone.reporting.rows import each

VERDICTS = {"reproduced": (style.GREEN, "o"), "contradicted": (style.VERMILION, "X"), "inconclusive": (style.ORANGE, "D"),
            "self-inconsistent": (style.PURPLE, "v"), "not measured here": (style.GREY, "_"), "no verdict": (style.GREY, ".")}
_HEADS = {"reproduced": "repro-\nduced", "contradicted": "contra-\ndicted", "inconclusive": "incon-\nclusive",
          "self-inconsistent": "self-in-\nconsistent", "not measured here": "not\nmeasured", "no verdict": "no\nverdict"}


def draw(name: str, data: pd.DataFrame) -> Figure:
    """Columns of verdicts; the claim's words beside its id."""
    need(data, ["id", "title", "verdict"], name)
    drawn, (axis,) = style.figure(height=0.8 + 0.28 * len(data))
    columns = [item for item in VERDICTS if item != "no verdict" or item in set(data["verdict"])]
    for y, row in enumerate(each(data)):
        color, marker = VERDICTS[row.verdict]
        axis.plot([columns.index(row.verdict)], [y], marker=marker, color=color, markersize=8, linestyle="none",
                  markeredgecolor=color if marker in "_." else "white")
    words = [f"{row.id}  {textwrap.shorten(str(row.title), 62, placeholder='…')}" for row in each(data)]
    axis.set_yticks(range(len(data)), [item.replace("$", r"\$") for item in words], fontsize=7)
    axis.set_ylim(len(data) - 0.5, -0.5)
    axis.set_xticks(range(len(columns)), [_HEADS[item] for item in columns], fontsize=7)
    axis.set_xlim(-0.6, len(columns) - 0.4)
    axis.xaxis.tick_top()
    axis.tick_params(length=0)
    axis.spines[["left", "bottom"]].set_visible(False)
    return drawn
