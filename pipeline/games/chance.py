"""Outcomes of chance that depend on a game's key and ply alone, so that a game can be played again, dice and all.

Axes: n rows, O outcomes.
"""

from __future__ import annotations

import numpy as np

from pipeline.counter_rng import uniforms
from pipeline.games.base import Actions, AnyGame, KeyArray, States


def outcomes(game: AnyGame, states: States, keys: KeyArray) -> Actions:
    """[n] int32 the outcome in each of states [n, S], where chance is to move.

    keys [n] uint64: the stream of each game; games with equal keys that are at the same ply meet the same luck as far
    as their probabilities agree.
    """
    bounds = np.cumsum(game.chance(states), axis=1, dtype=np.float64)
    points = uniforms(keys, game.plies(states)) * bounds[:, -1]
    return (bounds <= points[:, None]).sum(axis=1).astype(np.int32)
