"""Worker pools: what plays the games of a match at once, and what becomes of a game that fails.

A worker pool takes numbers of games and gives back outcomes in any order: games, or failures. ThreadPool plays in this
process, with a MatchThread in each thread; ProcessPool has workers, processes that may die or hang without harm to
anything but the games they were playing. conduct() gives a pool its games, and failed ones again.

A worker is any command that reads a job and then numbers of games as JSON lines, and writes JSON lines:
    stdin   the job, then {"play": [0, 1, …]} any number of times; end of file: stop at once
    stdout  {"game": MatchGame}  {"failure": MatchFailure}
            {"beat": [steps of each thread], "live": [games of each thread]}
            {"error": one line}: the job itself is impossible
A worker that writes anything else is ended: a line that can't be read may have been a game.
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
from pipeline.stalls import Watch
from pipeline.storage.matches import MatchFailure, MatchGame

ATTEMPTS = 2  # a game that fails is tried once more
LAST_WORDS_SECONDS = 1.0  # for reading what is left in the pipe of a worker that has ended
GRACE_SECONDS = 5.0  # for a worker that is asked to stop to close its players
PAUSE_SECONDS = 5.0  # if outcomes() isn't called for this long (Ctrl-Z, a slow disk), that isn't the workers' fault
LOADING = 10  # loading may take this many times longer than a step


class WorkerPool(ABC):
    """See the module docstring."""

    @abstractmethod
    def give(self, numbers: Sequence[int]) -> None:
        """Further games, to be played before those that wait: so a game that always fails is found out soon."""

    @abstractmethod
    def outcomes(self, seconds: float) -> list[Outcome]:
        """What has ended since the last call; waits at most this long for the first outcome."""

    @abstractmethod
    def close(self) -> None:
        """Stop playing. outcomes() still returns what ended before."""


def conduct(
    pool: WorkerPool,
    numbers: Sequence[int],
    on_outcomes: Callable[[list[MatchGame], list[MatchFailure]], bool],
    given_up: set[int] | None = None,
) -> None:
    """Let the pool play the games, then close it; a game that fails is tried again, up to ATTEMPTS times in all.

    When a thread or a worker crashes, it isn't known which of its games is to blame. So games that had their attempts
    and were not alone are tried further, apart from the others and in ever smaller groups, until one crashes alone.

    on_outcomes  called with what has ended since the last call; returns whether to play on. After False, or on
                 KeyboardInterrupt, the pool is closed, and the games that had ended by then are handed over
    given_up     numbers of failed games that won't be tried again are added, before on_outcomes gets the failure
    """
    trials = _Trials(numbers, set() if given_up is None else given_up)

    def hand_over(outcomes: Sequence[Outcome]) -> bool:
        games = [one for one in outcomes if isinstance(one, MatchGame)]
        failures, again = trials.judge(outcomes)
        play_on = on_outcomes(games, failures) if outcomes else True
        if play_on and again:
            pool.give(again)
        return play_on

    closed = False
    try:
        pool.give(numbers)
        while trials.left and hand_over(pool.outcomes(0.5)):
            pass
        pool.close()
        closed = True
    finally:
        try:
            if not closed:  # also if Ctrl-C came while it closed
                pool.close()
        finally:
            hand_over([one for one in pool.outcomes(0.0) if isinstance(one, MatchGame)])


class _Trials:
    """Which games are still to be played, and how often each was tried. left: those neither finished nor given up."""

    def __init__(self, numbers: Collection[int], given_up: set[int]) -> None:
        self.left = set(numbers)
        self._given_up = given_up
        self._attempts: dict[int, int] = {}
        self._suspects: list[list[int]] = []  # groups of games set apart, any of which may be the one that crashes

    def judge(self, outcomes: Sequence[Outcome]) -> tuple[list[MatchFailure], list[int]]:
        """(the failures among the outcomes, their attempts counted; the games to be played again now)."""
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
    """MatchThreads in this process. One that raises loses its games and is replaced by one with fresh players.

    One that hangs can't be replaced: outcomes() and close() raise Hung. watched: whether they look for that; a worker
    process is watched from outside.
    match_threads: by number; None before the first has its players.
    """

    def __init__(self, pairing: Pairing, num_threads: int, num_rows: int, watched: bool = True) -> None:
        self._pairing = pairing
        self._watch = Watch() if watched else None
        self._num_rows = num_rows
        self._arrived: queue.SimpleQueue[Outcome | BaseException] = queue.SimpleQueue()
        self._problem: BaseException | None = None
        self._games = GameQueue()
        self.match_threads: list[MatchThread | None] = [None] * num_threads
        self._threads = [
            threading.Thread(target=self._run, args=(number,), daemon=True) for number in range(num_threads)
        ]
        for thread in self._threads:
            thread.start()

    def give(self, numbers: Sequence[int]) -> None:
        self._games.give(numbers)

    def outcomes(self, seconds: float) -> list[Outcome]:
        """Raises the error that kept a thread's players from being made."""
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
        if self._watch is not None and not found and not self._games.closed:
            self._watch.look(self._counts())
        return found

    def close(self) -> None:
        self._games.close()
        if self._watch is not None:
            self._watch.join(self._threads, self._counts)
        for thread in self._threads:
            thread.join()

    def _counts(self) -> list[object]:
        """For the watch. A thread that makes its players has made no step."""
        made = [one and (id(one), one.steps) for one in self.match_threads]
        return [count or () if one.is_alive() else None for one, count in zip(self._threads, made, strict=True)]

    def _run(self, number: int) -> None:
        try:
            while not self._games.closed:
                match_thread = MatchThread(self._pairing, self._num_rows, number, self._games, self._arrived.put)
                self.match_threads[number] = match_thread
                try:
                    match_thread.run()
                except BaseException as error:  # KeyboardInterrupt comes to the main thread, so this is a player's
                    match_thread.abandon(f"{type(error).__name__}: {' '.join(str(error).split())}")
                finally:
                    match_thread.close()
        except BaseException as error:  # without players there are no games: outcomes() raises it
            self._arrived.put(error)


