"""The definition of the resonant convolution: the O(L^2) sum, in float64."""

from __future__ import annotations

import torch
from torch import Tensor

from overtone.ops.resonant_convolution.carry import final_state, free_response
from overtone.ops.resonant_convolution.oscillator import kernel


def direct_convolution(
    u: Tensor, alpha: Tensor, omega: Tensor, phi: Tensor, initial: Tensor | None, return_final: bool
) -> tuple[Tensor, Tensor | None]:
    """y_t = sum over s <= t of k[t - s] u_s, through the lower Toeplitz matrix (H, L, L)."""
    length = u.shape[1]
    lag = torch.arange(length, device=u.device)[:, None] - torch.arange(length, device=u.device)
    toeplitz = torch.where(lag >= 0, kernel(alpha, omega, phi, length)[:, lag.clamp(min=0)], 0.0)
    y = torch.einsum("hts,bshd->bthd", toeplitz, u.double())
    if initial is not None:
        y = y + free_response(initial.to(torch.complex128), alpha, omega, phi, length)
    return y.to(u.dtype), final_state(u.double(), alpha, omega, initial) if return_final else None
