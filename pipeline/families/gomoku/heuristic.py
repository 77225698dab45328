"""Heuristic evaluation of moves in Gomoku: make and block fives, fours and threes, capture, answer threats.

Axes: n positions, A = P actions. Scores as in games/heuristic.py. A move is worth what it makes, what the opponent
would make there, and a little for the lines through it. Only moves that may decide the game at once are played out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pipeline.families.gomoku import kernels
from pipeline.families.gomoku import shapes as gomoku_shapes
from pipeline.games.contract import History, Scores, States
from pipeline.games.heuristic import DECISIVE, after_each, line_potential

if TYPE_CHECKING:
    from pipeline.families.gomoku.game import Gomoku

LENGTH = 5
# Their order matters more than their size.
ANSWERS = 1e5  # prevents the opponent's win by the next move
STRAIGHT_FOUR = 2000.0
FORK = 1000.0  # two fours, or a four and a three
TWO_THREES = 200.0
FOUR = 25.0
THREE = 20.0
PAIR = 30.0  # multiplied by one more than the pairs taken before
THEIRS = 0.5  # weight of the opponent's shapes
LINE_POTENTIAL = 0.05  # weight of line_potential


def move_scores(game: Gomoku, states: States, history: History) -> Scores:
    """[n, A] of positions [n, S] that are not over; -inf for illegal moves."""
    legal = game.legal(states, history)
    movers = game.to_move(states)
    shapes, every = game.shapes(states), np.arange(len(states))
    own, theirs = shapes[every, movers], shapes[every, 1 - movers]
    scores = _worth(own) + THEIRS * _worth(theirs)
    scores += LINE_POTENTIAL * line_potential(states, game.num_points, movers, game.board_shape, LENGTH)
    decisive, threats = game.fives(states, movers), game.fives(states, 1 - movers)
    if game.rules.goal:
        taken, lost = game.captures(states, movers), game.captures(states, 1 - movers)
        pairs = game.pairs(states)
        ours, their = pairs[every, movers][:, None], pairs[every, 1 - movers][:, None]
        scores += PAIR * taken * (1 + ours) + THEIRS * PAIR * lost * (1 + their)
        decisive |= taken > 0  # may win by pairs, or break a five
        threats |= (lost > 0) & (lost + their >= game.rules.goal)
    scores += ANSWERS * threats
    rows, actions, after = after_each(game, states, decisive & legal)
    if rows.size:
        sign = np.where(movers[rows] == 0, 1, -1)
        scores[rows, actions] += DECISIVE * (game.returns(after) * sign == 1)
        broken = (states[rows, game.num_points + kernels.FIVE] != 0) & ~game.is_over(after)
        scores[rows, actions] += 2 * ANSWERS * broken
        waiting = after[:, game.num_points + kernels.FIVE] == movers[rows] + 1
        scores[rows, actions] += ANSWERS / 2 * waiting  # a five of ours that they must answer
    return np.where(legal, scores, -np.inf)


def _worth(shapes: np.ndarray) -> Scores:
    """[n, A] the worth of what a stone makes. shapes [n, A, 5]: one player's, from Gomoku.shapes."""
    straight, fours, threes = (
        shapes[:, :, shape] for shape in (gomoku_shapes.STRAIGHT_FOUR, gomoku_shapes.FOUR, gomoku_shapes.THREE)
    )
    fork = (fours >= 2) | ((fours >= 1) & (threes >= 1))
    worth = STRAIGHT_FOUR * (straight > 0) + FORK * fork + TWO_THREES * (threes >= 2)
    return worth + FOUR * (fours > 0) + THREE * (threes > 0)
