"""One look for every figure: colours, markers, axes, direct labels, and files that are the same every time.

An architecture keeps its colour and marker in all figures (palette of Okabe and Ito, told apart by colour-blind readers;
markers and line styles repeat the distinction without colour). Ablations take their family's colour.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from overtone.files import StrPath, atomic_path
from overtone.reporting import formats

WIDTH = 7.0  # inches: the text width of a page
DPI = 200
INK, GREY, LIGHT = "#222222", "#767676", "#d9d9d9"
BLUE, ORANGE, GREEN, VERMILION, PURPLE, SKY, YELLOW = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#B8A200"
_FAMILIES = {"harmonic": (BLUE, "o"), "transformer": (VERMILION, "s"), "llama": (ORANGE, "D"), "mamba": (GREEN, "^"),
             "resonator": (PURPLE, "v")}
_ABLATION_MARKERS = "PX*hd<>p8"
_ABLATION_LINES = [(0, (4, 1.5)), (0, (1, 1)), (0, (5, 1, 1, 1)), (0, (3, 1, 1, 1, 1, 1))]
_OTHERS = [SKY, YELLOW, "#8C564B", "#444444"]

mpl.rcParams.update({
    "font.family": "DejaVu Sans", "font.size": 8.5, "axes.titlesize": 9, "axes.labelsize": 8.5, "xtick.labelsize": 8,
    "ytick.labelsize": 8, "legend.fontsize": 8, "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": GREY,
    "xtick.color": GREY, "ytick.color": GREY, "xtick.labelcolor": INK, "ytick.labelcolor": INK, "axes.linewidth": 0.7,
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.color": LIGHT, "grid.linewidth": 0.5,
    "axes.axisbelow": True, "axes.titlelocation": "left", "axes.titleweight": "bold", "lines.linewidth": 1.5, "lines.markersize": 5,
    "legend.frameon": False, "figure.dpi": DPI, "savefig.dpi": DPI, "text.hinting": "none", "pdf.fonttype": 42, "svg.fonttype": "path",
    "svg.hashsalt": "overtone", "path.simplify": True, "figure.constrained_layout.h_pad": 0.06, "figure.constrained_layout.w_pad": 0.06,
})


@dataclass(frozen=True)
class Look:
    """How a series is drawn."""

    color: str
    marker: str
    line: Any
    label: str


def look(name: str) -> Look:
    """The look of an architecture: ours fixed, an ablation in its family's colour, any other by its name."""
    family, _, variant = name.partition("-")
    if family in _FAMILIES:
        color, marker = _FAMILIES[family]
        if not variant:
            return Look(color, marker, "-", formats.architecture(name))
        turn = _turn(variant)
        return Look(color, _ABLATION_MARKERS[turn % len(_ABLATION_MARKERS)], _ABLATION_LINES[turn % len(_ABLATION_LINES)],
                    formats.architecture(name))
    turn = _turn(name)
    return Look(_OTHERS[turn % len(_OTHERS)], _ABLATION_MARKERS[turn % len(_ABLATION_MARKERS)], "-", name)


def _turn(word: str) -> int:
    known = ["flat", "raw", "tied", "uncoupled", "nonlocal", "bare", "frozen", "decay", "onehead"]
    return known.index(word) if word in known else sum(word.encode())


def figure(width: float = WIDTH, height: float = 3.0, columns: int = 1, rows: int = 1, **options: Any) -> tuple[Figure, list[Axes]]:
    """A figure and its axes, row by row."""
    drawn = Figure(figsize=(width, height), layout="constrained")
    axes = drawn.subplots(rows, columns, squeeze=False, **options)
    return drawn, [axis for row in axes for axis in row]


def empty(words: str = "not measured in this study") -> Figure:
    """A figure that says why there is nothing to see."""
    drawn = Figure(figsize=(WIDTH, 1.4))
    drawn.text(0.5, 0.5, words, ha="center", va="center", fontsize=11, color=GREY, style="italic")
    return drawn


