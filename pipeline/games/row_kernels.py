"""Kernels for games of stones that a row of stones wins, over rows of flat int16 states.

Axes: B batch, P points (row-major, row 0 at the top), S state words, A actions. Plain twin: tests/reference/lines.py.

One state row, S = P + 4 words:
    0 .. P-1      the points: EMPTY, FIRST or SECOND
    P + TO_MOVE   0 first player, 1 second
    P + PLY       moves made
    P + OVER      1 after a line or on a full board
    P + WINNER    the player who made a line, FIRST or SECOND; 0 while nobody did
"""

from __future__ import annotations

import numpy as np

from pipeline.compiled_kernels import kernel
from pipeline.games.contract import BoolArray, KeyArray, Planes, States

EMPTY, FIRST, SECOND = 0, 1, 2
TO_MOVE, PLY, OVER, WINNER = 0, 1, 2, 3
EXTRA_WORDS = 4
LEGAL, OUT_OF_RANGE, GAME_OVER, OCCUPIED = 0, 1, 2, 3


@kernel
def unplayable(action: int, num_actions: int, over: int) -> int:
    """LEGAL, OUT_OF_RANGE or GAME_OVER: what can be said of an action without a look at the board."""
    if action < 0 or action >= num_actions:
        return OUT_OF_RANGE
    return GAME_OVER if over else LEGAL


@kernel
def makes_line(state: States, height: int, width: int, length: int, exact: int, point: int, colour: int) -> bool:
    """Whether a stone of this colour on `point` is, or would be, in a row of `length`, or of more without `exact`.

    Plain twin: LineReference.has_line.
    """
    row, column = point // width, point % width
    for row_step, column_step in ((0, 1), (1, 0), (1, 1), (1, -1)):
        run = 1
        for sign in (1, -1):
            r, c = row + sign * row_step, column + sign * column_step
            while 0 <= r < height and 0 <= c < width and state[r * width + c] == colour:
                run += 1
                r += sign * row_step
                c += sign * column_step
        if run == length or (run > length and not exact):
            return True
    return False


@kernel
def legal_and_observe(states: States, num_points: int, deciding: bool, allowed: BoolArray, planes: Planes) -> None:
    """Fill allowed [B, A] bool, unless `deciding` is False: where there is room; nothing once the game is over.

    Fill planes [B, C, P] uint8 from the mover's side, unless they have 0 rows: own stones, the opponent's, and whether
    the mover is the second player.

    Plain twin: LineReference.legal.
    """
    for b in range(len(states)):
        state = states[b]
        mover = state[num_points + TO_MOVE]
        if deciding:  # a falling stone needs room in its column's top row, which is row 0
            playing = state[num_points + OVER] == 0
            for action in range(allowed.shape[1]):
                allowed[b, action] = playing and state[action] == EMPTY
        if len(planes) > 0:
            plane = planes[b]
            for point in range(num_points):
                plane[0, point] = state[point] == mover + 1
                plane[1, point] = state[point] == 2 - mover
                plane[2, point] = mover


@kernel
def keys(states: States, weights: KeyArray) -> KeyArray:
    """-> [B] uint64, a hash of the points: their sum, each times its random weight [P] (Carter and Wegman 1979)."""
    found = np.empty(len(states), np.uint64)
    for b in range(len(states)):
        key = np.uint64(0)
        for point in range(len(weights)):
            key += np.uint64(states[b, point]) * weights[point]
        found[b] = key
    return found
