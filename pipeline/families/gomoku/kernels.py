"""Gomoku over rows of flat int16 states: the kernels behind ``Gomoku``. Plain twin: ``tests/reference/gomoku.py``.

Axes: B batch, P points (row-major, row 0 at the top), S state words, A = P actions, C planes.

One state row, S = P + 9 words:
    0 .. P-1   the points: EMPTY, FIRST or SECOND
    P + TO_MOVE     0 first player, 1 second
    P + PLY         moves made
    P + OVER        1 after a win, or when nobody may move
    P + WINNER      FIRST or SECOND; 0 while nobody has won
    P + LAST        the last action, -1 at the start
    P + FIVE        FIRST or SECOND, who has a five that the player to move can still answer; 0 nobody
    P + PAIRS, + 1  pairs that the first player has captured, and the second
    P + MET         the setup: 1 or 2 if the first or the second player meets one that doesn't learn, else 0; no rule
                    reads it

`table` and `lines` are shapes.shape_table() and board_lines(); `marks` [P] is filled by shapes.shapes().
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pipeline.families.gomoku.shapes import (
    EMPTY,
    FIVE_SHAPE,
    FOUR,
    OFF,
    REACH,
    STRAIGHT_FOUR,
    THREE,
    count_in,
    kernel,
    shapes,
)
from pipeline.games.row_kernels import OCCUPIED, OVER, PLY, TO_MOVE, WINNER, makes_line, unplayable

LAST, FIVE, PAIRS, MET = 4, 5, 6, 8
EXTRA_WORDS = 9
DOUBLE_THREE = 4  # status, besides those of row_kernels.py
BASE_PLANES = 4
SHAPE_PLANES = 5  # per side


class Rules(NamedTuple):
    """The variant, as numbers, so that one compilation serves all."""

    size: int
    exact: int  # 1: only exactly five in a row wins
    goal: int  # captured pairs that win; 0: no captures
    threes: int  # 1: a move that makes two free threes is forbidden
    by_capture: int  # 1: but allowed if it captures
    breakable: int  # 1: a five wins only if it can't be answered


@kernel
def at(state, size, row, column):
    """The stone at a place, or EMPTY; OFF outside the board."""
    if row < 0 or row >= size or column < 0 or column >= size:
        return OFF
    return state[row * size + column]


@kernel
def captures(state, size, point, player, remove):
    """The pairs that a stone of `player` (0, 1) on `point` captures: two enemy stones between it and another own stone.

    remove: take them off the board.
    """
    own, enemy = player + 1, 2 - player
    row, column = point // size, point % size
    pairs = 0
    for down in range(-1, 2):
        for across in range(-1, 2):
            if (
                (down != 0 or across != 0)
                and at(state, size, row + down, column + across) == enemy
                and at(state, size, row + 2 * down, column + 2 * across) == enemy
                and at(state, size, row + 3 * down, column + 3 * across) == own
            ):
                pairs += 1
                if remove:
                    state[(row + down) * size + column + across] = EMPTY
                    state[(row + 2 * down) * size + column + 2 * across] = EMPTY
    return pairs


@kernel
def all_captures(states, size, players):
    """-> [B, P] int32: captures() of every empty point; 0 elsewhere. players [B]."""
    num_points = size * size
    found = np.zeros((len(states), num_points), np.int32)
    for b in range(len(states)):
        for point in range(num_points):
            if states[b, point] == EMPTY:
                found[b, point] = captures(states[b], size, point, players[b], False)
    return found


@kernel
def makes_five(state, rules, point, colour):
    """Whether a stone of this colour on `point` stands in a winning row, or would."""
    return makes_line(state, rules.size, rules.size, 5, rules.exact, point, colour)


@kernel
def five_points(states, rules, players):
    """-> [B, P] bool: empty points where a stone of players [B] would stand in a winning row."""
    num_points = rules.size * rules.size
    found = np.zeros((len(states), num_points), np.bool_)
    for b in range(len(states)):
        for point in range(num_points):
            if states[b, point] == EMPTY:
                found[b, point] = makes_five(states[b], rules, point, players[b] + 1)
    return found


@kernel
def has_five(state, rules, colour):
    """Whether a winning row of this colour stands anywhere."""
    for point in range(rules.size * rules.size):
        if state[point] == colour and makes_five(state, rules, point, colour):
            return True
    return False


@kernel
def is_double_three(state, rules, point, player, table):
    """Whether a stone on the empty `point` makes free threes on two or more lines and is therefore forbidden.

    It isn't if it makes a five or takes the last pair.
    """
    size = rules.size
    pairs = captures(state, size, point, player, False) if rules.goal > 0 else 0
    if pairs > 0 and (rules.by_capture or state[size * size + PAIRS + player] + pairs >= rules.goal):
        return False
    board = state
    if pairs > 0:  # the threes that count are those that stand after the capture
        board = state.copy()
        captures(board, size, point, player, True)
    row, column = point // size, point % size
    marks = 0
    for line in range(4):
        down, across = (0 if line == 0 else 1), (1, 0, 1, -1)[line]
        window, shift = 0, 0
        for step in range(-REACH, REACH + 1):
            if step != 0:
                window |= at(board, size, row + step * down, column + step * across) << shift
                shift += 2
        marks += table[window]
    return count_in(marks, player, FIVE_SHAPE) == 0 and count_in(marks, player, THREE) >= 2


@kernel
def can_answer(state, rules, player, table):
    """Whether `player`, to move, can break the enemy's five by a capture, or win by captures."""
    num_points = rules.size * rules.size
    for point in range(num_points):
        if state[point] != EMPTY or captures(state, rules.size, point, player, False) == 0:
            continue
        if rules.threes and is_double_three(state, rules, point, player, table):
            continue
        after = state.copy()
        after[point] = player + 1
        pairs = captures(after, rules.size, point, player, True)
        if state[num_points + PAIRS + player] + pairs >= rules.goal or not has_five(after, rules, 2 - player):
            return True
    return False


