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
from typing import cast

import torch.nn.functional as F
from torch import Tensor, nn

from overtone.errors import UserError
from overtone.models.attention import AttentionModel, KeyValueCache, check_form, check_heads, default_heads, mix
from overtone.models.base import ModelConfig, check_sizes


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
        check_sizes("llama", layers=self.layers, intermediate=self.intermediate)
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
        x = x + self.o(mix(q, k, v, turn, cache, self.layer, self.form))
        normed = self.norm2(x)
        return x + self.down(F.silu(self.gate(normed)) * self.up(normed))


class Llama(AttentionModel):
    """Pre-norm blocks and a final norm."""

    name = "llama"
    Config = LlamaConfig
    depth_option, width_option = "layers", "intermediate"
    config: LlamaConfig

    def __init__(self, config: LlamaConfig):
        super().__init__(config)
        self.blocks = nn.ModuleList(LlamaBlock(config, layer) for layer in range(config.layers))
        self.norm = nn.RMSNorm(config.hidden, config.norm_eps)

    @property
    def cached_heads(self) -> int:
        """Heads of keys and values, G."""
        return cast(int, self.config.kv_heads)

    def last(self, x: Tensor) -> Tensor:
        """norm(x)."""
        return self.norm(x)
