"""Worker pools: who plays the games of a match at once, and what happens to a game that fails.

A worker_pool takes numbers of games and gives back outcomes, in any order: games, or failures. ThreadPool plays in this
process, a thread a thread; ProcessPool has workers, processes that may die or hang without harm to anything but the
games they were playing. conduct() gives a worker_pool its games, and those that failed again.

A worker is any command that reads a job and then numbers of games as JSON lines, and writes JSON lines:
    stdin   the job, then {"play": [0, 1, …]} any number of times; end of file: stop at once
    stdout  {"game": MatchGame}  {"failure": MatchFailure}  {"beat": [steps of each thread], "live": [games of each
    thread]}
            {"error": one line}: the job itself is impossible
Whatever else it writes is its end: a line that can't be read may have been a game.
"""

from __future__ import annotations

import json
import queue
import signal
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, Any

from pipeline.errors import MuGoError
from pipeline.matches.match import GameQueue, MatchThread, Outcome, Pairing
from pipeline.storage.matches import MatchFailure, MatchGame

ATTEMPTS = 2  # a game that fails is tried once more
LAST_WORDS_SECONDS = 1.0  # for reading what stands in the pipe of a worker that has ended
GRACE_SECONDS = 5.0  # a worker that is told to stop lets go of its players in that time
PAUSE_SECONDS = 5.0  # when nobody looked after the workers for so long (Ctrl-Z, a slow disk), that time isn't theirs
LOADING = 10  # a worker may take so many times longer to load than it may take for a step


class WorkerPool(ABC):
    """See the module docstring."""

    @abstractmethod
    def give(self, numbers: Sequence[int]) -> None:
        """Further games to play, before those that wait: what never works is then found out soon."""

    @abstractmethod
    def outcomes(self, seconds: float) -> list[Outcome]:
        """What has ended since the last call, after waiting for the first of it for at most so long."""

    @abstractmethod
    def close(self) -> None:
        """Stop playing. What ended before can still be had from outcomes()."""


def conduct(
    worker_pool: WorkerPool,
    numbers: Sequence[int],
    on_outcomes: Callable[[list[MatchGame], list[MatchFailure]], bool],
    given_up: set[int] | None = None,
) -> None:
    """Let the worker_pool play the games; each that fails is tried again, up to ATTEMPTS times in all. Closes the
    worker_pool.

    Where a thread or a worker crashed, nobody knows which of its games it was. So games that had their attempts and
    were
    not alone are tried further, apart from the others and in ever smaller groups, until one that crashes was alone.

    on_outcomes: called with what has ended since the last call; returns whether to play on. If it says no, or on
    KeyboardInterrupt, the worker_pool is closed, and what had ended by then is handed over.
    given_up: numbers of failed games that are not tried again are added to it, before on_outcomes hears of the failure.
    """
    trials = _Trials(numbers, set() if given_up is None else given_up)

    def hand_over(outcomes: Sequence[Outcome]) -> bool:
        games = [one for one in outcomes if isinstance(one, MatchGame)]
        failures, again = trials.judge(outcomes)
        play_on = on_outcomes(games, failures) if outcomes else True
        if play_on and again:
            worker_pool.give(again)
        return play_on

    closed = False
    try:
        worker_pool.give(numbers)
        while trials.left:
            if not hand_over(worker_pool.outcomes(0.5)):
                break
        worker_pool.close()
        closed = True
    finally:
        if not closed:
            worker_pool.close()
        hand_over([one for one in worker_pool.outcomes(0.0) if isinstance(one, MatchGame)])


class _Trials:
    """Which games are still to be played, and how often each was tried. left: neither finished nor given up."""

    def __init__(self, numbers: Collection[int], given_up: set[int]) -> None:
        self.left = set(numbers)
        self._given_up = given_up
        self._attempts: dict[int, int] = {}
        self._suspects: list[list[int]] = []  # groups; one of each may be what crashes

    def judge(self, outcomes: Sequence[Outcome]) -> tuple[list[MatchFailure], list[int]]:
        """The failures among them with their attempts counted, and what is to be played now."""
        in_play = self._in_play()
        failures, again, crashed = [], [], []
        for one in outcomes:
            if isinstance(one, MatchGame):
                self.left.discard(one.index)
                continue
            number = one.failed
            attempt = self._attempts[number] = self._attempts.get(number, 0) + 1
            failures.append(one.model_copy(update={"attempt": attempt}))
            if attempt < ATTEMPTS:
                again.append(number)
            elif one.player or in_play == {number}:
                self.left.discard(number)
                self._given_up.add(number)
            else:
                crashed.append(number)
        half = len(crashed) // 2
        self._suspects += [group for group in (crashed[:half], crashed[half:]) if group]
        if self._suspects and not self._in_play():
            again = self._suspects.pop()
        return failures, again

    def _in_play(self) -> set[int]:
        return self.left.difference(*self._suspects)


