"""What selfplay and evaluate share: how many lanes play, and a model's evaluators for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pipeline.config import EvaluateConfig, SelfplayConfig, available_cores
from pipeline.errors import naming
from pipeline.games.base import Game
from pipeline.progress import Progress
from pipeline.records.models import Model

if TYPE_CHECKING:
    from pipeline.networks.caching import Evaluate
    from pipeline.networks.inference import Evaluator


def lanes_and_rows(config: SelfplayConfig | EvaluateConfig, num_games: int) -> tuple[int, int]:
    """How many lanes play num_games, and how many games each has at a time."""
    lanes = max(1, min(config.threads or available_cores(), num_games))
    return lanes, -(-min(config.parallel_games, num_games) // lanes)


def load_evaluators(
    model: Model, max_batch: int, num_lanes: int, backend: str, progress: Progress
) -> list[Evaluator]:
    """One evaluator per lane. Raises FileError, naming the model, if its weights don't make a network."""
    from pipeline.networks.architecture import Architecture
    from pipeline.networks.inference import make_evaluators

    with naming(model.path):
        return make_evaluators(
            Architecture.from_dict(model.info.architecture),
            model.weights,
            max_batch=max_batch,
            num_lanes=num_lanes,
            backend=backend,
            progress=progress,
        )


def remembering(evaluators: Sequence[Evaluator], game: Game, positions: int) -> list[Evaluate]:
    """The same evaluators, each with a memory of so many positions; as they are for 0."""
    if not positions:
        return list(evaluators)
    from pipeline.networks.caching import CachedEvaluator

    return [CachedEvaluator(evaluator, positions, game.num_actions) for evaluator in evaluators]
