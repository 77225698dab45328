"""The groups of a Go board as sets of points, kept up to date while stones are put and taken back.

P points, W words of a set, a bit per point. A group's key is one of its points. Colours are 0 black, 1 white.
Most functions are parts of kernels: see ``board.part``.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.families.go.board import BLACK, EMPTY, WHITE, kernel, part, points_around

AROUND, STONES = 0, 1
SMALL, LARGE = (0,) * 2, (0,) * 6  # words for boards up to 11×11 and 19×19. Kernels are compiled for each length.
KEY, NUM_JOINED, JOINED, NUM_TAKEN, TAKEN, CHANGES = 0, 1, 2, 5, 6, 10  # columns of Board.changes, and their number


class Board(NamedTuple):
    """A board for kernels. A new stone changes only the groups that it joins or captures.

    keys        [2, P+1]       for black and for white, the key of the group on each point; P: none
    sets        [P+1, 2, W]    by key, the points AROUND the group, occupied or not, and its STONES
    empty       [W]            the empty points; a group's liberties are the empty points AROUND it
    groups      [P+1]          keys that find_groups found
    free        [P+1]          empty points that find_groups found
    changes     [T, CHANGES]   the stone of each ply: its KEY, the keys JOINED to it and those TAKEN
    saved       [T, 3, W]      what each ply replaced: sets of its key, and the empty points
    neighbours  [P, 4 or more] as points_around gives them
    beside      [P, W]         the four neighbours as sets
    words       W zeros; numba knows their number at compile time and unrolls loops over them
    """

    keys: NDArray[np.uint16]
    sets: NDArray[np.uint64]
    empty: NDArray[np.uint64]
    groups: NDArray[np.uint16]
    free: NDArray[np.uint16]
    changes: NDArray[np.int16]
    saved: NDArray[np.uint64]
    neighbours: NDArray[np.uint16]
    beside: NDArray[np.uint64]
    words: tuple[int, ...]


def words_for(num_points: int) -> tuple[int, ...]:
    return SMALL if num_points <= 64 * len(SMALL) else LARGE


@lru_cache(maxsize=16)
def sets_beside(size: int) -> NDArray[np.uint64]:
    """[P, W] the points beside each."""
    num_points = size * size
    sets = np.zeros((num_points, len(words_for(num_points))), np.uint64)
    for point, neighbours in enumerate(points_around(size)[:, :4].tolist()):
        for near in neighbours:
            if near < num_points:
                sets[point, near >> 6] |= np.uint64(1 << (near & 63))
    return sets


@kernel
def new_board(neighbours, beside, words, num_plies):
    """-> a Board for find_groups to fill, with room for num_plies, T."""
    points, size = neighbours.shape[0] + 1, len(words)
    return Board(
        np.empty((2, points), np.uint16),
        np.zeros((points, 2, size), np.uint64),
        np.empty(size, np.uint64),
        np.empty(points, np.uint16),
        np.empty(points, np.uint16),
        np.empty((num_plies, CHANGES), np.int16),
        np.empty((num_plies, 3, size), np.uint64),
        neighbours,
        beside,
        words,
    )


# Sets


@part
def bit_of(point):
    """Word point >> 6 of the set of this point alone."""
    return np.uint64(1) << np.uint64(point & 63)


@part
def without(bits, word, point):
    """A set's word, with its number, less a point."""
    return bits & ~bit_of(point) if point >> 6 == word else bits


