"""HarmonicBlock: three leaky averages of an attention layer's own values in place of softmax attention.

Symbols (B batch, L length, d hidden, N = heads * head_dim state channels, s = d_state, l level 1..3):
    v = V x                          values, as in the attention layer; grouped heads share them
    A = sigmoid(G (D_A x) + bias)    decay gate (B, L, N) through rank s; bias from the level's time constants
    g = 2 sigmoid(E (D_g x))         output gate (B, L, N) through rank s; 1 at the start
    u_l = v_l + W_l e_(l-1)          drive of level l; level 1 has no error to listen to
    h_l(t) = A_l(t) h_l(t-1) + (1 - A_l(t)) u_l(t)
    o_l = g_l h_l
    e_1 = norm(D_e x - P_1 o_1), e_2 = norm(P_1 o_1 - P_2 o_2)    prediction errors, s wide; norm has no parameters
    y = O [o_1; o_2; o_3]
Head i belongs to level 1 + i mod 3, so that every group of heads that shares its values sees them at all three timescales
(a model of one or two heads is dealt out in parts of heads).
The state is h(t), N numbers a sequence, whatever the length. A padded token is an identity step: A = 1, drive 0.
Why these shapes: docs/transplant.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from overtone.errors import UserError
from overtone.ops import linear_scan
from overtone.transplant.cache import HarmonicCache

LEVELS = 3
KINDS = ("harmonic", "leaky", "attention")


@dataclass(frozen=True)
class BlockOptions:
    """What a block is made of, beside the sizes that the Llama dictates."""

    # "leaky" pools over future tokens: the audits' control, see leaky.py. "attention": the layer stays, see model.ContinuedLlama
    kind: str = "harmonic"
    d_state: int = 128  # rank of the gates, width of the prediction errors
    timescales: tuple[float, ...] = (4.0, 32.0, 128.0)  # centre of each level's time constants, tokens
    spread: float = 4.0  # a level's time constants run from centre / spread to centre * spread
    prediction: bool = True  # False: no prediction errors, the levels are independent
    compress: int = 4  # leaky only: level 2 is pooled over this many tokens, level 3 over its square

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> BlockOptions:
        """Options from a study's `block` mapping; a value that makes no block is a UserError."""
        options = cls(**(dict(values) | {"timescales": tuple(values.get("timescales", cls.timescales))}))
        if options.kind not in KINDS:
            raise UserError(f"block kind {options.kind!r}: not known. Allowed: {', '.join(KINDS)}.")
        if len(options.timescales) != LEVELS or min(options.timescales) <= 0:
            raise UserError(f"block timescales {list(options.timescales)}: expected {LEVELS} positive numbers of tokens.")
        return options

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON; inverse of `from_dict`."""
        return asdict(self) | {"timescales": list(self.timescales)}


def deal(heads: int, head_dim: int) -> tuple[int, list[list[int]]]:
    """(parts a head is cut into, parts of each level): part i keeps time on level 1 + i mod 3. One part a head from 3 heads on."""
    cut = next((n for n in range(1, head_dim + 1) if head_dim % n == 0 and heads * n >= LEVELS), None)
    if cut is None:
        raise UserError(f"{heads} heads of {head_dim} channels cannot be dealt out to {LEVELS} levels. Use a wider base.")
    return cut, [list(range(level, heads * cut, LEVELS)) for level in range(LEVELS)]


def unit_norm(x: Tensor) -> Tensor:
    """x / rms(x) over the last axis, in float32 or wider."""
    return F.rms_norm(x.to(torch.promote_types(x.dtype, torch.float32)), x.shape[-1:], eps=1e-6).to(x.dtype)


class HarmonicBlock(nn.Module):
    """Drop-in for `LlamaAttention`: `(hidden_states (B, L, d), ..., cache) -> ((B, L, d), None)`.

    Position embeddings and attention masks are taken and not used: order is in the recurrence. `padding` (B, L), true where a
    token is real, comes from `HarmonicLlamaModel`.
    """

    def __init__(self, config: Any, layer_idx: int) -> None:
        super().__init__()
        self.options = BlockOptions.from_dict(config.block)
        self.layer_idx = layer_idx
        self.head_dim = config.head_dim or config.hidden_size // config.num_attention_heads
        self.cut, self.parts = deal(config.num_attention_heads, self.head_dim)
        self.part = self.head_dim // self.cut  # channels of a part
        self.group = config.num_attention_heads // config.num_key_value_heads
        self.widths = [len(parts) * self.part for parts in self.parts]
        d, n, s, bias = config.hidden_size, sum(self.widths), self.options.d_state, bool(config.attention_bias)
        self.values = nn.Linear(d, config.num_key_value_heads * self.head_dim, bias=bias)  # V
        self.out = nn.Linear(n, d, bias=bias)  # O, columns in level order
        self.decay_down = nn.Linear(d, s, bias=False)  # D_A
        self.decay_up = nn.Linear(s, n)  # G
        self.gate_down = nn.Linear(d, s, bias=False)  # D_g
        self.gate_up = nn.Linear(s, n)  # E
        if self.options.prediction:
            self.error_down = nn.Linear(d, s, bias=False)  # D_e
            self.predict = nn.ModuleList(nn.Linear(width, s, bias=False) for width in self.widths[:-1])  # P_1, P_2
            self.listen = nn.ModuleList(nn.Linear(s, width, bias=False) for width in self.widths[1:])  # W_2, W_3

    def forward(self, hidden_states: Tensor, position_embeddings: Any = None, attention_mask: Any = None,
                cache: HarmonicCache | None = None, padding: Tensor | None = None, past_key_values: HarmonicCache | None = None,
                **_: Any) -> tuple[Tensor, None]:
        """Mix (B, L, d) along L; reads and replaces this layer's state in `cache` (`past_key_values` before transformers 5.20)."""
        store = self._store(cache if cache is not None else past_key_values)
        x = hidden_states
        wide = torch.promote_types(x.dtype, torch.float32)
        decay = self.decay_up(self.decay_down(x)).to(wide)  # (B, L, N), a logit
        gate = 2 * torch.sigmoid(self.gate_up(self.gate_down(x)))
        values = self.values(x).unflatten(-1, (-1, self.part))  # (B, L, parts of the kv heads, channels)
        states = None if store is None or store.state is None else store.state.split(self.widths, dim=-1)
        outputs: list[Tensor] = []
        finals: list[Tensor] = []
        for level, (z, g) in enumerate(zip(decay.split(self.widths, -1), gate.split(self.widths, -1), strict=True)):
            drive = torch.cat([values[:, :, self._source(part)] for part in self.parts[level]], dim=-1)
            if level and self.options.prediction:
                drive = drive + self.listen[level - 1](self._error(x, outputs))
            h, final = self._recur(level, z, drive.to(wide), None if states is None else states[level], padding)
            outputs.append(g * h.to(x.dtype))
            finals.append(final)
        if store is not None:
            store.replace(torch.cat(finals, dim=-1), tokens=x.shape[1])
        return self.out(torch.cat(outputs, dim=-1)), None

    def _source(self, part: int) -> int:
        """The part of the values that a part of the heads reads."""
        head, rest = divmod(part, self.cut)
        return head // self.group * self.cut + rest

    def _error(self, x: Tensor, outputs: list[Tensor]) -> Tensor:
        """e_l after l levels: what level l did not predict of the stream below it (B, L, s)."""
        told = self.predict[len(outputs) - 1](outputs[-1])
        heard = self.error_down(x) if len(outputs) == 1 else self.predict[len(outputs) - 2](outputs[-2])
        return unit_norm(heard - told)

    def _recur(self, level: int, z: Tensor, drive: Tensor, initial: Tensor | None, padding: Tensor | None) -> tuple[Tensor, Tensor]:
        """h (B, L, width) and its last value, from gate logits z and drives u. `level` matters to the leaky control only."""
        keep, take = torch.sigmoid(z), torch.sigmoid(-z)
        if padding is not None:
            real = padding.to(torch.bool).unsqueeze(-1)
            keep, take = keep.masked_fill(~real, 1.0), take.masked_fill(~real, 0.0)
        h, final = linear_scan(keep, take * drive, initial, return_final=True)
        return h, final

    def _store(self, cache: Any) -> Any:
        if cache is None:
            return None
        if not isinstance(cache, HarmonicCache):
            raise UserError(f"a HarmonicBlock keeps a fixed-size state, not keys and values: found a {type(cache).__name__}. "
                            "Pass overtone.transplant.HarmonicCache, or none.")
        return cache.layers[self.layer_idx]

    @torch.no_grad()
    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Start values: gate biases from the time constants, gates flat, errors unheard, V and O as a linear layer's.

        `init_from` replaces V and O by an attention layer's.
        """
        for linear in (self.values, self.out, self.decay_down, self.gate_down):
            nn.init.normal_(linear.weight, std=linear.in_features**-0.5, generator=generator)
        for linear in (self.decay_up, self.gate_up):
            nn.init.zeros_(linear.weight)
        nn.init.zeros_(self.gate_up.bias)
        self.decay_up.bias.copy_(torch.cat([decay_bias(tau, self.options.spread, width)
                                            for tau, width in zip(self.options.timescales, self.widths, strict=True)]))
        if self.options.prediction:
            for source in (self.error_down, *self.predict):
                nn.init.normal_(source.weight, std=source.in_features**-0.5, generator=generator)
            for weight in self.listen.parameters():
                weight.zero_()
        for linear in (self.values, self.out):
            if linear.bias is not None:
                nn.init.zeros_(linear.bias)

    @torch.no_grad()
    def init_from(self, attention: Any) -> None:
        """Take V and O from a LlamaAttention: the block then starts as that layer with exponential attention weights."""
        order = [part * self.part + channel for parts in self.parts for part in parts for channel in range(self.part)]
        self.values.load_state_dict(attention.v_proj.state_dict())
        self.out.load_state_dict(attention.o_proj.state_dict())
        self.out.weight.copy_(attention.o_proj.weight[:, order])

    def time_constants(self) -> list[Tensor]:
        """tau in tokens of every channel of each level at gate input zero: -1 / log sigmoid(bias)."""
        return [-1 / F.logsigmoid(bias.detach().double()) for bias in self.decay_up.bias.split(self.widths)]


def decay_bias(centre: float, spread: float, width: int) -> Tensor:
    """logit(exp(-1/tau)) for `width` time constants, log-spaced from centre / spread to centre * spread (float32)."""
    tau = torch.logspace(math.log10(centre / spread), math.log10(centre * spread), width, dtype=torch.float64)
    return (-1 / tau - torch.log(-torch.expm1(-1 / tau))).float()
