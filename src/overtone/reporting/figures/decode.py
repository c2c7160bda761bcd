"""decode: ms per token by context with quartile bands. decode_memory: state and peak by context."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from overtone.reporting import style
from overtone.reporting.figures.data import by_architecture, need, unique

_LINES: list[Any] = ["-", "--", ":", "-."]


def draw(name: str, data: pd.DataFrame) -> Figure:
    """One panel a batch size; line style a variant of the program; published points hollow."""
    need(data, ["source", "architecture", "variant", "context", "batch", "ms_per_token", "ms_per_token_q25", "ms_per_token_q75"], name)
    measured = data[data["source"] == "measured"]
    batches = unique(measured, "batch")
    drawn, axes = style.figure(columns=len(batches), height=3.3, sharey=True)
    labels = {}
    for axis, batch in zip(axes, batches, strict=True):
        labels[axis] = _lines(axis, measured[measured["batch"] == batch], "ms_per_token")
        published = data[(data["source"] == "published") & (data["batch"] == batch)]
        for architecture, rows in by_architecture(published):
            look = style.look(architecture)
            axis.plot(rows["context"], rows["ms_per_token"], marker=look.marker, markerfacecolor="white", markeredgecolor=look.color,
                      linestyle="none", markersize=6.5)
        _finish(axis, pd.concat([measured, published]), f"Batch {batch:.0f}", "Time per token (ms)")
        axis.set_yscale("log")
    for axis in axes:
        style.log_axis(axis)
        style.end_labels(axis, labels[axis])
    _legend(drawn, measured, bool((data["source"] == "published").any()))
    return drawn


def draw_memory(name: str, data: pd.DataFrame) -> Figure:
    """State that decoding carries, at the smallest batch, and what it and one more token take at their peak."""
    need(data, ["architecture", "variant", "context", "batch", "state_bytes", "peak_bytes"], name)
    batch = data["batch"].min()
    own = data[data["batch"] == batch]
    drawn, axes = style.figure(columns=2, height=3.2)
    for axis, column, title in ((axes[0], "state_bytes", "State carried on"), (axes[1], "peak_bytes", "State and one step")):
        labels = _lines(axis, own, column)
        _finish(axis, own, f"{title}, batch {batch:.0f}", "Memory")
        axis.set_yscale("log")
        style.log_axis(axis, words=style.tick_size)
        style.end_labels(axis, labels)
    _legend(drawn, own, False)
    return drawn


def _lines(axis: Axes, data: pd.DataFrame, column: str) -> list[tuple[float, str, str]]:
    labels = []
    for architecture, own in by_architecture(data[data[column].notna()]):
        look = style.look(architecture)
        for index, variant in enumerate(_variants(data)):
            rows = own[own["variant"] == variant].sort_values("context")
            if rows.empty:
                continue
            style.series(axis, list(rows["context"]), list(rows[column]), look, linestyle=_LINES[index % len(_LINES)], markersize=4.5)
            if f"{column}_q25" in rows:
                axis.fill_between(rows["context"], rows[f"{column}_q25"].astype(float), rows[f"{column}_q75"].astype(float),
                                  color=look.color, alpha=0.2, linewidth=0)
        fastest = own[own["context"] == own["context"].max()][column].min()
        labels.append((float(fastest), look.label, look.color))
    return labels


def _variants(data: pd.DataFrame) -> list[str]:
    """Variants, the one that most architectures have first: it gets the solid line."""
    counts = data.groupby("variant")["architecture"].nunique()
    return [str(name) for name in counts.sort_values(ascending=False, kind="stable").index]


def _finish(axis: Axes, data: pd.DataFrame, title: str, label: str) -> None:
    axis.set_title(title)
    axis.set_ylabel(label)
    style.token_axis(axis, data["context"], "Context (tokens)")


def _legend(drawn: Figure, data: pd.DataFrame, published: bool) -> None:
    handles = [Line2D([], [], color=style.INK, linestyle=_LINES[index % len(_LINES)], label=variant)
               for index, variant in enumerate(_variants(data))]
    if published:
        handles.append(Line2D([], [], color=style.INK, marker="o", markerfacecolor="white", linestyle="none",
                              label="published (6M parameters)"))
    style.legend(drawn, handles)
