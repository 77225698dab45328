"""``GameThreads``: self-play in threads of this process, whoever asks: the command itself, or a worker of a cluster.

One actor of the model's method plays in each thread (one for each board, where there are several). Games come as
numbers: a number and the run's seed make a game, so it is the same wherever it is played. Writes no files.
"""

from __future__ import annotations

import queue
import threading
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from pipeline.errors import MuGoError
from pipeline.games.contract import AnyGame
from pipeline.games.specs import parse_game
from pipeline.methods.method import (
    Actor,
    ActorJob,
    Encounter,
    FinishedGame,
    GameSeed,
    Learner,
    Method,
    game_seeds,
    run_in_turn,
)
from pipeline.methods.named import method_named
from pipeline.progress import Progress
from pipeline.run.models import Model, NewestNumber, read_model, resolve_champion
from pipeline.selfplay.config import SelfplayConfig
from pipeline.selfplay.opponents import Load, Mix, OpponentSource
from pipeline.selfplay.variety import Dealer, Numbered, Variety
from pipeline.stalls import Watch
from pipeline.workers.worker_pool import Counts, WorkerPool


class Arrival(NamedTuple):
    """A finished game, the board it was played on, the generation in which it began, and its number."""

    game: AnyGame
    finished: FinishedGame
    generation: int
    number: int


class GamePool(WorkerPool[Arrival]):
    """A pool that plays a run's games."""

    @property
    @abstractmethod
    def done(self) -> bool:
        """Whether all games have come to an end, and were handed over."""

    @abstractmethod
    def counts(self) -> Counts:
        """Totals: "plies" and "evaluations", those of unfinished games included."""


class Source(Protocol):
    """Who plays new games, and where: on this machine, or on a cluster. game, method: of all games.

    name: of the model that plays now.
    """

    game: AnyGame
    method: Method

    @property
    def name(self) -> str: ...

    def prepare(self) -> None:
        """Look at whoever is sure to be met, so that errors come before the first game."""

    def begin(self, plan: Plan, num_threads: int, numbers: Callable[[int, int], Iterator[int]]) -> GamePool:
        """Play. num_threads: of this process, or of each actor. numbers: see Numbering.of_thread."""


class ModelSource:
    """The model that new games are played with: follows the champion.

    champion: asked for every game, gives the real directory of the model that plays. read: a model, by that.
    """

    def __init__(
        self,
        champion: Callable[[], Path],
        load: Load,
        progress: Progress,
        read: Callable[[Path], Model] = read_model,
    ) -> None:
        self._champion, self._load, self._read, self.progress = champion, load, read, progress
        self._lock = threading.Lock()
        self.path = champion()
        model = read(self.path)
        self.game: AnyGame = parse_game(model.info.game)
        self.method: Method = method_named(model.info.method)
        self.method.check(self.game)
        self._players = self._players_of(model)

    @property
    def name(self) -> str:
        return self._players[0].name

    def player(self, thread: int) -> Learner:
        """The player for a game that starts now. Called by actors; loads a newly promoted model when there is one."""
        with self._lock:
            path = self._champion()
            if path != self.path:
                model = self._read(path)
                check_same(model, self.game, self.method)
                self._players = self._players_of(model)
                self.progress.say(f"new games are played by {self.name}")
                self.path = path
            return self._players[thread]

    def _players_of(self, model: Model) -> list[Learner]:
        return [Learner(model.info.name, one, model.path) for one in self._load(model)]


def check_same(model: Model, game: AnyGame, method: Method) -> None:
    """Raises MuGoError for a new champion that doesn't play on what its predecessor played."""
    if (parse_game(model.info.game).spec, model.info.method) != (game.spec, method.name):
        raise MuGoError(
            f"{model.path}: plays {model.info.game}, the games under way are {game.spec}; "
            "restart selfplay to change the game"
        )


@dataclass(frozen=True)
class Plan:
    """What all games of a run have in common.

    config   its resign_threshold is the one in force, its seed may be missing: seed is the one in force
    rows     that each thread plays at a time          leaves  of one tree in a batch
    """

    config: SelfplayConfig
    seed: int
    variety: Variety
    rows: int
    leaves: int


