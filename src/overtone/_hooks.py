"""Makes the architectures known to transformers' Auto classes when those are first used, so that `import overtone` stays cheap.

Registering needs transformers and torch, which take seconds to import; most verbs never need them. So `AutoConfig`, through
which every Auto class finds out what a folder holds, registers them at its first call. It does not matter which of the two
packages is imported first.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

AUTO = "transformers.models.auto.configuration_auto"
ENTRANCES = ("from_pretrained", "for_model")  # of AutoConfig
HOMES = ("overtone.models.hf", "overtone.transplant.model")  # importing these registers


def register_at_first_use() -> None:
    """Prepare AutoConfig now, or as soon as it is imported."""
    if AUTO in sys.modules and hasattr(sys.modules[AUTO], "AutoConfig"):
        _prepare(sys.modules[AUTO])
    elif not any(isinstance(finder, _AutoFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _AutoFinder())


def _prepare(module: ModuleType) -> None:
    """Wrap AutoConfig's entrances: the first call puts the originals back, registers, and goes on as asked."""
    auto = module.AutoConfig
    originals = {name: vars(auto)[name] for name in ENTRANCES if name in vars(auto)}

    def first(name: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            for entrance, original in originals.items():
                setattr(auto, entrance, original)
            for home in HOMES:
                importlib.import_module(home)
            return getattr(auto, name)(*args, **kwargs)

        return call

    for name in originals:
        setattr(auto, name, staticmethod(first(name)))


class _AutoFinder:
    """Wraps the loader of AutoConfig's module; the usual finders find it."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """The module's own spec with `_PreparingLoader`; None for every other module."""
        if name != AUTO:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _PreparingLoader(spec.loader)  # type: ignore[assignment]
        return spec


class _PreparingLoader:
    """Loads the module with its own loader, hands it back to that loader, and prepares it."""

    def __init__(self, loader: Any):
        self.loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As the module's own loader does."""
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Run the module, then prepare it."""
        module.__loader__ = self.loader
        if module.__spec__ is not None:
            module.__spec__.loader = self.loader
        self.loader.exec_module(module)
        _prepare(module)
