"""Worker pools: numbers of games go in, outcomes come out in any order.

    WorkerPool   the interface of threads of this process, worker processes and Ray actors
    RemotePool   hands out numbers to workers; one that dies or hangs harms only its own games
    Playing      the other side, in a worker: the same numbers in, outcomes out as bytes

A job describes the games as JSON; a worker makes a Playing from it and needs nothing else. The job also determines the
type O of outcomes, which pools don't interpret. A worker never has more numbers than its capacity, which bounds the
outcomes that wait if they are taken slowly.
"""

from __future__ import annotations

import importlib
import sys
import time
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from pipeline.errors import MuGoError

O = TypeVar("O")  # noqa: E741  an outcome

PAUSE_SECONDS = 5.0  # a longer pause between calls of outcomes() (Ctrl-Z, a slow disk) doesn't count as hanging
LOADING_FACTOR = 10  # loading may take this many times longer than a step
MAX_CRASHES = 5  # of workers that all were playing the same game, before it is taken to be the cause
MAX_FAILED_STARTS = 2  # workers in a row that end before their first step, for each worker of the pool


class WorkerPool(ABC, Generic[O]):
    """See the module docstring."""

    def give(self, numbers: Sequence[int]) -> None:
        """Add games, to be played before those that wait, so that a game that always fails is found early.

        A pool that is made with all its games doesn't support this.
        """
        raise NotImplementedError

    @abstractmethod
    def outcomes(self, seconds: float) -> list[O]:
        """The outcomes since the last call; waits at most this long for the first."""

    @abstractmethod
    def close(self) -> None:
        """Stop playing. outcomes() still returns earlier outcomes."""


@dataclass(frozen=True)
class Reading(Generic[O]):
    """How a pool makes a job's outcomes.

    read  bytes from a Playing → (the game's number, outcome); None: the game ended without an outcome. Raises
          ValueError, TypeError, KeyError or RecursionError for invalid bytes
    lost  (a game's number, why its worker was lost) → outcome; None: silently play the game again
    """

    read: Callable[[bytes], tuple[int, O | None]]
    lost: Callable[[int, str], O | None]


# In a worker


class Counts(NamedTuple):
    """A Playing's progress: for each thread the steps made and the games in play, and the totals of named counters."""

    steps: Sequence[int]
    live: Sequence[int]
    totals: Mapping[str, int] = {}


class Playing(ABC):
    """Plays a job's games in a worker. Writes no files and may be killed at any time."""

    @abstractmethod
    def give(self, numbers: Sequence[int]) -> None:
        """As WorkerPool.give."""

    @abstractmethod
    def outcomes(self, seconds: float) -> list[bytes]:
        """As WorkerPool.outcomes, as bytes. Raises MuGoError if the job is impossible."""

    @abstractmethod
    def counts(self) -> Counts: ...

    def warnings(self) -> list[str]:
        """Warnings for the user since the last call."""
        return []

    @abstractmethod
    def close(self) -> None:
        """As WorkerPool.close."""

    def follow(self, news: Any) -> None:  # noqa: B027  most jobs never change
        """Take changes of the job, as JSON, for games that start from now on. The job defines their content."""


Models = Mapping[str, Mapping[str, bytes]]
"""The files of models (run.models.model_files) by the path in the job, which may not exist on the worker's machine."""

MakePlaying = Callable[[dict[str, Any], Models], Playing]


def playing_of(job: dict[str, Any], models: Models) -> Playing:
    """The Playing of a job, made by the ``module:function`` of its "play". Raises MuGoError if players can't be made.

    models: more may be added later, before follow() names them.
    """
    module, name = job["play"].split(":")
    make: MakePlaying = getattr(importlib.import_module(module), name)
    return make(job, models)


# In the leading process


@dataclass(eq=False)
class Worker(ABC):
    """A worker as seen by the pool.

    games   given and not finished
    steps   of each thread, as last reported
    moved   when each thread last made a step or had nothing to do
    loaded  whether it has made a step or ended a game
    totals  of its Playing's Counts, as last reported
    """

    number: int
    games: set[int] = field(default_factory=set)
    steps: list[int] = field(default_factory=list)
    moved: list[float] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)
    loaded: bool = False
    totals: Mapping[str, int] = field(default_factory=dict)

    @abstractmethod
    def send(self, numbers: Sequence[int]) -> None:
        """Let it play these games."""

    def beat(self, steps: Sequence[int], live: Sequence[int]) -> None:
        now = time.monotonic()
        if not self.moved:
            self.steps, self.moved = [0] * len(steps), [now] * len(steps)
        for thread, (count, games) in enumerate(zip(steps, live, strict=True)):
            if count != self.steps[thread] or (games == 0 and any(live)):
                self.steps[thread], self.moved[thread] = count, now
        self.loaded = self.loaded or any(steps)

    def stuck(self, limit: float) -> float:
        """Seconds since the slowest thread's last step if they exceed the limit, else 0. Loading may take longer."""
        seconds = time.monotonic() - min(self.moved, default=self.started)
        return seconds if seconds > limit * (1 if self.loaded else LOADING_FACTOR) else 0.0

    def postpone(self, seconds: float) -> None:
        """Extend its time limits."""
        self.started += seconds
        self.moved = [moved + seconds for moved in self.moved]


W = TypeVar("W", bound=Worker)


