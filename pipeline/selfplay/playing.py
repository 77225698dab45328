"""``GameThreads``: self-play in threads of this process, which is the command itself or one of its workers.

One actor of the model's method plays in each thread (one for each board, where there are several). Games come as
numbers: a number and the run's seed make a game, so it is the same wherever it is played. Writes no files.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from pipeline.errors import FileError, MuGoError
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
from pipeline.phrases import LOADING
from pipeline.progress import Progress, say_first
from pipeline.run.models import Model, ModelInfo, NewestNumber, game_as_seen, home_of, read_model, resolve_champion
from pipeline.selfplay.config import SelfplayConfig
from pipeline.selfplay.opponents import Mix, OpponentSource, OthersReader, parse_mix
from pipeline.selfplay.variety import Dealer, GamesOn, Variety
from pipeline.tracking.options import FIELDS
from pipeline.workers.worker_pool import Counts, GameQueue, ThreadPool

WAIT_SECONDS = 0.2
COUNTED = ("steps", "plies", "evaluations", "tokens")  # by actors


@dataclass
class Plan:
    """What all games of a run have in common, in the process that leads and in its workers.

    Raises UsageError if the model's game can't be played with this config.
    """

    config: SelfplayConfig  # with the seed and the resignation threshold in force
    game: AnyGame  # the model's, on its own board
    method: Method
    threads: int = 1  # of each process that plays
    rows: int = 1  # games of each thread at a time
    leaves: int = 1  # of one tree in a batch
    mix: Mix = field(init=False)
    variety: Variety = field(init=False)

    def __post_init__(self) -> None:
        self.mix = parse_mix(self.config.opponents)
        self.mix.check(self.game)
        self.variety = Variety.of(self.config, self.game)

    def to_job(self) -> dict[str, Any]:
        """As JSON."""
        said: dict[str, Any] = {name: getattr(self, name) for name in ("threads", "rows", "leaves")}
        return said | {
            "config": self.config.stored(FIELDS),  # workers track nothing
            "game": self.game.spec,
            "method": self.method.name,
        }

    @staticmethod
    def of_job(job: dict[str, Any]) -> Plan:
        config, game, method = SelfplayConfig(**job["config"]), parse_game(job["game"]), method_named(job["method"])
        return Plan(config, game, method, job["threads"], job["rows"], job["leaves"])

    def load(self, model: Model, progress: Progress) -> list[Any]:
        """A model, the learner or an opponent, loaded for each thread: see Method.load."""
        method = method_named(model.info.method)
        config = self.config
        return method.load(model, self.rows * self.leaves, self.threads, config.backend, progress, config)

    def check_opponent(self, info: ModelInfo, path: Path) -> None:
        """Raises FileError unless the model can play on all boards of the run."""
        for board in self.variety.games:
            if game_as_seen(info, board) is None:
                raise FileError(path, f"it plays {info.game}; wanted a model that plays {board.spec}")

    def check(self, learner: ModelInfo, path: Path) -> None:
        """Raises MuGoError for a model of another game or method, which can't take over."""
        if (parse_game(learner.game).spec, learner.method) != (self.game.spec, self.method.name):
            raise MuGoError(
                f"{path}: plays {learner.game} ({learner.method}), the games under way are {self.game.spec} "
                f"({self.method.name}); restart selfplay to change the game or the method"
            )


class PlayedGame(NamedTuple):
    game: AnyGame  # on the board it was played on
    finished: FinishedGame | None  # None if it was dropped without a record
    generation: int  # the number of the newest model when it began
    number: int  # which of the worker's games it is


class ModelSource:
    """The model that new games are played with.

    champion: called for every game, returns the real directory of the model that plays. read: reads a model from there.
    """

    def __init__(
        self, plan: Plan, champion: Callable[[], Path], progress: Progress, read: Callable[[Path], Model] = read_model
    ) -> None:
        self.progress = progress
        self._plan, self._champion, self._read = plan, champion, read
        self._lock = threading.Lock()
        self.path = champion()
        self._learners = self._load(self.path)

    @property
    def name(self) -> str:
        return self._learners[0].name

    def player(self, thread: int) -> Learner:
        """The player for a game that starts now. Called by actors; loads a newly promoted model when there is one."""
        with self._lock:
            path = self._champion()
            if path != self.path:
                self._learners = self._load(path)
                self.path = path
                self.progress.say(f"new games are played by {self.name}")
            return self._learners[thread]

    def _load(self, path: Path) -> list[Learner]:
        model = self._read(path)
        self._plan.check(model.info, path)
        return [Learner(model.info.name, one, model.path) for one in self._plan.load(model, self.progress)]


