"""A worker process: ``python -m pipeline.workers.child``.

It reads a job and then orders from its standard input, plays the games with the job's executor, and writes messages to
its standard output; ``processes.py`` describes the lines. It ends when its standard input does.

    job: "executor"      see worker_pool.make_executor; models are read from this machine's disk
         "beat_seconds"  seconds between reports of progress
         "cores"         the cores to run on; optional
         "gpu"           the only GPU to use, as CUDA_VISIBLE_DEVICES names it; optional
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

from pipeline.workers.worker_pool import make_executor, message_of

GRACE_SECONDS = 3.0  # for closing players, mainly engines, before the process exits
OUTCOME_SECONDS = 0.1  # between two checks for orders

Orders = queue.SimpleQueue[dict[str, Any] | None]  # None: the end


def main() -> None:
    # Nothing else may use the pipes. Output of libraries must not get between the lines: it goes to standard error. And
    # a forked process closes its standard input, which would block while a thread reads it.
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    orders_in = os.fdopen(os.dup(sys.stdin.fileno()))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, sys.stdin.fileno())
    os.close(nothing)
    lock = threading.Lock()

    def send(message: bytes) -> None:
        with lock:
            try:
                out.write(message + b"\n")
                out.flush()
            except OSError:
                os._exit(1)

    line = orders_in.readline()
    if not line.endswith("\n"):  # the parent is gone
        return
    job = json.loads(line)
    if job.get("cores") and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, job["cores"])
    if "gpu" in job:
        os.environ["CUDA_VISIBLE_DEVICES"] = job["gpu"]
    orders: Orders = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(orders_in, orders), daemon=True).start()
    from pipeline.extensions import blame

    try:
        _execute(job, orders, send)
    except Exception as error:
        known = blame(error)
        if known is None:
            raise
        send(message_of(None, error=known))
        sys.exit(1)


def _execute(job: dict[str, Any], orders: Orders, send: Callable[[bytes], None]) -> None:
    """Play until the orders end. Raises MuGoError if the job is impossible."""
    executor = make_executor(job, {})

    def beat() -> None:
        while True:
            send(message_of(executor))
            time.sleep(job["beat_seconds"])

    threading.Thread(target=beat, daemon=True).start()
    while True:
        with suppress(queue.Empty):
            while (order := orders.get_nowait()) is not None:
                if "update" in order:
                    executor.update(order["update"])
                else:
                    executor.give(order["play"])
            executor.close()
            send(message_of(executor, executor.outcomes(0.0)))
            return
        if found := executor.outcomes(OUTCOME_SECONDS):
            send(message_of(executor, found))


def _listen(orders_in: TextIO, orders: Orders) -> None:
    """Read orders until standard input ends; then exit after GRACE_SECONDS, even if the main thread hangs."""
    for line in orders_in:
        if line.endswith("\n"):
            orders.put(json.loads(line))
    orders.put(None)
    time.sleep(GRACE_SECONDS)
    os._exit(0)


if __name__ == "__main__":
    main()