def token_axis(axis: Axes, values: Iterable[float], label: str = "Length (tokens)") -> None:
    """x: powers of two, ticks where there are values: 512, 1K, 64K. Values that are too close for their labels lose the label."""
    ticks = sorted({float(value) for value in values})
    axis.set_xscale("log", base=2)
    axis.set_xlabel(label)
    if not ticks:
        return
    room = _panel(axis)[0] - 1.3  # axis and direct labels take the rest
    axis.xaxis.set_major_locator(FixedLocator(apart(ticks, max(2, math.floor(room / 0.26)))))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: formats.length(round(value))))
    if ticks[0] == ticks[-1]:
        axis.set_xlim(ticks[0] / 2, ticks[0] * 2)


def _panel(axis: Axes) -> tuple[float, float]:
    """Width and height in inches of the panel that the axes and their labels share."""
    parent, spec = axis.figure, axis.get_subplotspec()
    rows, columns = (spec.get_gridspec().nrows, spec.get_gridspec().ncols) if spec else (1, 1)
    return parent.bbox.width / parent.dpi / columns, parent.bbox.height / parent.dpi / rows


def apart(ticks: Sequence[float], most: int) -> list[float]:
    """The ticks that have room where `most` labels fit into the whole range, from the right: the longest length keeps its label."""
    gap = math.log2(ticks[-1] / ticks[0]) / max(1, most - 1) * 0.999
    kept: list[float] = []
    for tick in reversed(ticks):
        if not kept or math.log2(kept[-1] / tick) >= gap:
            kept.append(tick)
    return kept[::-1]


def log_axis(axis: Axes, which: str = "y", words: Callable[[float], str] | None = None) -> None:
    """A decimal logarithmic axis with plain numbers on 1, 2 and 5; call it when everything is drawn."""
    chosen = axis.yaxis if which == "y" else axis.xaxis
    (axis.set_yscale if which == "y" else axis.set_xscale)("log")
    low, high = axis.get_ylim() if which == "y" else axis.get_xlim()
    decades = math.log10(high / low) if low > 0 else 1
    steps = (1, 2, 5) if decades < 2.5 else (1,)
    every = max(1, math.ceil(decades / 7))
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    chosen.set_major_locator(FixedLocator([step * 10.0**power for power in powers if power % every == 0 for step in steps]))
    chosen.set_minor_locator(NullLocator())
    chosen.set_major_formatter(FuncFormatter(lambda value, _: (words or _plain)(value)))
    (axis.set_ylim if which == "y" else axis.set_xlim)(low, high)


def tick_size(value: float) -> str:
    """Bytes on an axis: 50 MB, 2 GB."""
    number, unit = formats.size(value).split(" ")
    return f"{_short(number)} {unit}"


def tick_count(value: float) -> str:
    """Tokens, parameters, rates on an axis: 5K, 2.5M."""
    words = formats.count(value)
    number = words.rstrip("KMGTP")
    return _short(number) + words[len(number):]


def _short(number: str) -> str:
    return number.rstrip("0").rstrip(".") if "." in number else number


def _plain(value: float) -> str:
    if 1e-3 <= abs(value) < 1e4:
        return f"{value:g}"
    if 1e4 <= abs(value) < 1e16:
        return tick_count(value)
    return f"$10^{{{round(math.log10(value))}}}$"


def errors(axis: Axes, x: Sequence[float], y: Sequence[float], low: Sequence[float], high: Sequence[float], color: str) -> None:
    """Vertical intervals; points without one are left alone."""
    for at, value, bottom, top in zip(x, y, low, high, strict=True):
        if not (formats.absent(value) or formats.absent(bottom) or formats.absent(top)):
            axis.plot([at, at], [bottom, top], color=color, linewidth=1.1, alpha=0.75, solid_capstyle="butt", zorder=2)


def series(axis: Axes, x: Sequence[float], y: Sequence[float], drawn: Look, **options: Any) -> None:
    """A line with markers in the look of an architecture."""
    axis.plot(x, y, **({"color": drawn.color, "marker": drawn.marker, "linestyle": drawn.line, "markeredgecolor": "white",
                        "markeredgewidth": 0.6, "zorder": 3} | options))


