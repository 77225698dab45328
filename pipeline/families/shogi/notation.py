"""Notation of shogi: SFEN for positions, USI for moves, and names of actions that need no position.

An SFEN has the rows from above, then the turn (b is the first player), the hands and the number of the next move. In
USI a move is two squares, 7g7f, with + for a promotion, or P*5e for a drop; a square is its column counted from the
right and its row from above, for both players. Source: http://shogidokoro.starfree.jp/usi.html

An action's name says how a piece moves in the mover's view, and where to: U5e up, UL5e up and left, NR5e a knight to
the right, P*5e a drop. For the second player it refers to the turned board, so people see USI instead.
"""

from __future__ import annotations

import re

import numpy as np

from pipeline.errors import IllegalMove
from pipeline.families.shogi import kernels
from pipeline.families.shogi.board import (
    DIRECTIONS,
    EMPTY,
    FIRST_ROW,
    GOLD,
    HAND_KINDS,
    KING,
    LETTERS,
    PAWN,
    PROMOTED,
    PROMOTES,
    STRAIGHT,
    THEIRS,
)
from pipeline.families.shogi.moves import DROPS, NUM_KINDS, PROMOTING
from pipeline.games.contract import States

DIRECTION_NAMES = ("U", "UL", "UR", "L", "R", "D", "DL", "DR", "NL", "NR")
ROWS = "abcdefghi"
HAND_ORDER = (7, 6, 5, 4, 3, 2, 1)  # kinds as SFEN lists them
TOTALS = {9: (0, 18, 4, 4, 4, 4, 2, 2), 5: (0, 2, 0, 0, 2, 2, 2, 2)}  # pieces by board and kind, besides the kings
START = {
    9: "lnsgkgsnl/1r5b1/ppppppppp/9/9/9/PPPPPPPPP/1B5R1/LNSGKGSNL b - 1",
    5: "rbsgk/4p/5/P4/KGSBR b - 1",
}
# What engines and managers write behind the moves of a line of USI when the game is over: any word, and known ones.
END = re.compile(r"\(?[a-z][a-z_-]{2,}\)?", re.ASCII | re.IGNORECASE)
KNOWN_END = re.compile(
    "resign|win|lose|draw|time_?(out|up)|interrupt|illegal(_move)?|abort|max_moves|jishogi|sennichite|rep_[a-z]+"
)
_USI = re.compile(r"(?:([PLNSGBR])\*|([1-9][A-I]))([1-9][A-I])(\+?)", re.ASCII)
_ACTION = re.compile(r"(?:([PLNSGBR])\*|([UDLRN]{1,2}))([1-9][A-I])(\+?)", re.ASCII)
_HAND = re.compile(r"([1-9]\d?)?([PLNSGBR])", re.ASCII | re.IGNORECASE)


def square_name(point: int, size: int) -> str:
    row, column = divmod(point, size)
    return f"{size - column}{ROWS[row]}"


def named_square(text: str, size: int) -> int:
    """The point of a square such as 5E or 5e; -1 if it isn't on the board."""
    column, row = size - int(text[0]), ROWS.index(text[1].lower())
    return row * size + column if column >= 0 and row < size else -1


def action_name(action: int, size: int) -> str:
    """See the module docstring."""
    kind, point = divmod(action, size * size)
    square = square_name(point, size)
    if kind >= DROPS:
        return f"{LETTERS[kind - DROPS + PAWN]}*{square}"
    return DIRECTION_NAMES[kind % PROMOTING] + square + ("+" if kind >= PROMOTING else "")


def parse_action(text: str, size: int) -> int | None:
    """The inverse of action_name, case-insensitive; None if the text is no name."""
    found = _ACTION.fullmatch(text.strip().upper())
    point = named_square(found[3], size) if found else -1
    if found is None or point < 0:
        return None
    if found[1]:
        return None if found[4] else (DROPS + LETTERS.index(found[1]) - PAWN) * size * size + point
    if found[2] not in DIRECTION_NAMES:
        return None
    kind = DIRECTION_NAMES.index(found[2]) + (PROMOTING if found[4] else 0)
    return kind * size * size + point


