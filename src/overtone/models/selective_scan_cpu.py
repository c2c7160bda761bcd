"""The selective scan on a CPU: one compiled pass forward, one backward, the state (N, D) of a batch entry in cache.

The forward pass keeps the states at every CHUNK-th token only; the backward pass recomputes a chunk's states and decays into a
scratch that fits the second-level cache, then walks it in reverse. With g_t the gradient that reaches h_t:
    g_t = C_t dy_t + exp(Delta_(t+1) A) g_(t+1)
    dC_t = sum_d h_t dy_t    dB_t = sum_d g_t Delta_t u_t    d(Delta_t u_t) = sum_n g_t B_t
    d(Delta_t A) = g_t h_(t-1) exp(Delta_t A)
Channels lie innermost, so every loop is a vector loop. exp is a polynomial (relative error below 3e-7) in float32, because
numba's own is scalar code; math.exp in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numba
import numpy as np
import torch
from numba import types
from numba.extending import intrinsic, overload
from torch import Tensor

CHUNK = 16  # tokens between stored states

_NO_REORDERING = {"contract"}
_SUMS = {"contract", "reassoc", "nsz"}  # NaN and infinity keep their meaning


@intrinsic
def _bits(context: Any, value: Any) -> Any:
    """The int32 with the bits of a float32."""
    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], context.get_value_type(types.int32))

    return types.int32(types.float32), code


@intrinsic
def _float(context: Any, value: Any) -> Any:
    """The float32 with the bits of an int32."""
    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], context.get_value_type(types.float32))

    return types.float32(types.int32), code


def _exp(x):  # type: ignore[no-untyped-def]
    """exp(x) for x <= 0; what is below exp(-87), 1.6e-38, becomes that."""
    raise NotImplementedError


@numba.njit(fastmath=_NO_REORDERING)
def _exp32(x):  # type: ignore[no-untyped-def]
    one = np.float32(1.0)
    x = max(x, np.float32(-87.0))
    shifter = np.float32(12582912.0)  # 1.5 * 2^23: adding it rounds to a whole number, kept in the low bits
    shifted = x * np.float32(1.4426950408889634) + shifter
    k = shifted - shifter  # exp(x) = 2^k exp(f), |f| <= ln 2 / 2; ln 2 in two parts, the first exact in few bits
    f = x - k * np.float32(0.693359375) - k * np.float32(-2.12194440e-4)
    p = np.float32(1 / 720)
    p = p * f + np.float32(1 / 120)
    p = p * f + np.float32(1 / 24)
    p = p * f + np.float32(1 / 6)
    p = p * f + np.float32(0.5)
    p = p * f + one
    p = p * f + one
    return _float(np.int32(_bits(p) + np.int32((_bits(shifted) - _bits(shifter)) << np.int32(23))))


@overload(_exp, inline="always")
def _exp_of_type(x):  # type: ignore[no-untyped-def]
    if x == types.float32:
        return lambda x: _exp32(x)
    return lambda x: math.exp(x)


def _forward_loop(u, delta, a, b, c, state, y, kept):  # type: ignore[no-untyped-def]
    """y, and `kept` (B, chunks, N, D): the state before every chunk. `state` (B, N, D) starts as the initial state and ends as the last."""
    batch, length, channels = u.shape
    numbers = a.shape[0]
    drive = np.empty(channels, dtype=u.dtype)
    for i in range(batch):
        h = state[i]
        for t in range(length):
            if t % CHUNK == 0:
                kept[i, t // CHUNK] = h
            for d in range(channels):
                drive[d] = delta[i, t, d] * u[i, t, d]
                y[i, t, d] = 0.0
            for n in range(numbers):
                in_gain, out_gain = b[i, t, n], c[i, t, n]
                for d in range(channels):
                    value = _exp(delta[i, t, d] * a[n, d]) * h[n, d] + drive[d] * in_gain
                    h[n, d] = value
                    y[i, t, d] += out_gain * value


def _backward_loop(u, delta, a, b, c, kept, dy, carry, du, ddelta, da, db, dc):  # type: ignore[no-untyped-def]
    """Gradients; `carry` (B, N, D) starts as that of the last state and ends as that of the initial one."""
    batch, length, channels = u.shape
    numbers = a.shape[0]
    states = np.empty((CHUNK + 1, numbers, channels), dtype=u.dtype)
    decays = np.empty((CHUNK, numbers, channels), dtype=u.dtype)
    drive, ddrive = np.empty(channels, dtype=u.dtype), np.empty(channels, dtype=u.dtype)
    for i in range(batch):
        g_after = carry[i]
        for chunk in range((length + CHUNK - 1) // CHUNK - 1, -1, -1):
            start = chunk * CHUNK
            stop = min(start + CHUNK, length)
            states[0] = kept[i, chunk]
            for t in range(start, stop):
                k = t - start
                for n in range(numbers):
                    in_gain = b[i, t, n]
                    for d in range(channels):
                        decay = _exp(delta[i, t, d] * a[n, d])
                        decays[k, n, d] = decay
                        states[k + 1, n, d] = decay * states[k, n, d] + delta[i, t, d] * u[i, t, d] * in_gain
            for t in range(stop - 1, start - 1, -1):
                k = t - start
                for d in range(channels):
                    drive[d] = delta[i, t, d] * u[i, t, d]
                    ddrive[d] = 0.0
                    ddelta[i, t, d] = 0.0
                for n in range(numbers):
                    in_gain, out_gain = b[i, t, n], c[i, t, n]
                    sum_b = u.dtype.type(0.0)
                    sum_c = u.dtype.type(0.0)
                    for d in range(channels):
                        out = dy[i, t, d]
                        g = g_after[n, d] + out_gain * out
                        decay = decays[k, n, d]
                        by_exponent = g * states[k, n, d] * decay
                        sum_c += states[k + 1, n, d] * out
                        sum_b += g * drive[d]
                        ddrive[d] += g * in_gain
                        ddelta[i, t, d] += by_exponent * a[n, d]
                        da[n, d] += by_exponent * delta[i, t, d]
                        g_after[n, d] = g * decay
                    db[i, t, n] = sum_b
                    dc[i, t, n] = sum_c
                for d in range(channels):
                    ddelta[i, t, d] += ddrive[d] * u[i, t, d]
                    du[i, t, d] = ddrive[d] * delta[i, t, d]


@cache
def _compiled() -> tuple[Callable[..., None], Callable[..., None]]:
    """The two loops as machine code for float32 and float64, from the disk where they were compiled before.

    Both types are compiled at once, so that processes that fill the cache together write the same files.
    """
    def compile_both(cached: bool) -> tuple[Callable[..., None], Callable[..., None]]:
        forward, backward = [], []
        for real in (types.float32, types.float64):
            matrix, row, tensor = real[:, ::1], real[:, :, ::1], real[:, :, :, ::1]
            forward.append(types.void(row, row, matrix, row, row, row, row, tensor))
            backward.append(types.void(row, row, matrix, row, row, tensor, row, row, row, row, matrix, row, row))
        options: dict[str, Any] = {"nogil": True, "fastmath": _SUMS, "cache": cached}
        return numba.njit(forward, **options)(_forward_loop), numba.njit(backward, **options)(_backward_loop)

    try:
        return compile_both(cached=True)
    except (RuntimeError, OSError):  # no folder for the cache can be written, or its disk is full
        return compile_both(cached=False)


def _array(x: Tensor) -> np.ndarray:
    return x.detach().contiguous().numpy()


class SelectiveScan(torch.autograd.Function):
    """Shapes as in `overtone.models.selective_scan`; inside, the channels come last."""

    @staticmethod
    def forward(ctx: Any, u: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor, initial: Tensor) -> tuple[Tensor, Tensor]:
        """Y and the last state."""
        batch, length, channels = u.shape
        state = initial.detach().transpose(1, 2).clone(memory_format=torch.contiguous_format)  # (B, N, D)
        y = u.new_empty(u.shape)
        kept = u.new_empty(batch, -(-length // CHUNK), a.shape[1], channels)
        _compiled()[0](_array(u), _array(delta), _array(a.T), _array(b), _array(c), state.numpy(), y.numpy(), kept.numpy())
        ctx.save_for_backward(u, delta, a, b, c, kept)
        return y, state.transpose(1, 2)

    @staticmethod
    def backward(ctx: Any, dy: Tensor, dlast: Tensor) -> tuple[Tensor, ...]:
        """Gradients for u, delta, a, b, c and the initial state."""
        u, delta, a, b, c, kept = ctx.saved_tensors
        carry = dlast.transpose(1, 2).clone(memory_format=torch.contiguous_format)
        du, ddelta = u.new_empty(u.shape), u.new_empty(u.shape)
        da = u.new_zeros(a.shape[1], a.shape[0])
        db, dc = u.new_empty(b.shape), u.new_empty(c.shape)
        _compiled()[1](_array(u), _array(delta), _array(a.T), _array(b), _array(c), _array(kept), _array(dy), carry.numpy(), du.numpy(),
                  ddelta.numpy(), da.numpy(), db.numpy(), dc.numpy())
        return du, ddelta, da.T, db, dc, carry.transpose(1, 2)
