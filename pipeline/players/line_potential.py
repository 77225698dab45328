"""What a stone on a point does for rows of some length: shared by the senses of games that are about rows.

Axes: n positions, P points, S state words, L lines of `length` points.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from pipeline.games.base import History, IntArray, States

Scores = NDArray[np.float64]
DECISIVE = 1e6  # beyond anything that the senses add up to


def line_potential(
    states: States, num_points: int, movers: NDArray[np.int8], board_shape: tuple[int, int], length: int
) -> Scores:
    """[n, P] what a stone on each point does for the lines through it: (1 + own stones)² for one that the opponent
    isn't in, half of that for taking one away in which there are only the opponent's.

    states [n, S] begin with the points: 0 empty, 1 the first player's stone, 2 the second's; movers [n]: 0 or 1.
    """
    stones = states[:, :num_points]
    mine = movers[:, None] + 1
    lines, through = _lines(*board_shape, length)
    own = (stones == mine)[:, lines].sum(axis=2)  # [n, L]
    theirs = ((stones != mine) & (stones != 0))[:, lines].sum(axis=2)
    made = np.where(theirs == 0, (1 + own) ** 2, 0)
    taken = np.where((own == 0) & (theirs > 0), (1 + theirs) ** 2, 0)
    return (made + 0.5 * taken) @ through


@lru_cache(maxsize=8)
def _lines(height: int, width: int, length: int) -> tuple[IntArray, Scores]:
    """All rows of so many points: which points [L, length] int32, and whether line goes through point [L, P]."""
    lines = [
        [(row + step * down) * width + column + step * across for step in range(length)]
        for down, across in ((0, 1), (1, 0), (1, 1), (1, -1))
        for row in range(height)
        for column in range(width)
        if 0 <= row + (length - 1) * down < height and 0 <= column + (length - 1) * across < width
    ]
    table = np.array(lines, np.int32)
    through = np.zeros((len(table), height * width))
    np.put_along_axis(through, table, 1.0, axis=1)
    return table, through


def no_history(num_games: int) -> History:
    """For moves known to be legal: repetition needn't be looked for again, and histories are far larger than boards."""
    return History.empty(num_games, 1)
