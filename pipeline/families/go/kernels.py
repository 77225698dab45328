"""Go over rows of flat int16 states: the kernels behind ``Go``. Plain twin: ``tests/reference/go.py``.

Axes: B batch, P points (row-major, row 0 at the top), S state words, A = P + 1 actions (the last is pass), T positions.

One state row, S = P + 16 words:
    0 .. P-1   the points: EMPTY, BLACK or WHITE
    P          always OFF_BOARD, the outer neighbour of edge points
    P + TO_MOVE      0 black, 1 white
    P + PLY          moves made, passes included
    P + OVER         1 after two passes in a row or at the move limit
    P + PASSES       passes in a row, 0..2
    P + STONES       stones on the board
    P + MAX_STONES   the most stones that were ever on the board (see ``repeats``)
    P + LAST .. +4   the last four actions, newest first, -1 where there was none
    P + KEY .. +3    64-bit Zobrist hash of the points, lowest 16 bits first
    P + KOMI         white's komi in half points
"""

from __future__ import annotations

import numpy as np

from pipeline.families.go import board as go_board
from pipeline.families.go import features, groups, ladders
from pipeline.families.go.board import BLACK, EMPTY, WHITE, kernel, part
from pipeline.families.go.features import THEIRS, stones_shown
from pipeline.games.keys import load_key, store_key
from pipeline.games.row_kernels import OCCUPIED, unplayable

TO_MOVE, PLY, OVER, PASSES, STONES, MAX_STONES, LAST, KEY, KOMI = 1, 2, 3, 4, 5, 6, 7, 11, 15
NUM_LAST = 4
EXTRA_WORDS = 16
BASE_PLANES = 16  # those of features follow
SHOWN = np.array(  # what the first planes show: see features.SHOWN
    [
        stones_shown(0, 1),
        stones_shown(THEIRS, 1),
        *(stones_shown(0, *numbers) for numbers in ((1, 1), (2, 2), (3,))),
        *(stones_shown(THEIRS, *numbers) for numbers in ((1, 1), (2, 2), (3,))),
    ],
    np.uint8,
)
SEEN = 1024  # see legal_row
SUICIDE, REPETITION = 4, 5  # status, besides those of row_kernels.py


@kernel
def repeats(key, num_stones, max_stones, past, num_past):
    """Whether a position occurred before. past [T] uint64, of which the first num_past count.

    A position with more stones than any before it is new, so it scans only after captures.
    """
    if num_stones > max_stones:
        return False
    found = False
    for i in range(num_past):  # without an early exit, so that the loop is vectorised
        found |= past[i] == key
    return found


@kernel
def play(states, actions, past, num_past, max_plies, neighbours, zobrist):
    """-> states [B, S] after actions [B] int32, and status [B] uint8: LEGAL or the reason (then the row is garbage).

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
        status[row] = unplayable(action, num_points + 1, state[num_points + OVER])
        if status[row]:
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


@part
def key_after_capture(board, state, point, mover, zobrist, codes):
    """The key and the number of stones of the position after the mover captures with a stone on an empty point."""
    num_points = state.size - EXTRA_WORDS
    key, num_stones = load_key(state, num_points + KEY) ^ zobrist[point, mover], state[num_points + STONES] + 1
    taken0, taken1, taken2 = num_points, num_points, num_points  # a group may touch the point on several sides
    for side in range(4):
        taken = board.keys[1 - mover, board.neighbours[point, side]]
        if codes[features.ON_BOARD, taken] != THEIRS + 1 or taken in (taken0, taken1, taken2):
            continue
        taken2, taken1, taken0 = taken1, taken0, taken
        for word in range(len(board.words)):
            stones = board.sets[taken, groups.STONES, word]
            num_stones -= groups.count_bits(stones)
            while stones:
                key ^= zobrist[groups.first_of(stones, word), 1 - mover]
                stones &= stones - np.uint64(1)
    return key, num_stones


@part
def legal_row(board, state, past, num_past, zobrist, free, codes, seen, stamp, allowed):
    """Fill allowed [A] bool of one state that isn't over. codes describe its plays; free: its empty points.

    seen [SEEN] int32 is scratch; stamp is a number that isn't in it. It marks the lowest bits of past keys, so that few
    plays must be searched for among all of them.
    """
    num_points = state.size - EXTRA_WORDS
    mover, most = state[num_points + TO_MOVE], state[num_points + MAX_STONES]
    num_stones, now = state[num_points + STONES] + 1, load_key(state, num_points + KEY)
    for point in range(num_points):
        allowed[point] = codes[features.PLAY, point] > 0
    allowed[num_points] = True
    if num_stones <= most:
        for i in range(num_past):
            seen[past[i] % SEEN] = stamp
    for point in free:
        if codes[features.PLAY, point] >= features.CAPTURES:
            key, left = key_after_capture(board, state, point, mover, zobrist, codes)
            allowed[point] = not repeats(key, left, most, past, num_past)
        elif allowed[point] and num_stones <= most:
            key = now ^ zobrist[point, mover]
            allowed[point] = seen[key % SEEN] != stamp or not repeats(key, num_stones, most, past, num_past)


@part
def observe_row(state, allowed, codes, planes):
    """Fill planes [BASE_PLANES, P] uint8 of one state. codes describe it."""
    num_points = state.size - EXTRA_WORDS
    features.show(SHOWN, codes, planes[: len(SHOWN)])
    planes[8:12, :] = 0
    for i in range(NUM_LAST):
        last = state[num_points + LAST + i]
        if 0 <= last < num_points:
            planes[8 + i, last] = 1
    playing = state[num_points + OVER] == 0
    for point in range(num_points):
        planes[12, point] = (state[point] == EMPTY) & playing & (not allowed[point])
    planes[13, :] = state[num_points + TO_MOVE]
    planes[14, :] = state[num_points + LAST] == num_points
    planes[15, :] = 1


@kernel
def legal_and_observe(states, past, num_past, deciding, neighbours, beside, words, zobrist, allowed, planes):
    """Fill allowed [B, A] bool and planes [B, C, P] uint8, unless planes has 0 rows.

    deciding: fill allowed; otherwise it is only read and past may have 0 rows. past [B, T] uint64 and num_past [B]
    int32 as in ``play``; beside and words as in ``groups.Board``. Occupied points, suicide and repetition are
    forbidden, passes are allowed; nothing is allowed once the game is over.
    Plain twin: GoReference.legal.
    """
    num_rows, state_size = states.shape
    num_points = state_size - EXTRA_WORDS
    board = groups.new_board(neighbours, beside, words, ladders.NUM_PLIES)
    moves = np.empty((ladders.NUM_PLIES, ladders.MOVES + num_points), np.int16)
    codes = np.empty((3, num_points + 1), np.uint8)
    seen = np.zeros(SEEN, np.int32)
    for row in range(num_rows):
        state = states[row]
        mover = state[num_points + TO_MOVE]
        num_groups, num_free = groups.find_groups(board, state)
        found, free = board.groups[:num_groups], board.free[:num_free]
        features.describe(board, mover, found, free, planes.shape[0] > 0, codes)
        if deciding:
            if state[num_points + OVER]:
                allowed[row, :] = False
            else:
                legal_row(board, state, past[row], num_past[row], zobrist, free, codes, seen, row + 1, allowed[row])
        if planes.shape[0] > 0:
            observe_row(state, allowed[row], codes, planes[row])
            tactics = planes[row, BASE_PLANES:]
            features.show(features.SHOWN, codes, tactics)
            features.show_ladders(board, mover, found, codes, moves, tactics[features.LADDERS :])


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
