"""Backgammon over rows of flat int16 states: the kernels behind ``Backgammon``.

Plain twin: tests/reference/backgammon.py.

Axes: B batch, N successors of all rows, S state words.

A state row has points 1 to 24 as the first player counts them (the first player's checkers are positive, the second's
negative), then the words below. The first player moves from 24 down to 1 and off, the second from 1 up to 24 and off.
In a player's *own numbering* that player bears off below 1: the second's point p is the first's 25 - p. The bar is
point 25 for either player.

A *placement* is everything that a turn can change, packed into two 60-bit numbers. Four bits for each point in the
mover's own numbering hold the mover's number of checkers: points 24 to 10 in `high`, 9 to 1 in `low`. Below them, `low`
has a bit for each point with a single opposing checker (a blot). Two successors of a position are equal exactly if
their placements are equal: checkers on the bar enter first, so all successors have the same bar, and a player who
enters bears nothing off in that turn. Successors are ordered by their placements (high, low). This order must never
change: recorded games store the indices of successors.

Sets of points are bit masks: bit p is point p in the mover's own numbering.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.compiled_kernels import kernel
from pipeline.games.contract import BoolArray, FloatArray, KeyArray, States

NUM_POINTS = 24
BAR, OFF = 24, 26  # the first player's words; the second's follow each
TURN, HIGH_DIE, LOW_DIE, PLY = 28, 29, 30, 31  # TURN: player 0 or 1; both dice are 0 before the throw
STATE_SIZE = 32

ENTERING = 25  # the bar as a point
HOME = 6  # the highest point of the home board
MOST_PLAYS = 20480  # upper bound for a throw: C(28, 4) multisets of four of 25 points

HALF_FEATURES = 98  # of one player: four for each point, the bar, checkers off
NUM_FEATURES = 198


@kernel
def count_at(high: int, low: int, point: int) -> int:
    """The number of the mover's checkers that a placement has on a point from 1 to 24."""
    if point >= 10:
        return (high >> (4 * (point - 10))) & 15
    return (low >> (4 * (point - 1) + NUM_POINTS)) & 15


@kernel
def highest(points: int) -> int:
    """The highest point of a nonempty mask."""
    point = 0
    for step in (16, 8, 4, 2, 1):
        if points >> step:
            points >>= step
            point += step
    return point


@kernel
def sources(occupied: int, landable: int, die: int) -> int:
    """Mask of the points from which a checker may move by this die.

    occupied: points with the mover's checkers, including the bar; landable: points that the opponent hasn't made.
    """
    if occupied >> ENTERING:
        occupied = 1 << ENTERING
    found = occupied & (landable << die)
    if occupied and occupied >> (HOME + 1) == 0:
        found |= occupied & (1 << die)
        if occupied >> die == 0:
            found |= 1 << highest(occupied)
    return found


@kernel
def move_checker(high: int, low: int, bar: int, occupied: int, source: int, die: int) -> tuple[int, int, int, int]:
    """-> high, low, bar and occupied after one checker has moved and perhaps hit. Doesn't check legality."""
    if source == ENTERING:
        bar -= 1
        emptied = bar == 0
    elif source >= 10:
        high -= 1 << (4 * (source - 10))
        emptied = count_at(high, low, source) == 0
    else:
        low -= 1 << (4 * (source - 1) + NUM_POINTS)
        emptied = count_at(high, low, source) == 0
    if emptied:
        occupied ^= 1 << source
    target = source - die
    if target > 0:
        if target >= 10:
            high += 1 << (4 * (target - 10))
        else:
            low += 1 << (4 * (target - 1) + NUM_POINTS)
        low &= ~(1 << (target - 1))
        occupied |= 1 << target
    return high, low, bar, occupied


@kernel
def insert(highs: NDArray[np.int64], lows: NDArray[np.int64], start: int, end: int, high: int, low: int) -> int:
    """Insert a placement into the ascending range from start to end unless present; -> the new end."""
    at = end
    while at > start and (high < highs[at - 1] or (high == highs[at - 1] and low < lows[at - 1])):
        at -= 1
    if at > start and high == highs[at - 1] and low == lows[at - 1]:
        return end
    for i in range(end, at, -1):
        highs[i], lows[i] = highs[i - 1], lows[i - 1]
    highs[at], lows[at] = high, low
    return end + 1


