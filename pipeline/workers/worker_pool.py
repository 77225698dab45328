"""Worker pools: numbers of games go in, what became of them comes out in any order. Who plays them is another matter.

    WorkerPool   the interface: threads of this process, worker processes and Ray actors all have it
    RemotePool   hands numbers out to workers that may die or hang without harm to anything but their games
    Playing      what plays in a worker, on the other side: the same numbers in, outcomes out as bytes

A job says what is to be played, as JSON; a worker turns it into a Playing and needs nothing else. Outcomes are of a
type of the job's (O): pools don't look into them. A worker never has more numbers than its capacity, so however slowly
outcomes are taken, no more than that wait for being taken.
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

PAUSE_SECONDS = 5.0  # if outcomes() isn't called for this long (Ctrl-Z, a slow disk), that isn't the workers' fault
LOADING = 10  # loading may take this many times longer than a step
MOST_CRASHES = 5  # of workers that all were playing a game, before it is taken to be the reason
STILLBORN = 2  # times as many workers as there are may end in a row before they made a step


class WorkerPool(ABC, Generic[O]):
    """See the module docstring."""

    def give(self, numbers: Sequence[int]) -> None:
        """Further games, to be played before those that wait: so a game that always fails is found out soon.

        A pool that is made with all games it will ever play takes none.
        """
        raise NotImplementedError

    @abstractmethod
    def outcomes(self, seconds: float) -> list[O]:
        """What has ended since the last call; waits at most this long for the first outcome."""

    @abstractmethod
    def close(self) -> None:
        """Stop playing. outcomes() still returns what ended before."""


@dataclass(frozen=True)
class Reading(Generic[O]):
    """What a job's outcomes are made of.

    read  of the bytes that a Playing gave: the game's number, and the outcome; None: the game has ended without one.
          Raises ValueError, TypeError, KeyError or RecursionError for anything else
    lost  of a game's number, and how the worker was lost that played it: an outcome that says so; None: that game is
          to be played again, and nobody needs to know
    """

    read: Callable[[bytes], tuple[int, O | None]]
    lost: Callable[[int, str], O | None]


# In a worker


class Counts(NamedTuple):
    """How far a Playing is, of each thread: steps made, games in play; and of all, what it counts over its life."""

    steps: Sequence[int]
    live: Sequence[int]
    totals: Mapping[str, int] = {}


class Playing(ABC):
    """What plays a job's games in a worker. It writes no files and may be ended at any moment."""

    @abstractmethod
    def give(self, numbers: Sequence[int]) -> None:
        """As WorkerPool.give."""

    @abstractmethod
    def outcomes(self, seconds: float) -> list[bytes]:
        """As WorkerPool.outcomes. Raises MuGoError if the job is impossible."""

    @abstractmethod
    def counts(self) -> Counts: ...

    def warnings(self) -> list[str]:
        """What its user should read, since the last call."""
        return []

    @abstractmethod
    def close(self) -> None:
        """As WorkerPool.close."""

    def follow(self, news: Any) -> None:  # noqa: B027  most jobs never change
        """What has changed of the job for games that start from now on, as JSON; who made the job says what."""


Models = Mapping[str, Mapping[str, bytes]]
"""The files of models (storage.models.model_files) by the path that the job has for them: a worker has no such path."""

MakePlaying = Callable[[dict[str, Any], Models], Playing]


def playing_of(job: dict[str, Any], models: Models) -> Playing:
    """What a job's line "play" names, ``module:function``. models: may be added to later, before follow() names them.

    Raises MuGoError if its players can't be made.
    """
    module, name = job["play"].split(":")
    make: MakePlaying = getattr(importlib.import_module(module), name)
    return make(job, models)


# Leading them


