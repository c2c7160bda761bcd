"""linear_cross_entropy equals torch's, gradients too, and never holds all the logits."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import cross_entropy
from torch.utils._python_dispatch import TorchDispatchMode

from overtone.ops import linear_cross_entropy

REDUCTIONS = ("mean", "sum", "none")


def inputs(tokens, width, vocabulary, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(tokens, width, generator=generator, dtype=torch.float64).to(dtype)
    weight = torch.randn(vocabulary, width, generator=generator, dtype=torch.float64).to(dtype)
    return features, weight, torch.randint(vocabulary, (tokens,), generator=generator)


def loss_and_gradients(function, features, weight, targets, reduction, **options):
    leaves = [features.detach().clone().requires_grad_(), weight.detach().clone().requires_grad_()]
    loss = function(*leaves, targets, reduction=reduction, **options)
    incoming = torch.linspace(0.5, 2, loss.numel(), dtype=loss.dtype).view(loss.shape)
    return loss.detach(), *torch.autograd.grad(loss, leaves, incoming)


def plain(features, weight, targets, reduction):
    return cross_entropy(features @ weight.T, targets, reduction=reduction)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@given(tokens=st.integers(1, 30), width=st.integers(1, 8), vocabulary=st.integers(1, 40), chunk=st.sampled_from([None, 1, 4, 7, 100]),
       seed=st.integers(0, 99))
@settings(max_examples=25, deadline=None)
def test_equals_torch_for_any_shape(reduction, tokens, width, vocabulary, chunk, seed):
    given_inputs = inputs(tokens, width, vocabulary, seed=seed)
    found = loss_and_gradients(linear_cross_entropy, *given_inputs, reduction, chunk_tokens=chunk)
    for x, y in zip(found, loss_and_gradients(plain, *given_inputs, reduction), strict=True):
        torch.testing.assert_close(x, y)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_float32_equals_float64(reduction):
    features, weight, targets = inputs(1000, 32, 3000, torch.float32)
    exact = loss_and_gradients(plain, features.double(), weight.double(), targets, reduction)
    found = loss_and_gradients(linear_cross_entropy, features, weight, targets, reduction)
    for x, y in zip(found, exact, strict=True):
        assert x.dtype == torch.float32
        assert ((x - y).norm() / y.norm()).item() < 2e-6


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("chunk", [None, 3])
def test_gradcheck(reduction, chunk):
    features, weight, targets = inputs(7, 3, 5)
    leaves = features.requires_grad_(), weight.requires_grad_()
    assert torch.autograd.gradcheck(
        lambda x, w: linear_cross_entropy(x, w, targets, reduction=reduction, chunk_tokens=chunk), leaves)


@pytest.mark.parametrize("frozen", [0, 1])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_a_frozen_input_gets_no_gradient(frozen, reduction):
    features, weight, targets = inputs(9, 3, 5)
    gradients = []
    for function, options in ((linear_cross_entropy, {"chunk_tokens": 4}), (plain, {})):
        leaves = [features.clone(), weight.clone()]
        leaves[1 - frozen].requires_grad_()
        function(*leaves, targets, reduction=reduction, **options).sum().backward()
        assert leaves[frozen].grad is None
        gradients.append(leaves[1 - frozen].grad)
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("chunk", [None, 16])
def test_autocast_is_torchs_autocast(reduction, chunk):
    """Products in bfloat16, softmax in float32, gradients in the dtype of the leaves: as torch does it, to bfloat16's rounding."""
    given_inputs = inputs(64, 32, 200, torch.float32)
    exact = loss_and_gradients(plain, *given_inputs, reduction)
    with torch.autocast("cpu", torch.bfloat16):
        found = loss_and_gradients(linear_cross_entropy, *given_inputs, reduction, chunk_tokens=chunk)
        theirs = loss_and_gradients(plain, *given_inputs, reduction)
    for x, y, z in zip(found, theirs, exact, strict=True):
        assert x.dtype == torch.float32
        assert (x - z).norm() <= 1.2 * (y - z).norm()


def test_bfloat16_weights_gather_their_gradient_in_float32():
    """One token a chunk, 2,000 chunks: a bfloat16 sum would stop growing at 256 of its own steps."""
    features, weight = torch.ones(2000, 4, dtype=torch.bfloat16), torch.zeros(2, 4, dtype=torch.bfloat16)
    leaf = weight.requires_grad_()
    linear_cross_entropy(features, leaf, torch.zeros(2000, dtype=torch.long), reduction="sum", chunk_tokens=1).backward()
    assert leaf.grad.dtype == torch.bfloat16
    torch.testing.assert_close(leaf.grad.float(), torch.tensor([[-1000.0] * 4, [1000.0] * 4]))


class LargestTensor(TorchDispatchMode):
    """Remembers the most elements any operation returned."""

    largest = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        if isinstance(out, torch.Tensor):
            self.largest = max(self.largest, out.numel())
        return out


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_the_logits_are_never_held_whole(reduction):
    features, weight, targets = inputs(2048, 4, 4096, torch.float32)
    leaves = features.requires_grad_(), weight.requires_grad_()
    with LargestTensor() as seen:
        loss = linear_cross_entropy(*leaves, targets, reduction=reduction)
        loss.sum().backward()
    assert seen.largest <= 2048 * 4096 / 16
    with LargestTensor() as seen:
        plain(*leaves, targets, reduction)
    assert seen.largest == 2048 * 4096


def test_evaluation_computes_no_gradients():
    features, weight, targets = inputs(40, 4, 300, torch.float32)
    features.requires_grad_()
    weight.requires_grad_()
    counts = []
    for enabled in (True, False):
        with torch.set_grad_enabled(enabled), torch.profiler.profile() as profile:
            linear_cross_entropy(features, weight, targets, chunk_tokens=40)
        counts.append(sum(event.count for event in profile.key_averages() if event.key in ("aten::mm", "aten::addmm_")))
    assert counts == [3, 1]


def test_every_token_counts():
    """-100 is no target here, though torch would skip it."""
    features, weight, _ = inputs(4, 3, 5)
    for chunk in (None, 2):
        with pytest.raises((IndexError, RuntimeError)):
            linear_cross_entropy(features, weight, torch.tensor([0, -100, 1, 2]), chunk_tokens=chunk)
        with pytest.raises((IndexError, RuntimeError)):
            linear_cross_entropy(features, weight, torch.tensor([0, 5, 1, 2]), chunk_tokens=chunk)


def test_large_logits_do_not_overflow():
    features, weight = torch.full((3, 1), 1e4), torch.tensor([[1.0], [0.0], [-1.0]])
    loss = linear_cross_entropy(features, weight, torch.tensor([0, 1, 2]), reduction="none", chunk_tokens=2)
    torch.testing.assert_close(loss, torch.tensor([0.0, 1e4, 2e4]))


def test_mistakes_are_told_in_one_line():
    features, weight, targets = inputs(4, 3, 5)
    with pytest.raises(ValueError, match="reduction must be mean, sum or none; found 'total'"):
        linear_cross_entropy(features, weight, targets, reduction="total")
    with pytest.raises(ValueError, match=r"found \(4, 3\), \(3, 5\), \(4,\)"):
        linear_cross_entropy(features, weight.T, targets)
