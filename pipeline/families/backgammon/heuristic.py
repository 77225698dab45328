"""Heuristic evaluation of turns in backgammon: the race, blots, made points, and primes that trap checkers.

It scores each successor for the player who made the turn, in pips. The race always counts. During contact it adds the
risk and cost of being hit, made points in and near the home board, runs of points with opposing checkers behind them,
anchors, and opposing checkers on the bar before closed points. The weights were tuned by hand in self-play.

Axes: n positions, M successors of all positions, A the most successors of one; points 1 to 24 in the mover's own
numbering. Scores as in games/heuristic.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pipeline.families.backgammon.kernels import BAR, NUM_POINTS, OFF, TURN
from pipeline.games.contract import History, Scores, States
from pipeline.games.heuristic import DECISIVE

if TYPE_CHECKING:
    from pipeline.families.backgammon.game import Backgammon

Numbers = NDArray[np.float64]

# Share of throws that hit a blot 1 … 12 points ahead of a single checker, if no point between is blocked.
SHOTS = np.array([11, 12, 14, 15, 15, 17, 6, 6, 5, 3, 2, 3]) / 36
HIT_COST = 0.35  # per pip that a hit checker loses
CLOSED_COST = 3.0  # pips added to a hit's cost for each point that the opponent has closed at home
# Pips that a made point is worth to its owner, by its number.
POINT_WORTH = np.array([0, 1.5, 2.5, 3, 4.5, 5.5, 4.5, 3.5, 1.5, 1, 0.5, 0.5, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 1, 0.5, 0])
BLOCKED = 0.6  # pips for each pair of a made point and an opposing checker behind it
ON_BAR = 3.0  # pips for each pair of an opposing checker on the bar and a closed point
STACKED = 0.7  # pips lost for each checker beyond three on a point
BORNE_OFF = 2.0  # pips for each checker borne off: the cost of a gap in the home board


def move_scores(game: Backgammon, states: States, history: History) -> Scores:
    """[n, A] the mover's lead after each turn, in pips; a final result outweighs everything."""
    found = game.successors(states)
    counts = np.diff(found.offsets)
    rows = np.repeat(np.arange(len(states)), counts)
    movers = states[rows, TURN]
    mine, theirs = checkers(found.states, movers), checkers(found.states, 1 - movers)
    sign = np.where(movers == 0, 1.0, -1.0)
    scores = np.full((len(states), int(counts.max(initial=0))), -np.inf)
    actions = np.arange(len(rows)) - found.offsets[:-1][rows]
    scores[rows, actions] = lead(mine, theirs) + DECISIVE * sign * game.returns(found.states)
    return scores


def checkers(states: States, players: NDArray[np.integer]) -> Numbers:
    """[M, 26] each player's [M] checkers: borne off, on points 1 to 24 in the player's own numbering, on the bar."""
    points = states[:, :NUM_POINTS].astype(np.float64)
    own = np.where(players[:, None] == 0, points, -points[:, ::-1]).clip(0)
    rows = np.arange(len(states))
    return np.column_stack([states[rows, OFF + players], own, states[rows, BAR + players]])


def lead(mine: Numbers, theirs: Numbers) -> Numbers:
    """[M] the lead in pips of the owner of `mine` [M, 26] when the owner of `theirs` is to throw."""
    numbers = np.arange(26.0)
    numbers[0] = 0
    race = (theirs - mine) @ numbers + BORNE_OFF * (mine[:, 0] - theirs[:, 0])
    seen = theirs[:, ::-1].copy()  # [M, 26] seen[p]: theirs on my point p; seen[0]: on their bar
    seen[:, 25] = 0
    behind = np.cumsum(seen, axis=1) - seen  # theirs that have yet to pass my point p, including the bar
    last = np.where(mine > 0, numbers, 0).max(axis=1)
    first = np.where(seen > 0, numbers, 99).min(axis=1)
    contact = last > first
    made, closed_by_them = mine[:, :25] >= 2, (theirs[:, 1:7] >= 2).sum(axis=1)
    worth = (made * (POINT_WORTH + BLOCKED * np.minimum(behind[:, :25], 4) * _in_a_row(made))).sum(axis=1)
    closed = made[:, 1:7].sum(axis=1)
    worth += ON_BAR * seen[:, 0] * closed - STACKED * (mine[:, 1:25] - 3).clip(0).sum(axis=1)
    risk = np.zeros(len(mine))
    for point in range(1, 25):
        is_blot = mine[:, point] == 1
        if is_blot.any():
            safe = np.ones(len(mine))
            for distance in range(1, min(point, 12) + 1):
                safe *= 1 - SHOTS[distance - 1] * (seen[:, point - distance] > 0)
            cost = HIT_COST * (25 - point) + CLOSED_COST * closed_by_them + 2
            risk += is_blot * (1 - safe) * cost
    return race + contact * (worth - risk)


def _in_a_row(made: NDArray[np.bool_]) -> Numbers:
    """[M, 25] 1 + 0.5 for each of up to three made points directly below: primes block better than single points.

    Two or more checkers borne off count as a made point 0. This is kept: the weights were tuned with it.
    """
    run = np.ones(made.shape)
    for step in (1, 2, 3):
        together = np.ones(made.shape, bool)
        for k in range(1, step + 1):
            shifted = np.zeros(made.shape, bool)
            shifted[:, k:] = made[:, :-k]
            together &= shifted
        run += 0.5 * together
    return run
