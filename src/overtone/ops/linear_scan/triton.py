"""The scan on a GPU: Triton kernels for both directions, sequential in time or parallel over it.

Lanes lie along dim; a program walks in time, loads ROWS rows ahead and keeps its state in registers. When batch * dim alone fills
the card, one program walks a whole sequence: 3 passes over memory forward, 5 backward, the fewest possible. Otherwise time is cut
into chunks:
    reduce   each chunk from a zero state: the product of its gates and its last state     2 passes
    carry    the state that enters each chunk, a scan over (product, last state) pairs     chunks * dim numbers
    apply    each chunk from the state that enters it                                      3 passes forward, 5 backward
which fills the card at batch 1. Backwards the same kernels index from the end.

Inputs are float32, bfloat16 or float16; the state and every product float32. Offsets are 64-bit. Nothing here divides by
cumulative products or takes their logarithm, so gates of exactly 0 and 1 are exact. Tested on CPU tensors in Triton's interpreter
(TRITON_INTERPRET=1).
"""

# Triton reads the kernels' annotations itself: tl.constexpr and nothing else.
# mypy: disallow-untyped-defs=false, disable-error-code=assignment

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache, wraps
from typing import Any

import torch
import triton
import triton.language as tl
import triton.testing
from torch import Tensor

from overtone.ops.peak import uncounted

MAX_CHUNKS = 1024  # the carry kernel holds all of them in one tile
MIN_CHUNK = 32  # rows: in shorter chunks the carry costs more than it brings
WARPS_TO_FILL = 32  # a multiprocessor, one warp a program
CARRY_BLOCK = 4  # columns a carry program

_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
_SIZES = ((128, 4), (64, 16), (64, 8), (64, 4), (32, 16), (32, 8), (32, 4))
_CONFIGS = [triton.Config({"BLOCK": block, "ROWS": rows}, num_warps=1) for block, rows in _SIZES]


def _timed(launch: Callable[[], Any], quantiles: Any) -> Any:
    """What the tuner measures by, and measures by itself, without a trace in the peak of the program it runs in."""
    with uncounted():
        return triton.testing.do_bench(launch, quantiles=quantiles)


def _tuned(kernel: Any) -> Any:
    """Measured once a dtype, width and magnitude, and kept on disk; the interpreter takes the smallest configuration."""
    configurations = _CONFIGS[-1:] if _INTERPRETED else _CONFIGS
    return triton.autotune(configurations, key=["dim", "magnitude"], do_bench=_timed, cache_results=not _INTERPRETED)(kernel)


@triton.jit
def _place(chunks, dim, BLOCK: tl.constexpr):
    """This program's batch entry, chunk and columns."""
    blocks = tl.cdiv(dim, BLOCK)
    program = tl.program_id(0).to(tl.int64)
    sequence = program // blocks
    return sequence // chunks, sequence % chunks, (program % blocks) * BLOCK + tl.arange(0, BLOCK)


@triton.jit
def _load_rows(x, stride, first, last, step, lanes, dim, other, ROWS: tl.constexpr, REVERSE: tl.constexpr):
    """ROWS rows from `first + step` on (from `last - 1 - step` down in reverse), `other` beyond the chunk: all loads before any use."""
    rows = ()
    for r in tl.static_range(ROWS):
        t = last - 1 - step - r if REVERSE else first + step + r
        width = tl.where((t >= first) & (t < last), dim, 0)
        rows = rows + (tl.load(x + t * stride + lanes, mask=lanes < width, other=other).to(tl.float32),)  # noqa: RUF005
    return rows


@_tuned
@triton.jit
def scan_reduce_kernel(
    a, a_batch, a_time, x, x_batch, x_time, products, states, length, dim, chunks, chunk_length, magnitude,
    REVERSE: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr,
):
    """products, states (batch, chunks, dim): each chunk's product of gates, and its last state from zero.

    Forward s = a s + x with x = b; in reverse s = a (s + x) with x = dh.
    """
    batch, chunk, lanes = _place(chunks, dim, BLOCK)
    inside = lanes < dim
    first = chunk * chunk_length
    last = tl.minimum(first + chunk_length, length)
    product = tl.full((BLOCK,), 1.0, tl.float32)
    state = tl.zeros((BLOCK,), tl.float32)
    for step in range(0, chunk_length, ROWS):
        a_rows = _load_rows(a + batch * a_batch, a_time, first, last, step, lanes, dim, 1.0, ROWS, REVERSE)
        x_rows = _load_rows(x + batch * x_batch, x_time, first, last, step, lanes, dim, 0.0, ROWS, REVERSE)
        for r in tl.static_range(ROWS):
            state = a_rows[r] * (state + x_rows[r]) if REVERSE else a_rows[r] * state + x_rows[r]
            product = product * a_rows[r]
    out = (batch * chunks + chunk) * dim + lanes
    tl.store(products + out, product, mask=inside)
    tl.store(states + out, state, mask=inside)


