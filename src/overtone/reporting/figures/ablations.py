"""ablations, resonator_ablations: what the loss gains when a part is taken out, with intervals."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from overtone.reporting import formats, style
from overtone.reporting.figures.data import need, unique
from overtone.reporting.rows import each


def draw(name: str, data: pd.DataFrame) -> Figure:
    """One panel a length: a row a model, the difference from the full model with its interval, the published one hollow."""
    need(data, ["length", "architecture", "status", "delta_bpt", "delta_bpt_low", "delta_bpt_high", "published_delta_bpt"], name)
    full = "harmonic" if name == "ablations" else "resonator"
    lengths = sorted(unique(data, "length"))
    models = [item for item in sorted(unique(data, "architecture"), key=formats.architecture_order) if item != full]
    drawn, axes = style.figure(height=1.4 + 0.32 * len(models), columns=len(lengths), sharey=True)
    for axis, length in zip(axes, lengths, strict=True):
        style.zero_line(axis, which="x")
        for row in each(data[(data["length"] == length) & (data["architecture"] != full)]):
            y, look = models.index(row.architecture), style.look(row.architecture)
            if not formats.absent(row.published_delta_bpt):
                axis.plot([row.published_delta_bpt], [y], marker="o", markerfacecolor="white", markeredgecolor=style.GREY,
                          linestyle="none", zorder=2)
            if formats.absent(row.delta_bpt):
                words = row.status if row.status != "ok" else "no pair"
                axis.annotate(words, (0, y), xytext=(4, 0), textcoords="offset points", va="center", fontsize=7, color=style.GREY)
                continue
            if not formats.absent(row.delta_bpt_low):
                axis.plot([row.delta_bpt_low, row.delta_bpt_high], [y, y], color=look.color, linewidth=1.4, solid_capstyle="butt")
            axis.plot([row.delta_bpt], [y], marker="o", markersize=6, color=look.color, markeredgecolor="white", linestyle="none", zorder=3)
        axis.set_title(f"Length {formats.length(length)}")
        axis.set_xlabel("Difference from the full model\n(bits per token; right: worse)")
        axis.set_yticks(range(len(models)), [formats.architecture(item).split(", ", 1)[-1] for item in models])
        axis.set_ylim(len(models) - 0.5, -0.5)
        axis.grid(axis="y", visible=False)
    if data["published_delta_bpt"].notna().any():
        style.legend(drawn, [
            Line2D([], [], color=style.INK, marker="o", markeredgecolor="white", label="measured, 95% interval"),
            Line2D([], [], linestyle="none", marker="o", markerfacecolor="white", markeredgecolor=style.GREY,
                   label="published (WikiText-2, length 8K)"),
        ])
    return drawn
