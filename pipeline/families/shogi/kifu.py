"""Records of shogi for other programs: KIF, which Japanese programs save, CSA, the format of servers, and lines of USI.

One game each, from the usual beginning or any other position. KIF is UTF-8 and says so, in files that end in .kifu, as
programs expect. CSA is version 2.2 and for the large board alone. A line of USI is what managers send: ``position
startpos moves 7g7f 3c3d``; it has no players and no result of its own. ``kifu_reading`` reads them back.
Sources: http://kakinoki.o.oo7.jp/kif_format.html, http://www2.computer-shogi.org/protocol/record_v22.html
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from pipeline.errors import MuGoError
from pipeline.families.shogi import kernels
from pipeline.families.shogi.board import THEIRS
from pipeline.families.shogi.game import Shogi
from pipeline.families.shogi.notation import HAND_ORDER, hands, pieces
from pipeline.games.contract import States
from pipeline.games.sgf import SgfText

KIF, CSA, USI = "kif", "csa", "usi"
FILE_SUFFIXES = {KIF: ".kifu", CSA: ".csa", USI: ".usi"}  # of files that are written
FORMS = {".kif": KIF, ".kifu": KIF, ".csa": CSA, ".usi": USI}

# By kind of piece.
NAMES = ("", "歩", "香", "桂", "銀", "金", "角", "飛", "玉", "と", "成香", "成桂", "成銀", "", "馬", "龍")
CODES = ("", "FU", "KY", "KE", "GI", "KI", "KA", "HI", "OU", "TO", "NY", "NK", "NG", "", "UM", "RY")
SHORT_NAMES = {"成香": "杏", "成桂": "圭", "成銀": "全"}  # where a piece has one character
DIGITS, NUMERALS = "１２３４５６７８９", "一二三四五六七八九"
EVEN = {9: "平手", 5: "5五将棋"}
HANDICAPS = {  # which pieces the second player, who then begins, lacks
    "香落ち": "1a",
    "右香落ち": "9a",
    "角落ち": "2b",
    "飛車落ち": "8b",
    "飛香落ち": "8b 1a",
    "二枚落ち": "8b 2b",
    "三枚落ち": "8b 2b 1a",
    "四枚落ち": "8b 2b 1a 9a",
    "五枚落ち": "8b 2b 1a 9a 8a",
    "左五枚落ち": "8b 2b 1a 9a 2a",
    "六枚落ち": "8b 2b 1a 9a 2a 8a",
    "七枚落ち": "8b 2b 1a 9a 2a 8a 3a",
    "八枚落ち": "8b 2b 1a 9a 2a 8a 3a 7a",
    "十枚落ち": "8b 2b 1a 9a 2a 8a 3a 7a 4a 6a",
}
OTHER_BEGINNING = "その他"
COUNTS = ("", *"一二三四五六七八九十", *(f"十{digit}" for digit in "一二三四五六七八"))
PLAYERS = ("先手", "後手")

LOST, WON = -1, 1  # of the player to move
# How a game that is over ended: KIF's word, CSA's.
RESIGNED = ("投了", "%TORYO")
ENDS = {
    0: ("中断", "%CHUDAN"),
    kernels.NO_MOVE: ("詰み", "%TSUMI"),
    kernels.REPETITION: ("千日手", "%SENNICHITE"),
    kernels.DECLARATION: ("入玉勝ち", "%KACHI"),
    kernels.BOTH_ENTERED: ("持将棋", "%JISHOGI"),
    kernels.MOVE_LIMIT: ("持将棋", "%MAX_MOVES"),
}


def kifu_record(
    form: str,
    game: Shogi,
    moves: Sequence[int],
    text: SgfText,
    comments: Sequence[str] = (),
    resigned_by: int | None = None,
    start: States | None = None,
) -> str:
    """One game as KIF, CSA or USI. text.black: the first player's name; comments: by ply, "" for none.

    start [1, S]: where it begins, None: as usual. resigned_by: the player who gave up after the moves. Only the player
    to move has a word for that: where the other one did, the game was left, and KIF's last line says who won.
    Raises IllegalMove for a move that the rules forbid, MuGoError for minishogi in CSA, which doesn't know it.
    """
    states = _replayed(game, moves, game.initial(1) if start is None else start)
    if form == USI:
        named = [game.move_name(state, move) for state, move in zip(states, moves, strict=False)]
        begin = "startpos" if is_usual(game, states[0]) else f"sfen {game.sfen(states[0])}"
        return " ".join([f"position {begin}", *(["moves", *named] if named else [])]) + "\n"
    padded = [*comments, *[""] * (len(moves) - len(comments))]
    if form == KIF:
        return _kif(game, states, moves, text, padded, resigned_by)
    if game.size != 9:
        raise MuGoError(f"CSA knows the large board alone, not {game.spec}; KIF and USI know both")
    return _csa(game, states, moves, text, padded, resigned_by)


def _replayed(game: Shogi, moves: Sequence[int], start: States) -> list[States]:
    """The T + 1 states [S], also of a game that went on behind an end that Game.played_on takes back."""
    state, history, states = start, game.initial_history(start), [start[0]]
    for move in moves:
        state = game.play(game.played_on(state), np.array([move], np.int32), history)
        history.append(np.arange(1), game.keys(state))
        states.append(state[0])
    return states


def is_usual(game: Shogi, state: States) -> bool:
    """Whether a position [S] is the usual beginning."""
    return game.sfen(state) == game.sfen(game.initial(1)[0])


def moved(before: States, after: States, size: int) -> tuple[int, int, int, int]:
    """(from, to, kind before, kind after) of a move between two states [S]; from is -1 for a drop."""
    board, board_after = pieces(before, size), pieces(after, size)
    to = int(after[kernels.words_of(size * size) + kernels.LAST])
    left = [point for point in range(size * size) if board[point] and not board_after[point]]
    kind = board_after[to] & 15
    return (left[0], to, board[left[0]] & 15, kind) if left else (-1, to, kind, kind)


def ending(game: Shogi, last: States, resigned_by: int | None) -> tuple[str, str, int]:
    """KIF's word, CSA's, and the result for the player to move in the last state [S]."""
    one = last[None]
    mover = int(game.to_move(one)[0])
    if resigned_by is not None:
        return (*RESIGNED, LOST) if resigned_by == mover else (*ENDS[0], WON)
    result = int(game.returns(one)[0]) * (1 - 2 * mover)
    end = int(game.ends(one)[0])
    if end == kernels.PERPETUAL_CHECK:
        loser = mover if result == LOST else 1 - mover
        return "反則負け" if result == LOST else "反則勝ち", f"%{'+-'[loser]}ILLEGAL_ACTION", result
    return *ENDS[end], result


def _lines_of(text: str, mark: str) -> list[str]:
    return [mark + line for line in text.splitlines()]


def _plain(text: str) -> str:
    """Text for one line of a record's head."""
    return " ".join(text.split())


