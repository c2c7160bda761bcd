"""Causal convolution with one damped oscillator a head, as in ResonatorLM: y_h = k_h * u_h.

k_h[t] = exp(-alpha_h t) cos(omega_h t + phi_h). `direct` is the definition, `fft` the paper's parallel form. The kernel is one
complex mode, so the same function is a recurrence with a complex state: `chunked` hands it over between matrix products,
`resonant_step` decodes with it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from overtone.errors import unknown_name
from overtone.ops.precision import without_autocast
from overtone.ops.resonant_convolution.chunked import chunked_convolution
from overtone.ops.resonant_convolution.direct import direct_convolution
from overtone.ops.resonant_convolution.fft import fft_convolution
from overtone.ops.resonant_convolution.oscillator import kernel, kernel_energy
from overtone.ops.resonant_convolution.step import resonant_modes, resonant_step

_FORMS = {"direct": direct_convolution, "fft": fft_convolution, "chunked": chunked_convolution}
BACKENDS = ("auto", *_FORMS)


def resonant_convolution(
    u: Tensor, alpha: Tensor, omega: Tensor, phi: Tensor, *,
    initial: Tensor | None = None, backend: str = "auto", return_final: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """y_t = Re(exp(i phi) s_t) with s_t = lambda s_(t-1) + u_t, lambda = exp(-alpha + i omega), s_(-1) = `initial` or 0.

    u         (B, L, H, Dh) real: H heads of Dh channels. Computed in float32 whatever the autocast (float64 for float64).
    alpha     (H,) decay a token, > 0; omega (H,) radians a token; phi (H,) radians.
    initial   (B, H, Dh) complex: the state after the token before u_0.
    returns   y (B, L, H, Dh) in the dtype of u; with `return_final` also s_(L-1), (B, H, Dh) complex64 (complex128 for
              float64). All inputs get gradients.

    backend   direct: O(L^2) sum in float64, the oracle. fft: O(L log L); causal only up to rounding relative to the loudest
              input of the window. chunked: O(L), causal to the last bit. auto: chunked on a CPU, where it is faster at every
              length measured; fft on other devices, where nothing was measured and TF32 products would coarsen the chunks.
    Errors: ValueError for shapes that do not fit, UserError for an unknown backend.
    """
    if backend not in BACKENDS:
        raise unknown_name("resonant_convolution backend", backend, BACKENDS)
    _check_shapes(u, alpha, omega, phi, initial)
    if backend == "auto":
        backend = "chunked" if u.device.type in ("cpu", "meta") else "fft"
    with without_autocast(u.device.type):
        y, final = _FORMS[backend](u, alpha, omega, phi, initial, return_final)
    if final is None:
        return y
    return y, final.to(torch.complex128 if u.dtype == torch.float64 else torch.complex64)


def _check_shapes(u: Tensor, alpha: Tensor, omega: Tensor, phi: Tensor, initial: Tensor | None) -> None:
    if u.dim() != 4 or u.shape[1] == 0 or u.is_complex():
        raise ValueError("resonant_convolution: u must be real (batch, length >= 1, heads, channels); "
                         f"found {tuple(u.shape)}, {u.dtype}.")
    heads, state = (u.shape[2],), (u.shape[0], *u.shape[2:])
    if not alpha.shape == omega.shape == phi.shape == heads:
        raise ValueError(f"resonant_convolution: alpha, omega and phi must be (heads,) = {heads}; found "
                         f"{tuple(alpha.shape)}, {tuple(omega.shape)}, {tuple(phi.shape)}.")
    if initial is not None and (initial.shape != state or not initial.is_complex()):
        raise ValueError(f"resonant_convolution: initial must be complex (batch, heads, channels) = {state}; "
                         f"found {tuple(initial.shape)}, {initial.dtype}.")


__all__ = ["BACKENDS", "kernel", "kernel_energy", "resonant_convolution", "resonant_modes", "resonant_step"]
