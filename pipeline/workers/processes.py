"""``ProcessPool``: workers that are processes of this machine, connected by pipes.

A worker is any command that reads a job and then numbers of games as JSON lines, and writes JSON lines:
    stdin   the job, then {"play": [0, 1, …]} and {"news": …} (see Playing.follow) any number of times; end of file:
            stop at once
    stdout  an outcome, from the job's Playing
            {"beat": [steps of each thread], "live": [games of each thread]}, optionally with "totals" (see Counts) and
            "warnings"
            {"error": one line}: the job itself is impossible; "exit_code" is 1 by default
A worker that writes anything else is replaced, as an unreadable line may have been a game. The usual command is
``child_command()``, which runs any job's Playing.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar

from pipeline.errors import Elsewhere, UsageError
from pipeline.machine import share_niceness
from pipeline.workers.worker_pool import Reading, RemotePool, Worker

O = TypeVar("O")  # noqa: E741  an outcome

DRAIN_SECONDS = 1.0  # for reading the pipe of a worker that has ended
GRACE_SECONDS = 5.0  # for a stopping worker to close its players
BEAT_SECONDS = 1.0  # the longest time between two reports of a worker's progress


def child_command() -> tuple[list[str], dict[str, str]]:
    """The command of workers/child.py, and an environment in which it finds this program."""
    path = os.pathsep.join(filter(None, [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")]))
    return [sys.executable, "-m", "pipeline.workers.child"], {**os.environ, "PYTHONPATH": path}


def check_workers(runner: str, workers: int) -> None:
    """Raises UsageError for worker processes of this machine together with a cluster."""
    if runner == "ray" and workers:
        raise UsageError(f"--workers {workers}: processes of this machine; leave it out with --runner ray")


def beat_seconds(hang_seconds: float) -> float:
    """A job's "beat_seconds", for a pool with this limit."""
    return min(BEAT_SECONDS, hang_seconds / 4)


@dataclass(eq=False, kw_only=True)
class WorkerProcess(Worker):
    """A process as a worker. ended: when its process was first found to have ended; 0: not yet."""

    process: subprocess.Popen[bytes]
    ended: float = 0.0
    listener: threading.Thread | None = None

    def send(self, numbers: Sequence[int]) -> None:
        _send(self.process, {"play": list(numbers)})


class ProcessPool(RemotePool[O, WorkerProcess]):
    """See the module docstring."""

    def __init__(
        self,
        reading: Reading[O],
        command: Sequence[str],
        jobs: Sequence[dict[str, Any]],
        capacity: int,
        hang_seconds: float,
        environment: dict[str, str] | None = None,
    ) -> None:
        """jobs: one per worker."""
        super().__init__(reading, capacity, hang_seconds)
        self._environment = environment
        self._command = list(command)
        self._jobs = list(jobs)
        self._arrived: queue.SimpleQueue[tuple[WorkerProcess, bytes | None]] = queue.SimpleQueue()  # None: pipe's end
        try:
            for number in range(len(jobs)):
                self.workers.append(self._start(number))
        except BaseException:
            self.close()
            raise

    @property
    def done(self) -> bool:
        """Whether all given games have ended."""
        return not self._waiting and not any(worker.games for worker in self.workers)

    def follow(self, news: Any) -> None:
        """Send changes of the jobs, for games that start from now on; see Playing.follow. They become their "news"."""
        self._jobs = [{**job, "news": news} for job in self._jobs]
        for worker in self.workers:
            _send(worker.process, {"news": news})

    def warned(self, text: str) -> None:
        """Called with each warning of a worker; a subclass may show it."""

    def close(self) -> None:
        self._closed = True
        for worker in self.workers:
            _close_input(worker.process)
        deadline = time.monotonic() + GRACE_SECONDS
        for worker in self.workers:
            _end(worker.process, deadline - time.monotonic())
            if worker.listener is not None:
                worker.listener.join(DRAIN_SECONDS)

    def _start(self, number: int) -> WorkerProcess:
        # In its own session, so that Ctrl-C reaches only this process. A worker stops when its standard input ends.
        process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            env=self._environment,
        )
        share_niceness(process.pid)
        worker = WorkerProcess(number, process=process)
        _send(process, self._jobs[number])
        worker.listener = threading.Thread(target=self._listen, args=(worker, process.stdout), daemon=True)
        worker.listener.start()
        return worker

    def _listen(self, worker: WorkerProcess, pipe: IO[bytes]) -> None:
        for line in pipe:
            self._arrived.put((worker, line))
        pipe.close()
        self._arrived.put((worker, None))

    def _receive(self, seconds: float) -> list[O] | None:
        """Ignores lines of a replaced worker."""
        try:
            worker, line = self._arrived.get(timeout=seconds) if seconds > 0 else self._arrived.get_nowait()
        except queue.Empty:
            return None
        if self.workers[worker.number] is not worker:
            return []
        if line is None:
            return [] if self._closed else self._lost(worker, f"its process ended ({_end(worker.process, 0.2)})")
        try:
            return self._handle(worker, line)
        except (ValueError, TypeError, KeyError, RecursionError):
            problem = f"it wrote {line[:80]!r}, which is no valid message"
            return [] if self._closed else self._lost(worker, problem)

    def _check(self, worker: WorkerProcess) -> list[O]:
        """Also finds a worker that ended while a child process keeps its pipe open."""
        if stuck := self._stuck(worker):
            return self._lost(worker, stuck)
        if worker.process.poll() is None or not self._arrived.empty():  # its last lines may be among them
            return []
        worker.ended = worker.ended or time.monotonic()
        if time.monotonic() - worker.ended < DRAIN_SECONDS:
            return []
        return self._lost(worker, f"its process ended ({_end(worker.process, 0.0)})")

    def _handle(self, worker: WorkerProcess, line: bytes) -> list[O]:
        """Raises ValueError, TypeError, KeyError or RecursionError for an invalid line."""
        message = json.loads(line)
        if "error" in message:
            self._problem = Elsewhere(f"worker {worker.number}: {message['error']}", message.get("exit_code", 1))
            return []
        if "beat" in message:
            worker.totals = message.get("totals", {})
            for text in message.get("warnings", ()):
                self.warned(text)
            self._beaten(worker, message["beat"], message["live"])
            return []
        return self._read(worker, line)

    def _lost(self, worker: WorkerProcess, problem: str) -> list[O]:
        """Replace a worker and share out its games that are to be played again."""
        _end(worker.process, 0.0)
        lost = self._taken_from(worker, f"worker {worker.number}: {problem}")
        self._totals.update(worker.totals)
        if self._problem is None:
            self.workers[worker.number] = self._start(worker.number)
            for one in self.workers:
                self._feed(one)
        return lost


def _send(process: subprocess.Popen[bytes], message: dict[str, Any]) -> None:
    assert process.stdin is not None
    with suppress(OSError, ValueError):  # it has died, as the end of the other pipe will show
        process.stdin.write(json.dumps(message).encode() + b"\n")
        process.stdin.flush()


def _close_input(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    with suppress(OSError):  # unread input can't be flushed
        process.stdin.close()


def _end(process: subprocess.Popen[bytes], grace_seconds: float) -> str:
    """Kill a worker unless it ends in time; returns how it ended. Safe, as workers write no files."""
    try:
        process.wait(max(0.0, grace_seconds))
    except subprocess.TimeoutExpired:
        process.kill()
    code = process.wait()
    _close_input(process)
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
