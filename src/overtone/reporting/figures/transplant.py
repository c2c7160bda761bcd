"""hallamonic: loss by evaluation length. hallamonic_positions: by position. hallamonic_cost: learning curves by tokens."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from overtone.reporting import style
from overtone.reporting.figures.data import at_place, need, places, unique
from overtone.reporting.rows import each

_COLORS = {"base": style.VERMILION, "base+linear": style.ORANGE, "base+dynamic": style.YELLOW, "transplanted": style.BLUE}
_CORPORA = {"lambada": "LAMBADA", "fineweb_edu_heldout": "FineWeb-Edu held out", "wikitext_validation": "WikiText validation"}
_OTHERS = [style.BLUE, style.GREEN, style.PURPLE, style.SKY, "#8C564B", "#444444"]
_MARKERS = "o^vDPX*h"


def _look(model: str, models: list[str], control: bool) -> style.Look:
    own = [item for item in models if item not in _COLORS]
    if model in _COLORS:
        return style.Look(_COLORS[model], "s", "-", {"base": "untouched base", "base+linear": "base, linear RoPE scaling",
                                                   "base+dynamic": "base, dynamic NTK"}.get(model, model))
    index, words = own.index(model), model.replace("/phase", ", phase ")
    if control:
        return style.Look(style.GREY, "x", ":", f"{words} (control)")
    return style.Look(_OTHERS[index % len(_OTHERS)], _MARKERS[index % len(_MARKERS)], "-", words)


def draw(name: str, data: pd.DataFrame) -> Figure:
    """A panel a corpus: measured, then published; below, loss on random tokens against the entropy floor."""
    need(data, ["source", "transplant", "model", "control", "corpus", "length", "context", "bpt", "bpt_low", "bpt_high",
                "random_tokens_bpt", "entropy_floor_bpt"], name)
    columns = ("source", "transplant", "corpus")
    found = places(data, columns)
    down = -(-len(found) // 2)
    drawn = Figure(figsize=(style.WIDTH, 2.7 * down + 2.1), layout="constrained")
    parts: Any = drawn.subfigures(2, 1, height_ratios=[2.7 * down, 2.1])
    above, below = parts
    axes = list(above.subplots(down, 2, squeeze=False).flat)
    for axis, place in zip(axes, found, strict=False):
        own = at_place(data, place, columns)
        models = unique(own, "model")
        labels = []
        for index, model in enumerate(models):
            rows = own[own["model"] == model].sort_values("length")
            look = _look(model, models, bool(rows["control"].iloc[0]))
            at = list(rows["length"] * 2 ** (0.035 * (index - (len(models) - 1) / 2)))  # beside each other, so that intervals show
            style.series(axis, at, list(rows["bpt"]), look, markeredgecolor=look.color if look.marker == "x" else "white")
            style.errors(axis, at, list(rows["bpt"]), list(rows["bpt_low"]), list(rows["bpt_high"]), look.color)
            labels.append((float(rows["bpt"].iloc[-1]), look.label, look.color))
        _limit(axis, own)
        axis.set_title(f"{place[0].capitalize()}: {_CORPORA.get(place[2], place[2])}")
        axis.set_ylabel("Bits per token")
        style.token_axis(axis, own["length"], "Evaluation length (tokens)")
        style.end_labels(axis, labels)
    for axis in axes[len(found):]:
        axis.remove()
    _floor(below.subplots(), data)
    return drawn


def _floor(axis: Axes, data: pd.DataFrame) -> None:
    """Bits per token on uniformly random tokens above the entropy floor: below 0 no causal model can be."""
    known = data[data["random_tokens_bpt"].notna()].drop_duplicates(["source", "transplant", "model"])
    models = unique(data[data["source"] == "measured"], "model")
    names = []
    for y, row in enumerate(each(known)):
        published = row.source == "published"
        look = _look(row.model, models, bool(row.control))
        axis.plot([row.random_tokens_bpt - row.entropy_floor_bpt], [y], marker=look.marker, color=look.color, linestyle="none",
                  markersize=6, markerfacecolor="white" if published else look.color)
        names.append(f"{look.label} (published)" if published else look.label)
    axis.axvline(0, color=style.INK, linewidth=1)
    axis.set_yticks(range(len(names)), names, fontsize=7.5)
    axis.set_ylim(len(names) - 0.5, -0.5)
    axis.set_xlabel("Bits per token above the entropy floor (below 0: sees later tokens)")
    axis.set_title("Uniformly random tokens")
    axis.grid(axis="y", visible=False)


def draw_positions(name: str, data: pd.DataFrame) -> Figure:
    """Loss by position in the longest window; the base's positional limit dashed."""
    need(data, ["transplant", "model", "control", "corpus", "context", "position", "bpt"], name)
    columns = ("transplant", "corpus")
    found = places(data, columns)
    drawn, axes = style.figure(columns=len(found), height=3.2)
    for axis, place in zip(axes, found, strict=True):
        own = at_place(data, place, columns)
        models, labels = unique(own, "model"), []
        for model in models:
            rows = own[own["model"] == model].sort_values("position")
            look = _look(model, models, bool(rows["control"].iloc[0]))
            axis.plot(rows["position"], rows["bpt"], color=look.color, linestyle=look.line)
            labels.append((float(rows["bpt"].iloc[-1]), look.label, look.color))
        _limit(axis, own)
        axis.set_title(f"{place[0]}: {place[1]}")
        axis.set_ylabel("Bits per token")
        style.token_axis(axis, [2**power for power in range(int(own["position"].max()).bit_length())], "Position in the window (tokens)")
        style.end_labels(axis, labels)
    return drawn


