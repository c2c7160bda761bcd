"""A Llama as `overtone.training`'s evaluation wants a model: features and a head, no attention mask, no cache."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor

from overtone.training.evaluate import LN2, score_region
from overtone.training.stream import Region


class Scorer:
    """Wraps a causal LM of transformers (base or transplanted). `bos`, where the base has one, takes each window's first place."""

    def __init__(self, model: Any, bos: int | None = None) -> None:
        self.model = model
        self.bos = bos

    @property
    def head_weight(self) -> Tensor:
        """(V, d)."""
        weight: Tensor = self.model.lm_head.weight
        return weight

    @property
    def training(self) -> bool:
        """Whether the model is in training mode."""
        return bool(self.model.training)

    def train(self, mode: bool = True) -> None:
        """Set the mode."""
        self.model.train(mode)

    def eval(self) -> None:
        """Leave training mode."""
        self.model.eval()

    def features(self, ids: Tensor) -> Tensor:
        """What the head sees, (B, L, d)."""
        hidden: Tensor = self.model.model(input_ids=with_bos(ids, self.bos), use_cache=False).last_hidden_state
        return hidden


def autocast_of(dtype: str, device: torch.device) -> Callable[[], Any]:
    """What a forward pass runs under: bfloat16 where `dtype` says so, or says `auto` and the device is a GPU; else nothing."""
    if dtype == "bfloat16" or (dtype == "auto" and device.type == "cuda"):
        return lambda: torch.autocast(device.type, dtype=torch.bfloat16)
    return nullcontext


def with_bos(ids: Tensor, bos: int | None) -> Tensor:
    """Inputs (B, L) whose first token is `bos`: a Llama that was trained with one leans on it, and a window cut from a text has none."""
    if bos is None:
        return ids
    return torch.cat([torch.full_like(ids[:, :1], bos), ids[:, 1:]], dim=1)


def score(model: Any, region: Region, targets: int, length: int, *, batch_tokens: int, autocast: Any = nullcontext,
          bos: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Loss in nats (targets,) and hit (targets,) of the first `targets` targets of a region read in windows of `length`."""
    return score_region(Scorer(model, bos), region, targets, length, batch_tokens=batch_tokens, autocast=autocast)


def bpt(model: Any, region: Region, targets: int, length: int, **options: Any) -> float:
    """Mean bits a token of the same; `options` as for `score`."""
    losses, _ = score(model, region, targets, length, **options)
    return float(losses.astype(np.float64).mean() / LN2)


def whole_targets(region: Region, length: int, windows: int) -> int:
    """Targets of `windows` windows of `length`, fewer where the region ends before; at least one window is needed."""
    return max(1, min(windows, (region.size - 1) // length)) * length if region.size > length else region.size - 1


def parameter_count(model: torch.nn.Module) -> int:
    """Parameters, each tensor once."""
    return sum(weight.numel() for weight in {id(weight): weight for weight in model.parameters()}.values())
