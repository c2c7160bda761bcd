"""scaling: the gap to the Transformer by model size, one colour a length, measured and published."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from overtone.reporting import formats, style
from overtone.reporting.figures.data import need, unique
from overtone.reporting.rows import each

_SHADES = [style.SKY, style.BLUE, style.PURPLE, style.VERMILION, style.ORANGE, style.GREEN]
_MARKERS = "osD^vP"


def draw(name: str, data: pd.DataFrame) -> Figure:
    """Left: what was measured. Right: what the paper reports, on its own sizes."""
    need(data, ["source", "size", "length", "architecture", "gap_pct", "parameters"], name)
    drawn, axes = style.figure(columns=2)
    measured = data[(data["source"] == "measured") & ~data["architecture"].isin(["transformer"])]
    for axis, rows, title in ((axes[0], measured, "Measured"), (axes[1], _published(data), "Published")):
        axis.set_title(title)
        axis.set_ylabel("Gap to the Transformer (%)")
        style.zero_line(axis)
        labels = _lines(axis, rows)
        if labels:
            style.log_axis(axis, "x")
        else:
            style.note(axis, "no gap measured")
        axis.set_xlabel("Parameters")
        style.end_labels(axis, labels)
    if measured["architecture"].nunique() > 1:
        style.legend(drawn, [Line2D([], [], color=style.INK, linestyle=style.look(item).line, label=style.look(item).label)
                             for item in unique(measured, "architecture")])
    return drawn


def _published(data: pd.DataFrame) -> pd.DataFrame:
    """Published sizes are named by their width d; Harmonic has 34 d^2 + 24 d + 2 * 50257 d parameters."""
    rows = data[(data["source"] == "published") & data["gap_pct"].notna()].copy()
    width = rows["size"].str.lstrip("d").astype(float)
    rows["parameters"] = 34 * width**2 + 24 * width + 2 * 50257 * width
    return rows


def _lines(axis: Axes, data: pd.DataFrame) -> list[tuple[float, str, str]]:
    labels = []
    for index, length in enumerate(sorted(unique(data, "length"))):
        color = _SHADES[index % len(_SHADES)]
        for architecture in unique(data, "architecture"):
            rows = data[(data["length"] == length) & (data["architecture"] == architecture) & data["gap_pct"].notna()]
            rows = rows.sort_values("parameters")
            if rows.empty:
                continue
            axis.plot(rows["parameters"], rows["gap_pct"], color=color, marker=_MARKERS[index % len(_MARKERS)], markeredgecolor="white",
                      linestyle=style.look(architecture).line)
            for row in each(rows):
                style.errors(axis, [row.parameters], [row.gap_pct], [row.gap_pct_low], [row.gap_pct_high], color)
            labels.append((float(rows["gap_pct"].iloc[-1]), f"length {formats.length(length)}", color))
    return labels