@part
def count_bits(bits):
    """The number of points in a word. (LLVM compiles this formula to one instruction.)"""
    bits = bits - ((bits >> np.uint64(1)) & np.uint64(0x5555555555555555))
    bits = (bits & np.uint64(0x3333333333333333)) + ((bits >> np.uint64(2)) & np.uint64(0x3333333333333333))
    bits = (bits + (bits >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((bits * np.uint64(0x0101010101010101)) >> np.uint64(56))


@part
def first_of(bits, word):
    """The lowest point in a set's word, which isn't 0; word: its number."""
    return 64 * word + count_bits(~bits & (bits - np.uint64(1)))


# Groups


@part
def count_liberties(board, key):
    found = 0
    for word in range(len(board.words)):
        found += count_bits(board.sets[key, AROUND, word] & board.empty[word])
    return found


@part
def count_stones(board, key):
    found = 0
    for word in range(len(board.words)):
        found += count_bits(board.sets[key, STONES, word])
    return found


@part
def two_liberties(board, key):
    """-> the first and the last liberty of a group that has one or two."""
    first, last = -1, -1
    for word in range(len(board.words)):
        bits = board.sets[key, AROUND, word] & board.empty[word]
        lowest = first_of(bits, word)
        first = lowest if (first < 0) & (bits != 0) else first
        last = lowest if bits != 0 else last
        bits &= bits - np.uint64(1)
        last = first_of(bits, word) if bits != 0 else last
    return first, last


@part
def liberties_after(board, point, colour, lost):
    """The liberties of a new stone's group, without those from captures and without `lost`; 0: suicide."""
    one, two = board.keys[colour, board.neighbours[point, 0]], board.keys[colour, board.neighbours[point, 1]]
    three, four = board.keys[colour, board.neighbours[point, 2]], board.keys[colour, board.neighbours[point, 3]]
    sets, found = board.sets, 0
    for word in range(len(board.words)):
        bits = sets[one, AROUND, word] | sets[two, AROUND, word] | sets[three, AROUND, word] | sets[four, AROUND, word]
        bits = (bits | board.beside[point, word]) & board.empty[word]
        found += count_bits(without(without(bits, word, point), word, lost))
    return found


@part
def takes(board, point, colour):
    """Whether a stone on an empty point captures: a group of the other colour beside it has no other liberty."""
    found = False
    for side in range(4):
        found |= count_liberties(board, board.keys[1 - colour, board.neighbours[point, side]]) == 1
    return found


@part
def root_of(keys, key):
    while keys[key] != key:
        key = keys[key]
    return key


@part
def find_groups(board, state):
    """Set up the board of a state -> the numbers of groups and of empty points listed.

    One pass from the top left joins each stone to those above and to the left of it, like component labelling of an
    image. It uses arithmetic instead of branches, because a board's contents are hard to predict.
    """
    num_points, sets, words = board.neighbours.shape[0], board.sets, board.words
    keys, stones = board.keys[0], board.keys[1]
    for point in range(num_points):
        colour = state[point]
        above, left = board.neighbours[point, 0], board.neighbours[point, 2]
        joins_above = (colour != EMPTY) & (state[above] == colour)
        joins_left = (colour != EMPTY) & (state[left] == colour)
        one, two = keys[above], keys[left]
        keys[point] = one if joins_above else (two if joins_left else point)
        if joins_above & joins_left & (one != two):
            one, two = root_of(keys, one), root_of(keys, two)
            keys[max(one, two)] = min(one, two)
    num_groups, num_free, num_stones = 0, 0, 0
    for point in range(num_points):
        key = keys[keys[point]]  # its parent is lower, so already settled
        keys[point] = key
        is_stone = state[point] != EMPTY
        board.groups[num_groups] = point
        num_groups += is_stone & (key == point)
        board.free[num_free] = point
        num_free += not is_stone
        stones[num_stones] = point
        num_stones += is_stone
    board.empty[:] = 0
    for point in board.free[:num_free]:
        board.empty[point >> 6] |= bit_of(point)
    for key in board.groups[:num_groups]:
        for word in range(len(words)):
            sets[key, AROUND, word] = sets[key, STONES, word] = 0
    for point in stones[:num_stones]:
        key = keys[point]
        sets[key, STONES, point >> 6] |= bit_of(point)
        for word in range(len(words)):
            sets[key, AROUND, word] |= board.beside[point, word]
    for point in range(num_points + 1):
        colour, key = state[point], keys[point]
        board.keys[0, point] = key if colour == BLACK else num_points
        board.keys[1, point] = key if colour == WHITE else num_points
    return num_groups, num_free


# Plays


@part
def give_key(board, group, colour, key):
    """Give the stones of a group another key."""
    for word in range(len(board.words)):
        bits = board.sets[group, STONES, word]
        while bits:
            board.keys[colour, first_of(bits, word)] = key
            bits &= bits - np.uint64(1)


@part
def put(board, point, colour, ply):
    """Put a stone on an empty point and remove what it captures -> its group's liberties, 0 for suicide."""
    keys, sets, empty, changes, saved = board.keys, board.sets, board.empty, board.changes, board.saved
    nothing, other = keys.shape[1] - 1, 1 - colour
    one, two = keys[colour, board.neighbours[point, 0]], keys[colour, board.neighbours[point, 1]]
    three, four = keys[colour, board.neighbours[point, 2]], keys[colour, board.neighbours[point, 3]]
    key = min(min(one, two), min(three, four))
    if key == nothing:
        key = point
    for word in range(len(board.words)):
        saved[ply, AROUND, word], saved[ply, STONES, word] = sets[key, AROUND, word], sets[key, STONES, word]
        saved[ply, 2, word] = empty[word]
        around = (
            sets[one, AROUND, word] | sets[two, AROUND, word] | sets[three, AROUND, word] | sets[four, AROUND, word]
        )
        stones = (
            sets[one, STONES, word] | sets[two, STONES, word] | sets[three, STONES, word] | sets[four, STONES, word]
        )
        bit = bit_of(point) if point >> 6 == word else np.uint64(0)
        sets[key, AROUND, word], sets[key, STONES, word] = around | board.beside[point, word], stones | bit
        empty[word] &= ~bit
    num_joined, num_taken = 0, 0
    for joined in (one, two, three, four):
        if joined != nothing and joined != key and keys[colour, joined] != key:
            give_key(board, joined, colour, key)
            changes[ply, JOINED + num_joined] = joined
            num_joined += 1
    keys[colour, point] = key
    for side in range(4):
        taken = keys[other, board.neighbours[point, side]]
        if taken != nothing and count_liberties(board, taken) == 0:
            give_key(board, taken, other, nothing)
            for word in range(len(board.words)):
                empty[word] |= sets[taken, STONES, word]
            changes[ply, TAKEN + num_taken] = taken
            num_taken += 1
    changes[ply, KEY], changes[ply, NUM_JOINED], changes[ply, NUM_TAKEN] = key, num_joined, num_taken
    return count_liberties(board, key)


@part
def take_back(board, point, colour, ply):
    """Undo what put did at `ply`, the last one that hasn't been taken back."""
    sets, changes, saved = board.sets, board.changes, board.saved
    board.keys[colour, point] = board.keys.shape[1] - 1
    for i in range(changes[ply, NUM_JOINED]):
        joined = changes[ply, JOINED + i]
        give_key(board, joined, colour, joined)
    for i in range(changes[ply, NUM_TAKEN]):
        taken = changes[ply, TAKEN + i]
        give_key(board, taken, 1 - colour, taken)
    key = changes[ply, KEY]
    for word in range(len(board.words)):
        sets[key, AROUND, word], sets[key, STONES, word] = saved[ply, AROUND, word], saved[ply, STONES, word]
        board.empty[word] = saved[ply, 2, word]
