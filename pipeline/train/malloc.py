"""Memory that a training step frees is kept for the next one.

Every step makes and frees the same few hundred tensors of a megabyte. glibc gives such memory back to the system and
gets it again, page by page, zeroed each time: 8,500 page faults and 11 % of a step's processor time on two cores
(docs/log, 2026-11-25). A process that trains does little else until it ends, so nobody misses what it keeps.
"""

from __future__ import annotations

import ctypes
import sys

# malloc.h of glibc
TRIM_THRESHOLD, TOP_PAD, MMAP_THRESHOLD = -1, -2, -3
SETTINGS = {
    MMAP_THRESHOLD: 1 << 30,  # bytes from which on a block is mapped by itself, and unmapped when freed
    TRIM_THRESHOLD: (1 << 31) - 1,  # free bytes at the end of the heap, above which they are given back
    TOP_PAD: 64 << 20,  # bytes by which the heap grows
}


def keep_freed_memory() -> bool:
    """For the rest of the process. False, and nothing is changed, without glibc."""
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and all(mallopt(name, value) == 1 for name, value in SETTINGS.items())
