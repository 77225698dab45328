"""Expectimax over all throws and turns, one position at a time: the plain twin of
``families/backgammon/td/expectimax.py``.

judge(state) is what a network says that a position before a throw is worth, in points, to the player about to throw.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pipeline.families.backgammon.feature_game import FeatureGame

Judge = Callable[[np.ndarray], float]


def result_for_turn(game: FeatureGame, state: np.ndarray) -> float:
    result = float(game.returns(state[None])[0])
    return result if game.turns(state[None])[0] == 0 else -result


def turns_after(game: FeatureGame, state: np.ndarray) -> list[tuple[float, list[np.ndarray]]]:
    """(probability, where each turn leads) of every throw that may come."""
    odds = game.chance(state[None])[0]
    found = []
    for outcome in np.flatnonzero(odds):
        thrown = game.happen(state[None], np.array([outcome], np.int32))
        found.append((float(odds[outcome]), list(game.successors(thrown).states)))
    return found


def expected(game: FeatureGame, state: np.ndarray, plies: int, judge: Judge) -> float:
    """What a position before a throw is worth to the player about to throw, looking `plies` throws ahead."""
    if game.is_over(state[None])[0]:
        return result_for_turn(game, state)
    if plies == 0:
        return judge(state)
    return sum(
        odds * max(-expected(game, after, plies - 1, judge) for after in turns)
        for odds, turns in turns_after(game, state)
    )


def mixed(
    game: FeatureGame, after: np.ndarray, judge: Judge, own_weight: float, replies_weight: float, most: int
) -> float:
    """α · S - β · Σ p(throw) · mean(the best replies) of a turn that leads to `after`, for whoever plays it."""
    own = -expected(game, after, 0, judge)
    if game.is_over(after[None])[0]:
        return own_weight * own - replies_weight * result_for_turn(game, after)
    total = 0.0
    for odds, turns in turns_after(game, after):
        best = sorted((-expected(game, reply, 0, judge) for reply in turns), reverse=True)[:most]
        total += odds * sum(best) / len(best)
    return own_weight * own - replies_weight * total
