"""cost: process hours of every experiment, split by architecture."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from overtone.reporting import formats, style
from overtone.reporting.figures.data import need, unique
from overtone.reporting.rows import each


def draw(name: str, data: pd.DataFrame) -> Figure:
    """A bar an experiment; its tokens beside it."""
    need(data, ["what", "architecture", "tokens", "hours"], name)
    groups = unique(data, "what")
    drawn, (axis,) = style.figure(height=1.1 + 0.28 * len(groups))
    unit, scale = ("hours", 1.0) if data.groupby("what")["hours"].sum().max() >= 2 else ("minutes", 60.0)
    colors: dict[str, str] = {}
    for y, group in enumerate(groups):
        start = 0.0
        for row in each(data[data["what"] == group]):
            family = row.architecture.split("-")[0].split(",")[0] if isinstance(row.architecture, str) else ""
            known = family in ("harmonic", "transformer", "llama", "mamba", "resonator")
            color, label = (style.look(family).color, formats.architecture(family)) if known else (style.GREY, "transplant or other")
            colors.setdefault(label, color)
            axis.barh([y], [row.hours * scale], left=start, height=0.62, color=color, edgecolor="white", linewidth=0.4)
            start += row.hours * scale
        tokens = data.loc[data["what"] == group, "tokens"].sum()
        axis.annotate(f"{formats.count(tokens)} tokens", (start, y), xytext=(4, 0), textcoords="offset points", va="center", fontsize=7)
    axis.set_yticks(range(len(groups)), groups)
    axis.set_ylim(len(groups) - 0.4, -0.6)
    axis.margins(x=0.14)
    axis.set_xlim(left=0)
    axis.set_xlabel(f"Process {unit}")
    axis.grid(axis="y", visible=False)
    style.legend(drawn, [Patch(color=color, label=label) for label, color in colors.items()], columns=6)
    return drawn
