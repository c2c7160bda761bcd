"""The peak of a GPU's memory without what tuning a kernel takes.

Triton times a kernel's configurations when it first sees a key, in the middle of whatever runs, and clears 256 MB of the card between
runs. A peak that is being measured must not hold them. torch keeps one peak a card, which can only begin again at what is allocated now:
so what it was before a tuning is kept here, and `peak_allocated` is the larger of the two. Measure peaks by the functions here alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

_before: dict[int, int] = {}  # card -> bytes, the peak before its last tuning


def _number(device: torch.device) -> int:
    return torch.cuda.current_device() if device.index is None else device.index


def reset_peak(device: torch.device) -> None:
    """Begin anew at what is allocated on this card now."""
    _before.pop(_number(device), None)
    torch.cuda.reset_peak_memory_stats(_number(device))


def peak_allocated(device: torch.device) -> int:
    """Bytes, the most that was allocated on this card since `reset_peak`, tuning left out."""
    number = _number(device)
    return max(_before.get(number, 0), int(torch.cuda.max_memory_allocated(number)))


@contextmanager
def uncounted() -> Iterator[None]:
    """What is allocated on the current card inside the block, and freed in it, does not count in its peak."""
    number = torch.cuda.current_device()
    _before[number] = peak_allocated(torch.device("cuda", number))
    try:
        yield
    finally:
        torch.cuda.reset_peak_memory_stats(number)
