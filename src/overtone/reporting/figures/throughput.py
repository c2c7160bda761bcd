"""throughput, training_throughput: tokens per second by length, measured with quartiles, published hollow."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from overtone.reporting import formats, style
from overtone.reporting.figures.data import by_architecture, need
from overtone.reporting.rows import each


def draw(name: str, data: pd.DataFrame) -> Figure:
    """Left: measured. Right: published; a cross marks a rate taken without waiting for the device."""
    need(data, ["source", "architecture", "length", "tokens_per_s", "tokens_per_s_q25", "tokens_per_s_q75", "synchronised"], name)
    drawn, axes = style.figure(columns=2, width=style.WIDTH, gridspec_kw={"width_ratios": [1.5, 1]})
    measured, published = (data[data["source"] == source] for source in ("measured", "published"))
    labels = []
    for architecture, rows in by_architecture(measured[measured["tokens_per_s"].notna()]):
        look, rows = style.look(architecture), rows.sort_values("length")
        style.series(axes[0], list(rows["length"]), list(rows["tokens_per_s"]), look)
        axes[0].fill_between(rows["length"], rows["tokens_per_s_q25"].astype(float), rows["tokens_per_s_q75"].astype(float),
                             color=look.color, alpha=0.2, linewidth=0)
        labels.append((float(rows["tokens_per_s"].iloc[-1]), look.label, look.color))
    axes[0].set_title("Measured (band: quartiles)")
    style.token_axis(axes[0], measured["length"])
    axes[0].set_ylim(bottom=0)
    style.end_labels(axes[0], labels)
    _published(axes[1], published)
    for axis in axes:
        axis.set_ylabel("Training tokens per second")
        axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: style.tick_count(value)))
    return drawn


def _published(axis: Axes, rows: pd.DataFrame) -> None:
    axis.set_title("Published")
    if rows["length"].isna().all():
        names = [architecture for architecture, _ in by_architecture(rows)]
        for index, architecture in enumerate(names):
            look = style.look(architecture)
            value = float(rows.loc[rows["architecture"] == architecture, "tokens_per_s"].iloc[0])
            axis.plot([index], [value], marker=look.marker, markerfacecolor="white", markeredgecolor=look.color, linestyle="none",
                      markersize=7)
            axis.annotate(formats.count(value), (index, value), xytext=(7, 0), textcoords="offset points", va="center", fontsize=8)
        axis.set_xticks(range(len(names)), [formats.architecture(item) for item in names])
        axis.set_xlim(-0.5, len(names) - 0.2)
        axis.set_ylim(0, 1.15 * float(rows["tokens_per_s"].max()))
        return
    for row in each(rows):
        look, waited = style.look(row.architecture), row.synchronised in (True, "True")
        axis.plot([row.length], [row.tokens_per_s], marker=look.marker if waited else "x", color=look.color, linestyle="none",
                  markerfacecolor="white", markersize=6, markeredgewidth=1.2)
    style.token_axis(axis, rows["length"])
    style.log_axis(axis)
    axis.legend(handles=[Line2D([], [], color=style.INK, marker="o", markerfacecolor="white", linestyle="none", label="synchronised"),
                         Line2D([], [], color=style.INK, marker="x", linestyle="none", label="not waited for")], loc="center right")
