"""ResonatorLM: attention replaced by a causal convolution with damped oscillators, one a head.

Glossary (paper's symbol: name here); H heads of d/H channels
    x          residual stream, (B, L, d)
    u          drive W_u norm(x), (B, L, H, d/H); `drive`
    k_h[t]     kernel exp(-alpha_h t) cos(omega_h t + phi_h); alpha = ln 2 / half-life in tokens, omega in radians a token
    y_h        g_h k_h * u_h (causal convolution); g_h makes white input keep its variance
    coupling   H x H matrix over the heads of y, the identity at the start
    local      the local lexical path: depthwise causal convolution of width 4 on u, added to y
    s          decode state, complex (B, H, d/H): s_t = lambda s_(t-1) + u_t, lambda = exp(-alpha + i omega), y_t = Re(exp(i phi) s_t)
    W_o        y -> residual stream; `out`;  then RMSNorm and SwiGLU (gate, up, down);  a final RMSNorm before the head

Source: ResonatorLM's published summary; what it leaves open is in docs/reproduction-notes.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, Self, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from overtone.errors import UserError, unknown_name
from overtone.models.base import LanguageModel, ModelConfig, State, check_sizes, windowed
from overtone.ops import kernel_energy, resonant_convolution, resonant_modes, resonant_step
from overtone.ops.resonant_convolution import BACKENDS

LOCAL_WIDTH = 4
LONGEST_HALF_LIFE = 2.0**20  # tokens; alpha never falls below ln 2 / this, so it is positive whatever a step does


@dataclass(kw_only=True)
class ResonatorConfig(ModelConfig):
    """Options of ResonatorLM; the defaults are the paper's model."""

    layers: int | None = None  # None: 8 from hidden 256 on (the paper's 6M parameters on characters), 4 below
    heads: int = 8
    intermediate: int | None = None  # inner width of SwiGLU; None: 8/3 d, rounded to a multiple of 8
    half_lives: tuple[float, float] = (2.0, 2048.0)  # tokens, shortest and longest at the start, log-spaced over the heads
    periods: tuple[float, float] = (4.0, 4096.0)  # tokens, 2 pi / omega of the fastest and slowest head, log-spaced
    head_coupling: bool = True  # ablation: off
    local_path: bool = True  # ablation: off
    frozen_kernels: bool = False  # ablation: alpha, omega, phi drawn at random within the ranges, and not trained
    pure_decay: bool = False  # ablation: omega = phi = 0, no oscillation
    kernel_backend: str = "auto"  # of overtone.ops.resonant_convolution
    norm_eps: float = 1e-6

    def __post_init__(self) -> None:
        self.layers = (8 if self.hidden >= 256 else 4) if self.layers is None else self.layers
        if self.heads < 1 or self.hidden % self.heads:
            raise UserError(f"resonator: heads: {self.heads} found, a divisor of hidden ({self.hidden}) expected.")
        if self.intermediate is None:
            self.intermediate = max(8, 8 * round(self.hidden / 3))
        check_sizes("resonator", layers=self.layers, intermediate=self.intermediate)
        if self.kernel_backend not in BACKENDS:
            raise unknown_name("resonator: kernel_backend", self.kernel_backend, BACKENDS)
        self.half_lives = (float(self.half_lives[0]), float(self.half_lives[1]))
        self.periods = (float(self.periods[0]), float(self.periods[1]))
        if not 0 < self.half_lives[0] <= self.half_lives[1] < LONGEST_HALF_LIFE:
            raise UserError(f"resonator: half_lives: {self.half_lives} found, 0 < shortest <= longest < {LONGEST_HALF_LIFE:.0f} expected.")
        if not 2 <= self.periods[0] <= self.periods[1]:
            raise UserError(f"resonator: periods: {self.periods} found, 2 <= fastest <= slowest expected.")


class Oscillators(NamedTuple):
    """What a step needs of a layer's kernels, the same for every token: (H,) each, and the modes of `resonant_step`."""

    alpha: Tensor
    omega: Tensor
    phi: Tensor
    scale: Tensor  # g
    modes: tuple[Tensor, Tensor]


@dataclass
class ResonatorState(State):
    """Decode state; `oscillators` a layer are worked out by the first step after a prefill and handed on (no part of `nbytes`)."""

    oscillators: list[Oscillators] | None = None

    def _with(self, tensors: dict[str, Tensor]) -> Self:
        return type(self)(tensors, self.position)


