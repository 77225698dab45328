"""Crews: who plays the games of a match at once, and what happens to a game that fails.

A crew takes numbers of games and gives back outcomes, in any order: games, or failures. ThreadCrew plays in this process, a
lane a thread; ProcessCrew has workers, processes that may die or hang without harm to anything but the games they were
playing. conduct() gives a crew its games, and a game that failed once more.

A worker is any command that reads a job and then numbers of games as JSON lines, and writes JSON lines:
    stdin   the job, then {"play": [0, 1, …]} any number of times; end of file: stop at once
    stdout  {"game": MatchGame}  {"failure": MatchFailure}  {"beat": [steps of each lane], "live": [games of each lane]}
            {"error": one line}: the job itself is impossible
"""

from __future__ import annotations

import json
import queue
import signal
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, Any

from pipeline.arena.match import GameQueue, MatchLane, Outcome, Pairing
from pipeline.errors import MuGoError
from pipeline.records.matches import MatchFailure, MatchGame

ATTEMPTS = 2  # a game that fails is tried once more
LOADING = 10  # a worker may take so many times longer to load than it may take for a step


class Crew(ABC):
    """See the module docstring."""

    @abstractmethod
    def give(self, numbers: Sequence[int]) -> None:
        """Further games to play."""

    @abstractmethod
    def outcomes(self, seconds: float) -> list[Outcome]:
        """What has ended since the last call, after waiting for the first of it for at most so long."""

    @abstractmethod
    def close(self) -> None:
        """Stop playing. What ended before can still be had from outcomes()."""


def conduct(
    crew: Crew, numbers: Sequence[int], on_outcomes: Callable[[list[MatchGame], list[MatchFailure]], bool]
) -> None:
    """Let the crew play the games; each that fails is tried again, up to ATTEMPTS times in all. Closes the crew.

    on_outcomes: called with what has ended since the last call; returns whether to play on. If it says no, or on
    KeyboardInterrupt, the crew is closed, and what had ended by then is handed over.
    """
    left = set(numbers)
    attempts: dict[int, int] = {}

    def hand_over(outcomes: list[Outcome]) -> bool:
        games = [one for one in outcomes if isinstance(one, MatchGame)]
        failures = []
        for one in outcomes:
            if isinstance(one, MatchFailure):
                attempt = attempts[one.failed] = attempts.get(one.failed, 0) + 1
                failures.append(one.model_copy(update={"attempt": attempt}))
        left.difference_update(game.index for game in games)
        left.difference_update(one.failed for one in failures if one.attempt >= ATTEMPTS)
        again = [one.failed for one in failures if one.attempt < ATTEMPTS]
        play_on = on_outcomes(games, failures) if outcomes else True
        if again and play_on:
            crew.give(again)
        return play_on

    closed = False
    try:
        crew.give(numbers)
        while left:
            if not hand_over(crew.outcomes(0.5)):
                break
        crew.close()
        closed = True
    finally:
        if not closed:
            crew.close()
        hand_over([one for one in crew.outcomes(0.0) if isinstance(one, MatchGame)])


# In this process


class ThreadCrew(Crew):
    """Lanes in threads of this process. A lane that raises loses its games and goes on with fresh players."""

    def __init__(self, pairing: Pairing, num_lanes: int, num_rows: int) -> None:
        self._pairing = pairing
        self._num_rows = num_rows
        self._arrived: queue.SimpleQueue[Outcome | BaseException] = queue.SimpleQueue()
        self._games = GameQueue()
        self.lanes: list[MatchLane | None] = [None] * num_lanes
        self._threads = [threading.Thread(target=self._run, args=(lane,), daemon=True) for lane in range(num_lanes)]
        for thread in self._threads:
            thread.start()

    def give(self, numbers: Sequence[int]) -> None:
        self._games.give(numbers)

    def outcomes(self, seconds: float) -> list[Outcome]:
        """Raises what kept a lane from starting at all."""
        found: list[Outcome] = []
        while True:
            try:
                one = self._arrived.get(timeout=seconds) if seconds > 0 and not found else self._arrived.get_nowait()
            except queue.Empty:
                return found
            if isinstance(one, BaseException):
                for outcome in found:
                    self._arrived.put(outcome)
                raise one
            found.append(one)

    def close(self) -> None:
        self._games.close()
        for thread in self._threads:
            thread.join()

    def _run(self, number: int) -> None:
        while not self._games.closed:
            try:
                lane = MatchLane(self._pairing, self._num_rows, number, self._games, self._arrived.put)
            except BaseException as error:  # no player, no game: handed to the calling thread, which raises it
                self._arrived.put(error)
                return
            self.lanes[number] = lane
            try:
                lane.run()
            except Exception as error:
                lane.abandon(f"{type(error).__name__}: {' '.join(str(error).split())}")
            finally:
                lane.close()


# In other processes


@dataclass
class _Worker:
    """A process, the games it has been given and not finished, and when it was last seen to get on."""

    number: int
    process: subprocess.Popen[bytes]
    games: set[int] = field(default_factory=set)
    steps: list[int] = field(default_factory=list)
    moved: list[float] = field(default_factory=list)  # when each lane last made a step, or had nothing to do
    started: float = field(default_factory=time.monotonic)
    error: str = ""  # its own last words


