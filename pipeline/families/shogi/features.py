"""The network's planes of a position of shogi, in the mover's view. Parts of kernels.

Planes, in this order: the points of each kind of piece, the mover's and the opponent's; the pieces in each hand, a
plane over the whole board for each "n or more"; the points that each player attacks once, twice, three times or more;
the last move's destination; and planes over the whole board for check, repetition and the player to move.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.families.shogi.board import (
    BISHOP,
    EMPTY,
    GOLD,
    HAND_KINDS,
    KING,
    KNIGHT,
    LANCE,
    OPPOSITE,
    PAWN,
    PROMOTED,
    PROMOTES,
    ROOK,
    SILVER,
    SLIDES,
    STEPS,
    THEIRS,
    part,
)

NAMES = ("", "pawn", "lance", "knight", "silver", "gold", "bishop", "rook", "king")
SHOWN_IN_HAND = {9: (0, 8, 4, 4, 4, 4, 2, 2), 5: (0, 2, 0, 0, 2, 2, 2, 2)}  # by board and kind, the most planes
KINDS = {9: (PAWN, LANCE, KNIGHT, SILVER, GOLD, BISHOP, ROOK), 5: (PAWN, SILVER, GOLD, BISHOP, ROOK)}  # of a board
MOST_ATTACKS = 3
PLAYERS = ("own", "opponent's")
LAST = ("last move", "in check", "second occurrence", "third occurrence", "second player to move")


class Layout(NamedTuple):
    """The numbers of planes.

    pieces  [32] int16    the plane of each piece of a view; -1: no piece
    hands   [2, 8] int16  the first plane of each kind, in the mover's hand and in the opponent's
    most    [8] int16     the number of planes of each kind in a hand
    attacks, last         the first plane of attacks, and of LAST
    """

    pieces: NDArray[np.int16]
    hands: NDArray[np.int16]
    most: NDArray[np.int16]
    attacks: int
    last: int


def piece_name(kind: int) -> str:
    return NAMES[kind] if kind <= KING else f"promoted {NAMES[kind - PROMOTED]}"


@lru_cache(maxsize=4)
def layout(size: int) -> tuple[Layout, tuple[str, ...]]:
    """The layout for a board, and the names of the planes."""
    kinds = KINDS[size]
    every = [*kinds, KING, *(kind + PROMOTED for kind in kinds if PROMOTES[kind])]
    names: list[str] = []
    pieces = np.full(32, -1, np.int16)
    for player, whose in enumerate(PLAYERS):
        for kind in every:
            pieces[kind + player * THEIRS] = len(names)
            names.append(f"{whose} {piece_name(kind)}")
    hands = np.zeros((2, HAND_KINDS + 1), np.int16)
    for player, whose in enumerate(PLAYERS):
        for kind in kinds:
            hands[player, kind] = len(names)
            names += [f"{whose} hand, {number} {NAMES[kind]}" for number in range(1, SHOWN_IN_HAND[size][kind] + 1)]
    attacks = len(names)
    for whose in PLAYERS:
        names += [f"{whose} attacks, {number}" for number in range(1, MOST_ATTACKS + 1)]
    last = len(names)
    return Layout(pieces, hands, np.array(SHOWN_IN_HAND[size], np.int16), attacks, last), (*names, *LAST)


@part
def count_attacks(view, beside, attacks):
    """Fill attacks [2, P + 1] uint8: the number of the mover's and of the opponent's pieces that attack each point."""
    attacks[:] = 0
    for point in range(view.size - 1):
        piece = view[point]
        if piece == EMPTY:
            continue
        player = 1 if piece & THEIRS else 0
        directions, slides = STEPS[piece & 15] | SLIDES[piece & 15], SLIDES[piece & 15]
        direction = -1
        while directions:
            direction += 1
            moves = directions & 1
            directions >>= 1
            if not moves:
                continue
            seen = OPPOSITE[direction] if player else direction
            to = beside[point, seen]
            attacks[player, to] += 1
            if (slides >> direction) & 1:
                while view[to] == EMPTY:
                    to = beside[to, seen]
                    attacks[player, to] += 1


@part
def show(view, hands, beside, layout, attacks, last, in_check, repeats, mover, planes):
    """Fill planes [C, P] uint8. hands [2, 8] int8: the mover's, the opponent's; attacks [2, P + 1] uint8 is scratch.

    last: the last move's destination in this view, -1 at first; repeats: how often the position occurred before.
    """
    num_points = view.size - 1
    planes[:] = 0
    for point in range(num_points):
        piece = view[point]
        if piece != EMPTY:
            planes[layout.pieces[piece], point] = 1
    for player in range(2):
        for kind in range(PAWN, HAND_KINDS + 1):
            for number in range(min(hands[player, kind], layout.most[kind])):
                planes[layout.hands[player, kind] + number, :] = 1
    count_attacks(view, beside, attacks)
    for player in range(2):
        for number in range(MOST_ATTACKS):
            plane = planes[layout.attacks + player * MOST_ATTACKS + number]
            for point in range(num_points):
                plane[point] = attacks[player, point] > number
    if last >= 0:
        planes[layout.last, last] = 1
    if in_check:
        planes[layout.last + 1, :] = 1
    if repeats >= 1:
        planes[layout.last + 2, :] = 1
    if repeats >= 2:
        planes[layout.last + 3, :] = 1
    if mover:
        planes[layout.last + 4, :] = 1
