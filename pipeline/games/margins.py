"""Margins as numbers in [-1, 1], for searches that want as many points as possible instead of the win alone.

A margin is a score of the contract's ``scores``: by how many points a player is ahead. Squashed, points count less the
further a player is ahead, and never nothing. A *side* is that of a square board with as many points, so that boards of
all sizes use the same range.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pipeline.games.contract import Evaluate, FloatArray, Planes

SLOPE = 0.3  # of the squashed margin, per side of the board, where the players are even


class MarginNetwork(NamedTuple):
    """What a network expects of the end of games. Everything is seen by the player to move.

    evaluate  planes → policy logits [B, A] and squashed margins [B]
    owners    planes → [B, P] in [-1, 1], the expected owner of each point
    """

    evaluate: Evaluate
    owners: Callable[[Planes], FloatArray]


def squash(margins: FloatArray, num_points: int) -> FloatArray:
    """[n] in (-1, 1). margins [n], in points of a board of num_points."""
    return np.tanh(np.float32(SLOPE / num_points**0.5) * margins)


def step_of(squashed: FloatArray, points: float, num_points: int) -> FloatArray:
    """[n] by how much `points` more change squashed margins [n]."""
    return np.float32(points * SLOPE / num_points**0.5) * (1 - squashed * squashed)
