"""Heuristic evaluation of moves: what the games' own evaluations share.

Axes: n positions, A actions. Scores are float64 [n, A], higher is better, -inf for illegal moves; equal scores mean
equally good. They are coarse on purpose, so that games vary. Nothing is random, and nothing is searched beyond the
opponent's immediate reply: the ``heuristic`` player is fixed, to measure others by.
"""

from __future__ import annotations

import numpy as np

from pipeline.games.contract import Actions, AnyGame, BoolArray, History, Rows, States

DECISIVE = 1e6  # beyond any sum of the other terms


def after_each(game: AnyGame, states: States, legal: BoolArray) -> tuple[Rows, Actions, States]:
    """Play each legal [n, A] move of positions [n, S]: -> its row [M], the action [M], the position after it [M, S].

    Repetition isn't looked for again, so no histories are copied: they are far larger than boards.
    """
    rows, columns = np.nonzero(legal)
    actions = columns.astype(np.int32)
    return rows, actions, game.play(states[rows], actions, History.empty(len(rows), 1))