@triton.jit
def _then(product_1, state_1, product_2, state_2):
    """Chunk 1, then chunk 2. A zero state stays zero even where the product of gates overflowed."""
    return product_1 * product_2, tl.where(state_1 == 0.0, state_2, product_2 * state_1 + state_2)


@triton.jit
def scan_carry_kernel(
    products, states, start, entering, chunks, dim,
    HAS_START: tl.constexpr, REVERSE: tl.constexpr, BLOCK: tl.constexpr, CHUNKS: tl.constexpr,
):
    """entering (batch, chunks, dim): the state that enters each chunk; `start` (batch, dim) enters the first (the last in reverse)."""
    blocks = tl.cdiv(dim, BLOCK)
    program = tl.program_id(0).to(tl.int64)
    batch = program // blocks
    lanes = (program % blocks) * BLOCK + tl.arange(0, BLOCK)
    inside = lanes < dim
    order = tl.arange(0, CHUNKS)
    chunk = chunks - 1 - order if REVERSE else order
    offsets = (batch * chunks + chunk.to(tl.int64))[:, None] * dim + lanes[None, :]
    mask = (order < chunks)[:, None] & inside[None, :]
    product = tl.load(products + offsets, mask=mask, other=1.0)
    state = tl.load(states + offsets, mask=mask, other=0.0)
    product, state = tl.associative_scan((product, state), 0, _then)
    first = tl.zeros((BLOCK,), tl.float32)
    if HAS_START:
        first = tl.load(start + batch * dim + lanes, mask=inside, other=0.0)
    leaving = tl.where(first[None, :] == 0.0, state, product * first[None, :] + state)
    after = -dim if REVERSE else dim
    tl.store(entering + (offsets + after), leaving, mask=mask & (order < chunks - 1)[:, None])
    first_chunk = chunks - 1 if REVERSE else 0
    tl.store(entering + (batch * chunks + first_chunk) * dim + lanes, first, mask=inside)


@_tuned
@triton.jit
def scan_fwd_kernel(
    a, a_batch, a_time, b, b_batch, b_time, entering, h, final, length, dim, chunks, chunk_length, magnitude,
    HAS_ENTERING: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr,
):
    """h (batch, length, dim) from the state that enters each chunk; the last chunk leaves `final` (batch, dim)."""
    batch, chunk, lanes = _place(chunks, dim, BLOCK)
    inside = lanes < dim
    first = chunk * chunk_length
    last = tl.minimum(first + chunk_length, length)
    state = tl.zeros((BLOCK,), tl.float32)
    if HAS_ENTERING:
        state = tl.load(entering + (batch * chunks + chunk) * dim + lanes, mask=inside, other=0.0)
    for step in range(0, chunk_length, ROWS):
        a_rows = _load_rows(a + batch * a_batch, a_time, first, last, step, lanes, dim, 1.0, ROWS, False)
        b_rows = _load_rows(b + batch * b_batch, b_time, first, last, step, lanes, dim, 0.0, ROWS, False)
        for r in tl.static_range(ROWS):
            state = a_rows[r] * state + b_rows[r]
            t = first + step + r
            tl.store(h + (batch * length + t) * dim + lanes, state, mask=lanes < tl.where(t < last, dim, 0))
    if chunk == chunks - 1:
        tl.store(final + batch * dim + lanes, state, mask=inside)


@_tuned
@triton.jit
def scan_bwd_kernel(
    a, a_batch, a_time, h, initial, dh, dh_batch, dh_time, entering, da, db, dinitial, length, dim, chunks, chunk_length, magnitude,
    HAS_INITIAL: tl.constexpr, HAS_ENTERING: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr,
):
    """g_t = dh_t + a_(t+1) g_(t+1), da_t = g_t h_(t-1), db_t = g_t, and dinitial = a_0 g_0 from the first chunk."""
    batch, chunk, lanes = _place(chunks, dim, BLOCK)
    inside = lanes < dim
    first = chunk * chunk_length
    last = tl.minimum(first + chunk_length, length)
    carry = tl.zeros((BLOCK,), tl.float32)
    if HAS_ENTERING:
        carry = tl.load(entering + (batch * chunks + chunk) * dim + lanes, mask=inside, other=0.0)
    start = tl.zeros((BLOCK,), tl.float32)
    if HAS_INITIAL:
        start = tl.load(initial + batch * dim + lanes, mask=inside, other=0.0)
    base = batch * length * dim
    for step in range(0, chunk_length, ROWS):
        a_rows = _load_rows(a + batch * a_batch, a_time, first, last, step, lanes, dim, 1.0, ROWS, True)
        dh_rows = _load_rows(dh + batch * dh_batch, dh_time, first, last, step, lanes, dim, 0.0, ROWS, True)
        h_rows = _load_rows(h + base, dim, tl.maximum(first - 1, 0), last - 1, step, lanes, dim, 0.0, ROWS, True)
        for r in tl.static_range(ROWS):
            t = last - 1 - step - r
            here = base + t * dim + lanes
            mask = lanes < tl.where(t >= first, dim, 0)
            gradient = dh_rows[r] + carry
            tl.store(db + here, gradient, mask=mask)
            tl.store(da + here, gradient * tl.where(t > 0, h_rows[r], start), mask=mask)
            carry = a_rows[r] * gradient
    if chunk == 0:
        tl.store(dinitial + batch * dim + lanes, carry, mask=inside)


