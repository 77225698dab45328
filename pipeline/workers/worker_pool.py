"""Worker pools: numbers of games go in, outcomes come out in any order.

    WorkerPool   the interface of threads of this process, worker processes and Ray actors
    RemotePool   hands out numbers to workers; one that dies or hangs harms only its own games
    JobExecutor  plays a job's games in a worker: the same numbers in, outcomes out as JSON

A job describes the games as JSON; a worker makes a JobExecutor from it and needs nothing else. The job also determines
the type O of outcomes, which pools don't interpret. A worker never has more numbers than its capacity, which bounds the
outcomes that wait if they are taken slowly.

    message  of a worker, JSON: {"outcomes": […]}, and optionally the Counts ("steps", "live", "totals") and "warnings";
             "error" and "exit_code" if the job is impossible
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from pipeline.errors import Elsewhere, MuGoError
from pipeline.stalls import Watch

O = TypeVar("O")  # noqa: E741  an outcome

LOADING_FACTOR = 10  # loading may take this many times longer than a step
MAX_CRASHES = 5  # of workers that all were playing the same game, before it is taken to be the cause
MAX_FAILED_STARTS = 2  # workers in a row that end before their first step, for each worker of the pool


class WorkerPool(ABC, Generic[O]):
    """See the module docstring."""

    @abstractmethod
    def give(self, numbers: Sequence[int]) -> None:
        """Add games, to be played before those that wait, so that a game that always fails is found early."""

    @abstractmethod
    def outcomes(self, seconds: float) -> list[O]:
        """The outcomes since the last call; waits at most this long for the first."""

    @abstractmethod
    def close(self) -> None:
        """Stop playing. outcomes() still returns earlier outcomes."""


# In a worker


class Counts(NamedTuple):
    """Progress of games: for each thread the steps made and the games in play, and the totals of named counters."""

    steps: Sequence[int]
    live: Sequence[int]
    totals: Mapping[str, int] = {}


class JobExecutor(WorkerPool[Any]):
    """Plays a job's games in a worker. Writes no files and may be killed at any time.

    Its outcomes are JSON. outcomes() raises MuGoError if the job is impossible.
    """

    @abstractmethod
    def counts(self) -> Counts: ...

    def warnings(self) -> list[str]:
        """Warnings for the user since the last call."""
        return []

    def update(self, update: Any) -> None:
        """Replace the job's "update", JSON whose content the job defines, for games that start from now on."""


Models = Mapping[str, Mapping[str, bytes]]
"""The files of models (run.models.model_files) by the path in the job, which may not exist on the worker's machine."""


def make_executor(job: dict[str, Any], models: Models) -> JobExecutor:
    """The executor of a job, made by the ``module:function`` of its "executor". Raises MuGoError if that is impossible.

    models: more may be added later, before update() names them.
    """
    module, name = job["executor"].split(":")
    make: Callable[[dict[str, Any], Models], JobExecutor] = getattr(importlib.import_module(module), name)
    return make(job, models)


def message_of(executor: JobExecutor | None, outcomes: Sequence[Any] = (), error: MuGoError | None = None) -> bytes:
    """A worker's message, with all that its executor has to report."""
    message: dict[str, Any] = {"outcomes": outcomes}
    if executor is not None:
        message |= executor.counts()._asdict() | {"warnings": executor.warnings()}
    if error is not None:
        message |= {"error": str(error), "exit_code": error.exit_code}
    return json.dumps(message).encode()


# In the process that leads


@dataclass(frozen=True)
class OutcomeReader(Generic[O]):
    """How a pool makes a job's outcomes.

    read  an outcome of a JobExecutor → (the game's number, outcome). Raises ValueError, TypeError, KeyError or
          RecursionError for anything else
    lost  (a game's number, why its worker was lost) → outcome; None: silently play the game again
    """

    read: Callable[[Any], tuple[int, O]]
    lost: Callable[[int, str], O | None] = lambda number, problem: None


Updates = Callable[[], tuple[Any, Sequence[Path]] | None]
"""A job's changed "update" and the models that it names; None if nothing has changed since the last call."""


@dataclass(eq=False)
class Worker(ABC):
    """A worker as seen by the pool."""

    number: int
    games: set[int] = field(default_factory=set)  # given and not finished
    counts: Counts = field(default_factory=lambda: Counts([], []))  # as last reported; without threads: never
    started: float = field(default_factory=time.monotonic)
    loaded: bool = False  # whether it has made a step or ended a game
    watch: Watch = field(default_factory=Watch)

    @property
    def title(self) -> str:
        """In messages."""
        return f"worker {self.number}"

    @abstractmethod
    def send(self, numbers: Sequence[int]) -> None:
        """Let it play these games."""

    def stuck(self, limit: float) -> float:
        """Seconds since the slowest thread's last step if they exceed the limit, else 0. Loading may take longer.

        Threads without games don't count while others have some, nor does a worker without games.
        """
        steps, live, _ = self.counts if self.counts.steps else Counts([0], [0])
        idle = [not self.games or (not games and any(live)) for games in live]
        counts = [None if waits else count for waits, count in zip(idle, steps, strict=True)]
        stuck = self.watch.stuck(counts, limit * (1 if self.loaded else LOADING_FACTOR))
        return max(stuck.values(), default=0.0)


W = TypeVar("W", bound=Worker)


