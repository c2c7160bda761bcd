"""The resonant mixer alone, by length: the time to the last output position(s), with the FLOPs and bytes of each method.

y_t = sum over s <= t of k[t - s] u_s, u (batch, L, H, Dh), float32. Each method starts from u and the oscillators' parameters:
tail        the last `tail` outputs alone, as one sum over the past each: O(L)
state       one more token on the carried state: O(1), what decoding costs
quadratic   every output from the lower Toeplitz matrix: O(L^2), the causal reference. The matrix is built and used in blocks
            of rows (blocks x columns up to the diagonal), never whole: at 64K it would take 17 GB a head
fft         every output by FFT: O(L log L), the paper's training form
chunked     every output by chunked products: O(L C)

`quadratic`, `fft` and `chunked` return all L outputs, `tail` and `state` only the last: a ratio between them compares different amounts of
work, which is why FLOPs and bytes stand beside the time. FLOPs count multiplications, additions and one for an exp or a cos.
Bytes are what a method must move when only its current block stays in cache. `error` is the largest difference of the last
outputs from the float64 sum, relative to the largest of them.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor

from overtone.benchmarks.clock import CLOCK, sample, summary
from overtone.benchmarks.settings import add_settings, device_name, resolve_settings, setting
from overtone.errors import UserError
from overtone.files import write_json
from overtone.ops import resonant_convolution, resonant_step
from overtone.ops.resonant_convolution import kernel
from overtone.ops.resonant_convolution.chunked import CHUNK
from overtone.provenance import environment

METHODS = ("tail", "state", "quadratic", "fft", "chunked")
LEAST = 3  # samples a row: fewer have no spread
_KERNEL_FLOPS = 6  # a sample of the kernel: exp, cos, three products, one sum


@dataclass(frozen=True)
class Settings:
    """What is measured."""

    lengths: tuple[int, ...] = setting((1024, 2048, 4096, 8192, 16384, 32768, 65536), "tokens", least=2)
    heads: int = setting(2, "oscillators")
    channels: int = setting(32, "channels a head")
    batch: int = setting(1, "sequences")
    tail: int = setting(1, "last output positions")
    block: int = setting(128, "rows of the quadratic reference held at once")
    repetitions: int = setting(9, "samples a row")
    limit_s: float = setting(1.5, "seconds a row may take, three samples at the least")
    device: str = setting("cpu", "cpu or cuda")
    threads: int = setting(1, "CPU threads")
    seed: int = setting(0, "of the input")


@dataclass(frozen=True)
class Problem:
    """One length: the input, the oscillators, the state before the last token."""

    u: Tensor  # (B, L, H, Dh)
    alpha: Tensor
    omega: Tensor
    phi: Tensor
    state: Tensor  # (B, H, Dh) complex


def draw(settings: Settings, length: int) -> Problem:
    """White input; half-lives log-spaced from 2 to 2048 tokens, frequencies log-spaced from pi/1024 to pi/2."""
    device = torch.device(settings.device)
    generator = torch.Generator().manual_seed(settings.seed)
    heads = settings.heads
    u = torch.randn(settings.batch, length, heads, settings.channels, generator=generator).to(device)
    alpha = (math.log(2) / torch.logspace(1, 11, heads, base=2.0, dtype=torch.float64)).float().to(device)
    omega = (math.pi * torch.logspace(-10, -1, heads, base=2.0, dtype=torch.float64)).float().to(device)
    phi = torch.linspace(0, 1, heads).to(device)
    _, state = resonant_convolution(u[:, :-1], alpha, omega, phi, return_final=True)
    return Problem(u, alpha, omega, phi, state)


def tail_outputs(problem: Problem, count: int) -> Tensor:
    """The last `count` outputs (B, count, H, Dh), each one sum over the past."""
    length = problem.u.shape[1]
    k = kernel(problem.alpha, problem.omega, problem.phi, length).to(problem.u.dtype).flip(1)  # (H, L), the newest lag last
    ends = [torch.einsum("hs,bshd->bhd", k[:, count - 1 - row :], problem.u[:, : length - count + 1 + row]) for row in range(count)]
    return torch.stack(ends, 1)


def quadratic_outputs(problem: Problem, block: int) -> Tensor:
    """Every output (B, L, H, Dh) from the Toeplitz matrix, `block` of its rows at a time, columns up to the diagonal."""
    batch, length, heads, channels = problem.u.shape
    k = kernel(problem.alpha, problem.omega, problem.phi, length).to(problem.u.dtype)
    # Row r of a Toeplitz block reads the reversed kernel from one place earlier than row r - 1: as a view with steps (1, 1) the rows come
    # out last first. The zeros stand above the diagonal.
    reversed_kernel = torch.cat([k.flip(1), k.new_zeros(heads, block)], 1)  # (H, L + block)
    columns = problem.u.permute(2, 1, 0, 3).reshape(heads, length, batch * channels).contiguous()
    out = torch.empty_like(columns)
    for start in range(0, length, block):
        rows = min(block, length - start)
        end = start + rows
        toeplitz = reversed_kernel[:, length - end :].as_strided((heads, rows, end), (reversed_kernel.stride(0), 1, 1))
        out[:, start:end] = torch.bmm(toeplitz.contiguous(), columns[:, :end]).flip(1)
    return out.view(heads, length, batch, channels).permute(2, 1, 0, 3)


def methods(problem: Problem, settings: Settings) -> dict[str, Callable[[], Tensor]]:
    """Name -> a call that returns outputs whose last `tail` positions (one for `state`) are the mixer's."""
    def whole(backend: str) -> Callable[[], Tensor]:
        return lambda: cast(Tensor, resonant_convolution(problem.u, problem.alpha, problem.omega, problem.phi, backend=backend))

    return {
        "tail": lambda: tail_outputs(problem, settings.tail),
        "state": lambda: resonant_step(problem.u[:, -1], problem.state.clone(), problem.alpha, problem.omega, problem.phi)[0][:, None],
        "quadratic": lambda: quadratic_outputs(problem, settings.block),
        "fft": whole("fft"),
        "chunked": whole("chunked"),
    }