class Supply:
    """Where the threads' numbers come from. This one has all there will ever be, those of each thread in order.

    refills: whether there may be games again for who found none.
    """

    refills = False

    def __init__(self, of_threads: Sequence[Iterator[int]]) -> None:
        self._of_threads = of_threads

    def take(self, thread: int) -> int | None:
        """None: there is none now."""
        return next(self._of_threads[thread], None)

    def __bool__(self) -> bool:
        """Whether there is a game now, for any thread."""
        raise NotImplementedError

    def wait(self, stopped: Callable[[], bool]) -> bool:
        """For games, by a thread that has none left, until stopped() says so; False: none will come."""
        return False


class GameThreads(GamePool):
    """See the module docstring. The first error of any thread stops all.

    watched: whether outcomes() and close() look for a thread that hangs, and raise Hung. on_dropped: gets the number of
    each game that ends without a record, in the game's thread.
    """

    def __init__(
        self,
        plan: Plan,
        source: ModelSource,
        opponents: OpponentSource | None,
        generation: Callable[[], int],
        num_threads: int,
        watched: bool = True,
        on_dropped: Callable[[int], None] = lambda number: None,
    ) -> None:
        """generation: of a game that starts now."""
        self._plan, self._source, self._opponents, self._generation = plan, source, opponents, generation
        self._watch = Watch() if watched else None
        self._on_dropped = on_dropped
        self._begun: dict[int, tuple[int, int]] = {}  # ids of games in play → their generations and numbers
        self._actors: list[list[Actor]] = [[] for _ in range(num_threads)]
        self._before: list[Counter[str]] = [Counter() for _ in range(num_threads)]  # counts of each thread's old actors
        self._arrived: queue.SimpleQueue[Arrival | BaseException | None] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._running = num_threads
        self._failure: BaseException | None = None
        self._closed = False
        self._supply = Supply([])
        self._threads = [
            threading.Thread(target=self._run, args=(number,), daemon=True) for number in range(num_threads)
        ]

    def play(self, supply: Supply) -> None:
        """Begin to play."""
        self._supply = supply
        for thread in self._threads:
            thread.start()

    @property
    def done(self) -> bool:
        return self._running == 0

    def outcomes(self, seconds: float) -> list[Arrival]:
        """One at most: an interrupt that comes now loses no other. Once every thread has ended, raises what the first
        one raised that failed.
        """
        while self._running:
            try:
                one = self._arrived.get(timeout=seconds) if seconds > 0 else self._arrived.get_nowait()
            except queue.Empty:
                break
            if one is None:
                self._running -= 1
            elif isinstance(one, BaseException):
                self._failure = self._failure or one
                self._stop.set()
            else:
                return [one]
        if not self._closed:
            if self._watch is not None:
                self._watch.look(self._hanging())
            if self._failure is not None and not self._running:
                raise self._failure
        return []

    def close(self) -> None:
        """After that nothing is raised any more."""
        self._closed = True
        self._stop.set()
        if self._watch is not None:
            self._watch.join(self._threads, self._hanging)
        for thread in self._threads:
            thread.join()

    def counts(self) -> Counts:
        now = [before + _counted(actors) for before, actors in zip(self._before, self._actors, strict=True)]
        totals = {name: sum(one[name] for one in now) for name in ("plies", "evaluations")}
        live = [sum(actor.live for actor in actors) for actors in self._actors]
        return Counts([one["steps"] for one in now], live, totals)

    def _hanging(self) -> list[object]:
        """For the watch."""
        made = [tuple((one.steps, one.plies, one.evaluations, one.live) for one in actors) for actors in self._actors]
        return [count if one.is_alive() else None for one, count in zip(self._threads, made, strict=True)]

    def _run(self, thread: int) -> None:
        """In a thread of its own: play what the supply has for it."""
        try:
            variety = self._plan.variety
            dealer = Dealer(_Numbers(self, thread), variety)
            while True:
                actors = [
                    self._source.method.actor(self._job(thread, dealer, board, game, rows))
                    for board, (game, rows) in enumerate(zip(variety.games, variety.rows(self._plan.rows), strict=True))
                ]
                self._actors[thread] = actors
                run_in_turn(actors, partial(self._stopped, actors, dealer), dealer.is_ahead)
                for actor in actors:
                    actor.close()
                # A game may have been dealt to a board whose actor had asked before it came.
                if self._stop.is_set() or not (dealer or self._supply.wait(self._stop.is_set)):
                    break
                self._before[thread] += _counted(actors)
                self._actors[thread] = []
        except BaseException as error:  # handed to whoever takes the games, and raised there
            self._arrived.put(error)
        finally:
            self._arrived.put(None)

    def _stopped(self, actors: Sequence[Actor], dealer: Dealer) -> bool:
        """Asked by a thread before each round; lets its actors take up games that came since they found none."""
        if self._supply.refills and (self._supply or dealer):
            for actor in actors:
                actor.resume()
        return self._stop.is_set()

    def _job(self, thread: int, dealer: Dealer, board: int, game: AnyGame, rows: int) -> ActorJob:
        return ActorJob(
            game,
            rows,
            self._plan.config,
            map(self._starting, dealer.games_on(board)),
            partial(self._source.player, thread),
            partial(self._arrive, game),
            partial(self._meet, thread) if self._opponents else None,
            self._plan.leaves,
            self._drop,
        )

    def numbered(self, number: int) -> Numbered:
        config = self._plan.config
        (seed,) = game_seeds(self._plan.seed, iter([number]), config.no_resign_fraction, config.worker)
        return Numbered(number, seed)

    def take(self, thread: int) -> int | None:
        return self._supply.take(thread)

    def _starting(self, dealt: Numbered) -> GameSeed:
        """The seed of a game that starts. Notes its generation, because models are made meanwhile."""
        self._begun[dealt.seed.game_id] = self._generation(), dealt.number
        return dealt.seed

    def _arrive(self, game: AnyGame, finished: FinishedGame) -> None:
        self._arrived.put(Arrival(game, finished, *self._begun.pop(finished.record.game_id)))

    def _drop(self, game_id: int, fault: str) -> None:
        _, number = self._begun.pop(game_id)
        self._source.progress.warn(f"game {number} counts for nobody: {fault}")
        self._on_dropped(number)

    def _meet(self, thread: int, seed: GameSeed, learner: Learner) -> Encounter | None:
        assert self._opponents is not None and learner.path is not None
        return self._opponents.meet(thread, seed.encounter, learner.path)


