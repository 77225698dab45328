"""Recording CUDA graphs without being disturbed by those that nobody uses any more."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """No garbage is collected while this lasts. For one thread at a time.

    A graph that goes away while another one is being recorded spoils it: "operation failed due to a previous error
    during capture". Networks and trainers are often in reference cycles, so the collector decides when theirs go.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