class ProcessCrew(Crew):
    """Worker processes. One that dies, or makes no step for hang_seconds, loses its games and is replaced."""

    def __init__(
        self,
        command: Sequence[str],
        jobs: Sequence[dict[str, Any]],
        capacity: int,
        hang_seconds: float,
        environment: dict[str, str] | None = None,
    ) -> None:
        """jobs: one per worker; capacity: how many games a worker plays at a time."""
        self._environment = environment
        self._command = list(command)
        self._jobs = jobs
        self._capacity = capacity
        self._hang_seconds = hang_seconds
        self._waiting: list[int] = []
        self._arrived: queue.SimpleQueue[tuple[_Worker, dict[str, Any] | None]] = queue.SimpleQueue()
        self._closed = False
        self.workers = [self._start(number) for number in range(len(jobs))]

    def give(self, numbers: Sequence[int]) -> None:
        self._waiting.extend(numbers)
        for worker in self.workers:
            self._feed(worker)

    def outcomes(self, seconds: float) -> list[Outcome]:
        found: list[Outcome] = []
        deadline = time.monotonic() + seconds
        while True:
            left = deadline - time.monotonic()
            try:
                worker, message = self._arrived.get(timeout=left) if left > 0 and not found else self._arrived.get_nowait()
            except queue.Empty:
                if not self._closed:
                    found.extend(self._hung())
                return found
            found.extend(self._heard(worker, message))

    def close(self) -> None:
        self._closed = True
        for worker in self.workers:
            _end(worker.process)

    def _start(self, number: int) -> _Worker:
        # A session of its own: Ctrl-C is for the process that leads; a worker stops when its standard input ends.
        process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            env=self._environment,
        )
        worker = _Worker(number, process)
        _send(process, self._jobs[number])
        threading.Thread(target=self._listen, args=(worker, process.stdout), daemon=True).start()
        return worker

    def _listen(self, worker: _Worker, pipe: IO[bytes]) -> None:
        for line in pipe:
            try:
                message = json.loads(line)
            except ValueError:
                message = {"error": f"unreadable line {line[:80]!r}"}
            self._arrived.put((worker, message))
        pipe.close()
        self._arrived.put((worker, None))

    def _feed(self, worker: _Worker) -> None:
        room = self._capacity - len(worker.games)
        # Shared out, not all to the first: each takes at most its part of what waits.
        fair = -(-(len(self._waiting) + sum(len(one.games) for one in self.workers)) // len(self.workers))
        count = min(room, fair - len(worker.games), len(self._waiting))
        if count > 0:
            numbers, self._waiting = self._waiting[:count], self._waiting[count:]
            worker.games.update(numbers)
            _send(worker.process, {"play": numbers})

    def _heard(self, worker: _Worker, message: dict[str, Any] | None) -> list[Outcome]:
        if message is None:
            return self._lost(worker, worker.error or f"its process ended ({_end(worker.process)})")
        outcome: Outcome | None = None
        if "game" in message:
            outcome = MatchGame.model_validate(message["game"])
        elif "failure" in message:
            outcome = MatchFailure.model_validate(message["failure"])
        elif "beat" in message:
            self._beat(worker, message["beat"], message["live"])
        elif "error" in message:
            worker.error = message["error"]
        if outcome is None:
            return []
        number = outcome.index if isinstance(outcome, MatchGame) else outcome.failed
        if number not in worker.games:
            return []  # of a worker that had been given up
        worker.games.discard(number)
        self._feed(worker)
        return [outcome]

    def _beat(self, worker: _Worker, steps: list[int], live: list[int]) -> None:
        now = time.monotonic()
        if len(worker.steps) != len(steps):
            worker.steps, worker.moved = list(steps), [now] * len(steps)
        for lane, (count, games) in enumerate(zip(steps, live, strict=True)):
            if count != worker.steps[lane] or games == 0:
                worker.steps[lane], worker.moved[lane] = count, now

    def _hung(self) -> list[Outcome]:
        now = time.monotonic()
        found: list[Outcome] = []
        for worker in list(self.workers):
            if not worker.games:
                continue
            since = now - min(worker.moved, default=worker.started)
            allowed = self._hang_seconds * (1 if worker.moved else LOADING)
            if since > allowed:
                found.extend(self._lost(worker, f"it made no step for {since:.0f} seconds and was stopped"))
        return found

    def _lost(self, worker: _Worker, problem: str) -> list[Outcome]:
        """The worker is gone: its games failed, another takes its place."""
        if worker not in self.workers or self._closed:
            return []
        _end(worker.process)
        lost: list[Outcome] = [
            MatchFailure(
                failed=number, attempt=1, kind="crash", player="", problem=f"worker {worker.number}: {problem}", moves=[]
            )
            for number in sorted(worker.games)
        ]
        idle = not worker.games
        worker.games = set()
        if idle and not worker.moved:
            raise MuGoError(f"worker {worker.number}: {problem}, before it played anything")
        self.workers[worker.number] = self._start(worker.number)
        self._feed(self.workers[worker.number])
        return lost


def _send(process: subprocess.Popen[bytes], message: dict[str, Any]) -> None:
    assert process.stdin is not None
    with suppress(OSError, ValueError):  # it has died: its last word, on the other pipe, says so
        process.stdin.write(json.dumps(message).encode() + b"\n")
        process.stdin.flush()


def _end(process: subprocess.Popen[bytes]) -> str:
    """Stop a worker at once; how it ended. Workers write nothing, so nothing can be lost."""
    if process.poll() is None:
        try:
            process.wait(0.2)
        except subprocess.TimeoutExpired:
            process.kill()
    code = process.wait()
    with suppress(OSError):
        if process.stdin is not None:
            process.stdin.close()
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
