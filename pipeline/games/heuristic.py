"""Heuristic evaluation of moves: what the games' own evaluations share.

Axes: n positions, A actions. Scores are float64 [n, A], higher is better, -inf for illegal moves; equal scores mean
equally good. They are coarse on purpose, so that games vary. Nothing is random, and nothing is searched beyond the
opponent's immediate reply: the ``heuristic`` player is fixed, to measure others by.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.games.base import History

Scores = NDArray[np.float64]
DECISIVE = 1e6  # beyond any sum of the other terms


def no_history(num_games: int) -> History:
    """For moves known to be legal: repetition needn't be looked for again, and histories are far larger than boards."""
    return History.empty(num_games, 1)
