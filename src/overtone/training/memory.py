"""Memory of training: measured peaks, a limit on the CPU, and telling "out of memory" from other errors."""

from __future__ import annotations

import re
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import torch


class OutOfMemory(Exception):
    """An allocation did not fit: `requested` bytes where the allocator told them."""

    def __init__(self, message: str, requested: int | None) -> None:
        super().__init__(message)
        self.requested = requested


_UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


def as_out_of_memory(error: BaseException) -> OutOfMemory | None:
    """The error as OutOfMemory where it is one: CUDA's, the CPU allocator's, Python's or C++'s; else None."""
    text = str(error)
    known = isinstance(error, MemoryError | torch.OutOfMemoryError) or (
        isinstance(error, RuntimeError)
        and (
            "allocate memory" in text or "not enough memory" in text or "std::bad_alloc" in text or "bad_alloc" in text
        )
    )
    if not known:
        return error if isinstance(error, OutOfMemory) else None
    match = re.search(r"allocate ([\d.]+) (bytes|KiB|MiB|GiB|TiB)", text)
    requested = int(float(match.group(1)) * _UNITS[match.group(2)]) if match else None
    # The first sentence names the size; what follows is advice and, on some builds, a stack trace.
    first = re.split(r"(?<=[^\d])\. |\n|\. (?=[A-Z])", text)[0].strip()
    return OutOfMemory(first or type(error).__name__, requested)


def _status(field: str) -> int:
    """A field of /proc/self/status in bytes; 0 where there is none."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
            if line.startswith(f"{field}:"):
                return int(line.split()[1]) * 1024
    return 0


def resident_bytes() -> int:
    """Memory of this process that is in use now."""
    return _status("VmRSS")


class PeakMemory:
    """Peak memory beyond what was in use when it was made: resident memory on a CPU, the allocator's on a GPU."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        else:
            with suppress(OSError):  # resets VmHWM, so that a peak before this one does not count
                Path("/proc/self/clear_refs").write_text("5")
        self.baseline = resident_bytes()

    @property
    def kind(self) -> str:
        """What is measured."""
        return "cuda_max_memory_allocated" if self.device.type == "cuda" else "resident_above_baseline"

    def read(self) -> int:
        """The peak so far in bytes."""
        if self.device.type == "cuda":
            return int(torch.cuda.max_memory_allocated(self.device))
        return max(0, _status("VmHWM") - self.baseline)


@contextmanager
def cpu_memory_limit(limit_bytes: int | None, baseline: int) -> Iterator[None]:
    """Make allocations beyond `baseline + limit_bytes` of private memory fail inside the block.

    Through RLIMIT_DATA, so an allocation fails with an error here rather than by the kernel's killer. None: no limit.
    """
    if limit_bytes is None:
        yield
        return
    ceiling = baseline + limit_bytes
    if data_bytes() > ceiling:
        raise OutOfMemory(f"the model itself exceeds the limit of {limit_bytes} bytes", data_bytes() - baseline)
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (ceiling, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def data_bytes() -> int:
    """Private writable memory of this process: what RLIMIT_DATA counts."""
    return _status("VmData")