@dataclass
class _Numbers(Iterator[Numbered]):
    """The games of a thread; ends where there is none for now."""

    threads: GameThreads
    thread: int

    def __next__(self) -> Numbered:
        number = self.threads.take(self.thread)
        if number is None:
            raise StopIteration
        return self.threads.numbered(number)


def _counted(actors: Sequence[Actor]) -> Counter[str]:
    return Counter({name: sum(getattr(actor, name) for actor in actors) for name in ("steps", "plies", "evaluations")})


def loading(config: SelfplayConfig, max_batch: int, num_threads: int, progress: Progress) -> Load:
    """What loads a model for that many threads."""

    def load(model: Model) -> list[Any]:
        return method_named(model.info.method).load(model, max_batch, num_threads, config.backend, progress)

    return load


class LocalSource:
    """A Source: threads of this process."""

    def __init__(
        self, config: SelfplayConfig, mix: Mix, rows: int, leaves: int, num_threads: int, progress: Progress
    ) -> None:
        progress.say(f"loading {config.network}; kernels and network are compiled when this machine sees them first")
        load = loading(config, rows * leaves, num_threads, progress)
        self._source = ModelSource(partial(resolve_champion, config.network), load, progress)
        self.game, self.method = self._source.game, self._source.method
        self._opponents = None
        if not mix.only_mirror:
            self._opponents = OpponentSource(config, mix, self.game, load, leaves, progress)

    @property
    def name(self) -> str:
        return self._source.name

    def prepare(self) -> None:
        if self._opponents is not None:
            self._opponents.prepare(self._source.path)

    def begin(self, plan: Plan, num_threads: int, numbers: Callable[[int, int], Iterator[int]]) -> GamePool:
        source = self._source
        threads = GameThreads(plan, source, self._opponents, NewestNumber(source.path.parent), num_threads)
        threads.play(Supply([numbers(thread, num_threads) for thread in range(num_threads)]))
        return threads
