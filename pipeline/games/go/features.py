"""What stones in Go can do to each other: liberties after a play, and ladders. Kernels for the planes of ``Go``.
Plain twin: ``tests/reference/go.py``.

P points, W = P // 64 + 1 words of a set of points, D = MAX_DEPTH + 1 plies. Boards and scratch (stamps, lists) as in
``board``; groups labelled as by kernels.find_groups: groups [P+1] (0: no stone), and liberties [P+1] per label.
Nothing here knows what occurred before: a repetition doesn't stop a ladder.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.games.go.board import (
    BLACK,
    EMPTY,
    FREE,
    MET,
    STAMP,
    SUICIDE,
    WHITE,
    count_liberties,
    kernel,
    put_stone,
)

SAFE = 3  # liberties: a group with so many can't be held in atari
MOST = 4  # liberties after a play are counted up to this
MAX_DEPTH = 100  # plies that a ladder is read; it runs over the whole of 19×19 in fewer
MAX_LINES = 32  # of play that are read, at most: see is_caught
NOTHING = -1  # tried yet
NOT_READ = -1
TRIED, LINES = 1, 2  # columns of counts

RESULTS = ("has 1 liberty", "has 2 liberties", "has 3 liberties", "has 4 or more liberties", "captures")
PLANE_NAMES = (
    "own, 4 or more liberties",
    "own, 5 or more liberties",
    "opponent's, 4 or more liberties",
    "opponent's, 5 or more liberties",
    *(f"a play here {result}" for result in RESULTS),
    *(f"opponent's play here {result}" for result in RESULTS),
    "own, caught in a ladder",
    "opponent's, caught in a ladder",
    "a play here catches in a ladder",
    "opponent's play here catches in a ladder",
)
FINER, PLAYS, LADDERS = 0, 4, 14  # the first of each kind
NUM_PLANES = len(PLANE_NAMES)


class Desk(NamedTuple):
    """Scratch of one thread. Arrays are handed on one by one: the tuple itself would cost more than what is done."""

    board: NDArray[np.int16]  # [P+1]
    sets: NDArray[np.uint64]  # [P+1, W]: see find_reach, as for the next two
    reach: NDArray[np.uint64]  # [P+1, 2, W]
    atari: NDArray[np.uint8]  # [P+1, 2]
    ladders: NDArray[np.int8]  # [P+1] by label: is_laddered, or NOT_READ
    starts: NDArray[np.uint8]  # [2, P+1] where the mover and the opponent may begin one
    stamps: NDArray[np.int32]  # [P+2]
    lists: NDArray[np.int16]  # [3, P+1]
    boards: NDArray[np.int16]  # [D, P+1]: a line of play, at each ply the board, ...
    moves: NDArray[np.int16]  # [D, P+1] ... what may be tried there, ...
    counts: NDArray[np.int16]  # [D, 3] ... how much that is, how much of it has been TRIED, and LINES that lead here


@kernel
def new_desk(num_points):
    points, words, plies = num_points + 1, num_points // 64 + 1, MAX_DEPTH + 1
    return Desk(
        np.empty(points, np.int16),
        np.empty((points, words), np.uint64),
        np.empty((points, 2, words), np.uint64),
        np.empty((points, 2), np.uint8),
        np.empty(points, np.int8),
        np.empty((2, points), np.uint8),
        np.zeros(points + 1, np.int32),
        np.empty((3, points), np.int16),
        np.empty((plies, points), np.int16),
        np.empty((plies, points), np.int16),
        np.empty((plies, 3), np.int16),
    )


# Liberties after a play


@kernel
def find_reach(board, num_points, neighbours, groups, liberties, sets, reach, atari):
    """What each point gives to a stone put beside it: liberties, and whether it is captured.

    sets [P+1, W] uint64 is scratch: the liberties of each group by its label, a bit per point. reach [P+1, 2, W] uint64
    is what a black and a white stone would get: those of its group, the point itself if it is empty, else none. atari
    [P+1, 2] uint8: whether a black and a white stone is there that has one liberty.
    """
    sets[:] = 0
    reach[:] = 0
    for point in range(num_points):
        if board[point] == EMPTY:
            word, bit = point >> 6, np.uint64(1) << np.uint64(point & 63)
            reach[point, 0, word] = bit
            reach[point, 1, word] = bit
            for side in range(4):
                sets[groups[neighbours[point, side]], word] |= bit
    for point in range(num_points + 1):
        stone, group = board[point], groups[point]
        atari[point, 0] = (stone == BLACK) & (liberties[group] == 1)
        atari[point, 1] = (stone == WHITE) & (liberties[group] == 1)
        if group != 0:
            for word in range(sets.shape[1]):
                reach[point, stone - 1, word] = sets[group, word]


@kernel
def is_capture(point, side, neighbours, atari):
    """Whether a stone on an empty point, of black (side 0) or white (1), captures."""
    one, two = neighbours[point, 0], neighbours[point, 1]
    three, four = neighbours[point, 2], neighbours[point, 3]
    other = 1 - side
    return (atari[one, other] | atari[two, other] | atari[three, other] | atari[four, other]) != 0


@kernel
def liberties_after(point, side, neighbours, reach):
    """Liberties of the group of a stone put on an empty point that captures nothing, at most MOST; 0: suicide."""
    one, two = neighbours[point, 0], neighbours[point, 1]
    three, four = neighbours[point, 2], neighbours[point, 3]
    count = 0
    for word in range(reach.shape[2]):
        free = reach[one, side, word] | reach[two, side, word] | reach[three, side, word] | reach[four, side, word]
        if point >> 6 == word:
            free &= ~(np.uint64(1) << np.uint64(point & 63))
        while free and count < MOST:
            free &= free - np.uint64(1)
            count += 1
    return count


@kernel
def liberties_after_capture(board, point, side, neighbours, stamps, lists, after):
    """The same of one that captures. after [P+1] int16 is scratch."""
    after[:] = board
    put_stone(after, point, side + 1, neighbours, stamps, lists)
    return count_liberties(after, point, MOST, neighbours, stamps, lists)[0]


# Ladders


@kernel
def add_move(moves, counts, move):
    """Add to a ply's moves [P+1], each once."""
    for i in range(counts[0]):
        if moves[i] == move:
            return
    moves[counts[0]] = move
    counts[0] += 1


