"""Go over rows of flat int16 states: the kernels behind ``Go``. Plain twin: ``tests/reference/go.py``.

Axes: B batch, P points (row-major, row 0 at the top), S state words, A = P + 1 actions (the last is pass), T positions.

One state row, S = P + 16 words:
    0 .. P-1   the points: EMPTY, BLACK or WHITE
    P          OFF_BOARD, always: the neighbour that edge points have outside
    P + TO_MOVE      0 black, 1 white
    P + PASSES       passes in a row, 0..2
    P + PLY          moves made, passes included
    P + OVER         1 after two passes in a row or at the move limit
    P + STONES       stones on the board
    P + MAX_STONES   most stones that were ever on the board (see ``repeats``)
    P + LAST .. +4   the last four actions, newest first, -1 where there was none
    P + KEY .. +3    64-bit Zobrist hash of the points, lowest 16 bits first

Kernels run one thread and take all parameters as arguments. They don't check array shapes.
"""

from __future__ import annotations

import numpy as np

from pipeline.games.go import board as go_board
from pipeline.games.go import features
from pipeline.games.go.board import BLACK, EMPTY, WHITE, kernel
from pipeline.games.lines.kernels import GAME_OVER, OCCUPIED, OUT_OF_RANGE

TO_MOVE, PASSES, PLY, OVER, STONES, MAX_STONES, LAST, KEY = 1, 2, 3, 4, 5, 6, 7, 11
NUM_LAST = 4
EXTRA_WORDS = 16
BASE_PLANES = 16  # those of features follow
BREATHES, CAPTURABLE = np.uint8(1), np.uint8(2)
SUICIDE, REPETITION = 4, 5  # status, besides those of lines/kernels.py


@kernel
def load_key(state, at):
    """The uint64 stored in four int16 words from index `at`."""
    key = np.uint64(0)
    for word in range(4):
        key |= np.uint64(np.uint16(state[at + word])) << np.uint64(16 * word)
    return key


@kernel
def store_key(state, at, key):
    """The inverse of load_key. Changes state."""
    for word in range(4):
        state[at + word] = np.int16(np.uint16((key >> np.uint64(16 * word)) & np.uint64(0xFFFF)))


@kernel
def repeats(key, num_stones, max_stones, past, num_past):
    """Whether a position occurred before. past [T] uint64, of which the first num_past count.

    A position with more stones than any before it is new, so the scan is only made after captures.
    """
    if num_stones > max_stones:
        return False
    found = False
    for i in range(num_past):  # no early exit: this way the loop becomes vector instructions
        found |= past[i] == key
    return found


@kernel
def play(states, actions, past, num_past, max_plies, neighbours, zobrist):
    """-> states [B, S] after actions [B] int32, and status [B] uint8: LEGAL or why not (then the row is unfinished).

    past [B, T] uint64, num_past [B] int32: keys of the positions that occurred. Plain twin: GoReference.play.
    """
    num_rows, state_size = states.shape
    num_points = state_size - EXTRA_WORDS
    after = states.copy()
    status = np.zeros(num_rows, np.uint8)
    stamps = np.zeros(num_points + 2, np.int32)
    lists = np.empty((3, num_points + 1), np.int16)
    for row in range(num_rows):
        state = after[row]
        action = actions[row]
        if action < 0 or action > num_points:
            status[row] = OUT_OF_RANGE
            continue
        if state[num_points + OVER]:
            status[row] = GAME_OVER
            continue
        mover = state[num_points + TO_MOVE]
        if action == num_points:
            state[num_points + PASSES] += 1
        else:
            if state[action] != EMPTY:
                status[row] = OCCUPIED
                continue
            captured = go_board.put_stone(state, action, mover + 1, neighbours, stamps, lists)
            if captured == go_board.SUICIDE:
                status[row] = SUICIDE
                continue
            key = load_key(state, num_points + KEY) ^ zobrist[action, mover]
            for i in range(captured):
                key ^= zobrist[lists[go_board.TAKEN, i], 1 - mover]
            stones = state[num_points + STONES] + 1 - captured
            if repeats(key, stones, state[num_points + MAX_STONES], past[row], num_past[row]):
                status[row] = REPETITION
                continue
            state[num_points + STONES] = stones
            state[num_points + MAX_STONES] = max(stones, state[num_points + MAX_STONES])
            store_key(state, num_points + KEY, key)
            state[num_points + PASSES] = 0
        for i in range(NUM_LAST - 1, 0, -1):
            state[num_points + LAST + i] = state[num_points + LAST + i - 1]
        state[num_points + LAST] = action
        state[num_points + TO_MOVE] = 1 - mover
        state[num_points + PLY] += 1
        if state[num_points + PASSES] >= 2 or state[num_points + PLY] >= max_plies:
            state[num_points + OVER] = 1
    return after, status


