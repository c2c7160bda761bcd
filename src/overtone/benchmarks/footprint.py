"""Memory that a call takes at its peak beyond what was there before it."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import accumulate
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from overtone.ops.peak import peak_allocated, reset_peak


def peak_of_call(call: Callable[[], Any], device: torch.device) -> tuple[int, str]:
    """(bytes, how they were measured) of one call.

    On a GPU the allocator's high-water mark less what was allocated before. On a CPU the running sum of allocations and of their
    releases inside the call, as the profiler saw them: resident memory would not do, because memory released earlier is taken
    again without a trace.
    """
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        reset_peak(device)
        before = torch.cuda.memory_allocated(device)
        call()
        torch.cuda.synchronize(device)
        return max(0, peak_allocated(device) - before), "cuda_max_memory_allocated"
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # the profiler tells of its start and stop on stderr
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        call()
    events: Any = recorded.profiler.kineto_results.events()
    changes = sorted((event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]")
    return max(accumulate((size for _, size in changes), initial=0)), "cpu_allocations"
