"""Keep freed memory in the process, so that the next large tensor is not made of fresh pages.

glibc gives blocks above 32 MB straight back to the kernel, and the kernel clears every page again on first touch: for tensors
of that size this takes as long as a whole scan does. The same as MALLOC_MMAP_THRESHOLD_, MALLOC_TRIM_THRESHOLD_ and
MALLOC_TOP_PAD_ in the environment, for a process that is already running.
"""

from __future__ import annotations

import ctypes

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # names of mallopt(3)
_GIB = 1 << 30


def keep_freed_memory(top_pad: int = 256 << 20) -> bool:
    """Serve blocks up to 1 GiB from the heap and never shrink it; grow it by `top_pad` bytes at a time.

    For the whole process and for good, so call it in programs, not in libraries. Returns whether the C library knows how (glibc
    does; elsewhere nothing changes).
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    settings = ((_MMAP_THRESHOLD, _GIB), (_TRIM_THRESHOLD, -1), (_TOP_PAD, top_pad))
    return all([mallopt(ctypes.c_int(name), ctypes.c_int(value)) == 1 for name, value in settings])
