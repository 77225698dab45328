"""Heuristic evaluation of moves in Othello: corners, the squares beside empty corners, mobility, and discs at the end.

Axes: n positions, M moves (of all positions together), A actions, S state words. Scores as in games/heuristic.py.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np

from pipeline.families.othello import kernels
from pipeline.games.contract import History, IntArray, Scores, States
from pipeline.games.heuristic import scores_of_positions

if TYPE_CHECKING:
    from pipeline.families.othello.game import Othello

# In moves of mobility.
CORNER = 20.0
DIAGONAL, BESIDE = -8.0, -4.0  # squares that touch an empty corner give it away
DISC = 1.0
LATE_SHARE = 0.2  # of the points empty; from then on discs count


def move_scores(game: Othello, states: States, history: History) -> Scores:
    """[n, A] the mover's lead after each move."""
    return scores_of_positions(game, states, history, partial(_first_players_lead, game))


def _first_players_lead(game: Othello, states: States) -> Scores:
    """[M] the first player's advantage."""
    discs = game.ownership(states).astype(np.float64)
    corners, beside, diagonal = _corner_squares(game.size)
    free = discs[:, corners] == 0  # [M, 4]
    lead = CORNER * discs[:, corners].sum(axis=1)
    lead += BESIDE * (free * discs[:, beside].sum(axis=2)).sum(axis=1)
    lead += DIAGONAL * (free * discs[:, diagonal]).sum(axis=1)
    moves = kernels.mobility(states, game.size)
    lead += moves[:, 0] - moves[:, 1]
    late = (discs == 0).mean(axis=1) < LATE_SHARE
    return lead + DISC * late * discs.sum(axis=1)


@lru_cache(maxsize=8)
def _corner_squares(size: int) -> tuple[IntArray, IntArray, IntArray]:
    """The corners [4], the two points beside each [4, 2], the point diagonal to each [4]."""
    corners, beside, diagonal = [], [], []
    for row, down in ((0, 1), (size - 1, -1)):
        for column, across in ((0, 1), (size - 1, -1)):
            corners.append(row * size + column)
            beside.append([(row + down) * size + column, row * size + column + across])
            diagonal.append((row + down) * size + column + across)
    return np.array(corners, np.int32), np.array(beside, np.int32), np.array(diagonal, np.int32)
