"""Where the milliseconds of a training step on a CPU go: by stage (data, forward, backward, clipping, optimizer) and by operator.

    OMP_NUM_THREADS=1 python benchmarks/training_step.py --arch harmonic --hidden 128 --length 4096 [--tokens-per-step 4096]

Stages are timed by the wall clock, the median of several steps; operators by the profiler, as shares of its own total.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile

from overtone.models import build_model, parameter_counts
from overtone.ops.allocator import keep_freed_memory
from overtone.provenance import cpu_name
from overtone.training.optimizer import AdamW
from overtone.training.plan import Plan
from overtone.training.protocol import TrainingProtocol
from overtone.training.stream import Region

STAGES = ("data", "forward", "backward", "clip", "optimizer")
REGION = 8_000_000  # tokens of the memory-mapped file that windows are read from


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", default="harmonic")
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--vocab", type=int, default=256)
    parser.add_argument("--length", type=int, default=4096)
    parser.add_argument("--tokens-per-step", type=int, default=4096)
    parser.add_argument("--steps", type=int, default=10)
    args = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()  # as `overtone train` does
    with tempfile.TemporaryDirectory() as folder:
        step, model = prepare(args, Path(folder) / "train.bin")
        step(0)
        rows = [step(number) for number in range(1, args.steps + 1)]
        os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # the profiler tells of its start and stop on stderr
        with profile(activities=[ProfilerActivity.CPU]) as recorded:
            step(args.steps + 1)
    whole = median(sum(row.values()) for row in rows)
    print(f"{args.arch}, d = {args.hidden}, {parameter_counts(model)['total']:,} parameters, windows of {args.length}, "
          f"{args.tokens_per_step} tokens a step; {cpu_name()}, torch {torch.__version__}, one thread")
    print(f"step {1e3 * whole:.1f} ms, {args.tokens_per_step / whole:,.0f} tokens/s")
    for stage in STAGES:
        taken = median(row[stage] for row in rows)
        print(f"  {stage:10} {1e3 * taken:8.2f} ms  {taken / whole:6.2%}")
    events = sorted(recorded.key_averages(), key=lambda event: -event.self_cpu_time_total)
    total = sum(event.self_cpu_time_total for event in events)
    print("operators, share of their time:")
    for event in events[:12]:
        print(f"  {event.key[:50]:50} {event.self_cpu_time_total / total:6.1%}  {event.count:5} calls")


def prepare(args: argparse.Namespace, file: Path) -> tuple[Callable[[int], dict[str, float]], torch.nn.Module]:
    """A step that takes the plan's windows and tells the seconds of each stage."""
    np.random.default_rng(0).integers(0, args.vocab, REGION).astype("<u2").tofile(file)
    region = Region(np.memmap(file, dtype="<u2", mode="r"), np.array([0]))
    plan = Plan("0" * 64, REGION, args.length, (args.steps + 2) * args.tokens_per_step, args.tokens_per_step, seed=1)
    model = build_model(args.arch, vocab_size=args.vocab, hidden=args.hidden, seed=0).train()
    protocol = TrainingProtocol(budget=plan.budget, tokens_per_step=args.tokens_per_step, evaluation_length=args.length)
    optimizer = AdamW(model, protocol)

    def step(number: int) -> dict[str, float]:
        marks = [time.perf_counter()]
        ids, targets = region.windows(plan.step_starts(number), args.length)
        marks.append(time.perf_counter())
        loss = model.loss(ids, targets)
        marks.append(time.perf_counter())
        loss.backward()
        marks.append(time.perf_counter())
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        marks.append(time.perf_counter())
        optimizer.step(1e-3)
        optimizer.zero_grad()
        marks.append(time.perf_counter())
        return dict(zip(STAGES, np.diff(marks).tolist(), strict=True))

    return step, model


if __name__ == "__main__":
    main()
