"""Worker pools: numbers of games go in, outcomes come out in any order.

    WorkerPool   the interface of threads of this process, worker processes and Ray actors
    RemotePool   hands out numbers to workers; one that dies or hangs harms only its own games
    JobExecutor  the pool in a worker: its outcomes can become JSON
    ThreadPool   threads of this process, which is the command or a worker

A job describes the games as JSON; a worker makes a JobExecutor from it and needs nothing else. The job also determines
the type O of outcomes, which pools don't interpret. A worker never has more numbers than its capacity, which bounds the
outcomes that wait if they are taken slowly.

    message  of a worker, JSON: {"outcomes": […]}, and optionally the Counts ("steps", "live", "totals") and "warnings";
             "error" and "exit_code" if the job is impossible
"""

from __future__ import annotations

import importlib
import json
import queue
import sys
import threading
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


class JobExecutor(WorkerPool[O]):
    """A pool that may be a worker's, to play a job's games. Writes no files and may be killed at any time.

    There outcomes() raises MuGoError if the job is impossible.
    """

    @abstractmethod
    def counts(self) -> Counts: ...

    def encode(self, outcome: O) -> Any:
        """As JSON."""
        return outcome

    def warnings(self) -> list[str]:
        """Warnings for the user since the last call."""
        return []

    def update(self, update: Any) -> None:
        """Replace the job's "update", JSON whose content the job defines, for games that start from now on."""


Models = Mapping[str, Mapping[str, bytes]]
"""The files of models (run.models.model_files) by the path in the job, which may not exist on the worker's machine."""


def make_executor(job: dict[str, Any], models: Models) -> JobExecutor[Any]:
    """The executor of a job, made by the ``module:function`` of its "executor". Raises MuGoError if that is impossible.

    models: more may be added later, before update() names them.
    """
    module, name = job["executor"].split(":")
    make: Callable[[dict[str, Any], Models], JobExecutor[Any]] = getattr(importlib.import_module(module), name)
    return make(job, models)


def message_of(
    executor: JobExecutor[Any] | None, outcomes: Sequence[Any] = (), error: MuGoError | None = None
) -> bytes:
    """A worker's message, with all that its executor has to report."""
    message: dict[str, Any] = {"outcomes": []}
    if executor is not None:
        message["outcomes"] = list(map(executor.encode, outcomes))
        message |= executor.counts()._asdict() | {"warnings": executor.warnings()}
    if error is not None:
        message |= {"error": str(error), "exit_code": error.exit_code}
    return json.dumps(message).encode()


# In this process


class GameQueue:
    """Numbers of the games still to be played, shared by threads."""

    def __init__(self) -> None:
        self._numbers: deque[int] = deque()
        self._changed = threading.Condition()
        self._closed = False

    def give(self, numbers: Sequence[int]) -> None:
        """Add numbers at the front of the queue."""
        with self._changed:
            self._numbers.extendleft(reversed(numbers))
            self._changed.notify_all()

    def take(self, most: int) -> list[int]:
        """The next numbers, up to `most`; empty if there are none or the queue is closed."""
        with self._changed:
            left = 0 if self._closed else len(self._numbers)
            return [self._numbers.popleft() for _ in range(min(most, left))]

    def wait(self, seconds: float) -> None:
        """Wait until the queue has a number or is closed, at most this long."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or bool(self._numbers), seconds)

    def close(self) -> None:
        """Makes threads stop at their next step and drop the games in play."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    @property
    def closed(self) -> bool:
        return self._closed

    def __bool__(self) -> bool:
        return bool(self._numbers)


class ThreadPool(JobExecutor[O]):
    """Threads of this process that play games from queues. The first error of any thread stops all.

    most_at_once  outcomes that one call of outcomes() returns at most, as an interrupt may lose them
    """

    most_at_once = sys.maxsize

    def __init__(self, num_threads: int, num_queues: int, watched: bool) -> None:
        """Starts the threads, so a subclass calls it last. num_queues: 1, or one for each thread.

        watched: whether a thread that hangs raises Hung, as it can't be replaced; workers are watched from outside.
        """
        self.queues = [GameQueue() for _ in range(num_queues)]
        self.arrived: queue.SimpleQueue[O | BaseException] = queue.SimpleQueue()
        self._watch = Watch() if watched else None
        self._failure: BaseException | None = None
        self._closed = False
        self.threads = [threading.Thread(target=self._run, args=(one,), daemon=True) for one in range(num_threads)]
        for thread in self.threads:
            thread.start()

    @abstractmethod
    def play(self, thread: int) -> None:
        """In a thread of its own: play games until its queue is closed, and put the outcomes into `arrived`."""

    @abstractmethod
    def steps_made(self) -> list[object]:
        """For the watch: see stalls.Counts."""

    def give(self, numbers: Sequence[int]) -> None:
        for first, games in enumerate(self.queues):
            games.give(numbers[first :: len(self.queues)])

    def outcomes(self, seconds: float) -> list[O]:
        """Once every thread has ended, raises the first error of any, unless the pool is closed."""
        ended = not any(thread.is_alive() for thread in self.threads)
        found: list[O] = []
        while len(found) < self.most_at_once:
            try:
                one = self.arrived.get(seconds > 0 and not found and not ended, seconds)
            except queue.Empty:
                break
            if isinstance(one, BaseException):
                self._failure = self._failure or one
                self._stop()
            else:
                found.append(one)
        if not found and not self._closed:
            if self._watch is not None:
                self._watch.look(self.steps_made())
            if self._failure is not None and ended:
                raise self._failure
        return found

    def close(self) -> None:
        self._closed = True
        self._stop()
        if self._watch is not None:
            self._watch.join(self.threads, self.steps_made)
        for thread in self.threads:
            thread.join()

    def _stop(self) -> None:
        for games in self.queues:
            games.close()

    def _run(self, thread: int) -> None:
        try:
            self.play(thread)
        except BaseException as error:  # raised by outcomes()
            self.arrived.put(error)


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
        self._feed_all()

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
                        stuck = worker.stuck(self._hang_seconds)
                        stopped = f"it made no step for {stuck:.0f} seconds and was stopped"
                        found += self._lost(worker, stopped) if stuck else self._check(worker)
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
        """Replace a worker that is gone, which no message reports. Returns the outcomes of its games."""

    @abstractmethod
    def _replace(self, worker: W) -> None:
        """Stop a worker, and start another unless the job is impossible."""

    def _feed_all(self) -> None:
        for worker in self.workers:
            self._feed(worker)

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
            # One that came while all games were in play has none yet.
            idle = [one for one in self.workers if not one.games and one is not worker]
            for one in (*idle, worker):
                self._feed(one)
        return [outcome for _, outcome in found]

    def _lost(self, worker: W, problem: str, blameless: bool = False) -> list[O]:
        """Replace a worker. Returns the outcomes of its games, except those to be played again.

        The games of a blameless worker are silently played by others. After too many lost workers without a step, or
        with the same game, the job is impossible.
        """
        problem = f"{worker.title}: {problem}"
        found = {number: None if blameless else self._reader.lost(number, problem) for number in sorted(worker.games)}
        worker.games = set()
        again = [number for number, outcome in found.items() if outcome is None]
        self._waiting.extendleft(reversed(again))
        if not blameless:
            self._blame(worker, again, problem)
        self._totals.update(worker.counts.totals)
        self._replace(worker)
        if self._problem is None:
            self._feed_all()
        return [outcome for outcome in found.values() if outcome is not None]

    def _blame(self, worker: W, again: Sequence[int], problem: str) -> None:
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