# In this process


class ThreadPool(WorkerPool):
    """Threads in threads of this process. A thread that raises loses its games and goes on with fresh players."""

    def __init__(self, pairing: Pairing, num_threads: int, num_rows: int) -> None:
        self._pairing = pairing
        self._num_rows = num_rows
        self._arrived: queue.SimpleQueue[Outcome | BaseException] = queue.SimpleQueue()
        self._problem: BaseException | None = None
        self._games = GameQueue()
        self.threads: list[MatchThread | None] = [None] * num_threads
        self._threads = [
            threading.Thread(target=self._run, args=(thread,), daemon=True) for thread in range(num_threads)
        ]
        for thread in self._threads:
            thread.start()

    def give(self, numbers: Sequence[int]) -> None:
        self._games.give(numbers)

    def outcomes(self, seconds: float) -> list[Outcome]:
        """Raises what kept a thread from starting at all."""
        if self._problem is not None and not self._games.closed:
            raise self._problem
        found: list[Outcome] = []
        while self._problem is None or self._games.closed:
            try:
                one = self._arrived.get(timeout=seconds) if seconds > 0 and not found else self._arrived.get_nowait()
            except queue.Empty:
                break
            if isinstance(one, BaseException):
                self._problem = self._problem or one
            else:
                found.append(one)
        return found

    def close(self) -> None:
        self._games.close()
        for thread in self._threads:
            thread.join()

    def _run(self, number: int) -> None:
        try:
            while not self._games.closed:
                thread = MatchThread(self._pairing, self._num_rows, number, self._games, self._arrived.put)
                self.threads[number] = thread
                try:
                    thread.run()
                except BaseException as error:  # of a thread: nobody interrupts it, so this is a player's doing
                    thread.abandon(f"{type(error).__name__}: {' '.join(str(error).split())}")
                finally:
                    thread.close()
        except BaseException as error:  # no player, no game: handed to the calling thread, which raises it
            self._arrived.put(error)


# In other processes


@dataclass(eq=False)
class _Worker:
    """A process, the games it has been given and not finished, and when it was last seen to get on.

    steps: of each thread, as far as it said; moved: when each thread last made one, or had nothing to do; loaded:
    whether
    any step or game shows that it has begun to play.
    """

    number: int
    process: subprocess.Popen[bytes]
    games: set[int] = field(default_factory=set)
    steps: list[int] = field(default_factory=list)
    moved: list[float] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)
    loaded: bool = False
    ended: float = 0.0  # when its process was first seen to be no more
    listener: threading.Thread | None = None

    def beat(self, steps: list[int], live: list[int]) -> None:
        now = time.monotonic()
        if not self.moved:
            self.steps, self.moved = [0] * len(steps), [now] * len(steps)
        for thread, (count, games) in enumerate(zip(steps, live, strict=True)):
            if count != self.steps[thread] or (games == 0 and any(live)):
                self.steps[thread], self.moved[thread] = count, now
        self.loaded = self.loaded or any(steps)

    def stuck(self, limit: float) -> float:
        """For how long a thread has made no step, if that is too long; else 0. The first may take LOADING times
        that."""
        seconds = time.monotonic() - min(self.moved, default=self.started)
        return seconds if seconds > limit * (1 if self.loaded else LOADING) else 0.0

    def forgive(self, seconds: float) -> None:
        self.started += seconds
        self.moved = [moved + seconds for moved in self.moved]


