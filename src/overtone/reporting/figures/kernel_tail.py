"""kernel_tail: time by length, and the ratio to the quadratic reference beside the same ratio of FLOPs."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from overtone.reporting import style
from overtone.reporting.figures.data import need, unique

_LOOKS = {"quadratic": (style.VERMILION, "s", "quadratic"), "fft": (style.BLUE, "o", "FFT"), "chunked": (style.GREEN, "^", "chunked"),
          "tail": (style.PURPLE, "v", "last output only"), "state": (style.ORANGE, "D", "one step on the state")}


def draw(name: str, data: pd.DataFrame) -> Figure:
    """Left: ms. Right: speed-up over quadratic (solid), FLOP ratio (dotted), published speed-up (hollow)."""
    need(data, ["source", "method", "length", "ms", "ms_q25", "ms_q75", "speedup_to_quadratic", "flops_ratio_to_quadratic"], name)
    measured, published = (data[data["source"] == source] for source in ("measured", "published"))
    drawn, axes = style.figure(columns=2, height=3.3)
    times, ratios = [], []
    for method in unique(measured, "method"):
        color, marker, words = _LOOKS.get(method, (style.GREY, "o", method))
        rows = measured[measured["method"] == method].sort_values("length")
        axes[0].plot(rows["length"], rows["ms"], color=color, marker=marker, markeredgecolor="white")
        style.errors(axes[0], list(rows["length"]), list(rows["ms"]), list(rows["ms_q25"]), list(rows["ms_q75"]), color)
        times.append((float(rows["ms"].iloc[-1]), words, color))
        if rows["speedup_to_quadratic"].notna().any():
            axes[1].plot(rows["length"], rows["speedup_to_quadratic"], color=color, marker=marker, markeredgecolor="white")
            axes[1].plot(rows["length"], rows["flops_ratio_to_quadratic"], color=color, linestyle=":", linewidth=1.2)
            ratios.append((float(rows["speedup_to_quadratic"].iloc[-1]), words, color))
    axes[1].plot(published["length"], published["speedup_to_quadratic"], marker="v", markerfacecolor="white", linestyle="none",
                 markeredgecolor=style.PURPLE, markersize=7)
    for axis, label, title, labels in ((axes[0], "Time (ms)", "The mixer alone", times),
                                       (axes[1], "Quadratic over method", "Speed-up over the quadratic reference", ratios)):
        axis.set_title(title)
        axis.set_ylabel(label)
        style.token_axis(axis, data["length"])
        style.log_axis(axis)
        style.end_labels(axis, labels)
    style.legend(drawn, [
        Line2D([], [], color=style.INK, marker="o", markeredgecolor="white", label="time"),
        Line2D([], [], color=style.INK, linestyle=":", label="FLOPs"),
        Line2D([], [], color=style.PURPLE, marker="v", markerfacecolor="white", linestyle="none", label="published"),
    ])
    return drawn
