"""Heuristic evaluation of moves where a row of stones wins.

Axes: n positions, M moves (of all positions together), A actions, S state words. Scores as in games/heuristic.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pipeline.games.contract import History, IntArray, Scores, States
from pipeline.games.heuristic import DECISIVE, after_each, line_potential

if TYPE_CHECKING:
    from pipeline.families.lines.game import LineGame

LOSES_TO_A_REPLY = 1e3  # for each reply that wins for the opponent at once


def move_scores(game: LineGame, states: States, history: History) -> Scores:
    """Win; else leave the opponent the fewest winning replies; else choose the point with the most line potential."""
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
    """[M] the number of moves by which the player to move wins at once; 0 where the game is over."""
    rows, _, after = after_each(game, states, game.legal(states, History.empty(len(states), 1)))
    return np.bincount(rows[game.returns(after) != 0], minlength=len(states)).astype(np.int32)
