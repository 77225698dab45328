"""The outputs of an afterstate network: the expected result, or the chances of each result.

A game is worth 1 point, 2 (gammon) or M (backgammon; the game's max_result). Values are expected points in [-M, M].
Values and chances are seen by the player whose turn it is. A network has

    one output     y in [0, 1]; the value is M (2 y - 1)
    five outputs   the chances to win; to win at least 2; to win M; to lose at least 2; to lose M. The value is the
                   equity 2 w - 1 + w2 - l2 + (M - 2)(w3 - l3). These are gnubg's outputs.

Axes: N positions, O outputs.
"""

from __future__ import annotations

import numpy as np

from pipeline.games.contract import FloatArray

ONE, FIVE = 1, 5
MOST_OUTPUTS = FIVE  # columns have this many entries; NaN beyond the network's outputs
WIN, WIN_2, WIN_3, LOSE_2, LOSE_3 = range(FIVE)


def values_of(chances: FloatArray, max_result: float) -> FloatArray:
    """[N] float32 from chances [N, O]."""
    weights, offset = value_weights(chances.shape[1], max_result), value_offset(chances.shape[1], max_result)
    values = np.full(len(chances), -offset, np.float32)
    for output, weight in enumerate(weights):  # a matrix product's order of summation depends on the batch size
        values += weight * chances[:, output]
    return values


def value_weights(outputs: int, max_result: float) -> FloatArray:
    """[O] such that a value is value_weights · chances - value_offset."""
    if outputs == ONE:
        return np.array([2 * max_result], np.float32)
    more = max_result - 2
    return np.array([2, 1, more, -1, -more], np.float32)


def value_offset(outputs: int, max_result: float) -> np.float32:
    return np.float32(max_result if outputs == ONE else 1)


def chances_of(results: FloatArray, outputs: int, max_result: float) -> FloatArray:
    """[N, O]: the exact chances of finished games with results [N], seen by the player whose turn it is.

    A game without a winner counts as won with probability 1/2.
    """
    if outputs == ONE:
        return ((results[:, None] / max_result + 1) / 2).astype(np.float32)
    won = (np.sign(results) + 1) / 2
    parts = [won, *(sign * results >= points for sign in (1, -1) for points in (2, max_result))]
    return np.stack(parts, axis=1).astype(np.float32)


def seen_by_other(chances: FloatArray) -> FloatArray:
    """[N, O] the same chances seen by the other player."""
    turned = np.empty_like(chances)
    turned[:, WIN] = 1 - chances[:, WIN]
    if chances.shape[1] == FIVE:
        turned[:, [WIN_2, WIN_3, LOSE_2, LOSE_3]] = chances[:, [LOSE_2, LOSE_3, WIN_2, WIN_3]]
    return turned


def discounted(chances: FloatArray, gamma: float) -> FloatArray:
    """[N, O] chances whose value is multiplied by gamma."""
    if gamma == 1:
        return chances
    shrunk = np.float32(gamma) * chances
    shrunk[:, WIN] += np.float32((1 - gamma) / 2)
    return shrunk