@kernel
def can_move(state, rules, player, table):
    """Whether any point is allowed. Nearly always the first empty one is."""
    for point in range(rules.size * rules.size):
        if state[point] == EMPTY and not (rules.threes and is_double_three(state, rules, point, player, table)):
            return True
    return False


@kernel
def winner_after(state, rules, point, player, table):
    """The winner (0, FIRST, SECOND) after a stone of `player` on `point` and its captures. Sets the FIVE word."""
    num_points = rules.size * rules.size
    own, enemy = player + 1, 2 - player
    if rules.goal > 0 and state[num_points + PAIRS + player] >= rules.goal:
        return own
    if state[num_points + FIVE] == enemy:
        if has_five(state, rules, enemy):
            return enemy
        state[num_points + FIVE] = 0
    if makes_five(state, rules, point, own):
        if rules.goal == 0 or not rules.breakable or not can_answer(state, rules, 1 - player, table):
            return own
        state[num_points + FIVE] = own
    return 0


@kernel
def play(states, actions, rules, table):
    """-> states [B, S] after actions [B] int32, and status [B] uint8: LEGAL or the reason (then the row is unchanged).

    Plain twin: GomokuReference.play.
    """
    num_points = rules.size * rules.size
    after = states.copy()
    status = np.zeros(len(states), np.uint8)
    for b in range(len(states)):
        state, action = after[b], actions[b]
        status[b] = unplayable(action, num_points, state[num_points + OVER])
        if status[b]:
            continue
        if state[action] != EMPTY:
            status[b] = OCCUPIED
            continue
        player = state[num_points + TO_MOVE]
        if rules.threes and is_double_three(state, rules, action, player, table):
            status[b] = DOUBLE_THREE
            continue
        state[action] = player + 1
        if rules.goal > 0:
            state[num_points + PAIRS + player] += captures(state, rules.size, action, player, True)
        state[num_points + TO_MOVE] = 1 - player
        state[num_points + PLY] += 1
        state[num_points + LAST] = action
        winner = winner_after(state, rules, action, player, table)
        state[num_points + WINNER] = winner
        if winner != 0 or not can_move(state, rules, 1 - player, table):
            state[num_points + OVER] = 1
            state[num_points + FIVE] = 0
    return after, status


