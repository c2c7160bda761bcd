"""Causal attention with rotary positions and a preallocated key-value cache, and what the two attention models share.

B batch, L new tokens, P tokens in the cache, H query heads, G key-value heads (H a multiple of G), D head dimension.
Source: RoPE, Su et al. 2021 (arXiv 2104.09864), in the half-split layout that Llama's public weights use.
"""

from __future__ import annotations

import math
from typing import Any, Self, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from overtone.errors import UserError
from overtone.models.base import LanguageModel, ModelConfig, State

ATTENTION_FORMS = ("sdpa", "quadratic")
_SPARE = 256  # positions a cache has free when it was not told how long the sequence gets


def default_heads(hidden: int) -> int:
    """Most heads of an even dimension of at least 64 (hidden >= 256) or 32 that divide `hidden`."""
    smallest = 64 if hidden >= 256 else 32
    return max((h for h in range(1, hidden // smallest + 1) if hidden % (2 * h) == 0), default=1)


def check_heads(model: str, hidden: int, heads: int) -> None:
    """RoPE turns pairs of channels: the head dimension must be whole and even."""
    if heads < 1 or hidden % (2 * heads):
        raise UserError(f"{model}: heads: {heads} found; hidden {hidden} needs a number of heads whose dimension is whole and even.")


def check_form(model: str, attention: str) -> None:
    """`sdpa` or `quadratic`."""
    if attention not in ATTENTION_FORMS:
        raise UserError(f"{model}: attention: {attention!r} found, one of {', '.join(ATTENTION_FORMS)} expected.")


def frequencies(dimension: int, theta: float, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Radians a position, theta^(-2i/D) for i < D/2."""
    return theta ** (-torch.arange(0, dimension, 2, device=device, dtype=dtype) / dimension)


def rotary(start: int, length: int, dimension: int, theta: float, like: Tensor) -> tuple[Tensor, Tensor]:
    """Cosines and sines (L, D) of the angles position * theta^(-2i/D), repeated for both halves; float32 angles.

    Computed from the configuration at every call: there is no buffer that loading on the meta device could leave unset.
    """
    kind = torch.promote_types(like.dtype, torch.float32)
    positions = torch.arange(start, start + length, device=like.device, dtype=kind)
    angle = torch.outer(positions, frequencies(dimension, theta, like.device, kind))
    angle = torch.cat([angle, angle], dim=-1)
    return angle.cos().to(like.dtype), angle.sin().to(like.dtype)


def rotate(x: Tensor, turn: tuple[Tensor, Tensor]) -> Tensor:
    """Turn the channel pairs (i, i + D/2) of x (B, H, L, D) by their angles."""
    cosine, sine = turn
    first, second = x.chunk(2, dim=-1)
    return x * cosine + torch.cat([-second, first], dim=-1) * sine


def attend(q: Tensor, k: Tensor, v: Tensor, form: str = "sdpa") -> Tensor:
    """softmax(q k^T / sqrt(D)) v, where query i of the last L positions sees keys 0..P+i; q (B, H, L, D), k and v (B, G, P+L, D).

    `quadratic` writes out the (L, P+L) scores: the reference, and what a memory wall is made of.
    """
    groups = q.shape[1] // k.shape[1]
    if groups > 1:
        k, v = (item.unsqueeze(2).expand(-1, -1, groups, -1, -1).flatten(1, 2) for item in (k, v))
    length, seen = q.shape[2], k.shape[2]
    if form == "quadratic":
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        scores = scores.masked_fill(~_sees(length, seen, q.device), -math.inf)
        return torch.softmax(scores, dim=-1, dtype=torch.promote_types(scores.dtype, torch.float32)).to(v.dtype) @ v
    if length == seen:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    mask = None if length == 1 else _sees(length, seen, q.device)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def _sees(length: int, seen: int, device: torch.device) -> Tensor:
    return torch.ones(length, seen, dtype=torch.bool, device=device).tril(seen - length)


class KeyValueCache(State):
    """Keys and values of every layer, (B, G, capacity, D) each, allocated once and filled from the left."""

    @classmethod
    def allocate(cls, layers: int, shape: tuple[int, int, int], capacity: int | None, device: torch.device,
                 dtype: torch.dtype) -> KeyValueCache:
        """An empty cache; shape is (B, G, D)."""
        batch, groups, dimension = shape
        size = (batch, groups, _SPARE if capacity is None else capacity, dimension)
        names = [f"{kind}{layer}" for layer in range(layers) for kind in ("k", "v")]
        return cls({name: torch.zeros(size, device=device, dtype=dtype) for name in names})

    @property
    def capacity(self) -> int:
        """Positions allocated."""
        return self.tensors["k0"].shape[2]

    def extended(self, length: int) -> Self:
        """The cache to write the next `length` positions into: this one's memory, or a larger copy where it is full.

        While gradients are recorded a copy is written, because earlier steps' graphs still need what was there.
        """
        needed, tensors = self.position + length, dict(self.tensors)
        if needed > self.capacity:
            more = max(needed + _SPARE, 2 * self.capacity) - self.capacity
            tensors = {name: F.pad(tensor, (0, 0, 0, more)) for name, tensor in tensors.items()}
        elif torch.is_grad_enabled():
            tensors = {name: tensor.clone() for name, tensor in tensors.items()}
        return type(self)(tensors, self.position)

    def write(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Store the new keys and values (B, G, L, D) of one layer; returns all up to them, (B, G, P+L, D)."""
        end = self.position + k.shape[2]
        seen = []
        for name, new in ((f"k{layer}", k), (f"v{layer}", v)):
            self.tensors[name][:, :, self.position : end] = new
            seen.append(self.tensors[name][:, :, :end])
        return seen[0], seen[1]


def mix(q: Tensor, k: Tensor, v: Tensor, turn: tuple[Tensor, Tensor], cache: KeyValueCache | None, layer: int, form: str) -> Tensor:
    """Causal attention of new tokens over themselves and the cache, heads joined: (B, L, H D); q (B, H, L, D), k and v (B, G, L, D).

    New keys and values go into the cache, if there is one.
    """
    q, k = rotate(q, turn), rotate(k, turn)
    if cache is not None:
        k, v = cache.write(layer, k, v)
    return attend(q, k, v, form).transpose(1, 2).flatten(2)


class AttentionModel(LanguageModel):
    """Blocks `(x, turn, cache) -> x`, which a subclass makes. State: a preallocated key-value cache."""

    config: Any  # has layers, heads, rope_theta
    blocks: nn.ModuleList

    def __init__(self, config: ModelConfig):
        super().__init__(config)
        self.head_dimension = self.config.hidden // self.config.heads

    @property
    def cached_heads(self) -> int:
        """Heads of keys and values, G."""
        return int(self.config.heads)

    def last(self, x: Tensor) -> Tensor:
        """What follows the last block, (B, L, d): nothing."""
        return x

    def features(self, ids: Tensor, state: State | None = None, return_state: bool = False) -> Any:
        """The residual stream after the last block and `last`, (B, L, d)."""
        length = ids.shape[1]
        if state is None and return_state:
            state = self.init_state(ids.shape[0], length, ids.device)
        cache = None if state is None else cast(KeyValueCache, state).extended(length)
        x = self.embedding(ids)
        turn = rotary(0 if cache is None else cache.position, length, self.head_dimension, self.config.rope_theta, x)
        for block in self.blocks:
            x = block(x, turn, cache)
        if cache is not None:
            cache.position += length
        x = self.last(x)
        return (x, cache) if return_state else x

    def step(self, ids: Tensor, state: State) -> tuple[Tensor, State]:
        """One token against the cache."""
        x, after = self.features(ids.unsqueeze(1), state, return_state=True)
        return F.linear(x[:, 0], self.head_weight), after

    def init_state(self, batch: int, max_length: int | None = None, device: Any = None,
                   dtype: torch.dtype | None = None) -> KeyValueCache:
        """An empty cache of `max_length` positions; it grows when it is full."""
        device, dtype = self.state_place(device, dtype)
        return KeyValueCache.allocate(self.config.layers, (batch, self.cached_heads, self.head_dimension), max_length, device, dtype)

    def mixer_flops(self, length: int) -> float:
        """Scores and their product with v: 4 d a token and visible position, (L + 1) / 2 of them on average."""
        return 4 * self.hidden * self.config.layers * (length + 1) / 2