def end_labels(axis: Axes, labels: Sequence[tuple[float, str, str]], gap: float = 0.03) -> None:
    """Direct labels right of the axes at the heights (y, text, colour), moved apart where they would touch.

    Call it when everything is drawn, on axes that share a scale too: the heights follow the limits.
    """
    known = [item for item in labels if not formats.absent(item[0]) and math.isfinite(item[0])]
    if not known:
        return
    height = 72 * max(1.0, _panel(axis)[1] - 0.75)  # points; title and labels take the rest
    spacing = 1.25 * float(mpl.rcParams["legend.fontsize"]) / height
    at = [axis.transAxes.inverted().transform(axis.transData.transform((axis.get_xlim()[1], y)))[1] for y, _, _ in known]
    for (_, words, color), position in zip(known, spread(at, spacing), strict=True):
        axis.annotate(words, (1 + gap, position), xycoords="axes fraction", va="center", ha="left", color=color,
                      fontsize=mpl.rcParams["legend.fontsize"], annotation_clip=False)


def spread(positions: Sequence[float], spacing: float, top: float = 1.0) -> list[float]:
    """The positions moved as little as needed to be `spacing` apart (order kept), centred on where they were, none above `top`."""
    order = sorted(range(len(positions)), key=lambda index: positions[index])
    groups = [[positions[index], 1] for index in order]  # centre, members
    merged: list[list[float]] = []
    for centre, members in groups:
        merged.append([centre, members])
        while len(merged) > 1 and merged[-1][0] - merged[-2][0] < spacing * (merged[-1][1] + merged[-2][1]) / 2:
            right, left = merged.pop(), merged.pop()
            total = left[1] + right[1]
            merged.append([(left[0] * left[1] + right[0] * right[1]) / total, total])
    placed = [centre + spacing * (index - (members - 1) / 2) for centre, members in merged for index in range(int(members))]
    found = [0.0] * len(positions)
    for index, position in zip(reversed(order), reversed(placed), strict=True):
        found[index] = min(position, top)
        top = found[index] - spacing
    return found


def failure_marks(axis: Axes, marks: Sequence[tuple[float, str, str]]) -> None:
    """Cells without a result: a cross at x with the word, above everything else, stacked where several share an x."""
    if not marks:
        return
    low, high = axis.get_ylim()
    most = max(sum(other[0] == mark[0] for other in marks) for mark in marks)
    room = 0.09 * most
    axis.set_ylim(low, high * (high / low) ** room if axis.get_yscale() == "log" else high + room * (high - low))
    heights: dict[float, int] = {}
    for x, color, status in sorted(marks):
        level = heights.get(x, 0)
        heights[x] = level + 1
        y = 0.97 - 0.075 * level
        axis.plot([x], [y], transform=axis.get_xaxis_transform(), marker="x", color=color, markersize=5, markeredgewidth=1.4, clip_on=False)
        axis.annotate(status, (x, y), xycoords=axis.get_xaxis_transform(), xytext=(-5, 0), textcoords="offset points",
                      ha="right", va="center", fontsize=7, color=color)


def legend(drawn: Figure, handles: Sequence[Any], columns: int | None = None, side: str = "lower") -> None:
    """One legend for the whole figure, below it (or above: `upper`)."""
    if handles:
        options: dict[str, Any] = {"loc": f"outside {side} center", "ncols": columns or min(len(handles), 4)}
        drawn.legend(handles=list(handles), handlelength=2.2, columnspacing=1.6, **options)


def note(axis: Axes, words: str) -> None:
    """Grey words in the middle of axes that have nothing to show."""
    axis.text(0.5, 0.5, words, transform=axis.transAxes, ha="center", va="center", color=GREY, style="italic")


def zero_line(axis: Axes, value: float = 0.0, which: str = "y") -> None:
    """The line of no difference."""
    (axis.axhline if which == "y" else axis.axvline)(value, color=GREY, linewidth=0.9, zorder=1)


def save(drawn: Figure, folder: StrPath, name: str) -> None:
    """Write NAME.pdf, NAME.svg, NAME.png; equal figures give equal bytes."""
    clean: dict[str, dict[str, Any]] = {
        "pdf": {"CreationDate": None, "ModDate": None, "Producer": None, "Creator": "overtone"},
        "svg": {"Date": None, "Creator": "overtone"}, "png": {"Software": None},
    }
    layout = drawn.get_layout_engine()
    if layout is not None:
        layout.execute(drawn)
        drawn.set_layout_engine("none")  # laid out once, not once a format
    for suffix, metadata in clean.items():
        with atomic_path(Path(folder) / f"{name}.{suffix}") as temporary:
            drawn.savefig(temporary, format=suffix, metadata=metadata)
