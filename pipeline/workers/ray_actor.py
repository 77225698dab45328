"""``JobActor``: an actor of a Ray cluster, which plays one job after another and keeps nothing between them.

Needs no disk: jobs, orders and messages (see worker_pool.py) are bytes, and a model's files bytes by name, so that Ray
pickles nothing. Methods run concurrently in threads. Doesn't import Ray; workers/cluster.py makes the actors.
"""

from __future__ import annotations

import json
import platform
import threading
import time
from collections.abc import Mapping
from typing import Any

BATCH_SECONDS = 0.05  # an answer waits this long for further outcomes
IDLE_SECONDS = 0.02  # between two checks for a job


def identity() -> bytes:
    """The versions of Python and of this program, which must be equal on all nodes, as JSON."""
    from pipeline.run.provenance import source_digest

    return json.dumps({"Python": ".".join(platform.python_version_tuple()[:2]), "version": source_digest()}).encode()


class JobActor:
    """See the module docstring. take() and stop() refer to the job of the last begin()."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._executor: Any = None
        self._error: Any = None  # why the job is impossible
        self._files: dict[str, Mapping[str, bytes]] = {}
        self._named: set[str] = set()  # models of the last update
        self._last_update = 0  # its number

    def begin(self, job: bytes, paths: list[str], *models: Mapping[str, bytes]) -> None:
        """Start a job. paths, models: the keys and values of Models."""
        from pipeline.extensions import blame
        from pipeline.workers.worker_pool import make_executor

        self._error, self._last_update, self._named = None, 0, set(paths)
        self._files = dict(zip(paths, models, strict=True))
        try:
            self._executor = make_executor(json.loads(job), self._files)
        except Exception as error:
            self._error = blame(error)
            if self._error is None:
                raise

    def give(self, numbers: bytes) -> None:
        if (executor := self._executor) is not None:  # else stop() came first, and the games are obsolete
            executor.give(json.loads(numbers))

    def update(self, number: int, update: bytes, paths: list[str], *models: Mapping[str, bytes]) -> None:
        """Pass an update to the executor. Models that it doesn't name are kept until the next one.

        number: ascending within a job. Calls run concurrently, so updates may arrive late: older ones are dropped.
        """
        files = dict(zip(paths, models, strict=True))
        with self._lock:
            if number <= self._last_update or self._executor is None:
                return
            for path in set(self._files) - set(files) - self._named:
                del self._files[path]
            self._files.update(files)
            self._executor.update(json.loads(update))
            self._last_update, self._named = number, set(files)

    def take(self, seconds: float) -> bytes:
        """A message, as soon as there is an outcome, or after this many seconds."""
        from pipeline.extensions import blame
        from pipeline.workers.worker_pool import message_of

        found: list[Any] = []
        deadline = time.monotonic() + seconds
        try:
            while (executor := self._executor) is None and self._error is None and time.monotonic() < deadline:
                time.sleep(IDLE_SECONDS)
            if executor is not None:
                found = executor.outcomes(max(0.0, deadline - time.monotonic()))
                if found:
                    time.sleep(BATCH_SECONDS)
                    found += executor.outcomes(0.0)
        except Exception as error:
            self._error = blame(error)
            if self._error is None:
                raise
        return message_of(executor, found, self._error)

    def stop(self) -> bytes:
        """Drop the games in play. Returns the last message of this job."""
        from pipeline.workers.worker_pool import message_of

        executor, found = self._executor, []
        if executor is not None:
            executor.close()
            found = executor.outcomes(0.0)
        message = message_of(executor, found, self._error)
        self._executor, self._files, self._error = None, {}, None
        return message
