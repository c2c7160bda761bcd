"""What the oscillators of a ResonatorLM do: responses, spectra, energy, and what each head is worth.

One head h of a mixer, free of the coupling, the local path and the linear maps around it, is y = g_h k_h * u with
k_h[t] = exp(-alpha_h t) cos(omega_h t + phi_h) and g_h = 1 / sqrt(sum of k_h[t]^2). `isolated` runs the model's own code in that state.
Layers and heads are counted from 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor, nn

from overtone.models import State
from overtone.models.resonator import ResonantMixer, Resonator

POINTS = 128  # points of a curve that are kept


def mixers(model: Resonator) -> list[ResonantMixer]:
    """The mixer of every layer."""
    return [cast(Any, block).mixer for block in model.blocks]


@contextmanager
def isolated(mixer: ResonantMixer) -> Iterator[ResonantMixer]:
    """Inside the block the mixer maps its drives (B, L, d) straight to its scaled resonances (B, L, d)."""
    kept = {name: getattr(mixer, name) for name in ("drive", "out", "coupling", "local")}
    try:
        mixer.drive, mixer.out = cast(Any, nn.Identity()), cast(Any, nn.Identity())
        mixer.coupling = mixer.local = None
        yield mixer
    finally:
        for name, value in kept.items():
            setattr(mixer, name, value)


def run_isolated(model: Resonator, layer: int, u: Tensor, *, stepwise: bool = False) -> Tensor:
    """y (B, L, d) of one layer's isolated mixer on drives u (B, L, d), in parallel or token by token."""
    state = model.init_state(u.shape[0], device=u.device, dtype=u.dtype)
    with torch.no_grad(), isolated(mixers(model)[layer]) as mixer:
        if not stepwise:
            return cast(Tensor, mixer(u, state, State()))
        pieces = []
        for position in range(u.shape[1]):
            after = State()
            pieces.append(mixer.step(u[:, position], state, after))
            state = after
        return torch.stack(pieces, 1)


def impulse_response(model: Resonator, layer: int, length: int, *, stepwise: bool = False) -> Tensor:
    """What every head answers to a unit impulse at t = 0, from the model: (H, length)."""
    u = torch.zeros(1, length, model.hidden, dtype=model.embedding.weight.dtype)
    u[:, 0] = 1
    return run_isolated(model, layer, u, stepwise=stepwise)[0].view(length, model.config.heads, -1)[:, :, 0].T


def formula_response(model: Resonator, layer: int, length: int) -> Tensor:
    """g exp(-alpha t) cos(omega t + phi) of every head from its parameters, in float64: (H, length)."""
    alpha, omega, phi, scale = (value.detach().double()[:, None] for value in mixers(model)[layer].kernels())
    t = torch.arange(length, dtype=torch.float64)
    return scale * torch.exp(-alpha * t) * torch.cos(omega * t + phi)


def impulse_rows(model: Resonator, length: int = 4096) -> list[dict[str, Any]]:
    """Both responses of every head, over eight half-lives or `length` tokens, and their largest difference over all of it."""
    rows = []
    for layer, mixer in enumerate(mixers(model)):
        measured, formula = impulse_response(model, layer, length).double(), formula_response(model, layer, length)
        half_lives = math.log(2) / mixer.kernels()[0].detach().double()
        for head in range(model.config.heads):
            span = min(length, max(32, math.ceil(8 * float(half_lives[head]))))
            at = torch.linspace(0, span - 1, min(span, POINTS)).round().long().unique()
            rows.append({
                "layer": layer, "head": head, "t": at.tolist(), "model": measured[head, at].tolist(), "formula": formula[head, at].tolist(),
                "largest_difference": float((measured[head] - formula[head]).abs().max()), "length": length,
            })
    return rows


def magnitude(model: Resonator, layer: int, omega: Tensor) -> Tensor:
    """|sum over t of g k[t] exp(-i omega t)| of every head at frequencies omega (n,), (H, n) float64: two geometric series."""
    alpha, own, phi, scale = (value.detach().double()[:, None] for value in mixers(model)[layer].kernels())
    omega = omega.double()
    ahead = torch.exp(1j * phi) / (1 - torch.exp(torch.complex(-alpha.expand(-1, len(omega)), own - omega)))
    behind = torch.exp(-1j * phi) / (1 - torch.exp(torch.complex(-alpha.expand(-1, len(omega)), -own - omega)))
    return scale * 0.5 * (ahead + behind).abs()


