"""causality: how far each subject is from its threshold; controls must be on the other side."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from overtone.reporting import formats, style
from overtone.reporting.figures.data import need, unique

_FLOOR = 1e-9  # where a change of exactly zero is drawn
_VERDICTS = {"pass": (style.GREEN, "o"), "FAIL": (style.VERMILION, "X"), "flagged": (style.PURPLE, "v"),
             "NOT FLAGGED": (style.VERMILION, "P")}


def draw(name: str, data: pd.DataFrame) -> Figure:
    """Left: change of past logits by mode. Right: bits per token on random tokens minus the entropy floor."""
    need(data, ["audit", "mode", "measure", "threshold", "control", "verdict"], name)
    causality, entropy = (data[data["audit"] == audit] for audit in ("causality", "entropy"))
    drawn, axes = style.figure(columns=2, height=3.0)
    _causality(axes[0], causality)
    _entropy(axes[1], entropy)
    shown = [verdict for verdict in _VERDICTS if verdict in set(data["verdict"])]
    words = {"pass": "passes", "FAIL": "violates", "flagged": "leaky control, flagged", "NOT FLAGGED": "control not flagged"}
    style.legend(drawn, [Line2D([], [], color=_VERDICTS[item][0], marker=_VERDICTS[item][1], linestyle="none", label=words[item])
                         for item in shown] + [Line2D([], [], color=style.INK, linewidth=1, label="threshold")], columns=5)
    return drawn


def _causality(axis: Axes, rows: pd.DataFrame) -> None:
    modes = unique(rows, "mode")
    for index, mode in enumerate(modes):
        own = rows[rows["mode"] == mode]
        _strip(axis, index, own, own["measure"].astype(float).clip(lower=_FLOOR))
        for threshold in sorted(unique(own, "threshold")):
            axis.plot([index - 0.4, index + 0.4], [threshold, threshold], color=style.INK, linewidth=1)
    axis.set_yscale("log")
    high = axis.get_ylim()[1]
    powers = range(-7, max(1, math.ceil(math.log10(high))) + 1, 2)
    axis.set_yticks([_FLOOR, *(10.0**power for power in powers)], ["0", *(f"$10^{{{power}}}$" for power in powers)])
    axis.minorticks_off()
    axis.set_ylim(_FLOOR / 5, high)
    axis.set_xticks(range(len(modes)), modes)
    axis.set_xlim(-0.6, max(len(modes), 1) - 0.4)
    axis.grid(axis="x", visible=False)
    axis.set_title("Past logits when later tokens change")
    axis.set_ylabel("Largest change (rms of the logits)")


def _entropy(axis: Axes, rows: pd.DataFrame) -> None:
    modes = unique(rows, "mode")
    for index, mode in enumerate(modes):
        own = rows[rows["mode"] == mode]
        _strip(axis, index, own, own["measure"].astype(float) - own["threshold"].astype(float))
    axis.axhline(0, color=style.INK, linewidth=1)
    axis.set_xticks(range(len(modes)), [mode.replace(" ", "\n") for mode in modes])
    axis.set_xlim(-0.6, max(len(modes), 1) - 0.4)
    axis.grid(axis="x", visible=False)
    axis.set_title("Random tokens: loss above the floor")
    axis.set_ylabel("Bits above the threshold")


def _strip(axis: Axes, index: int, rows: pd.DataFrame, values: pd.Series) -> None:
    """Points side by side, in a fixed scatter."""
    scatter = np.linspace(-0.3, 0.3, max(2, len(rows)))[: len(rows)]
    for verdict, (color, marker) in _VERDICTS.items():
        mask = (rows["verdict"] == verdict).to_numpy() & values.notna().to_numpy()
        if mask.any():
            passed = verdict == "pass"
            axis.plot(index + scatter[mask], values.to_numpy()[mask], marker=marker, color=color, linestyle="none",
                      alpha=0.45 if passed else 1, markeredgecolor="none" if passed else "white", markersize=4 if passed else 7,
                      zorder=2 if passed else 3)
    if formats.absent(values.max()) and len(rows):
        axis.annotate("not finite", (index, 0.5), xycoords=axis.get_xaxis_transform(), ha="center", color=style.GREY, fontsize=7)
