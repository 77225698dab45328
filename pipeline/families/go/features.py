"""Tactical planes of ``Go``: liberties, liberties after a play, ladders. Parts of kernels, on the boards of ``groups``.
Plain twin: ``tests/reference/go.py``.

P points. Codes [3, P+1] uint8 summarise a position for the mover; P has none:
    ON_BOARD       the liberties of the group there, at most FINEST, plus THEIRS if it is the opponent's; 0: empty
    PLAY, REPLY    the liberties, at most MOST, of a new stone of the mover or of the opponent there, plus CAPTURES if
                   it captures; 0: suicide, or not empty
"""

# mypy: allow-untyped-defs
from __future__ import annotations

import numpy as np

from pipeline.families.go.board import part
from pipeline.families.go.groups import count_liberties, liberties_after, put, take_back, two_liberties
from pipeline.families.go.ladders import SAFE, is_caught, starts_ladder

ON_BOARD, PLAY, REPLY = 0, 1, 2
FINEST, MOST = 5, 4
THEIRS = CAPTURES = 8
LIBERTIES = 7  # the other bits of a code

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
LADDERS = 14  # the first plane of ladders
NUM_PLANES = len(PLANE_NAMES)


def stones_shown(side: int, least: int, most: int = FINEST) -> tuple[int, int, int, int]:
    """A row of SHOWN: stones of the mover (side 0) or of the opponent (THEIRS) with this range of liberties."""
    return ON_BOARD, 255, side + least, side + most


# What each plane before LADDERS shows: a row of the codes, a mask, and the least and greatest masked code
SHOWN = np.array(
    [
        *(stones_shown(side, least) for side in (0, THEIRS) for least in (4, 5)),
        *((PLAY, LIBERTIES, liberties, liberties) for liberties in range(1, MOST + 1)),
        (PLAY, CAPTURES, CAPTURES, CAPTURES),
        *((REPLY, LIBERTIES, liberties, liberties) for liberties in range(1, MOST + 1)),
        (REPLY, CAPTURES, CAPTURES, CAPTURES),
    ],
    np.uint8,
)


@part
def describe(board, mover, groups, free, replies, codes):
    """Fill codes, codes[REPLY] only if `replies`. groups, free: as listed by find_groups."""
    keys = board.keys
    codes[:] = 0
    for key in groups:
        codes[ON_BOARD, key] = min(FINEST, count_liberties(board, key)) + (THEIRS if keys[mover, key] != key else 0)
    for point in range(keys.shape[1]):
        codes[ON_BOARD, point] = codes[ON_BOARD, min(keys[0, point], keys[1, point])]
    for point in free:
        play, reply = liberties_after(board, point, mover, point), 0
        if replies:
            reply = liberties_after(board, point, 1 - mover, point)
        codes[PLAY, point], codes[REPLY, point] = min(MOST, play), min(MOST, reply)
    for key in groups:
        row = PLAY if codes[ON_BOARD, key] & THEIRS else REPLY
        if codes[ON_BOARD, key] & LIBERTIES == 1 and (replies or row == PLAY):
            point, colour = two_liberties(board, key)[0], mover ^ (row - PLAY)
            if codes[row, point] < CAPTURES:
                liberties = put(board, point, colour, 0)
                take_back(board, point, colour, 0)
                codes[row, point] = min(MOST, liberties) + CAPTURES


@part
def show(shown, codes, planes):
    """Fill planes [n, P] uint8 according to shown [n, 4] uint8: see SHOWN."""
    for plane in range(shown.shape[0]):
        row, bits, least, most = shown[plane]
        for point in range(planes.shape[1]):
            code = codes[row, point] & bits
            planes[plane, point] = (least <= code) & (code <= most)


@part
def show_ladders(board, mover, groups, codes, moves, planes):
    """Fill planes [4, P] uint8, the last ones of PLANE_NAMES. moves: scratch of ``ladders``."""
    planes[:] = 0
    for key in groups:
        liberties, whose = codes[ON_BOARD, key] & LIBERTIES, int(codes[ON_BOARD, key] >= THEIRS)
        if liberties >= SAFE:
            continue
        colour, caught = mover ^ whose, False
        first, second = two_liberties(board, key)
        if liberties == 1:
            caught = is_caught(board, key, colour, moves)
        else:
            for move, other in ((first, second), (second, first)):
                if starts_ladder(board, move, other, key, colour, moves):
                    planes[3 - whose, move] = 1
                    caught = True
        if caught:
            for point in range(planes.shape[1]):
                planes[whose, point] |= board.keys[colour, point] == key