@kernel
def two_dice(
    highs: NDArray[np.int64],
    lows: NDArray[np.int64],
    start: int,
    placement: tuple[int, int, int, int],
    landable: int,
    large: int,
    small: int,
) -> int:
    """Write all placements after a throw of two different dice, from index start on; -> their end.

    placement: high, low, bar, occupied before the move. Plays both dice if possible, else the larger one if possible,
    else the smaller one.
    """
    high, low, bar, occupied = placement
    end = start
    for turn in range(2):
        one, other = (large, small) if turn == 0 else (small, large)
        first = sources(occupied, landable, one)
        while first:
            source = highest(first)
            first ^= 1 << source
            h, l, b, o = move_checker(high, low, bar, occupied, source, one)  # noqa: E741
            second = sources(o, landable, other)
            if turn == 1 and bar == 0 and o >> (HOME + 1):
                # Two different checkers could also have moved in the first order: only the same checker matters.
                second &= 1 << max(source - one, 0)
            while second:
                then = highest(second)
                second ^= 1 << then
                after = move_checker(h, l, b, o, then, other)
                end = insert(highs, lows, start, end, after[0], after[1])
    if end > start:
        return end
    die = large if sources(occupied, landable, large) else small
    first = sources(occupied, landable, die)
    while first:
        source = highest(first)
        first ^= 1 << source
        after = move_checker(high, low, bar, occupied, source, die)
        highs[end], lows[end] = after[0], after[1]
        end += 1
    return end


@kernel
def double(
    highs: NDArray[np.int64],
    lows: NDArray[np.int64],
    start: int,
    placement: tuple[int, int, int, int],
    landable: int,
    die: int,
    stack: NDArray[np.int64],
) -> int:
    """Write all placements after a double, from index start on; -> their end.

    stack [5, 5] int64: scratch; row k holds a placement after k steps and a mask of the points still to be tried.

    Every play can be made with its sources in descending order: earlier steps never block later ones, and the rearmost
    checkers must come home before any is borne off. In that order all plays are different and come out in the order of
    placements: at the highest point where two plays differ, the one that moves more checkers leaves fewer.
    """
    end, depth, longest = start, 0, 0
    for i in range(4):
        stack[0, i] = placement[i]
    stack[0, 4] = sources(placement[3], landable, die)
    while depth >= 0:
        if stack[depth, 4] == 0:
            depth -= 1
            continue
        source = highest(stack[depth, 4])
        stack[depth, 4] ^= 1 << source
        high, low, bar, occupied = move_checker(
            stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3], source, die
        )
        moved = depth + 1
        further = sources(occupied, landable, die) & ((2 << source) - 1) if moved < 4 else 0
        if further:
            depth = moved
            stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3] = high, low, bar, occupied
            stack[depth, 4] = further
        elif moved >= longest:
            if moved > longest:
                longest, end = moved, start
            highs[end], lows[end] = high, low
            end += 1
    return end


@kernel
def successors(states: States, checkers: int, max_plies: int) -> tuple[NDArray[np.int64], States]:
    """-> offsets [B + 1] int64 and the states [N, S] after each legal turn.

    checkers: of each player; a game of max_plies is over. Row b has successors offsets[b] to offsets[b + 1], in the
    order of their placements; the opponent throws next. A row without dice and a finished game have none. A player who
    can't move has one successor, with the same board.
    Plain twin: BackgammonReference.successors.
    """
    B = len(states)
    offsets = np.zeros(B + 1, np.int64)
    highs, lows = np.empty(MOST_PLAYS + 32 * B, np.int64), np.empty(MOST_PLAYS + 32 * B, np.int64)
    stack, state = np.empty((5, 5), np.int64), np.empty(STATE_SIZE, np.int64)
    end = 0
    for b in range(B):
        state[:] = states[b]
        start = end
        going = state[PLY] < max_plies and state[OFF] < checkers and state[OFF + 1] < checkers
        if going and state[HIGH_DIE] > 0:
            if end + MOST_PLAYS > len(highs):
                more = np.empty(len(highs) + MOST_PLAYS, np.int64)
                highs, lows = np.concatenate((highs, more)), np.concatenate((lows, more))
            mover = state[TURN]
            sign, bar = 1 - 2 * mover, state[BAR + mover]
            occupied = landable = high = low = 0
            if bar:
                occupied |= 1 << ENTERING
            for point in range(NUM_POINTS, 0, -1):
                found = sign * state[point - 1 if mover == 0 else NUM_POINTS - point]
                if found >= -1:
                    landable |= 1 << point
                if found > 0:
                    occupied |= 1 << point
                    if point >= 10:
                        high += found << (4 * (point - 10))
                    else:
                        low += found << (4 * (point - 1) + NUM_POINTS)
                elif found == -1:
                    low |= 1 << (point - 1)
            large, small = state[HIGH_DIE], state[LOW_DIE]
            placement = (high, low, bar, occupied)
            if large == small:
                end = double(highs, lows, start, placement, landable, large, stack)
            else:
                end = two_dice(highs, lows, start, placement, landable, large, small)
            if end == start:
                highs[end], lows[end] = high, low
                end += 1
        offsets[b + 1] = end
    after = np.empty((end, STATE_SIZE), np.int16)
    for b in range(B):
        for i in range(offsets[b], offsets[b + 1]):
            unpack(states[b], highs[i], lows[i], checkers, after[i])
    return offsets, after


