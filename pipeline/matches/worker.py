"""A worker of a match: ``python -m pipeline.matches.worker``, started by a command with --workers.

Reads a job and numbers of games on its standard input, plays them in threads, and writes the outcomes to its standard
output; worker_pool.py describes the lines. It writes no files, so it may be killed at any moment, and it ends by itself
when its standard input does: then its parent needs it no longer, or is gone.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TextIO

GRACE_SECONDS = 3.0  # for closing players, engines above all, before the process just ends


def main() -> None:
    # The pipes must be used by nothing else. What libraries print must not get between the lines: it goes to standard
    # error. And a process that a library forks closes its standard input, which would block while a thread reads there.
    out = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    orders_in = os.fdopen(os.dup(sys.stdin.fileno()))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, sys.stdin.fileno())
    os.close(nothing)
    lock = threading.Lock()

    def say(message: dict[str, Any]) -> None:
        with lock:
            try:
                out.write(json.dumps(message) + "\n")
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
        say({"error": str(error)})
        sys.exit(1)


def _play(
    job: dict[str, Any], orders: queue.SimpleQueue[list[int] | None], say: Callable[[dict[str, Any]], None]
) -> None:
    """Play until the orders end. Raises MuGoError if players can't be made."""
    from pipeline.matches.runner import job_pairing
    from pipeline.matches.worker_pool import ThreadPool
    from pipeline.storage.matches import MatchGame

    pool = ThreadPool(job_pairing(job), job["threads"], job["rows"], watched=False)

    def beat() -> None:
        while True:
            threads = [(thread.steps, thread.live) if thread else (0, 0) for thread in pool.match_threads]
            say({"beat": [steps for steps, _ in threads], "live": [live for _, live in threads]})
            time.sleep(job["beat_seconds"])

    threading.Thread(target=beat, daemon=True).start()
    while True:
        with suppress(queue.Empty):
            while (order := orders.get_nowait()) is not None:
                pool.give(order)
            pool.close()
            return
        for outcome in pool.outcomes(0.1):
            kind = "game" if isinstance(outcome, MatchGame) else "failure"
            say({kind: outcome.model_dump(mode="json")})


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
