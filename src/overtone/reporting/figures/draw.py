"""Which function draws which figure."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

import pandas as pd
from matplotlib.figure import Figure

from overtone.errors import UserError
from overtone.reporting import style
from overtone.study import EXHIBITS, exhibit

# Figure -> module and function; a module is imported when its figure is drawn.
DRAWERS = {
    "crossover": ("crossover", "draw"),
    "crossover_wikitext103": ("crossover", "draw"),
    "memory_wall": ("memory", "draw"),
    "scaling": ("scaling", "draw"),
    "ablations": ("ablations", "draw"),
    "seeds": ("seeds", "draw"),
    "training_curves": ("curves", "draw_training"),
    "throughput": ("throughput", "draw"),
    "loss_by_position": ("curves", "draw_positions"),
    "timescales": ("timescales", "draw"),
    "hallamonic": ("transplant", "draw"),
    "hallamonic_positions": ("transplant", "draw_positions"),
    "hallamonic_cost": ("transplant", "draw_cost"),
    "quality": ("quality", "draw"),
    "breadth": ("quality", "draw_breadth"),
    "resonator_ablations": ("ablations", "draw"),
    "training_throughput": ("throughput", "draw"),
    "decode": ("decode", "draw"),
    "decode_memory": ("decode", "draw_memory"),
    "kernel_tail": ("kernel_tail", "draw"),
    "impulse_responses": ("diagnostics", "draw_impulse"),
    "half_lives": ("diagnostics", "draw_half_lives"),
    "spectrum": ("diagnostics", "draw_spectrum"),
    "energy": ("diagnostics", "draw_energy"),
    "causality": ("causality", "draw"),
    "zoo": ("zoo", "draw"),
    "claims": ("claims", "draw"),
    "cost": ("cost", "draw"),
    "lr_sweep": ("curves", "draw_sweep"),
}


def check_figure(name: str) -> None:
    """UserError for an unknown name and for a table that has no figure."""
    if not exhibit(name).figure:
        drawn = ", ".join(sorted(other for other, item in EXHIBITS.items() if item.figure))
        raise UserError(f"figure {name!r}: this table has no figure. Figures: {drawn}.")


def draw_figure(name: str, data: pd.DataFrame) -> Figure:
    """The figure of a table; without rows one that says so."""
    check_figure(name)
    if data.empty:
        return style.empty()
    module, function = DRAWERS[name]
    drawer: Callable[[str, pd.DataFrame], Figure] = getattr(import_module(f"overtone.reporting.figures.{module}"), function)
    return drawer(name, data)
