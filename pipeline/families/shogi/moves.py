"""Legal moves of shogi on a view (see ``board``). Plain twin: ``tests/reference/shogi.py``.

An action is KIND · P + the destination in the mover's view. Kinds 0 to 9 are the directions of ``board``: direction and
destination determine the piece that moves, the first one on that line. Kinds 10 to 19 are the same with promotion, 20
to 26 drops of PAWN to ROOK. Both boards have the same kinds, so that a network with a policy plane for each doesn't
depend on the board's size. Source: Silver et al. 2017, arXiv 1712.01815, with directions instead of distances, as in
dlshogi.

Scratch of ``generate``: marks [2, P + 1] int8. PINS holds the line (see LINES) on which a piece must stay to protect
its king; BLOCKS holds the points to which a piece must move if the king is in check.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

from pipeline.families.shogi.board import (
    DOWN,
    EMPTY,
    FIRST_ROW,
    HAND_KINDS,
    KING,
    LINES,
    NOT_PINNED,
    PAWN,
    PROMOTES,
    SLIDES,
    STEPS,
    STRAIGHT,
    THEIRS,
    find_source,
    inlined,
    is_attacked,
    part,
    turn_view,
)

PROMOTING, DROPS = 10, 20  # kinds of actions
NUM_KINDS = DROPS + HAND_KINDS
PINS, BLOCKS = 0, 1


@inlined
def find_checks(view, beside, king, marks):
    """Fill marks for the king's point -> how many pieces give check. If there are two, BLOCKS means nothing."""
    marks[PINS, :] = NOT_PINNED
    marks[BLOCKS, :] = 0
    checks = 0
    for direction in range(10):
        at = beside[king, direction]
        found = view[at]
        steps = True
        if direction < STRAIGHT:
            while found == EMPTY:
                steps = False
                at = beside[at, direction]
                found = view[at]
        if found & THEIRS:
            if (SLIDES[found & 15] >> direction) & 1 or (steps and (STEPS[found & 15] >> direction) & 1):
                checks += 1
                if direction < STRAIGHT:
                    between = beside[king, direction]
                    while between != at:
                        marks[BLOCKS, between] = 1
                        between = beside[between, direction]
                marks[BLOCKS, at] = 1
        elif 0 < found < THEIRS and direction < STRAIGHT:
            pinned = at
            at = beside[at, direction]
            found = view[at]
            while found == EMPTY:
                at = beside[at, direction]
                found = view[at]
            if found & THEIRS and (SLIDES[found & 15] >> direction) & 1:
                marks[PINS, pinned] = LINES[direction]
    return checks


@inlined
def king_moves(view, geometry, king, first_only, allowed):
    """Allow the king's moves -> their number. With first_only it stops at the first one."""
    count, num_points = 0, view.size - 1
    view[king] = EMPTY  # attacks along a line continue behind the king
    for direction in range(STRAIGHT):
        to = geometry.beside[king, direction]
        if (view[to] == EMPTY or view[to] & THEIRS) and not is_attacked(view, geometry.beside, to):
            count += 1
            if first_only:
                break
            allowed[direction * num_points + to] = True
    view[king] = KING
    return count


@inlined
def is_mate_by_pawn(view, geometry, point, other, turned):
    """Whether a pawn dropped in front of the other king leaves the opponent without a move.

    The opponent can only capture the pawn or move the king. other: the other king's point in the mover's view.
    turned [P + 1] int8 is scratch.
    """
    num_points = view.size - 1
    view[point] = PAWN
    turn_view(view, turned)
    view[point] = EMPTY
    king, pawn = num_points - 1 - other, num_points - 1 - point
    turned[king] = EMPTY
    escapes = False
    for direction in range(STRAIGHT):
        to = geometry.beside[king, direction]
        if (turned[to] == EMPTY or turned[to] & THEIRS) and not is_attacked(turned, geometry.beside, to):
            escapes = True
            break
    turned[king] = KING
    if escapes:
        return False
    for direction in range(10):
        source = find_source(turned, geometry.beside, direction, pawn)
        if source < num_points and source != king:
            piece, taken = turned[source], turned[pawn]
            turned[source], turned[pawn] = EMPTY, piece
            safe = not is_attacked(turned, geometry.beside, king)
            turned[source], turned[pawn] = piece, taken
            if safe:
                return False
    return True


@part
def generate(view, hand, geometry, king, other, first_only, marks, turned, allowed):
    """Allow every legal move in allowed [A] bool, all False at first -> the numbers of moves and of checks.

    king, other: the points of the mover's king and of the opponent's. With first_only it stops at the first move and
    leaves allowed alone. marks and turned are scratch. Ignores whether the game is over.
    Plain twin: ShogiReference.legal.
    """
    num_points = view.size - 1
    beside, rows = geometry.beside, geometry.rows
    checks = find_checks(view, beside, king, marks)
    if checks > 1:
        return king_moves(view, geometry, king, first_only, allowed), checks
    count, pawns = 0, 0  # pawns: a bit for each column with a pawn of the mover
    for point in range(num_points):
        piece = view[point]
        if piece == EMPTY or piece >= THEIRS:
            continue
        if piece == PAWN:
            pawns |= 1 << geometry.columns[point]
        if piece == KING:
            continue
        pin = marks[PINS, point]
        directions, slides = STEPS[piece] | SLIDES[piece], SLIDES[piece]
        first_row, leaves_zone = FIRST_ROW[piece], rows[point] < geometry.zone
        direction = -1
        while directions:
            direction += 1
            moves = directions & 1
            directions >>= 1
            if not moves or (pin != NOT_PINNED and pin != LINES[direction]):
                continue
            to = point
            while True:
                to = beside[to, direction]
                found = view[to]
                if found != EMPTY and not found & THEIRS:
                    break
                if checks == 0 or marks[BLOCKS, to]:
                    if first_only:
                        return 1, checks
                    if rows[to] >= first_row:
                        allowed[direction * num_points + to] = True
                        count += 1
                    if PROMOTES[piece] and (leaves_zone or rows[to] < geometry.zone):
                        allowed[(PROMOTING + direction) * num_points + to] = True
                        count += 1
                if found != EMPTY or not (slides >> direction) & 1:
                    break
    front = beside[other, DOWN]  # a pawn there attacks the other king
    for kind in range(PAWN, HAND_KINDS + 1):
        if hand[kind] == 0:
            continue
        action = (DROPS + kind - 1) * num_points
        for point in range(num_points):
            if view[point] != EMPTY or rows[point] < FIRST_ROW[kind] or (checks and not marks[BLOCKS, point]):
                continue
            if kind == PAWN:
                if (pawns >> geometry.columns[point]) & 1:
                    continue
                if point == front and is_mate_by_pawn(view, geometry, point, other, turned):
                    continue
            if first_only:
                return 1, checks
            allowed[action + point] = True
            count += 1
    return count + king_moves(view, geometry, king, first_only, allowed), checks
