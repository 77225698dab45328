"""Capturing CUDA graphs while old ones may be garbage."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Pauses garbage collection. Not thread-safe.

    Destroying a CUDA graph while another is being captured makes the capture fail: "operation failed due to a previous
    error during capture". Networks and trainers are often in reference cycles, so the collector destroys their graphs.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
