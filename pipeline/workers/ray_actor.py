"""``PlayingActor``: an actor of a Ray cluster, which plays one job after another and keeps nothing between them.

Needs no disk: jobs, models, games and outcomes are bytes. Methods run concurrently in threads: the driver asks for
outcomes (take) while it hands out numbers (give). This module doesn't import Ray; workers/cluster.py makes the actors.

    frames   the parts of an answer: for each its length (8 bytes, little-endian) and its bytes
    answer   of take and stop: first JSON, {"steps", "live": of each thread, "totals", "warnings"}, with "error" and
             "exit_code" once the job has failed; then the outcomes
"""

from __future__ import annotations

import json
import os
import platform
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

LENGTH_BYTES = 8
BATCH_SECONDS = 0.05  # an answer waits this long for further outcomes
IDLE_SECONDS = 0.02  # between two checks for a job


def identity() -> bytes:
    """The node's "python" and "code", which must be equal on all nodes, and its "host", as JSON."""
    from pipeline.run.provenance import source_digest

    python = ".".join(platform.python_version_tuple()[:2])
    return json.dumps({"python": python, "code": source_digest(), "host": platform.node()}).encode()


class PlayingActor:
    """See the module docstring. take() and stop() refer to the job of the last begin()."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._playing: Any = None
        self._error: dict[str, Any] = {}  # added to an answer
        self._files: dict[str, Mapping[str, bytes]] = {}
        self._named: set[str] = set()  # models of the last news
        self._told = 0  # number of the last news

    def process(self) -> int:
        """The process id; also shows that the actor is alive."""
        return os.getpid()

    def begin(self, job: bytes, paths: list[str], *models: bytes) -> None:
        """Start a job. paths, models: the keys and values of Models; values as made by packed_files()."""
        from pipeline.errors import MuGoError
        from pipeline.workers.worker_pool import playing_of

        self._error, self._told, self._named = {}, 0, set(paths)
        self._files = dict(zip(paths, map(unpacked_files, models), strict=True))
        try:
            self._playing = playing_of(json.loads(job), self._files)
        except MuGoError as error:
            self._error = {"error": str(error), "exit_code": error.exit_code}

    def give(self, numbers: bytes) -> None:
        if (playing := self._playing) is not None:  # else stop() came first, and the games are obsolete
            playing.give(json.loads(numbers))

    def follow(self, number: int, news: bytes, paths: list[str], *models: bytes) -> None:
        """Pass news to Playing.follow(). Models that they don't name are kept until the next news.

        number: ascending within a job. Calls run concurrently, so news may arrive late: older ones are dropped.
        """
        files = dict(zip(paths, map(unpacked_files, models), strict=True))
        with self._lock:
            if number <= self._told or self._playing is None:
                return
            for path in set(self._files) - set(files) - self._named:
                del self._files[path]
            self._files.update(files)
            self._playing.follow(json.loads(news))
            self._told, self._named = number, set(files)

    def take(self, seconds: float) -> bytes:
        """An answer, as soon as there is an outcome, or after this many seconds."""
        from pipeline.errors import MuGoError

        found: list[bytes] = []
        deadline = time.monotonic() + seconds
        try:
            while (playing := self._playing) is None and not self._error and time.monotonic() < deadline:
                time.sleep(IDLE_SECONDS)
            if playing is not None:
                found = playing.outcomes(max(0.0, deadline - time.monotonic()))
                if found:
                    time.sleep(BATCH_SECONDS)
                    found += playing.outcomes(0.0)
        except MuGoError as error:
            self._error = {"error": str(error), "exit_code": error.exit_code}
        return self._answer(playing, found)

    def stop(self) -> bytes:
        """Drop the games in play. Returns the last answer of this job."""
        playing, found = self._playing, []
        if playing is not None:
            playing.close()
            found = playing.outcomes(0.0)
        answer = self._answer(playing, found)
        self._playing, self._files, self._error = None, {}, {}
        return answer

    def _answer(self, playing: Any, outcomes: list[bytes]) -> bytes:
        said: dict[str, Any] = {"steps": [], "live": [], "totals": {}, "warnings": [], **self._error}
        if playing is not None:
            steps, live, totals = playing.counts()
            said |= {"steps": list(steps), "live": list(live), "totals": dict(totals)}
            said["warnings"] = playing.warnings()
        return framed([json.dumps(said).encode(), *outcomes])


def framed(parts: Iterable[bytes]) -> bytes:
    return b"".join(len(part).to_bytes(LENGTH_BYTES, "little") + part for part in parts)


def frames(data: bytes) -> Iterator[bytes]:
    """The parts joined by framed(). Raises ValueError for other data."""
    at = 0
    while at < len(data):
        end = at + LENGTH_BYTES + int.from_bytes(data[at : at + LENGTH_BYTES], "little")
        if end > len(data):
            raise ValueError(f"{len(data)} bytes end within a frame")
        yield data[at + LENGTH_BYTES : end]
        at = end


def packed_files(files: Mapping[str, bytes]) -> bytes:
    names = json.dumps(list(files)).encode()
    return framed([names, *files.values()])


def unpacked_files(data: bytes) -> dict[str, bytes]:
    names, *contents = frames(data)
    return dict(zip(json.loads(names), contents, strict=True))
