"""linear_scan on a real GPU: the Triton kernels against float64, both ways of filling the card."""

import pytest
import torch

from overtone.ops import linear_scan

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]


def everything(backend, a, b, initial, weights, final_weights):
    leaves = [x.detach().clone().requires_grad_() for x in (a, b, initial)]
    h, final = linear_scan(*leaves, backend=backend, return_final=True)
    return h.detach(), final.detach(), *torch.autograd.grad((h * weights).sum() + (final * final_weights).sum(), leaves)


def inputs(batch, length, dim, dtype=torch.float32):
    generator = torch.Generator(device="cuda").manual_seed(0)
    a = 1 - 0.1 * torch.rand(batch, length, dim, generator=generator, device="cuda")
    b, weights = (torch.randn(batch, length, dim, generator=generator, device="cuda") for _ in range(2))
    initial, final_weights = (torch.randn(batch, dim, generator=generator, device="cuda") for _ in range(2))
    return a.to(dtype), b.to(dtype), initial, weights.to(dtype).float(), final_weights


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 77, 33), (2, 1024, 256), (64, 512, 1024), (1, 65_536, 40)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_matches_float64(shape, dtype):
    given = inputs(*shape, dtype)
    exact = everything("cpu", *(x.double().cpu() for x in given))
    bound = 1e-5 if dtype == torch.float32 else 1e-2
    for found, expected in zip(everything("auto", *given), exact, strict=True):
        assert ((found.double().cpu() - expected).norm() / expected.norm()).item() < bound


def test_same_bits_every_time():
    given = inputs(1, 5000, 96)
    first, second = everything("triton", *given), everything("triton", *given)
    assert all(torch.equal(x, y) for x, y in zip(first, second, strict=True))


def test_causal_to_the_bit():
    a, b, initial, _, _ = inputs(1, 4096, 64)
    changed = b.clone()
    changed[:, 2000:] = 1e30
    before = linear_scan(a, b, initial, backend="triton")[:, :2000]
    assert torch.equal(linear_scan(a, changed, initial, backend="triton")[:, :2000], before)


def test_more_than_31_bits_of_elements():
    length = 2**31 // 1024 + 5
    if torch.cuda.mem_get_info()[0] < 30 << 30:
        pytest.skip("needs 30 GB of GPU memory")
    a = torch.full((1, 1, 1), 0.5, device="cuda").expand(1, length, 1024)
    b = torch.ones(1, 1, 1, device="cuda").expand(1, length, 1024)
    assert torch.equal(linear_scan(a, b, backend="triton")[0, -1], torch.full((1024,), 2.0, device="cuda"))


def test_compiles_without_a_graph_break():
    a, b, initial, weights, _ = inputs(2, 300, 64)

    def layer(a, b, h):
        return (linear_scan(a.sigmoid(), b, h) * weights).sum()

    leaves = [x.clone().requires_grad_() for x in (a, b, initial)]
    grads = [torch.autograd.grad(f(*leaves), leaves) for f in (torch.compile(layer, fullgraph=True), layer)]
    for found, expected in zip(*grads, strict=True):
        torch.testing.assert_close(found, expected)
