"""Harmonic: stacked linear recurrences at slower and slower timescales, joined by prediction errors.

Glossary (paper's symbol: name here)
    x        embedding of the token, (B, L, d)
    l        level, 1..N (N = 3); level l's time constant tau_l in tokens is `timescales[l - 1]` at the start
    A_l      decay gate = sigmoid(G_l x), in (0, 1); `gate`
    b_l      drive = (1 - A_l) * U_l z_l, z_1 = x, z_l = [x; e_(l-1)]; `drive`
    h_l      state: h_l(t) = A_l(t) * h_l(t-1) + b_l(t), elementwise
    o_l      output = h_l + FFN_l(RMSNorm_l(h_l))
    P_l      prediction of the level below from o_l, without bias; `predict`
    e_l      prediction error: e_1 = norm(x - P_1 o_1), e_l = norm(o_(l-1) - P_l o_l), norm without parameters
    logits   W_out (o_1 + ... + o_N)

Parameters beside embeddings: 34 d^2 + 24 d at N = 3; without P (`raw_hidden_states`) 32 d^2 + 24 d.
Source: Harmonic (arXiv 2606.24650); what its summary leaves open is in docs/reproduction-notes.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from overtone.errors import UserError
from overtone.models.base import LanguageModel, ModelConfig, State, check_sizes
from overtone.ops import linear_scan

PUBLISHED_TIMESCALES = (4.0, 32.0, 128.0)
LARGEST_LOGIT = 15.0  # of a gate; beyond 17, float32 would round the decay to exactly 1 and the state would never change again
TAU_QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)


@dataclass(kw_only=True)
class HarmonicConfig(ModelConfig):
    """Options of Harmonic; the defaults are the paper's model."""

    levels: int = 3
    timescales: tuple[float, ...] | None = None  # centre of tau a level, tokens; None: 4, 32, 128 (other N: log-spaced 4..128)
    spread: float = 2.0  # tau starts log-spaced between centre / spread and centre * spread
    flat_timescales: bool = False  # ablation: one centre, the geometric mean, for all levels
    raw_hidden_states: bool = False  # ablation: e_l = o_l, no P
    bounded_timescales: bool = False  # tau of every gate stays between centre / spread and centre * spread
    ffn: int | None = None  # inner width of a level's output; None: 4 d
    stride: tuple[int, ...] | int = 1  # level l runs on blocks of stride[l - 1] tokens; a number k means 1, k, k^2, ...

    def __post_init__(self) -> None:
        self.ffn = 4 * self.hidden if self.ffn is None else self.ffn
        check_sizes("harmonic", levels=self.levels, ffn=self.ffn)
        if self.timescales is None:
            self.timescales = _default_timescales(self.levels)
        self.timescales = tuple(float(tau) for tau in self.timescales)
        if len(self.timescales) != self.levels or min(self.timescales) <= 0:
            raise UserError(f"harmonic: timescales: {self.timescales} found, {self.levels} positive numbers expected (one a level).")
        if self.spread < 1 or (self.bounded_timescales and self.spread == 1):
            raise UserError(f"harmonic: spread: {self.spread} found, at least 1 expected (above 1 with bounded_timescales).")
        if isinstance(self.stride, int):
            self.stride = tuple(self.stride**level for level in range(self.levels))
        self.stride = tuple(int(k) for k in self.stride)
        if len(self.stride) != self.levels or min(self.stride) < 1:
            raise UserError(f"harmonic: stride: {self.stride} found, {self.levels} whole numbers from 1 on expected (one a level).")

    def centre(self, level: int) -> float:
        """Initial centre of tau of level 0..N-1, tokens."""
        timescales = cast(tuple[float, ...], self.timescales)
        return math.exp(math.fsum(map(math.log, timescales)) / self.levels) if self.flat_timescales else timescales[level]


def _default_timescales(levels: int) -> tuple[float, ...]:
    if levels == len(PUBLISHED_TIMESCALES):
        return PUBLISHED_TIMESCALES
    low, high = PUBLISHED_TIMESCALES[0], PUBLISHED_TIMESCALES[-1]
    if levels == 1:
        return (math.sqrt(low * high),)
    return tuple(low * (high / low) ** (level / (levels - 1)) for level in range(levels))


