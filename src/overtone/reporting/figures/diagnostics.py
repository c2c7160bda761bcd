"""impulse_responses, spectrum: small multiples, a panel a head. half_lives, energy: all heads together."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator

from overtone.reporting import formats, style
from overtone.reporting.figures.data import need, unique

SHADES = [style.BLUE, style.VERMILION, style.GREEN, style.ORANGE, style.PURPLE, style.SKY]  # of layers
LAYERS, HEADS = 4, 8  # panels at most; of more layers or heads evenly spaced ones are drawn


def _panels(data: pd.DataFrame, label: str, **shared: bool) -> tuple[Figure, list[tuple[Axes, pd.DataFrame]]]:
    """A row a layer, a column a head."""
    layers, heads = _spaced(sorted(unique(data, "layer")), LAYERS), _spaced(sorted(unique(data, "head")), HEADS)
    drawn, axes = style.figure(height=1.0 * len(layers) + 0.9, columns=len(heads), rows=len(layers), **shared)
    found = []
    for axis, (layer, head) in zip(axes, product(layers, heads), strict=True):
        axis.tick_params(labelsize=6)
        if layer == layers[0]:
            axis.set_title(f"head {head:.0f}", fontsize=7.5, fontweight="normal")
        if head == heads[0]:
            axis.set_ylabel(f"layer {layer:.0f}", fontsize=7.5)
        found.append((axis, data[(data["layer"] == layer) & (data["head"] == head)]))
    total = (data["layer"].nunique(), data["head"].nunique())
    some = "" if total == (len(layers), len(heads)) else f" ({len(layers)} of {total[0]} layers, {len(heads)} of {total[1]} heads)"
    drawn.supxlabel(label + some, fontsize=8.5)
    return drawn, found


def _spaced(values: list[Any], most: int) -> list[Any]:
    if len(values) <= most:
        return values
    return [values[round(index)] for index in np.linspace(0, len(values) - 1, most)]


def draw_impulse(name: str, data: pd.DataFrame) -> Figure:
    """The formula as a line, the model's response as points on it, each head on its own time scale and relative to its largest."""
    need(data, ["layer", "head", "t", "model", "formula"], name, words=())
    drawn, panels = _panels(data, "Tokens after the impulse", sharey=True)
    for axis, rows in panels:
        rows = rows.sort_values("t")
        largest = float(rows["formula"].abs().max()) or 1.0
        every = max(1, len(rows) // 24)
        axis.plot(rows["t"], rows["formula"] / largest, color=style.GREY, linewidth=1.1)
        axis.plot(rows["t"][::every], rows["model"][::every] / largest, color=style.PURPLE, marker=".", linestyle="none", markersize=3.5)
        axis.xaxis.set_major_locator(MaxNLocator(2))
        axis.set_ylim(-1.15, 1.15)
    drawn.supylabel("Response, relative to the largest", fontsize=8.5)
    style.legend(drawn, [Line2D([], [], color=style.GREY, label="exp(−αt) cos(ωt + φ)"),
                         Line2D([], [], color=style.PURPLE, marker=".", linestyle="none", label="model fed an impulse")], side="upper")
    return drawn


def draw_spectrum(name: str, data: pd.DataFrame) -> Figure:
    """Magnitude by frequency, the resonance as a dashed line."""
    need(data, ["layer", "head", "omega", "magnitude", "peak_omega"], name)
    drawn, panels = _panels(data, "Frequency (cycles per token)", sharex=True, sharey=True)
    first = panels[0][0]  # the axes are shared: scales and ticks are set once
    first.set(xscale="log", yscale="log")
    first.xaxis.set_major_locator(LogLocator(numticks=3))
    first.yaxis.set_major_locator(LogLocator(numticks=4))
    first.minorticks_off()
    for axis, rows in panels:
        rows = rows[rows["omega"] > 0].sort_values("omega")
        axis.plot(rows["omega"] / (2 * math.pi), rows["magnitude"], color=style.PURPLE, linewidth=1.1)
        peak = rows["peak_omega"].dropna().max() / (2 * math.pi)
        if peak > 0:
            axis.plot([peak, peak], [0, 1], transform=axis.get_xaxis_transform(), color=style.GREY, linestyle=(0, (3, 2)), linewidth=0.8)
    drawn.supylabel("Magnitude", fontsize=8.5)
    style.legend(drawn, [Line2D([], [], color=style.PURPLE, label="spectrum of the kernel"),
                         Line2D([], [], color=style.GREY, linestyle=(0, (3, 2)), label="resonance")], side="upper")
    return drawn


def draw_half_lives(name: str, data: pd.DataFrame) -> Figure:
    """Left: half-lives before and after, joined by head. Right: what switching a head off costs, by its half-life."""
    need(data, ["when", "layer", "head", "half_life_tokens", "bpt_off", "bpt_on"], name)
    drawn, axes = style.figure(columns=2, height=3.1)
    layers = sorted(unique(data, "layer"))
    off = []
    for index, layer in enumerate(layers):
        color = SHADES[index % len(SHADES)]
        rows = data[data["layer"] == layer]
        before, after = (rows[rows["when"] == when].set_index("head") for when in ("before", "after"))
        shared = before.index.intersection(after.index)
        for head in shared:
            x = 0.03 * (index - (len(layers) - 1) / 2)
            axes[0].plot([x, 1 + x], [before.loc[head, "half_life_tokens"], after.loc[head, "half_life_tokens"]], color=color, marker="o",
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
    handles = [Line2D([], [], color=SHADES[index % len(SHADES)], marker="o", markersize=4, label=f"layer {layer}")
               for index, layer in enumerate(layers)]
    style.legend(drawn, [*handles, Line2D([], [], color=style.LIGHT, linewidth=6, label="published range, 2 to 2048")], columns=5)
    return drawn


def draw_energy(name: str, data: pd.DataFrame) -> Figure:
    """Left: variance out over in of every head, with two standard errors. Right: the longest half-life at every step of training."""
    need(data, ["layer", "head", "step", "white", "error", "modulus"], name)
    drawn, axes = style.figure(columns=2, height=3.1)
    heads, steps = data[data["layer"].notna()], data[data["step"].notna()].sort_values("step")
    handles = []
    layers = sorted(unique(heads, "layer"))
    for index, layer in enumerate(layers):
        rows, color = heads[heads["layer"] == layer], SHADES[index % len(SHADES)]
        axes[0].errorbar(rows["head"] + 0.12 * (index - (len(layers) - 1) / 2), rows["white"], yerr=2 * rows["error"], color=color,
                         marker="o", markersize=4, linestyle="none", linewidth=0.9)
        handles.append(Line2D([], [], color=color, marker="o", markersize=4, linestyle="none", label=f"layer {layer:.0f}"))
    axes[0].axhline(1, color=style.GREY, linewidth=0.8, zorder=0)
    axes[0].xaxis.set_major_locator(MaxNLocator(integer=True))
    axes[0].set_xlabel("Head")
    axes[0].set_ylabel("Variance out / in")
    axes[0].set_title("White input keeps its variance")
    axes[1].set_title("Slowest head at every step")
    axes[1].set_ylabel("1 − |λ|, largest |λ| of all heads")
    axes[1].set_xlabel("Training step")
    if len(steps):
        axes[1].plot(steps["step"], 1 - steps["modulus"], color=style.PURPLE, linewidth=1.2)
        axes[1].set_yscale("log")
        if (steps["modulus"] >= 1).any():
            style.note(axes[1], "a head grows: |λ| reaches 1")
    else:
        style.note(axes[1], "not recorded")
    style.legend(drawn, handles, columns=5)
    return drawn