class RemotePool(WorkerPool[O], Generic[O, W]):
    """Hands out games to workers. One that dies, or makes no step for hang_seconds, loses its games and is replaced.

    workers: by number.
    """

    def __init__(self, reading: Reading[O], capacity: int, hang_seconds: float, most: int = sys.maxsize) -> None:
        """capacity: the most games of a worker at a time; most: of all workers together."""
        self._reading = reading
        self._most = most
        self._capacity = capacity
        self._hang_seconds = hang_seconds
        self._waiting: deque[int] = deque()
        self._looked = time.monotonic()  # when outcomes() last returned
        self._failed_starts = 0  # workers in a row that ended before their first step
        self._crashes: Counter[int] = Counter()  # by game
        self._totals: Counter[str] = Counter()  # of workers that are gone
        self._problem: MuGoError | None = None
        self._closed = False
        self.workers: list[W] = []

    def give(self, numbers: Sequence[int]) -> None:
        self._waiting.extendleft(reversed(numbers))
        for worker in self.workers:
            self._feed(worker)

    def counts(self) -> Counts:
        """Totals are over all workers, including those that are gone."""
        totals = Counter(self._totals)
        for worker in self.workers:
            totals.update(worker.totals)
        steps = [count for worker in self.workers for count in worker.steps]
        return Counts(steps, [len(worker.games) for worker in self.workers], totals)

    def outcomes(self, seconds: float) -> list[O]:
        """Reads messages until none waits or the time is up; once the pool is closed, all of them.

        Raises MuGoError if the job is impossible.
        """
        if self._problem is not None and not self._closed:
            raise self._problem
        found: list[O] = []
        deadline = time.monotonic() + seconds
        self._allow_for_pause()
        while self._problem is None or self._closed:
            left = deadline - time.monotonic()
            received = self._receive(left if left > 0 and not found else 0.0)
            found += received or []
            if received is None or (left <= 0 and not self._closed):
                if not self._closed:
                    for worker in list(self.workers):
                        found += self._check(worker)
                break
        self._looked = time.monotonic()
        return found

    @abstractmethod
    def _receive(self, seconds: float) -> list[O] | None:
        """The outcomes in the next message of a worker; waits at most this long. None: there is no message."""

    @abstractmethod
    def _check(self, worker: W) -> list[O]:
        """Replace a worker that hangs or has ended, which no message reports. Returns the outcomes of its games."""

    def _feed(self, worker: W) -> None:
        in_play = sum(len(one.games) for one in self.workers)
        room = min(self._capacity - len(worker.games), self._most - in_play)
        # Each worker takes at most an equal share of the waiting games.
        fair = -(-min(self._most, len(self._waiting) + in_play) // self._num_sharing())
        count = min(room, fair - len(worker.games), len(self._waiting))
        if count > 0:
            numbers = [self._waiting.popleft() for _ in range(count)]
            if not worker.games:  # its idle time doesn't count as hanging
                worker.moved = [time.monotonic()] * len(worker.moved)
            worker.games.update(numbers)
            worker.send(numbers)

    def _num_sharing(self) -> int:
        return len(self.workers)

    def _read(self, worker: W, message: bytes) -> list[O]:
        """The outcome of one of the worker's games. Raises as Reading.read, ValueError if it wasn't given that game."""
        number, outcome = self._reading.read(message)
        if number not in worker.games:
            raise ValueError(f"game {number}")
        worker.loaded = True
        worker.games.discard(number)
        self._feed(worker)
        return [] if outcome is None else [outcome]

    def _beaten(self, worker: W, steps: Sequence[int], live: Sequence[int]) -> None:
        worker.beat(steps, live)
        self._failed_starts = 0 if worker.loaded else self._failed_starts

    def _stuck(self, worker: W) -> str:
        """The problem of a worker that hangs; "" if it doesn't."""
        stuck = worker.stuck(self._hang_seconds) if worker.games else 0.0
        return f"it made no step for {stuck:.0f} seconds and was stopped" if stuck else ""

    def _taken_from(self, worker: W, problem: str) -> list[O]:
        """The outcomes of a lost worker's games, except those to be played again.

        The job is impossible after too many workers without a step, or too many crashes with the same game.
        """
        found = {number: self._reading.lost(number, problem) for number in sorted(worker.games)}
        worker.games = set()
        again = [number for number, outcome in found.items() if outcome is None]
        self._waiting.extendleft(reversed(again))
        self._crashes.update(again)
        if again and (most := max(self._crashes[number] for number in again)) > MAX_CRASHES:
            guilty = next(number for number in again if self._crashes[number] == most)
            self._problem = MuGoError(
                f"{problem}, like {most - 1} workers before it that played game {guilty}; see their stderr"
            )
        if not worker.loaded:
            self._failed_starts += 1
        if self._failed_starts > MAX_FAILED_STARTS * len(self.workers):
            self._problem = MuGoError(
                f"{problem}, before it played anything, like {self._failed_starts - 1} before it; see its stderr"
            )
        return [outcome for outcome in found.values() if outcome is not None]

    def _allow_for_pause(self) -> None:
        """Extend time limits by a pause of this process, as the workers' reports of that time are still unread."""
        pause = time.monotonic() - self._looked
        if pause > PAUSE_SECONDS:
            for worker in self.workers:
                worker.postpone(pause)
