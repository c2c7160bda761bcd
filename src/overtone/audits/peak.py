"""The arithmetic a device cannot exceed: measured for this CPU, from the data sheet for a GPU."""

from __future__ import annotations

import time

# Dense matrix FLOP/s by part of the device's name, the most specific first: (bfloat16, TF32). Vendors' data sheets, without sparsity.
_SHEETS = {
    "GB200": (2.5e15, 1.25e15),
    "B200": (2.25e15, 1.1e15),
    "H200": (989e12, 495e12),
    "H100 PCIe": (756e12, 378e12),
    "H100 NVL": (835e12, 418e12),
    "GH200": (989e12, 495e12),
    "H100": (989e12, 495e12),
    "A100": (312e12, 156e12),
    "A10G": (70e12, 35e12),
    "A10": (125e12, 62.5e12),
    "L40S": (362e12, 183e12),
    "L40": (181e12, 90.5e12),
    "L4": (121e12, 60e12),
    "V100": (125e12, 15.7e12),
    "T4": (65e12, 8.1e12),
    "RTX 4090": (165e12, 82.6e12),
    "RTX 3090": (71e12, 35.6e12),
    "RTX A6000": (155e12, 77.4e12),
    "MI300X": (1307e12, 654e12),
    "MI250X": (383e12, 95.7e12),
}


def sheet_peak(device: str, dtype: str) -> float | None:
    """FLOP/s of a GPU by its name; None for one that is not listed. float32 counts as TF32, the fastest it may run as."""
    for name, (half, single) in _SHEETS.items():
        if name.lower() in device.lower():
            return half if dtype == "bfloat16" else single
    return None


def cpu_peak(threads: int, *, size: int = 768, seconds: float = 0.6) -> float:
    """float32 FLOP/s of `threads` cores here: the best matrix product of one thread, times the threads.

    Taken against the thread's own CPU time, so that other work on the machine does not lower it.
    """
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        a, b = torch.full((size, size), 0.5), torch.full((size, size), 0.25)
        out = a @ b
        best, end = float("inf"), time.perf_counter() + seconds
        while time.perf_counter() < end or best == float("inf"):
            start = time.thread_time()
            torch.mm(a, b, out=out)
            best = min(best, time.thread_time() - start)
    finally:
        torch.set_num_threads(before)
    return threads * 2.0 * size**3 / best
