"""Mamba's selective scan: the compiled kernel and the chunked form against the recurrence written out in float64."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from overtone.errors import UserError
from overtone.models.selective_scan import selective_scan

Inputs = list[Tensor]


def inputs(batch: int, length: int, channels: int, numbers: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> Inputs:
    g = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=g, dtype=torch.float64)

    delta = torch.nn.functional.softplus(2 * normal(batch, length, channels) - 2)
    values = [normal(batch, length, channels), delta, -torch.exp(normal(channels, numbers)), normal(batch, length, numbers),
              normal(batch, length, numbers), normal(batch, channels, numbers)]
    return [value.to(dtype).requires_grad_() for value in values]


def written_out(u: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
    outputs = []
    for t in range(u.shape[1]):
        h = torch.exp(delta[:, t, :, None] * a) * h + (delta[:, t] * u[:, t])[:, :, None] * b[:, t, None, :]
        outputs.append((h * c[:, t, None, :]).sum(-1))
    return torch.stack(outputs, dim=1), h


def results(scan: object, values: Inputs) -> list[torch.Tensor]:
    y, last = scan(*values)  # type: ignore[operator]
    gradients = torch.autograd.grad(y.sin().sum() + last.cos().sum(), values)
    return [y.detach(), last.detach(), *gradients]


@pytest.mark.parametrize("backend", ["cpu", "chunked"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 5e-6)])
@settings(max_examples=8, deadline=None, derandomize=True, database=None)
@given(length=st.sampled_from([1, 2, 15, 16, 17, 33, 128, 131]),
       sizes=st.tuples(st.integers(1, 3), st.integers(1, 9), st.integers(1, 5)))
def test_values_and_gradients(backend: str, dtype: torch.dtype, tolerance: float, length: int, sizes: tuple[int, int, int]) -> None:
    batch, channels, numbers = sizes
    values = inputs(batch, length, channels, numbers, dtype)
    exact = results(written_out, [value.detach().double().requires_grad_() for value in values])
    found = results(lambda *v: selective_scan(*v, backend=backend), values)
    for theirs, ours in zip(exact, found, strict=True):
        assert ours.dtype == dtype
        assert (ours.double() - theirs).abs().max() <= tolerance * theirs.abs().max().clamp_min(1e-3)


def test_the_kernels_exponential_is_float32s() -> None:
    exponents = -torch.cat([torch.zeros(1), torch.logspace(-30, 1.93, 4000)])  # down to exp(-85)
    one = torch.ones(1, 1, 1)
    found = torch.stack([selective_scan(0 * one, -x * one, -torch.ones(1, 1), 0 * one, one, one, backend="cpu")[0].squeeze()
                         for x in exponents])
    exact = torch.exp(exponents.double())
    assert ((found.double() - exact).abs() / exact).max() < 3e-7


@pytest.mark.parametrize("backend", ["cpu", "chunked"])
def test_extreme_steps_decay_to_nothing_and_stay_finite(backend: str) -> None:
    u, delta, a, b, c, h = (value.detach() for value in inputs(1, 20, 3, 2, torch.float32))
    for step in (0.0, 1e-30, 1e3, 1e30):
        y, last = selective_scan(torch.zeros_like(u), torch.full_like(delta, step), -torch.ones_like(a), b, c, h, backend=backend)
        assert y.isfinite().all()
        torch.testing.assert_close(last, h if step < 1 else torch.zeros_like(h))


@pytest.mark.parametrize("backend", ["cpu", "chunked"])
def test_not_a_number_is_not_swallowed(backend: str) -> None:
    values = [value.detach() for value in inputs(1, 20, 3, 2, torch.float32)]
    values[0][0, 5, 1] = float("nan")
    y, last = selective_scan(*values, backend=backend)
    assert y[0, 5:, 1].isnan().all()
    assert y[0, :5].isfinite().all()
    assert last[0, 1].isnan().all()


@pytest.mark.parametrize("backend", ["cpu", "chunked"])
def test_autocast_does_not_round_the_states(backend: str) -> None:
    values = inputs(2, 131, 6, 4, torch.float32)
    exact = results(written_out, [value.detach().double().requires_grad_() for value in values])

    def in_autocast(*given: Tensor) -> tuple[Tensor, Tensor]:  # the forward pass alone, as training has it
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return selective_scan(*given, backend=backend)

    found = results(in_autocast, values)
    for theirs, ours in zip(exact, found, strict=True):
        assert ours.dtype == torch.float32
        assert (ours.double() - theirs).abs().max() <= 5e-6 * theirs.abs().max()


def test_strided_inputs_are_read_right() -> None:
    values = inputs(2, 20, 4, 3)
    turned = [value.detach().transpose(0, -1).contiguous().transpose(0, -1).requires_grad_() for value in values]
    for straight, strided in zip(results(selective_scan, values), results(selective_scan, turned), strict=True):
        torch.testing.assert_close(straight, strided)


def test_memory_of_the_chunked_form_does_not_hold_all_states() -> None:
    values = inputs(1, 2048, 8, 16, torch.float32)
    held: list[int] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: held.append(tensor.nbytes) or tensor, lambda tensor: tensor):
        selective_scan(*values, backend="chunked")
    assert sum(held) < 2048 * 8 * 16 * 4  # less than one (B, L, D, N) tensor


def test_unknown_backend() -> None:
    with pytest.raises(UserError, match="Did you mean 'chunked'"):
        selective_scan(*inputs(1, 2, 2, 2), backend="chunk")
