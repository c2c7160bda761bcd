"""The linear scan against its floor: the passes over memory it cannot avoid, at the copy bandwidth measured beside it.

A pass reads or writes one (batch, length, dim) tensor. Forward: read a, b, write h: 3. Backward: read a, h, dh, write da, db: 5. The
floor of the 8 is the time of four copies (a copy is two passes) of a tensor of that size, one after the other, as long a stretch as
what it is compared with, timed in turn with the scan in the same process; the minimum of each is kept. `CPU` is the same ratio
in processor time of the process: what the ratio would be if
nobody else used the machine's cores. Each row of a CPU runs in a process of its own, because threads and allocator belong to a process:
default  glibc as it comes: blocks above 32 MB are made of fresh pages every time
kept     freed memory stays in the process (overtone.ops.allocator.keep_freed_memory)
On a GPU the peers that can be imported run beside ours, each in the memory layout it prefers: accelerated-scan, whose lengths
are powers of two up to 65,536, and flash-linear-attention's chunk_hgrn, which gets the logarithm of the gate.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from multiprocessing import get_context
from typing import Any

import torch
from torch import Tensor

from overtone.benchmarks.clock import CLOCK, elapsed
from overtone.benchmarks.plain_table import aligned
from overtone.benchmarks.settings import add_settings, device_name, resolve_settings, setting
from overtone.errors import UserError
from overtone.files import write_json
from overtone.ops import linear_scan
from overtone.ops.allocator import keep_freed_memory
from overtone.provenance import environment

FORWARD_PASSES, TRAINING_PASSES = 3, 8
MEMORY = ("default", "kept")
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
PEERS = {"accelerated_scan": "accelerated-scan", "fla": "flash-linear-attention"}


@dataclass(frozen=True)
class Settings:
    """What is measured."""

    shapes: tuple[str, ...] = setting(("4x8192x256",), "batch x length x dim")
    dtypes: tuple[str, ...] = setting(("float32",), "float32 or bfloat16, of inputs and outputs")
    threads: tuple[int, ...] = setting((1, 2), "CPU threads")
    memory: tuple[str, ...] = setting(MEMORY, "CPU allocator: default, kept")
    repetitions: int = setting(15, "samples a row, of which the least counts")
    device: str = setting("cpu", "cpu or cuda")
    seed: int = setting(0, "of the inputs")


Shape = tuple[int, int, int]
Call = Callable[[], object]


def parse_shape(text: str) -> Shape:
    """`4x8192x256` as (4, 8192, 256)."""
    parts = text.split("x")
    if len(parts) != 3 or not all(part.isdigit() and int(part) > 0 for part in parts):
        raise UserError(f"shapes: found {text!r}, expected BATCHxLENGTHxDIM, for example 4x8192x256.")
    batch, length, dim = map(int, parts)
    return batch, length, dim


def _draw(shape: Shape, dtype: torch.dtype, device: torch.device, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Gates in (0, 1), white drives, white incoming gradients."""
    generator = torch.Generator().manual_seed(seed)
    a = torch.rand(shape, generator=generator)
    b, incoming = (torch.randn(shape, generator=generator) for _ in range(2))
    return a.to(device, dtype), b.to(device, dtype), incoming.to(device, dtype)


def _calls(function: Callable[[Tensor, Tensor], Tensor], a: Tensor, b: Tensor, incoming: Tensor) -> tuple[Call, Call]:
    """(forward without gradients, forward and backward) of one method."""
    leaves = a.requires_grad_(), b.requires_grad_()

    def forward() -> None:
        with torch.no_grad():
            function(*leaves)

    def training() -> None:
        torch.autograd.grad(function(*leaves), leaves, incoming)

    return forward, training


def _ours(a: Tensor, b: Tensor) -> Tensor:
    h = linear_scan(a, b)
    assert isinstance(h, Tensor)
    return h


def methods(shape: Shape, dtype: torch.dtype, device: torch.device, seed: int) -> dict[str, tuple[Call, Call]]:
    """Our scan and, on a GPU, the peers that are installed and take this shape."""
    a, b, incoming = _draw(shape, dtype, device, seed)
    found = {"linear_scan": _calls(_ours, a, b, incoming)}
    if device.type != "cuda":
        return found
    if find_spec("fla"):
        from fla.ops.hgrn import chunk_hgrn

        log_gate = a.detach().float().clamp_min(1e-6).log().to(dtype)
        found[PEERS["fla"]] = _calls(lambda g, x: chunk_hgrn(x, g)[0], log_gate, b.detach().clone(), incoming)
    length = shape[1]
    if find_spec("accelerated_scan") and length & (length - 1) == 0 and 32 <= length <= 65_536:
        from accelerated_scan.warp import scan

        turned = (x.detach().transpose(1, 2).contiguous() for x in (a, b, incoming))
        found[PEERS["accelerated_scan"]] = _calls(scan, *turned)
    return found


