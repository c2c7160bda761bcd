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
from typing import cast

import torch.nn.functional as F
from torch import Tensor, nn

from overtone.models.attention import AttentionModel, KeyValueCache, check_form, check_heads, default_heads, mix
from overtone.models.base import ModelConfig, check_sizes


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
        check_sizes("transformer", layers=self.layers, ffn=self.ffn)


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
        x = x + self.out(mix(q, k, v, turn, cache, self.layer, self.form))
        return x + self.ffn_out(F.gelu(self.ffn_in(self.norm2(x))))


class Transformer(AttentionModel):
    """Four pre-norm blocks. The cache takes 2 d numbers a token and layer."""

    name = "transformer"
    Config = TransformerConfig
    depth_option, width_option = "layers", "ffn"
    config: TransformerConfig

    def __init__(self, config: TransformerConfig):
        super().__init__(config)
        self.blocks = nn.ModuleList(TransformerBlock(config, layer) for layer in range(config.layers))
