"""The part of a measurement that is at work, and for how long: said every second by a thread of its own.

Compiling and measuring take minutes without units to count.
"""

from __future__ import annotations

import threading
import time

from pipeline.progress import Progress

TICK_SECONDS = 1.0


class Parts:
    """part(text) names what begins. Leaving the context ends the thread."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._part, self._since = "", time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._tick, daemon=True)

    def __enter__(self) -> Parts:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()

    def __call__(self, part: str) -> None:
        self._part, self._since = part, time.monotonic()
        self._progress.describe(part)

    def _tick(self) -> None:
        while not self._ended.wait(TICK_SECONDS):
            self._progress.describe(f"{self._part}, {time.monotonic() - self._since:.0f} s")
