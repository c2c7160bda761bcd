"""training_curves, loss_by_position, lr_sweep."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from overtone.reporting import formats, style
from overtone.reporting.figures.data import by_architecture, lines, need, unique
from overtone.reporting.rows import each


def draw_training(name: str, data: pd.DataFrame) -> Figure:
    """One panel a length: validation points joined, mean over seeds, the band from the lowest to the highest seed."""
    need(data, ["length", "architecture", "curve", "tokens", "bpt"], name)
    curves = data[data["curve"] == "validation"]
    lengths = sorted(unique(data, "length"))
    if curves.empty:
        return style.empty("no run reached its first validation in this study")
    columns = min(3, len(lengths))
    rows = -(-len(lengths) // columns)
    drawn, axes = style.figure(height=2.7 * rows, columns=columns, rows=rows, sharey=True)
    labels: list[list[tuple[float, str, str]]] = [[] for _ in lengths]
    for axis, length, ends in zip(axes, lengths, labels, strict=False):
        for architecture, own in by_architecture(curves[curves["length"] == length]):
            look = style.look(architecture)
            by_tokens = own.groupby("tokens")["bpt"].agg(["mean", "min", "max"])
            axis.fill_between(by_tokens.index, by_tokens["min"], by_tokens["max"], color=look.color, alpha=0.15, linewidth=0)
            style.series(axis, list(by_tokens.index), list(by_tokens["mean"]), look, markersize=3.5)
            ends.append((float(by_tokens["mean"].iloc[-1]), look.label, look.color))
        axis.set_title(f"Length {formats.length(length)}")
        axis.set_xlabel("Tokens seen")
        axis.xaxis.set_major_locator(MaxNLocator(4))
        axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: style.tick_count(value)))
    for axis, ends in zip(axes, labels, strict=False):
        style.end_labels(axis, ends)
    for axis in axes[::columns]:
        axis.set_ylabel("Validation bits per token")
    for axis in axes[len(lengths):]:
        axis.remove()
    return drawn


def draw_positions(name: str, data: pd.DataFrame) -> Figure:
    """Loss by position, shortest and longest length; the point of a bin stands at its right edge."""
    need(data, ["length", "architecture", "position", "bpt", "bpt_low", "bpt_high"], name)
    lengths = sorted(unique(data, "length"))
    chosen = lengths if len(lengths) <= 2 else [lengths[0], lengths[-1]]
    drawn, axes = style.figure(columns=len(chosen), sharey=True)
    labels: list[list[tuple[float, str, str]]] = [[] for _ in chosen]
    for axis, length, ends in zip(axes, chosen, labels, strict=True):
        own = data[data["length"] == length]
        for architecture, rows in by_architecture(own):
            look = style.look(architecture)
            rows = rows.sort_values("position")
            axis.fill_between(rows["position"], rows["bpt_low"].astype(float), rows["bpt_high"].astype(float), color=look.color, alpha=0.15,
                              linewidth=0)
            axis.plot(rows["position"], rows["bpt"], color=look.color, linestyle=look.line)
            ends.append((float(rows["bpt"].iloc[-1]), look.label, look.color))
        style.token_axis(axis, [2**power for power in range(int(length).bit_length())], "Position in the window (tokens)")
        axis.set_title(f"Training length {formats.length(length)}")
    for axis, ends in zip(axes, labels, strict=True):
        style.end_labels(axis, ends)
    axes[0].set_ylabel("Test bits per token")
    return drawn


def draw_sweep(name: str, data: pd.DataFrame) -> Figure:
    """One panel a protocol, two in a row: loss by rate, the chosen one ringed, failures marked."""
    need(data, ["protocol", "architecture", "lr", "status", "validation_bpt", "chosen"], name)
    protocols = unique(data, "protocol")
    rows = -(-len(protocols) // 2)
    drawn, axes = style.figure(height=3.0 * rows, columns=min(2, len(protocols)), rows=rows)
    for axis, protocol in zip(axes, protocols, strict=False):
        own = data[data["protocol"] == protocol]
        axis.set_ylabel("Validation bits per token")
        labels = lines(axis, own, "lr", "validation_bpt")
        for row in each(own[own["chosen"] & own["validation_bpt"].notna()]):
            axis.plot([row.lr], [row.validation_bpt], marker="o", markersize=11, markerfacecolor="none", zorder=2,
                      markeredgecolor=style.look(row.architecture).color)
        rates = sorted(unique(own, "lr"))
        axis.set_xscale("log")
        axis.minorticks_off()
        axis.set_xticks(rates, [f"{rate:g}" for rate in rates])
        axis.set_xlim(rates[0] / 1.4, rates[-1] * 1.4)
        axis.set_xlabel("Peak learning rate")
        axis.set_title(f"Protocol {protocol}" + (" (ring: chosen)" if len(labels) else ""))
        failed = own[own["status"] != "ok"]
        style.failure_marks(axis, [(row.lr, style.look(row.architecture).color, row.status) for row in each(failed)])
        style.end_labels(axis, labels)
    for axis in axes[len(protocols):]:
        axis.remove()
    return drawn
