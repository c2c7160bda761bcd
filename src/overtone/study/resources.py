"""What a training job asks a scheduler for, from its cell: memory and minutes (GPUs are the study's).

Requests are ceilings, not forecasts. What an architecture costs beside Harmonic is taken from mini's tables `throughput` (512 tokens) and
`memory_wall` (1K tokens) on a CPU; an architecture that is not in them is taken for the costliest.
"""

from __future__ import annotations

import math

from overtone.study.cells import Cell
from overtone.study.load import Study

_CPU_TOKENS_PER_S = 4_000  # Harmonic at hidden 128 on a slow core
_GPU_TOKENS_PER_S = 100_000  # the same at hidden 256 on a slow data-centre card, with room
_TIME = {"harmonic": 1.0, "resonator": 1.5, "transformer": 2.2, "llama": 2.4, "mamba": 3.6}
_MEMORY = {"harmonic": 1.0, "transformer": 1.1, "llama": 1.2, "resonator": 1.6, "mamba": 1.8}
_DOUBLES = {"cpu": 2_048, "cuda": 32_768}  # length at which attention has doubled the time of a token; recurrences do not grow
_RECURRENT = ("harmonic", "resonator", "mamba")


def cell_resources(study: Study, cell: Cell) -> dict[str, int]:
    """`mem_mb` (host megabytes) and `runtime` (minutes) of a cell's first attempt."""
    device = "cuda" if study.data["device"] == "cuda" else "cpu"
    tokens = cell.config()["training"]["budget"]
    rate = _GPU_TOKENS_PER_S * min(1.0, 256 / cell.hidden) if device == "cuda" else _CPU_TOKENS_PER_S * min(1.0, 128 / cell.hidden)
    slower = _TIME.get(cell.model, max(_TIME.values())) * (1.0 if cell.model in _RECURRENT else 1 + cell.length / _DOUBLES[device])
    activations = cell.length * cell.hidden * 4 * 150 / 1e6 * _MEMORY.get(cell.model, max(_MEMORY.values()))  # megabytes of one window
    return {
        "mem_mb": 16_000 if device == "cuda" else int(1_500 + min(activations, 12_000)),
        "runtime": max(10, math.ceil(tokens / rate / 60 * slower)),
    }
