"""impulse_responses, half_lives, spectrum: small multiples, a panel a head."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from overtone.reporting import formats, style
from overtone.reporting.figures.data import need, unique

MOST = 32  # panels; of more heads evenly spaced ones are drawn


def _panels(data: pd.DataFrame, height: float) -> tuple[Figure, list[tuple[Axes, int, int, pd.DataFrame]]]:
    """One panel a (layer, head), layers as rows where they fit."""
    heads: list[tuple[Any, pd.DataFrame]] = list(data.groupby(["layer", "head"]))
    if len(heads) > MOST:
        heads = [heads[index] for index in np.linspace(0, len(heads) - 1, MOST).round().astype(int)]
    across = min(8, max(2, data["head"].nunique())) if len(heads) > 4 else len(heads)
    down = -(-len(heads) // across)
    drawn, axes = style.figure(height=height * down + 0.5, columns=across, rows=down, sharex=True, sharey=True)
    for axis in axes[len(heads):]:
        axis.set_axis_off()
    for axis in axes:
        axis.tick_params(labelsize=6.5)
    found = [(axis, int(key[0]), int(key[1]), rows) for axis, (key, rows) in zip(axes, heads, strict=False)]
    for axis, layer, head, _ in found:
        axis.set_title(f"layer {layer}, head {head}", fontsize=7, fontweight="normal")
    return drawn, found


def draw_impulse(name: str, data: pd.DataFrame) -> Figure:
    """The formula as a line, the model's response as points on it."""
    need(data, ["layer", "head", "t", "model", "formula"], name)
    drawn, panels = _panels(data, 1.15)
    for axis, _, _, rows in panels:
        rows = rows.sort_values("t")
        every = max(1, len(rows) // 24)
        axis.plot(rows["t"], rows["formula"], color=style.GREY, linewidth=1.2)
        axis.plot(rows["t"][::every], rows["model"][::every], color=style.PURPLE, marker=".", linestyle="none", markersize=3.5)
        axis.axhline(0, color=style.LIGHT, linewidth=0.7, zorder=0)
    drawn.supxlabel("Tokens after the impulse", fontsize=8.5)
    drawn.supylabel("Response", fontsize=8.5)
    style.legend(drawn, [Line2D([], [], color=style.GREY, label="exp(−αt) cos(ωt + φ)"),
                         Line2D([], [], color=style.PURPLE, marker=".", linestyle="none", label="model fed an impulse")], side="upper")
    return drawn


def draw_spectrum(name: str, data: pd.DataFrame) -> Figure:
    """Magnitude by frequency, the resonance as a dashed line."""
    need(data, ["layer", "head", "omega", "magnitude", "peak_omega"], name)
    drawn, panels = _panels(data, 1.15)
    for axis, _, _, rows in panels:
        rows = rows[rows["omega"] > 0].sort_values("omega")
        axis.plot(rows["omega"] / (2 * math.pi), rows["magnitude"], color=style.PURPLE, linewidth=1.1)
        peak = float(rows["peak_omega"].iloc[0])
        if peak > 0:
            axis.axvline(peak / (2 * math.pi), color=style.GREY, linestyle=(0, (3, 2)), linewidth=0.8)
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.minorticks_off()
    drawn.supxlabel("Frequency (cycles per token)", fontsize=8.5)
    drawn.supylabel("Magnitude", fontsize=8.5)
    style.legend(drawn, [Line2D([], [], color=style.PURPLE, label="spectrum of the kernel"),
                         Line2D([], [], color=style.GREY, linestyle=(0, (3, 2)), label="resonance")], side="upper")
    return drawn


def draw_half_lives(name: str, data: pd.DataFrame) -> Figure:
    """Left: half-lives before and after, joined by head. Right: what switching a head off costs, by its half-life."""
    need(data, ["when", "layer", "head", "half_life_tokens", "bpt_off", "bpt_on"], name)
    drawn, axes = style.figure(columns=2, height=3.1)
    layers = sorted(unique(data, "layer"))
    shades = [style.BLUE, style.VERMILION, style.GREEN, style.ORANGE, style.PURPLE, style.SKY]
    off = []
    for index, layer in enumerate(layers):
        color = shades[index % len(shades)]
        rows = data[data["layer"] == layer]
        before, after = (rows[rows["when"] == when].set_index("head") for when in ("before", "after"))
        shared = before.index.intersection(after.index)
        for head in shared:
            axes[0].plot([0, 1], [before.loc[head, "half_life_tokens"], after.loc[head, "half_life_tokens"]], color=color, marker="o",
                         markersize=3.5, linewidth=0.9, alpha=0.8)
        known = after[after["bpt_off"].notna()]
        off.append(len(known))
        axes[1].plot(known["half_life_tokens"], known["bpt_off"] - known["bpt_on"], color=color, marker="o", markersize=4, linestyle="none")
    axes[0].set_xticks([0, 1], ["before", "after"])
    axes[0].set_xlim(-0.25, 1.25)
    axes[0].set_yscale("log", base=2)
    axes[0].yaxis.set_major_formatter(FuncFormatter(lambda value, _: formats.length(value) if value >= 1 else f"{value:g}"))
    axes[0].set_ylabel("Half-life (tokens)")
    axes[0].set_title("Half-life of every head")
    axes[0].axhspan(2, 2048, color=style.LIGHT, alpha=0.35, linewidth=0, zorder=0)
    axes[1].set_title("Loss with one head switched off")
    axes[1].set_ylabel("Increase (bits per token)")
    if any(off):
        style.token_axis(axes[1], [2**power for power in range(12)], "Half-life after training (tokens)")
        style.zero_line(axes[1])
    else:
        style.note(axes[1], "not measured")
    handles = [Line2D([], [], color=shades[index % len(shades)], marker="o", markersize=4, label=f"layer {layer}")
               for index, layer in enumerate(layers)]
    style.legend(drawn, [*handles, Line2D([], [], color=style.LIGHT, linewidth=6, label="published range, 2 to 2048")], columns=5)
    return drawn
