"""The Go board of the kernels, and the walk along a group.

P points, row-major, row 0 at the top. A board is an int16 array that begins with its P points, each EMPTY, BLACK or
WHITE, followed by OFF_BOARD, the outer neighbour of edge points. A group is connected stones of one colour; its
liberties are the empty points beside it.

Scratch of walks: stamps [P+2] int32, zeros at first, holds the number of the latest walk that met each point, and at
STAMP the number of the latest walk. lists [3, P+1] int16 holds the stones MET by the latest walk, those TAKEN by the
latest stone, and the liberties FREE of the group counted last. (Separate arrays: passing a tuple costs more than a
walk.)
"""

# mypy: allow-untyped-defs
from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from pipeline.compiled_kernels import kernel, make_kernel

# A part of a kernel, compiled into each kernel that calls it; it can't make arrays. In return numba doesn't count
# references to arrays, which would take longer than many a part, and a named tuple of arrays costs nothing.
part = make_kernel(_nrt=False, forceinline=True)

EMPTY, BLACK, WHITE, OFF_BOARD = 0, 1, 2, 3
SUICIDE = -1
STAMP = -1
MET, TAKEN, FREE = 0, 1, 2


@lru_cache(maxsize=16)
def points_around(size: int) -> NDArray[np.uint16]:
    """[P, 8] the points above, below, left and right of each, then the diagonal ones; P is outside the board."""
    points = np.full((size + 2, size + 2), size * size, np.uint16)
    points[1:-1, 1:-1] = np.arange(size * size).reshape(size, size)
    steps = ((-1, 0), (1, 0), (0, -1), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))
    sides = [points[1 + down : size + 1 + down, 1 + across : size + 1 + across].ravel() for down, across in steps]
    return np.ascontiguousarray(np.stack(sides, axis=1))


@kernel
def count_liberties(board, start, most, neighbours, stamps, lists):
    """-> (number of liberties of the group at `start`, stones met). Stops at `most` liberties; they are in lists[FREE].

    If it doesn't stop early, lists[MET, :stones met] are all stones of the group.
    """
    colour = board[start]
    stamps[STAMP] += 1
    stamp, met = stamps[STAMP], lists[MET]
    met[0] = start
    stamps[start] = stamp
    size, i, found = 1, 0, 0
    while i < size:
        point = met[i]
        i += 1
        for side in range(4):
            near = neighbours[point, side]
            if stamps[near] == stamp:
                continue
            if board[near] == EMPTY:
                stamps[near] = stamp
                lists[FREE, found] = near
                found += 1
                if found == most:
                    return found, size
            elif board[near] == colour:
                stamps[near] = stamp
                met[size] = near
                size += 1
    return found, size


@kernel
def put_stone(board, point, colour, neighbours, stamps, lists):
    """Put a stone on an empty point and remove what it captures -> the number of stones, listed in lists[TAKEN].

    -> SUICIDE if the stone's group has no liberty left; the stone stays on the board even then.
    """
    board[point] = colour
    num_taken = 0
    for side in range(4):
        near = neighbours[point, side]
        if board[near] != BLACK + WHITE - colour:
            continue
        free, size = count_liberties(board, near, 1, neighbours, stamps, lists)
        if free == 0:
            for i in range(size):
                board[lists[MET, i]] = EMPTY
                lists[TAKEN, num_taken + i] = lists[MET, i]
            num_taken += size
    if num_taken == 0 and count_liberties(board, point, 1, neighbours, stamps, lists)[0] == 0:
        return SUICIDE
    return num_taken
