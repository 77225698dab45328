"""What a run's recipe is derived from, measured with the parts that will play and train: see recipe.Measurements.

Takes little more than the seconds given, apart from loading and compiling, which no rate counts. Writes nothing.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.errors import GameFault, MuGoError, UsageError
from pipeline.games.capabilities import family_of
from pipeline.games.contract import Game, Planes
from pipeline.games.specs import parse_game
from pipeline.loop.recipe import LARGE, SMALL, Measurements, growth, measuring_seconds
from pipeline.machine import available_cores
from pipeline.presets import make_config
from pipeline.schedules import RunState

if TYPE_CHECKING:
    from pipeline.methods.alphazero.actor import TreeActor
    from pipeline.selfplay.config import SelfplayConfig

RECIPE = "recipe"  # the preset whose settings are measured, and which the derived one extends
QUICK_GAMES = 64
ROUNDS = 4  # all rates are measured in turn so often; the best counts, because other work only ever slows them down
COMPILING_PLIES = 40  # of self-play, after which all of its kernels are compiled
BATCH = 256  # training samples per step
LATER = RunState(100, 10**9, 1.0)  # in which the recipe's schedules have their last values


def playable(spec: str) -> Game:
    """The game that a recipe is wanted for. Raises UsageError if the recipe's method can't learn it."""
    from pipeline.methods.named import method_named
    from pipeline.train.config import InitConfig

    game = parse_game(spec)
    try:
        method_named(make_config(InitConfig, "init", RECIPE).method).check(game)
    except UsageError as error:
        raise UsageError(f"--game {spec}: {error}; other games need a --preset of their own") from error
    family = family_of(game)
    if game.spec != family:
        raise UsageError(f"--game {spec}: a model of {family} plays all boards; wanted {family}")
    return game


def measure(game: Game, minutes: float) -> Measurements:
    """Measurements for a run of this length. Raises MuGoError for a game that doesn't keep its contract."""
    seconds = measuring_seconds(minutes)
    try:
        plies, moves = _random_games(game, 0.2 * seconds)
        small = _Network(game, SMALL)
        each = seconds / ROUNDS
        rates: dict[str, Callable[[], float]] = {
            "evaluations": partial(small.rate, 0.15 * each),
            "simulations": partial(_SelfPlay(game, small.evaluators).rate, 0.3 * each),
            "samples": partial(_Training(game, small).rate, 0.2 * each),
        }
        # What slows this machine down for a moment may hide that it is fast enough for the large network.
        if len(growth(plies, 2 * rates["evaluations"](), minutes)) > 1:
            rates["evaluations_large"] = partial(_Network(game, LARGE).rate, 0.15 * each)
        best: dict[str, float] = {}
        for _ in range(ROUNDS):
            best |= {name: max(best.get(name, 0.0), rate()) for name, rate in rates.items()}
        return Measurements(
            game=game.spec,
            has_margins=game.has_margins,
            actions=game.num_actions,
            moves=moves,
            plies=plies,
            evaluations=best["evaluations"],
            evaluations_large=best.get("evaluations_large"),
            simulations=best["simulations"],
            samples=best["samples"],
        )
    except GameFault as error:  # it doesn't end
        raise MuGoError(f"game {game.spec}: {error}") from error