class HarmonicLevel(nn.Module):
    """One level: gate, recurrence, feed-forward output, prediction of the level below."""

    def __init__(self, config: HarmonicConfig, level: int):
        super().__init__()
        d, self.stride = config.hidden, cast(tuple[int, ...], config.stride)[level]
        self.gate = nn.Linear(d, d)  # G_l
        self.drive = nn.Linear(d if level == 0 else 2 * d, d)  # U_l
        self.norm = nn.RMSNorm(d, eps=1e-6)
        self.ffn_in, self.ffn_out = nn.Linear(d, cast(int, config.ffn)), nn.Linear(cast(int, config.ffn), d)
        predicts = level < config.levels - 1 and not config.raw_hidden_states
        self.predict = nn.Linear(d, d, bias=False) if predicts else None  # P_l
        centre, spread = config.centre(level), config.spread
        # A block of `stride` tokens is one step of the recurrence, so its decay is exp(-stride / tau).
        self.slowest, self.fastest = math.exp(-self.stride / (centre * spread)), math.exp(-self.stride * spread / centre)
        self.bounded = config.bounded_timescales
        self._set_timescales(centre, spread)

    @torch.no_grad()
    def _set_timescales(self, centre: float, spread: float) -> None:
        """At the start A = exp(-stride / tau) whatever the token: G's weight is 0, its bias spreads tau over the channels."""
        d = self.gate.out_features
        middle = (torch.arange(d, dtype=torch.float64, device=self.gate.bias.device) + 0.5) / d  # in (0, 1), never at the ends
        decay = torch.exp(-self.stride / (centre * spread ** (2 * middle - 1)))
        share = (decay - self.fastest) / (self.slowest - self.fastest) if self.bounded else decay
        self.gate.weight.zero_()
        self.gate.bias.copy_(torch.logit(share))

    def decay(self, x: Tensor) -> Tensor:
        """A_l (..., d) in float32 or wider: 8 bits of gate would move a slow tau by several percent."""
        if x.dtype in (torch.float32, torch.float64) and not torch.is_autocast_enabled(x.device.type):
            return self._decay_of_logit(self.gate(x))
        logit = F.linear(x, self.gate.weight)
        return self._decay_of_logit(logit.float() + self.gate.bias.float())

    def _decay_of_logit(self, logit: Tensor) -> Tensor:
        share = torch.sigmoid(logit.clamp(-LARGEST_LOGIT, LARGEST_LOGIT))
        return self.fastest + (self.slowest - self.fastest) * share if self.bounded else share

    def recurrence(self, x: Tensor, below: Tensor | None) -> tuple[Tensor, Tensor]:
        """(A_l, b_l), each (..., d), from x and e_(l-1)."""
        decay = self.decay(x)
        if below is None:
            drive = self.drive(x)
        else:  # U [x; e] without building [x; e]
            on_x, on_below = self.drive.weight.split(x.shape[-1], dim=1)
            drive = F.linear(x, on_x, self.drive.bias) + F.linear(below, on_below)
        return decay, (1 - decay) * drive

    def output(self, h: Tensor) -> Tensor:
        """o_l from h_l, (..., d)."""
        return h + self.ffn_out(F.gelu(self.ffn_in(self.norm(h))))

    def taus(self) -> Tensor:
        """Time constants in tokens that the gate's bias stands for, (d,), float64."""
        return -self.stride / torch.log(self._decay_of_logit(self.gate.bias.detach().double()))


