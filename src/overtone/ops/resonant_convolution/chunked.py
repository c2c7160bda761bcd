"""The resonant convolution by chunks of C tokens: matrix products inside a chunk, one complex number a channel between chunks.

Because k is one complex mode, everything a chunk must know of the past is the state s that enters it:
    y_t = sum over s <= t in the chunk of k[t - s] u_s + Re(exp(i phi) lambda^(t+1) s)
    s leaving = lambda^C s entering + sum over t of lambda^(C-1-t) u_t
The first line is a C x C lower Toeplitz product, all chunks of a head in one GEMM; the second a scan over L / C chunks, itself done by
chunks. No output contains a product with a later input other than an exact zero, so the form is causal to the last bit, for any length.
"""

from __future__ import annotations

import torch
from torch import Tensor

from overtone.ops.resonant_convolution.oscillator import kernel, log_modulus, phase

CHUNK = 64  # tokens
_GROUP = 32  # chunks the state scan takes in one product


def chunked_convolution(
    u: Tensor, alpha: Tensor, omega: Tensor, phi: Tensor, initial: Tensor | None, return_final: bool
) -> tuple[Tensor, Tensor | None]:
    """y (B, L, H, Dh) and the final state (B, H, Dh), in float32 (float64 for float64 input)."""
    x = u if u.dtype == torch.float64 else u.float()
    batch, length, heads, channels = x.shape
    size = min(CHUNK, length)
    chunks = -(-length // size)
    rate = log_modulus(alpha, omega)
    t = torch.arange(size, device=u.device)

    if chunks * size > length:  # a pad by nothing would copy
        x = torch.nn.functional.pad(x, (0, 0, 0, 0, 0, chunks * size - length))
    x = x.view(batch, chunks, size, heads, channels).permute(3, 2, 1, 0, 4).reshape(heads, size, -1)  # (H, C, N B Dh)

    lag = t[:, None] - t
    toeplitz = torch.where(lag >= 0, kernel(alpha, omega, phi, size)[:, lag.clamp(min=0)], 0.0)  # (H, C, C)
    to_end = torch.exp(rate[:, None] * (size - 1 - t))  # lambda^(C-1-t), (H, C)
    inside = torch.cat([toeplitz, to_end.real[:, None], to_end.imag[:, None]], dim=1).to(x.dtype) @ x  # (H, C + 2, N B Dh)

    local, *own_parts = inside.split([size, 1, 1], dim=1)  # one split: a slice each would have a gradient full of zeros each
    own = torch.complex(*own_parts).view(heads, chunks, -1)  # (H, N, B Dh)
    start = None if initial is None else initial.to(own.dtype).permute(1, 0, 2).reshape(heads, -1)
    entering, _ = _enter(own, rate * size, start)
    response = phase(phi)[:, None] * torch.exp(rate[:, None] * (t + 1))  # (H, C)
    weights = torch.stack([response.real, -response.imag], dim=2).to(x.dtype)  # (H, C, 2)
    carried = torch.stack([entering.real, entering.imag], dim=1).view(heads, 2, -1)
    y = torch.baddbmm(local, weights, carried)

    y = y.view(heads, size, chunks, batch, channels).permute(3, 2, 1, 0, 4).reshape(batch, chunks * size, heads, channels)
    final = _final(x, entering, rate, length - (chunks - 1) * size, size) if return_final else None
    return y[:, :length].to(u.dtype), None if final is None else final.view(heads, batch, channels).transpose(0, 1)


def _final(x: Tensor, entering: Tensor, rate: Tensor, rest: int, size: int) -> Tensor:
    """The state after the last `rest` tokens, those of the last chunk that are no padding, (H, B Dh)."""
    tail = x.view(x.shape[0], size, entering.shape[1], -1)[:, :rest, -1]  # (H, rest, B Dh)
    weights = torch.exp(rate[:, None] * torch.arange(rest - 1, -1, -1, device=x.device)).to(entering.dtype)
    decay = torch.exp(rate[:, None] * rest).to(entering.dtype)
    own = torch.complex(torch.einsum("ht,htm->hm", weights.real, tail), torch.einsum("ht,htm->hm", weights.imag, tail))
    return decay * entering[:, -1] + own


def _enter(own: Tensor, rate: Tensor, start: Tensor | None) -> tuple[Tensor, Tensor]:
    """s_n before each n and after the last, of s_(n+1) = exp(rate) s_n + own_n: own (H, N, M) complex, start (H, M) or None for 0."""
    heads, count, width = own.shape
    if count > _GROUP:
        groups = -(-count // _GROUP)
        own = torch.nn.functional.pad(own, (0, 0, 0, groups * _GROUP - count)).view(heads * groups, _GROUP, width)
        inner_rate = rate.repeat_interleave(groups)
        inner, after = _enter(own, inner_rate, None)
        outer, last = _enter(after.view(heads, groups, width), rate * _GROUP, start)
        decay = torch.exp(rate[:, None] * torch.arange(_GROUP, device=own.device)).to(own.dtype)
        states = inner.view(heads, groups, _GROUP, width) + decay[:, None, :, None] * outer[:, :, None]
        return states.view(heads, groups * _GROUP, width)[:, :count], last
    n = torch.arange(count + 1, device=own.device)
    lag = n[:, None] - 1 - n[:count]
    powers = torch.exp(rate[:, None] * torch.arange(count + 1, device=own.device))
    matrix = torch.where(lag >= 0, powers[:, lag.clamp(min=0)], 0.0).to(own.dtype)  # (H, N + 1, N)
    states = matrix @ own
    if start is not None:
        states = states + powers.to(own.dtype)[:, :, None] * start[:, None]
    return states[:, :count], states[:, count]
