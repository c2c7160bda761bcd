"""One damped oscillator a head: k[t] = exp(-alpha t) cos(omega t + phi) = Re(exp(i phi) lambda^t), lambda = exp(-alpha + i omega).

alpha (H,) decay a token, > 0; omega (H,) radians a token; phi (H,) radians. Powers and angles are computed in float64: in
float32 the angle omega t alone is off by 5e-5 at t = 8192.
"""

from __future__ import annotations

import torch
from torch import Tensor


def log_modulus(alpha: Tensor, omega: Tensor) -> Tensor:
    """log lambda = -alpha + i omega, (H,) complex128."""
    return torch.complex(-alpha.double(), omega.double())


def powers(alpha: Tensor, omega: Tensor, t: Tensor) -> Tensor:
    """lambda^t, (H, len(t)) complex128, for a vector of times t."""
    return torch.exp(log_modulus(alpha, omega)[:, None] * t.double())


def phase(phi: Tensor) -> Tensor:
    """exp(i phi), (H,) complex128."""
    return torch.exp(1j * phi.double())


def kernel(alpha: Tensor, omega: Tensor, phi: Tensor, length: int) -> Tensor:
    """k[0..length-1], (H, length) float64."""
    t = torch.arange(length, device=alpha.device, dtype=torch.float64)
    return torch.exp(-alpha.double()[:, None] * t) * torch.cos(omega.double()[:, None] * t + phi.double()[:, None])


def kernel_energy(alpha: Tensor, omega: Tensor, phi: Tensor) -> Tensor:
    """The energy of the whole kernel, sum over t >= 0 of k[t]^2, (H,) float64: the variance white input comes out with.

    From cos^2 x = (1 + cos 2x) / 2 and two geometric series, with r = exp(-2 alpha):
        (1 / (1 - r) + Re(exp(2 i phi) / (1 - r exp(2 i omega)))) / 2
    Both denominators go through expm1, so that slow and nearly constant oscillators keep their digits. Differentiable.
    """
    alpha, omega, phi = alpha.double(), omega.double(), phi.double()
    constant = -1.0 / torch.expm1(-2.0 * alpha)
    # 1 - exp(z) at z = 2 (-alpha + i omega)
    real = -torch.expm1(-2.0 * alpha) * torch.cos(2.0 * omega) + 2.0 * torch.sin(omega) ** 2
    imaginary = -torch.exp(-2.0 * alpha) * torch.sin(2.0 * omega)
    turning = torch.real(torch.exp(2j * phi) / torch.complex(real, imaginary))
    return 0.5 * (constant + turning)
