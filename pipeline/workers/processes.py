"""``ProcessPool``: workers that are processes of this machine, connected by pipes.

A worker is a command that reads a job and then orders as JSON lines, and writes messages (see worker_pool.py) as lines:

    stdin   the job, then {"play": [0, 1, …]} and {"update": …} (see JobExecutor.update) any number of times; end of
            file: stop at once
    stdout  messages, at least every "beat_seconds" of the job

A worker that writes anything else is replaced, as an unreadable line may have been a game. The usual command is
workers/child.py, which executes any job.
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
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import cycle, pairwise
from pathlib import Path
from typing import IO, Any, TypeVar

from pipeline.errors import UsageError
from pipeline.machine import share_niceness
from pipeline.networks.gpu import visible_gpus
from pipeline.workers.worker_pool import OutcomeReader, RemotePool, Updates, Worker

O = TypeVar("O")  # noqa: E741  an outcome

COMMAND = (sys.executable, "-P", "-m", "pipeline.workers.child")  # -P: a folder named pipeline may be here
DRAIN_SECONDS = 1.0  # for reading the pipe of a worker that has ended
GRACE_SECONDS = 5.0  # for a stopping worker to close its players
BEAT_SECONDS = 1.0  # the longest time between two reports of a worker's progress


def check_workers(runner: str, workers: int) -> None:
    """Raises UsageError for worker processes of this machine together with a cluster."""
    if runner == "ray" and workers:
        raise UsageError(f"--workers {workers}: processes of this machine; leave it out with --runner ray")


def on_shares_of_the_machine(job: dict[str, Any], workers: int) -> list[dict[str, Any]]:
    """The job of each worker, which keeps to its share of the cores, to all of them if there are fewer than workers;
    and to one GPU if there are several.
    """
    jobs, gpus = [job] * workers, visible_gpus()
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if len(cores) >= workers:
        ends = [number * len(cores) // workers for number in range(workers + 1)]
        jobs = [{**job, "cores": cores[first:end]} for first, end in pairwise(ends)]
    if len(gpus) > 1:
        jobs = [{**one, "gpu": gpu} for one, gpu in zip(jobs, cycle(gpus), strict=False)]
    return jobs


@dataclass(eq=False, kw_only=True)
class WorkerProcess(Worker):
    """A process as a worker. ended: when its process was first found to have ended; 0: not yet."""

    process: subprocess.Popen[bytes]
    ended: float = 0.0
    listener: threading.Thread | None = None

    def send(self, numbers: Sequence[int]) -> None:
        self.write({"play": list(numbers)})

    def write(self, order: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        with suppress(OSError, ValueError):  # it has died, as the end of the other pipe will show
            self.process.stdin.write(json.dumps(order).encode() + b"\n")
            self.process.stdin.flush()

    def close_input(self) -> None:
        assert self.process.stdin is not None
        with suppress(OSError):  # unread input can't be flushed
            self.process.stdin.close()

    def end(self, grace_seconds: float = 0.0) -> str:
        """Kill it unless it ends in time; returns how it ended. Safe, as workers write no files."""
        try:
            self.process.wait(max(0.0, grace_seconds))
        except subprocess.TimeoutExpired:
            self.process.kill()
        code = self.process.wait()
        self.close_input()
        return f"its process ended ({f'signal {signal.Signals(-code).name}' if code < 0 else f'exit code {code}'})"


class ProcessPool(RemotePool[O, WorkerProcess]):
    def __init__(
        self,
        reader: OutcomeReader[O],
        jobs: Sequence[dict[str, Any]],
        capacity: int,
        hang_seconds: float,
        warn: Callable[[str], None] = lambda text: None,
        updates: Updates = lambda: None,
        command: Sequence[str] = COMMAND,
    ) -> None:
        """jobs: one per worker."""
        super().__init__(reader, capacity, hang_seconds, warn, updates)
        self._command = command
        path = os.pathsep.join(filter(None, [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")]))
        self._environment = {**os.environ, "PYTHONPATH": path}  # in which the command finds this program
        self._jobs = [{"beat_seconds": min(BEAT_SECONDS, hang_seconds / 4), **job} for job in jobs]
        self._arrived: queue.SimpleQueue[tuple[WorkerProcess, bytes | None]] = queue.SimpleQueue()  # None: pipe's end
        try:
            for number in range(len(jobs)):
                self.workers.append(self._start(number))
        except BaseException:
            self.close()
            raise

    def update(self, update: Any, models: Sequence[Path] = ()) -> None:
        """As RemotePool.update. Workers read the models from this machine's disk."""
        self._jobs = [{**job, "update": update} for job in self._jobs]
        for worker in self.workers:
            worker.write({"update": update})

    def close(self) -> None:
        self._closed = True
        for worker in self.workers:
            worker.close_input()
        deadline = time.monotonic() + GRACE_SECONDS
        for worker in self.workers:
            worker.end(deadline - time.monotonic())
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
        worker.write(self._jobs[number])
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
            return [] if self._closed else self._lost(worker, worker.end(0.2))
        return self._read(worker, line)

    def _check(self, worker: WorkerProcess) -> list[O]:
        """Also finds a worker that ended while a child process keeps its pipe open."""
        if worker.process.poll() is None or not self._arrived.empty():  # its last lines may be among them
            return []
        worker.ended = worker.ended or time.monotonic()
        if time.monotonic() - worker.ended < DRAIN_SECONDS:
            return []
        return self._lost(worker, worker.end())

    def _replace(self, worker: WorkerProcess) -> None:
        worker.end()
        if self._problem is None:
            self.workers[worker.number] = self._start(worker.number)
