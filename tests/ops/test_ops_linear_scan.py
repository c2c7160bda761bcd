"""linear_scan on the CPU: both backends against float64, at the extremes, cut in pieces, and through the gradient."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from overtone.errors import UserError
from overtone.ops import linear_scan

BACKENDS = ("reference", "cpu")


def inputs(batch, length, dim, dtype=torch.float32, seed=0, low=0.0):
    generator = torch.Generator().manual_seed(seed)
    a = low + (1 - low) * torch.rand(batch, length, dim, generator=generator, dtype=torch.float64)
    b = torch.randn(batch, length, dim, generator=generator, dtype=torch.float64)
    initial = torch.randn(batch, dim, generator=generator, dtype=torch.float64)
    return a.to(dtype), b.to(dtype), initial.to(dtype)


def loop(a, b, initial=None):
    """The definition again, written here, in float64."""
    h = np.zeros((a.shape[0], a.shape[2])) if initial is None else initial.double().numpy()
    gates, drives, out = a.double().numpy(), b.double().numpy(), np.zeros(a.shape)
    for t in range(a.shape[1]):
        h = gates[:, t] * h + drives[:, t]
        out[:, t] = h
    return torch.from_numpy(out), torch.from_numpy(h)


def gradients(a, b, initial, weights, final_weights, backend):
    leaves = [x.detach().clone().requires_grad_() for x in (a, b, initial)]
    h, final = linear_scan(*leaves, backend=backend, return_final=True)
    return torch.autograd.grad((h * weights).sum() + (final * final_weights).sum(), leaves)


@pytest.mark.parametrize("backend", BACKENDS)
@given(batch=st.integers(0, 3), length=st.integers(0, 70), dim=st.integers(0, 40), seed=st.integers(0, 99), carried=st.booleans())
@settings(max_examples=25, deadline=None)
def test_any_shape_matches_float64(backend, batch, length, dim, seed, carried):
    a, b, initial = inputs(batch, length, dim, seed=seed)
    initial = initial if carried else None
    h, final = linear_scan(a, b, initial, backend=backend, return_final=True)
    expected, expected_final = loop(a, b, initial)
    assert h.dtype == final.dtype == torch.float32
    torch.testing.assert_close(h.double(), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(final.double(), expected_final, rtol=1e-5, atol=1e-5)


@given(batch=st.integers(0, 3), length=st.integers(1, 50), dim=st.integers(1, 20), seed=st.integers(0, 99))
@settings(max_examples=25, deadline=None)
def test_gradients_of_any_shape_match_the_reference(batch, length, dim, seed):
    a, b, initial = inputs(batch, length, dim, torch.float64, seed)
    weights, final_weights = torch.randn_like(b), torch.randn_like(initial)
    found = gradients(a, b, initial, weights, final_weights, "cpu")
    for x, y in zip(found, gradients(a, b, initial, weights, final_weights, "reference"), strict=True):
        torch.testing.assert_close(x, y)


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradcheck_in_float64(backend):
    leaves = [x.requires_grad_() for x in inputs(2, 7, 3, torch.float64)]
    assert torch.autograd.gradcheck(lambda a, b, h: linear_scan(a, b, h, backend=backend, return_final=True), leaves)
    assert torch.autograd.gradcheck(lambda a, b: linear_scan(a, b, backend=backend), leaves[:2])


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradient_of_the_final_state_alone(backend):
    a, b, initial = (x.requires_grad_() for x in inputs(2, 5, 3, torch.float64))
    _, final = linear_scan(a, b, initial, backend=backend, return_final=True)
    da, db, dinitial = torch.autograd.grad(final.sum(), (a, b, initial))
    torch.testing.assert_close(dinitial, a.prod(1))
    torch.testing.assert_close(db[:, -1], torch.ones(2, 3, dtype=torch.float64))
    torch.testing.assert_close(da[:, -1], linear_scan(a, b, initial)[:, -2])


@pytest.mark.parametrize("backend", BACKENDS)
def test_gates_of_exactly_zero_and_one(backend):
    _, b, initial = inputs(2, 40, 5)
    assert torch.equal(linear_scan(torch.zeros_like(b), b, initial, backend=backend), b)
    h = linear_scan(torch.ones_like(b), b, initial, backend=backend)
    torch.testing.assert_close(h.double(), initial.double()[:, None] + b.double().cumsum(1), rtol=1e-5, atol=1e-5)
    grads = gradients(torch.zeros_like(b), b, initial, torch.ones_like(b), torch.zeros_like(initial), backend)
    torch.testing.assert_close(grads[0][:, 0], initial)
    assert torch.equal(grads[1], torch.ones_like(b))
    assert torch.equal(grads[2], torch.zeros_like(initial))


def test_gates_near_one_over_65536_steps():
    length = 65_536
    generator = torch.Generator().manual_seed(1)
    a = 1 - 1e-4 * torch.rand(1, length, 8, generator=generator)
    b, initial = torch.randn(1, length, 8, generator=generator), torch.randn(1, 8, generator=generator)
    weights = torch.randn(1, length, 8, generator=generator)
    exact = linear_scan(a.double(), b.double(), initial.double(), backend="cpu")
    found = linear_scan(a, b, initial, backend="cpu")
    assert ((found - exact).norm() / exact.norm()).item() < 1e-5
    zero = torch.zeros_like(initial)
    exact_grads = gradients(a.double(), b.double(), initial.double(), weights.double(), zero.double(), "cpu")
    for x, y in zip(gradients(a, b, initial, weights, zero, "cpu"), exact_grads, strict=True):
        assert ((x - y).norm() / y.norm()).item() < 1e-5


def test_long_scan_equals_the_written_loop():
    a, b, initial = inputs(1, 65_536, 2, torch.float64, low=0.999)
    torch.testing.assert_close(linear_scan(a, b, initial, backend="cpu"), loop(a, b, initial)[0])


@pytest.mark.parametrize("backend", BACKENDS)
def test_denormals_survive(backend):
    tiny = 2.0**-140  # below the smallest normal float32, 2^-126
    b = torch.zeros(1, 9, 16)
    b[:, 0] = tiny
    h = linear_scan(torch.ones_like(b), b, backend=backend)
    assert torch.equal(h, torch.full_like(b, tiny))
    halves = linear_scan(torch.full_like(b, 0.5), b, backend=backend)
    assert torch.equal(halves[0, :, 0], torch.tensor([2.0 ** (-140 - t) for t in range(9)]))


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_sign_of_zero_survives(backend):
    minus = torch.full((1, 3, 16), -0.0)
    h = linear_scan(torch.ones_like(minus), minus, torch.full((1, 16), -0.0), backend=backend)
    assert torch.signbit(h).all()
    # +0 enters: +0 + -0 = +0
    assert not torch.signbit(linear_scan(torch.ones_like(minus), minus, backend=backend)).any()


@pytest.mark.parametrize("backend", BACKENDS)
def test_infinity_and_nan_pass_through_but_not_backwards_in_time(backend):
    a, b, _ = inputs(1, 6, 20)
    b[0, 3, 7] = torch.inf
    b[0, 3, 8] = torch.nan
    h = linear_scan(a, b, backend=backend)
    assert torch.isinf(h[0, 3:, 7]).all()
    assert torch.isnan(h[0, 3:, 8]).all()
    assert torch.isfinite(h[0, :3]).all()
    assert torch.isfinite(h[0, :, 9:]).all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_length_one_and_empty(backend):
    a, b, initial = inputs(2, 1, 3)
    h, final = linear_scan(a, b, initial, backend=backend, return_final=True)
    torch.testing.assert_close(h[:, 0], a[:, 0] * initial + b[:, 0])
    assert torch.equal(final, h[:, 0])
    for batch, length, dim in ((0, 5, 3), (2, 0, 3), (2, 5, 0)):
        a, b, initial = (x.requires_grad_() for x in inputs(batch, length, dim))
        h, final = linear_scan(a, b, initial, backend=backend, return_final=True)
        assert h.shape == (batch, length, dim)
        if length == 0:
            assert torch.equal(final, initial)
        (h.sum() + final.sum()).backward()
        assert initial.grad.shape == (batch, dim)


def strided_forms(x):
    """The same values in other memory: transposed, a slice of wider rows, every second step, columns with a gap."""
    dim = x.shape[2]
    yield x.transpose(1, 2).contiguous().transpose(1, 2)
    yield torch.cat([x, x + 1], dim=2)[:, :, :dim]
    yield x.repeat_interleave(2, dim=1)[:, ::2]
    yield x.repeat_interleave(2, dim=2)[:, :, ::2]
    yield x.transpose(0, 1).contiguous().transpose(0, 1)


@pytest.mark.parametrize("backend", BACKENDS)
def test_inputs_of_any_stride(backend):
    a, b, initial = inputs(3, 17, 24)
    weights = inputs(3, 17, 24, seed=5)[1]
    expected = linear_scan(a, b, initial, backend=backend)
    only_h = gradients(a, b, initial, weights, torch.zeros_like(initial), backend)[0]
    for x, y in itertools.product(strided_forms(a), strided_forms(b)):
        assert torch.equal(linear_scan(x, y, initial, backend=backend), expected)
    for x, w in zip(strided_forms(a), strided_forms(weights), strict=True):
        leaf = x.detach().requires_grad_()
        (da,) = torch.autograd.grad(linear_scan(leaf, b, initial, backend=backend), leaf, w)
        torch.testing.assert_close(da, only_h)


@pytest.mark.parametrize("backend", BACKENDS)
def test_expanded_inputs(backend):
    a, b, _ = inputs(3, 17, 24)
    for shape in ((1, 1, 1), (3, 1, 1), (1, 17, 1), (1, 1, 24)):
        gate = a[: shape[0], : shape[1], : shape[2]].clone().requires_grad_()
        h = linear_scan(gate.expand(a.shape), b, backend=backend)
        torch.testing.assert_close(h.double(), loop(gate.detach().expand(a.shape), b)[0], rtol=1e-5, atol=1e-5)
        h.sum().backward()  # the incoming gradient is expanded too
        full = gate.detach().expand(a.shape).contiguous()
        expected = gradients(full, b, torch.zeros(3, 24), torch.ones_like(b), torch.zeros(3, 24), "reference")[0]
        torch.testing.assert_close(gate.grad, expected.sum_to_size(shape), rtol=1e-4, atol=1e-4)


def test_offsets_beyond_31_bits():
    """Batch entries 2^31 elements apart: a 32-bit offset would read and write elsewhere. Pages never touched cost nothing."""
    apart = 2**31 + 16
    try:
        memory = torch.empty(apart + 64)
    except RuntimeError:
        pytest.skip("8.6 GB of address space cannot be had here")
    a = memory.as_strided((2, 4, 8), (apart, 8, 1))
    values, b, initial = inputs(2, 4, 8)
    a.copy_(values)
    assert torch.equal(linear_scan(a, b, initial, backend="cpu"), linear_scan(values, b, initial, backend="cpu"))
    weights = torch.ones_like(b)
    leaf = a.detach().requires_grad_()
    (grad,) = torch.autograd.grad(linear_scan(leaf, b, initial, backend="cpu"), leaf, weights)
    torch.testing.assert_close(grad, gradients(values, b, initial, weights, torch.zeros_like(initial), "reference")[0])


@pytest.mark.skip(reason="allocates 26 GB: the output alone has more than 2^31 elements; run it by hand")
def test_more_than_31_bits_of_elements():
    length = 2**31 // 64 + 2
    a = torch.full((1, 1, 1), 0.5).expand(1, length, 64)
    h = linear_scan(a, torch.ones(1, 1, 1).expand(1, length, 64), backend="cpu")
    assert torch.equal(h[0, -1], torch.full((64,), 2.0))


@pytest.mark.parametrize("backend", BACKENDS)
def test_bfloat16_inputs_keep_a_float32_state(backend):
    length = 8192
    a = torch.full((1, length, 4), 0.99, dtype=torch.bfloat16)
    b = torch.randn(1, length, 4, generator=torch.Generator().manual_seed(0)).bfloat16()
    h, final = linear_scan(a, b, backend=backend, return_final=True)
    exact, exact_final = loop(a, b)
    assert (h.dtype, final.dtype) == (torch.bfloat16, torch.float32)
    torch.testing.assert_close(final.double(), exact_final, rtol=1e-5, atol=1e-4)  # a bfloat16 state is off by 3.6e-2
    assert ((h - exact).abs() <= 2**-8 * exact.abs() + 1e-4).all()  # half a unit of rounding: each output once


@pytest.mark.parametrize("backend", BACKENDS)
def test_mixed_dtypes_promote_and_gradients_keep_theirs(backend):
    a, b, initial = inputs(2, 9, 4)
    leaves = a.requires_grad_(), b.bfloat16().requires_grad_(), initial.half().requires_grad_()
    h, final = linear_scan(*leaves, backend=backend, return_final=True)
    assert (h.dtype, final.dtype) == (torch.float32, torch.float32)
    (h.sum() + final.sum()).backward()
    assert [x.grad.dtype for x in leaves] == [torch.float32, torch.bfloat16, torch.float16]
    double = linear_scan(a.detach().double(), b.bfloat16(), backend=backend, return_final=True)
    assert (double[0].dtype, double[1].dtype) == (torch.float64, torch.float64)


@pytest.mark.parametrize("backend", BACKENDS)
@given(cuts=st.lists(st.integers(1, 59), max_size=4, unique=True), seed=st.integers(0, 99))
@settings(max_examples=15, deadline=None)
def test_state_handed_over_at_any_cut_changes_nothing(backend, cuts, seed):
    a, b, state = inputs(2, 60, 18, seed=seed)
    whole, whole_final = linear_scan(a, b, state, backend=backend, return_final=True)
    pieces = []
    for start, stop in itertools.pairwise((0, *sorted(cuts), 60)):
        h, state = linear_scan(a[:, start:stop], b[:, start:stop], state, backend=backend, return_final=True)
        pieces.append(h)
    assert torch.equal(torch.cat(pieces, 1), whole)
    assert torch.equal(state, whole_final)


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradient_flows_through_a_handed_over_state(backend):
    a, b, initial = inputs(2, 20, 3, torch.float64)
    weights = torch.randn_like(b)
    leaves = [x.clone().requires_grad_() for x in (a, b, initial)]
    first, state = linear_scan(leaves[0][:, :8], leaves[1][:, :8], leaves[2], backend=backend, return_final=True)
    second = linear_scan(leaves[0][:, 8:], leaves[1][:, 8:], state, backend=backend)
    cut = torch.autograd.grad((torch.cat([first, second], 1) * weights).sum(), leaves)
    for x, y in zip(cut, gradients(a, b, initial, weights, torch.zeros_like(initial), backend), strict=True):
        torch.testing.assert_close(x, y)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("t", [0, 1, 15, 29])
def test_causal_to_the_bit_and_through_the_gradient(backend, t):
    a, b, initial = inputs(2, 30, 17)
    changed_a, changed_b = a.clone(), b.clone()
    changed_a[:, t:], changed_b[:, t:] = 0.123, 1e30
    before = linear_scan(a, b, initial, backend=backend)[:, :t]
    assert torch.equal(linear_scan(changed_a, changed_b, initial, backend=backend)[:, :t], before)
    leaves = a.requires_grad_(), b.requires_grad_()
    da, db = torch.autograd.grad(linear_scan(*leaves, initial, backend=backend)[:, t].sum(), leaves)
    assert not da[:, t + 1 :].any()
    assert not db[:, t + 1 :].any()
    assert db[:, t].eq(1).all()


def test_threads_never_change_a_bit():
    before = torch.get_num_threads()
    try:
        for shape in ((1, 300, 256), (3, 200, 130), (4, 100, 256), (5, 400, 40)):
            a, b, initial = inputs(*shape)
            results = []
            for threads in (1, 2, 3):
                torch.set_num_threads(threads)
                h = linear_scan(a, b, initial, backend="cpu")
                results.append((h, *gradients(a, b, initial, b, initial, "cpu")))
            for other in results[1:]:
                assert all(torch.equal(x, y) for x, y in zip(results[0], other, strict=True))
    finally:
        torch.set_num_threads(before)


def test_inputs_are_left_alone():
    originals = inputs(2, 12, 6)
    copies = [x.clone() for x in originals]
    gradients(*originals, originals[1], originals[2], "cpu")
    linear_scan(*originals, backend="cpu")
    assert all(torch.equal(x, y) for x, y in zip(originals, copies, strict=True))


def test_the_operator_meets_the_dispatcher_contract():
    a, b, initial = (x.requires_grad_() for x in inputs(2, 5, 3))
    checks = ("test_schema", "test_autograd_registration", "test_faketensor")
    torch.library.opcheck(torch.ops.overtone.linear_scan, (a, b, initial, "cpu"), test_utils=checks)


def test_compiles_without_a_graph_break():
    a, b, initial = inputs(2, 9, 4)

    def layer(a, b, initial):
        h, final = linear_scan(a.sigmoid(), b * 2, initial, return_final=True)
        return h.sin().sum() + final.sum()

    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    grads = []
    for function in (compiled, layer):
        leaves = [x.clone().requires_grad_() for x in (a, b, initial)]
        grads.append(torch.autograd.grad(function(*leaves), leaves))
    for x, y in zip(*grads, strict=True):
        torch.testing.assert_close(x, y)


def test_meta_tensors_have_shapes():
    a = torch.empty(2, 9, 4, device="meta", dtype=torch.bfloat16)
    h, final = linear_scan(a, a, return_final=True)
    assert (h.shape, h.dtype, h.device.type) == ((2, 9, 4), torch.bfloat16, "meta")
    assert (final.shape, final.dtype) == ((2, 4), torch.float32)


def test_mistakes_are_told_in_one_line(monkeypatch):
    a, b, initial = inputs(2, 9, 4)
    with pytest.raises(ValueError, match=r"one shape .* found \(2, 9, 4\) and \(2, 8, 4\)"):
        linear_scan(a, b[:, 1:])
    with pytest.raises(ValueError, match=r"initial must be \(batch, dim\) = \(2, 4\); found \(4, 2\)"):
        linear_scan(a, b, initial.T)
    with pytest.raises(ValueError, match="floating point"):
        linear_scan(a, b.long())
    with pytest.raises(UserError, match="'numba' is not known"):
        linear_scan(a, b, backend="numba")
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(UserError, match=r"'triton' cannot run: (it needs a GPU|triton is not installed)"):
        linear_scan(a, b, backend="triton")
