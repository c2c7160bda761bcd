"""What crosses a cut in the sequence: the state, s_t = lambda s_(t-1) + u_t with y_t = Re(exp(i phi) s_t)."""

from __future__ import annotations

import torch
from torch import Tensor

from overtone.ops.resonant_convolution.oscillator import phase, powers


def free_response(initial: Tensor, alpha: Tensor, omega: Tensor, phi: Tensor, length: int) -> Tensor:
    """What a carried state (B, H, Dh) adds to the output: Re(exp(i phi) lambda^(t+1) s), (B, length, H, Dh)."""
    t = torch.arange(1, length + 1, device=initial.device)
    modes = (phase(phi)[:, None] * powers(alpha, omega, t)).to(initial.dtype)  # (H, length)
    return torch.einsum("ht,bhd->bthd", modes.real, initial.real) - torch.einsum("ht,bhd->bthd", modes.imag, initial.imag)


def final_state(u: Tensor, alpha: Tensor, omega: Tensor, initial: Tensor | None) -> Tensor:
    """s_(L-1) = lambda^L s_(-1) + sum over t of lambda^(L-1-t) u_t, (B, H, Dh) complex, in the precision of u (B, L, H, Dh)."""
    length = u.shape[1]
    weights = powers(alpha, omega, torch.arange(length - 1, -1, -1, device=u.device))  # (H, L)
    final = torch.complex(torch.einsum("ht,bthd->bhd", weights.real.to(u.dtype), u),
                          torch.einsum("ht,bthd->bhd", weights.imag.to(u.dtype), u))
    if initial is None:
        return final
    decay = powers(alpha, omega, torch.full((1,), length, device=u.device)).to(final.dtype)  # (H, 1)
    return final + decay * initial.to(final.dtype)