@kernel
def add_captures(board, target, size, neighbours, stamps, lists, stones, moves, counts):
    """Add what takes a stone beside the group at `target`, whose `size` stones are MET. stones [P+1] is scratch."""
    stones[:size] = lists[MET, :size]  # the walks below meet others
    begin = stamps[STAMP]
    for i in range(size):
        for side in range(4):
            near = neighbours[stones[i], side]
            if board[near] != BLACK + WHITE - board[target] or stamps[near] > begin:  # met already
                continue
            if count_liberties(board, near, 2, neighbours, stamps, lists)[0] == 1:
                add_move(moves, counts, lists[FREE, 0])


@kernel
def runs_free(board, point, taken, neighbours):
    """Whether a group that extends to an empty point has SAFE liberties beside it at once, without the one taken."""
    count = 0
    for side in range(4):
        near = neighbours[point, side]
        count += (board[near] == EMPTY) & (near != taken)
    return count >= SAFE


@kernel
def find_moves(board, target, defending, neighbours, stamps, lists, stones, moves, counts):
    """What may be tried on a ladder's board: the defender its last liberty or to take a stone in atari, the attacker
    one of two liberties. -> over, caught: whether nothing needs to be tried, and if so how it ends.
    """
    counts[0], counts[TRIED] = 0, 0
    free, size = count_liberties(board, target, SAFE, neighbours, stamps, lists)
    if free > (1 if defending else 2) or (free == 1 and not defending):
        return True, free == 1
    first, second = lists[FREE, 0], lists[FREE, 1]
    if defending:
        if runs_free(board, first, first, neighbours):
            return True, False
        add_move(moves, counts, first)
        add_captures(board, target, size, neighbours, stamps, lists, stones, moves, counts)
        return False, False
    if not runs_free(board, second, first, neighbours):
        add_move(moves, counts, first)
    if not runs_free(board, first, second, neighbours):
        add_move(moves, counts, second)
    return False, False


