"""The shapes (five, four, three …) that a stone would make on each empty point of a Gomoku board, by kernels.
Plain twin: ``tests/reference/gomoku.py``.

Axes: B batch, P points (row-major, row 0 at the top), S state words (the points come first), L lines.

A *window* is what stands on a line around a point: the four points before it and the four after it, two bits each,
the first in the lowest bits. ``shape_table`` gives, for every window, the *mark* of what a stone in its middle makes.
A mark has four bits for each player and shape, so that the sum of the marks of the four lines through a point counts
them.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.compiled_kernels import kernel
from pipeline.games.row_kernels import EMPTY

OFF = 3  # outside the board
# What a stone makes on one line; see shape_of.
NOTHING, THREE, FOUR, STRAIGHT_FOUR, FIVE_SHAPE = 0, 1, 2, 3, 4
REACH = 4  # points of a window on either side
WINDOWS = 1 << (2 * 2 * REACH)


class Lines(NamedTuple):
    """Every row, column and diagonal of a board that has room for five; made by board_lines().

    A line is a number of at most 54 bits: two for each of its points, and REACH times OFF before the first (in the
    lowest bits) and after the last.

    of      [4, P] int16: the line through each point in each direction; len(blank): it is too short
    shift   [4, P] int64: the bits of the point in that line's number
    blank   [L] int64: the line without any stone
    points  [L, size] int16: the line's points
    """

    of: NDArray[np.int16]
    shift: NDArray[np.int64]
    blank: NDArray[np.int64]
    points: NDArray[np.int16]


@kernel
def shape_of(line):
    """What the stone in the middle of `line` [9] makes; entries are 1 own, 0 empty, 2 anything else.

    FIVE_SHAPE     five or more in a row, in all variants
    STRAIGHT_FOUR  four in a row, both ends empty
    FOUR           one more stone would make five
    THREE          one more stone would make a straight four, and it is no four yet
    Each contains the stone in the middle.
    """
    low, high = run_around(line)
    if high - low >= 4:
        return FIVE_SHAPE
    if high - low == 3 and line[low - 1] == 0 and line[high + 1] == 0:
        return STRAIGHT_FOUR
    three = False
    for more in range(9):
        if line[more] != 0:
            continue
        line[more] = 1
        low, high = run_around(line)
        line[more] = 0
        if high - low >= 4:
            return FOUR
        if high - low == 3 and low >= 1 and high <= 7 and line[low - 1] == 0 and line[high + 1] == 0:
            three = True
    return THREE if three else NOTHING


@kernel
def run_around(line):
    """(first, last) index of the row of own stones around the middle of `line` [9]."""
    low, high = REACH, REACH
    while low > 0 and line[low - 1] == 1:
        low -= 1
    while high < 2 * REACH and line[high + 1] == 1:
        high += 1
    return low, high


@kernel
def mark_of(player, shape):
    """The mark of one `shape` of `player` (0, 1); NOTHING has none."""
    return 1 << (16 * player + 4 * (shape - 1))


@kernel
def count_in(marks, player, shape):
    """How often a sum of marks contains a shape of a player."""
    return (marks >> (16 * player + 4 * (shape - 1))) & 15


@kernel
def shape_table():
    """-> [WINDOWS] int32: the marks of what a stone of either player makes in the middle of every window."""
    table = np.zeros(WINDOWS, np.int32)
    line = np.zeros(2 * REACH + 1, np.int64)
    for player in range(2):
        for window in range(WINDOWS):
            for i in range(2 * REACH):
                found = (window >> (2 * i)) & 3
                line[i if i < REACH else i + 1] = 0 if found == EMPTY else (1 if found == player + 1 else 2)
            line[REACH] = 1
            shape = shape_of(line)
            if shape != NOTHING:
                table[window] += mark_of(player, shape)
    return table


@kernel
def shapes(state, lines, table, numbers, marks):
    """Fill marks [P] int32: for every empty point, the sum of the marks of the lines through it.

    numbers [L + 1] int64: scratch.
    """
    num_lines = len(lines.blank)
    numbers[:num_lines] = lines.blank
    for point in range(len(marks)):
        if state[point] != EMPTY:
            for direction in range(4):
                numbers[lines.of[direction, point]] |= np.int64(state[point]) << lines.shift[direction, point]
    marks[:] = 0
    for i in range(num_lines):
        number = numbers[i]
        stones = number ^ lines.blank[i]  # one bit for each stone
        if stones & (stones - 1) == 0:
            continue
        worth = (promising(number, 0) | promising(number, 1)) >> (2 * REACH)
        place = 0
        while worth != 0:
            if worth & 1:
                seen = number >> (2 * place)  # nine points, this one in the middle
                window = (seen & 0xFF) | ((seen >> 2) & 0xFF00)
                marks[lines.points[i, place]] += table[window]
            worth >>= 2
            place += 1


@kernel
def promising(number, player):
    """The empty points of a line that are in a row of five without an enemy and with two or more own stones, as bits.

    A stone elsewhere makes no shape.
    """
    places = 0x15555555555555  # a bit each, 27 of them
    own, other = (number >> player) & places, (number >> (1 - player)) & places
    own, other = own & ~other, other  # OFF has both bits: it blocks either player
    blocked, one, two = other, own, 0
    for step in range(2, 10, 2):
        blocked |= other >> step
        two |= one & (own >> step)
        one |= own >> step
    good = two & ~blocked
    rows = good
    for step in range(2, 10, 2):
        rows |= good << step
    return rows & ~((number | (number >> 1)) & places)


@kernel
def count_shapes(states, lines, table, counts):
    """Fill counts [B, 2, P, 5]: on how many lines a stone of each player would make each shape; 0 for NOTHING."""
    numbers, marks = np.empty(len(lines.blank) + 1, np.int64), np.empty(counts.shape[2], np.int32)
    counts[:] = 0
    for b in range(len(states)):
        shapes(states[b], lines, table, numbers, marks)
        for player in range(2):
            for point in range(len(marks)):
                for shape in range(THREE, FIVE_SHAPE + 1):
                    counts[b, player, point, shape] = count_in(marks[point], player, shape)


def board_lines(size: int) -> Lines:
    points = np.arange(size * size).reshape(size, size)
    diagonals = range(-size + 1, size)
    directions = [[*points], [*points.T]]
    directions += [[board.diagonal(offset) for offset in diagonals] for board in (points, points[:, ::-1])]
    found = [(direction, line) for direction in range(4) for line in directions[direction] if len(line) >= 5]
    lines = Lines(
        of=np.full((4, size * size), len(found), np.int16),
        shift=np.zeros((4, size * size), np.int64),
        blank=np.zeros(len(found), np.int64),
        points=np.zeros((len(found), size), np.int16),
    )
    for i, (direction, line) in enumerate(found):
        places = REACH + np.arange(len(line))
        lines.of[direction, line] = i
        lines.shift[direction, line] = 2 * places
        lines.blank[i] = sum(OFF << (2 * (step + end)) for step in range(REACH) for end in (0, REACH + len(line)))
        lines.points[i, : len(line)] = line
    return lines
