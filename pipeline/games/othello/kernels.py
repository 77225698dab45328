"""Othello over rows of flat int16 states: the kernels behind ``Othello``. Plain twin: tests/reference/othello.py.

Axes: B batch, P = size² points (row-major, row 0 at the top), S state words, A = P + 1 actions, the last one the pass.
A state row is the points and then TO_MOVE, PLY, OVER and WINNER, as in games/lines/kernels.py.

Kernels run one thread and take all parameters as arguments. They don't check array shapes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.games.base import Actions, BoolArray, IntArray, States
from pipeline.games.lines.kernels import (
    EMPTY,
    FIRST,
    GAME_OVER,
    OCCUPIED,
    OUT_OF_RANGE,
    OVER,
    PLY,
    SECOND,
    TO_MOVE,
    WINNER,
)
from pipeline.kernels import kernel

FLIPS_NOTHING, MAY_NOT_PASS = 4, 5  # status, besides those of lines/kernels.py
DIRECTIONS = ((-1, -1), (-1, 0), (-1, 1), (0, -1), (0, 1), (1, -1), (1, 0), (1, 1))


@kernel
def flips(state: States, size: int, point: int, mover: int, down: int, across: int) -> int:
    """How many discs one of mover on an empty point encloses in one direction. Plain twin: OthelloReference.flips."""
    own, theirs = mover + 1, 2 - mover
    row, column = point // size + down, point % size + across
    count = 0
    while 0 <= row < size and 0 <= column < size and state[row * size + column] == theirs:
        count += 1
        row += down
        column += across
    if 0 <= row < size and 0 <= column < size and state[row * size + column] == own:
        return count
    return 0


@kernel
def may_place(state: States, size: int, point: int, mover: int) -> bool:
    """Whether the point is empty and a disc of mover there flips something."""
    if state[point] != EMPTY:
        return False
    for down, across in DIRECTIONS:  # noqa: SIM110  numba compiles no generators
        if flips(state, size, point, mover, down, across):
            return True
    return False


@kernel
def can_move(state: States, size: int, mover: int) -> bool:
    """Whether mover may place a disc anywhere."""
    for point in range(size * size):  # noqa: SIM110
        if may_place(state, size, point, mover):
            return True
    return False


@kernel
def place(state: States, size: int, point: int, mover: int) -> int:
    """Put a disc of mover on an empty point and flip what it encloses; -> how many. Changes state in place."""
    total = 0
    for down, across in DIRECTIONS:
        count = flips(state, size, point, mover, down, across)
        for step in range(1, count + 1):
            state[point + step * (down * size + across)] = mover + 1
        total += count
    state[point] = mover + 1
    return total


@kernel
def play(states: States, actions: Actions, size: int) -> tuple[States, NDArray[np.uint8]]:
    """-> states [B, S] after actions [B] int32, and status [B] uint8: LEGAL or why not (then the row is meaningless).

    Plain twin: OthelloReference.play.
    """
    num_points = size * size
    after = states.copy()
    status = np.zeros(len(states), np.uint8)
    for b in range(len(states)):
        state, action = after[b], actions[b]
        mover = state[num_points + TO_MOVE]
        if action < 0 or action > num_points:
            status[b] = OUT_OF_RANGE
        elif state[num_points + OVER]:
            status[b] = GAME_OVER
        elif action == num_points:
            if can_move(state, size, mover):
                status[b] = MAY_NOT_PASS
        elif state[action] != EMPTY:
            status[b] = OCCUPIED
        elif place(state, size, action, mover) == 0:
            status[b] = FLIPS_NOTHING
        if status[b]:
            continue
        state[num_points + TO_MOVE] = 1 - mover
        state[num_points + PLY] += 1
        if not can_move(state, size, 1 - mover) and not can_move(state, size, mover):
            state[num_points + OVER] = 1
            lead = 0
            for point in range(num_points):
                lead += (state[point] == FIRST) - (state[point] == SECOND)
            if lead:
                state[num_points + WINNER] = FIRST if lead > 0 else SECOND
    return after, status


@kernel
def legal(states: States, size: int) -> BoolArray:
    """-> [B, A] bool: where a disc flips something, else the pass; nothing once the game is over.

    Plain twin: OthelloReference.legal.
    """
    num_points = size * size
    allowed = np.zeros((len(states), num_points + 1), np.bool_)
    for b in range(len(states)):
        if states[b, num_points + OVER]:
            continue
        mover = states[b, num_points + TO_MOVE]
        none = True
        for point in range(num_points):
            if may_place(states[b], size, point, mover):
                allowed[b, point] = True
                none = False
        allowed[b, num_points] = none
    return allowed


@kernel
def mobility(states: States, size: int) -> IntArray:
    """-> [B, 2] int32: on how many points each player could place a disc, whoever is to move."""
    found = np.zeros((len(states), 2), np.int32)
    for b in range(len(states)):
        for player in range(2):
            for point in range(size * size):
                found[b, player] += may_place(states[b], size, point, player)
    return found
