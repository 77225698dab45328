"""``TemporalDifference``: TD(λ) as a Method."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import UsageError, naming
from pipeline.families.backgammon.feature_game import FeatureGame
from pipeline.families.backgammon.options import TdGatherOptions, TdPlayerOptions, TdSelfplayOptions
from pipeline.families.backgammon.td.actor import AfterstateActor, recorded_columns
from pipeline.families.backgammon.td.examples import column_types, make_examples
from pipeline.families.backgammon.td.expectimax import ExpectimaxPlayer
from pipeline.families.backgammon.td.network import AfterstateNetwork, parse_hidden, random_weights
from pipeline.families.backgammon.td.outcomes import FIVE, ONE, values_of
from pipeline.families.backgammon.td.tracking import MEASURES, WINDOW, tracked
from pipeline.games.contract import AnyGame
from pipeline.games.specs import parse_game
from pipeline.methods.method import (
    Actor,
    ActorJob,
    Grown,
    IndexArray,
    Measure,
    Method,
    Objective,
    Positions,
    Weights,
    learning_chart,
)
from pipeline.methods.options import DiscountOptions, FirstModelOptions, GrowthOptions, LambdaOptions
from pipeline.networks.options import NETWORK_BACKENDS
from pipeline.options import Options, changed
from pipeline.players.player import Player
from pipeline.progress import Progress
from pipeline.run.chunks import Columns, ColumnTypes
from pipeline.run.models import Model
from pipeline.run.shards import GameRecord, Shard
from pipeline.search.options import SearchOptions

if TYPE_CHECKING:
    from pipeline.families.backgammon.td.losses import Batch

OUTPUTS = {"scalar": ONE, "points": FIVE}  # by value head
CHANCES = "wins", "wins gammon", "wins backgammon", "loses gammon", "loses backgammon"  # of the player to move


class TemporalDifference(Method):
    """Each part is documented in methods/method.py."""

    name = "td"
    options = (LambdaOptions, DiscountOptions, TdPlayerOptions, TdSelfplayOptions, TdGatherOptions)
    shown_terms = ("target_error",)
    tabled = MappingProxyType(
        {"total": Measure(heading="loss"), "target_error": Measure(heading="error, points", is_error=True)}
    )
    charts = (
        learning_chart(
            "Distance from targets",
            "Mean distance of a position's value from its target, in points. In training targets are those of "
            "--td-lambda, on held-out games results, without the luck of the dice if selfplay had --value-plies 1.",
            "target_error",
            unit="points",
        ),
        learning_chart("Loss", "Mean squared error of the network's outputs, summed over them.", "total"),
    )
    tracking_window = WINDOW
    measures = MEASURES

    def check(self, game: AnyGame) -> None:
        if not isinstance(game, FeatureGame) or not game.has_chance:
            raise UsageError(
                f"method {self.name}: {game.spec} has no features or no throws before its moves; wanted backgammon or "
                "hypergammon"
            )

    # Models

    def first_model(
        self, game: FeatureGame, config: FirstModelOptions, progress: Progress
    ) -> tuple[dict[str, Any], Weights]:
        if config.value_head not in OUTPUTS:
            raise UsageError(
                f"init --value-head {config.value_head}: method td has scalar (one output) and points (five chances)"
            )
        (hidden, sees_tactics), outputs = parse_hidden(config.network_size), OUTPUTS[config.value_head]
        tactics = game.num_tactical_features if sees_tactics else 0
        architecture = {
            "features": game.num_features,
            "tactics": tactics,
            "hidden": hidden,
            "outputs": outputs,
            "max_result": game.max_result,
        }
        return architecture, random_weights(game.num_features + tactics, hidden, outputs, config.seed)

    def size(self, architecture: Mapping[str, Any]) -> str:
        return f"h{architecture['hidden']}" + ("t" if architecture["tactics"] else "")

    def grown(self, game: FeatureGame, model: Model, config: GrowthOptions) -> Grown:
        if config.network_size:
            raise UsageError("train --network-size: networks of method td don't grow; leave it out")
        return Grown(model.info.architecture, model.weights)

    # Playing

    def load(
        self,
        model: Model,
        max_batch: int,
        num_threads: int,
        backend: str,
        progress: Progress,
        options: Options = Options(),
    ) -> list[Any]:
        if backend not in NETWORK_BACKENDS:
            raise UsageError(f"--backend {backend}: networks of method td don't run on it; leave it out")
        with naming(model.path):
            game: AnyGame = parse_game(model.info.game)
            self.check(game)
            assert isinstance(game, FeatureGame)
            return [AfterstateNetwork(game, model.weights)] * num_threads

    def player(
        self, game: FeatureGame, num_rows: int, evaluate: Any, search: SearchOptions, readouts: int, leaves: int = 1
    ) -> Player:
        """readouts: plies of lookahead, see expectimax.py."""
        return ExpectimaxPlayer(game, num_rows, evaluate, search, readouts)

    def actor(self, job: ActorJob) -> Actor:
        return AfterstateActor(job)

    def recorded(self, game: FeatureGame) -> ColumnTypes:
        return recorded_columns()

    def facts(
        self, game: FeatureGame, state: NDArray[np.int16], record: GameRecord, ply: int
    ) -> dict[str, str | float]:
        chances = record.own["chances"][ply]
        if np.isnan(chances).any():  # a single output, which says no more than the value
            return {}
        return {name: f"{chance:.3g}" for name, chance in zip(CHANCES, chances.tolist(), strict=True)}

    def tracked(self, game: FeatureGame, records: Iterable[GameRecord]) -> dict[str, dict[str, float]]:
        return tracked(game, records)

    # Examples

    def check_options(self, command: str, config: Options) -> None:
        super().check_options(command, config)
        if command == "selfplay":  # games are played without lookahead
            for name in changed(config, ("static_weight", "replies_weight", "replies_counted")):
                raise UsageError(
                    f"selfplay --{name.replace('_', '-')}: it is for matches, where td can look ahead; leave it out"
                )

    def columns(self, game: FeatureGame) -> ColumnTypes:
        return column_types(game)

    def examples(
        self,
        game: FeatureGame,
        shards: Sequence[Shard],
        wanted: Positions,
        td_lambda: NDArray[np.float32] | None = None,
        config: Options | None = None,
    ) -> Columns:
        lambdas = np.ones(len(wanted), np.float32) if td_lambda is None else td_lambda
        return make_examples(game, shards, wanted, lambdas, config or Options())

    # The loss

    def make_batch(
        self, game: FeatureGame, columns: Mapping[str, NDArray[Any]], rows: IndexArray, symmetry: IndexArray
    ) -> Batch:
        import torch

        from pipeline.families.backgammon.td.losses import Batch

        states, target = columns["state"][rows], columns["target"][rows]
        outputs = ONE if np.isnan(target[:1, 1:]).any() else FIVE
        value = values_of(target[:, :outputs], game.max_result)
        inputs = np.concatenate([game.features(states), game.tactical_features(states)], axis=1)
        parts = inputs, target, value, np.ones(len(rows), np.float32)
        return Batch(*map(torch.from_numpy, parts))

    def objective(self, architecture: Mapping[str, Any], config: Options) -> Objective:
        from pipeline.families.backgammon.td.losses import AfterstateObjective

        inputs = architecture["features"] + architecture["tactics"]
        return AfterstateObjective(inputs, architecture["max_result"], architecture["outputs"])
