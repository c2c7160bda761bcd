"""One token of the resonant convolution, for decoding."""

from __future__ import annotations

from torch import Tensor

from overtone.ops.resonant_convolution.oscillator import phase, powers

Modes = tuple[Tensor, Tensor]


def resonant_modes(alpha: Tensor, omega: Tensor, phi: Tensor) -> Modes:
    """(lambda, exp(i phi)), each (H, 1) complex128: what a step needs of its oscillators, the same for every token."""
    return powers(alpha, omega, alpha.new_ones(1)), phase(phi)[:, None]


def resonant_step(
    u_t: Tensor, state: Tensor, alpha: Tensor, omega: Tensor, phi: Tensor, *, modes: Modes | None = None
) -> tuple[Tensor, Tensor]:
    """s_t = lambda s_(t-1) + u_t, y_t = Re(exp(i phi) s_t).

    u_t (B, H, Dh) real; state (B, H, Dh) complex; alpha, omega, phi (H,), or the `modes` made of them: with those a step
    does not work them out again. Returns y_t in the dtype of u_t and the state in its own. Computed in complex128: lambda rounded to
    complex64 would turn slow oscillators out of phase (1e-4 after 3,000 tokens).
    """
    decay, turn = resonant_modes(alpha, omega, phi) if modes is None else modes
    s = decay * state + u_t
    return (turn * s).real.to(u_t.dtype), s.to(state.dtype)