class GameThreads(ThreadPool[PlayedGame]):
    """See the module docstring.

    In this command, a thread plays every num_threads-th game in order, so that its batches are the same in every run.
    In a worker, each thread takes the next game there is, and the driver, not this class, looks for hanging threads.
    """

    def __init__(
        self,
        plan: Plan,
        source: ModelSource,
        opponents: OpponentSource,
        generation: Callable[[], int],
        in_worker: bool = False,
    ) -> None:
        """generation: called for every game."""
        self._plan, self._source, self._opponents, self._generation = plan, source, opponents, generation
        self._begun: dict[int, tuple[int, int]] = {}  # ids of games in play → their generations and numbers
        self._rows = plan.variety.rows(plan.rows)  # of each board's actor
        # Of each thread the counts of its former actors, and the actors that play. Replaced as a pair.
        self._actors: list[tuple[Counter[str], Sequence[Actor]]] = [(Counter(), [])] * plan.threads
        self._idle = [True] * plan.threads
        self.most_at_once = sys.maxsize if in_worker else 1
        super().__init__(plan.threads, 1 if in_worker else plan.threads, watched=not in_worker)

    def counts(self) -> Counts:
        """Totals: "plies", "evaluations" and "tokens", those of unfinished games included."""
        now = [before + _counted(actors) for before, actors in self._actors]
        live = [sum(actor.live for actor in actors) for _, actors in self._actors]
        totals = {name: sum(one[name] for one in now) for name in COUNTED[1:]}
        return Counts([one["steps"] for one in now], live, totals)

    def steps_made(self) -> list[object]:
        return [
            tuple((actor.steps, actor.plies, actor.evaluations, actor.live) for actor in actors)
            if thread.is_alive() and not idle
            else None
            for thread, idle, (_, actors) in zip(self.threads, self._idle, self._actors, strict=True)
        ]

    def play(self, thread: int) -> None:
        variety = self._plan.variety
        dealer = Dealer(partial(self._take, thread), variety)
        before: Counter[str] = Counter()
        while self._wait_for_games(thread, dealer):
            actors = [
                self._plan.method.actor(self._job(thread, dealer, board, game))
                for board, game in enumerate(variety.games)
            ]
            self._actors[thread] = before, actors
            dealer.rows_are_filled()
            run_in_turn(actors, partial(self._stopped, thread, actors, dealer), dealer.is_ahead)
            for actor in actors:
                actor.close()
            before = before + _counted(actors)
            self._actors[thread] = before, []

    def _wait_for_games(self, thread: int, dealer: Dealer) -> bool:
        """Whether there are games: in the queue, or dealt to a board whose actor had asked before they came."""
        games = self._queue(thread)
        self._idle[thread] = True
        while not (dealer or games or games.closed):
            games.wait(WAIT_SECONDS)
        self._idle[thread] = False
        return not games.closed

    def _stopped(self, thread: int, actors: Sequence[Actor], dealer: Dealer) -> bool:
        """Called before each round of the actors; gives them games that came after they had found none."""
        games = self._queue(thread)
        if games or dealer:
            for actor, rows in zip(actors, self._rows, strict=True):
                if actor.live < rows:
                    actor.resume()
        return games.closed

    def _job(self, thread: int, dealer: Dealer, board: int, game: AnyGame) -> ActorJob:
        return ActorJob(
            game,
            self._rows[board],
            self._plan.config,
            map(self._starting, GamesOn(dealer, board)),
            partial(self._source.player, thread),
            partial(self._finish, game),
            None if self._plan.mix.only_mirror else partial(self._meet, thread),
            self._plan.leaves,
            partial(self._drop, game),
        )

    def _queue(self, thread: int) -> GameQueue:
        return self.queues[thread % len(self.queues)]

    def _take(self, thread: int) -> GameSeed | None:
        numbers = self._queue(thread).take(1)
        return self.seed_of(numbers[0]) if numbers else None

    def seed_of(self, number: int) -> GameSeed:
        config = self._plan.config
        assert config.seed is not None
        (seed,) = game_seeds(config.seed, iter([number]), config.no_resign_fraction, config.worker)
        return seed

    def _starting(self, seed: GameSeed) -> GameSeed:
        """Notes a starting game's generation, because models are made meanwhile."""
        self._begun[seed.game_id] = self._generation(), seed.number
        return seed

    def _finish(self, game: AnyGame, finished: FinishedGame) -> None:
        self.arrived.put(PlayedGame(game, finished, *self._begun.pop(finished.record.game_id)))

    def _drop(self, game: AnyGame, game_id: int, fault: str) -> None:
        generation, number = self._begun.pop(game_id)
        self._source.progress.warn(f"game {number} counts for nobody: {fault}")
        self.arrived.put(PlayedGame(game, None, generation, number))

    def _meet(self, thread: int, seed: GameSeed, learner: Learner) -> Encounter | None:
        assert learner.path is not None
        return self._opponents.meet(thread, seed.encounter, learner.path)


def _counted(actors: Sequence[Actor]) -> Counter[str]:
    return Counter({name: sum(getattr(actor, name) for actor in actors) for name in COUNTED})


def games_here(plan: Plan, progress: Progress) -> tuple[GameThreads, ModelSource]:
    """Threads of this process that play a plan's games, and the source of their model."""
    network = plan.config.network
    say_first(progress, LOADING)
    source = ModelSource(plan, partial(resolve_champion, network), progress)
    opponents = OpponentSource(plan, progress, OthersReader(plan, progress).of)
    opponents.prepare(source.path)
    return GameThreads(plan, source, opponents, NewestNumber(home_of(network, source.path))), source
