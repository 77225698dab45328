"""A JobExecutor for tests that plays nothing: its games come at once, and it misbehaves as its job tells it.

job: {"mode": …, "games": which make it misbehave}. Needs nothing but the standard library, so its actors start quickly.
An outcome is {"number", "pid", "update", "models", "cores", "gpus"}. It warns of what its job's "warnings" say.

modes  play   nothing else                         die    kills itself when it is to play one of those games
       stop   stops itself (SIGSTOP) there, once   stuck  goes on answering, but makes no step there, once
       error  says that the job is impossible      never  has no game ever end
"""

from __future__ import annotations

import os
import queue
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline.errors import UsageError
from pipeline.machine import available_cores
from pipeline.workers.worker_pool import Counts, JobExecutor, Models, OutcomeReader


class FakeExecutor(JobExecutor):
    def __init__(self, job: dict[str, Any], models: Models) -> None:
        if job["mode"] == "error":
            raise UsageError("the weights are gone")
        self._job, self._models = job, models
        self._update = job.get("update")
        self._arrived: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._steps = 1
        self._played = 0
        self._live = 0

    def update(self, update: Any) -> None:
        self._update = update

    def give(self, numbers: Sequence[int]) -> None:
        self._live += len(numbers)
        for number in numbers:
            if number in self._job.get("games", ()) and self._misbehaves():
                if self._job["mode"] == "die":
                    os.kill(os.getpid(), signal.SIGKILL)
                if self._job["mode"] == "stop":
                    os.kill(os.getpid(), signal.SIGSTOP)
                return
            if self._job["mode"] == "never":
                continue
            self._steps += 1
            self._played += 1
            self._live -= 1
            said = {"number": number, "pid": os.getpid(), "update": self._update, "models": sorted(self._models)}
            said |= {"cores": available_cores(), "gpus": os.environ.get("CUDA_VISIBLE_DEVICES")}
            self._arrived.put(said)

    def _misbehaves(self) -> bool:
        """Every time; if the job names a marker, only the worker that creates this file."""
        if "marker" not in self._job:
            return True
        try:
            os.close(os.open(self._job["marker"], os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True

    def outcomes(self, seconds: float) -> list[Any]:
        deadline = time.monotonic() + seconds
        found: list[Any] = []
        while not found:
            while not self._arrived.empty():
                found.append(self._arrived.get())
            if time.monotonic() >= deadline:
                break
            time.sleep(0.01)
        return found

    def counts(self) -> Counts:
        return Counts([self._steps], [self._live], {"played": self._played})

    def warnings(self) -> list[str]:
        return self._job.pop("warnings", [])

    def close(self) -> None:
        pass


EXECUTOR = f"{__name__}:FakeExecutor"


def read(outcome: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    return outcome["number"], outcome


AGAIN: OutcomeReader[dict[str, Any]] = OutcomeReader(read)
TOLD: OutcomeReader[dict[str, Any]] = OutcomeReader(read, lambda number, why: {"number": number, "problem": why})


def job_of(mode: str = "play", games: Sequence[int] = (), marker: Path | None = None, **more: Any) -> dict[str, Any]:
    marked = {} if marker is None else {"marker": str(marker)}
    return {"executor": EXECUTOR, "threads": 1, "mode": mode, "games": list(games), **marked, **more}
