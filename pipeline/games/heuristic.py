"""Heuristic evaluation of moves: what the games' own evaluations share.

Axes: n positions, A actions. Scores are float64 [n, A], higher is better, -inf for illegal moves; equal scores mean
equally good. They are coarse on purpose, so that games vary. Nothing is random, and nothing is searched beyond the
opponent's immediate reply: the ``heuristic`` player is fixed, to measure others by.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.games.contract import Actions, AnyGame, BoolArray, History, IntArray, Rows, Scores, States

DECISIVE = 1e6  # beyond any sum of the other terms


def after_each(game: AnyGame, states: States, legal: BoolArray) -> tuple[Rows, Actions, States]:
    """Play each legal [n, A] move of positions [n, S]: -> its row [M], the action [M], the position after it [M, S].

    Repetition isn't looked for again, so no histories are copied: they are far larger than boards.
    """
    rows, columns = np.nonzero(legal)
    actions = columns.astype(np.int32)
    return rows, actions, game.play(states[rows], actions, History.empty(len(rows), 1))


def scores_of_positions(
    game: AnyGame, states: States, history: History, leads: Callable[[States], NDArray[Any]]
) -> Scores:
    """[n, A] the mover's lead after each move of positions [n, S]; the result decides if the game is over.

    leads: positions [M, S] → [M] the first player's lead.
    """
    legal = game.legal(states, history)
    rows, actions, after = after_each(game, states, legal)
    sign = np.where(game.to_move(states)[rows] == 0, 1.0, -1.0)
    scores = np.full(legal.shape, -np.inf)
    scores[rows, actions] = sign * (leads(after) + DECISIVE * game.returns(after))
    return scores


def line_potential(
    states: States, num_points: int, movers: NDArray[np.int8], board_shape: tuple[int, int], length: int
) -> Scores:
    """[n, P] line potential: what a stone on each point is worth by the lines of `length` points through it.

    That is (1 + own stones)² for each line without a stone of the opponent, and half of (1 + the opponent's stones)²
    for each line that has only those. states [n, S] begin with the points: 0 empty, 1 the first player's stone, 2 the
    second's; movers [n]: 0 or 1.
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
    """All L lines of this length: their points [L, length] int32, and whether each contains a point [L, P]."""
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
