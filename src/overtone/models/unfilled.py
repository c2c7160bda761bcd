"""A model whose weights are never drawn: for counting its parameters and FLOPs, at any size, in milliseconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode

from overtone.models.registry import build_model

if TYPE_CHECKING:
    from overtone.models.base import LanguageModel

_DRAWS = {torch.Tensor.normal_, torch.Tensor.uniform_, torch.nn.init.normal_, torch.nn.init.uniform_, torch.nn.init.kaiming_uniform_}


class _WithoutDraws(TorchFunctionMode):
    """Leaves tensors as they are where they would be filled at random; pages never written take no memory.

    The meta device would do, but there the first draw or range imports torch._dynamo, which takes as long as importing torch.
    """

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        if func in _DRAWS:
            return args[0] if args else (kwargs or {})["tensor"]
        return func(*args, **(kwargs or {}))


def unfilled_model(name: str, *, vocab_size: int, hidden: int, **options: Any) -> LanguageModel:
    """As `build_model`, with undefined weights."""
    with _WithoutDraws():
        return build_model(name, vocab_size=vocab_size, hidden=hidden, **options)