@kernel
def is_caught(target, neighbours, stamps, lists, boards, moves, counts):
    """Whether the group at `target` of boards[0], of one liberty, is lost to atari after atari though it moves.

    Even plies are the defender's, odd ones the attacker's. A line of play is given up, and the group escapes, after
    MAX_DEPTH plies or where more than MAX_LINES would be read if every line had as many moves at each ply as this one:
    so the answer doesn't depend on the moves' order, thus not on how the board is turned.
    """
    defender = boards[0, target]
    depth = 0
    counts[0, TRIED], counts[0, LINES] = NOTHING, 1
    while True:
        defending, over, caught = depth % 2 == 0, False, False
        if counts[depth, TRIED] == NOTHING:
            if depth == MAX_DEPTH or counts[depth, LINES] > MAX_LINES:
                over = True
            else:
                over, caught = find_moves(
                    boards[depth], target, defending, neighbours, stamps, lists, moves[depth + 1], moves[depth],
                    counts[depth],
                )  # fmt: skip
        if not over:
            if counts[depth, TRIED] < counts[depth, 0]:
                move = moves[depth, counts[depth, TRIED]]
                counts[depth, TRIED] += 1
                boards[depth + 1] = boards[depth]
                colour = defender if defending else BLACK + WHITE - defender
                if put_stone(boards[depth + 1], move, colour, neighbours, stamps, lists) != SUICIDE:
                    counts[depth + 1, LINES] = min(MAX_LINES + 1, counts[depth, LINES] * counts[depth, 0])
                    depth += 1
                    counts[depth, TRIED] = NOTHING
                continue
            caught = defending  # the side to move has tried everything
        while True:  # back to the last ply whose side to move isn't content and may have another move
            if depth == 0:
                return caught
            depth -= 1
            if caught == (depth % 2 == 0):
                break


@kernel
def is_laddered(board, target, free, neighbours, stamps, lists, boards, moves, counts, starts):
    """Whether the group at `target`, of `free` liberties, one or two, is caught though it moves (one), or if the
    opponent does (two); then starts [P+1] is set where the opponent may begin.
    """
    if free == 1:
        boards[0] = board
        return is_caught(target, neighbours, stamps, lists, boards, moves, counts)
    count_liberties(board, target, SAFE, neighbours, stamps, lists)
    first, second = lists[FREE, 0], lists[FREE, 1]
    found = False
    for move, other in ((first, second), (second, first)):
        if runs_free(board, other, move, neighbours):
            continue
        boards[0] = board
        if put_stone(boards[0], move, BLACK + WHITE - board[target], neighbours, stamps, lists) == SUICIDE:
            continue
        if is_caught(target, neighbours, stamps, lists, boards, moves, counts):
            starts[move] = 1
            found = True
    return found


@kernel
def observe_row(state, num_points, mover, neighbours, groups, liberties, desk, planes):
    """Fill planes [NUM_PLANES, P] uint8, as PLANE_NAMES says, of one state seen by the mover, 0 or 1."""
    board, ladders, starts, reach, atari = desk.board, desk.ladders, desk.starts, desk.reach, desk.atari
    stamps, lists, boards, moves, counts = desk.stamps, desk.lists, desk.boards, desk.moves, desk.counts
    board[:] = state[: board.size]
    ladders[:] = NOT_READ
    starts[:] = 0
    planes[:] = 0
    find_reach(board, num_points, neighbours, groups, liberties, desk.sets, reach, atari)
    for point in range(num_points):
        if board[point] == EMPTY:
            for whose in range(2):
                side, first = whose ^ mover, PLAYS + whose * (MOST + 1)
                if is_capture(point, side, neighbours, atari):
                    free = liberties_after_capture(board, point, side, neighbours, stamps, lists, boards[0])
                    planes[first + MOST, point] = 1
                else:
                    free = liberties_after(point, side, neighbours, reach)
                if free > 0:
                    planes[first + free - 1, point] = 1
            continue
        group, whose = groups[point], int(board[point] != mover + 1)
        free = liberties[group]
        planes[FINER + 2 * whose, point] = free > SAFE
        planes[FINER + 2 * whose + 1, point] = free > SAFE + 1
        if free < SAFE:
            if ladders[group] == NOT_READ:
                ladders[group] = is_laddered(
                    board, point, free, neighbours, stamps, lists, boards, moves, counts, starts[1 - whose]
                )
            planes[LADDERS + whose, point] = ladders[group]
    planes[LADDERS + 2 :] = starts[:, :num_points]