class ProcessPool(WorkerPool):
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
        self._arrived: queue.SimpleQueue[tuple[_Worker, bytes | None]] = queue.SimpleQueue()  # None: its pipe's end
        self._looked = time.monotonic()
        self._stillborn = 0  # workers, since one made a step, that ended before they made any
        self._problem: MuGoError | None = None
        self._closed = False
        self.workers: list[_Worker] = []
        try:
            for number in range(len(jobs)):
                self.workers.append(self._start(number))
        except BaseException:
            self.close()
            raise

    def give(self, numbers: Sequence[int]) -> None:
        self._waiting[:0] = numbers
        for worker in self.workers:
            self._feed(worker)

    def outcomes(self, seconds: float) -> list[Outcome]:
        """Raises MuGoError if workers can't do this job at all."""
        if self._problem is not None and not self._closed:
            raise self._problem
        found: list[Outcome] = []
        deadline = time.monotonic() + seconds
        self._forgive_pause()
        while self._problem is None or self._closed:
            left = deadline - time.monotonic()
            try:
                worker, line = self._arrived.get(timeout=left) if left > 0 and not found else self._arrived.get_nowait()
            except queue.Empty:
                if not self._closed:
                    for worker in list(self.workers):
                        found += self._look_after(worker)
                break
            found += self._heard(worker, line)
        self._looked = time.monotonic()
        return found

    def close(self) -> None:
        self._closed = True
        for worker in self.workers:
            _close_input(worker.process)
        deadline = time.monotonic() + GRACE_SECONDS
        for worker in self.workers:
            _end(worker.process, deadline - time.monotonic())
            if worker.listener is not None:
                worker.listener.join(LAST_WORDS_SECONDS)

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
        worker.listener = threading.Thread(target=self._listen, args=(worker, process.stdout), daemon=True)
        worker.listener.start()
        return worker

    def _listen(self, worker: _Worker, pipe: IO[bytes]) -> None:
        for line in pipe:
            self._arrived.put((worker, line))
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

    def _forgive_pause(self) -> None:
        """Nobody listened for a while: what they did meanwhile has not been heard yet."""
        pause = time.monotonic() - self._looked
        if pause > PAUSE_SECONDS:
            for worker in self.workers:
                worker.forgive(pause)

    def _look_after(self, worker: _Worker) -> list[Outcome]:
        """What isn't heard of: that it hangs, or that it ended while a process of its own keeps its pipe open."""
        if worker.games and (stuck := worker.stuck(self._hang_seconds)):
            return self._lost(worker, f"it made no step for {stuck:.0f} seconds and was stopped")
        if worker.process.poll() is None:
            return []
        worker.ended = worker.ended or time.monotonic()
        if time.monotonic() - worker.ended < LAST_WORDS_SECONDS:
            return []
        return self._lost(worker, f"its process ended ({_end(worker.process, 0.0)})")

    def _heard(self, worker: _Worker, line: bytes | None) -> list[Outcome]:
        """What a line of a worker brings. Lines of one that was given up count for nothing."""
        if self.workers[worker.number] is not worker:
            return []
        if line is None:
            return [] if self._closed else self._lost(worker, f"its process ended ({_end(worker.process, 0.2)})")
        try:
            return self._understand(worker, line)
        except (ValueError, TypeError, KeyError, RecursionError):
            problem = f"it wrote {line[:80]!r}, which is no message of a worker"
            return [] if self._closed else self._lost(worker, problem)

    def _understand(self, worker: _Worker, line: bytes) -> list[Outcome]:
        """Raises ValueError, TypeError, KeyError or RecursionError for what is none of the module docstring's lines."""
        message = json.loads(line)
        outcome: Outcome
        if "game" in message:
            outcome, number = (game := MatchGame.model_validate(message["game"])), game.index
        elif "failure" in message:
            outcome, number = (failure := MatchFailure.model_validate(message["failure"])), failure.failed
        elif "error" in message:
            self._problem = MuGoError(f"worker {worker.number}: {message['error']}")
            return []
        else:
            worker.beat(message["beat"], message["live"])
            self._stillborn = 0 if worker.loaded else self._stillborn
            return []
        if number not in worker.games:
            raise ValueError(f"game {number}")
        worker.loaded = True
        worker.games.discard(number)
        self._feed(worker)
        return [outcome]

    def _lost(self, worker: _Worker, problem: str) -> list[Outcome]:
        """The worker is gone or has to go: its games failed, another takes its place."""
        _end(worker.process, 0.0)
        lost: list[Outcome] = [
            MatchFailure(
                failed=number,
                attempt=1,
                kind="crash",
                player="",
                problem=f"worker {worker.number}: {problem}",
                moves=[],
            )
            for number in sorted(worker.games)
        ]
        worker.games = set()
        if not worker.loaded:
            self._stillborn += 1
        if self._stillborn > ATTEMPTS * len(self.workers):
            self._problem = MuGoError(
                f"worker {worker.number}: {problem}, before it played anything, like {self._stillborn - 1} before it; "
                "what it wrote on the standard error says more"
            )
            return lost
        self.workers[worker.number] = self._start(worker.number)
        self._feed(self.workers[worker.number])
        return lost


def _send(process: subprocess.Popen[bytes], message: dict[str, Any]) -> None:
    assert process.stdin is not None
    with suppress(OSError, ValueError):  # it has died: its last word, on the other pipe, says so
        process.stdin.write(json.dumps(message).encode() + b"\n")
        process.stdin.flush()


def _close_input(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    with suppress(OSError):  # what it never read is flushed in vain
        process.stdin.close()


def _end(process: subprocess.Popen[bytes], grace_seconds: float) -> str:
    """Stop a worker, if it doesn't end by itself in time; how it ended. It writes no files, so nothing is damaged."""
    try:
        process.wait(max(0.0, grace_seconds))
    except subprocess.TimeoutExpired:
        process.kill()
    code = process.wait()
    _close_input(process)
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
