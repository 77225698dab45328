"""What plays a match in a worker, and the worker of --workers itself: ``python -m pipeline.matches.worker``.

That process reads a job and numbers of games on its standard input, plays them in threads, and writes the outcomes to
its standard output; workers/processes.py describes the lines. It writes no files, so it may be killed at any moment,
and it ends by itself when its standard input does: then its parent needs it no longer, or is gone.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TextIO

from pipeline.workers.pool import Counts, Models, Playing

GRACE_SECONDS = 3.0  # for closing players, engines above all, before the process just ends


def main() -> None:
    # The pipes must be used by nothing else. What libraries print must not get between the lines: it goes to standard
    # error. And a process that a library forks closes its standard input, which would block while a thread reads there.
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    orders_in = os.fdopen(os.dup(sys.stdin.fileno()))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, sys.stdin.fileno())
    os.close(nothing)
    lock = threading.Lock()

    def say(line: bytes) -> None:
        with lock:
            try:
                out.write(line + b"\n")
                out.flush()
            except OSError:
                os._exit(1)

    line = orders_in.readline()
    if not line.endswith("\n"):  # its writer is gone
        return
    job = json.loads(line)
    orders: queue.SimpleQueue[list[int] | None] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(orders_in, orders), daemon=True).start()
    from pipeline.errors import MuGoError

    try:
        _play(job, orders, say)
    except MuGoError as error:
        say(json.dumps({"error": str(error)}).encode())
        sys.exit(1)


class MatchPlaying(Playing):
    """See Playing. Plays the games of one match in threads; outcomes are lines of worker_pool.line_of."""

    def __init__(self, job: dict[str, Any], models: Models) -> None:
        from pipeline.matches.runner import job_pairing
        from pipeline.matches.worker_pool import ThreadPool

        self._pool = ThreadPool(job_pairing(job, models), job["threads"], job["rows"], watched=False)

    def give(self, numbers: Sequence[int]) -> None:
        self._pool.give(numbers)

    def outcomes(self, seconds: float) -> list[bytes]:
        from pipeline.matches.worker_pool import line_of

        return [line_of(outcome) for outcome in self._pool.outcomes(seconds)]

    def counts(self) -> Counts:
        threads = self._pool.match_threads
        return Counts([one.steps if one else 0 for one in threads], [one.live if one else 0 for one in threads])

    def close(self) -> None:
        self._pool.close()


def _play(job: dict[str, Any], orders: queue.SimpleQueue[list[int] | None], say: Callable[[bytes], None]) -> None:
    """Play until the orders end. Raises MuGoError if players can't be made."""
    playing = MatchPlaying(job, {})

    def beat() -> None:
        while True:
            counts = playing.counts()
            say(json.dumps({"beat": counts.steps, "live": counts.live}).encode())
            time.sleep(job["beat_seconds"])

    threading.Thread(target=beat, daemon=True).start()
    while True:
        with suppress(queue.Empty):
            while (order := orders.get_nowait()) is not None:
                playing.give(order)
            playing.close()
            return
        for outcome in playing.outcomes(0.1):
            say(outcome)


def _listen(orders_in: TextIO, orders: queue.SimpleQueue[list[int] | None]) -> None:
    """Read orders until standard input ends; then make sure that this process ends, whatever it is doing."""
    for line in orders_in:
        if line.endswith("\n"):
            orders.put(json.loads(line)["play"])
    orders.put(None)
    time.sleep(GRACE_SECONDS)
    os._exit(0)


if __name__ == "__main__":
    main()
