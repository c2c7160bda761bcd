"""memory_wall: peak memory of a training step by length, and the longest length that trains under the limit."""

from __future__ import annotations

import math

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from overtone.reporting import formats, style
from overtone.reporting.figures.data import by_architecture, need
from overtone.reporting.rows import each


def draw(name: str, data: pd.DataFrame) -> Figure:
    """Above: measured peaks up to the limit, the published profile. Below: the longest lengths, where they were measured."""
    need(data, ["kind", "architecture", "attention", "length", "status", "peak_bytes", "limit_bytes"], name)
    profiled = data["kind"] == "peak"
    measured = data[profiled] if profiled.any() else data[data["kind"] == "cell"].assign(attention=None)
    longest = data[data["kind"].isin(["longest", "modelled"])]
    rows = 2 if len(longest) else 1
    drawn, axes = style.figure(columns=2, rows=rows, height=3.1 if rows == 1 else 5.6)
    limits = set(data.loc[data["kind"] == "longest", "limit_bytes"].dropna())
    _panel(axes[0], measured, "Measured: one training step" if profiled.any() else "Measured: whole runs", limits)
    _panel(axes[1], data[data["kind"] == "published"], "Published profile", set())
    if rows == 2:
        for axis, kind, title in ((axes[2], "longest", "Longest that trains"), (axes[3], "modelled", "Longest, modelled")):
            _longest(axis, longest[longest["kind"] == kind], title)
    if (data["attention"] == "quadratic").any():
        style.legend(drawn, [Line2D([], [], color=style.INK, linestyle="-", label="attention as SDPA, or no attention"),
                             Line2D([], [], color=style.INK, linestyle="--", label="attention as the quadratic reference"),
                             Patch(facecolor="white", edgecolor=style.INK, hatch="////", label="quadratic")])
    return drawn


def _panel(axis: Axes, rows: pd.DataFrame, title: str, limits: set[float]) -> None:
    """Peaks by length; what did not fit is above the line of its limit, or a cross where no limit was set."""
    labels: list[tuple[float, str, str]] = []
    failed: set[tuple[float, str, str]] = set()
    for architecture, own in by_architecture(rows):
        look = style.look(architecture)
        for attention, part in own.groupby("attention", dropna=False):
            quadratic = attention == "quadratic"
            fits = part[part["peak_bytes"].notna() & (part["status"] == "ok")].groupby("length", as_index=False)["peak_bytes"].max()
            style.series(axis, list(fits["length"]), list(fits["peak_bytes"]), look, linestyle="--" if quadratic else "-")
            failed |= {(float(row.length), look.color, str(row.status)) for row in each(part[part["status"] != "ok"])}
            if not quadratic and len(fits):
                labels.append((float(fits["peak_bytes"].iloc[-1]), look.label, look.color))
    axis.set_title(title)
    axis.set_ylabel("Peak memory")
    style.token_axis(axis, [length for length in rows["length"] if _power_of_two(length)])
    if labels:
        axis.set_yscale("log")
        for limit in limits:
            axis.axhline(limit, color=style.GREY, linestyle=(0, (4, 2)), linewidth=0.9)
            axis.annotate(f"limit {formats.size(limit)}", (0.02, limit), xycoords=axis.get_yaxis_transform(), xytext=(0, 2),
                          textcoords="offset points", fontsize=7, color=style.GREY)
        if not limits:
            style.failure_marks(axis, sorted(failed))
        style.log_axis(axis, words=style.tick_size)
    else:
        style.note(axis, "no run ended ok")
    style.end_labels(axis, labels)


def _words(length: float) -> str:
    """A length; of large ones (they are modelled) three digits."""
    return formats.length(length) if length < 100_000 or _power_of_two(length) else f"{formats.count(length)}"


def _power_of_two(length: float) -> bool:
    return math.log2(length).is_integer()


def _longest(axis: Axes, rows: pd.DataFrame, title: str) -> None:
    bars = list(each(rows.sort_values("length", kind="stable")))
    for y, row in enumerate(bars):
        look, quadratic = style.look(row.architecture), row.attention == "quadratic"
        axis.barh([y], [row.length], height=0.62, color="white" if quadratic else look.color, edgecolor=look.color,
                  hatch="////" if quadratic else None, linewidth=0.8)
        axis.annotate(_words(row.length), (row.length, y), xytext=(3, 0), textcoords="offset points", va="center", fontsize=7)
    limits = sorted(set(rows["limit_bytes"].dropna()))
    axis.margins(y=0.02)
    axis.set_title(f"{title}, {' or '.join(formats.size(limit) for limit in limits)}" if limits else title)
    axis.set_yticks(range(len(bars)), [formats.architecture(row.architecture) for row in bars], fontsize=7.5)
    axis.set_xlabel("Length (tokens)")
    axis.grid(axis="y", visible=False)
    if bars:
        axis.set_xscale("log", base=2)
        axis.set_xlim(min(row.length for row in bars) / 4, max(row.length for row in bars) * 3)
        style.token_axis(axis, [2.0**power for power in range(0, 60, 2) if axis.get_xlim()[0] <= 2.0**power <= axis.get_xlim()[1]])
    else:
        style.note(axis, "not measured")