# In other processes


@dataclass(eq=False)
class _Worker:
    """A process, the games it has been given and not finished, and when it last made progress.

    steps   of each thread, as last reported
    moved   when each thread last made a step or had nothing to do
    loaded  whether a step or a game has shown that it has begun to play
    ended   when its process was first found to have ended; 0: not yet
    """

    number: int
    process: subprocess.Popen[bytes]
    games: set[int] = field(default_factory=set)
    steps: list[int] = field(default_factory=list)
    moved: list[float] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)
    loaded: bool = False
    ended: float = 0.0
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
        """For how long a thread has made no step, if that is beyond the limit, else 0. Loading may take longer."""
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
        """jobs: one per worker; capacity: games that a worker plays at a time."""
        self._environment = environment
        self._command = list(command)
        self._jobs = jobs
        self._capacity = capacity
        self._hang_seconds = hang_seconds
        self._waiting: list[int] = []
        self._arrived: queue.SimpleQueue[tuple[_Worker, bytes | None]] = queue.SimpleQueue()  # None: its pipe's end
        self._looked = time.monotonic()  # when outcomes() last returned
        self._stillborn = 0  # workers in a row that ended before they made a step
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
        # In a session of its own: Ctrl-C is for the leading process; a worker stops when its standard input ends.
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
        # Shared out evenly: each takes at most its share of what waits.
        fair = -(-(len(self._waiting) + sum(len(one.games) for one in self.workers)) // len(self.workers))
        count = min(room, fair - len(worker.games), len(self._waiting))
        if count > 0:
            numbers, self._waiting = self._waiting[:count], self._waiting[count:]
            worker.games.update(numbers)
            _send(worker.process, {"play": numbers})

    def _forgive_pause(self) -> None:
        """After a pause of this process, what the workers did meanwhile hasn't been read yet."""
        pause = time.monotonic() - self._looked
        if pause > PAUSE_SECONDS:
            for worker in self.workers:
                worker.forgive(pause)

    def _look_after(self, worker: _Worker) -> list[Outcome]:
        """Find what no line reports: that it hangs, or that it ended while a process of its own keeps its pipe open."""
        if worker.games and (stuck := worker.stuck(self._hang_seconds)):
            return self._lost(worker, f"it made no step for {stuck:.0f} seconds and was stopped")
        if worker.process.poll() is None:
            return []
        worker.ended = worker.ended or time.monotonic()
        if time.monotonic() - worker.ended < LAST_WORDS_SECONDS:
            return []
        return self._lost(worker, f"its process ended ({_end(worker.process, 0.0)})")

    def _heard(self, worker: _Worker, line: bytes | None) -> list[Outcome]:
        """The outcomes of a line, or of a pipe's end. Lines of a worker that was replaced are ignored."""
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
        """Raises ValueError, TypeError, KeyError or RecursionError for none of the module docstring's lines."""
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
        """End a worker, report its games as failed, and start another in its place."""
        _end(worker.process, 0.0)
        problem = f"worker {worker.number}: {problem}"
        lost: list[Outcome] = [
            MatchFailure(failed=number, attempt=1, kind="crash", player="", problem=problem, moves=[])
            for number in sorted(worker.games)
        ]
        worker.games = set()
        if not worker.loaded:
            self._stillborn += 1
        if self._stillborn > ATTEMPTS * len(self.workers):
            self._problem = MuGoError(
                f"{problem}, before it played anything, like {self._stillborn - 1} before it; "
                "what it wrote on the standard error says more"
            )
            return lost
        self.workers[worker.number] = self._start(worker.number)
        self._feed(self.workers[worker.number])
        return lost


def _send(process: subprocess.Popen[bytes], message: dict[str, Any]) -> None:
    assert process.stdin is not None
    with suppress(OSError, ValueError):  # it has died: the end of the other pipe will show that
        process.stdin.write(json.dumps(message).encode() + b"\n")
        process.stdin.flush()


def _close_input(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    with suppress(OSError):  # what it never read can't be flushed
        process.stdin.close()


def _end(process: subprocess.Popen[bytes], grace_seconds: float) -> str:
    """Kill a worker unless it ends by itself in time; says how it ended. It writes no files, so nothing is damaged."""
    try:
        process.wait(max(0.0, grace_seconds))
    except subprocess.TimeoutExpired:
        process.kill()
    code = process.wait()
    _close_input(process)
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
