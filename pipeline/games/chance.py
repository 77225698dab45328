"""Outcomes of chance that depend only on a game's key and ply, so that a game can be repeated with the same dice.

Axes: n rows, O outcomes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.compiled_kernels import kernel
from pipeline.counter_rng import uniforms
from pipeline.games.contract import Actions, AnyGame, FloatArray, KeyArray, States


def outcomes(game: AnyGame, states: States, keys: KeyArray) -> Actions:
    """[n] int32 the outcome in each of states [n, S], where chance is to move.

    keys [n] uint64: the stream of each game. Games with equal keys have the same luck at the same ply, where their
    probabilities agree.
    """
    return _drawn(game.chance(states), uniforms(keys, game.plies(states)))


@kernel
def _drawn(odds: FloatArray, points: NDArray[np.float64]) -> Actions:
    """[n] int32 the outcome whose interval contains each of points [n] in [0, 1). odds [n, O]: the intervals' lengths.

    Plain twin: tests/games/test_chance.py.
    """
    found = np.zeros(len(odds), np.int32)
    for row in range(len(odds)):
        total = 0.0
        for outcome in range(odds.shape[1]):
            total += odds[row, outcome]
        point, bound = points[row] * total, 0.0
        for outcome in range(odds.shape[1]):
            bound += odds[row, outcome]
            found[row] += bound <= point
    return found
