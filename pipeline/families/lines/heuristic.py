"""Heuristic evaluation of moves where a row of stones wins, and what a stone does for rows, which Gomoku uses, too.

Axes: n positions, M moves (of all positions together), P points, S state words, L lines of `length` points.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pipeline.games.contract import History, IntArray, Scores, States
from pipeline.games.heuristic import DECISIVE, after_each

if TYPE_CHECKING:
    from pipeline.families.lines.game import LineGame

LOSES_TO_A_REPLY = 1e3  # for each reply by which the opponent then wins at once


def move_scores(game: LineGame, states: States, history: History) -> Scores:
    """Win; else leave the opponent the fewest winning replies, which blocks, and gives nothing away where stones fall;
    else the point that does most for lines that are still open.
    """
    legal = game.legal(states, history)
    scores = np.where(legal, 0.0, -np.inf)
    rows, actions, after = after_each(game, states, legal)
    points = (after != states[rows])[:, : game.num_points].argmax(axis=1)
    won = game.returns(after) != 0  # nobody loses by a move of their own
    lost = LOSES_TO_A_REPLY * _winning_replies(game, after)
    scores[rows, actions] += (
        DECISIVE * won
        - lost
        + line_potential(states, game.num_points, game.to_move(states), game.board_shape, game.length)[rows, points]
    )
    return scores


def _winning_replies(game: LineGame, states: States) -> IntArray:
    """[M] the moves that win at once in each position, for its player to move; 0 where the game is over."""
    rows, _, after = after_each(game, states, game.legal(states, History.empty(len(states), 1)))
    return np.bincount(rows[game.returns(after) != 0], minlength=len(states)).astype(np.int32)


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