class Harmonic(LanguageModel):
    """The hierarchy of levels. State: h_l (B, d) a level, float32; strided levels also keep their open block and last output."""

    name = "harmonic"
    Config = HarmonicConfig
    width_option = "ffn"
    config: HarmonicConfig

    def __init__(self, config: HarmonicConfig):
        super().__init__(config)
        self.levels = nn.ModuleList(HarmonicLevel(config, level) for level in range(config.levels))

    def features(self, ids: Tensor, state: State | None = None, return_state: bool = False) -> Any:
        """o_1 + ... + o_N, (B, L, d)."""
        x = self.embedding(ids)
        before = state or self.init_state(ids.shape[0], device=ids.device)
        after = State(position=before.position + ids.shape[1])
        total, under, error = None, x, None
        for number, level in enumerate(cast(list[HarmonicLevel], list(self.levels)), start=1):
            run = self._level if level.stride == 1 else self._strided_level
            output = run(level, number, x, error, before, after)
            total = output if total is None else total + output
            if number < len(self.levels):
                error = self._error(level, under, output)
            under = output
        return (total, after) if return_state else total

    def _error(self, level: HarmonicLevel, under: Tensor, output: Tensor) -> Tensor:
        """e_l: what P_l(o_l) misses of the level below; o_l itself in the `raw_hidden_states` ablation."""
        if level.predict is None:
            return output
        return F.rms_norm(under - level.predict(output), (self.hidden,), eps=1e-6)

    def _level(self, level: HarmonicLevel, number: int, x: Tensor, error: Tensor | None, before: State, after: State) -> Tensor:
        decay, drive = level.recurrence(x, error)
        h, last = linear_scan(decay, drive, before.tensors[f"h{number}"], return_final=True)
        after.tensors[f"h{number}"] = last
        return level.output(h.to(x.dtype))

    def _strided_level(self, level: HarmonicLevel, number: int, x: Tensor, error: Tensor | None, before: State,
                       after: State) -> Tensor:
        """One step of the recurrence a block of k tokens, on the block's mean; token t hears of blocks that ended before t.

        Blocks are cut at absolute positions, so a sequence may arrive in pieces: `open` is the sum over the tokens of the
        block in progress, `held` the output of the last whole block.
        """
        k, length, done = level.stride, x.shape[1], before.position % level.stride
        pieces = x if error is None else torch.cat([x, error], dim=-1)
        padded = F.pad(pieces, (0, 0, done, -(done + length) % k))
        sums = padded.unflatten(1, (-1, k)).sum(dim=2)  # (B, blocks, d or 2d)
        sums = torch.cat([sums[:, :1] + before.tensors[f"open{number}"].unsqueeze(1).to(sums.dtype), sums[:, 1:]], dim=1)
        whole = (done + length) // k
        held = before.tensors[f"held{number}"].unsqueeze(1).to(x.dtype)
        last = before.tensors[f"h{number}"]
        outputs = held
        if whole:
            mean = sums[:, :whole] / k
            decay, drive = level.recurrence(mean[..., : self.hidden], None if error is None else mean[..., self.hidden :])
            h, last = linear_scan(decay, drive, last, return_final=True)
            outputs = torch.cat([held, level.output(h.to(x.dtype))], dim=1)
        after.tensors[f"h{number}"] = last
        after.tensors[f"open{number}"] = sums[:, whole] if whole < sums.shape[1] else torch.zeros_like(sums[:, 0])
        after.tensors[f"held{number}"] = outputs[:, -1]
        heard = (torch.arange(length, device=x.device) + done) // k  # index 0 is `held`
        return outputs.index_select(1, heard)

    def step(self, ids: Tensor, state: State) -> tuple[Tensor, State]:
        """One token: every level advances by its recurrence."""
        x = self.embedding(ids)  # (B, d)
        after = State(dict(state.tensors), state.position + 1)
        total, under, error = torch.zeros_like(x), x, None
        for number, level in enumerate(cast(list[HarmonicLevel], list(self.levels)), start=1):
            if level.stride == 1:
                output = self._advance(level, number, x, error, after)
            else:
                output = after.tensors[f"held{number}"].to(x.dtype)
                self._advance_block(level, number, x, error, after)
            total = total + output
            if number < len(self.levels):
                error = self._error(level, under, output)
            under = output
        return F.linear(total, self.head_weight), after

    def _advance(self, level: HarmonicLevel, number: int, x: Tensor, error: Tensor | None, state: State) -> Tensor:
        decay, drive = level.recurrence(x, error)
        h = torch.addcmul(drive, decay, state.tensors[f"h{number}"])
        state.tensors[f"h{number}"] = h
        return level.output(h.to(x.dtype))

    def _advance_block(self, level: HarmonicLevel, number: int, x: Tensor, error: Tensor | None, state: State) -> None:
        total = state.tensors[f"open{number}"] + (x if error is None else torch.cat([x, error], dim=-1))
        if state.position % level.stride == 0:
            mean = total / level.stride
            on_error = None if error is None else mean[:, self.hidden :]
            state.tensors[f"held{number}"] = self._advance(level, number, mean[:, : self.hidden], on_error, state)
            total = torch.zeros_like(total)
        state.tensors[f"open{number}"] = total

    def init_state(self, batch: int, max_length: int | None = None, device: Any = None, dtype: torch.dtype | None = None) -> State:
        """Zeros; the size does not depend on `max_length`."""
        device, dtype = self.state_place(device, dtype)
        wide = torch.promote_types(dtype, torch.float32)
        tensors = {}
        for number, level in enumerate(cast(list[HarmonicLevel], list(self.levels)), start=1):
            tensors[f"h{number}"] = torch.zeros(batch, self.hidden, device=device, dtype=wide)
            if level.stride > 1:
                tensors[f"open{number}"] = torch.zeros(batch, level.drive.in_features, device=device, dtype=dtype)
                tensors[f"held{number}"] = torch.zeros(batch, self.hidden, device=device, dtype=dtype)
        return State(tensors)

    def matrix_weights(self) -> float:
        """A strided level multiplies by its matrices once a block; the prediction is made for every token."""
        return sum(part.weight.numel() / (1 if part is level.predict else level.stride)
                   for level in cast(list[HarmonicLevel], list(self.levels)) for part in level.modules() if isinstance(part, nn.Linear))

    def mixer_flops(self, length: int) -> float:
        """Gate (2 operations), drive (1) and scan (2) a channel and level."""
        return sum(5 * self.hidden / level.stride for level in cast(list[HarmonicLevel], list(self.levels)))

    def diagnostics(self) -> dict[str, Any]:
        """Quantiles of tau (tokens) of every level, from the gate biases."""
        at = torch.tensor(TAU_QUANTILES, dtype=torch.float64)
        levels = cast(list[HarmonicLevel], list(self.levels))
        tau = {str(number): torch.quantile(level.taus().cpu(), at).tolist() for number, level in enumerate(levels, start=1)}
        return {"tau": tau, "tau_quantiles": list(TAU_QUANTILES)}
