"""Shogi over rows of flat int16 states: the kernels behind ``Shogi``. Plain twin: ``tests/reference/shogi.py``.

Axes: B batch, P points (row-major, row 0 at the top), S state words, A = 27 · P actions (see ``moves``), T positions.

One state row. Its first W words hold P + 14 bytes, low byte first: the points, each EMPTY or a piece (a kind of
``board``, plus THEIRS for the second player); then the number of pieces of the kinds PAWN to ROOK in the first player's
hand, then in the second's. The other words are
    W + TO_MOVE      0 first player, 1 second
    W + PLY          moves made
    W + END          why the game is over, one of ENDS; 0 if it isn't
    W + WINNER       1 the first player, 2 the second, 0 nobody
    W + REPEATS      how often the position occurred before
    W + LAST         the destination of the last move, -1 at first
    W + KINGS .. +1  the points of the kings
    W + KEY .. +3    64-bit hash of pieces, hands and player to move, lowest 16 bits first. Its lowest bit says whether
                     that player is in check, so that a history of keys shows a perpetual check
"""

from __future__ import annotations

import numpy as np

from pipeline.compiled_kernels import kernel
from pipeline.families.shogi.board import (
    BISHOP,
    EMPTY,
    FIRST_ROW,
    HAND_KINDS,
    KING,
    OFF_BOARD,
    PAWN,
    PROMOTED,
    PROMOTES,
    ROOK,
    THEIRS,
    find_source,
    inlined,
    is_attacked,
    part,
    turn_view,
)
from pipeline.families.shogi.features import show
from pipeline.families.shogi.moves import DROPS, NUM_KINDS, PROMOTING, generate
from pipeline.games.keys import load_key, store_key
from pipeline.games.row_kernels import OCCUPIED, unplayable

TO_MOVE, PLY, END, WINNER, REPEATS, LAST, KINGS, KEY = 0, 1, 2, 3, 4, 5, 6, 8
EXTRA_WORDS = 12
NO_MOVE, REPETITION, PERPETUAL_CHECK, DECLARATION, BOTH_ENTERED, MOVE_LIMIT = 1, 2, 3, 4, 5, 6  # ENDS
# Status, besides those of row_kernels.py
NO_PIECE, NOT_IN_HAND, TWO_PAWNS, DEAD_END, NO_PROMOTION, LEAVES_CHECK, PAWN_MATE = 4, 5, 6, 7, 8, 9, 10
OCCURRENCES = 4  # of a position, which end the game
ENTERED_PIECES = 10  # needed in the zone for a declaration, besides the king
NO_RULE, RULE_27, RULE_24 = 0, 27, 24  # of declarations


def words_of(num_points: int) -> int:
    """W, see the module docstring."""
    return (num_points + 2 * HAND_KINDS + 1) // 2


@inlined
def see(board, mover, num_points, view, hands):
    """Fill view [P + 1] and hands [2, 8] of the player to move from a state's bytes."""
    for point in range(num_points):
        found = board[num_points - 1 - point] if mover else board[point]
        view[point] = found ^ THEIRS if mover and found else found
    view[num_points] = OFF_BOARD
    for player in range(2):
        at = num_points + HAND_KINDS * (mover ^ player) - 1
        for kind in range(PAWN, HAND_KINDS + 1):
            hands[player, kind] = board[at + kind]


@part
def refusal(view, hand, geometry, action):
    """(status, source, piece) of an action in range: why it can't be played, checks and mate aside; the point where its
    piece comes from, P for the hand; and the piece at the destination.
    """
    num_points = view.size - 1
    kind, to = action // num_points, action % num_points
    if view[to] != EMPTY and (kind >= DROPS or view[to] < THEIRS):
        return OCCUPIED, num_points, 0
    if kind >= DROPS:
        piece = kind - DROPS + PAWN
        if hand[piece] == 0:
            return NOT_IN_HAND, num_points, piece
        if geometry.rows[to] < FIRST_ROW[piece]:
            return DEAD_END, num_points, piece
        if piece == PAWN:
            for point in range(num_points):
                if view[point] == PAWN and geometry.columns[point] == geometry.columns[to]:
                    return TWO_PAWNS, num_points, piece
        return 0, num_points, piece
    source = find_source(view, geometry.beside, kind % PROMOTING, to)
    if source == num_points:
        return NO_PIECE, num_points, 0
    piece = view[source]
    if kind >= PROMOTING:
        inside = geometry.rows[source] < geometry.zone or geometry.rows[to] < geometry.zone
        if not (PROMOTES[piece] and inside):
            return NO_PROMOTION, source, piece
        return 0, source, piece + PROMOTED
    if geometry.rows[to] < FIRST_ROW[piece]:
        return DEAD_END, source, piece
    return 0, source, piece


