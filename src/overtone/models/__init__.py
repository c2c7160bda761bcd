"""Language models behind one interface: `build_model(name, vocab_size=..., hidden=..., **options)`.

Names are imported from here when first used, so that `import overtone.models` stays cheap.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {
    "LanguageModel": "base", "ModelConfig": "base", "State": "base",
    "architecture": "registry", "architecture_names": "registry", "build_for_cell": "registry", "build_model": "registry",
    "register": "registry",
    "flops_per_token": "counts", "parameter_counts": "counts",
    "matched_dimensions": "matching",
    "generate": "generation",
    "compile_step": "compiled.step",
    "load_checkpoint": "checkpoint", "save_checkpoint": "checkpoint",
    "from_hf": "conversion", "to_hf": "conversion",
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
