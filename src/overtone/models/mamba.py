"""Mamba-1, the published block, as the flat state-space baseline.

Glossary (paper's symbol: name here); D_in = expand * d channels, N = d_state numbers of state a channel
    x          residual stream, (B, L, d);  u: inner activations after the convolution, (B, L, D_in);  z: gate branch, (B, L, D_in)
    Delta      step size = softplus(dt_proj(x_proj(u)[:R])) > 0, (B, L, D_in), R = dt_rank
    A          -exp(A_log), (D_in, N), fixed in time;  B, C: the rest of x_proj(u), (B, L, N) each
    h          state, (B, D_in, N): h_t = exp(Delta_t A) h_(t-1) + Delta_t B_t u_t   (zero-order hold for A, Euler for B)
    y          C_t h_t + D u_t, then y * silu(z), then out_proj

The scan (overtone.models.selective_scan) never holds (B, L, D_in, N) products: training is linear in L in time and memory.
Weights move to and from transformers' MambaForCausalLM (overtone.models.conversion), which is the oracle of its tests.
Source: Gu and Dao 2023 (arXiv 2312.00752), section 3 and algorithm 2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from overtone.models.base import LanguageModel, ModelConfig, State, check_sizes, windowed
from overtone.models.selective_scan import selective_scan


@dataclass(kw_only=True)
class MambaConfig(ModelConfig):
    """Options of Mamba; the defaults are the paper's block."""

    layers: int = 4
    expand: int = 2  # D_in / d
    d_state: int = 16  # N
    d_conv: int = 4  # width of the causal convolution
    dt_rank: int | None = None  # R; None: ceil(d / 16)
    norm_eps: float = 1e-5

    def __post_init__(self) -> None:
        self.dt_rank = math.ceil(self.hidden / 16) if self.dt_rank is None else self.dt_rank
        check_sizes("mamba", layers=self.layers, expand=self.expand, d_state=self.d_state, d_conv=self.d_conv, dt_rank=self.dt_rank)


