"""What the outputs of an afterstate network mean: the expected result, or the chances of winning and losing so much.

A game counts 1 point, 2 (a gammon) or M (a backgammon; M is 3, or what the game says). Values are expected points in
[-M, M], seen by the player whose turn it is, like all chances here. A network has

    one output     y in [0, 1]; the value is M (2 y - 1)
    five outputs   the chances to win; to win 2 or more; to win M; to lose 2 or more; to lose M. Chances of more points
                   are part of those of fewer. The value is the equity 2 w - 1 + w2 - l2 + (M - 2)(w3 - l3).

Five outputs are gnubg's. Axes: N positions, O outputs.
"""

from __future__ import annotations

import numpy as np

from pipeline.games.contract import FloatArray

ONE, FIVE = 1, 5
WIN, WIN_2, WIN_3, LOSE_2, LOSE_3 = range(FIVE)


def values_of(chances: FloatArray, max_result: float) -> FloatArray:
    """[N] float32 from chances [N, O]."""
    weights, offset = value_weights(chances.shape[1], max_result), value_offset(chances.shape[1], max_result)
    values = np.full(len(chances), -offset, np.float32)
    for output, weight in enumerate(weights):  # in a fixed order: a product of matrices depends on the batch's size
        values += weight * chances[:, output]
    return values


def value_weights(outputs: int, max_result: float) -> FloatArray:
    """[O] by which a value is value_weights · chances - value_offset."""
    if outputs == ONE:
        return np.array([2 * max_result], np.float32)
    more = max_result - 2
    return np.array([2, 1, more, -1, -more], np.float32)


def value_offset(outputs: int, max_result: float) -> np.float32:
    return np.float32(max_result if outputs == ONE else 1)


def chances_of(results: FloatArray, outputs: int, max_result: float) -> FloatArray:
    """[N, O]: what is certain once a game has ended with these results [N], seen by the player whose turn it is.

    A game that nobody wins counts as won by either with equal chances.
    """
    if outputs == ONE:
        return ((results[:, None] / max_result + 1) / 2).astype(np.float32)
    won = (np.sign(results) + 1) / 2
    parts = [won, *(sign * results >= points for sign in (1, -1) for points in (2, max_result))]
    return np.stack(parts, axis=1).astype(np.float32)


def seen_by_other(chances: FloatArray) -> FloatArray:
    """[N, O] the same chances, seen by the other player."""
    turned = np.empty_like(chances)
    turned[:, WIN] = 1 - chances[:, WIN]
    if chances.shape[1] == FIVE:
        turned[:, [WIN_2, WIN_3, LOSE_2, LOSE_3]] = chances[:, [LOSE_2, LOSE_3, WIN_2, WIN_3]]
    return turned


def discounted(chances: FloatArray, gamma: float) -> FloatArray:
    """[N, O] chances whose value is gamma times as large."""
    if gamma == 1:
        return chances
    shrunk = np.float32(gamma) * chances
    shrunk[:, WIN] += np.float32((1 - gamma) / 2)
    return shrunk
