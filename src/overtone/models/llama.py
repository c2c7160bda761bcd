"""The strong attention baseline: a Llama, by default with Harmonic's parameter count.

Glossary
    x            residual stream, (B, L, d)
    norm1, 2     RMSNorm before attention and before the feed-forward part; `norm` after the last block
    q, k, v, o   attention's maps without bias; H query heads share G key-value heads (grouped-query attention); rotary positions
    gate, up, down   SwiGLU: down(silu(gate x) * up x), inner width `intermediate`
    logits       W_out norm(x)

Weights move to and from transformers' LlamaForCausalLM (overtone.models.conversion), which is the oracle of its tests.
Source: Touvron et al. 2023 (arXiv 2302.13971); GQA, Ainslie et al. 2023 (arXiv 2305.13245).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from overtone.errors import UserError
from overtone.models.attention import KeyValueCache, attend, check_form, check_heads, default_heads, rotary, rotate
from overtone.models.base import LanguageModel, ModelConfig, State


@dataclass(kw_only=True)
class LlamaConfig(ModelConfig):
    """Options of the Llama; by default as many parameters as Harmonic at the same hidden size."""

    layers: int = 3
    heads: int | None = None  # None: dimension 64 from hidden 256 on, 32 below
    kv_heads: int | None = None  # None: half the heads, where that divides them
    intermediate: int | None = None  # inner width of SwiGLU; None: Harmonic's 34 d^2 + 24 d in all
    rope_theta: float = 10_000.0
    norm_eps: float = 1e-6
    attention: str = "sdpa"  # or "quadratic"

    def __post_init__(self) -> None:
        d = self.hidden
        self.heads = default_heads(d) if self.heads is None else self.heads
        check_heads("llama", d, self.heads)
        check_form("llama", self.attention)
        if self.kv_heads is None:
            self.kv_heads = self.heads // 2 if self.heads % 2 == 0 else self.heads
        if self.kv_heads < 1 or self.heads % self.kv_heads:
            raise UserError(f"llama: kv_heads: {self.kv_heads} found, a divisor of heads ({self.heads}) expected.")
        if self.intermediate is None:
            attention = 2 * d * d + 2 * d * (d // self.heads) * self.kv_heads
            rest = 34 * d * d + 24 * d - d - self.layers * (attention + 2 * d)
            self.intermediate = max(1, round(rest / (3 * d * self.layers)))


class LlamaBlock(nn.Module):
    """x + attention(norm1 x), then x + swiglu(norm2 x)."""

    def __init__(self, config: LlamaConfig, layer: int):
        super().__init__()
        d, self.layer, self.form = config.hidden, layer, config.attention
        self.heads, self.kv_heads = cast(int, config.heads), cast(int, config.kv_heads)
        shared = d // self.heads * self.kv_heads
        self.norm1, self.norm2 = nn.RMSNorm(d, config.norm_eps), nn.RMSNorm(d, config.norm_eps)
        self.q, self.k, self.v = nn.Linear(d, d, bias=False), nn.Linear(d, shared, bias=False), nn.Linear(d, shared, bias=False)
        self.o = nn.Linear(d, d, bias=False)
        inner = cast(int, config.intermediate)
        self.gate, self.up = nn.Linear(d, inner, bias=False), nn.Linear(d, inner, bias=False)
        self.down = nn.Linear(inner, d, bias=False)

    def forward(self, x: Tensor, turn: tuple[Tensor, Tensor], cache: KeyValueCache | None) -> Tensor:
        """(B, L, d) -> (B, L, d); new keys and values go into the cache, if there is one."""
        normed = self.norm1(x)
        q = self.q(normed).unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (B, H, L, D)
        k, v = (part(normed).unflatten(-1, (self.kv_heads, -1)).transpose(1, 2) for part in (self.k, self.v))  # (B, G, L, D)
        q, k = rotate(q, turn), rotate(k, turn)
        if cache is not None:
            k, v = cache.write(self.layer, k, v)
        x = x + self.o(attend(q, k, v, self.form).transpose(1, 2).flatten(2))
        normed = self.norm2(x)
        return x + self.down(F.silu(self.gate(normed)) * self.up(normed))


class Llama(LanguageModel):
    """Pre-norm blocks and a final norm. State: a preallocated key-value cache."""

    name = "llama"
    Config = LlamaConfig
    depth_option, width_option = "layers", "intermediate"
    config: LlamaConfig

    def __init__(self, config: LlamaConfig):
        super().__init__(config)
        self.blocks = nn.ModuleList(LlamaBlock(config, layer) for layer in range(config.layers))
        self.norm = nn.RMSNorm(config.hidden, config.norm_eps)
        self.head_dimension = config.hidden // cast(int, config.heads)

    def features(self, ids: Tensor, state: State | None = None, return_state: bool = False) -> Any:
        """norm(x) after the last block, (B, L, d)."""
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
        x = self.norm(x)
        return (x, cache) if return_state else x

    def step(self, ids: Tensor, state: State) -> tuple[Tensor, State]:
        """One token against the cache."""
        x, after = self.features(ids.unsqueeze(1), state, return_state=True)
        return F.linear(x[:, 0], self.head_weight), after

    def init_state(self, batch: int, max_length: int | None = None, device: Any = None,
                   dtype: torch.dtype | None = None) -> KeyValueCache:
        """An empty cache of `max_length` positions; it grows when it is full."""
        device, dtype = self.state_place(device, dtype)
        shape = (batch, cast(int, self.config.kv_heads), self.head_dimension)
        return KeyValueCache.allocate(self.config.layers, shape, max_length, device, dtype)

    def mixer_flops(self, length: int) -> float:
        """Scores and their product with v: 4 d a token and visible position, (L + 1) / 2 of them on average."""
        return 4 * self.hidden * self.config.layers * (length + 1) / 2
