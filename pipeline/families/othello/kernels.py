"""Othello over rows of flat int16 states: the kernels behind ``Othello``. Plain twin: tests/reference/othello.py.

Axes: B batch, P = size² points (row-major, row 0 at the top), S state words, A = P + 1 actions, the last one the pass.
A state row is the points and then TO_MOVE, PLY, OVER and WINNER, as in games/row_kernels.py.
A set of points is one int64 per row of the board, whose bits are the columns; rows [SETS, size] holds several sets.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.compiled_kernels import kernel
from pipeline.games.contract import Actions, BoolArray, IntArray, Planes, States
from pipeline.games.row_kernels import (
    EMPTY,
    FIRST,
    OCCUPIED,
    OVER,
    PLY,
    SECOND,
    TO_MOVE,
    WINNER,
    unplayable,
)

FLIPS_NOTHING, MAY_NOT_PASS = 4, 5  # status, besides those of row_kernels.py
OWN, THEIRS, FREE, PLACEMENTS, SETS = 0, 1, 2, 3, 4  # sets of points, and their number
RowSets = NDArray[np.int64]
DIRECTIONS = ((-1, -1), (-1, 0), (-1, 1), (0, -1), (0, 1), (1, -1), (1, 0), (1, 1))


@kernel
def flips(state: States, size: int, point: int, mover: int, down: int, across: int) -> int:
    """The number of discs that a disc of mover on an empty point encloses in one direction.

    Plain twin: OthelloReference.flips.
    """
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
def find_placements(state: States, size: int, mover: int, rows: RowSets) -> bool:
    """Fill rows[PLACEMENTS] with the points where a disc of mover flips something -> whether there are any.

    It treats a row's columns all at once: shifts tell where lines of enemy discs that begin at an own disc continue in
    the next row. rows[OWN], rows[THEIRS] and rows[FREE] are filled, too.
    """
    for row in range(size):
        own, theirs, free = 0, 0, 0
        for column in range(size):
            found = state[row * size + column]
            own |= (found == mover + 1) << column
            theirs |= (found == 2 - mover) << column
            free |= (found == EMPTY) << column
        # Along the row: in one direction by the carry of an addition to a run's first disc; in the other step by step.
        ends = (theirs + (theirs & (own << 1))) & ~theirs
        run = theirs & (own >> 1)
        for _ in range(size - 3):
            run |= theirs & (run >> 1)
        rows[OWN, row], rows[THEIRS, row], rows[FREE, row] = own, theirs, free
        rows[PLACEMENTS, row] = free & (ends | (run >> 1))
    found = 0
    for direction in range(2):
        own, left, straight, right = 0, 0, 0, 0  # in the row before: own discs, and lines of enemy discs from own ones
        for i in range(size):
            row = size - 1 - i if direction else i
            rows[PLACEMENTS, row] |= rows[FREE, row] & ((left >> 1) | straight | (right << 1))
            found |= rows[PLACEMENTS, row]
            theirs = rows[THEIRS, row]
            left, straight, right = (
                theirs & ((left | own) >> 1),
                theirs & (straight | own),
                theirs & ((right | own) << 1),
            )
            own = rows[OWN, row]
    return found != 0


@kernel
def place(state: States, size: int, point: int, mover: int) -> int:
    """Put a disc of mover on an empty point and flip what it encloses -> how many discs. Changes state in place."""
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
    """-> states [B, S] after actions [B] int32, and status [B] uint8: LEGAL or the reason (then the row is garbage).

    Plain twin: OthelloReference.play.
    """
    num_points = size * size
    rows = np.empty((SETS, size), np.int64)
    after = states.copy()
    status = np.zeros(len(states), np.uint8)
    for b in range(len(states)):
        state, action = after[b], actions[b]
        mover = state[num_points + TO_MOVE]
        status[b] = unplayable(action, num_points + 1, state[num_points + OVER])
        if status[b]:
            continue
        if action == num_points:
            if find_placements(state, size, mover, rows):
                status[b] = MAY_NOT_PASS
        elif state[action] != EMPTY:
            status[b] = OCCUPIED
        elif place(state, size, action, mover) == 0:
            status[b] = FLIPS_NOTHING
        if status[b]:
            continue
        state[num_points + TO_MOVE] = 1 - mover
        state[num_points + PLY] += 1
        if not (find_placements(state, size, 1 - mover, rows) or find_placements(state, size, mover, rows)):
            state[num_points + OVER] = 1
            lead = 0
            for point in range(num_points):
                lead += (state[point] == FIRST) - (state[point] == SECOND)
            if lead:
                state[num_points + WINNER] = FIRST if lead > 0 else SECOND
    return after, status


@kernel
def legal_and_observe(states: States, size: int, deciding: bool, allowed: BoolArray, planes: Planes) -> None:
    """Fill allowed [B, A] bool and planes [B, C, P] uint8, unless planes has 0 rows.

    deciding: fill allowed with the points where a disc flips something, else the pass, nothing once the game is over;
    otherwise only read it. planes: in the order of Othello.plane_names, from the mover's side.
    Plain twin: OthelloReference.legal.
    """
    num_points = size * size
    rows = np.empty((SETS, size), np.int64)
    for b in range(len(states)):
        state = states[b]
        mover = state[num_points + TO_MOVE]
        if deciding:
            playing = state[num_points + OVER] == 0
            allowed[b, num_points] = playing and not find_placements(state, size, mover, rows)
            for point in range(num_points):
                placeable = (rows[PLACEMENTS, point // size] >> (point % size)) & 1
                allowed[b, point] = playing and placeable
        if len(planes) > 0:
            plane = planes[b]
            for point in range(num_points):
                plane[0, point] = state[point] == mover + 1
                plane[1, point] = state[point] == 2 - mover
                plane[2, point] = allowed[b, point]
                plane[3, point] = mover


@kernel
def mobility(states: States, size: int) -> IntArray:
    """-> [B, 2] int32: the number of points on which each player could place a disc if it were to move."""
    rows = np.empty((SETS, size), np.int64)
    found = np.zeros((len(states), 2), np.int32)
    for b in range(len(states)):
        for player in range(2):
            find_placements(states[b], size, player, rows)
            for point in range(size * size):
                found[b, player] += (rows[PLACEMENTS, point // size] >> (point % size)) & 1
    return found
