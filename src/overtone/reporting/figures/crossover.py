"""crossover, crossover_wikitext103: bits per token by length, and the gap to the Transformer with the published one."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from overtone.reporting import style
from overtone.reporting.figures.data import at_place, by_architecture, lines, need, places
from overtone.reporting.rows import each


def draw(name: str, data: pd.DataFrame) -> Figure:
    """Two panels a place: loss, gap."""
    need(data, ["source", "protocol", "corpus", "tokenizer", "size", "length", "architecture", "status", "bpt", "gap_pct"], name)
    measured = data[data["source"] == "measured"]
    columns = ("protocol", "corpus", "tokenizer", "size")
    found = places(measured, columns)
    drawn, axes = style.figure(height=3.1 * len(found), columns=2, rows=len(found))
    for row, place in enumerate(found):
        own = at_place(measured, place, columns)
        _loss(axes[2 * row], own, ", ".join(place) if len(found) > 1 else "Test loss")
        _gap(axes[2 * row + 1], own, data[data["source"] == "published"])
    return drawn


def _loss(axis: Axes, own: pd.DataFrame, title: str) -> None:
    labels = lines(axis, own, "length", "bpt", dodge=0.09)
    axis.set_title(title)
    axis.set_ylabel("Test bits per token")
    style.token_axis(axis, own["length"], "Training length (tokens)")
    failed = own[(own["status"] != "ok") & own["bpt"].isna()]
    style.failure_marks(axis, [(row.length, style.look(row.architecture).color, row.status) for row in each(failed)])
    drawn = {label for _, label, _ in labels}
    labels += [(axis.get_ylim()[1], style.look(arch).label, style.look(arch).color) for arch, _ in by_architecture(failed)
               if style.look(arch).label not in drawn]
    style.end_labels(axis, labels)


def _gap(axis: Axes, own: pd.DataFrame, published: pd.DataFrame) -> None:
    style.zero_line(axis)
    lines(axis, own, "length", "gap_pct", dodge=0.09)
    reported = published[published["gap_pct"].notna()]
    for name, rows in by_architecture(reported):
        look = style.look(name)
        style.series(axis, list(rows["length"]), list(rows["gap_pct"]), look, linestyle=":", linewidth=1.1, markerfacecolor="white",
                     markeredgecolor=look.color, markeredgewidth=1.0)
    shown = own[own["gap_pct"].notna()]
    style.token_axis(axis, [*own["length"], *reported["length"]], "Training length (tokens)")
    axis.set_title("Gap to the Transformer")
    axis.set_ylabel("Gap (%), above 0: fewer bits")
    handles = [Line2D([], [], color=style.INK, marker="o", markeredgecolor="white", label="measured, 95% interval")] if len(shown) else []
    if len(reported):
        handles.append(Line2D([], [], color=style.INK, linestyle=":", marker="o", markerfacecolor="white", markeredgecolor=style.INK,
                              label="published"))
    axis.legend(handles=handles, loc="upper left")
    if not len(shown):
        style.note(axis, "no gap measured:\nthe Transformer or the others\nended without a result")
