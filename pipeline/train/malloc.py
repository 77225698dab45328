"""malloc settings that keep memory freed by one training step for the next.

Every step allocates and frees the same few hundred tensors of about a megabyte. By default glibc returns such memory to
the system and gets it back zeroed, page by page: 8,500 page faults and 11 % of a step's CPU time on two cores
(docs/log, 2026-11-25). A training process does little else until it ends, so keeping the memory costs nothing.
"""

from __future__ import annotations

import ctypes
import sys

# malloc.h of glibc
TRIM_THRESHOLD, TOP_PAD, MMAP_THRESHOLD = -1, -2, -3
SETTINGS = {
    MMAP_THRESHOLD: 1 << 30,  # bytes; larger blocks are mapped separately and unmapped when freed
    TRIM_THRESHOLD: (1 << 31) - 1,  # bytes; more free space at the heap's end is returned
    TOP_PAD: 64 << 20,  # bytes by which the heap grows
}


def keep_freed_memory() -> bool:
    """Change the settings for the rest of the process. Without glibc: change nothing and return False."""
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and all(mallopt(name, value) == 1 for name, value in SETTINGS.items())
