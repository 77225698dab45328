"""What runs in a process of a Ray cluster: an actor that plays one job after another, and keeps nothing between them.

Needs no disk: a job, its models and its games come as plain bytes, and so does what became of them. Methods run in
threads side by side: the driver asks for outcomes (take) while it hands out numbers (give). This module imports no Ray:
workers/cluster.py makes actors of it.

    frames   the parts of an answer, one after the other: length (8 bytes, little-endian), bytes
    answer   of take and stop: first JSON, {"steps", "live": of each thread, "totals", "warnings"}, and once the job has
             failed "error" and "exit_code"; then the outcomes
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
IDLE_SECONDS = 0.02  # between two looks, while there is nothing to play yet


def identity() -> bytes:
    """JSON: what must be alike on all nodes. Called on each of them before anything is played there."""
    from pipeline.run.provenance import source_digest

    python = ".".join(platform.python_version_tuple()[:2])
    return json.dumps({"python": python, "code": source_digest(), "host": platform.node()}).encode()


class PlayingActor:
    """See the module docstring. A take() or stop() means the job of the last begin()."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._playing: Any = None
        self._error: dict[str, Any] = {}  # what it adds to an answer
        self._files: dict[str, Mapping[str, bytes]] = {}
        self._named: set[str] = set()  # models of the last news
        self._told = 0  # the number of the last news

    def process(self) -> int:
        """Its number, which says that the actor is there."""
        return os.getpid()

    def begin(self, job: bytes, paths: list[str], *models: bytes) -> None:
        """Take up a job. paths, models: as in Models; each as packed_files() made it."""
        from pipeline.errors import MuGoError
        from pipeline.workers.worker_pool import playing_of

        self._error, self._told, self._named = {}, 0, set(paths)
        self._files = dict(zip(paths, map(unpacked_files, models), strict=True))
        try:
            self._playing = playing_of(json.loads(job), self._files)
        except MuGoError as error:
            self._error = {"error": str(error), "exit_code": error.exit_code}

    def give(self, numbers: bytes) -> None:
        if (playing := self._playing) is not None:  # else stop() came first, and the driver has forgotten these games
            playing.give(json.loads(numbers))

    def follow(self, number: int, news: bytes, paths: list[str], *models: bytes) -> None:
        """What has changed of the job, see Playing.follow. Models that it doesn't name stay until the next news.

        number: of the news, ascending in a job. Calls run side by side, so older news may come later: they are dropped.
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
        """An answer, at the latest after this time; sooner once there is an outcome."""
        from pipeline.errors import MuGoError

        found: list[bytes] = []
        deadline = time.monotonic() + seconds
        try:
            while (playing := self._playing) is None and not self._error and time.monotonic() < deadline:
                time.sleep(IDLE_SECONDS)
            if playing is not None:  # which stop() may end meanwhile
                found = playing.outcomes(max(0.0, deadline - time.monotonic()))
                if found:
                    time.sleep(BATCH_SECONDS)
                    found += playing.outcomes(0.0)
        except MuGoError as error:
            self._error = {"error": str(error), "exit_code": error.exit_code}
        return self._answer(playing, found)

    def stop(self) -> bytes:
        """Drop the games in play; the last answer of this job."""
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
    """The parts that framed() put together. Raises ValueError for anything else."""
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
