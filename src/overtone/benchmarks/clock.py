"""One way to take time: warm up, wait for the device, read the wall clock, repeat; median and quartiles."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

CLOCK = "time.perf_counter"


def synchronise(device: torch.device) -> None:
    """Wait until everything that was queued on the device is done. A CPU queues nothing."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def elapsed(call: Callable[[], Any], device: torch.device) -> float:
    """Seconds of one call, the device idle before and after."""
    synchronise(device)
    start = time.perf_counter()
    call()
    synchronise(device)
    return time.perf_counter() - start


def sample(
    call: Callable[[], Any], device: torch.device, repetitions: int, limit_s: float = float("inf"), least: int = 1
) -> list[float]:
    """Seconds of up to `repetitions` calls after one warm-up call.

    Stops once `limit_s` is spent, with `least` samples even so; a warm-up that takes all of it counts as the first.
    """
    first = elapsed(call, device)
    samples = [first] if first >= limit_s else []
    spent = first
    while len(samples) < repetitions and (spent < limit_s or len(samples) < least):
        samples.append(elapsed(call, device))
        spent += samples[-1]
    return samples


def summary(values: Sequence[float]) -> dict[str, Any]:
    """Median, quartiles and the samples themselves."""
    q25, median, q75 = np.percentile(np.asarray(values, dtype=np.float64), (25, 50, 75))
    return {"median": float(median), "q25": float(q25), "q75": float(q75), "samples": [float(value) for value in values]}