@dataclass(eq=False)
class Worker(ABC):
    """A worker as the pool sees it: the games it has been given and not finished, and when it last made progress.

    steps   of each thread, as last reported
    moved   when each thread last made a step or had nothing to do
    loaded  whether a step or a game has shown that it has begun to play
    totals  what its Playing counts, as last reported
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
        """For how long a thread has made no step, if that is beyond the limit, else 0. Loading may take longer."""
        seconds = time.monotonic() - min(self.moved, default=self.started)
        return seconds if seconds > limit * (1 if self.loaded else LOADING) else 0.0

    def forgive(self, seconds: float) -> None:
        self.started += seconds
        self.moved = [moved + seconds for moved in self.moved]


W = TypeVar("W", bound=Worker)


class RemotePool(WorkerPool[O], Generic[O, W]):
    """Hands games out to workers. One that dies, or makes no step for hang_seconds, loses its games and is replaced.

    workers: by number.
    """

    def __init__(self, reading: Reading[O], capacity: int, hang_seconds: float, most: int = sys.maxsize) -> None:
        """capacity: games that a worker has at a time; most: those that all have together."""
        self._reading = reading
        self._most = most
        self._capacity = capacity
        self._hang_seconds = hang_seconds
        self._waiting: deque[int] = deque()
        self._looked = time.monotonic()  # when outcomes() last returned
        self._stillborn = 0  # workers in a row that ended before they made a step
        self._crashes: Counter[int] = Counter()  # by game
        self._totals: Counter[str] = Counter()  # of workers that are no more
        self._problem: MuGoError | None = None
        self._closed = False
        self.workers: list[W] = []

    def give(self, numbers: Sequence[int]) -> None:
        self._waiting.extendleft(reversed(numbers))
        for worker in self.workers:
            self._feed(worker)

    def counts(self) -> Counts:
        """Totals over all workers, those that are no more included."""
        totals = Counter(self._totals)
        for worker in self.workers:
            totals.update(worker.totals)
        steps = [count for worker in self.workers for count in worker.steps]
        return Counts(steps, [len(worker.games) for worker in self.workers], totals)

    def outcomes(self, seconds: float) -> list[O]:
        """Reads messages until none waits or the time is up; all there are once the pool is closed.

        Raises MuGoError if workers can't do this job at all.
        """
        if self._problem is not None and not self._closed:
            raise self._problem
        found: list[O] = []
        deadline = time.monotonic() + seconds
        self._forgive_pause()
        while self._problem is None or self._closed:
            left = deadline - time.monotonic()
            heard = self._hear(left if left > 0 and not found else 0.0)
            found += heard or []
            if heard is None or (left <= 0 and not self._closed):
                if not self._closed:
                    for worker in list(self.workers):
                        found += self._look_after(worker)
                break
        self._looked = time.monotonic()
        return found

    @abstractmethod
    def _hear(self, seconds: float) -> list[O] | None:
        """The outcomes of the next message of a worker; waits at most this long. None: there is no message."""

    @abstractmethod
    def _look_after(self, worker: W) -> list[O]:
        """Find what no message reports: that it hangs, or has ended."""

    def _feed(self, worker: W) -> None:
        in_play = sum(len(one.games) for one in self.workers)
        room = min(self._capacity - len(worker.games), self._most - in_play)
        # Shared out evenly: each takes at most its share of what waits.
        fair = -(-min(self._most, len(self._waiting) + in_play) // self._num_sharing())
        count = min(room, fair - len(worker.games), len(self._waiting))
        if count > 0:
            numbers = [self._waiting.popleft() for _ in range(count)]
            if not worker.games:  # it had nothing to do until now
                worker.moved = [time.monotonic()] * len(worker.moved)
            worker.games.update(numbers)
            worker.send(numbers)

    def _num_sharing(self) -> int:
        return len(self.workers)

    def _read(self, worker: W, message: bytes) -> list[O]:
        """What became of a game of the worker's. Raises as Reading.read, ValueError if it wasn't given that game."""
        number, outcome = self._reading.read(message)
        if number not in worker.games:
            raise ValueError(f"game {number}")
        worker.loaded = True
        worker.games.discard(number)
        self._feed(worker)
        return [] if outcome is None else [outcome]

    def _beaten(self, worker: W, steps: Sequence[int], live: Sequence[int]) -> None:
        worker.beat(steps, live)
        self._stillborn = 0 if worker.loaded else self._stillborn

    def _stuck(self, worker: W) -> str:
        """What is wrong with a worker that hangs; "" if it doesn't."""
        stuck = worker.stuck(self._hang_seconds) if worker.games else 0.0
        return f"it made no step for {stuck:.0f} seconds and was stopped" if stuck else ""

    def _taken_from(self, worker: W, problem: str) -> list[O]:
        """What becomes of the games of a worker that was lost, those to be played again aside.

        After too many workers that never made a step, the job is found impossible.
        """
        found = {number: self._reading.lost(number, problem) for number in sorted(worker.games)}
        worker.games = set()
        again = [number for number, outcome in found.items() if outcome is None]
        self._waiting.extendleft(reversed(again))
        self._crashes.update(again)
        if again and (most := max(self._crashes[number] for number in again)) > MOST_CRASHES:
            guilty = next(number for number in again if self._crashes[number] == most)
            self._problem = MuGoError(
                f"{problem}, like {most - 1} workers before it that played game {guilty}; what they wrote on their "
                "standard error says more"
            )
        if not worker.loaded:
            self._stillborn += 1
        if self._stillborn > STILLBORN * len(self.workers):
            self._problem = MuGoError(
                f"{problem}, before it played anything, like {self._stillborn - 1} before it; "
                "what it wrote on the standard error says more"
            )
        return [outcome for outcome in found.values() if outcome is not None]

    def _forgive_pause(self) -> None:
        """After a pause of this process, what the workers did meanwhile hasn't been read yet."""
        pause = time.monotonic() - self._looked
        if pause > PAUSE_SECONDS:
            for worker in self.workers:
                worker.forgive(pause)
