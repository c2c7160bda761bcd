"""Which function builds which table."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from overtone.reporting.collect import Results
from overtone.reporting.tables.table import Table
from overtone.study import exhibit

# Table -> module and function; a module is imported when its table is built.
BUILDERS = {
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
    "audits": ("audits", "build"),
    "cost": ("cost", "build"),
    "lr_sweep": ("curves", "build_sweep"),
}


def build_table(name: str, results: Results, claims: Path | None = None) -> Table:
    """Compute table NAME; `claims` is reports/STUDY/claims.json, for the table of verdicts. UserError for an unknown name."""
    if exhibit(name).claims:
        from overtone.reporting.tables.claims import build

        return build(results, claims)
    module, function = BUILDERS[name]
    builder: Callable[[str, Results], Table] = getattr(import_module(f"overtone.reporting.tables.{module}"), function)
    return builder(name, results)
