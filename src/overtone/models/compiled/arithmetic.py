"""What a compiled step is made of: every function writes its first argument, (B, n) float32, and allocates nothing.

A product walks a weight matrix row by row, once for the whole batch. Sums may be reordered (vector loops); NaN and infinity keep
their meaning. The functions of one number are polynomials of the compiled `exp`, because numba's own are scalar code.
"""

# numba infers the types of the loops.
# mypy: disallow-untyped-defs=false

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, cast

import numba
import numpy as np
import torch
from torch import Tensor

from overtone.models.selective_scan_cpu import _exp32 as exp_of_negative
from overtone.provenance import sources_digest

_CALLED = ("models/compiled/arithmetic.py", "models/compiled/attention.py", "models/selective_scan_cpu.py")
_SUMS = {"contract", "reassoc", "nsz"}
part = numba.njit(fastmath=_SUMS, error_model="numpy")
ONE, TWO = np.float32(1), np.float32(2)
_ERF = tuple(np.float32(coefficient) for coefficient in (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429))
_ODD = tuple(np.float32(1 / divisor) for divisor in (1, 3, 5, 7, 9, 11, 13))


@cache
def machine_code(function: Callable[..., None], signature: tuple[Any, ...]) -> Callable[..., None]:
    """The function compiled for arguments of these types, from the disk where it was compiled before.

    numba renews what it keeps when the function's own file changes; the digest in the name renews it with the files it calls.
    """
    function.__qualname__ = f"{function.__name__}_{sources_digest(*_CALLED)[:12]}"

    def compiled(cached: bool) -> Callable[..., None]:
        dispatcher: Any = numba.njit(fastmath=_SUMS, error_model="numpy", nogil=True, cache=cached)(function)
        dispatcher.compile(signature)
        return cast(Callable[..., None], dispatcher)

    try:
        return compiled(cached=True)
    except (RuntimeError, OSError):  # no folder for the cache can be written, or its disk is full
        return compiled(cached=False)


def types_of(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """What numba takes the arguments for."""
    return tuple(numba.typeof(argument) for argument in arguments)


def array(x: Tensor) -> np.ndarray:
    """The tensor's memory, made contiguous."""
    return x.detach().contiguous().numpy()


def stacked(tensors: Iterable[Tensor]) -> np.ndarray:
    """The same tensor of every layer as one array (layers, ...)."""
    return array(torch.stack(list(tensors)))


@part
def room(batch, n):
    """A new (B, n)."""
    return np.empty((batch, n), np.float32)


@part
def embed(x, embedding, ids):
    """x = the ids' rows of the embedding."""
    for b in range(len(ids)):
        if not 0 <= ids[b] < len(embedding):
            raise IndexError("token id outside the model's vocabulary")
        x[b] = embedding[ids[b]]


@part
def choose(ids, logits):
    """The likeliest ids (B,)."""
    for b in range(len(ids)):
        ids[b] = np.argmax(logits[b])


@part
def linear(y, weight, bias, x):
    """y = W x + bias; a bias of None is none."""
    for i in range(len(weight)):
        for b in range(len(x)):
            y[b, i] = dot(weight[i], x[b])
            if bias is not None:
                y[b, i] += bias[i]


@part
def add_linear(y, weight, x):
    """y += W x."""
    for i in range(len(weight)):
        for b in range(len(x)):
            y[b, i] += dot(weight[i], x[b])


@part
def dot(a, b):
    """a . b."""
    total = np.float32(0)
    for j in range(len(a)):
        total += a[j] * b[j]
    return total


@part
def rms_norm(y, x, gain, eps):
    """y = x / sqrt(mean(x^2) + eps) * gain; y may be x."""
    for b in range(len(x)):
        row, out = x[b], y[b]
        scale = ONE / np.sqrt(dot(row, row) / np.float32(len(row)) + np.float32(eps))
        for i in range(len(row)):
            out[i] = row[i] * scale * gain[i]


@part
def layer_norm(y, x, gain, bias, eps):
    """y = (x - mean(x)) / sqrt(variance(x) + eps) * gain + bias."""
    for b in range(len(x)):
        row, out = x[b], y[b]
        mean = np.float32(0)
        for i in range(len(row)):
            mean += row[i]
        mean /= np.float32(len(row))
        for i in range(len(row)):
            out[i] = row[i] - mean
        scale = ONE / np.sqrt(dot(out, out) / np.float32(len(row)) + np.float32(eps))
        for i in range(len(row)):
            out[i] = out[i] * scale * gain[i] + bias[i]


@part
def convolve(y, window, new, taps):
    """y += causal convolution of n channels: taps (K, n) on the last K - 1 inputs, `window` (B, K - 1, n), and the new one, which moves in.

    The new one may go on beyond its first n.
    """
    past = len(taps) - 1
    for b in range(len(new)):
        out, row, tap = y[b], new[b], taps[past]
        for i in range(len(out)):
            out[i] += tap[i] * row[i]
        for k in range(past):
            old, tap = window[b, k], taps[k]
            following = window[b, k + 1] if k + 1 < past else row
            for i in range(len(out)):
                out[i] += tap[i] * old[i]
                old[i] = following[i]


@part
def sigmoid(x):
    """1 / (1 + exp(-x))."""
    e = exp_of_negative(-abs(x))
    return (ONE if x >= 0 else e) / (ONE + e)


@part
def silu(x):
    """x sigmoid(x)."""
    return x * sigmoid(x)


@part
def softplus(x):
    """log(1 + exp(x)): log(1 + e) = 2 artanh(e / (2 + e)), whose series ends below float32's last digit for e <= 1."""
    e = exp_of_negative(-abs(x))
    z = e / (TWO + e)
    square = z * z
    series = (((((_ODD[6] * square + _ODD[5]) * square + _ODD[4]) * square + _ODD[3]) * square + _ODD[2]) * square + _ODD[1]) * square + ONE
    return max(x, np.float32(0)) + TWO * z * series


@part
def gelu(x):
    """x (1 + erf(x / sqrt 2)) / 2, erf by Abramowitz and Stegun 7.1.26 (off by less than 2e-7)."""
    z = abs(x) * np.float32(0.5**0.5)
    t = ONE / (ONE + np.float32(0.3275911) * z)
    series = (((_ERF[4] * t + _ERF[3]) * t + _ERF[2]) * t + _ERF[1]) * t + _ERF[0]
    tail = series * t * exp_of_negative(-z * z)  # 1 - erf(z)
    return np.float32(0.5) * x * (TWO - tail if x >= 0 else tail)


@part
def gelu_all(x):
    """x = gelu(x)."""
    for b in range(len(x)):
        row = x[b]
        for i in range(len(row)):
            row[i] = gelu(row[i])


@part
def add_gated(y, gate, up, down, x, gated, inner):
    """y += W_down (silu(W_gate x) * W_up x); `gated` and `inner` (B, n) are scratch."""
    linear(gated, gate, None, x)
    linear(inner, up, None, x)
    for b in range(len(inner)):
        product, row = inner[b], gated[b]
        for i in range(len(row)):
            product[i] *= silu(row[i])
    add_linear(y, down, inner)
