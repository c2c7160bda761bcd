"""The definition of the scan: a loop over time, differentiated by autograd."""

from __future__ import annotations

import torch
from torch import Tensor


def state_dtype(a: Tensor, b: Tensor) -> torch.dtype:
    """float32, or float64 when an input is float64."""
    return torch.float64 if torch.float64 in (a.dtype, b.dtype) else torch.float32


def reference_scan(a: Tensor, b: Tensor, initial: Tensor | None) -> tuple[Tensor, Tensor]:
    """h_t = a_t h_(t-1) + b_t; returns h (batch, length, dim) and the final state (batch, dim).

    Time is taken apart with `unbind`: indexing a[:, t] would make the backward pass quadratic in length.
    """
    dtype = state_dtype(a, b)
    batch, _, dim = a.shape
    h = a.new_zeros(batch, dim, dtype=dtype) if initial is None else initial.to(dtype)
    states = []
    for a_t, b_t in zip(a.to(dtype).unbind(1), b.to(dtype).unbind(1), strict=True):
        h = a_t * h + b_t
        states.append(h)
    out = torch.stack(states, dim=1) if states else a.new_zeros(a.shape, dtype=dtype)
    return out.to(torch.promote_types(a.dtype, b.dtype)), h