@kernel
def legal_and_observe(states, rules, lines, table, deciding, allowed, planes):
    """Fill allowed [B, A] bool and planes [B, C, P] uint8, unless planes has 0 rows.

    deciding: fill allowed, the empty points that aren't forbidden, none once the game is over; otherwise only read it.
    planes: in the order of Gomoku.plane_names, from the mover's side.
    Plain twin: GomokuReference.legal.
    """
    numbers, marks = np.empty(len(lines.blank) + 1, np.int64), np.empty(rules.size * rules.size, np.int32)
    observing = len(planes) > 0
    for b in range(len(states)):
        if observing or rules.threes:
            shapes(states[b], lines, table, numbers, marks)
        if deciding:
            allow(states[b], rules, table, marks, allowed[b])
        if observing:
            paint(states[b], rules, marks, allowed[b], planes[b])


@kernel
def allow(state, rules, table, marks, allowed):
    """Fill one row of allowed. marks: read only if double-threes are forbidden."""
    num_points = rules.size * rules.size
    if state[num_points + OVER]:
        allowed[:] = False
        return
    for point in range(num_points):
        allowed[point] = state[point] == EMPTY
    if not rules.threes:
        return
    player = state[num_points + TO_MOVE]
    for point in range(num_points):
        suspect = count_in(marks[point], player, THREE) >= 2
        # Without by_capture, a capture may open threes that marks don't count.
        if not suspect and not rules.by_capture and state[point] == EMPTY:
            suspect = captures(state, rules.size, point, player, False) > 0
        if suspect:
            allowed[point] = not is_double_three(state, rules, point, player, table)


@kernel
def paint(state, rules, marks, allowed, plane):
    """Fill one row of planes."""
    num_points = rules.size * rules.size
    mover = state[num_points + TO_MOVE]
    own, enemy = mover + 1, 2 - mover
    plane[:] = 0
    for point in range(num_points):
        plane[0, point] = state[point] == own
        plane[1, point] = state[point] == enemy
    if state[num_points + LAST] >= 0:
        plane[2, state[num_points + LAST]] = 1
    if mover:
        plane[3, :] = 1
    for point in range(num_points):
        if marks[point] != 0:
            for side in range(2):
                player, first = (mover if side == 0 else 1 - mover), BASE_PLANES + side * SHAPE_PLANES
                straight = count_in(marks[point], player, STRAIGHT_FOUR)
                four = count_in(marks[point], player, FOUR)
                three = count_in(marks[point], player, THREE)
                five = count_in(marks[point], player, FIVE_SHAPE) > 0
                if five and rules.exact:
                    five = makes_five(state, rules, point, player + 1)
                plane[first, point] = five
                plane[first + 1, point] = straight > 0
                plane[first + 2, point] = four > 0
                plane[first + 3, point] = three > 0
                plane[first + 4, point] = straight + four + three > 1
    if rules.goal == 0:
        return
    rest = BASE_PLANES + 2 * SHAPE_PLANES
    for pairs in range(1, rules.goal):
        if state[num_points + PAIRS + mover] >= pairs:
            plane[rest + pairs - 1, :] = 1
        if state[num_points + PAIRS + 1 - mover] >= pairs:
            plane[rest + rules.goal + pairs - 2, :] = 1
    rest += 2 * (rules.goal - 1)
    for point in range(num_points):
        plane[rest, point] = state[point] == EMPTY and not allowed[point]
    if state[num_points + FIVE] != 0:
        plane[rest + 1, :] = 1