def source_of(state: States, action: int, size: int) -> int:
    """The point, in the mover's view, of the piece that an action moves; -1 for a drop or without such a piece."""
    kind, to = divmod(action, size * size)
    if kind >= DROPS:
        return -1
    board, mover = pieces(state, size), _mover(state, size)
    down, across = DIRECTIONS[kind % PROMOTING]
    row, column = divmod(to, size)
    while True:
        row, column = row - down, column - across
        if not (0 <= row < size and 0 <= column < size):
            return -1
        point = row * size + column
        piece = board[size * size - 1 - point if mover else point]
        if piece != EMPTY:
            return point if (piece >= THEIRS) == bool(mover) else -1
        if kind % PROMOTING >= STRAIGHT:
            return -1


def _mover(state: States, size: int) -> int:
    return int(state[kernels.words_of(size * size) + kernels.TO_MOVE])


def _turned(state: States, point: int, size: int) -> int:
    """A point of the board in the mover's view, and the reverse."""
    return size * size - 1 - point if _mover(state, size) else point


def usi(state: States, action: int, size: int) -> str:
    """An action in USI, in the position before it. Raises IndexError if there is no piece to move."""
    if not 0 <= action < NUM_KINDS * size * size:
        raise IndexError(action)
    kind, to = divmod(action, size * size)
    target = square_name(_turned(state, to, size), size)
    if kind >= DROPS:
        return f"{LETTERS[kind - DROPS + PAWN]}*{target}"
    source = source_of(state, action, size)
    if source < 0:
        raise IndexError(action)
    return square_name(_turned(state, source, size), size) + target + ("+" if kind >= PROMOTING else "")


def is_usi(text: str) -> bool:
    """Whether a text looks like a move in USI."""
    return bool(_USI.fullmatch(text.upper()))


def parse_usi(state: States, text: str, size: int) -> int | None:
    """The action of a USI move in a position; None if the text is no USI, or no piece moves so."""
    found = _USI.fullmatch(text.strip().upper())
    to = named_square(found[3], size) if found else -1
    if found is None or to < 0:
        return None
    to = _turned(state, to, size)
    if found[1]:
        return None if found[4] else (DROPS + LETTERS.index(found[1]) - PAWN) * size * size + to
    source = named_square(found[2], size)
    if source < 0:
        return None
    return action_between(state, _turned(state, source, size), to, bool(found[4]), size)


def action_between(state: States, source: int, to: int, promotes: bool, size: int) -> int | None:
    """The action of the mover's piece between two points of the mover's view; None if it doesn't move so."""
    down, across = to // size - source // size, to % size - source % size
    if (down, across) in DIRECTIONS[STRAIGHT:]:
        direction = DIRECTIONS.index((down, across))
    elif (down or across) and (abs(down) == abs(across) or not down or not across):
        direction = DIRECTIONS.index(((down > 0) - (down < 0), (across > 0) - (across < 0)))
    else:
        return None
    action = (direction + PROMOTING * promotes) * size * size + to
    return action if source_of(state, action, size) == source else None


def pieces(state: States, size: int) -> list[int]:
    """[P] the pieces of one state [S]: 0, or a kind, plus THEIRS for the second player's."""
    return state.view(np.int8)[: size * size].tolist()


def hands(state: States, size: int) -> list[list[int]]:
    """[2][8] the number of pieces of each kind in each player's hand, in one state."""
    found = state.view(np.int8)[size * size : size * size + 2 * HAND_KINDS].tolist()
    return [[0, *found[:HAND_KINDS]], [0, *found[HAND_KINDS:]]]


def piece_letter(piece: int) -> str:
    """A piece as SFEN writes it: +R, or p for the second player's."""
    kind = piece & 15
    letter = ("+" if kind > KING else "") + LETTERS[kind if kind <= KING else kind - PROMOTED]
    return letter.lower() if piece & THEIRS else letter


def sfen(state: States, size: int) -> str:
    """The SFEN of one state [S]."""
    words = state[kernels.words_of(size * size) :]
    turn, number = int(words[kernels.TO_MOVE]), int(words[kernels.PLY]) + 1
    return board_sfen(pieces(state, size), hands(state, size), turn, number, size)


