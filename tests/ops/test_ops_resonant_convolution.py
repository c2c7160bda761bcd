"""resonant_convolution: every form against the direct O(L^2) sum in float64, decoding, the carried state, causality."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from overtone.errors import UserError
from overtone.ops import kernel_energy, resonant_convolution, resonant_modes, resonant_step
from overtone.ops.resonant_convolution import kernel

FORMS = ("fft", "chunked")


def oscillators(heads, dtype=torch.float64, longest=2048.0):
    """Half-lives log-spaced from 2 to `longest`, frequencies log-spaced, some phase: as a model starts."""
    half_lives = torch.logspace(math.log10(2), math.log10(longest), heads, dtype=torch.float64)
    omega = torch.logspace(-3, math.log10(3), heads, dtype=torch.float64)
    return (math.log(2) / half_lives).to(dtype), omega.to(dtype), torch.linspace(-1, 2, heads, dtype=torch.float64).to(dtype)


def inputs(batch, length, heads, channels, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    u = torch.randn(batch, length, heads, channels, generator=generator, dtype=torch.float64).to(dtype)
    parts = torch.randn(2, batch, heads, channels, generator=generator, dtype=torch.float64).to(dtype)
    return u, torch.complex(parts[0], parts[1])


def recurrence(u, alpha, omega, phi, state):
    """The definition again, written here, in complex128."""
    decay = torch.exp(torch.complex(-alpha.double(), omega.double()))[:, None]
    turn = torch.exp(1j * phi.double())[:, None]
    out = []
    for u_t in u.double().unbind(1):
        state = decay * state + u_t
        out.append((turn * state).real)
    return torch.stack(out, 1), state


def relative(found, exact):
    return ((found - exact).norm() / exact.norm()).item()


def test_the_direct_sum_is_the_recurrence():
    u, initial = inputs(2, 50, 3, 4)
    given_oscillators = oscillators(3)
    y, final = resonant_convolution(u, *given_oscillators, initial=initial, backend="direct", return_final=True)
    expected, expected_final = recurrence(u, *given_oscillators, initial)
    torch.testing.assert_close(y, expected)
    torch.testing.assert_close(final, expected_final)


@pytest.mark.parametrize("backend", FORMS)
@given(batch=st.integers(1, 2), length=st.integers(1, 200), heads=st.integers(1, 3), channels=st.integers(1, 3), carried=st.booleans(),
       seed=st.integers(0, 99))
@settings(max_examples=20, deadline=None)
def test_any_shape_matches_the_direct_sum(backend, batch, length, heads, channels, carried, seed):
    u, initial = inputs(batch, length, heads, channels, seed=seed)
    options = {"initial": initial if carried else None, "return_final": True}
    for found, exact in zip(resonant_convolution(u, *oscillators(heads), backend=backend, **options),
                            resonant_convolution(u, *oscillators(heads), backend="direct", **options), strict=True):
        torch.testing.assert_close(found, exact, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("backend", FORMS)
@pytest.mark.parametrize("length", [1, 63, 64, 65, 130, 64 * 32, 64 * 32 + 1, 64 * 70 + 5])
def test_gradients_match_the_direct_sum_across_chunk_borders(backend, length):
    heads = 2
    u, initial = inputs(1, length, heads, 2)
    results = []
    for form in (backend, "direct" if length < 500 else "fft" if backend == "chunked" else "chunked"):
        leaves = [x.clone().requires_grad_() for x in (u, *oscillators(heads), initial)]
        y, final = resonant_convolution(*leaves[:4], initial=leaves[4], backend=form, return_final=True)
        results.append((y, final, *torch.autograd.grad(y.sin().sum() + final.abs().sum(), leaves)))
    for found, exact in zip(*results, strict=True):
        assert relative(found, exact) < 1e-10


@pytest.mark.parametrize("backend", ["direct", *FORMS])
def test_gradcheck_in_float64(backend):
    u, initial = inputs(1, 6, 2, 2)
    leaves = [x.requires_grad_() for x in (u, *oscillators(2), initial)]

    def both(u, alpha, omega, phi, initial):
        return resonant_convolution(u, alpha, omega, phi, initial=initial, backend=backend, return_final=True)

    assert torch.autograd.gradcheck(both, leaves)


def test_gradcheck_through_the_state_scan_of_many_chunks(monkeypatch):
    from overtone.ops.resonant_convolution import chunked

    monkeypatch.setattr(chunked, "CHUNK", 2)
    monkeypatch.setattr(chunked, "_GROUP", 2)
    u, initial = inputs(1, 13, 2, 1)
    leaves = [x.requires_grad_() for x in (u, *oscillators(2), initial)]

    def both(u, alpha, omega, phi, initial):
        return resonant_convolution(u, alpha, omega, phi, initial=initial, backend="chunked", return_final=True)

    assert torch.autograd.gradcheck(both, leaves)
    exact = resonant_convolution(u, *leaves[1:4], initial=initial, backend="direct")
    torch.testing.assert_close(resonant_convolution(u, *leaves[1:4], initial=initial, backend="chunked"), exact)


@pytest.mark.parametrize("backend", FORMS)
def test_float32_error_at_64k_against_the_float64_sum(backend):
    """Measured: at most 2.8e-7 (fft) and 2.1e-7 (chunked) relative a head.

    The direct sum is taken at every 257th position: all of it would be 65,536^2.
    """
    length, heads = 65_536, 4
    u, _ = inputs(1, length, heads, 2, torch.float32)
    alpha, omega, phi = oscillators(heads)
    y = resonant_convolution(u, alpha, omega, phi, backend=backend)
    k = kernel(alpha, omega, phi, length).flip(1)
    at = torch.arange(0, length, 257)
    sums = [torch.einsum("hs,bshd->bhd", k[:, length - 1 - t :], u[:, : t + 1].double()) for t in at.tolist()]
    exact = torch.stack(sums, 1)
    for head in range(heads):
        assert relative(y[:, at, head].double(), exact[:, :, head]) < 1e-6
    assert (y[:, at].double() - exact).abs().max() / exact.abs().max() < 1e-6


def test_decoding_100k_steps_stays_with_float64():
    """Measured: at most 9.4e-7 relative a head."""
    steps, heads = 100_000, 6
    alpha, omega, phi = oscillators(heads)
    u = torch.randn(1, steps, heads, 1, generator=torch.Generator().manual_seed(0))
    state = torch.zeros(1, heads, 1, dtype=torch.complex64)
    exact, _ = resonant_convolution(u.double(), alpha, omega, phi, backend="chunked", return_final=True)
    out, modes = [], resonant_modes(alpha, omega, phi)
    with torch.inference_mode():
        for t in range(steps):
            y, state = resonant_step(u[:, t], state, alpha, omega, phi, modes=modes)
            if t % 1000 == 999 or t > steps - 50:
                out.append((t, y))
    at, found = [t for t, _ in out], torch.stack([y for _, y in out], 1)
    for head in range(heads):
        assert relative(found[:, :, head].double(), exact[:, at, head]) < 5e-6


@pytest.mark.parametrize("backend", ["direct", *FORMS])
@pytest.mark.parametrize("prompt", [1, 64, 100])
def test_decoding_goes_on_from_any_prompt(backend, prompt):
    u, _ = inputs(2, 130, 3, 4, torch.float32)
    given_oscillators = oscillators(3, torch.float32)
    whole = resonant_convolution(u, *given_oscillators, backend="direct")
    y, state = resonant_convolution(u[:, :prompt], *given_oscillators, backend=backend, return_final=True)
    out = [y]
    for t in range(prompt, 130):
        same = resonant_step(u[:, t], state, *given_oscillators, modes=resonant_modes(*given_oscillators))
        y_t, state = resonant_step(u[:, t], state, *given_oscillators)
        assert torch.equal(same[0], y_t)
        assert torch.equal(same[1], state)
        assert (y_t.dtype, state.dtype) == (torch.float32, torch.complex64)
        out.append(y_t[:, None])
    assert relative(torch.cat(out, 1), whole) < 1e-6


@pytest.mark.parametrize("backend", FORMS)
@given(cuts=st.lists(st.integers(1, 199), max_size=3, unique=True))
@settings(max_examples=15, deadline=None)
def test_state_handed_over_at_any_cut(backend, cuts):
    u, initial = inputs(1, 200, 2, 3)
    whole, whole_final = resonant_convolution(u, *oscillators(2), initial=initial, backend=backend, return_final=True)
    state, pieces = initial, []
    for start, stop in itertools.pairwise((0, *sorted(cuts), 200)):
        y, state = resonant_convolution(u[:, start:stop], *oscillators(2), initial=state, backend=backend, return_final=True)
        pieces.append(y)
    torch.testing.assert_close(torch.cat(pieces, 1), whole, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(state, whole_final, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("t", [1, 64, 100, 2500])
def test_chunked_is_causal_to_the_bit(t):
    u, _ = inputs(1, 3000, 2, 2, torch.float32)
    loud = u.clone()
    loud[:, t:] *= 100
    before = resonant_convolution(u, *oscillators(2), backend="chunked")[:, :t]
    assert torch.equal(resonant_convolution(loud, *oscillators(2), backend="chunked")[:, :t], before)
    leaf = u.requires_grad_()
    y = resonant_convolution(leaf, *oscillators(2), backend="chunked")
    (grad,) = torch.autograd.grad(y[:, t - 1].sum(), leaf)
    assert not grad[:, t:].any()
    assert grad[:, t - 1].any()


def test_fft_is_causal_up_to_rounding_of_the_loudest_input():
    u, _ = inputs(1, 2048, 2, 2, torch.float32)
    loud = u.clone()
    loud[:, 1000:] *= 100
    quiet, disturbed = (resonant_convolution(x, *oscillators(2), backend="fft")[:, :1000] for x in (u, loud))
    assert 0 < (quiet - disturbed).abs().max() < 1e-2  # rounding: 1e-7 of an output of a few thousand
    exact = [resonant_convolution(x.double(), *oscillators(2), backend="fft")[:, :1000] for x in (u, loud)]
    torch.testing.assert_close(exact[0], exact[1], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("backend", FORMS)
def test_float32_whatever_the_autocast_and_the_input_dtype_comes_back(backend):
    u, _ = inputs(1, 300, 2, 4, torch.float32)
    u = u.bfloat16()
    plain = resonant_convolution(u.float(), *oscillators(2), backend=backend)
    with torch.autocast("cpu", torch.bfloat16):
        inside = resonant_convolution(u.float(), *oscillators(2), backend=backend)
        rounded, state = resonant_convolution(u, *oscillators(2), backend=backend, return_final=True)
    assert torch.equal(inside, plain)
    assert torch.equal(rounded, plain.bfloat16())
    assert state.dtype == torch.complex64


@pytest.mark.parametrize("backend", FORMS)
def test_non_contiguous_input(backend):
    u, _ = inputs(2, 100, 3, 4)
    turned = u.permute(2, 3, 0, 1).contiguous().permute(2, 3, 0, 1)
    torch.testing.assert_close(resonant_convolution(turned, *oscillators(3), backend=backend),
                               resonant_convolution(u, *oscillators(3), backend="direct"))


@given(half_life=st.floats(0.5, 3000), omega=st.floats(0, math.pi), phi=st.floats(-math.pi, math.pi))
@settings(max_examples=60, deadline=None)
def test_kernel_energy_is_the_sum_of_squares(half_life, omega, phi):
    alpha = torch.tensor([math.log(2) / half_life], dtype=torch.float64)
    omega, phi = (torch.tensor([x], dtype=torch.float64) for x in (omega, phi))
    summed = kernel(alpha, omega, phi, int(60 * half_life) + 10).square().sum(1)
    assert torch.allclose(kernel_energy(alpha, omega, phi), summed, rtol=1e-9, atol=1e-10 * half_life)


def test_kernel_energy_is_the_variance_of_filtered_noise_and_differentiable():
    alpha, omega, phi = oscillators(3, longest=32.0)
    u = torch.randn(1, 200_000, 3, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    variance = resonant_convolution(u, alpha, omega, phi)[:, 1000:].var(dim=(0, 1, 3))
    torch.testing.assert_close(variance, kernel_energy(alpha, omega, phi), rtol=0.05, atol=0)
    assert torch.autograd.gradcheck(kernel_energy, [x.requires_grad_() for x in oscillators(3)])


def test_automatic_choice_and_meta_tensors():
    u, _ = inputs(1, 100, 2, 2, torch.float32)
    assert torch.equal(resonant_convolution(u, *oscillators(2)), resonant_convolution(u, *oscillators(2), backend="chunked"))
    on_meta = [x.to("meta") for x in (u, *oscillators(2))]
    assert resonant_convolution(*on_meta, return_final=True)[1].shape == (1, 2, 2)


def test_mistakes_are_told_in_one_line():
    u, initial = inputs(1, 5, 2, 3)
    with pytest.raises(UserError, match=r"'chunk' is not known\. Did you mean 'chunked'"):
        resonant_convolution(u, *oscillators(2), backend="chunk")
    with pytest.raises(ValueError, match=r"alpha, omega and phi must be \(heads,\) = \(2,\)"):
        resonant_convolution(u, *oscillators(3))
    with pytest.raises(ValueError, match="u must be real"):
        resonant_convolution(u[0], *oscillators(2))
    with pytest.raises(ValueError, match="initial must be complex"):
        resonant_convolution(u, *oscillators(2), initial=initial.real)