@inlined
def points_entered(view, hand, geometry):
    """(pieces in the zone, points) of the mover for a declaration, without the king.

    Pieces in the zone and in hand count points: 5 for rooks and bishops, 1 for others.
    """
    pieces, points = 0, 0
    for point in range(view.size - 1):
        if geometry.rows[point] >= geometry.zone:
            break
        piece = view[point]
        if 0 < piece < THEIRS and piece != KING:
            pieces += 1
            kind = piece & 7
            points += 5 if kind in (BISHOP, ROOK) else 1
    for kind in range(PAWN, HAND_KINDS + 1):
        points += hand[kind] * (5 if kind >= BISHOP else 1)
    return pieces, points


@part
def declares(view, hands, geometry, king, mover, rule, turned):
    """(END, whether the mover wins) by a declaration of the mover, who isn't in check; END is 0 if there is none.

    king: the point of the mover's king. turned [P + 1] int8 is scratch.
    """
    if rule == NO_RULE or geometry.rows[king] >= geometry.zone:
        return 0, False
    pieces, points = points_entered(view, hands[0], geometry)
    if pieces < ENTERED_PIECES:
        return 0, False
    if rule == RULE_27:
        return (DECLARATION, True) if points >= (27 if mover else 28) else (0, False)
    if points >= 31:
        return DECLARATION, True
    if points < 24:
        return 0, False
    turn_view(view, turned)
    for point in range(turned.size - 1):
        if turned[point] == KING and geometry.rows[point] < geometry.zone:
            pieces, points = points_entered(turned, hands[1], geometry)
            if pieces >= ENTERED_PIECES and points >= 24:
                return BOTH_ENTERED, False
    return 0, False


@part
def occurred(key, past, num_past):
    """(occurrences, first index or -1) of a position in past [T] uint64, of which the first num_past count."""
    count = 0
    for i in range(num_past):  # without an early exit, so that the loop is vectorised
        count += past[i] == key
    if count == 0:
        return 0, -1
    first = 0
    while past[first] != key:
        first += 1
    return count, first


@part
def always_in_check(past, begin, end):
    """Whether the player to move was in check at begin, begin + 2, … before end."""
    for i in range(begin, end, 2):  # noqa: SIM110  all() over a generator doesn't compile
        if not past[i] & np.uint64(1):
            return False
    return True


@part
def end_by_repetition(key, past, num_past, mover, loses):
    """(END, WINNER, earlier occurrences) of the position on the board.

    mover: the player to move. loses: 1 if the first player loses by repetition (minishogi), 0 if it is a draw.
    """
    count, first = occurred(key, past, num_past)
    if count + 1 < OCCURRENCES:
        return 0, 0, count
    # The same player was to move at past[first]; a check there was given by an earlier move, so it doesn't count.
    checked = always_in_check(past, first + 2, num_past) and (key & np.uint64(1)) != 0
    checking = always_in_check(past, first + 1, num_past)
    if checked != checking:
        return PERPETUAL_CHECK, (1 + mover if checked else 2 - mover), count
    return REPETITION, (2 if loses else 0), count


@part
def end_after_turn(end, winner, moves, checks, view, hands, geometry, king, mover, plies, max_plies, rule, turned):
    """(END, WINNER) of a position with this many moves and checks; end, winner: by repetition.

    king: the point of the mover's king. turned [P + 1] int8 is scratch.
    """
    if moves == 0:
        return NO_MOVE, 2 - mover
    if end == 0:
        wins = False
        if checks == 0:
            end, wins = declares(view, hands, geometry, king, mover, rule, turned)
        if wins:
            winner = 1 + mover
        if end == 0 and plies >= max_plies:
            end = MOVE_LIMIT
    return end, winner