@kernel
def unpack(state: NDArray[np.int16], high: int, low: int, checkers: int, after: NDArray[np.int16]) -> None:
    """Fill after [S] with the state after a turn from state [S], given the turn's placement."""
    mover = state[TURN]
    sign = 1 - 2 * mover
    standing = hits = 0
    for point in range(1, NUM_POINTS + 1):
        word = point - 1 if mover == 0 else NUM_POINTS - point
        own = count_at(high, low, point)
        standing += own
        theirs = state[word] if sign * state[word] < 0 else 0
        if sign * theirs == -1 and (low >> (point - 1)) & 1 == 0:
            theirs = 0
            hits += 1
        after[word] = sign * own if own else theirs
    off = state[OFF + mover]
    after[BAR + 1 - mover] = state[BAR + 1 - mover] + hits
    after[OFF + 1 - mover] = state[OFF + 1 - mover]
    if state[BAR + mover]:
        after[BAR + mover] = checkers - off - standing
        after[OFF + mover] = off
    else:
        after[BAR + mover] = 0
        after[OFF + mover] = checkers - standing
    after[TURN] = 1 - mover
    after[HIGH_DIE] = after[LOW_DIE] = 0
    after[PLY] = state[PLY] + 1


@kernel
def ended(states: States, checkers: int, max_plies: int) -> BoolArray:
    """-> [B] bool: whether a player has borne off all checkers or max_plies have been played."""
    found = np.empty(len(states), np.bool_)
    for b in range(len(states)):
        state = states[b]
        found[b] = (state[OFF] == checkers) | (state[OFF + 1] == checkers) | (state[PLY] >= max_plies)
    return found


@kernel
def points_won(states: States, checkers: int) -> NDArray[np.int8]:
    """-> [B] int8: 1 single, 2 gammon, 3 backgammon; negative if the second player won; 0 if nobody has won.

    Plain twin: BackgammonReference.points_won.
    """
    won = np.zeros(len(states), np.int8)
    for b in range(len(states)):
        state = states[b]
        for winner in range(2):
            if state[OFF + winner] < checkers:
                continue
            loser, sign = 1 - winner, 1 - 2 * winner
            points = 1
            if state[OFF + loser] == 0:
                points = 2
                if state[BAR + loser]:
                    points = 3
                for point in range(1, HOME + 1):
                    if sign * state[point - 1 if winner == 0 else NUM_POINTS - point] < 0:
                        points = 3
            won[b] = sign * points
    return won


@kernel
def features(states: States, viewers: NDArray[np.int8]) -> FloatArray:
    """-> [B, 198] float32: Tesauro's inputs, seen by the player viewers [B] int8.

    98 numbers of the viewer, then 98 of the opponent, each in their own numbering: for every point from 1 to 24 with n
    checkers n >= 1, n >= 2, n >= 3 and max(n - 3, 0) / 2; checkers on the bar / 2; checkers off / 15. Then two flags:
    viewer's turn, opponent's turn.
    Source: Tesauro 1992; Sutton and Barto 2018, section 16.1. Plain twin: BackgammonReference.features.
    """
    found = np.zeros((len(states), NUM_FEATURES), np.float32)
    for b in range(len(states)):
        state, row = states[b], found[b]
        for word in range(NUM_POINTS):
            count = state[word]
            if count == 0:
                continue
            player = 0 if count > 0 else 1
            at = 4 * (word if player == 0 else NUM_POINTS - 1 - word)
            if player != viewers[b]:
                at += HALF_FEATURES
            n = abs(count)
            row[at] = 1
            if n >= 2:
                row[at + 1] = 1
            if n >= 3:
                row[at + 2] = 1
                row[at + 3] = np.float32(n - 3) / np.float32(2)
        for side in range(2):
            player = viewers[b] if side == 0 else 1 - viewers[b]
            at = side * HALF_FEATURES + 4 * NUM_POINTS
            row[at] = np.float32(state[BAR + player]) / np.float32(2)
            row[at + 1] = np.float32(state[OFF + player]) / np.float32(15)
            row[2 * HALF_FEATURES + side] = state[TURN] == player
    return found


@kernel
def keys(states: States, weights: KeyArray) -> KeyArray:
    """-> [B] uint64: a hash of all words of a state except PLY; weights [PLY] uint64."""
    found = np.zeros(len(states), np.uint64)
    for b in range(len(states)):
        for word in range(PLY):
            found[b] += np.uint64(states[b, word]) * weights[word]
    return found
