"""Memory of training: measured peaks, a limit on the CPU, and telling "out of memory" from other errors."""

from __future__ import annotations

import ctypes
import re
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch

from overtone.ops.peak import peak_allocated, reset_peak

_UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
# What the CPU allocator, C++, FFT libraries and oneDNN say when an allocation fails, and what cuBLAS, cuFFT and cuDNN do.
_SIGNS = ("allocate memory", "enough memory", "bad_alloc", "out of memory", "memory error", "could not create a ",
          "_alloc_failed", "_allocation_failed")


class OutOfMemory(Exception):
    """An allocation did not fit: `requested` bytes where the allocator told them."""

    def __init__(self, message: str, requested: int | None) -> None:
        super().__init__(message)
        self.requested = requested


def as_out_of_memory(error: BaseException) -> OutOfMemory | None:
    """The error as OutOfMemory where it is one: CUDA's, the CPU allocator's, Python's or C++'s; else None."""
    if isinstance(error, OutOfMemory):
        return error
    text = str(error)
    told = isinstance(error, RuntimeError | OSError) and any(sign in text.lower() for sign in _SIGNS)
    if not (told or isinstance(error, MemoryError | torch.OutOfMemoryError)):
        return None
    match = re.search(r"allocate ([\d.]+) (bytes|KiB|MiB|GiB|TiB)", text)
    requested = int(float(match.group(1)) * _UNITS[match.group(2)]) if match else None
    # The first sentence names the size; what follows is advice and, on some builds, a stack trace.
    first = re.split(r"\. (?=[A-Z])|\. *\n|\n", text)[0].strip()
    return OutOfMemory(re.sub(r"^\[.*?\]\s*", "", first) or type(error).__name__, requested)


def status_bytes(field: str) -> int:
    """A field of /proc/self/status in bytes; 0 where there is none."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
            if line.startswith(f"{field}:"):
                return int(line.split()[1]) * 1024
    return 0


def warm_up(model: Any) -> None:
    """One pass over a few tokens, so that compiled kernels and library pages are here before memory is measured."""
    random = torch.get_rng_state()
    ids = torch.zeros((1, 9), dtype=torch.long, device=model.head_weight.device)
    model.loss(ids[:, :-1], ids[:, 1:]).backward()
    model.zero_grad(set_to_none=True)
    torch.set_rng_state(random)


def _return_freed_memory() -> None:
    """Make glibc give freed blocks of 1 MiB and more back at once, so that a limit counts what is in use.

    By itself it keeps blocks of up to 32 MiB for reuse, and more after `ops.allocator.keep_freed_memory`: faster, but it
    fragments.
    """
    trim_threshold, top_pad, mmap_threshold = -1, -2, -3  # mallopt(3)
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        for name, value in ((mmap_threshold, 1 << 20), (trim_threshold, 1 << 20), (top_pad, 0)):
            mallopt(ctypes.c_int(name), ctypes.c_int(value))


class MemoryMeter:
    """Memory that a model and its training take, from when the meter was made with the (warmed-up) model in place.

    On a GPU the allocator's count, without what tuning kernels took. On a CPU what the process holds beyond its state at the
    start, the model's own parameters counted in: resident memory for the peak, private writable memory (RLIMIT_DATA) for the limit.
    """

    def __init__(self, model: torch.nn.Module, device: torch.device, limit: int | None = None) -> None:
        self.device = device
        self.limit = limit if device.type == "cpu" else None  # bytes; a card is a limit by itself
        if self.limit is not None:
            _return_freed_memory()
        if device.type == "cuda":
            reset_peak(device)
        else:
            with suppress(OSError):  # resets VmHWM, so that a peak before this one does not count
                Path("/proc/self/clear_refs").write_text("5")
        held = sum(value.nbytes for value in [*model.parameters(), *model.buffers()])
        self._resident = status_bytes("VmRSS") - held
        self._data = status_bytes("VmData") - held

    @property
    def kind(self) -> str:
        """What is measured."""
        return "cuda_max_memory_allocated" if self.device.type == "cuda" else "resident_above_baseline"

    def peak(self) -> int:
        """The peak so far in bytes."""
        if self.device.type == "cuda":
            return peak_allocated(self.device)
        return max(0, status_bytes("VmHWM") - self._resident)

    @contextmanager
    def limited(self) -> Iterator[None]:
        """Make an allocation that brings the process above the limit fail inside the block.

        RLIMIT_DATA makes it fail here, with an error, rather than by the kernel's killer.
        """
        if self.limit is None:
            yield
            return
        ceiling = self._data + self.limit
        if (held := status_bytes("VmData") - self._data) > self.limit:
            raise OutOfMemory(f"{held} bytes are held before the step, the limit is {self.limit}", None)
        soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (ceiling, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
