"""The Transformer in the shape the paper's parameter counts give: the baseline of the Harmonic tables.

Glossary
    x          residual stream, (B, L, d)
    norm1, 2   LayerNorm with weight and bias, before attention and before the feed-forward part; there is no final norm
    qkv, out   attention's maps without bias, d -> 3d and d -> d; rotary positions; softmax attention through SDPA
    ffn        d -> 4d -> d with biases, GELU
    logits     W_out x

Parameters beside embeddings: 12 d^2 + 9 d a layer, 48 d^2 + 36 d at four layers: every Transformer count the paper's logs
print. Source: Vaswani et al. 2017, pre-norm as in GPT-2; RoPE, Su et al. 2021.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from overtone.models.attention import KeyValueCache, attend, check_form, check_heads, default_heads, rotary, rotate
from overtone.models.base import LanguageModel, ModelConfig, State


@dataclass(kw_only=True)
class TransformerConfig(ModelConfig):
    """Options of the Transformer; the defaults are the paper's shape."""

    layers: int = 4
    heads: int | None = None  # None: dimension 64 from hidden 256 on, 32 below
    ffn: int | None = None  # inner width; None: 4 d
    rope_theta: float = 10_000.0
    attention: str = "sdpa"  # or "quadratic": scores written out, for the memory wall

    def __post_init__(self) -> None:
        self.heads = default_heads(self.hidden) if self.heads is None else self.heads
        self.ffn = 4 * self.hidden if self.ffn is None else self.ffn
        check_heads("transformer", self.hidden, self.heads)
        check_form("transformer", self.attention)


class TransformerBlock(nn.Module):
    """x + attention(norm1 x), then x + ffn(norm2 x)."""

    def __init__(self, config: TransformerConfig, layer: int):
        super().__init__()
        d, self.layer, self.form = config.hidden, layer, config.attention
        self.heads = cast(int, config.heads)
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.out = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False)
        self.ffn_in, self.ffn_out = nn.Linear(d, cast(int, config.ffn)), nn.Linear(cast(int, config.ffn), d)

    def forward(self, x: Tensor, turn: tuple[Tensor, Tensor], cache: KeyValueCache | None) -> Tensor:
        """(B, L, d) -> (B, L, d); new keys and values go into the cache, if there is one."""
        heads = self.qkv(self.norm1(x)).unflatten(-1, (3, self.heads, -1))  # (B, L, 3, H, D)
        q, k, v = (item.transpose(1, 2) for item in heads.unbind(2))  # (B, H, L, D)
        q, k = rotate(q, turn), rotate(k, turn)
        if cache is not None:
            k, v = cache.write(self.layer, k, v)
        x = x + self.out(attend(q, k, v, self.form).transpose(1, 2).flatten(2))
        return x + self.ffn_out(F.gelu(self.ffn_in(self.norm2(x))))


class Transformer(LanguageModel):
    """Four pre-norm blocks. State: a preallocated key-value cache, 2 d numbers a token and layer."""

    name = "transformer"
    Config = TransformerConfig
    depth_option, width_option = "layers", "ffn"
    config: TransformerConfig

    def __init__(self, config: TransformerConfig):
        super().__init__(config)
        self.blocks = nn.ModuleList(TransformerBlock(config, layer) for layer in range(config.layers))
        self.head_dimension = config.hidden // cast(int, config.heads)

    def features(self, ids: Tensor, state: State | None = None, return_state: bool = False) -> Any:
        """The residual stream after the last block, (B, L, d)."""
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
        return (x, cache) if return_state else x

    def step(self, ids: Tensor, state: State) -> tuple[Tensor, State]:
        """One token against the cache."""
        x, after = self.features(ids.unsqueeze(1), state, return_state=True)
        return F.linear(x[:, 0], self.head_weight), after

    def init_state(self, batch: int, max_length: int | None = None, device: Any = None,
                   dtype: torch.dtype | None = None) -> KeyValueCache:
        """An empty cache of `max_length` positions; it grows when it is full."""
        device, dtype = self.state_place(device, dtype)
        shape = (batch, cast(int, self.config.heads), self.head_dimension)
        return KeyValueCache.allocate(self.config.layers, shape, max_length, device, dtype)

    def mixer_flops(self, length: int) -> float:
        """Scores and their product with v: 4 d a token and visible position, (L + 1) / 2 of them on average."""
        return 4 * self.hidden * self.config.layers * (length + 1) / 2
