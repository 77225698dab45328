"""AlphaZero as a Method."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import MuGoError, UsageError
from pipeline.games.capabilities import AllBoards
from pipeline.games.contract import AnyGame, Game
from pipeline.methods.alphazero import examples
from pipeline.methods.alphazero.actor import TreeActor
from pipeline.methods.alphazero.options import LossOptions, SearchTargetOptions, TreeSelfplayOptions
from pipeline.methods.method import (
    PARTS,
    Actor,
    ActorJob,
    Grown,
    IndexArray,
    LearningChart,
    Measure,
    Method,
    Objective,
    Positions,
    Weights,
    learning_chart,
)
from pipeline.methods.options import (
    FirstModelOptions,
    GrowthOptions,
    LambdaOptions,
    ResignationOptions,
    ValueLossOptions,
)
from pipeline.networks.architecture import (
    Architecture,
    grow,
    grown_architecture,
    parse_size,
    random_weights,
    weight_shapes,
)
from pipeline.options import Options, taken
from pipeline.players.loading import load_with_margins
from pipeline.players.player import Player
from pipeline.players.searching import SearchPlayer
from pipeline.progress import Progress
from pipeline.run.chunks import Columns, ColumnTypes
from pipeline.run.models import Model
from pipeline.run.shards import Shard
from pipeline.search.options import SearchOptions
from pipeline.search.tree import MOST_ACTIONS

if TYPE_CHECKING:
    from pipeline.methods.alphazero.training_batch import Batch


class AlphaZero(Method):
    name = "alphazero"
    resigns = True
    options = (SearchOptions, TreeSelfplayOptions, ResignationOptions, SearchTargetOptions, LambdaOptions,
               ValueLossOptions, LossOptions)  # fmt: skip
    shown_terms = ("policy", "value")
    shown_shares = MappingProxyType(
        {"policy_accuracy": "of the moves right", "value_sign_accuracy": "of the winners right"}
    )
    held_out_share = "policy_accuracy"
    tabled = MappingProxyType(
        {
            "policy": Measure(heading="policy loss", is_error=True),
            "value_mse": Measure(heading="value error", is_error=True),  # the loss isn't comparable: soft targets
        }
    )
    charts = (
        learning_chart(
            "Policy loss",
            "Cross-entropy with the searches' policy, in nats. Held-out games are never trained on; before: at the "
            "start of the training.",
            "policy",
            unit="nats",
        ),
        LearningChart(
            "Value error",
            "Mean squared error, from 0 to 4, on equally many positions of the games trained on and of held-out games. "
            "A growing gap between the two after training means overfitting. Positions trained on aren't measured if "
            "td_lambda is below 1: their labels are smoother than the results, which held-out games keep.",
            {
                "trained on, after": ("set_after", "value_mse"),
                **{name: (part, "value_mse") for name, part in PARTS.items() if part != "train"},
            },
        ),
        LearningChart(
            "Agreement of policy and search",
            "How often the network's most likely move is the search's best move, and how often its value predicts the "
            "winner, on held-out games.",
            {
                "same best move": ("holdout_after", "policy_accuracy"),
                "winner": ("holdout_after", "value_sign_accuracy"),
            },
            share=True,
        ),
    )

    def check(self, game: AnyGame) -> None:
        if not isinstance(game, Game) or game.has_chance:
            missing = "has chance" if game.has_chance else "has no fixed list of actions, or no planes"
            raise UsageError(f"method {self.name}: {game.spec} {missing}; wanted a board game without chance")
        if not game.perfect_information:
            raise UsageError(f"method {self.name}: {game.spec} hides something; wanted a game that both players see")
        if game.num_actions > MOST_ACTIONS:
            found = f"{game.spec} has {game.num_actions:,} actions"
            raise UsageError(f"method {self.name}: {found}; wanted at most {MOST_ACTIONS:,}")
        if game.max_result > 1:
            counts = f"counts up to {game.max_result:g} points"
            raise UsageError(f"method {self.name}: {game.spec} {counts}; wanted a game that is won, drawn or lost")

    # Models

    def first_model(self, game: Game, config: FirstModelOptions, progress: Progress) -> tuple[dict[str, Any], Weights]:
        if config.value_head == "points":
            raise UsageError("init --value-head points: method alphazero has scalar and wdl")
        architecture = Architecture.for_game(config.network_size, game, config.value_head)
        return architecture.to_dict(), random_weights(architecture, config.seed)

    def size(self, architecture: Mapping[str, Any]) -> str:
        return Architecture.from_dict(dict(architecture)).size

    def grown(self, game: Game, model: Model, config: GrowthOptions) -> Grown:
        """See Method. A size scheduled by time never shrinks the network: extending a run moves its schedule back."""
        before, wanted = Architecture.from_dict(model.info.architecture), config.network_size
        if wanted and config.time_share is not None:
            blocks, channels = parse_size(wanted)
            wanted = wanted if blocks > before.blocks or channels > before.channels else None
        after = grown_architecture(before, wanted, game.num_planes)
        if after == before:
            shrinks = config.network_size not in (None, before.size)
            note = f"the network stays {before.size}: it can't shrink to {config.network_size}" if shrinks else ""
            return Grown(before.to_dict(), model.weights, note=note)
        more = after.planes - before.planes
        note = f"growing the network from {before.size} to {after.size}{f', with {more} planes more' if more else ''}"
        weights = grow(model.weights, before, after, config.seed)
        return Grown(after.to_dict(), weights, fresh_optimizer=True, note=note)

    def moved(self, old: Game, new: Game, model: Model) -> tuple[dict[str, Any], Weights]:
        """To another board size, to all sizes or to other rules, if planes and point policy stay the same."""
        before = Architecture.from_dict(model.info.architecture)
        height, width = new.board_shape
        here = replace(before, height=height, width=width, actions=new.num_actions)
        added = new.plane_names[len(old.plane_names) :]
        fits = new.plane_names == (*old.plane_names, *added) and weight_shapes(before) == weight_shapes(here)
        sees_boards = isinstance(new, AllBoards) and len(added) == new.num_global_planes
        if not fits or (added and not sees_boards):
            raise MuGoError(
                f"its network sees a board of {old.spec}; {new.spec} has other planes, or moves that aren't points of "
                "the board; wanted another size of the same game"
            )
        if not added:
            return here.to_dict(), model.weights
        seen = replace(before, planes=old.num_planes)  # the game may have gained planes since
        after = replace(here, planes=new.num_planes, global_planes=len(added))
        return after.to_dict(), grow(grow(model.weights, before, seen, 0), seen, after, 0)

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
        return load_with_margins(model, max_batch, num_threads, backend, progress)

    def player(
        self, game: Game, num_rows: int, evaluate: Any, search: SearchOptions, readouts: int, leaves: int = 1
    ) -> Player:
        return SearchPlayer(game, num_rows, evaluate, search, readouts, leaves, getattr(evaluate, "margins", None))

    def actor(self, job: ActorJob) -> Actor:
        return TreeActor(job)

    def policy(self, loaded: Any) -> Callable[..., Any]:
        return loaded  # type: ignore[no-any-return]

    # Examples

    def calibration(self, columns: Columns) -> NDArray[np.uint8] | None:
        return None if "side" in columns else columns["planes"]  # each size of board has scales of its own

    def columns(self, game: Game) -> ColumnTypes:
        return examples.column_types(game)

    def examples(
        self,
        game: Game,
        shards: Sequence[Shard],
        wanted: Positions,
        td_lambda: NDArray[np.float32] | None = None,
        config: Options | None = None,
    ) -> Columns:
        return examples.make_examples(game, shards, wanted, td_lambda)

    # The loss

    def num_symmetries(self, game: Game) -> int:
        return game.symmetries.count

    def kinds(self, columns: Mapping[str, NDArray[Any]]) -> NDArray[np.integer] | None:
        return columns.get("side")

    def kind_name(self, kind: int) -> str:
        return f"{kind}×{kind}"

    def make_batch(
        self, game: Game, columns: Mapping[str, NDArray[Any]], rows: IndexArray, symmetry: IndexArray
    ) -> Batch:
        from pipeline.methods.alphazero.training_batch import make_batch

        return make_batch(game, columns, rows, symmetry)

    def objective(self, architecture: Mapping[str, Any], config: Options) -> Objective:
        from pipeline.methods.alphazero.losses import AlphaZeroObjective

        return AlphaZeroObjective(Architecture.from_dict(dict(architecture)), taken(config, LossOptions))
