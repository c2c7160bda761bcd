"""Watching an attention model run: what it calls and what its cache does, whatever its options say."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from overtone.models import LanguageModel
from overtone.training.optimizer import AdamW
from overtone.training.protocol import TrainingProtocol

_TOKENS = 32


class _AttentionWatch(TorchFunctionMode):
    """Counts calls of F.scaled_dot_product_attention and keeps queries and keys of the first."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.first: tuple[Tensor, Tensor] | None = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is F.scaled_dot_product_attention:
            self.calls += 1
            self.first = self.first or (args[0].detach(), args[1].detach())
        return func(*args, **(kwargs or {}))


def attention_calls(model: LanguageModel) -> tuple[int, Tensor | None]:
    """(fused attention calls of one forward pass, the first one's scores q k^T (H, L, L) on a constant sequence)."""
    ids = torch.full((1, _TOKENS), model.vocab_size // 2)
    with torch.no_grad(), _AttentionWatch() as watch:
        model.eval()(ids)
    if watch.first is None:
        return watch.calls, None
    q, k = (value[0].double() for value in watch.first)  # (H, L, D), (G, L, D)
    return watch.calls, q @ k.repeat_interleave(q.shape[0] // k.shape[0], 0).transpose(-1, -2)


def position_spread(scores: Tensor) -> float:
    """Variation of scores (H, L, L) at one distance, relative to the variation between distances; the worst head.

    On a constant sequence every query and every key is the same but for its position: rotary scores depend on the distance
    alone (0), absolute positions on more (about 1), no positions on nothing (infinite).
    """
    length = scores.shape[-1]
    diagonals = [torch.diagonal(scores, -distance, dim1=-2, dim2=-1) for distance in range(length - 1)]
    within = torch.stack([line.amax(-1) - line.amin(-1) for line in diagonals]).amax(0)  # (H,)
    means = torch.stack([line.mean(-1) for line in diagonals])  # (distances, H)
    between = means.amax(0) - means.amin(0)
    silent = between <= 1e-4 * scores.abs().amax((-2, -1))
    return float(torch.where(silent, torch.inf, within / between.clamp_min(1e-300)).max())


def cache_moves(model: LanguageModel, prompt: int = 16, steps: int = 8) -> int:
    """How often a tensor of the decode state changed address or size in `steps` steps, the length having been announced."""
    ids = torch.zeros(1, prompt, dtype=torch.long)
    moves = 0
    with torch.inference_mode():
        _, state = model.eval().prefill(ids, max_length=prompt + steps)
        for _ in range(steps):
            before = {name: (tensor.data_ptr(), tensor.nbytes) for name, tensor in state.tensors.items()}
            _, state = model.step(ids[:, 0], state)
            moves += sum((tensor.data_ptr(), tensor.nbytes) != before.get(name) for name, tensor in state.tensors.items())
    return moves


def fused_updates(model: LanguageModel) -> tuple[int, int]:
    """(fused AdamW kernels, all kernels) of one optimizer step, as the training loop takes it."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Watch(TorchDispatchMode):
        def __init__(self) -> None:
            super().__init__()
            self.names: list[str] = []

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.names.append(str(func))
            return func(*args, **(kwargs or {}))

    optimizer = AdamW(model, TrainingProtocol(budget=1, tokens_per_step=1, evaluation_length=1))
    ids = torch.zeros(1, 8, dtype=torch.long)
    model.train().loss(ids, ids).backward()
    with Watch() as watch:
        optimizer.step(1e-3)
    optimizer.zero_grad()
    return sum("_fused_adamw" in name for name in watch.names), len(watch.names)