def _rows() -> int:
    """Games of each thread, as in self-play."""
    from pipeline.selfplay.config import SelfplayConfig

    settings = make_config(SelfplayConfig, "selfplay", RECIPE, lambda _: LATER)
    return -(-settings.parallel_games // available_cores())


def _random_games(game: Game, seconds: float) -> tuple[float, float]:
    """Plies per game, legal moves per position of random games; those unfinished after this time count as they are."""
    rng = np.random.default_rng(0)
    states = game.initial(QUICK_GAMES)
    history = game.initial_history(states)
    rows = np.arange(QUICK_GAMES)
    plies = positions = moves = 0
    started = 0.0
    while rows.size and (plies < 1 or time.perf_counter() - started < seconds):
        past = history.select(rows)
        legal = game.legal(states[rows], past)
        count = legal.sum(axis=1)
        if not count.all():
            raise MuGoError(
                f"game {game.spec}: after {plies} plies a game isn't over, but has no legal move; wanted one"
            )
        positions, moves, plies = positions + rows.size, moves + int(count.sum()), plies + 1
        actions = (legal * rng.random(legal.shape)).argmax(axis=1).astype(np.int32)
        states[rows] = game.play(states[rows], actions, past)
        going = ~game.is_over(states[rows])
        rows = rows[going]
        history.append(rows, game.keys(states[rows]))
        if plies == 1:  # the kernels are compiled
            started = time.perf_counter()
    return positions / QUICK_GAMES, moves / positions


class _Network:
    """A network of random weights for this game, ready to evaluate in self-play's batches."""

    def __init__(self, game: Game, size: str) -> None:
        from pipeline.networks.architecture import Architecture, random_weights
        from pipeline.networks.inference import make_evaluators
        from pipeline.players.loading import calibration_positions
        from pipeline.train.config import InitConfig

        rows, head = _rows(), make_config(InitConfig, "init", RECIPE).value_head
        self.architecture = Architecture.for_game(size, game, head)
        self.weights = random_weights(self.architecture, 0)
        calibration = calibration_positions(game)
        self.evaluators = make_evaluators(
            self.architecture, self.weights, rows, available_cores(), calibration=calibration
        )
        self._planes: Planes = calibration[np.arange(rows) % len(calibration)]

    def rate(self, seconds: float) -> float:
        from pipeline.networks.inference import evaluation_rate

        return evaluation_rate(self.evaluators, self._planes, seconds)


class _SelfPlay:
    """The recipe's self-play, going on from call to call, with all kernels compiled."""

    def __init__(self, game: Game, evaluators: Sequence[Any]) -> None:
        from pipeline.selfplay.config import SelfplayConfig

        self._game, self._evaluators = game, evaluators
        settings = make_config(SelfplayConfig, "selfplay", RECIPE, lambda _: LATER)
        quick = self._actors(1, settings.model_copy(update={"readouts": 2, "cheap_readouts": 2}))
        self._run(quick, lambda one: one.plies >= COMPILING_PLIES)
        self._playing = self._actors(_rows(), settings)
        self._run(self._playing, lambda one: one.steps >= 2)

    def _actors(self, rows: int, settings: SelfplayConfig) -> list[TreeActor]:
        from pipeline.methods.alphazero.actor import TreeActor
        from pipeline.methods.method import ActorJob, Learner, game_seeds

        def actor(thread: int) -> TreeActor:
            learner = Learner("measured", self._evaluators[thread])
            seeds = game_seeds(0, itertools.count(thread, len(self._evaluators)), 0.0)
            return TreeActor(ActorJob(self._game, rows, settings, seeds, lambda: learner, lambda _: None))

        return [actor(thread) for thread in range(len(self._evaluators))]

    @staticmethod
    def _run(actors: Sequence[TreeActor], ended: Callable[[TreeActor], bool]) -> None:
        from pipeline.methods.method import run_in_turn
        from pipeline.networks.inference import run_together

        run_together([partial(run_in_turn, [one], partial(ended, one)) for one in actors])

    def rate(self, seconds: float) -> float:
        """Simulations per second."""
        before, started = sum(one.search.simulations for one in self._playing), time.perf_counter()
        self._run(self._playing, lambda _: time.perf_counter() - started >= seconds)
        return (sum(one.search.simulations for one in self._playing) - before) / (time.perf_counter() - started)


class _Training:
    """Training on one batch of made-up examples: a step takes as long with any."""

    def __init__(self, game: Game, network: _Network) -> None:
        from pipeline.methods.alphazero.method import AlphaZero
        from pipeline.train.config import TrainConfig
        from pipeline.train.trainer import Trainer

        method, rng = AlphaZero(), np.random.default_rng(0)
        config = make_config(TrainConfig, "train", RECIPE, lambda _: LATER)
        columns = {name: np.zeros((BATCH, *shape), dtype) for name, (dtype, shape) in method.columns(game).items()}
        columns["planes"] = rng.integers(0, 256, columns["planes"].shape, np.uint8)
        columns["policy"][:, 0] = 1
        columns["policy_weight"][:] = 1
        if "side" in columns:
            columns["side"][:] = game.board_shape[0]
        self._batch = method.make_batch(game, columns, np.arange(BATCH), np.zeros(BATCH, np.int64))
        self._trainer = Trainer(method.objective(network.architecture.to_dict(), config), network.weights, config)
        self._trainer.step(self._batch)

    def rate(self, seconds: float) -> float:
        """Samples per second."""
        from pipeline.train.trainer import samples_per_second

        return samples_per_second(self._trainer, itertools.repeat(self._batch), seconds)
