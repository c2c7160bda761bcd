"""The scan on a CPU: one compiled pass over memory forward, one backward, in time order, vectorised along dim.

Both directions are bound by memory, so the kernels read every input once, write every output once and keep the state (one row) in
the first-level cache. They are compiled by numba on first use (about 2 s, kept on disk where a cache can be written) and run without the
interpreter's lock; torch.get_num_threads() threads each take whole batch entries or column ranges: one parallel region a pass. A column
is always computed by the same instructions, so the number of threads never changes a bit of the result.

Inputs come as (flat array, batch stride, time stride): rows are contiguous, everything else may be strided or expanded.
"""

# numba infers the types of the loops.
# mypy: disallow-untyped-defs=false

from __future__ import annotations

import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

from overtone.ops.allocator import with_huge_pages
from overtone.ops.linear_scan.reference import state_dtype

_SERIAL_BELOW = 1 << 16  # elements: less work than waking a thread
_LINE = 16  # columns to a cache line of float32: threads do not share lines


def _forward_loop(a, a_batch, a_time, b, b_batch, b_time, state, h, length, dim, row, first, last):
    """h and `state` (batch, dim; starts as the initial state, ends as the final one) for one batch entry and columns first..last-1."""
    carry = state[row * dim + first : row * dim + last]
    for t in range(length):
        a_row = a[row * a_batch + t * a_time + first : row * a_batch + t * a_time + last]
        b_row = b[row * b_batch + t * b_time + first : row * b_batch + t * b_time + last]
        h_row = h[(row * length + t) * dim + first : (row * length + t) * dim + last]
        for d in range(last - first):
            value = a_row[d] * carry[d] + b_row[d]
            carry[d] = value
            h_row[d] = value


def _backward_loop(a, a_batch, a_time, h, initial, dh, dh_batch, dh_time, carry_all, da, db, length, dim, row, first, last):
    """da, db and `carry_all` (batch, dim; starts as dfinal, ends as dinitial) for one batch entry and columns first..last-1."""
    carry = carry_all[row * dim + first : row * dim + last]
    for t in range(length - 1, -1, -1):
        here = (row * length + t) * dim
        a_row = a[row * a_batch + t * a_time + first : row * a_batch + t * a_time + last]
        dh_row = dh[row * dh_batch + t * dh_time + first : row * dh_batch + t * dh_time + last]
        da_row = da[here + first : here + last]
        db_row = db[here + first : here + last]
        if t > 0:
            before = h[here - dim + first : here - dim + last]
        else:
            before = initial[row * dim + first : row * dim + last]
        for d in range(last - first):
            gradient = dh_row[d] + carry[d]
            db_row[d] = gradient
            da_row[d] = gradient * before[d]
            carry[d] = a_row[d] * gradient


@cache
def _compiled() -> tuple[Callable[..., None], Callable[..., None]]:
    """The two loops as machine code for float32 and float64.

    Only contraction to fused multiply-add is allowed of fastmath: infinities, denormals and the sign of zero stay exact. Both
    signatures are compiled at once, so that processes that fill the cache together write the same files.
    """
    integer = numba.int64

    def compile_both(cached: bool) -> tuple[Callable[..., None], Callable[..., None]]:
        forward, backward = [], []
        for real in (numba.float32[::1], numba.float64[::1]):
            strided = (real, integer, integer)
            where = (integer,) * 5
            forward.append(numba.void(*strided, *strided, real, real, *where))
            backward.append(numba.void(*strided, real, real, *strided, real, real, real, *where))
        options: dict[str, Any] = {"nogil": True, "fastmath": {"contract"}, "cache": cached}
        return numba.njit(forward, **options)(_forward_loop), numba.njit(backward, **options)(_backward_loop)

    try:
        return compile_both(cached=True)
    except (RuntimeError, OSError):  # no folder for the cache can be written, or its disk is full
        return compile_both(cached=False)


@cache
def _workers(threads: int, process: int) -> ThreadPoolExecutor:
    """Threads of this process; `process` keeps a fork from waiting for its parent's."""
    return ThreadPoolExecutor(threads, thread_name_prefix="overtone-scan")


def _run(loop: Callable[..., None], arguments: tuple[Any, ...], batch: int, length: int, dim: int) -> None:
    """Call loop(*arguments, length, dim, row, first, last) for every batch entry and column range, on the threads torch may use."""
    threads = torch.get_num_threads()
    if threads == 1 or batch * length * dim < _SERIAL_BELOW:
        for row in range(batch):
            loop(*arguments, length, dim, row, 0, dim)
        return
    ranges = threads // math.gcd(batch, threads)  # column ranges a batch entry, so that threads share the work evenly
    width = max(_LINE, -(-dim // ranges // _LINE) * _LINE)
    jobs = [(row, first, min(first + width, dim)) for row in range(batch) for first in range(0, dim, width)]
    list(_workers(threads, os.getpid()).map(lambda job: loop(*arguments, length, dim, *job), jobs))


def _strided(x: Tensor, dtype: torch.dtype) -> tuple[np.ndarray, int, int]:
    """x as (flat array over its memory, batch stride, time stride); copied only where a row is not contiguous."""
    x = x.detach().to(dtype)
    if x.stride(2) != 1 and x.shape[2] > 1:
        x = x.contiguous()
    batch, length, dim = x.shape
    span = (batch - 1) * x.stride(0) + (length - 1) * x.stride(1) + dim
    return x.as_strided((span,), (1,)).numpy(), x.stride(0), x.stride(1)


def _flat(x: Tensor) -> np.ndarray:
    return x.view(-1).numpy()


def _rows(x: Tensor | None, like: Tensor, dtype: torch.dtype) -> Tensor:
    """A fresh contiguous (batch, dim) copy of x, zeros when None."""
    out = torch.zeros(like.shape[0], like.shape[2], dtype=dtype)
    return out if x is None else out.copy_(x.detach())


def forward(a: Tensor, b: Tensor, initial: Tensor | None) -> tuple[Tensor, Tensor]:
    """h (batch, length, dim) in the promoted dtype and the final state (batch, dim)."""
    dtype = state_dtype(a, b)
    state, h = _rows(initial, a, dtype), with_huge_pages(torch.empty(a.shape, dtype=dtype))
    arguments = (*_strided(a, dtype), *_strided(b, dtype), _flat(state), _flat(h))
    _run(_compiled()[0], arguments, *a.shape)
    return h.to(torch.promote_types(a.dtype, b.dtype)), state


def backward(
    a: Tensor, h: Tensor, initial: Tensor | None, grad_h: Tensor, grad_final: Tensor | None, b_dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients for a and b (batch, length, dim) in their dtypes and for initial (batch, dim) in the state's."""
    dtype = state_dtype(a, h)
    carry = _rows(grad_final, a, dtype)
    da, db = (with_huge_pages(torch.empty(a.shape, dtype=dtype)) for _ in range(2))
    arguments = (*_strided(a, dtype), _flat(h.to(dtype).contiguous()), _flat(_rows(initial, a, dtype)), *_strided(grad_h, dtype),
                 _flat(carry), _flat(da), _flat(db))
    _run(_compiled()[1], arguments, *a.shape)
    return da.to(a.dtype), db.to(b_dtype), carry
