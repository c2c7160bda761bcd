"""What a training job asks a scheduler for, from its cell: memory and minutes (GPUs are the study's)."""

from __future__ import annotations

import math

from overtone.study.cells import Cell
from overtone.study.load import Study

_CPU_TOKENS_PER_S = 2_000  # a slow core at hidden 128; requests are ceilings, not forecasts
_GPU_TOKENS_PER_S = 50_000  # a slow data-centre card at hidden 256, with room


def cell_resources(study: Study, cell: Cell) -> dict[str, int]:
    """`mem_mb` (host megabytes) and `runtime` (minutes) of a cell's first attempt."""
    config = cell.config()
    tokens = config["training"]["budget"]
    on_gpu = study.data["device"] == "cuda"
    rate = _GPU_TOKENS_PER_S * min(1.0, 256 / cell.hidden) if on_gpu else _CPU_TOKENS_PER_S * min(1.0, 128 / cell.hidden)
    activations = cell.length * cell.hidden * 4 * 200 / 1e6  # megabytes of one window, generously
    return {
        "mem_mb": 16_000 if on_gpu else int(1_500 + min(activations, 6_000)),
        "runtime": max(10, math.ceil(tokens / rate / 60 * (1 + cell.length / 32_768))),
    }
