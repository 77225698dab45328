"""Which stones are dead when a game of Go ends, by the ownership that a network expects, and the score without them.

Models learn from games that are played until every dead stone is captured; people stop earlier. Points P; black is the
first player, 0, white the second, 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.families.go.board import EMPTY, points_around
from pipeline.games.capabilities import AnyPosition
from pipeline.games.contract import FloatArray, Game

DEAD_BELOW = -0.5  # mean ownership of a group, from its owner's view, below which it counts as dead

State = NDArray[np.int16]


def owner_of(state: State, point: int) -> int:
    """0 black, 1 white, -1 nobody. state [S]"""
    return int(state[point]) - 1


def groups(game: Game, state: State) -> list[list[int]]:
    """The points of each group of connected stones."""
    beside = points_around(game.board_shape[0])[:, :4].tolist()
    found: list[list[int]] = []
    seen: set[int] = set()
    for first in range(game.num_points):
        if first in seen or state[first] == EMPTY:
            continue
        group = [first]
        for point in group:  # grows meanwhile
            group += [near for near in beside[point] if state[near] == state[first] and near not in group]
        seen.update(group)
        found.append(sorted(group))
    return found


def dead_groups(game: Game, state: State, black: FloatArray | None) -> list[list[int]]:
    """The groups that are expected to belong to the other side. black: [P] ownership, +1 black's; None: no group is."""
    if black is None:
        return []
    return [g for g in groups(game, state) if (1, -1)[owner_of(state, g[0])] * float(black[g].mean()) < DEAD_BELOW]


def score_without(game: AnyPosition, state: State, dead: list[list[int]]) -> float:
    """Black's lead, komi included, on the board without these groups."""
    alive: tuple[list[int], list[int]] = ([], [])
    for group in groups(game, state):
        if group not in dead:
            alive[owner_of(state, group[0])].extend(group)
    return float(game.scores(game.position(*alive, to_move=0))[0])