@kernel
def new_labels(num_points):
    """-> groups, liberties, sizes, hashes, merged: scratch that find_groups fills, [P+1] each."""
    points = num_points + 1
    groups, merged = np.empty(points, np.uint16), np.empty(points, np.uint16)
    return groups, np.empty(points, np.int16), np.empty(points, np.int16), np.empty(points, np.uint64), merged


@kernel
def find_groups(state, num_points, neighbours, zobrist, groups, liberties, sizes, hashes, merged):
    """Label the groups of one state: groups [P+1] uint16 (0: no stone), and per label its liberties.

    Groups in atari also get their size and the Zobrist sum of their stones: what capturing them changes. Labels aren't
    consecutive. The arrays are those of new_labels. One pass from the top left joins each stone to those above and to
    the left of it, as in labelling the components of an image; like legal_row it computes where it could branch.
    """
    num_labels = np.uint16(0)
    groups[num_points] = 0
    merged[0] = 0
    for point in range(num_points):
        colour = state[point]
        above, left = neighbours[point, 0], neighbours[point, 2]
        joins_above = (colour != EMPTY) & (state[above] == colour)
        joins_left = (colour != EMPTY) & (state[left] == colour)
        new = (colour != EMPTY) & (not joins_above) & (not joins_left)
        num_labels += np.uint16(new)
        merged[num_labels] = num_labels if new else merged[num_labels]
        alone = num_labels if new else np.uint16(0)
        groups[point] = groups[above] if joins_above else (groups[left] if joins_left else alone)
        if joins_above and joins_left and groups[above] != groups[left]:
            first, second = groups[above], groups[left]
            while merged[first] != first:
                first = merged[first]
            while merged[second] != second:
                second = merged[second]
            merged[max(first, second)] = min(first, second)
    for label in range(num_labels + 1):
        merged[label] = merged[merged[label]]  # labels merge into lower ones, which are settled already
        liberties[label] = 0
    for point in range(num_points):
        groups[point] = merged[groups[point]]
    for point in range(num_points):
        empty = state[point] == EMPTY
        one, two = groups[neighbours[point, 0]], groups[neighbours[point, 1]]
        three, four = groups[neighbours[point, 2]], groups[neighbours[point, 3]]
        liberties[one] += empty
        liberties[two] += empty & (two != one)
        liberties[three] += empty & (three != one) & (three != two)
        liberties[four] += empty & (four != one) & (four != two) & (four != three)
    liberties[0] = 0
    for label in range(num_labels + 1):
        sizes[label] = 0
        hashes[label] = 0
    for point in range(num_points):
        group = groups[point]
        if liberties[group] == 1:
            sizes[group] += 1
            hashes[group] ^= zobrist[point, state[point] - 1]


@kernel
def free_key(state, point, mover, neighbours, zobrist, groups, liberties, sizes, hashes):
    """The key and the number of stones of the position after the mover plays on an empty point, captures included."""
    num_points = state.size - EXTRA_WORDS
    key = load_key(state, num_points + KEY) ^ zobrist[point, mover]
    stones = state[num_points + STONES] + 1
    taken0, taken1, taken2 = np.uint16(0), np.uint16(0), np.uint16(0)  # a group may touch the point on several sides
    for side in range(4):
        near = neighbours[point, side]
        if state[near] == 2 - mover and liberties[groups[near]] == 1:
            group = groups[near]
            if group != taken0 and group != taken1 and group != taken2:
                taken2, taken1, taken0 = taken1, taken0, group
                stones -= sizes[group]
                key ^= hashes[group]
    return key, stones


@kernel
def legal_row(
    state, num_points, past, num_past, neighbours, zobrist, groups, liberties, sizes, hashes, marks, allowed
):  # fmt: skip
    """Fill allowed [A] bool of one state that isn't over, whose groups are labelled. marks [P+1] is scratch.

    Every point is marked: BREATHES if a stone beside it has a liberty by it, CAPTURABLE if it takes it by a play beside
    it. What stands on a board is hard to guess, so what could be branches here is arithmetic.
    """
    mover = state[num_points + TO_MOVE]
    colour, enemy = mover + 1, 2 - mover
    for point in range(num_points + 1):
        found, free = state[point], liberties[groups[point]]
        breathes = (found == EMPTY) | ((found == colour) & (free > 1))
        marks[point] = np.uint8(breathes) * BREATHES | np.uint8((found == enemy) & (free == 1)) * CAPTURABLE
    repeatable = state[num_points + STONES] + 1 <= state[num_points + MAX_STONES]
    for point in range(num_points):
        around = (
            marks[neighbours[point, 0]]
            | marks[neighbours[point, 1]]
            | marks[neighbours[point, 2]]
            | marks[neighbours[point, 3]]
        )
        possible = (state[point] == EMPTY) & (around != 0)
        allowed[point] = possible
        if possible and (repeatable or around & CAPTURABLE):
            key, stones = free_key(state, point, mover, neighbours, zobrist, groups, liberties, sizes, hashes)
            allowed[point] = not repeats(key, stones, state[num_points + MAX_STONES], past, num_past)
    allowed[num_points] = True


