"""First-order linear recurrence, elementwise: h_t = a_t * h_(t-1) + b_t.

Three backends compute the same function. `reference` is the definition, `cpu` a compiled kernel (numba: no toolchain on the
user's side), `triton` the GPU kernels.
"""

from __future__ import annotations

import warnings

from torch import Tensor

from overtone.errors import UserError, unknown_name
from overtone.ops.linear_scan.operator import scan_operator, why_unusable
from overtone.ops.linear_scan.reference import reference_scan

BACKENDS = ("auto", "reference", "cpu", "triton")


def linear_scan(
    a: Tensor, b: Tensor, initial: Tensor | None = None, *, backend: str = "auto", return_final: bool = False
) -> Tensor | tuple[Tensor, Tensor]:
    """h_t = a_t * h_(t-1) + b_t for t = 0..length-1, with h_(-1) = `initial` (zero when None).

    a, b      (batch, length, dim), the same shape; any strides; float32, bfloat16, float16 or float64.
    initial   (batch, dim).
    returns   h, (batch, length, dim), in the dtype a and b promote to; with `return_final` also h_(length-1), (batch, dim), in
              the dtype of the state: float32, or float64 when an input is float64. Both carry gradients to a, b and initial.

    The state is kept in float32 whatever the inputs. Keep the gate `a` in float32 too: a bfloat16 gate costs 7.6e-3 relative at
    length 8192, a bfloat16 drive `b` only 1.4e-4. Second derivatives exist for the reference backend only.

    backend   reference, cpu, triton, or auto: triton on a GPU, cpu on a CPU, reference where neither can run.
    Errors: ValueError for shapes that do not fit, UserError for a backend that cannot run here.
    """
    _check_shapes(a, b, initial)
    chosen = _automatic(a, b) if backend == "auto" else _usable(backend, a, b)
    if chosen == "reference" or a.numel() == 0:
        h, final = reference_scan(a, b, initial)
    else:
        h, final = scan_operator(a, b, initial, chosen)
    return (h, final) if return_final else h


def _check_shapes(a: Tensor, b: Tensor, initial: Tensor | None) -> None:
    if a.dim() != 3 or a.shape != b.shape:
        raise ValueError(f"linear_scan: a and b must have one shape (batch, length, dim); found {tuple(a.shape)} and {tuple(b.shape)}.")
    if initial is not None and initial.shape != (a.shape[0], a.shape[2]):
        raise ValueError(f"linear_scan: initial must be (batch, dim) = {(a.shape[0], a.shape[2])}; found {tuple(initial.shape)}.")
    if not (a.is_floating_point() and b.is_floating_point()):
        raise ValueError(f"linear_scan: a and b must be real floating point; found {a.dtype} and {b.dtype}.")


def _usable(backend: str, a: Tensor, b: Tensor) -> str:
    if backend not in BACKENDS:
        raise unknown_name("linear_scan backend", backend, BACKENDS)
    if reason := why_unusable(backend, a, b):
        raise UserError(f"linear_scan: backend {backend!r} cannot run: {reason}. Use backend 'auto' or 'reference'.")
    return backend


def _automatic(a: Tensor, b: Tensor) -> str:
    fast = "cpu" if a.device.type in ("cpu", "meta") else "triton"
    if reason := why_unusable(fast, a, b):
        warnings.warn(f"linear_scan falls back to the slow reference loop: {reason}.", stacklevel=3)
        return "reference"
    return fast


__all__ = ["BACKENDS", "linear_scan"]
