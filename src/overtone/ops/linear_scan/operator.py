"""The scan as a PyTorch operator: autograd, torch.compile and meta tensors see one call, `overtone::linear_scan`.

With g_t the gradient that reaches h_t from everything at or after t, the backward pass is a scan run backwards:
    g_t = dh_t + a_(t+1) g_(t+1),   g_(length-1) = dh_(length-1) + dfinal
    da_t = g_t h_(t-1),   db_t = g_t,   dinitial = a_0 g_0
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from overtone.ops.linear_scan.reference import state_dtype

_INSTALLED = {package: find_spec(package) is not None for package in ("numba", "triton")}


def why_unusable(backend: str, a: Tensor, b: Tensor) -> str | None:
    """None when `backend` can run on these tensors, else the reason in a few words."""
    device = a.device.type
    if backend == "cpu":
        if device not in ("cpu", "meta"):
            return f"it runs on CPU tensors, these are on {device}"
        return None if _INSTALLED["numba"] else "numba is not installed"
    if backend == "triton":
        if not _INSTALLED["triton"]:
            return "triton is not installed"
        if state_dtype(a, b) == torch.float64:
            return "it computes in float32, these tensors are float64"
        if device == "cpu":
            interpreted = os.environ.get("TRITON_INTERPRET") == "1"
            return None if interpreted else "it needs a GPU, these tensors are on the CPU (for tests, set TRITON_INTERPRET=1)"
        return None if device in ("cuda", "meta") else f"it needs a CUDA or ROCm device, these tensors are on {device}"
    return None


def _kernels(backend: str) -> Any:
    if backend == "cpu":
        from overtone.ops.linear_scan import cpu

        return cpu
    from overtone.ops.linear_scan import triton

    return triton


torch.library.define("overtone::linear_scan", "(Tensor a, Tensor b, Tensor? initial, str backend) -> (Tensor, Tensor)")
torch.library.define(
    "overtone::linear_scan_backward",
    "(Tensor a, Tensor h, Tensor? initial, Tensor grad_h, Tensor? grad_final, ScalarType b_dtype, str backend) -> (Tensor, Tensor, Tensor)",
)


@torch.library.impl("overtone::linear_scan", ("cpu", "cuda"))
def _forward(a: Tensor, b: Tensor, initial: Tensor | None, backend: str) -> tuple[Tensor, Tensor]:
    return _kernels(backend).forward(a, b, initial)


@torch.library.register_fake("overtone::linear_scan")
def _(a: Tensor, b: Tensor, initial: Tensor | None, backend: str) -> tuple[Tensor, Tensor]:
    h = a.new_empty(a.shape, dtype=torch.promote_types(a.dtype, b.dtype))
    return h, a.new_empty((a.shape[0], a.shape[2]), dtype=state_dtype(a, b))


@torch.library.impl("overtone::linear_scan_backward", ("cpu", "cuda"))
def _backward(
    a: Tensor, h: Tensor, initial: Tensor | None, grad_h: Tensor, grad_final: Tensor | None, b_dtype: torch.dtype, backend: str
) -> tuple[Tensor, Tensor, Tensor]:
    return _kernels(backend).backward(a, h, initial, grad_h, grad_final, b_dtype)


@torch.library.register_fake("overtone::linear_scan_backward")
def _(
    a: Tensor, h: Tensor, initial: Tensor | None, grad_h: Tensor, grad_final: Tensor | None, b_dtype: torch.dtype, backend: str
) -> tuple[Tensor, Tensor, Tensor]:
    return a.new_empty(a.shape), a.new_empty(a.shape, dtype=b_dtype), a.new_empty((a.shape[0], a.shape[2]), dtype=state_dtype(a, h))


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    a, b, initial, ctx.backend = inputs
    ctx.b_dtype, ctx.initial_dtype = b.dtype, None if initial is None else initial.dtype
    ctx.save_for_backward(a, output[0], initial)
    ctx.set_materialize_grads(False)


def _differentiate(ctx: Any, grad_h: Tensor | None, grad_final: Tensor | None) -> tuple[Tensor | None, ...]:
    a, h, initial = ctx.saved_tensors
    if grad_h is None:
        grad_h = h.new_zeros(()).expand(h.shape)
    da, db, dinitial = torch.ops.overtone.linear_scan_backward(a, h, initial, grad_h, grad_final, ctx.b_dtype, ctx.backend)
    return da, db, None if initial is None else dinitial.to(ctx.initial_dtype), None


torch.library.register_autograd("overtone::linear_scan", _differentiate, setup_context=_save)


def scan_operator(a: Tensor, b: Tensor, initial: Tensor | None, backend: str) -> tuple[Tensor, Tensor]:
    """h (batch, length, dim) in the dtype a and b promote to, and the final state (batch, dim) in the state's."""
    return torch.ops.overtone.linear_scan(a, b, initial, backend)
