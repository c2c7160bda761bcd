"""One token of the resonant convolution, for decoding."""

from __future__ import annotations

import torch
from torch import Tensor

from overtone.ops.resonant_convolution.oscillator import log_modulus, phase


def resonant_step(
    u_t: Tensor, state: Tensor, alpha: Tensor, omega: Tensor, phi: Tensor
) -> tuple[Tensor, Tensor]:
    """s_t = lambda s_(t-1) + u_t, y_t = Re(exp(i phi) s_t).

    u_t (B, H, Dh) real; state (B, H, Dh) complex; alpha, omega, phi (H,). Returns y_t in the dtype of u_t and the state in its own.
    Computed in complex128: lambda rounded to complex64 would turn slow oscillators out of phase (1e-4 after 3,000 tokens).
    """
    s = torch.exp(log_modulus(alpha, omega))[:, None] * state.to(torch.complex128) + u_t.double()
    return (phase(phi)[:, None] * s).real.to(u_t.dtype), s.to(state.dtype)
