"""Line games over rows of flat int16 states: the kernels behind ``LineGame``. Plain twin: ``tests/reference/lines.py``.

Axes: B batch, P points (row-major, row 0 at the top), S state words, A actions.

One state row, S = P + 4 words:
    0 .. P-1      the points: EMPTY, FIRST or SECOND
    P + TO_MOVE   0 first player, 1 second
    P + PLY       moves made
    P + OVER      1 after a line or on a full board
    P + WINNER    the player who made a line, FIRST or SECOND; 0 while nobody did
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.games.contract import Actions, BoolArray, KeyArray, Planes, States
from pipeline.kernels import kernel

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
def landing_point(state: States, height: int, width: int, falls: bool, action: int) -> int:
    """The point where a stone of this action comes to rest, -1 if there is no room. action must be in 0..A-1."""
    if not falls:
        return action if state[action] == EMPTY else -1
    for row in range(height - 1, -1, -1):
        if state[row * width + action] == EMPTY:
            return row * width + action
    return -1


@kernel
def makes_line(state: States, height: int, width: int, length: int, exact: int, point: int, colour: int) -> bool:
    """Whether a stone of this colour on `point` stands in a row of `length`, or would; without `exact` also in a longer
    one. Twin: LineReference.has_line.
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
def play(
    states: States, actions: Actions, height: int, width: int, length: int, falls: bool
) -> tuple[States, NDArray[np.uint8]]:
    """-> states [B, S] after actions [B] int32, and status [B] uint8: LEGAL or why not (then the row is unchanged).

    Plain twin: LineReference.play.
    """
    num_points = height * width
    num_actions = width if falls else num_points
    after = states.copy()
    status = np.zeros(len(states), np.uint8)
    for b in range(len(states)):
        state, action = after[b], actions[b]
        status[b] = unplayable(action, num_actions, state[num_points + OVER])
        if status[b]:
            continue
        point = landing_point(state, height, width, falls, action)
        if point < 0:
            status[b] = OCCUPIED
            continue
        mover = state[num_points + TO_MOVE]
        state[point] = mover + 1
        state[num_points + TO_MOVE] = 1 - mover
        state[num_points + PLY] += 1
        if makes_line(state, height, width, length, 0, point, mover + 1):
            state[num_points + WINNER] = mover + 1
            state[num_points + OVER] = 1
        elif state[num_points + PLY] == num_points:
            state[num_points + OVER] = 1
    return after, status


@kernel
def legal_and_observe(states: States, num_points: int, deciding: bool, allowed: BoolArray, planes: Planes) -> None:
    """Fill allowed [B, A] bool: where there is room; nothing once the game is over. Without `deciding` it is known.
    Fill planes [B, C, P] uint8 from the mover's side, if they have rows: own stones, the opponent's, and whether the
    mover is the second player.

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