class RemotePool(WorkerPool[O], Generic[O, W]):
    """Hands out games to workers. One that dies, or makes no step for hang_seconds, loses its games and is replaced.

    workers: by number.
    """

    def __init__(
        self,
        reader: OutcomeReader[O],
        capacity: int,
        hang_seconds: float,
        warn: Callable[[str], None] = lambda text: None,
        updates: Updates = lambda: None,
        most: int = sys.maxsize,
    ) -> None:
        """capacity: the most games of a worker at a time; most: of all workers together.

        warn: called with the workers' warnings, once with each. updates: called by outcomes().
        """
        self._reader = reader
        self._capacity, self._most = capacity, most
        self._hang_seconds = hang_seconds
        self._warn, self._updates = warn, updates
        self._warned: set[str] = set()
        self._waiting: deque[int] = deque()
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

    @property
    def done(self) -> bool:
        """Whether all given games have ended."""
        return not self._waiting and not any(worker.games for worker in self.workers)

    def counts(self) -> Counts:
        """Totals are over all workers, including those that are gone."""
        totals = Counter(self._totals)
        for worker in self.workers:
            totals.update(worker.counts.totals)
        steps = [count for worker in self.workers for count in worker.counts.steps]
        return Counts(steps, [len(worker.games) for worker in self.workers], totals)

    def outcomes(self, seconds: float) -> list[O]:
        """Reads messages until none waits or the time is up; once closed, all. Raises MuGoError for impossible jobs."""
        if not self._closed:
            if self._problem is not None:
                raise self._problem
            if (update := self._updates()) is not None:
                self.update(*update)
        found: list[O] = []
        deadline = time.monotonic() + seconds
        while self._problem is None or self._closed:
            left = deadline - time.monotonic()
            received = self._receive(left if left > 0 and not found else 0.0)
            found += received or []
            if received is None or (left <= 0 and not self._closed):
                if not self._closed:
                    for worker in list(self.workers):
                        found += self._check(worker)
                break
        return found

    @abstractmethod
    def update(self, update: Any, models: Sequence[Path]) -> None:
        """Send the job's new "update", which names these models, for games that start from now on."""

    @abstractmethod
    def _receive(self, seconds: float) -> list[O] | None:
        """The outcomes in the next message of a worker; waits at most this long. None: there is no message."""

    @abstractmethod
    def _check(self, worker: W) -> list[O]:
        """Replace a worker that hangs or has ended, which no message reports. Returns the outcomes of its games."""

    @abstractmethod
    def _lost(self, worker: W, problem: str) -> list[O]:
        """Give a worker up; the job's OutcomeReader decides what becomes of its games. Returns their outcomes."""

    def _feed(self, worker: W) -> None:
        in_play = sum(len(one.games) for one in self.workers)
        room = min(self._capacity - len(worker.games), self._most - in_play)
        # Each worker takes at most an equal share of the waiting games.
        fair = -(-min(self._most, len(self._waiting) + in_play) // self._num_sharing())
        count = min(room, fair - len(worker.games), len(self._waiting))
        if count > 0:
            numbers = [self._waiting.popleft() for _ in range(count)]
            worker.games.update(numbers)
            worker.send(numbers)

    def _num_sharing(self) -> int:
        return len(self.workers)

    def _read(self, worker: W, data: bytes) -> list[O]:
        """The outcomes in a worker's message, or those of its games if it is lost because of the message."""
        try:
            return self._handle(worker, data)
        except (ValueError, TypeError, KeyError, RecursionError):
            return [] if self._closed else self._lost(worker, f"it wrote {data[:80]!r}, which is no valid message")

    def _handle(self, worker: W, data: bytes) -> list[O]:
        """As _read. Raises ValueError, TypeError, KeyError or RecursionError for an invalid message."""
        message = json.loads(data)
        found = [self._reader.read(outcome) for outcome in message["outcomes"]]
        for number, _ in found:
            if number not in worker.games:
                raise ValueError(f"game {number}")
        if len({number for number, _ in found}) < len(found):
            raise ValueError("a game twice")
        if len(message.get("steps", ())) != len(message.get("live", ())):
            raise ValueError("steps and live of different lengths")
        if "error" in message and not self._closed:
            self._problem = Elsewhere(f"{worker.title}: {message['error']}", message.get("exit_code", 1))
        for text in message.get("warnings", ()):
            if text not in self._warned:
                self._warned.add(text)
                self._warn(f"{worker.title}: {text}")
        if message.get("steps"):
            worker.counts = Counts(message["steps"], message["live"], message.get("totals", {}))
        if found or any(worker.counts.steps):
            worker.loaded = True
            self._failed_starts = 0
        worker.games.difference_update(number for number, _ in found)
        if found:
            self._feed(worker)
        return [outcome for _, outcome in found]

    def _stuck(self, worker: W) -> str:
        """The problem of a worker that hangs; "" if it doesn't."""
        stuck = worker.stuck(self._hang_seconds)
        return f"it made no step for {stuck:.0f} seconds and was stopped" if stuck else ""

    def _taken_from(self, worker: W, problem: str) -> list[O]:
        """The outcomes of a lost worker's games, except those to be played again; after too many, a problem."""
        problem = f"{worker.title}: {problem}"
        found = {number: self._reader.lost(number, problem) for number in sorted(worker.games)}
        worker.games = set()
        again = [number for number, outcome in found.items() if outcome is None]
        self._waiting.extendleft(reversed(again))
        self._crashes.update(again)
        if again and (crashes := self._crashes[guilty := max(again, key=self._crashes.__getitem__)]) > MAX_CRASHES:
            self._problem = MuGoError(
                f"{problem}, like {crashes - 1} workers before it that played game {guilty}; see their stderr"
            )
        if not worker.loaded:
            self._failed_starts += 1
        if self._failed_starts > MAX_FAILED_STARTS * len(self.workers):
            self._problem = MuGoError(
                f"{problem}, before it played anything, like {self._failed_starts - 1} before it; see its stderr"
            )
        return [outcome for outcome in found.values() if outcome is not None]
