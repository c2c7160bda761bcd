"""The resonant convolution by FFT, as the ResonatorLM paper trains: O(L log L), zero-padded so that nothing wraps around."""

from __future__ import annotations

import torch
from torch import Tensor

from overtone.ops.resonant_convolution.carry import final_state, free_response
from overtone.ops.resonant_convolution.oscillator import kernel


def fft_convolution(
    u: Tensor, alpha: Tensor, omega: Tensor, phi: Tensor, initial: Tensor | None, return_final: bool
) -> tuple[Tensor, Tensor | None]:
    """k * u on the next power of two >= 2 L - 1, in float32 (float64 for float64 input).

    Rounding is relative to the loudest input in the window, so it is causal only up to rounding.
    """
    length = u.shape[1]
    x = u if u.dtype == torch.float64 else u.float()
    size = 1 << (2 * length - 2).bit_length()
    spectrum = torch.fft.rfft(kernel(alpha, omega, phi, length).to(x.dtype), n=size)  # (H, size/2 + 1)
    y = torch.fft.irfft(torch.fft.rfft(x, n=size, dim=1) * spectrum.T[:, :, None], n=size, dim=1)[:, :length]
    if initial is not None:
        y = y + free_response(initial, alpha, omega, phi, length).to(x.dtype)
    return y.to(u.dtype), final_state(x, alpha, omega, initial) if return_final else None