class MambaBlock(nn.Module):
    """x + out_proj(selective_scan(...) * silu(z)) on RMSNorm(x)."""

    def __init__(self, config: MambaConfig, layer: int):
        super().__init__()
        d, inner, self.layer = config.hidden, config.expand * config.hidden, layer
        self.n, self.rank = config.d_state, cast(int, config.dt_rank)
        self.norm = nn.RMSNorm(d, config.norm_eps)
        self.in_proj = nn.Linear(d, 2 * inner, bias=False)
        self.conv = nn.Conv1d(inner, inner, config.d_conv, groups=inner)  # depthwise; its past is padded by hand
        self.x_proj = nn.Linear(inner, self.rank + 2 * self.n, bias=False)
        self.dt_proj = nn.Linear(self.rank, inner)
        self.A_log = nn.Parameter(torch.log(torch.arange(1, self.n + 1, dtype=torch.float32)).repeat(inner, 1))
        self.A_log._no_weight_decay = True  # type: ignore[attr-defined]  # time constants, no linear map
        self.D = nn.Parameter(torch.ones(inner))
        self.out_proj = nn.Linear(inner, d, bias=False)
        self._initialise_step_size()

    @torch.no_grad()
    def _initialise_step_size(self, shortest: float = 1e-3, longest: float = 0.1) -> None:
        """Delta starts log-uniform between 0.001 and 0.1 (paper, section 3.6)."""
        nn.init.uniform_(self.dt_proj.weight, -self.rank**-0.5, self.rank**-0.5)
        delta = torch.exp(torch.empty_like(self.dt_proj.bias).uniform_(math.log(shortest), math.log(longest)))
        self.dt_proj.bias.copy_(delta + torch.log(-torch.expm1(-delta)))  # inverse of softplus

    def selection(self, u: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """(Delta, A, B, C) from u, in float32 or wider: the scan's inputs are not safe in bfloat16."""
        low_rank, b, c = self.x_proj(u).split([self.rank, self.n, self.n], dim=-1)
        kind = torch.promote_types(u.dtype, torch.float32)
        delta = F.softplus(F.linear(low_rank, self.dt_proj.weight).to(kind) + self.dt_proj.bias)
        return delta, -torch.exp(self.A_log.to(kind)), b.to(kind), c.to(kind)

    def forward(self, x: Tensor, before: State, after: State) -> Tensor:
        """(B, L, d) -> (B, L, d), all tokens at once."""
        u, z = self.in_proj(self.norm(x)).chunk(2, dim=-1)  # (B, L, D_in)
        u = F.silu(self.conv(windowed(f"conv{self.layer}", u, before, after).transpose(1, 2))).transpose(1, 2)
        delta, a, b, c = self.selection(u)
        wide = u.to(delta.dtype)
        y, after.tensors[f"h{self.layer}"] = selective_scan(wide, delta, a, b, c, before.tensors[f"h{self.layer}"])
        return x + self.out_proj((y + self.D * wide).to(x.dtype) * F.silu(z))

    def step(self, x: Tensor, before: State, after: State) -> Tensor:
        """(B, d) -> (B, d), one token by the recurrence."""
        u, z = self.in_proj(self.norm(x)).chunk(2, dim=-1)  # (B, D_in)
        window = windowed(f"conv{self.layer}", u.unsqueeze(1), before, after)  # (B, d_conv, D_in)
        u = F.silu((window * self.conv.weight.squeeze(1).T).sum(1) + cast(Tensor, self.conv.bias))
        delta, a, b, c = self.selection(u)
        wide = u.to(delta.dtype)
        decay = torch.exp(delta.unsqueeze(-1) * a)  # (B, D_in, N)
        h = decay * before.tensors[f"h{self.layer}"] + (delta * wide).unsqueeze(-1) * b.unsqueeze(1)
        after.tensors[f"h{self.layer}"] = h
        y = (h * c.unsqueeze(1)).sum(-1) + self.D * wide
        return x + self.out_proj(y.to(x.dtype) * F.silu(z))


class Mamba(LanguageModel):
    """Mamba blocks and a final RMSNorm. State a layer: the last d_conv - 1 inner inputs and h, whatever the length."""

    name = "mamba"
    Config = MambaConfig
    depth_option = "layers"
    config: MambaConfig

    def __init__(self, config: MambaConfig):
        super().__init__(config)
        self.blocks = nn.ModuleList(MambaBlock(config, layer) for layer in range(config.layers))
        self.norm = nn.RMSNorm(config.hidden, config.norm_eps)
        self._initialise()

    def _initialise(self) -> None:
        """The reference code's scheme: embeddings with deviation 0.02, maps into the residual stream smaller by sqrt(layers)."""
        for name, parameter in self.named_parameters():
            if name in ("embedding.weight", "head.weight"):
                nn.init.normal_(parameter, std=0.02)
            elif name.endswith("out_proj.weight"):
                with torch.no_grad():
                    parameter.div_(math.sqrt(self.config.layers))

    def features(self, ids: Tensor, state: State | None = None, return_state: bool = False) -> Any:
        """norm(x) after the last block, (B, L, d)."""
        before = state or self.init_state(ids.shape[0], device=ids.device)
        after = State(position=before.position + ids.shape[1])
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x, before, after)
        x = self.norm(x)
        return (x, after) if return_state else x

    def step(self, ids: Tensor, state: State) -> tuple[Tensor, State]:
        """One token by the recurrence."""
        after = State(position=state.position + 1)
        x = self.embedding(ids)
        for block in cast(list[MambaBlock], list(self.blocks)):
            x = block.step(x, state, after)
        return F.linear(self.norm(x), self.head_weight), after

    def init_state(self, batch: int, max_length: int | None = None, device: Any = None, dtype: torch.dtype | None = None) -> State:
        """Zeros; the size does not depend on `max_length`."""
        device, dtype = self.state_place(device, dtype)
        inner, wide = self.config.expand * self.hidden, torch.promote_types(dtype, torch.float32)
        tensors = {}
        for layer in range(self.config.layers):
            tensors[f"conv{layer}"] = torch.zeros(batch, self.config.d_conv - 1, inner, device=device, dtype=dtype)
            tensors[f"h{layer}"] = torch.zeros(batch, inner, self.config.d_state, device=device, dtype=wide)
        return State(tensors)

    def mixer_flops(self, length: int) -> float:
        """Convolution (2 d_conv a channel) and scan (exp argument, decay, drive, product with C: 7 a number of state)."""
        inner = self.config.expand * self.hidden
        return self.config.layers * inner * (2 * self.config.d_conv + 7 * self.config.d_state)
