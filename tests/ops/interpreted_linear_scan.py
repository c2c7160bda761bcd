"""The Triton kernels in Triton's CPU interpreter. Run by test_ops_linear_scan_triton.py, in a process with TRITON_INTERPRET=1.

The interpreter is slow (about a millisecond a row), so shapes are tiny; chunks are made of 8 rows to have several.
"""

import itertools

import pytest
import torch

from overtone.ops import linear_scan
from overtone.ops.linear_scan import triton as kernels

SEQUENTIAL, PARALLEL = 0, 10**6  # warps the pretended card needs to be full


@pytest.fixture(params=[SEQUENTIAL, PARALLEL], ids=["sequential", "parallel"], autouse=True)
def card(request, monkeypatch):
    monkeypatch.setattr(kernels, "MIN_CHUNK", 8)
    monkeypatch.setattr(kernels, "_warps_to_fill", lambda device: request.param)
    return request.param


def inputs(batch, length, dim, dtype=torch.float32, low=0.8):
    generator = torch.Generator().manual_seed(batch + 10 * length + 1000 * dim)
    a = low + (1 - low) * torch.rand(batch, length, dim, generator=generator)
    b, weights = (torch.randn(batch, length, dim, generator=generator) for _ in range(2))
    initial, final_weights = (torch.randn(batch, dim, generator=generator) for _ in range(2))
    return a.to(dtype), b.to(dtype), initial, weights.to(dtype).float(), final_weights


def everything(backend, a, b, initial, weights, final_weights):
    """h, final and all gradients."""
    leaves = [x.detach().clone().requires_grad_() for x in (a, b, initial) if x is not None]
    h, final = linear_scan(*leaves, backend=backend, return_final=True)
    return h.detach(), final.detach(), *torch.autograd.grad((h * weights).sum() + (final * final_weights).sum(), leaves)


def compare(*arguments, rtol=1e-5, atol=1e-5):
    for found, expected in zip(everything("triton", *arguments), everything("reference", *arguments), strict=True):
        assert found.dtype == expected.dtype
        torch.testing.assert_close(found, expected, rtol=rtol, atol=atol)


@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 1, 3), (1, 7, 5), (1, 16, 32), (2, 19, 3), (1, 40, 33)], ids=str)
def test_forward_and_backward_match_the_definition(shape):
    compare(*inputs(*shape))


def test_parallel_really_cuts_time(card):
    chunks, rows = kernels.chunking(1, 40, 3, card)
    assert (chunks, rows) == ((1, 40) if card == SEQUENTIAL else (5, 8))


def test_without_an_initial_state():
    a, b, _, weights, final_weights = inputs(2, 19, 3)
    compare(a, b, None, weights, final_weights)


def test_gradient_of_h_alone_and_of_the_final_state_alone():
    a, b, initial, weights, final_weights = inputs(1, 20, 3)
    compare(a, b, initial, weights, torch.zeros_like(final_weights))
    leaves = [x.clone().requires_grad_() for x in (a, b, initial)]
    grads = []
    for backend in ("triton", "reference"):
        _, final = linear_scan(*leaves, backend=backend, return_final=True)
        grads.append(torch.autograd.grad(final.sum(), leaves))
    for found, expected in zip(*grads, strict=True):
        torch.testing.assert_close(found, expected)


def test_bfloat16_inputs_keep_a_float32_state():
    a, b, initial, weights, final_weights = inputs(1, 40, 3, torch.bfloat16, low=0.95)
    found = everything("triton", a, b, initial, weights, final_weights)
    exact = everything("reference", a.double(), b.double(), initial.double(), weights.double(), final_weights.double())
    assert [x.dtype for x in found] == [torch.bfloat16, torch.float32, torch.bfloat16, torch.bfloat16, torch.float32]
    torch.testing.assert_close(found[1].double(), exact[1], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(found[4].double(), exact[4], rtol=1e-5, atol=1e-5)
    for x, y in zip(found, exact, strict=True):  # stored in bfloat16 once; da multiplies a stored h
        torch.testing.assert_close(x.double(), y, rtol=2e-2, atol=2e-2 * y.abs().max().item())


def test_gates_of_exactly_zero_and_one():
    a, b, initial, weights, final_weights = inputs(1, 20, 3)
    compare(torch.zeros_like(a), b, initial, weights, final_weights)
    compare(torch.ones_like(a), b, initial, weights, final_weights)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_overflowing_gate_products_leave_a_zero_state_zero():
    a = torch.full((1, 24, 3), 1e20)
    b = torch.zeros_like(a)
    assert torch.equal(linear_scan(a, b, backend="triton"), b)
    assert torch.equal(linear_scan(a, b, torch.zeros(1, 3), backend="triton"), b)


def test_denormals_survive():
    b = torch.zeros(1, 20, 3)
    b[:, 0] = 2.0**-140
    assert torch.equal(linear_scan(torch.ones_like(b), b, backend="triton"), torch.full_like(b, 2.0**-140))


def test_strided_and_expanded_inputs():
    a, b, initial, _, _ = inputs(2, 20, 3)
    expected = linear_scan(a, b, initial, backend="reference")
    wide = torch.cat([a, b], dim=2)
    torch.testing.assert_close(linear_scan(wide[..., :3], wide[..., 3:], initial, backend="triton"), expected)
    turned = a.transpose(1, 2).contiguous().transpose(1, 2)
    torch.testing.assert_close(linear_scan(turned, b, initial, backend="triton"), expected)
    gate = a[:1, :1].clone().requires_grad_()
    h = linear_scan(gate.expand(a.shape), b, initial, backend="triton")
    torch.testing.assert_close(h, linear_scan(gate.expand(a.shape), b, initial, backend="reference"))
    h.sum().backward()
    (expected_grad,) = torch.autograd.grad(linear_scan(gate.expand(a.shape), b, initial, backend="reference").sum(), gate)
    torch.testing.assert_close(gate.grad, expected_grad, rtol=1e-4, atol=1e-4)


def test_state_handed_over_at_a_cut():
    a, b, state, _, _ = inputs(1, 24, 3)
    whole, whole_final = linear_scan(a, b, state, backend="triton", return_final=True)
    pieces = []
    for start, stop in itertools.pairwise((0, 1, 17, 24)):
        h, state = linear_scan(a[:, start:stop], b[:, start:stop], state, backend="triton", return_final=True)
        pieces.append(h)
    torch.testing.assert_close(torch.cat(pieces, 1), whole)
    torch.testing.assert_close(state, whole_final)


def test_causal_to_the_bit():
    a, b, initial, _, _ = inputs(1, 24, 3)
    before = linear_scan(a, b, initial, backend="triton")
    for t in (8, 13):
        changed = b.clone()
        changed[:, t:] = 1e30
        assert torch.equal(linear_scan(a, changed, initial, backend="triton")[:, :t], before[:, :t])
        leaf = b.clone().requires_grad_()
        (grad,) = torch.autograd.grad(linear_scan(a, leaf, initial, backend="triton")[:, t].sum(), leaf)
        assert not grad[:, t + 1 :].any()
        assert grad[:, : t + 1].all()
