"""A model's evaluators for the threads that play, and the calibration positions of int8 networks."""

from __future__ import annotations

from functools import cache

import numpy as np

from pipeline.errors import naming
from pipeline.games.base import Game, Planes
from pipeline.games.registry import parse_game
from pipeline.networks.architecture import Architecture
from pipeline.networks.inference import Evaluator, make_evaluators
from pipeline.progress import Progress
from pipeline.storage.models import Model

CALIBRATION_POSITIONS, CALIBRATION_GAMES = 512, 16


def load_evaluators(
    model: Model, max_batch: int, num_threads: int, backend: str, progress: Progress
) -> list[Evaluator]:
    """One evaluator per thread. Raises FileError that names the model if its weights don't make a network."""
    with naming(model.path):
        return make_evaluators(
            Architecture.from_dict(model.info.architecture),
            model.weights,
            max_batch=max_batch,
            num_threads=num_threads,
            backend=backend,
            progress=progress,
            calibration=calibration_positions(parse_game(model.info.game)) if backend in ("auto", "int8") else None,
        )


@cache
def calibration_positions(game: Game) -> Planes:
    """[N, C, H, W] planes from random games, in the order of plies; N is at most CALIBRATION_POSITIONS.

    They are always the same, and made once per game; don't change them. Random play is weak, but its boards are as
    full as real ones: a network's activations are about as large as in its own games, or slightly larger (LOG.md).
    """
    rng = np.random.default_rng(0)
    states = game.initial(CALIBRATION_GAMES)
    history = game.initial_history(states)
    rows, found = np.arange(CALIBRATION_GAMES), []
    while rows.size:
        legal, planes = game.legal_and_observe(states[rows], history.select(rows))
        found.append(planes.copy())
        actions = (legal * rng.random(legal.shape)).argmax(axis=1).astype(np.int32)
        states[rows] = game.play(states[rows], actions, history.select(rows))
        history.append(rows, game.keys(states[rows]))
        rows = rows[~game.is_over(states[rows])]
    every = np.concatenate(found)
    return every[np.linspace(0, len(every) - 1, min(CALIBRATION_POSITIONS, len(every))).astype(int)]
