"""seeds: single runs of each architecture joined by seed, and the gap of equal seeds; measured above, published below."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from overtone.reporting import formats, style
from overtone.reporting.figures.data import by_architecture, need, places
from overtone.reporting.rows import each

_PLACE = ("source", "corpus", "tokenizer", "size", "length")


def draw(name: str, data: pd.DataFrame) -> Figure:
    """A row a source: left the loss of every run, right the paired gap."""
    need(data, ["kind", "seed", "bpt", "gap_pct", *_PLACE], name)
    found = places(data, _PLACE)
    drawn, axes = style.figure(height=2.4 * len(found), columns=2, rows=len(found))
    for row, place in enumerate(found):
        own = data
        for column, value in zip(_PLACE, place, strict=True):
            own = own[own[column] == value]
        _runs(axes[2 * row], own, f"{place[0].capitalize()}: {place[1]}, length {formats.length(place[-1])}")
        _gaps(axes[2 * row + 1], own)
    return drawn


def _runs(axis: Axes, own: pd.DataFrame, title: str) -> None:
    names = [name for name, _ in by_architecture(own)]
    runs = own[own["kind"] == "seed"]
    for _, rows in runs.groupby("seed"):
        values = [rows.loc[rows["architecture"] == name, "bpt"].mean() for name in names]
        axis.plot(range(len(names)), values, color=style.LIGHT, linewidth=1.0, zorder=1)
    for index, name in enumerate(names):
        rows, look = runs[runs["architecture"] == name], style.look(name)
        axis.plot([index] * len(rows), rows["bpt"], linestyle="none", marker=look.marker, color=look.color, alpha=0.8,
                  markeredgecolor="white")
        _summary(axis, own[(own["kind"] == "summary") & (own["architecture"] == name)], "bpt", index, look)
        if rows["bpt"].isna().all():
            axis.annotate(", ".join(sorted(set(rows["status"]))), (index, 0.5), xycoords=axis.get_xaxis_transform(), ha="center",
                          color=style.GREY, fontsize=7)
    axis.set_title(title)
    axis.set_ylabel("Test bits per token")
    _names(axis, names)


def _gaps(axis: Axes, own: pd.DataFrame) -> None:
    names = [name for name, rows in by_architecture(own) if rows["gap_pct"].notna().any()]
    style.zero_line(axis)
    for index, name in enumerate(names):
        rows, look = own[(own["kind"] == "seed") & (own["architecture"] == name)], style.look(name)
        axis.plot([index] * len(rows), rows["gap_pct"], linestyle="none", marker=look.marker, color=look.color, alpha=0.8,
                  markeredgecolor="white")
        _summary(axis, own[(own["kind"] == "summary") & (own["architecture"] == name)], "gap_pct", index, look)
    axis.set_title("Gap of equal seeds")
    axis.set_ylabel("Gap to the Transformer (%)")
    _names(axis, names)
    if not names:
        style.note(axis, "no pair of runs ended ok")


def _summary(axis: Axes, rows: pd.DataFrame, column: str, index: int, look: style.Look) -> None:
    """Mean and 95% t interval, right of the runs."""
    for row in each(rows[rows[column].notna()]):
        at = index + 0.22
        style.errors(axis, [at], [getattr(row, column)], [getattr(row, f"{column}_low")], [getattr(row, f"{column}_high")], look.color)
        axis.plot([at], [getattr(row, column)], marker="_", markersize=9, color=look.color, markeredgewidth=1.8)


def _names(axis: Axes, names: list[str]) -> None:
    axis.set_xticks(range(len(names)), [formats.architecture(name) for name in names])
    axis.set_xlim(-0.5, max(len(names), 1) - 0.4)
    axis.grid(axis="x", visible=False)
