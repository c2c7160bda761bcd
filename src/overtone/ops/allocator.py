"""Large CPU tensors without the price of fresh pages.

glibc takes blocks above 32 MB from the kernel and gives them straight back, and the kernel hands out, and clears, their pages one by one
on first touch: for a scan of that size this takes longer than the scan. Two remedies: ask for pages of 2 MB instead of 4 KB
(a tensor at a time, no side effects), or keep freed memory in the process (a program's decision).
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import Any

from torch import Tensor

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # names of mallopt(3)
_GIB = 1 << 30
_HUGE_PAGE = 2 << 20
_MADV_HUGEPAGE = 14  # of madvise(2)
_LARGE = 8 * _HUGE_PAGE


@cache
def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def with_huge_pages(x: Tensor) -> Tensor:
    """x itself; where it is a large CPU tensor on Linux, its untouched pages will be huge ones if the kernel has them."""
    if x.device.type == "cpu" and x.nbytes >= _LARGE and (libc := _libc()) is not None:
        start = -(-x.data_ptr() // _HUGE_PAGE) * _HUGE_PAGE
        length = (x.data_ptr() + x.nbytes - start) // _HUGE_PAGE * _HUGE_PAGE
        libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(length), _MADV_HUGEPAGE)  # advice: a refusal changes nothing
    return x


def keep_freed_memory(top_pad: int = 256 << 20) -> bool:
    """Serve blocks up to 1 GiB from the heap and never shrink it; grow it by `top_pad` bytes at a time.

    The same as MALLOC_MMAP_THRESHOLD_, MALLOC_TRIM_THRESHOLD_ and MALLOC_TOP_PAD_ in the environment, for a process that already
    runs: for the whole process and for good, so call it in programs, not in libraries. Returns whether the C library knows how
    (glibc does; elsewhere nothing changes).
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    settings = ((_MMAP_THRESHOLD, _GIB), (_TRIM_THRESHOLD, -1), (_TOP_PAD, top_pad))
    taken = [mallopt(ctypes.c_int(name), ctypes.c_int(value)) == 1 for name, value in settings]
    return all(taken)