def _limit(axis: Axes, own: pd.DataFrame) -> None:
    if own["context"].notna().any():
        axis.axvline(float(own["context"].dropna().iloc[0]), color=style.GREY, linestyle=(0, (4, 2)), linewidth=0.9, zorder=1)
        axis.annotate("positional limit", (float(own["context"].dropna().iloc[0]), 0.98), xycoords=axis.get_xaxis_transform(),
                      xytext=(2, 0), textcoords="offset points", va="top", rotation=90, fontsize=7, color=style.GREY)


def draw_cost(name: str, data: pd.DataFrame) -> Figure:
    """Left: held-out loss by tokens of each variant, phases in a row. Right: time of each phase."""
    need(data, ["kind", "transplant", "variant", "phase", "objective", "control", "tokens", "seconds", "bpt"], name)
    drawn, axes = style.figure(columns=2, height=3.1, gridspec_kw={"width_ratios": [1.4, 1]})
    curves, phases = data[data["kind"] == "curve"], data[data["kind"] == "phase"]
    variants, labels = unique(curves, "variant"), []
    for variant in variants:
        rows = curves[curves["variant"] == variant]
        look = _look(variant, variants, bool(rows["control"].iloc[0]))
        spent = 0.0
        for _, part in rows.groupby("phase"):
            part = part.sort_values("tokens")
            style.series(axes[0], [spent + value for value in part["tokens"]], list(part["bpt"]), look, markersize=4,
                         markeredgecolor=look.color if look.marker == "x" else "white")
            spent += float(part["tokens"].max())
        labels.append((float(rows["bpt"].iloc[-1]), look.label, look.color))
    axes[0].set_title("Held-out loss by tokens")
    axes[0].set_xlabel("Tokens (phases in a row)")
    axes[0].set_ylabel("Bits per token")
    axes[0].xaxis.set_major_formatter(FuncFormatter(lambda value, _: style.tick_count(value)))
    style.end_labels(axes[0], labels)
    names = [f"{row.variant}, phase {row.phase}" for row in each(phases)]
    colors = [_look(row.variant, variants, bool(row.control)).color for row in each(phases)]
    unit, scale = ("Minutes", 60) if phases["seconds"].max() > 120 else ("Seconds", 1)
    axes[1].barh(range(len(phases)), phases["seconds"] / scale, color=colors, height=0.6)
    axes[1].set_yticks(range(len(phases)), names)
    axes[1].set_ylim(len(phases) - 0.4, -0.6)
    axes[1].set_xlabel(unit)
    axes[1].set_title("Time")
    axes[1].grid(axis="y", visible=False)
    return drawn
