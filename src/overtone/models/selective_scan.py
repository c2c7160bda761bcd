"""Mamba's selective scan: y_t = C_t h_t with h_t = exp(Delta_t A) h_(t-1) + Delta_t u_t B_t, channel by channel.

B batch, L length, D channels, N numbers of state a channel. The (B, L, D, N) products are never held for a whole sequence:
`chunked` works through it piece by piece with the state carried and computes a piece anew in the backward pass; `cpu` is a
compiled kernel that keeps the state in cache. Both are linear in L. Source: Gu and Dao 2023 (arXiv 2312.00752), algorithm 2.
"""

from __future__ import annotations

from importlib.util import find_spec

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from overtone.errors import unknown_name
from overtone.ops import linear_scan
from overtone.ops.precision import without_autocast

BACKENDS = ("auto", "chunked", "cpu")
CHUNK = 128  # tokens whose states are held at once


def selective_scan(u: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor, initial: Tensor, *,
                   backend: str = "auto") -> tuple[Tensor, Tensor]:
    """(y (B, L, D), h after the last token (B, D, N)).

    u, delta (B, L, D), delta > 0; a (D, N), below 0; b, c (B, L, N); initial (B, D, N): all of one dtype, float32 or float64.
    Computed in that dtype whatever the autocast. All inputs get gradients. An unknown backend is a UserError.
    """
    if backend not in BACKENDS:
        raise unknown_name("selective_scan backend", backend, BACKENDS)
    if backend == "auto":
        backend = "cpu" if u.device.type == "cpu" and find_spec("numba") else "chunked"
    if backend == "cpu":
        from overtone.models.selective_scan_cpu import SelectiveScan

        y, last = SelectiveScan.apply(u, delta, a, b, c, initial)
        return y, last
    return _chunked(u, delta, a, b, c, initial)


def _chunked(u: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
    outputs = []
    for u_piece, delta_piece, b_piece, c_piece in zip(*(item.split(CHUNK, dim=1) for item in (u, delta, b, c)), strict=True):
        inputs = (u_piece, delta_piece, a, b_piece, c_piece, h)
        if torch.is_grad_enabled():
            y, h = checkpoint(_chunk, *inputs, use_reentrant=False, preserve_rng_state=False)
        else:
            y, h = _chunk(*inputs)
        outputs.append(y)
    return torch.cat(outputs, dim=1), h


def _chunk(u: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
    decay = torch.exp(delta.unsqueeze(-1) * a)  # (B, chunk, D, N)
    drive = (delta * u).unsqueeze(-1) * b.unsqueeze(2)
    states, last = linear_scan(decay.flatten(2), drive.flatten(2), h.flatten(1), return_final=True)
    with without_autocast(u.device.type):  # it would round the states to bfloat16
        y = torch.matmul(states.unflatten(2, h.shape[1:]), c.unsqueeze(-1)).squeeze(-1)
    return y, last.unflatten(1, h.shape[1:])
