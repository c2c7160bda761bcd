"""Forward + backward of the resonant convolution (FFT, chunked) and of the LM head (whole logits, linear_cross_entropy) on a CPU.

Processor time of one thread, the least of several calls taken in turn: other work on the machine disturbs it little.
`OMP_NUM_THREADS=1 python benchmarks/operators.py`
"""

import argparse
import math
import time
from collections.abc import Callable

import torch

from overtone.ops import linear_cross_entropy, resonant_convolution
from overtone.provenance import cpu_name

LENGTHS = (1024, 8192, 32_768)
HEADS = ((4096, 128, 256), (4096, 128, 2048), (2048, 128, 8192), (1024, 128, 50_257), (512, 256, 4096), (64, 128, 2048))


def least_ms(calls: dict[str, Callable[[], object]], repetitions: int) -> dict[str, float]:
    """Milliseconds of processor time, the least of `repetitions` rounds after one to warm up."""
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repetitions + 1):
        for name, call in calls.items():
            start = time.process_time()
            call()
            samples[name].append(1e3 * (time.process_time() - start))
    return {name: min(values[1:]) for name, values in samples.items()}


def convolution(length: int, backend: str) -> Callable[[], object]:
    """(2, length, 8, 32): half-lives log-spaced from 2 to 2048."""
    generator = torch.Generator().manual_seed(0)
    u, incoming = (torch.randn(2, length, 8, 32, generator=generator) for _ in range(2))
    alpha, omega = math.log(2) / torch.logspace(1, 11, 8, base=2.0), torch.logspace(-3, 0, 8)
    leaves = [x.requires_grad_() for x in (u, alpha, omega, torch.zeros(8))]
    return lambda: torch.autograd.grad(resonant_convolution(*leaves, backend=backend), leaves, incoming)


def lm_head(tokens: int, width: int, vocabulary: int, whole: bool) -> Callable[[], object]:
    """The mean loss and its gradients for features and weight."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(tokens, width, generator=generator).requires_grad_()
    w = (0.1 * torch.randn(vocabulary, width, generator=generator)).requires_grad_()
    targets = torch.randint(vocabulary, (tokens,), generator=generator)
    if whole:
        return lambda: torch.autograd.grad(torch.nn.functional.cross_entropy(x @ w.T, targets), (x, w))
    return lambda: torch.autograd.grad(linear_cross_entropy(x, w, targets), (x, w))


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=5)
    repetitions = parser.parse_args().repetitions
    torch.set_num_threads(1)
    print(f"{cpu_name()}, torch {torch.__version__}; ms of processor time")
    for length in LENGTHS:
        row = least_ms({backend: convolution(length, backend) for backend in ("fft", "chunked")}, repetitions)
        print(f"resonant convolution, L = {length}: fft {row['fft']:.1f}, chunked {row['chunked']:.1f}")
    for shape in HEADS:
        row = least_ms({"whole": lm_head(*shape, whole=True), "chunks": lm_head(*shape, whole=False)}, repetitions)
        print(f"LM head, tokens, d, vocabulary = {shape}: whole {row['whole']:.1f}, linear_cross_entropy {row['chunks']:.1f}")


if __name__ == "__main__":
    main()