def spectrum_rows(model: Resonator) -> list[dict[str, Any]]:
    """Magnitude by frequency (radians a token, log-spaced up to pi, and the peak) and the frequency of resonance of every head.

    The peak is searched around the head's own frequency, where a resonance must be, and at the ends of the range.
    """
    rows = []
    base = torch.logspace(math.log10(math.pi / 4096), math.log10(math.pi), POINTS - 1, dtype=torch.float64)
    for layer, mixer in enumerate(mixers(model)):
        alphas, omegas = (value.detach().double() for value in mixer.kernels()[:2])
        for head in range(model.config.heads):
            own = float(omegas[head]) % (2 * math.pi)
            own = min(own, 2 * math.pi - own)  # a sampled oscillation repeats and mirrors at pi
            near = own + float(alphas[head]) * torch.linspace(-4, 4, 801, dtype=torch.float64)
            search = torch.cat([torch.zeros(1, dtype=torch.float64), base, near.clamp(0, math.pi)]).unique()
            peak = float(search[magnitude(model, layer, search)[head].argmax()])
            grid = torch.cat([base, torch.tensor([peak], dtype=torch.float64)]).unique()
            rows.append({"layer": layer, "head": head, "omega": grid.tolist(), "magnitude": magnitude(model, layer, grid)[head].tolist(),
                         "peak_omega": peak, "own_omega": own})
    return rows


@contextmanager
def head_off(mixer: ResonantMixer, head: int) -> Iterator[None]:
    """Inside the block one head's resonance is zero; the local path and the other heads go on."""
    alpha, omega, phi, scale = mixer.kernels()
    muted = scale.clone()
    muted[head] = 0
    mixer.kernels = lambda: (alpha, omega, phi, muted)  # type: ignore[method-assign]
    try:
        yield
    finally:
        del mixer.kernels


def head_losses(model: Resonator, ids: Tensor, targets: Tensor) -> tuple[float, list[dict[str, Any]]]:
    """(bpt, rows): bits per token on windows ids (B, L), and with each head switched off; `error` is of the paired difference."""
    def window_bits() -> Tensor:
        nats = cast(Tensor, model.loss(ids, targets, reduction="none"))
        return nats.double().mean(1) / math.log(2)

    rows = []
    with torch.no_grad():
        whole = window_bits()
        for layer, mixer in enumerate(mixers(model)):
            for head in range(model.config.heads):
                with head_off(mixer, head):
                    without = window_bits()
                spread = (without - whole).std() / math.sqrt(len(whole)) if len(whole) > 1 else torch.zeros(())
                rows.append({"layer": layer, "head": head, "bpt_off": float(without.mean()), "error": float(spread)})
    return float(whole.mean()), rows


def _last_of_noise(model: Resonator, layer: int, length: int, generator: torch.Generator) -> Tensor:
    """The last resonances (1, H, d / H) of one sequence of white noise, float64."""
    noise = torch.randn(1, length, model.hidden, generator=generator, dtype=model.embedding.weight.dtype)
    return run_isolated(model, layer, noise)[:, -1].double().view(1, model.config.heads, -1)


def energy_rows(model: Resonator, length: int = 16384, seed: int = 0, channels: int = 256) -> list[dict[str, Any]]:
    """What white input comes out with, a head: twice measured, once expected.

    response   sum of the squared impulse response over `length` tokens, from the model
    expected   the same of the formula: 1 but for the tail beyond `length`
    white      variance at the last token over that of the input, for white noise in `channels` independent sequences
    modulus    |lambda| = exp(-alpha): below 1, or the head grows
    """
    rows = []
    generator = torch.Generator().manual_seed(seed)
    for layer, mixer in enumerate(mixers(model)):
        response = impulse_response(model, layer, length).double().square().sum(1)
        expected = formula_response(model, layer, length).square().sum(1)
        sequences = -(-channels * model.config.heads // model.hidden)
        last = torch.cat([_last_of_noise(model, layer, length, generator) for _ in range(sequences)])
        moduli = torch.exp(-mixer.kernels()[0].detach().double())
        rows += [{"layer": layer, "head": head, "response": float(response[head]), "expected": float(expected[head]),
                  "white": float(last[:, head].square().mean()), "samples": last[:, head].numel(), "modulus": float(moduli[head])}
                 for head in range(model.config.heads)]
    return rows