def _kif(
    game: Shogi,
    states: list[States],
    moves: Sequence[int],
    text: SgfText,
    comments: Sequence[str],
    resigned_by: int | None,
) -> str:
    lines = ["#KIF version=2.0 encoding=UTF-8", "# ---- MuGo ----"]
    if event := _plain(f"{text.event} {text.round}"):
        lines.append(f"棋戦：{event}")
    lines += [*_kif_beginning(game, states[0]), f"先手：{_plain(text.black)}", f"後手：{_plain(text.white)}"]
    lines += [*_lines_of(text.comment, "*"), "手数----指手---------消費時間--"]
    earlier = -1
    for ply, (before, after) in enumerate(pairwise(states)):
        source, to, was, now = moved(before, after, game.size)
        target = "同　" if to == earlier else _kif_square(to, game.size)
        kind = NAMES[was] + ("成" if now != was else "")
        where = "打" if source < 0 else f"({game.size - source % game.size}{source // game.size + 1})"
        lines += [f"{ply + 1:4d} {target}{kind}{where}", *_lines_of(comments[ply], "*")]
        earlier = to
    word, _, result = ending(game, states[-1], resigned_by)
    lines.append(f"{len(moves) + 1:4d} {word}")
    winner = int(game.to_move(states[-1][None])[0]) if result == WON else 1 - int(game.to_move(states[-1][None])[0])
    how = word if word in ("入玉勝ち", "反則勝ち") else "勝ち"
    lines.append(f"まで{len(moves)}手で" + (f"{PLAYERS[winner]}の{how}" if result else word))
    return "\n".join([*lines, ""])


