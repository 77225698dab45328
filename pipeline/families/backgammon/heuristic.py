"""Heuristic evaluation of turns in backgammon: the race, blots, made points, primes before checkers that they trap.

Every successor of a position is looked at as it stands after the turn, for the one who made it. While the players are
in contact, pips count, and besides: how likely the opponent is to hit, and how much that would cost; points made at
home and next to it, more of them in a row for each of the opponent's checkers behind them; an anchor; what sits on the
bar before closed points. Without contact only the race counts. All in pips, by hand, tried against itself.

Axes: n positions, M successors of all of them, A the most of one; points from 1 to 24 in the mover's own numbering.
Scores as in games/heuristic.py.
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

# Of 36 throws, how many hit a blot so many points before a single checker (1 … 12), if nothing stands between.
SHOTS = np.array([11, 12, 14, 15, 15, 17, 6, 6, 5, 3, 2, 3]) / 36
HIT_COST = 0.35  # of the pips that a hit checker has made, more where the opponent's home is closed
CLOSED_COST = 3.0  # pips for each point that the opponent has closed at home
# What a made point is worth to its owner, by its number: home and the bar point most.
POINT_WORTH = np.array([0, 1.5, 2.5, 3, 4.5, 5.5, 4.5, 3.5, 1.5, 1, 0.5, 0.5, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 1, 0.5, 0])
BLOCKED = 0.6  # pips for each checker that the opponent has behind a made point, for that point
ON_BAR = 3.0  # pips for each checker of the opponent on the bar, for each closed point
STACKED = 0.7  # pips for each checker on a point beyond three
BORNE_OFF = 2.0  # pips for each checker: a gap in the home board costs as much


def move_scores(game: Backgammon, states: States, history: History) -> Scores:
    """[n, A] how each position stands for its mover after each turn, in pips; a result decides."""
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
    """[M, 26] what each player [M] has: borne off, on points 1 to 24 in their own numbering, on the bar."""
    points = states[:, :NUM_POINTS].astype(np.float64)
    own = np.where(players[:, None] == 0, points, -points[:, ::-1]).clip(0)
    rows = np.arange(len(states))
    return np.column_stack([states[rows, OFF + players], own, states[rows, BAR + players]])


def lead(mine: Numbers, theirs: Numbers) -> Numbers:
    """[M] by how many pips the owner of `mine` [M, 26] stands better, the owner of `theirs` to throw."""
    numbers = np.arange(26.0)
    numbers[0] = 0
    race = (theirs - mine) @ numbers + BORNE_OFF * (mine[:, 0] - theirs[:, 0])
    # The opponent's point p is 25 - p here: what is there as I count, bar first.
    seen = theirs[:, ::-1].copy()  # [M, 26] seen[p]: theirs on my point p; seen[0]: on their bar
    seen[:, 25] = 0
    behind = np.cumsum(seen, axis=1) - seen  # theirs that have still to pass my point p, those on the bar included
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
    """[M, 25] 1, and more for each made point in a row with this one: primes hold better than single points. Checkers
    that have been borne off count as one below the first: it is a yardstick, which stays as it was measured.
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