class ResonantMixer(nn.Module):
    """u -> coupled, scaled resonances plus the local path -> W_o."""

    def __init__(self, config: ResonatorConfig, layer: int):
        super().__init__()
        d, h, self.layer = config.hidden, config.heads, layer
        self.heads, self.backend, self.frozen, self.pure_decay = h, config.kernel_backend, config.frozen_kernels, config.pure_decay
        self.drive, self.out = nn.Linear(d, d, bias=False), nn.Linear(d, d, bias=False)
        self.coupling = nn.Parameter(torch.eye(h)) if config.head_coupling else None
        self.local = nn.Parameter(torch.empty(d, LOCAL_WIDTH).uniform_(-0.5, 0.5)) if config.local_path else None
        half_life, period = _log_spaced(config.half_lives, h), _log_spaced(config.periods, h)
        phi = torch.zeros(h)
        if config.frozen_kernels:
            half_life, period = _log_uniform(config.half_lives, h), _log_uniform(config.periods, h)
            phi = torch.empty(h).uniform_(-math.pi, math.pi)
        floor = math.log(2) / LONGEST_HALF_LIFE
        self._kernel_parameter("raw_alpha", torch.log(torch.expm1(math.log(2) / half_life - floor)))  # alpha = floor + softplus
        if not config.pure_decay:
            self._kernel_parameter("omega", 2 * math.pi / period)
            self._kernel_parameter("phi", phi)

    def _kernel_parameter(self, name: str, value: Tensor) -> None:
        if self.frozen:
            self.register_buffer(name, value)
        else:
            self.register_parameter(name, nn.Parameter(value))

    def alpha(self) -> Tensor:
        """Decay rates (H,) a token, in float32 or wider, positive whatever the parameter is."""
        raw = cast(Tensor, self.raw_alpha)
        return math.log(2) / LONGEST_HALF_LIFE + F.softplus(raw.to(torch.promote_types(raw.dtype, torch.float32)))

    def kernels(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """(alpha, omega, phi, g), each (H,); g = 1 / sqrt(sum_t k[t]^2)."""
        alpha = self.alpha()
        omega = torch.zeros_like(alpha) if self.pure_decay else cast(Tensor, self.omega).to(alpha.dtype)
        phi = torch.zeros_like(alpha) if self.pure_decay else cast(Tensor, self.phi).to(alpha.dtype)
        return alpha, omega, phi, kernel_energy(alpha, omega, phi).clamp_min(1e-6).rsqrt().to(alpha.dtype)

    def forward(self, x: Tensor, before: State, after: State) -> Tensor:
        """(B, L, d) -> (B, L, d), all tokens at once."""
        u = self.drive(x)
        alpha, omega, phi, scale = self.kernels()
        y, after.tensors[f"s{self.layer}"] = resonant_convolution(
            u.unflatten(-1, (self.heads, -1)), alpha, omega, phi, initial=before.tensors[f"s{self.layer}"], backend=self.backend,
            return_final=True)
        y = self._mix(y, scale)
        if self.local is not None:
            window = windowed(f"u{self.layer}", u, before, after)
            y = y + F.conv1d(window.transpose(1, 2), self.local.unsqueeze(1), groups=self.local.shape[0]).transpose(1, 2)
        return self.out(y)

    def oscillators(self) -> Oscillators:
        """The kernels and what `resonant_step` makes of them."""
        alpha, omega, phi, scale = self.kernels()
        return Oscillators(alpha, omega, phi, scale, resonant_modes(alpha, omega, phi))

    def step(self, x: Tensor, before: State, after: State, given: Oscillators | None = None) -> Tensor:
        """(B, d) -> (B, d), one token by the recurrence; `given` saves working out the oscillators again."""
        u, o = self.drive(x), given or self.oscillators()
        y, after.tensors[f"s{self.layer}"] = resonant_step(
            u.unflatten(-1, (self.heads, -1)), before.tensors[f"s{self.layer}"], o.alpha, o.omega, o.phi, modes=o.modes)
        y = self._mix(y, o.scale)
        if self.local is not None:
            window = windowed(f"u{self.layer}", u.unsqueeze(1), before, after)  # (B, width, d)
            y = y + (window * self.local.T).sum(1)
        return self.out(y)

    def _mix(self, y: Tensor, scale: Tensor) -> Tensor:
        """Scale the heads of y (..., H, d/H), couple them and join them: (..., d)."""
        if self.coupling is None:
            return (y * scale[:, None].to(y.dtype)).flatten(-2)
        return torch.einsum("gh,...hc->...gc", (self.coupling * scale).to(y.dtype), y).flatten(-2)


def _log_spaced(ends: tuple[float, float], count: int) -> Tensor:
    if count == 1:
        return torch.tensor([math.sqrt(ends[0] * ends[1])])
    return torch.logspace(math.log2(ends[0]), math.log2(ends[1]), count, base=2.0)


def _log_uniform(ends: tuple[float, float], count: int) -> Tensor:
    return torch.exp(torch.empty(count).uniform_(math.log(ends[0]), math.log(ends[1])))


class ResonatorBlock(nn.Module):
    """x + mixer(norm1 x), then x + swiglu(norm2 x)."""

    def __init__(self, config: ResonatorConfig, layer: int):
        super().__init__()
        d, inner = config.hidden, cast(int, config.intermediate)
        self.norm1, self.norm2 = nn.RMSNorm(d, config.norm_eps), nn.RMSNorm(d, config.norm_eps)
        self.mixer = ResonantMixer(config, layer)
        self.gate, self.up = nn.Linear(d, inner, bias=False), nn.Linear(d, inner, bias=False)
        self.down = nn.Linear(inner, d, bias=False)

    def forward(self, x: Tensor, before: State, after: State) -> Tensor:
        """(B, L, d) -> (B, L, d), all tokens at once."""
        return self._feed_forward(x + self.mixer(self.norm1(x), before, after))

    def step(self, x: Tensor, before: State, after: State, given: Oscillators) -> Tensor:
        """(B, d) -> (B, d), one token by the recurrence."""
        return self._feed_forward(x + self.mixer.step(self.norm1(x), before, after, given))

    def _feed_forward(self, x: Tensor) -> Tensor:
        normed = self.norm2(x)
        return x + self.down(F.silu(self.gate(normed)) * self.up(normed))


class Resonator(LanguageModel):
    """Resonant blocks and a final RMSNorm. State a layer: s, complex (B, H, d/H), and the local path's last 3 drives."""

    name = "resonator"
    Config = ResonatorConfig
    depth_option, width_option = "layers", "intermediate"
    config: ResonatorConfig

    def __init__(self, config: ResonatorConfig):
        super().__init__(config)
        self.blocks = nn.ModuleList(ResonatorBlock(config, layer) for layer in range(cast(int, config.layers)))
        self.norm = nn.RMSNorm(config.hidden, config.norm_eps)

    def features(self, ids: Tensor, state: State | None = None, return_state: bool = False) -> Any:
        """norm(x) after the last block, (B, L, d)."""
        before = state or self.init_state(ids.shape[0], device=ids.device)
        after = ResonatorState(position=before.position + ids.shape[1])
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x, before, after)
        x = self.norm(x)
        return (x, after) if return_state else x

    def step(self, ids: Tensor, state: State) -> tuple[Tensor, State]:
        """One token by the recurrence."""
        blocks = cast(list[ResonatorBlock], list(self.blocks))
        known = None if torch.is_grad_enabled() else cast(ResonatorState, state).oscillators  # gradients need the graph anew
        oscillators = known or [block.mixer.oscillators() for block in blocks]
        after = ResonatorState(position=state.position + 1, oscillators=oscillators)
        x = self.embedding(ids)
        for block, given in zip(blocks, oscillators, strict=True):
            x = block.step(x, state, after, given)
        return F.linear(self.norm(x), self.head_weight), after

    def init_state(self, batch: int, max_length: int | None = None, device: Any = None, dtype: torch.dtype | None = None) -> State:
        """Zeros; the size does not depend on `max_length`."""
        device, dtype = self.state_place(device, dtype)
        pair = torch.complex128 if dtype == torch.float64 else torch.complex64
        tensors = {}
        for layer in range(len(self.blocks)):
            tensors[f"s{layer}"] = torch.zeros(batch, self.config.heads, self.hidden // self.config.heads, device=device, dtype=pair)
            if self.config.local_path:
                tensors[f"u{layer}"] = torch.zeros(batch, LOCAL_WIDTH - 1, self.hidden, device=device, dtype=dtype)
        return ResonatorState(tensors)

    def mixer_flops(self, length: int) -> float:
        """By the recurrence: 10 a channel (complex multiply and add, real part), coupling and local path."""
        d, c = self.hidden, self.config
        coupling = 2 * d * c.heads if c.head_coupling else 0
        return len(self.blocks) * (10 * d + coupling + (2 * LOCAL_WIDTH * d if c.local_path else 0))

    @torch.no_grad()
    def watched(self) -> dict[str, float]:
        """The largest |lambda| = exp(-alpha) of all heads: from 1 on a head would grow without end."""
        return {"max_modulus": max(torch.exp(-cast(ResonatorBlock, block).mixer.alpha()).max().item() for block in self.blocks)}

    def diagnostics(self) -> dict[str, Any]:
        """Half-lives (tokens) and frequencies of every layer's heads, and the largest |lambda| = exp(-alpha)."""
        kernels = [cast(ResonatorBlock, block).mixer.kernels() for block in self.blocks]
        alpha = torch.stack([kernel[0] for kernel in kernels]).detach().double().cpu()
        omega = torch.stack([kernel[1] for kernel in kernels]).detach().double().cpu()
        return {"half_life": (math.log(2) / alpha).tolist(), "omega": omega.tolist(), "max_modulus": torch.exp(-alpha).max().item()}
