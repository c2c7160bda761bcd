"""zoo: bits per byte of every architecture, one panel a protocol, best first."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from overtone.reporting import formats, style
from overtone.reporting.figures.data import need, unique
from overtone.reporting.rows import each


def draw(name: str, data: pd.DataFrame) -> Figure:
    """Panels one above the other, on one axis; in each a row an architecture with its interval."""
    need(data, ["protocol", "architecture", "status", "length", "bpb", "bpb_low", "bpb_high"], name)
    protocols = unique(data, "protocol")
    counts = [int((data["protocol"] == protocol).sum()) for protocol in protocols]
    drawn, axes = style.figure(height=0.6 + sum(0.5 + 0.21 * count for count in counts), rows=len(protocols), sharex=True,
                               height_ratios=[1 + count for count in counts])
    for axis, protocol in zip(axes, protocols, strict=True):
        own = data[data["protocol"] == protocol].sort_values("bpb", na_position="last", kind="stable")
        for y, row in enumerate(each(own)):
            look = style.look(row.architecture)
            if formats.absent(row.bpb):
                axis.annotate(row.status, (0.02, y), xycoords=axis.get_yaxis_transform(), va="center", fontsize=7, color=style.GREY)
                continue
            if not formats.absent(row.bpb_low):
                axis.plot([row.bpb_low, row.bpb_high], [y, y], color=look.color, linewidth=1.3, solid_capstyle="butt", alpha=0.8)
            axis.plot([row.bpb], [y], marker="o", markersize=5.5, color=look.color, markeredgecolor="white", linestyle="none", zorder=3)
        axis.set_yticks(range(len(own)), [formats.architecture(item) for item in own["architecture"]], fontsize=7.5)
        axis.set_ylim(len(own) - 0.5, -0.5)
        axis.set_title(f"Protocol {protocol}, length {formats.length(own['length'].iloc[0])}", fontsize=8.5, loc="right")
        axis.grid(axis="y", visible=False)
    axes[-1].set_xlabel("Test bits per byte")
    return drawn
