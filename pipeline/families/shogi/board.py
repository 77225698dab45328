"""The shogi board of the kernels: pieces, directions, and whether a point is attacked.

P points, row-major, row 0 at the top, where the second player sits. A *view* is an int8 array [P + 1]: the board as the
player to move sees it, whose own pieces move up. It holds EMPTY, the kinds of the mover's pieces, those of the
opponent's plus THEIRS, and OFF_BOARD at P, where lines end. For the second player the board is turned: point p is
P - 1 - p. Hands are int8 [8], by kind: the number of pieces that a player may drop.

A direction is an index of DIRECTIONS, from the mover's view. An opponent's piece that attacks from direction d moves in
its own direction d, because it sees the board turned. So one table of moves serves both players.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.compiled_kernels import make_kernel

# A part of a kernel, which can't make arrays, so that numba doesn't count references to arrays. Parts are called by
# kernels; inlined parts are compiled into them.
part = make_kernel(_nrt=False)
inlined = make_kernel(_nrt=False, forceinline=True)

EMPTY, PAWN, LANCE, KNIGHT, SILVER, GOLD, BISHOP, ROOK, KING = range(9)
PROMOTED = 8  # added to a kind that has promoted
THEIRS = 16  # added to an opponent's piece in a view, to the second player's in a state
OFF_BOARD = 32
HAND_KINDS = 7  # PAWN to ROOK
LETTERS = " PLNSGBRK"  # by kind

UP, UP_LEFT, UP_RIGHT, LEFT, RIGHT, DOWN, DOWN_LEFT, DOWN_RIGHT, KNIGHT_LEFT, KNIGHT_RIGHT = range(10)
DIRECTIONS = ((-1, 0), (-1, -1), (-1, 1), (0, -1), (0, 1), (1, 0), (1, -1), (1, 1), (-2, -1), (-2, 1))
STRAIGHT = 8  # directions before this one are those of a king
OPPOSITE = np.array([DOWN, DOWN_RIGHT, DOWN_LEFT, RIGHT, LEFT, UP, UP_RIGHT, UP_LEFT, 11, 10], np.int16)  # see Geometry
NOT_PINNED = -1
LINES = np.array([0, 1, 2, 3, 3, 0, 2, 1, 4, 4], np.int8)  # of a direction; a pinned piece may move along its line


def _mask(*directions: int) -> int:
    return sum(1 << direction for direction in directions)


_GOLD = _mask(UP, UP_LEFT, UP_RIGHT, LEFT, RIGHT, DOWN)
_DIAGONAL, _ORTHOGONAL = _mask(UP_LEFT, UP_RIGHT, DOWN_LEFT, DOWN_RIGHT), _mask(UP, LEFT, RIGHT, DOWN)
# The directions, a bit each, in which a kind moves by one step, and by any number of steps.
STEPS, SLIDES = np.zeros(16, np.int32), np.zeros(16, np.int32)
STEPS[PAWN] = _mask(UP)
STEPS[KNIGHT] = _mask(KNIGHT_LEFT, KNIGHT_RIGHT)
STEPS[SILVER] = _mask(UP, UP_LEFT, UP_RIGHT, DOWN_LEFT, DOWN_RIGHT)
STEPS[[GOLD, PAWN + PROMOTED, LANCE + PROMOTED, KNIGHT + PROMOTED, SILVER + PROMOTED]] = _GOLD
STEPS[KING] = _DIAGONAL | _ORTHOGONAL
SLIDES[LANCE] = _mask(UP)
SLIDES[[BISHOP, BISHOP + PROMOTED]] = _DIAGONAL
SLIDES[[ROOK, ROOK + PROMOTED]] = _ORTHOGONAL
STEPS[BISHOP + PROMOTED], STEPS[ROOK + PROMOTED] = _ORTHOGONAL, _DIAGONAL
PROMOTES = np.array([kind in (PAWN, LANCE, KNIGHT, SILVER, BISHOP, ROOK) for kind in range(16)], np.bool_)
FIRST_ROW = np.zeros(16, np.int8)  # of a kind; above this row it could never move again
FIRST_ROW[PAWN] = FIRST_ROW[LANCE] = 1
FIRST_ROW[KNIGHT] = 2


class Geometry(NamedTuple):
    """The points of a board.

    beside  [P + 1, 12] int16  the next point in each of DIRECTIONS, then a knight's move down, left (10) and right
                               (11); P is outside
    rows    [P + 1] int8       columns [P + 1] int8
    zone    the number of rows in which pieces promote
    """

    beside: NDArray[np.int16]
    rows: NDArray[np.int8]
    columns: NDArray[np.int8]
    zone: int


@lru_cache(maxsize=4)
def geometry(size: int) -> Geometry:
    points = np.arange(size * size + 1)
    rows, columns = points // size, points % size
    beside = np.full((size * size + 1, 12), size * size, np.int16)
    for direction, (down, across) in enumerate((*DIRECTIONS, (2, -1), (2, 1))):
        row, column = rows + down, columns + across
        inside = (row >= 0) & (row < size) & (column >= 0) & (column < size) & (points < size * size)
        beside[inside, direction] = (row * size + column)[inside]
    return Geometry(beside, rows.astype(np.int8), columns.astype(np.int8), 3 if size == 9 else 1)


@inlined
def is_attacked(view, beside, point):
    """Whether a piece of the opponent attacks a point. Plain twin: ShogiReference.attacks."""
    for direction in range(10):
        at = beside[point, direction]
        found = view[at]
        if found & THEIRS:
            if ((STEPS[found & 15] | SLIDES[found & 15]) >> direction) & 1:
                return True
        elif found == EMPTY and direction < STRAIGHT:
            while found == EMPTY:
                at = beside[at, direction]
                found = view[at]
            if found & THEIRS and (SLIDES[found & 15] >> direction) & 1:
                return True
    return False


@inlined
def find_source(view, beside, direction, to):
    """The point of the mover's piece that moves in a direction to a point; P if there is none."""
    back = OPPOSITE[direction]
    at = beside[to, back]
    found = view[at]
    if 0 < found < THEIRS and ((STEPS[found] | SLIDES[found]) >> direction) & 1:
        return at
    if found == EMPTY and direction < STRAIGHT:
        while found == EMPTY:
            at = beside[at, back]
            found = view[at]
        if 0 < found < THEIRS and (SLIDES[found] >> direction) & 1:
            return at
    return view.size - 1


@inlined
def turn_view(view, turned):
    """Fill turned [P + 1] with the other player's view of the board."""
    num_points = view.size - 1
    for point in range(num_points):
        found = view[num_points - 1 - point]
        turned[point] = found ^ THEIRS if found else EMPTY
    turned[num_points] = OFF_BOARD