@kernel
def play(states, actions, past, num_past, max_plies, rules, geometry, zobrist):
    """-> states [B, S] after actions [B] int32, and status [B] uint8: LEGAL or the reason (then the row is garbage).

    past [B, T] uint64, num_past [B] int32: keys of the positions that occurred. rules: (NO_RULE, RULE_27 or RULE_24;
    whether the first player loses by repetition). zobrist: (points [32, P], hands [2, 8, 19], turn) uint64.
    Plain twin: ShogiReference.play.
    """
    num_rows, state_size = states.shape
    words, num_points = state_size - EXTRA_WORDS, geometry.rows.size - 1
    pieces_keys, hands_keys, turn_key = zobrist
    after = states.copy()
    status = np.zeros(num_rows, np.uint8)
    all_bytes = after.view(np.int8)
    view, turned = np.empty(num_points + 1, np.int8), np.empty(num_points + 1, np.int8)
    hands, marks = np.zeros((2, HAND_KINDS + 1), np.int8), np.empty((2, num_points + 1), np.int8)
    nothing = np.zeros(0, np.bool_)
    for row in range(num_rows):
        state, board, action = after[row], all_bytes[row], actions[row]
        status[row] = unplayable(action, NUM_KINDS * num_points, state[words + END])
        if status[row]:
            continue
        mover = np.int64(state[words + TO_MOVE])
        see(board, mover, num_points, view, hands)
        why, source, piece = refusal(view, hands[0], geometry, action)
        if why:
            status[row] = why
            continue
        # First move in the view, to see whether the king is safe.
        to = action % num_points
        taken = view[to]
        king, other = state[words + KINGS + mover], state[words + KINGS + 1 - mover]
        if mover:
            king, other = num_points - 1 - king, num_points - 1 - other
        view[to] = piece
        if source < num_points:
            view[source] = EMPTY
        if piece == KING:
            king = to
        if is_attacked(view, geometry.beside, king):
            status[row] = LEAVES_CHECK
            continue
        # Then move in the state.
        key = load_key(state, words + KEY) & ~np.uint64(1)
        at = num_points - 1 - to if mover else to
        own = num_points + HAND_KINDS * mover - 1
        if source < num_points:
            left = num_points - 1 - source if mover else source
            key ^= pieces_keys[board[left], left]
            board[left] = EMPTY
        else:
            key ^= hands_keys[mover, piece, board[own + piece]]
            board[own + piece] -= 1
            hands[0, piece] -= 1
            key ^= hands_keys[mover, piece, board[own + piece]]
        if taken:
            key ^= pieces_keys[board[at], at]
            gained = taken & 7  # unpromoted; a king is never taken
            key ^= hands_keys[mover, gained, board[own + gained]]
            board[own + gained] += 1
            hands[0, gained] += 1
            key ^= hands_keys[mover, gained, board[own + gained]]
        board[at] = piece + THEIRS * mover
        key ^= pieces_keys[board[at], at] ^ turn_key
        if piece == KING:
            state[words + KINGS + mover] = at
        # Find whether the opponent can move.
        turn_view(view, turned)
        for kind in range(PAWN, HAND_KINDS + 1):
            hands[0, kind], hands[1, kind] = hands[1, kind], hands[0, kind]
        theirs, mine = num_points - 1 - other, num_points - 1 - king
        moves, checks = generate(turned, hands[0], geometry, theirs, mine, True, marks, view, nothing)
        if checks:
            key |= np.uint64(1)
        if moves == 0 and checks and source == num_points and piece == PAWN:
            status[row] = PAWN_MATE
            continue
        store_key(state, words + KEY, key)
        state[words + TO_MOVE] = 1 - mover
        state[words + PLY] += 1
        state[words + LAST] = at
        end, winner, count = end_by_repetition(key, past[row], num_past[row], 1 - mover, rules[1])
        state[words + REPEATS] = count
        state[words + END], state[words + WINNER] = end_after_turn(
            end, winner, moves, checks, turned, hands, geometry, theirs, 1 - mover, state[words + PLY], max_plies,
            rules[0], view,
        )  # fmt: skip
    return after, status