def work(method: str, length: int, settings: Settings) -> tuple[float, float]:
    """(FLOPs, bytes) of one call: counts of the sums above, float32."""
    lanes = settings.batch * settings.heads * settings.channels  # independent sequences
    samples = _KERNEL_FLOPS * length * settings.heads
    kernel_bytes, signal, width = 4.0 * length * settings.heads, 4.0 * length * lanes, 4
    if method == "tail":
        return samples + 2.0 * settings.tail * length * lanes, kernel_bytes + settings.tail * (signal + width * lanes)
    if method == "state":  # complex product 6, sum 1, real part of a product 3; state read and written, u read, y written
        return 10.0 * lanes, (2 * 8 + 2 * width) * lanes
    if method == "quadratic":
        edges = [(start, min(start + settings.block, length)) for start in range(0, length, settings.block)]
        entries = float(sum((end - start) * end for start, end in edges))  # of the matrix, blocks cut at the diagonal's end
        reread = float(sum(end for _, end in edges))
        return samples + 2 * lanes * entries, 2 * width * settings.heads * entries + width * lanes * reread + signal
    if method == "fft":
        size = 1 << (2 * length - 2).bit_length()
        transforms = (2 * lanes + settings.heads) * 2.5 * size * math.log2(size)  # a real FFT: half of 5 n log2 n
        spectra = 4.0 * (size + 2) * lanes  # complex64, size / 2 + 1 bins
        return samples + transforms + 3.0 * (size + 2) * lanes, 2 * signal + 4 * spectra + 4.0 * (size + 2) * settings.heads
    # chunked: a C x C product a chunk, the state out of it and into the next (real times complex, twice); the scan between chunks, a
    # few percent of that, is left out
    chunk = min(CHUNK, length)
    return _KERNEL_FLOPS * chunk * settings.heads + lanes * length * (2.0 * chunk + 8), 3 * signal + 4 * 8.0 * lanes * length / chunk


def measure(settings: Settings) -> dict[str, Any]:
    """The content of benchmarks/kernel_tail.json."""
    torch.set_num_threads(settings.threads)
    device = torch.device(settings.device)
    rows = []
    with torch.inference_mode():
        for length in settings.lengths:
            problem = draw(settings, length)
            exact = tail_outputs(Problem(problem.u.double(), problem.alpha, problem.omega, problem.phi, problem.state), settings.tail)
            for name, call in methods(problem, settings).items():
                outputs: list[Tensor] = []
                seconds = sample(partial(_keep, call, outputs), device, settings.repetitions, settings.limit_s, LEAST)
                last = outputs[0][:, -settings.tail :].double()
                error = float((last - exact[:, -last.shape[1] :]).abs().max() / exact.abs().max())
                flops, moved = work(name, length, settings)
                rows.append({"method": name, "length": length, "ms": summary([1e3 * value for value in seconds]), "flops": flops,
                             "bytes": moved, "outputs": settings.tail if name == "tail" else 1 if name == "state" else length,
                             "error": error})
    protocol = asdict(settings) | {"clock": CLOCK, "warm_up": 1, "quadratic": f"row blocks of {settings.block}, never the whole matrix"}
    return {"rows": rows, "protocol": protocol, "environment": environment(device_name(settings.device), settings.threads)}


def _keep(call: Callable[[], Tensor], outputs: list[Tensor]) -> None:
    outputs[:] = [call()]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """One flag a setting."""
    add_settings(parser, Settings)


def run(args: argparse.Namespace) -> int:
    """Measure and write."""
    settings, _ = resolve_settings(args, "kernel_tail", Settings)
    if settings.tail > min(settings.lengths):
        raise UserError(f"benchmarks.kernel_tail.tail: found {settings.tail}, expected at most the shortest of lengths, "
                        f"{min(settings.lengths)}.")
    write_json(args.out, measure(settings))
    return 0