def board_sfen(board: list[int], held: list[list[int]], turn: int, number: int, size: int) -> str:
    """The SFEN of a board and hands as from pieces() and hands(). turn: who moves next; number: of that move."""
    rows = []
    for row in range(size):
        text = "".join(piece_letter(piece) if piece else " " for piece in board[row * size : (row + 1) * size])
        rows.append(re.sub(" +", lambda gap: str(len(gap[0])), text))
    counts = [(held[player][kind], piece_letter(kind + THEIRS * player)) for player in range(2) for kind in HAND_ORDER]
    hand = "".join((str(count) if count > 1 else "") + letter for count, letter in counts if count)
    return f"{'/'.join(rows)} {'bw'[turn]} {hand or '-'} {number}"


def parse_sfen(text: str, size: int) -> States:
    """[1, S] with the pieces, hands, turn and number of an SFEN; kernels.set_up derives the rest.

    Raises IllegalMove that carries the text and says what is wrong with it.
    """
    fields = text.split()

    def wrong(found: str) -> IllegalMove:
        return IllegalMove(f"SFEN {text[:200]!r}: {found}; wanted e.g. {START[size]!r}")

    if len(fields) not in (3, 4):
        raise wrong(f"{len(fields)} fields")
    words = kernels.words_of(size * size)
    state = np.zeros((1, words + kernels.EXTRA_WORDS), np.int16)
    board = state.view(np.int8)[0]
    rows = fields[0].split("/")
    if len(rows) != size:
        raise wrong(f"{len(rows)} rows on a board of {size}")
    for row, line in enumerate(rows):
        column = 0
        for promoted, letter, gap in re.findall(r"(\+?)([a-zA-Z])|(.)", line):
            if letter and column < size:
                kind = LETTERS.find(letter.upper())
                if kind < PAWN or (promoted and not PROMOTES[kind]):
                    raise wrong(f"no piece is written {promoted + letter}")
                piece = kind + (PROMOTED if promoted else 0)
                from_own_side = row if letter.isupper() else size - 1 - row
                if from_own_side < FIRST_ROW[piece]:
                    raise wrong(f"{letter} in row {ROWS[row]} can never move again")
                board[row * size + column] = piece + (THEIRS if letter.islower() else 0)
                column += 1
            elif gap.isdecimal() and gap.isascii() and gap != "0":
                column += int(gap)
            else:
                column = size + 1
        if column != size:
            raise wrong(f"row {row + 1} is {line!r}, not of {size} squares")
    if fields[1] not in ("b", "w"):
        raise wrong(f"{fields[1]!r} to move")
    if fields[2] != "-":
        if _HAND.sub("", fields[2]):
            raise wrong(f"hands {fields[2]!r}")
        for count, letter in _HAND.findall(fields[2]):
            at = size * size - PAWN + LETTERS.index(letter.upper()) + HAND_KINDS * letter.islower()
            board[at] = min(99, int(board[at]) + int(count or 1))
    _check_pieces(board, size, wrong)
    number = fields[3] if len(fields) == 4 else "1"
    if not (number.isascii() and number.isdecimal() and len(number) <= 5 and int(number) <= 30_000):
        raise wrong(f"{number!r} as the number of the next move")
    state[0, words + kernels.TO_MOVE] = fields[1] == "w"
    state[0, words + kernels.PLY] = max(0, int(number) - 1)
    return state


def _check_pieces(board: States, size: int, wrong) -> None:  # type: ignore[no-untyped-def]
    """Raise wrong(found) for two pawns on a column, too many pieces of a kind, or a side without exactly one king."""
    points = board[: size * size].reshape(size, size)
    for player, whose in ((0, "first"), (1, "second")):
        kings = int((points == KING + THEIRS * player).sum())
        if kings != 1:
            single = " (problems with a single king can't be played)" if not kings else ""
            raise wrong(f"{kings} kings of the {whose} player{single}")
        pawns = (points == PAWN + THEIRS * player).sum(axis=0)
        if pawns.max() > 1:
            raise wrong(f"the {whose} player has two pawns on column {size - int(pawns.argmax())}")
    held = board[size * size : size * size + 2 * HAND_KINDS].reshape(2, HAND_KINDS)
    for kind in range(PAWN, HAND_KINDS + 1):
        promoted = kind + PROMOTED if kind != GOLD else kind
        count = int(np.isin(points & 15, (kind, promoted)).sum() + held[:, kind - 1].astype(int).sum())
        if count > TOTALS[size][kind]:
            raise wrong(f"{count} of {LETTERS[kind]}, of which there are {TOTALS[size][kind]}")