def _kif_beginning(game: Shogi, start: States) -> list[str]:
    """That of an even game or a handicap by its name, any other as a diagram of the board and what is in hand."""
    if is_usual(game, start):
        return [f"手合割：{EVEN[game.size]}"]
    if game.size == 9:
        for name in HANDICAPS:
            if game.sfen(start) == game.sfen(handicap(game, name)[0]):
                return [f"手合割：{name}"]
    board, held, size = pieces(start, game.size), hands(start, game.size), game.size
    in_hand = [
        "　".join(NAMES[kind] + (COUNTS[one[kind]] if one[kind] > 1 else "") for kind in HAND_ORDER if one[kind])
        for one in held
    ]
    rule = "+" + "-" * (3 * size) + "+"
    lines = [f"手合割：{OTHER_BEGINNING}", f"後手の持駒：{in_hand[1] or 'なし'}"]
    lines += ["  " + " ".join(reversed(DIGITS[:size])), rule]
    for row in range(size):
        cells = [_diagram_cell(piece) for piece in board[row * size : (row + 1) * size]]
        lines.append(f"|{''.join(cells)}|{NUMERALS[row]}")
    lines += [rule, f"先手の持駒：{in_hand[0] or 'なし'}"]
    return [*lines, "後手番"] if int(game.to_move(start[None])[0]) else lines


def _diagram_cell(piece: int) -> str:
    name = NAMES[piece & 15]
    return ("v" if piece & THEIRS else " ") + SHORT_NAMES.get(name, name) if piece else " ・"


def handicap(game: Shogi, name: str) -> States:
    """[1, S] where a handicap game of HANDICAPS begins: the second player has fewer pieces and moves first."""
    rows = [list(row) for row in unfolded(game.sfen(game.initial(1)[0]))]
    for square in HANDICAPS[name].split():
        rows["abcdefghi".index(square[1])][9 - int(square[0])] = "1"
    return game.from_sfen("/".join("".join(row) for row in rows) + " w - 1")


def unfolded(sfen: str) -> list[str]:
    """The rows of an SFEN without promoted pieces, a character for each square."""
    rows = sfen.split()[0].split("/")
    return ["".join("1" * int(mark) if mark.isdecimal() else mark for mark in row) for row in rows]


def _kif_square(point: int, size: int) -> str:
    return DIGITS[size - 1 - point % size] + NUMERALS[point // size]


def _csa(
    game: Shogi,
    states: list[States],
    moves: Sequence[int],
    text: SgfText,
    comments: Sequence[str],
    resigned_by: int | None,
) -> str:
    lines = ["'CSA encoding=UTF-8", "V2.2", f"N+{_plain(text.black)}", f"N-{_plain(text.white)}"]
    if event := _plain(f"{text.event} {text.round}"):
        lines.append(f"$EVENT:{event}")
    lines += [*_lines_of(text.comment, "'"), *_csa_beginning(game, states[0])]
    for ply, (before, after) in enumerate(pairwise(states)):
        source, to, _, now = moved(before, after, game.size)
        begin = "00" if source < 0 else _csa_square(source, game.size)
        mover = int(game.to_move(before[None])[0])
        lines.append(f"{'+-'[mover]}{begin}{_csa_square(to, game.size)}{CODES[now]}")
        lines += _lines_of(comments[ply], "'")
    return "\n".join([*lines, ending(game, states[-1], resigned_by)[1], ""])


def _csa_beginning(game: Shogi, start: States) -> list[str]:
    if is_usual(game, start):
        return ["PI", "+"]
    board, held, lines = pieces(start, 9), hands(start, 9), []
    for row in range(9):
        cells = [f"{'-' if piece & THEIRS else '+'}{CODES[piece & 15]}" if piece else " * " for piece in
                 board[row * 9 : (row + 1) * 9]]  # fmt: skip
        lines.append(f"P{row + 1}{''.join(cells)}")
    for sign, one in zip("+-", held, strict=True):
        if any(one):
            lines.append(f"P{sign}" + "".join(f"00{CODES[kind]}" * one[kind] for kind in HAND_ORDER))
    return [*lines, "+-"[int(game.to_move(start[None])[0])]]


def _csa_square(point: int, size: int) -> str:
    return f"{size - point % size}{point // size + 1}"
