"""Threads that hang: in a driver's call, on a disk that doesn't answer, on a lock that nobody gives back.

Nobody can end a thread from outside, so whoever waits for threads looks at how far each has come, and gives up when one
has made no step for HANG_SECONDS: what was finished is kept, and the process ends with an error instead of never.

A step is a batch of the network: seconds on the slowest machine, and some minutes for the first one, which compiles.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from pipeline.errors import MuGoError

HANG_SECONDS = 1800.0
PAUSE_SECONDS = 5.0  # who doesn't look for this long (Ctrl-Z, a slow disk) can't say what the threads did meanwhile
LOOK_SECONDS = 0.5

Counts = Sequence[object]
"""Of each thread something that changes with every step; None: it has ended, or has nothing to do."""


class Hung(MuGoError):
    """A thread hangs. The process must end without waiting for it."""


class Watch:
    """Knows when each of several threads was last seen to have made a step. For one thread, the one that waits."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._looked = clock()
        self._moved: dict[int, tuple[object, float]] = {}  # thread → its last count, and when that was new

    def stuck(self, counts: Counts, limit: float | None = None) -> dict[int, float]:
        """The threads that made no step for more than this many seconds (None: HANG_SECONDS): thread → seconds."""
        now = self._clock()
        pause = now - self._looked
        if pause > PAUSE_SECONDS:
            self._moved = {thread: (count, since + pause) for thread, (count, since) in self._moved.items()}
        self._looked = now
        for thread, count in enumerate(counts):
            if count is None or thread not in self._moved or self._moved[thread][0] != count:
                self._moved[thread] = count, now
        limit = limit or HANG_SECONDS
        return {thread: now - since for thread, (_, since) in self._moved.items() if now - since > limit}

    def look(self, counts: Counts) -> None:
        """Raises Hung if a thread hangs."""
        for thread, seconds in self.stuck(counts).items():
            raise Hung(
                f"thread {thread} of {len(counts)} made no step for {seconds:.0f} seconds and can't be stopped; what "
                "was finished is written; look for what it waits for (a driver, a disk, memory), then run this again"
            )

    def join(self, threads: Sequence[threading.Thread], counts: Callable[[], Counts]) -> None:
        """Wait until all have ended, or all that haven't hang: then Hung is raised."""
        while True:
            stuck = self.stuck(counts())
            waiting = [one for number, one in enumerate(threads) if one.is_alive() and number not in stuck]
            if not waiting:
                break
            waiting[0].join(LOOK_SECONDS)
        self.look(counts())