@kernel
def legal_and_observe(states, deciding, geometry, layout, allowed, planes):
    """Fill allowed [B, A] bool if `deciding`, and planes [B, C, P] uint8, unless planes has 0 rows.

    Nothing is allowed once the game is over.
    Plain twin: ShogiReference.legal.
    """
    num_rows, state_size = states.shape
    words, num_points = state_size - EXTRA_WORDS, geometry.rows.size - 1
    all_bytes = states.view(np.int8)
    view, turned = np.empty(num_points + 1, np.int8), np.empty(num_points + 1, np.int8)
    hands, marks = np.zeros((2, HAND_KINDS + 1), np.int8), np.empty((2, num_points + 1), np.int8)
    attacks = np.empty((2, num_points + 1), np.uint8)
    for row in range(num_rows):
        state = states[row]
        mover = np.int64(state[words + TO_MOVE])
        see(all_bytes[row], mover, num_points, view, hands)
        if deciding:
            allowed[row, :] = False
            if state[words + END] == 0:
                king, other = state[words + KINGS + mover], state[words + KINGS + 1 - mover]
                if mover:
                    king, other = num_points - 1 - king, num_points - 1 - other
                generate(view, hands[0], geometry, king, other, False, marks, turned, allowed[row])
        if planes.shape[0] > 0:
            last = state[words + LAST]
            if mover and last >= 0:
                last = num_points - 1 - last
            in_check = state[words + KEY] & 1
            repeats = state[words + REPEATS]
            show(view, hands, geometry.beside, layout, attacks, last, in_check, repeats, mover, planes[row])


@kernel
def set_up(states, max_plies, rules, geometry, zobrist):
    """Derive the other words of states [B, S] from pieces, hands, TO_MOVE and PLY, in place.

    -> [B] int8: 1 if the player who isn't to move is in check, else 0. Both kings must be on the board.
    """
    num_rows, state_size = states.shape
    words, num_points = state_size - EXTRA_WORDS, geometry.rows.size - 1
    pieces_keys, hands_keys, turn_key = zobrist
    all_bytes = states.view(np.int8)
    view, turned = np.empty(num_points + 1, np.int8), np.empty(num_points + 1, np.int8)
    hands, marks = np.zeros((2, HAND_KINDS + 1), np.int8), np.empty((2, num_points + 1), np.int8)
    nothing = np.zeros(0, np.bool_)
    wrong = np.zeros(num_rows, np.int8)
    for row in range(num_rows):
        state, board = states[row], all_bytes[row]
        mover = np.int64(state[words + TO_MOVE])
        key = turn_key if mover else np.uint64(0)
        for point in range(num_points):
            if board[point]:
                key ^= pieces_keys[board[point], point]
                if board[point] & 15 == KING:
                    state[words + KINGS + (board[point] >> 4)] = point
        for player in range(2):
            for kind in range(PAWN, HAND_KINDS + 1):
                key ^= hands_keys[player, kind, board[num_points + HAND_KINDS * player - 1 + kind]]
        see(board, mover, num_points, view, hands)
        king, other = state[words + KINGS + mover], state[words + KINGS + 1 - mover]
        if mover:
            king, other = num_points - 1 - king, num_points - 1 - other
        turn_view(view, turned)
        wrong[row] = is_attacked(turned, geometry.beside, num_points - 1 - other)
        moves, checks = generate(view, hands[0], geometry, king, other, True, marks, turned, nothing)
        if checks:
            key |= np.uint64(1)
        state[words + END], state[words + WINNER] = end_after_turn(
            0, 0, moves, checks, view, hands, geometry, king, mover, state[words + PLY], max_plies, rules[0], turned
        )
        state[words + REPEATS], state[words + LAST] = 0, -1
        store_key(state, words + KEY, key)
    return wrong