@cache
def _warps_to_fill(device: torch.device) -> int:
    if device.type != "cuda":
        return 4 * WARPS_TO_FILL
    return torch.cuda.get_device_properties(device).multi_processor_count * WARPS_TO_FILL


def chunking(batch: int, length: int, dim: int, warps: int) -> tuple[int, int]:
    """(chunks, rows a chunk): one chunk where batch * dim columns give enough warps of 32 lanes, else as many as fill the card."""
    wanted = warps // max(1, batch * triton.cdiv(dim, 32))
    chunks = min(wanted, length // MIN_CHUNK, MAX_CHUNKS)
    if chunks <= 1:
        return 1, length
    rows = triton.cdiv(length, chunks)
    return triton.cdiv(length, rows), rows


def _magnitude(a: Tensor) -> int:
    """Of batch * length, in powers of 16: what is tuned on a short prompt does not decide for a long one."""
    return (a.shape[0] * a.shape[1]).bit_length() // 4


def _strided(x: Tensor) -> tuple[Tensor, int, int]:
    x = x.detach()
    if x.stride(2) != 1 and x.shape[2] > 1:
        x = x.contiguous()
    return x, x.stride(0), x.stride(1)


def _entering(a: Tensor, x: Tensor, start: Tensor | None, chunks: int, rows: int, reverse: bool) -> Tensor | None:
    """The state that enters each chunk, (batch, chunks, dim); None where it is zero."""
    if chunks == 1:
        return start
    batch, length, dim = a.shape
    products, states, entering = (torch.empty(batch, chunks, dim, dtype=torch.float32, device=a.device) for _ in range(3))
    scan_reduce_kernel[lambda meta: (batch * chunks * triton.cdiv(dim, meta["BLOCK"]),)](
        *_strided(a), *_strided(x), products, states, length, dim, chunks, rows, _magnitude(a), REVERSE=reverse)
    scan_carry_kernel[(batch * triton.cdiv(dim, CARRY_BLOCK),)](
        products, states, states if start is None else start, entering, chunks, dim,
        HAS_START=start is not None, REVERSE=reverse, BLOCK=CARRY_BLOCK, CHUNKS=triton.next_power_of_2(chunks))
    return entering


def _rows(x: Tensor | None) -> Tensor | None:
    return None if x is None else x.detach().float().contiguous()


def _on_device_of_first(function: Callable[..., Any]) -> Callable[..., Any]:
    """Triton launches on the current device: make it the first argument's."""

    @wraps(function)
    def on_device(a: Tensor, *rest: Any) -> Any:
        with torch.cuda.device_of(a):
            return function(a, *rest)

    return on_device


@_on_device_of_first
def forward(a: Tensor, b: Tensor, initial: Tensor | None) -> tuple[Tensor, Tensor]:
    """h (batch, length, dim) in the promoted dtype and the final state (batch, dim) in float32."""
    batch, length, dim = a.shape
    chunks, rows = chunking(batch, length, dim, _warps_to_fill(a.device))
    h = torch.empty(a.shape, dtype=torch.promote_types(a.dtype, b.dtype), device=a.device)
    final = torch.empty(batch, dim, dtype=torch.float32, device=a.device)
    entering = _entering(a, b, _rows(initial), chunks, rows, reverse=False)
    scan_fwd_kernel[lambda meta: (batch * chunks * triton.cdiv(dim, meta["BLOCK"]),)](
        *_strided(a), *_strided(b), final if entering is None else entering, h, final, length, dim, chunks, rows, _magnitude(a),
        HAS_ENTERING=entering is not None)
    return h, final


@_on_device_of_first
def backward(
    a: Tensor, h: Tensor, initial: Tensor | None, grad_h: Tensor, grad_final: Tensor | None, b_dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients for a and b (batch, length, dim) in their dtypes and for initial (batch, dim) in float32."""
    batch, length, dim = a.shape
    chunks, rows = chunking(batch, length, dim, _warps_to_fill(a.device))
    da, db = (torch.empty(a.shape, dtype=dtype, device=a.device) for dtype in (a.dtype, b_dtype))
    dinitial = torch.empty(batch, dim, dtype=torch.float32, device=a.device)
    entering = _entering(a, grad_h, _rows(grad_final), chunks, rows, reverse=True)
    start = _rows(initial)
    scan_bwd_kernel[lambda meta: (batch * chunks * triton.cdiv(dim, meta["BLOCK"]),)](
        *_strided(a), h.contiguous(), dinitial if start is None else start, *_strided(grad_h), dinitial if entering is None else entering,
        da, db, dinitial, length, dim, chunks, rows, _magnitude(a),
        HAS_INITIAL=start is not None, HAS_ENTERING=entering is not None)
    return da, db, dinitial
