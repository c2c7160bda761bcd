"""The scan as a PyTorch operator: autograd, torch.compile and meta tensors see one call, `overtone::linear_scan`.

With g_t the gradient that reaches h_t from everything at or after t, the backward pass is a scan run backwards:
    g_t = dh_t + a_(t+1) g_(t+1),   g_(length-1) = dh_(length-1) + dfinal
    da_t = g_t h_(t-1),   db_t = g_t,   dinitial = a_0 g_0
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from overtone.ops.linear_scan.reference import state_dtype


def why_unusable(backend: str, device: str) -> str | None:
    """None when `backend` can run on `device`, else the reason in a few words."""
    if backend == "cpu":
        if device not in ("cpu", "meta"):
            return f"it runs on CPU tensors, these are on {device}"
        return None if find_spec("numba") else "numba is not installed"
    if backend == "triton":
        if not find_spec("triton"):
            return "triton is not installed"
        if device == "cpu":
            from triton import knobs

            return None if knobs.runtime.interpret else "it needs a GPU (on a CPU only with TRITON_INTERPRET=1, for tests)"
        return None if device in ("cuda", "xpu", "meta") else f"it needs a GPU, these tensors are on {device}"
    return None


def _kernels(backend: str) -> Any:
    if backend == "cpu":
        from overtone.ops.linear_scan import cpu

        return cpu
    from overtone.ops.linear_scan import triton

    return triton


@torch.library.custom_op("overtone::linear_scan", mutates_args=())
def scan_operator(a: Tensor, b: Tensor, initial: Tensor | None, backend: str) -> tuple[Tensor, Tensor]:
    """h (batch, length, dim) and the final state (batch, dim)."""
    return _kernels(backend).forward(a, b, initial)


@torch.library.custom_op("overtone::linear_scan_backward", mutates_args=())
def scan_backward_operator(
    a: Tensor, h: Tensor, initial: Tensor | None, grad_h: Tensor, grad_final: Tensor | None, backend: str
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients for a, b (batch, length, dim) and initial (batch, dim), in the dtype of the state."""
    return _kernels(backend).backward(a, h, initial, grad_h, grad_final)


@scan_operator.register_fake
def _(a: Tensor, b: Tensor, initial: Tensor | None, backend: str) -> tuple[Tensor, Tensor]:
    h = a.new_empty(a.shape, dtype=torch.promote_types(a.dtype, b.dtype))
    return h, a.new_empty((a.shape[0], a.shape[2]), dtype=state_dtype(a, b))


@scan_backward_operator.register_fake
def _(
    a: Tensor, h: Tensor, initial: Tensor | None, grad_h: Tensor, grad_final: Tensor | None, backend: str
) -> tuple[Tensor, Tensor, Tensor]:
    dtype = state_dtype(a, h)
    return (a.new_empty(a.shape, dtype=dtype), a.new_empty(a.shape, dtype=dtype),
            a.new_empty((a.shape[0], a.shape[2]), dtype=dtype))


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    a, b, initial, ctx.backend = inputs
    ctx.dtypes = a.dtype, b.dtype, None if initial is None else initial.dtype
    ctx.save_for_backward(a, output[0], initial)
    ctx.set_materialize_grads(False)


def _differentiate(ctx: Any, grad_h: Tensor | None, grad_final: Tensor | None) -> tuple[Tensor | None, ...]:
    a, h, initial = ctx.saved_tensors
    if grad_h is None:
        grad_h = h.new_zeros(()).expand(h.shape)
    grads = scan_backward_operator(a, h, initial, grad_h, grad_final, ctx.backend)
    return (*(None if dtype is None else grad.to(dtype) for grad, dtype in zip(grads, ctx.dtypes, strict=True)), None)


scan_operator.register_autograd(_differentiate, setup_context=_save)
