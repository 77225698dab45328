"""Tactical features: hits and escapes, which Tesauro's inputs don't contain.

One hidden layer can't derive these from the checkers on single points: a shot depends on two points and all points
between them. Each feature assumes that its player throws next, and covers all 36 throws. HALF features of the viewer,
the same of the opponent, then one of both:

    shots         share of throws that hit
    pips hit      mean over all throws of the pips that the opponent loses by the costliest hit, / 25
    double shots  share of throws that reach more than one blot, with any checkers
    moves, last   share of throws that let the rearmost checker move
    way, last     mean pips that it moves if it uses the whole throw, / 8
    moves, next   the same for the checker ahead of it, which may be on the same point
    way, next
    pips          pip count, / 100
    prime         longest run of points that the opponent has made ahead of the rearmost checker, up to 6, / 4
    enters        share of throws that bring in a checker from the bar; 1 if none is there
    contact       distance until the rearmost checkers have passed each other, in points / 12; 0 in a race

A checker moves by the whole throw if one of the intermediate points is free; only two steps of a double count. A hit
uses one checker and one or both dice, or up to four steps of a double.

Sets of points are bit masks, as in kernels.py: bit p is point p in a player's own numbering.
Plain twin: tests/reference/tactical_features.py.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from pipeline.compiled_kernels import kernel
from pipeline.families.backgammon.kernels import BAR, ENTERING, HOME, NUM_POINTS, highest
from pipeline.games.contract import FloatArray, States

HALF = 10  # features of each player
NUM_TACTICAL_FEATURES = 2 * HALF + 1
REACH = 12  # points ahead of a checker that its moves depend on
LONGEST_PRIME = 6
MIXED = [(high, low) for high in range(1, 7) for low in range(1, high)]  # throws of two different dice
NUM_MIXED, NUM_THROWS = len(MIXED), len(MIXED) + 6
HIGHS, LOWS = (np.array([*(throw[die] for throw in MIXED), *range(1, 7)]) for die in range(2))
DOUBLES = np.array([0] * NUM_MIXED + [-1] * 6)  # a mask
NOTHING, FAR_NUMBER = np.int32(0), np.int32(ENTERING)
NUMBERS = np.arange(1, NUM_POINTS + 1, dtype=np.int32)  # the points of a state's words, in the first player's numbering
OWN, OTHER = np.int32(1) << NUMBERS, np.int32(1) << (FAR_NUMBER - NUMBERS)  # their masks for the first, second player
WEIGHTS = np.array([2] * NUM_MIXED + [1] * 6)  # of 36

SHARE = np.float32(1 / 36)  # one of 36 throws
PIPS_HIT, PIPS_MADE, PIPS, PRIME, CONTACT = (np.float32(1 / unit) for unit in (25, 8, 100, 4, 12))


@lru_cache(maxsize=1)
def ways() -> FloatArray:
    """[2 ** REACH, 2] float32: the share of throws that let a checker move, and its mean pips / 8.

    Indexed by a mask whose bit k - 1 says whether the point k ahead is free.
    """
    free = (np.arange(2**REACH)[:, None] >> np.arange(REACH)) & 1 > 0  # [., k - 1]
    moves, pips = np.zeros(len(free)), np.zeros(len(free))
    for one in range(1, 7):
        for other in range(1, 7):
            step = np.maximum(one * free[:, one - 1], other * free[:, other - 1])
            whole = free[:, one + other - 1] & (step > 0)
            moves += step > 0
            pips += np.where(whole, one + other, step)
    return np.stack([moves * SHARE, pips * SHARE * PIPS_MADE], axis=1).astype(np.float32)


@kernel
def entering(occupied: int, landable: int, bar: int, high: int, low: int) -> int:
    """Mask of the points that a throw reaches when `bar` ≥ 1 checkers have to enter first."""
    if high == low:
        reached = 1 << (ENTERING - high)
        if landable & reached:
            standing = (occupied & ~(1 << ENTERING)) | reached
            for _ in range(4 - bar):
                standing >>= high
                reached |= standing
                standing &= landable
        return reached
    reached = 0
    for turn in range(2):
        first, second = (high, low) if turn == 0 else (low, high)
        entry = 1 << (ENTERING - first)
        reached |= entry
        if bar == 1 and landable & entry:
            reached |= ((occupied & ~(1 << ENTERING)) | entry) >> second
    return reached


@kernel
def shots(
    occupied: int, landable: int, blots: int, bar: int, reached: NDArray[np.int64], bits: NDArray[np.int64]
) -> tuple[int, int, int]:
    """-> of the 36 throws: the number that hit, the total pips of their costliest hits, the number reaching many blots.

    occupied: the hitter's points, including the bar; landable: points that the opponent hasn't made; blots: the
    opponent's. reached, bits [21]: scratch. Branch-free unless a checker has to enter.
    """
    if bar:
        for throw in range(NUM_THROWS):
            reached[throw] = entering(occupied, landable, bar, HIGHS[throw], LOWS[throw]) & blots
    else:
        for throw in range(NUM_THROWS):
            high, low = HIGHS[throw], LOWS[throw]
            by_high, by_low = occupied >> high, occupied >> low
            two, other_two = (by_high & landable) >> low, (by_low & landable) >> high
            three = DOUBLES[throw] & (two & landable) >> high
            four = (three & landable) >> high
            reached[throw] = (by_high | by_low | two | other_two | three | four) & blots
    hits = lost = several = 0
    numbers = bits.view(np.float64)
    for throw in range(NUM_THROWS):
        numbers[throw] = np.float64(reached[throw])  # the exponent is the highest point hit
    for throw in range(NUM_THROWS):
        hit = reached[throw]
        weight = WEIGHTS[throw] * (hit != 0)
        hits += weight
        several += weight * (hit & (hit - 1) != 0)
        lost += weight * ((bits[throw] >> 52) - 1023)
    return hits, lost, several


@kernel
def fill_half(
    occupied: int,
    several: int,
    made: int,
    made_turned: int,
    blots: int,
    bar: int,
    table: FloatArray,
    scratch: NDArray[np.int64],
    found: FloatArray,
) -> int:
    """Fill found [HALF] with a player's features except the pip count; -> the rearmost checker's point.

    occupied, several: points with at least one, two of the player's checkers, including the bar; made: points that the
    opponent has made, made_turned the same in the opponent's numbering; blots: the opponent's. table: ways().
    """
    found[:] = 0
    if blots:
        hits, lost, doubly = shots(occupied, ~made & ~1, blots, bar, scratch[0], scratch[1])
        found[0], found[1], found[2] = hits * SHARE, lost * SHARE * PIPS_HIT, doubly * SHARE
    last = highest(occupied)
    # In the opponent's numbering, points ahead are higher bits. From 25 on they stand for bearing off: always free.
    free = ~made_turned | 1 << ENTERING
    mask = (1 << REACH) - 1
    found[3], found[4] = table[(free >> (ENTERING - last + 1)) & mask]
    before = occupied if several >> last & 1 else occupied ^ (1 << last)
    if before:
        found[5], found[6] = table[(free >> (ENTERING - highest(before) + 1)) & mask]
    ahead, prime = made & ((1 << last) - 1), 0
    while ahead and prime < LONGEST_PRIME:
        ahead &= ahead >> 1
        prime += 1
    found[8] = prime * PRIME
    closed = 0
    if bar:
        for point in range(ENTERING - HOME, ENTERING):
            closed += made >> point & 1
    found[9] = 1 - closed * closed * SHARE
    return last


@kernel
def tactical_features(states: States, viewers: NDArray[np.int8], table: FloatArray) -> FloatArray:
    """-> [B, NUM_TACTICAL_FEATURES] float32; zeros where a player has borne off all checkers.

    viewers [B] int8: each position's viewer; table: ways(). Plain twin: tests/reference/tactical_features.py.
    """
    found = np.empty((len(states), NUM_TACTICAL_FEATURES), np.float32)
    scratch = np.zeros((2, NUM_THROWS), np.int64)
    for b in range(len(states)):
        state, row = states[b], found[b]
        bars = (state[BAR], state[BAR + 1])
        any0 = two0 = two0_turned = one0_turned = pips0 = NOTHING
        any1 = two1 = two1_turned = one1_turned = pips1 = NOTHING
        for word in range(NUM_POINTS):  # 32-bit sums without branches compile to vector instructions
            count, own, other = np.int32(state[word]), OWN[word], OTHER[word]
            any0 += own if count > 0 else NOTHING
            two0 += own if count > 1 else NOTHING
            two0_turned += other if count > 1 else NOTHING
            one0_turned += other if count == 1 else NOTHING
            pips0 += max(count, NOTHING) * NUMBERS[word]
            any1 += other if count < 0 else NOTHING
            two1 += other if count < -1 else NOTHING
            two1_turned += own if count < -1 else NOTHING
            one1_turned += own if count == -1 else NOTHING
            pips1 += max(-count, NOTHING) * (FAR_NUMBER - NUMBERS[word])
        any0, two0 = any0 | (bars[0] > 0) << ENTERING, two0 | (bars[0] > 1) << ENTERING
        any1, two1 = any1 | (bars[1] > 0) << ENTERING, two1 | (bars[1] > 1) << ENTERING
        if not any0 or not any1:
            row[:] = 0
            continue
        at0 = 0 if viewers[b] == 0 else HALF
        at1 = HALF - at0
        one, other_half = row[at0 : at0 + HALF], row[at1 : at1 + HALF]
        last0 = fill_half(any0, two0, two1_turned, two1, one1_turned, bars[0], table, scratch, one)
        last1 = fill_half(any1, two1, two0_turned, two0, one0_turned, bars[1], table, scratch, other_half)
        one[7], other_half[7] = (pips0 + ENTERING * bars[0]) * PIPS, (pips1 + ENTERING * bars[1]) * PIPS
        row[2 * HALF] = max(last0 + last1 - ENTERING, 0) * CONTACT
    return found