def measure_rows(
    shape: Shape, dtype: str, kind: str, threads: int, memory: str, repetitions: int, seed: int
) -> list[dict[str, Any]]:
    """One row a method, in this process: copy, forward and forward + backward in turn, the least time of each."""
    if kind == "cpu":
        torch.set_num_threads(threads)
        if memory == "kept" and not keep_freed_memory():
            raise UserError("memory: 'kept' needs glibc's allocator. Measure 'default' alone here: --memory default.")
    device = torch.device(kind)
    source, target = (torch.zeros(shape, dtype=DTYPES[dtype], device=device) for _ in range(2))

    def copies() -> None:
        for _ in range(TRAINING_PASSES // 2):
            target.copy_(source)

    rows = []
    for name, (forward, training) in methods(shape, DTYPES[dtype], device, seed).items():
        calls: dict[str, Call] = {"floor": copies, "forward": forward, "training": training}
        for call in (*calls.values(), training, training):  # compiled, tuned, and the heap settled
            elapsed(call, device)
        wall: dict[str, list[float]] = {key: [] for key in calls}
        cpu: dict[str, list[float]] = {key: [] for key in calls}
        for _ in range(repetitions):
            for key, call in calls.items():
                before = time.process_time()
                wall[key].append(1e3 * elapsed(call, device))
                cpu[key].append(1e3 * (time.process_time() - before))
        row: dict[str, Any] = {"method": name, "shape": list(shape), "dtype": dtype, "device": kind,
                               "copy_gb_s": TRAINING_PASSES * source.nbytes / min(wall["floor"]) / 1e6, "samples_ms": wall}
        if kind == "cpu":
            row |= {"threads": threads, "memory": memory, "samples_cpu_ms": cpu}
        for key, passes in (("forward", FORWARD_PASSES), ("training", TRAINING_PASSES)):
            share = passes / TRAINING_PASSES
            floor = share * min(wall["floor"])
            row[key] = {"ms": min(wall[key]), "floor_ms": floor, "ratio": min(wall[key]) / floor}
            if kind == "cpu":
                row[key]["cpu_ratio"] = min(cpu[key]) / (share * min(cpu["floor"]))
        rows.append(row)
    return rows


def _alone(*arguments: Any) -> list[dict[str, Any]]:
    """measure_rows in a process of its own."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(measure_rows, *arguments).result()


def measure(settings: Settings) -> dict[str, Any]:
    """The content of scan.json."""
    given = {"dtypes": settings.dtypes, "memory": settings.memory, "device": (settings.device,)}
    for name, known in (("dtypes", tuple(DTYPES)), ("memory", MEMORY), ("device", ("cpu", "cuda"))):
        if unknown := [value for value in given[name] if value not in known]:
            raise UserError(f"{name}: found {unknown[0]!r}, expected one of {', '.join(known)}.")
    runs = [(parse_shape(shape), dtype) for shape in settings.shapes for dtype in settings.dtypes]
    rows = []
    for shape, dtype in runs:
        if settings.device == "cuda":
            rows += measure_rows(shape, dtype, "cuda", 1, "default", settings.repetitions, settings.seed)
        else:
            for threads in settings.threads:
                for memory in settings.memory:
                    rows += _alone(shape, dtype, "cpu", threads, memory, settings.repetitions, settings.seed)
    absent = [] if settings.device == "cpu" else [name for module, name in PEERS.items() if not find_spec(module)]
    passes = {"forward": FORWARD_PASSES, "training": TRAINING_PASSES}
    protocol = asdict(settings) | {"clock": CLOCK, "statistic": "minimum", "passes": passes, "peers_not_installed": absent}
    return {"rows": rows, "protocol": protocol, "environment": environment(device_name(settings.device), max(settings.threads))}


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as text, ratios beside times."""
    run_head = ("of floor", "CPU")
    head = ("method", "shape", "dtype", "threads", "memory", "copy GB/s", "forward ms", *run_head, "fwd+bwd ms", *run_head)
    lines = [head]
    for row in rows:
        where = (str(row.get("threads", "-")), row.get("memory", "-"), f"{row['copy_gb_s']:.1f}")
        times: list[str] = []
        for run in (row["forward"], row["training"]):
            times += [f"{run['ms']:.2f}", f"{run['ratio']:.2f}x", f"{run['cpu_ratio']:.2f}x" if "cpu_ratio" in run else "-"]
        lines.append((row["method"], "x".join(map(str, row["shape"])), row["dtype"], *where, *times))
    return aligned(lines)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """One flag a setting."""
    add_settings(parser, Settings)


def run(args: argparse.Namespace) -> int:
    """Measure, print, write."""
    settings, _ = resolve_settings(args, "scan", Settings)
    result = measure(settings)
    print(table(result["rows"]))
    write_json(args.out, result)
    return 0
