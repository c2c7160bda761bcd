"""Attention -> HarmonicBlock in a pretrained Llama.

Names are imported when first used, so that reading a configuration needs no torch. `import overtone.transplant.model` (or any of the
model names here) registers `harmonic_llama` with transformers' Auto classes.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {
    "BlockOptions": "block", "HarmonicBlock": "block",
    "HarmonicCache": "cache",
    "LeakyBlock": "leaky",
    "HarmonicLlamaConfig": "model", "HarmonicLlamaForCausalLM": "model", "HarmonicLlamaModel": "model", "transplant": "model",
    "TransplantConfig": "config", "load_transplant": "config",
    "transplant_memory": "memory",

}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
