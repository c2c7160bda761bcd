"""Which function builds which table and draws which figure, and the sources that decide each: no pandas, no matplotlib.

A rule passes the digest of those sources as a parameter, so that an edit to one plot plans that module's figures and the page.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from overtone.provenance import sources_digest

# Name -> module and function; a module is imported when its table is built or its figure drawn.
TABLES = {
    "crossover": ("crossover", "build"),
    "crossover_wikitext103": ("crossover", "build"),
    "memory_wall": ("memory", "build"),
    "scaling": ("crossover", "build_scaling"),
    "ablations": ("ablations", "build"),
    "seeds": ("seeds", "build"),
    "training_curves": ("curves", "build_training"),
    "throughput": ("throughput", "build"),
    "loss_by_position": ("curves", "build_positions"),
    "timescales": ("timescales", "build"),
    "hallamonic": ("transplant", "build"),
    "hallamonic_positions": ("transplant", "build_positions"),
    "hallamonic_cost": ("transplant", "build_cost"),
    "quality": ("quality", "build"),
    "breadth": ("quality", "build"),
    "resonator_ablations": ("ablations", "build"),
    "training_throughput": ("throughput", "build"),
    "decode": ("decode", "build"),
    "decode_memory": ("decode", "build"),
    "kernel_tail": ("kernel_tail", "build"),
    "impulse_responses": ("diagnostics", "build_impulse"),
    "half_lives": ("diagnostics", "build_half_lives"),
    "spectrum": ("diagnostics", "build_spectrum"),
    "energy": ("diagnostics", "build_energy"),
    "causality": ("audits", "build"),
    "zoo": ("zoo", "build"),
    "claims": ("claims", "build"),
    "audits": ("audits", "build"),
    "cost": ("cost", "build"),
    "lr_sweep": ("curves", "build_sweep"),
}
FIGURES = {
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
_EVERY_TABLE = (
    *(f"reporting/tables/{name}.py" for name in ("build", "caption", "compare", "published", "table")),
    *(f"reporting/{name}.py" for name in ("collect", "formats", "reported", "rows", "statistics")),
    "study/exhibits.py",
)
_EVERY_FIGURE = (
    *("reporting/figures/data.py", "reporting/figures/draw.py"),
    *("reporting/formats.py", "reporting/rows.py", "reporting/style.py"),
)
_ALSO = {"audits": ("audits/report.py",), "curves": ("training/sweep.py",)}  # what one table's module reads besides


def table_files(name: str) -> tuple[str, ...]:
    """The sources that decide table NAME, as paths in the package."""
    module = TABLES[name][0]
    return (f"reporting/tables/{module}.py", *_EVERY_TABLE, *_ALSO.get(module, ()))


def figure_files(name: str) -> tuple[str, ...]:
    """The sources that decide figure NAME beside its table's."""
    return (f"reporting/figures/{FIGURES[name][0]}.py", *_EVERY_FIGURE)


def table_sources(name: str) -> str:
    """What decides table NAME: its function and the digest of the sources."""
    return f"{TABLES[name][1]} {sources_digest(*table_files(name))}"


def figure_sources(name: str) -> str:
    """What decides figure NAME: its function and the digest of the sources."""
    return f"{FIGURES[name][1]} {sources_digest(*figure_files(name))}"


def table_function(name: str) -> Callable[..., Any]:
    """The function that builds table NAME."""
    return _function("tables", *TABLES[name])


def figure_function(name: str) -> Callable[..., Any]:
    """The function that draws figure NAME."""
    return _function("figures", *FIGURES[name])


def _function(package: str, module: str, function: str) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(import_module(f"overtone.reporting.{package}.{module}"), function)
    return found
