"""Which stones are dead when a game of Go ends, by the ownership that a network expects, and the score without them.

A model learns from games that are played until every dead stone is captured; people stop before. Points P; black is the
first player, 0, white the second, 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.games.contract import FloatArray, Game

DEAD_BELOW = -0.5  # mean ownership of a group, seen by its owner, below which it counts as dead

State = NDArray[np.int16]


def owner_of(state: State, point: int) -> int:
    """0 black, 1 white, -1 nobody. state [S]"""
    return int(state[point]) - 1


def groups(game: Game, state: State) -> list[list[int]]:
    """The points of each group of connected stones."""
    height, width = game.board_shape
    board = state[: height * width].reshape(height, width)
    found: list[list[int]] = []
    seen: set[int] = set()
    for first in range(height * width):
        if first in seen or not board.flat[first]:
            continue
        group, seen = [first], seen | {first}
        for point in group:  # which grows meanwhile
            row, column = divmod(point, width)
            for r, c in ((row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)):
                near = r * width + c
                if 0 <= r < height and 0 <= c < width and near not in seen and board[r, c] == board.flat[first]:
                    group.append(near)
                    seen.add(near)
        found.append(sorted(group))
    return found


def dead_groups(game: Game, state: State, black: FloatArray | None) -> list[list[int]]:
    """Those that are expected to belong to the other side. black: [P] ownership, +1 black's; None: none are."""
    if black is None:
        return []
    return [g for g in groups(game, state) if (1, -1)[owner_of(state, g[0])] * float(black[g].mean()) < DEAD_BELOW]


def score_without(game: Game, state: State, dead: list[list[int]]) -> float:
    """By how much black is ahead, komi included, on the board without these groups."""
    alive: tuple[list[int], list[int]] = ([], [])
    for group in groups(game, state):
        if group not in dead:
            alive[owner_of(state, group[0])].extend(group)
    return float(game.scores(game.position(*alive, to_move=0))[0])