@kernel
def observe_row(state, num_points, groups, liberties, allowed, planes):
    """Fill planes [BASE_PLANES, P] uint8 of one state whose groups find_groups has labelled. Without branches, like
    legal_row.
    """
    mover = state[num_points + TO_MOVE]
    colour, enemy = mover + 1, 2 - mover
    playing = state[num_points + OVER] == 0
    for point in range(num_points):
        found, free = state[point], liberties[groups[point]]
        own, theirs = found == colour, found == enemy
        planes[0, point] = own
        planes[1, point] = theirs
        planes[2, point] = own & (free == 1)
        planes[3, point] = own & (free == 2)
        planes[4, point] = own & (free > 2)
        planes[5, point] = theirs & (free == 1)
        planes[6, point] = theirs & (free == 2)
        planes[7, point] = theirs & (free > 2)
        planes[12, point] = (found == EMPTY) & playing & (not allowed[point])
    planes[8:12, :] = 0
    for i in range(NUM_LAST):
        last = state[num_points + LAST + i]
        if 0 <= last < num_points:
            planes[8 + i, last] = 1
    planes[13, :] = mover
    planes[14, :] = state[num_points + LAST] == num_points
    planes[15, :] = 1


@kernel
def legal_and_observe(states, past, num_past, deciding, neighbours, zobrist, allowed, planes):
    """Fill allowed [B, A] bool and planes [B, C, P] uint8. planes may have 0 rows: then they aren't made.

    deciding: whether allowed is to be filled; without, it is only read, and past may have 0 rows. past [B, T] uint64,
    num_past [B] int32 as in ``play``. No occupied point, no suicide, no repetition; pass always; nothing once the game
    is over.
    Plain twin: GoReference.legal.
    """
    num_rows, state_size = states.shape
    num_points = state_size - EXTRA_WORDS
    groups, liberties, sizes, hashes, merged = new_labels(num_points)
    marks = np.empty(num_points + 1, np.uint8)
    desk = features.new_desk(num_points)
    for row in range(num_rows):
        state = states[row]
        find_groups(state, num_points, neighbours, zobrist, groups, liberties, sizes, hashes, merged)
        if deciding:
            if state[num_points + OVER]:
                allowed[row, :] = False
            else:
                legal_row(
                    state, num_points, past[row], num_past[row], neighbours, zobrist, groups, liberties, sizes, hashes,
                    marks, allowed[row],
                )  # fmt: skip
        if planes.shape[0] > 0:
            observe_row(state, num_points, groups, liberties, allowed[row], planes[row])
            mover, tactics = state[num_points + TO_MOVE], planes[row, BASE_PLANES:]
            features.observe_row(state, num_points, mover, neighbours, groups, liberties, desk, tactics)


@kernel
def ownership(states, neighbours):
    """-> [B, P] int8: +1 black's area, -1 white's, 0 neutral (Tromp-Taylor: no stone is judged dead).

    Plain twin: GoReference.ownership.
    """
    num_rows, state_size = states.shape
    num_points = state_size - EXTRA_WORDS
    owners = np.zeros((num_rows, num_points), np.int8)
    seen = np.zeros(num_points + 1, np.int32)
    stack = np.empty(num_points, np.int16)
    for row in range(num_rows):
        state = states[row]
        for start in range(num_points):
            if state[start] == BLACK:
                owners[row, start] = 1
            elif state[start] == WHITE:
                owners[row, start] = -1
            elif seen[start] != row + 1:
                stack[0] = start
                seen[start] = row + 1
                size, i = 1, 0
                touches_black, touches_white = False, False
                while i < size:
                    point = stack[i]
                    i += 1
                    for side in range(4):
                        near = neighbours[point, side]
                        found = state[near]
                        if found == BLACK:
                            touches_black = True
                        elif found == WHITE:
                            touches_white = True
                        elif found == EMPTY and seen[near] != row + 1:
                            seen[near] = row + 1
                            stack[size] = near
                            size += 1
                if touches_black != touches_white:
                    for i in range(size):
                        owners[row, stack[i]] = 1 if touches_black else -1
    return owners


@kernel
def keys(states):
    """-> [B] uint64, the Zobrist hash of the points (not of the mover: positional superko)."""
    num_rows, state_size = states.shape
    found = np.empty(num_rows, np.uint64)
    for row in range(num_rows):
        found[row] = load_key(states[row], state_size - EXTRA_WORDS + KEY)
    return found
