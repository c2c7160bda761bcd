"""quality: perplexity and accuracy of every architecture. breadth: reduction of perplexity at every place."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from overtone.reporting import formats, style
from overtone.reporting.figures.data import at_place, lines, need, places
from overtone.reporting.rows import each


def draw(name: str, data: pd.DataFrame) -> Figure:
    """A row an architecture, best first; the published pair hollow."""
    need(data, ["source", "architecture", "status", "perplexity", "perplexity_low", "perplexity_high", "accuracy",
                "accuracy_low", "accuracy_high"], name)
    measured = data[data["source"] == "measured"].sort_values("perplexity", na_position="last", kind="stable")
    names = list(dict.fromkeys(measured["architecture"]))
    published = data[(data["source"] == "published") & data["architecture"].isin(names)]
    drawn, axes = style.figure(height=1.5 + 0.34 * len(names), columns=2, sharey=True)
    for axis, column, scale, label in ((axes[0], "perplexity", 1.0, "Test perplexity (left: better)"),
                                       (axes[1], "accuracy", 100.0, "Test accuracy (%; right: better)")):
        for row in each(measured):
            _point(axis, row, column, scale, names.index(row.architecture))
        low, high = axis.get_xlim()
        for row in each(published):
            _published(axis, scale * getattr(row, column), names.index(row.architecture), low, high)
        axis.set_xlim(low, high)
        axis.set_xlabel(label)
        axis.grid(axis="y", visible=False)
    axes[0].set_yticks(range(len(names)), [formats.architecture(item) for item in names])
    axes[0].set_ylim(len(names) - 0.5, -0.5)
    style.legend(drawn, [
        Line2D([], [], color=style.INK, marker="o", markeredgecolor="white", label="measured, 95% interval"),
        Line2D([], [], linestyle="none", marker="o", markerfacecolor="white", markeredgecolor=style.GREY,
               label="published (6M parameters, WikiText-2); arrow: out of range"),
    ])
    return drawn


def _point(axis: Axes, row: Any, column: str, scale: float, y: int) -> None:
    value, low, high = (getattr(row, item) for item in (column, f"{column}_low", f"{column}_high"))
    look = style.look(row.architecture)
    if formats.absent(value):
        axis.annotate(row.status, (0.02, y), xycoords=axis.get_yaxis_transform(), va="center", fontsize=7, color=style.GREY)
        return
    if not formats.absent(low):
        axis.plot([scale * low, scale * high], [y, y], color=look.color, linewidth=1.4, solid_capstyle="butt")
    axis.plot([scale * value], [y], marker="o", markersize=6, color=look.color, markeredgecolor="white", linestyle="none", zorder=3)


def _published(axis: Axes, value: float, y: int, low: float, high: float) -> None:
    """A hollow point, or an arrow at the edge where the published value is far from the measured ones."""
    if low <= value <= high:
        axis.plot([value], [y], marker="o", markerfacecolor="white", linestyle="none", markeredgecolor=style.GREY)
        return
    left = value < low
    axis.annotate(f"◂ {value:g}" if left else f"{value:g} ▸", (0.0 if left else 1.0, y - 0.28), xycoords=axis.get_yaxis_transform(),
                  xytext=(2 if left else -2, 0), textcoords="offset points", ha="left" if left else "right", va="center", fontsize=7,
                  color=style.GREY)


def draw_breadth(name: str, data: pd.DataFrame) -> Figure:
    """One panel a corpus and tokenizer: reduction of perplexity against the Transformer by context."""
    need(data, ["corpus", "tokenizer", "length", "architecture", "reduction_pct", "reduction_pct_low", "reduction_pct_high"], name)
    columns = ("corpus", "tokenizer")
    found = places(data, columns)
    across = min(3, len(found))
    down = -(-len(found) // across)
    drawn, axes = style.figure(height=2.6 * down, columns=across, rows=down, sharey=True)
    labels = []
    for axis, place in zip(axes, found, strict=False):
        own = at_place(data, place, columns)
        style.zero_line(axis)
        labels.append(lines(axis, own, "length", "reduction_pct", dodge=0.09))
        axis.set_title(f"{place[0]}, {place[1]}")
        style.token_axis(axis, own["length"], "Context (tokens)")
        if not labels[-1]:
            style.note(axis, "no pair ended ok")
    for axis, ends in zip(axes, labels, strict=False):
        style.end_labels(axis, ends)
    for axis in axes[::across]:
        axis.set_ylabel("Reduction of perplexity (%)\nagainst the Transformer")
    for axis in axes[len(found):]:
        axis.remove()
    return drawn
