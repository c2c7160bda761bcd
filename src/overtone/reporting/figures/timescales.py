"""timescales: range and quartiles of each level's time constants, before training (grey) and after (colour)."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from overtone.reporting import formats, style
from overtone.reporting.figures.data import by_architecture, need, unique


def draw(name: str, data: pd.DataFrame) -> Figure:
    """One panel a model at its longest length, seeds averaged."""
    need(data, ["length", "architecture", "when", "level", "quantile", "tau_tokens"], name)
    models = [(architecture, rows[rows["length"] == rows["length"].max()]) for architecture, rows in by_architecture(data)]
    drawn, axes = style.figure(height=2.9, columns=len(models), sharey=True)
    for axis, (architecture, rows) in zip(axes, models, strict=True):
        levels = sorted(unique(rows, "level"))
        look = style.look(architecture)
        for index, level in enumerate(levels):
            for shift, when, color in ((-0.16, "before", style.GREY), (0.16, "after", look.color)):
                _bar(axis, index + shift, rows[(rows["level"] == level) & (rows["when"] == when)], color)
        axis.set_yscale("log", base=2)
        axis.yaxis.set_major_formatter(lambda value, _: formats.length(value) if value >= 1 else f"{value:g}")
        axis.set_xticks(range(len(levels)), [f"level {level}" for level in levels])
        axis.set_xlim(-0.5, len(levels) - 0.5)
        axis.grid(axis="x", visible=False)
        axis.set_title(f"{look.label}\nlength {formats.length(rows['length'].iloc[0])}", fontsize=8.5)
    axes[0].set_ylabel("Time constant (tokens)")
    style.legend(drawn, [
        Line2D([], [], color=style.GREY, linewidth=4, label="before training"),
        Line2D([], [], color=style.BLUE, linewidth=4, label="after"),
        Line2D([], [], color=style.INK, marker="_", linestyle="none", markersize=9, label="median"),
        Line2D([], [], color=style.INK, linewidth=1, label="thin: full range, thick: middle half"),
    ])
    return drawn


def _bar(axis: Axes, x: float, rows: pd.DataFrame, color: str) -> None:
    if rows.empty:
        return
    by_quantile = rows.groupby("quantile")["tau_tokens"].mean()
    axis.plot([x, x], [by_quantile.iloc[0], by_quantile.iloc[-1]], color=color, linewidth=1, solid_capstyle="butt")
    middle = by_quantile[(by_quantile.index >= 0.25) & (by_quantile.index <= 0.75)]
    axis.plot([x, x], [middle.iloc[0], middle.iloc[-1]], color=color, linewidth=5, solid_capstyle="butt", alpha=0.8)
    axis.plot([x], [middle.iloc[len(middle) // 2]], marker="_", color=style.INK, markersize=9, markeredgewidth=1.3)
