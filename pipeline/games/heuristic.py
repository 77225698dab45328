"""What the games' heuristic evaluations share.

Axes: n positions, A actions. Scores are float64 [n, A]: higher is better, -inf for illegal moves. They are coarse on
purpose, so that moves tie and games vary. Nothing is random, and nothing is searched beyond the opponent's next reply:
the ``heuristic`` player is a fixed measure for others.
"""

from __future__ import annotations

import numpy as np

from pipeline.games.contract import Actions, AnyGame, BoolArray, History, Rows, States

DECISIVE = 1e6  # larger than any sum of the other terms


def after_each(game: AnyGame, states: States, legal: BoolArray) -> tuple[Rows, Actions, States]:
    """Play each legal [n, A] move of positions [n, S]: -> its row [M], the action [M], the position after it [M, S].

    Doesn't check for repetition again, because histories to copy are far larger than boards.
    """
    rows, columns = np.nonzero(legal)
    actions = columns.astype(np.int32)
    return rows, actions, game.play(states[rows], actions, History.empty(len(rows), 1))
