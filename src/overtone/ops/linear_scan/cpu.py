"""The scan on a CPU: one compiled pass forward, one backward."""

from __future__ import annotations

import numba
import numpy as np
import torch
from torch import Tensor

from overtone.ops.linear_scan.reference import state_dtype


@numba.njit(nogil=True, cache=False, fastmath={"contract"})
def _forward(a: np.ndarray, b: np.ndarray, state: np.ndarray, h: np.ndarray) -> None:
    for i in range(a.shape[0]):
        for t in range(a.shape[1]):
            for d in range(a.shape[2]):
                state[i, d] = a[i, t, d] * state[i, d] + b[i, t, d]
                h[i, t, d] = state[i, d]


@numba.njit(nogil=True, cache=False, fastmath={"contract"})
def _backward(a: np.ndarray, h: np.ndarray, initial: np.ndarray, dh: np.ndarray, carry: np.ndarray,
              da: np.ndarray, db: np.ndarray) -> None:
    for i in range(a.shape[0]):
        for t in range(a.shape[1] - 1, -1, -1):
            for d in range(a.shape[2]):
                g = dh[i, t, d] + carry[i, d]
                db[i, t, d] = g
                da[i, t, d] = g * (h[i, t - 1, d] if t > 0 else initial[i, d])
                carry[i, d] = a[i, t, d] * g


def _array(x: Tensor, dtype: torch.dtype) -> np.ndarray:
    return x.detach().to(dtype).contiguous().numpy()


def forward(a: Tensor, b: Tensor, initial: Tensor | None) -> tuple[Tensor, Tensor]:
    """h and the final state."""
    dtype = state_dtype(a, b)
    batch, _, dim = a.shape
    state = torch.zeros(batch, dim, dtype=dtype) if initial is None else initial.detach().to(dtype, copy=True).contiguous()
    h = torch.empty(a.shape, dtype=dtype)
    _forward(_array(a, dtype), _array(b, dtype), state.numpy(), h.numpy())
    return h.to(torch.promote_types(a.dtype, b.dtype)), state


def backward(
    a: Tensor, h: Tensor, initial: Tensor | None, grad_h: Tensor, grad_final: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients for a, b and initial."""
    dtype = state_dtype(a, h)
    batch, _, dim = a.shape
    start = torch.zeros(batch, dim, dtype=dtype) if initial is None else initial
    carry = torch.zeros(batch, dim, dtype=dtype) if grad_final is None else grad_final.detach().to(dtype, copy=True).contiguous()
    da, db = torch.empty(a.shape, dtype=dtype), torch.empty(a.shape, dtype=dtype)
    _backward(_array(a, dtype), _array(h, dtype), _array(start, dtype), _array(grad_h, dtype), carry.numpy(), da.numpy(), db.numpy())
    return da, db, carry
