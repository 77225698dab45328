"""Records of shogi for other programs: KIF, which Japanese programs save, CSA, the format of servers, and lines of USI.

One game each is written, from the usual beginning or any other position. KIF is UTF-8 and says so, in files that end in
.kifu, as programs expect. CSA is version 2.2 and for the large board alone. A line of USI is what managers send:
``position startpos moves 7g7f 3c3d``; it has no players and no result of its own.

All are read, with SFEN for USI without moves, and every move is checked by our rules. KIF is read in UTF-8 and Shift
JIS, with handicaps and positions given as diagrams; variations behind the main line are left out. KI2, whose moves
don't say where a piece comes from, isn't read. Declarations don't end a game that is read: others may have played on. A
record without an end is of a game that wasn't played to its end.
Sources: http://kakinoki.o.oo7.jp/kif_format.html, http://www2.computer-shogi.org/protocol/record_v22.html
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

import numpy as np

from pipeline.errors import FileError, IllegalMove, MuGoError
from pipeline.families.shogi import kernels
from pipeline.families.shogi.board import HAND_KINDS, PAWN, PROMOTED, THEIRS
from pipeline.families.shogi.game import LONGEST, Shogi
from pipeline.families.shogi.notation import HAND_ORDER, ROWS, TOTALS, board_sfen, hands, pieces
from pipeline.games.contract import AnyGame, History, States
from pipeline.games.records import PlayedGame, ReadGame, RecordFormat, RecordText
from pipeline.run import atomic

KIF, CSA, USI = "kif", "csa", "usi"
FILE_SUFFIXES = {KIF: ".kifu", CSA: ".csa", USI: ".usi"}  # of files that are written
FORMS = {".kif": KIF, ".kifu": KIF, ".csa": CSA, ".usi": USI}
SUFFIXES = (*FORMS, ".sfen")  # of files that are read

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

# What is read.
MOST_BYTES, MOST_LINE = 4 << 20, 500  # bytes of a file, characters of a line of KIF or CSA
OTHER_NAMES = {"王": "玉", "竜": "龍", "竜王": "龍", "竜馬": "馬"} | {
    short: name for name, short in SHORT_NAMES.items()
}

# What the player to move has then, 0 for a draw or where nothing is decided; and what people call it.
_RESIGNED, _MATED, _LATE = (LOST, "resigned"), (LOST, "mate"), (LOST, "out of time")
_DECLARED, _REPEATED, _IMPASSE, _LEFT = (WON, "declared"), (0, "repetition"), (0, "impasse"), (0, "not decided")
KIF_RESULTS = {
    "投了": _RESIGNED,
    "詰み": _MATED,
    "切れ負け": _LATE,
    "反則負け": (LOST, "illegal move"),
    "反則勝ち": (WON, "illegal move"),
    "入玉勝ち": _DECLARED,
    "千日手": _REPEATED,
    "持将棋": _IMPASSE,
    "中断": _LEFT,
    "不詰": _LEFT,
    "不戦敗": (LOST, "not played"),
}
CSA_RESULTS = {
    "%TORYO": _RESIGNED,
    "%TSUMI": _MATED,
    "%TIME_UP": _LATE,
    "%ILLEGAL_MOVE": (LOST, "illegal move"),
    "%KACHI": _DECLARED,
    "%SENNICHITE": _REPEATED,
    "%JISHOGI": _IMPASSE,
    "%HIKIWAKE": _IMPASSE,
    "%MAX_MOVES": (0, "move limit"),
    "%CHUDAN": _LEFT,
    "%FUZUMI": _LEFT,
    "%ERROR": _LEFT,
    "%MATTA": _LEFT,
}

_NAME = "|".join(sorted({*filter(None, NAMES), *OTHER_NAMES}, key=len, reverse=True))
_KIF_MOVE = re.compile(
    rf"(?:([１-９1-9])([一二三四五六七八九])|同)[　\s]*({_NAME})(?:(打)|(成|不成)?\((\d)(\d)\))"
    r"\s*(?:\([\s\d:/]*\))?[\s+]*"
)
_KIF_CELL = re.compile(rf"([ 　v^])(・|{_NAME})")
_KIF_LINE = re.compile(r"\s*(\d{1,5})\s+(\S.*)", re.ASCII)
_CSA_MOVE = re.compile(r"([+-])(\d)(\d)(\d)(\d)([A-Z]{2})", re.ASCII)
_CSA_PIECE = re.compile(r"(\d)(\d)([A-Z]{2})", re.ASCII)
_CSA_CELL = re.compile(r" \* |([+-])([A-Z]{2})")
_SFEN = re.compile(r"[+a-zA-Z1-9]+(?:/[+a-zA-Z1-9]+)+", re.ASCII)
_KI2_MARKS = "▲△▼▽☗☖"


class _Kifu(RecordFormat):
    """A format as ``mugo.records`` has it."""

    games = ("shogi",)
    form: ClassVar[str]

    def refusal(self, game: AnyGame) -> str:
        return "" if isinstance(game, Shogi) else f"--{self.form} is for shogi"

    def write(self, game: AnyGame, played: PlayedGame) -> str:
        assert isinstance(game, Shogi)
        return kifu_record(
            self.form, game, played.moves, played.text, played.comments, played.resigned_by, played.start
        )

    def read(self, path: Path) -> tuple[AnyGame, list[ReadGame]]:
        game, found = read_kifu(path)
        return game, found


class Kif(_Kifu):
    form, suffixes, reads = KIF, (".kifu", ".kif"), (".kifu", ".kif")


class Csa(_Kifu):
    form, suffixes, reads = CSA, (".csa",), (".csa",)

    def refusal(self, game: AnyGame) -> str:
        return "" if isinstance(game, Shogi) and game.size == 9 else "--csa is for shogi on the large board"


class Usi(_Kifu):
    form, suffixes, reads = USI, (".usi",), (".usi", ".sfen")


# Writing


def kifu_record(
    form: str,
    game: Shogi,
    moves: Sequence[int],
    text: RecordText,
    comments: Sequence[str] = (),
    resigned_by: int | None = None,
    start: States | None = None,
) -> str:
    """One game as KIF, CSA or USI. text.first: the first player's name; comments: by ply, "" for none.

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
    text: RecordText,
    comments: Sequence[str],
    resigned_by: int | None,
) -> str:
    lines = ["#KIF version=2.0 encoding=UTF-8", "# ---- MuGo ----"]
    if event := _plain(f"{text.event} {text.round}"):
        lines.append(f"棋戦：{event}")
    lines += [*_kif_beginning(game, states[0]), f"先手：{_plain(text.first)}", f"後手：{_plain(text.second)}"]
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
    text: RecordText,
    comments: Sequence[str],
    resigned_by: int | None,
) -> str:
    lines = ["'CSA encoding=UTF-8", "V2.2", f"N+{_plain(text.first)}", f"N-{_plain(text.second)}"]
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


# Reading


def read_kifu(path: Path) -> tuple[Shogi, list[ReadGame]]:
    """The games of a file that ends in one of SUFFIXES, and the game that they are of.

    Raises FileError that says where, what was found and what was wanted.
    """
    data = atomic.read_bytes(path, f"a record of shogi ({', '.join(SUFFIXES)})")
    try:
        return parse_kifu(data, path.suffix.lower())
    except MuGoError as error:
        raise FileError(path, str(error)) from error


def parse_kifu(data: bytes, suffix: str = "") -> tuple[Shogi, list[ReadGame]]:
    """The same of bytes. suffix: one of SUFFIXES; "": what they look like.

    Raises MuGoError that names the line.
    """
    if len(data) > MOST_BYTES:
        raise MuGoError(f"{len(data):,} bytes; at most {MOST_BYTES:,} are read")
    lines = _decoded(data).splitlines()
    form = suffix or _recognised(lines)
    if form in (".usi", ".sfen"):
        return _lines_of_usi(lines)
    for number, line in enumerate(lines, start=1):
        if len(line) > MOST_LINE:
            raise MuGoError(f"line {number}: {len(line):,} characters; wanted at most {MOST_LINE}")
    if form == f".{CSA}":
        game = _reading_game(9)
        return game, [_read_one(lines, begin, end, _CsaReader(game)) for begin, end in _csa_games(lines)]
    small = any("五将棋" in line for line in lines[:100] if line.startswith("手合割："))
    if sum(line.startswith("|") for line in lines[:100]) == 5:
        small = True
    game = _reading_game(5 if small else 9)
    return game, [_read_one(lines, 0, len(lines), _KifReader(game))]


def _recognised(lines: list[str]) -> str:
    for line in lines:
        words = line.split()
        if words and (words[0] in ("position", "startpos", "sfen") or _SFEN.fullmatch(words[0])):
            return ".usi"
        if line.startswith(("V2", "V3", "'CSA", "N+", "N-", "PI", "P1", "P+", "P-", "$EVENT")):
            return f".{CSA}"
    return ".kif"


def _decoded(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:  # Shift JIS, or a file with damaged characters: that which explains more of them
        return min((data.decode(encoding, "replace") for encoding in ("cp932", "utf-8")), key=_unreadable)


def _unreadable(text: str) -> int:
    return text.count("\ufffd")


def _reading_game(size: int) -> Shogi:
    return Shogi(size, kernels.NO_RULE, LONGEST)


class _Reader:
    """One game as its lines come."""

    def __init__(self, game: Shogi) -> None:
        self.game = game
        self.players = ["", ""]
        self.moves: list[int] = []
        self.result: tuple[int, str] | None = None  # as in KIF_RESULTS, once the record says it
        self.ended = False
        self.found = False  # anything that only such a record has
        self.begin(game.initial(1))

    def begin(self, state: States) -> None:
        """At this position [1, S]."""
        self.start = self._state = state
        self._history = History.empty(1, LONGEST + 1)
        self._history.append(np.arange(1), self.game.keys(state))

    def begin_with(self, board: list[int], held: list[list[int]], mover: int) -> None:
        """board, held: as in notation. Raises MuGoError for a position that can't be."""
        try:
            self.begin(self.game.from_sfen(board_sfen(board, held, mover, 1, self.game.size)))
        except IllegalMove as error:
            raise MuGoError(f"the position that it begins from: {error}") from error

    def take(self, line: str) -> None:
        """Raises MuGoError that says what is wrong with it."""
        raise NotImplementedError

    def play(self, name: str, told: str, wanted: tuple[int | None, int | None]) -> None:
        """Play a move in USI. told: as it stands in the record; wanted: the kinds that it names, before and after."""
        game, state = self.game, self._state
        if game.is_over(state)[0]:
            raise MuGoError(f"{told}: a move after the end of the game")
        if len(self.moves) >= LONGEST - 1 - int(game.plies(self.start)[0]):
            raise MuGoError(f"{told}: more than {len(self.moves):,} moves")
        try:
            move = game.parse_move(state[0], name)
            after = game.play(state, np.array([move], np.int32), self._history)
        except IllegalMove as error:
            why = str(error).removeprefix(f"{game.spec}: ").partition("; wanted")[0]
            raise MuGoError(f"{told}: {why}") from error
        _, _, was, now = moved(state[0], after[0], game.size)
        for kind, found in zip(wanted, (was, now), strict=True):
            if kind is not None and kind != found:
                raise MuGoError(f"{told}: it moves a {NAMES[found]} ({CODES[found]})")
        self._state = after
        self._history.append(np.arange(1), game.keys(after))
        self.moves.append(move)

    @property
    def last(self) -> int:
        """The point that was moved to, -1 at first."""
        return int(self._state[0, kernels.words_of(self.game.num_points) + kernels.LAST])

    @property
    def mover(self) -> int:
        return int(self.game.to_move(self._state)[0])

    def finish(self) -> ReadGame:
        if not self.found:
            raise MuGoError("nothing that such a record has: no heading, no move, no end")
        over = bool(self.game.is_over(self._state)[0])
        result, end = self.result or _LEFT
        points = int(self.game.returns(self._state)[0]) if over else result * (1 - 2 * self.mover)
        first, second = (name or "?" for name in self.players)
        return ReadGame((first, second), self.start, self.moves, points, "" if over else end)


class _KifReader(_Reader):
    def __init__(self, game: Shogi) -> None:
        super().__init__(game)
        self._rows: list[list[int]] = []  # of a diagram
        self._held = [[0] * (HAND_KINDS + 1) for _ in range(2)]
        self._second_begins = self._has_begun = False

    def take(self, line: str) -> None:
        if not line.strip() or line.startswith(("*", "#", "&")) or self.ended:
            return
        if line.startswith(("変化", "まで")):
            self.ended = True
            return
        if line.lstrip().startswith(tuple(_KI2_MARKS)):
            raise MuGoError(f"{line.strip()[:40]!r}: KI2, which doesn't say where a piece comes from; wanted KIF")
        key, colon, value = line.partition("：")
        if found := _KIF_LINE.fullmatch(line):
            if int(found[1]) != len(self.moves) + 1:
                raise MuGoError(f"{line.strip()[:40]!r}; wanted move {len(self.moves) + 1}")
            self._move(found[2].strip())
        elif self.moves:
            raise MuGoError(f"{line.strip()[:40]!r}; wanted move {len(self.moves) + 1}")
        elif colon:
            self._head(key.strip(), value.strip("　 "))
        elif line.startswith("|"):
            self._rows.append(self._row(line))
        elif line.strip() in ("後手番", "上手番"):
            self._second_begins = True

    def finish(self) -> ReadGame:
        self._begin()
        return super().finish()

    def _head(self, key: str, value: str) -> None:
        second = key.startswith(("後手", "上手"))
        self.found |= second or key.startswith(("先手", "下手")) or key == "手合割"
        if key in ("先手", "後手", "下手", "上手"):
            self.players[second] = value
        elif key in ("先手の持駒", "後手の持駒", "下手の持駒", "上手の持駒"):
            self._held[second] = self._in_hand(value)
        elif key == "手合割" and value in HANDICAPS and self.game.size == 9:
            self.begin(handicap(self.game, value))
        elif key == "手合割" and value not in (EVEN[self.game.size], OTHER_BEGINNING):
            known = ", ".join((*EVEN.values(), *HANDICAPS))
            raise MuGoError(f"a game that begins {value[:20]!r}; known: {known}")

    def _row(self, line: str) -> list[int]:
        """The pieces of a line of a diagram, e.g. "|v香 ・ 歩 …|一"."""
        cells = _KIF_CELL.findall(line.split("|")[1])
        if len(cells) != self.game.size or len(self._rows) == self.game.size:
            raise MuGoError(f"{line.strip()[:60]!r}; wanted {self.game.size} rows of {self.game.size} squares")
        return [
            0 if name == "・" else NAMES.index(OTHER_NAMES.get(name, name)) + THEIRS * (side in "v^")
            for side, name in cells
        ]

    def _in_hand(self, value: str) -> list[int]:
        """[8] by kind, of e.g. "飛　歩十二"."""
        held = [0] * (HAND_KINDS + 1)
        for word in [] if value == "なし" else value.split():
            kind, count = NAMES.index(word[0]) if word[0] in NAMES else 0, word[1:] or "一"
            if not PAWN <= kind <= HAND_KINDS or count not in COUNTS:
                raise MuGoError(f"{value[:40]!r} in hand; wanted e.g. '飛　歩十二', or なし")
            held[kind] += COUNTS.index(count)
        return held

    def _begin(self) -> None:
        """With the diagram, if there was one, once all of it is known."""
        if self._has_begun:
            return
        self._has_begun = True
        if not self._rows:
            return
        if len(self._rows) != self.game.size:
            raise MuGoError(f"a diagram of {len(self._rows)} rows; wanted {self.game.size}")
        self.begin_with([piece for row in self._rows for piece in row], self._held, int(self._second_begins))

    def _move(self, text: str) -> None:
        self._begin()
        self.found = True
        word = text.split()[0]
        if word in KIF_RESULTS:
            self.result, self.ended = KIF_RESULTS[word], True
            return
        found = _KIF_MOVE.fullmatch(text)
        if found is None:
            raise MuGoError(f"{text[:40]!r}; wanted a move, e.g. '７六歩(77)', or an end, e.g. '投了'")
        kind = NAMES.index(OTHER_NAMES.get(found[3], found[3]))
        size = self.game.size
        if found[1]:
            column, row = int(found[1]), NUMERALS.index(found[2])
        elif self.last < 0:
            raise MuGoError(f"{text[:40]!r}: the point of the move before, but there was none")
        else:
            column, row = size - self.last % size, self.last // size
        target = f"{column}{ROWS[row]}"
        if found[4] or (found[6], found[7]) == ("0", "0"):
            if not PAWN <= kind <= HAND_KINDS:
                raise MuGoError(f"{text[:40]!r}: such a piece can't be dropped")
            self.play(f"{' PLNSGBR'[kind]}*{target}", text[:40], (kind, kind))
            return
        source = _usi_square(found[6], found[7], text)
        promotes = found[5] == "成"
        self.play(source + target + "+" * promotes, text[:40], (kind, kind + PROMOTED * promotes))


def _usi_square(column: str, row: str, text: str) -> str:
    if "0" in (column, row):
        raise MuGoError(f"{text[:40]!r}: no such square as {column}{row}")
    return f"{column}{ROWS[int(row) - 1]}"


class _CsaReader(_Reader):
    def __init__(self, game: Shogi) -> None:
        super().__init__(game)
        self._board = [0] * game.num_points
        self._held = [[0] * (HAND_KINDS + 1) for _ in range(2)]
        self._is_placed = False

    def take(self, line: str) -> None:
        if line.startswith("'") or self.ended:
            return
        if line.startswith("P") and not self.moves:
            self._place(line.rstrip())
            return
        for part in [line] if line.startswith(("N", "$")) else line.split(","):
            self._statement(part.strip())

    def _statement(self, text: str) -> None:
        self.found |= bool(text)
        if text.startswith(("N+", "N-")):
            self.players["+-".index(text[1])] = text[2:]
        elif found := _CSA_MOVE.fullmatch(text):
            self._move(found, text)
        elif text.startswith("%"):
            self._end(text)
        elif text in ("+", "-") and not self.moves:
            if self._is_placed or text == "-":
                self.begin_with(self._board if self._is_placed else _usual_board(self.game), self._held, text == "-")
        elif text and not text.startswith(("V", "$", "T")):
            raise MuGoError(f"{text[:40]!r}; wanted a move, e.g. +7776FU, or an end, e.g. %TORYO")

    def _place(self, line: str) -> None:
        """PI and what is taken from it, a row, or single pieces."""
        self._is_placed = self.found = True
        if line.startswith("PI"):
            self._board = _usual_board(self.game)
            for column, row, code in self._pieces(line):
                point = self._point(column, row, line)
                if CODES[self._board[point] & 15] != code:
                    raise MuGoError(f"{line[:40]!r}: no {code} stands on {column}{row} at first")
                self._board[point] = 0
        elif line[1:2] in tuple("123456789"):
            cells = line[2:].ljust(27)
            found = [_CSA_CELL.fullmatch(cells[3 * i : 3 * i + 3]) for i in range(9)]
            if len(cells) > 27 or any(cell is None or (cell[2] or "FU") not in CODES for cell in found):
                raise MuGoError(f"{line[:40]!r}; wanted nine squares of three characters, e.g. '-KY * +FU'")
            for i, cell in enumerate(found):
                piece = CODES.index(cell[2]) + THEIRS * (cell[1] == "-") if cell and cell[2] else 0
                self._board[9 * (int(line[1]) - 1) + i] = piece
        elif line[1:2] in ("+", "-"):
            for column, row, code in self._pieces(line):
                self._add(column, row, code, "+-".index(line[1]), line)
        else:
            raise MuGoError(f"{line[:40]!r}; wanted PI, P1 to P9, P+ or P-")

    def _add(self, column: str, row: str, code: str, player: int, line: str) -> None:
        if column + row != "00" and code != "AL":
            self._board[self._point(column, row, line)] = CODES.index(code) + THEIRS * player
        elif column + row == "00" and code == "AL":  # all that are left
            on_board = Counter(piece & 15 for piece in self._board)
            for kind in range(PAWN, HAND_KINDS + 1):
                there = on_board[kind] + (on_board[kind + PROMOTED] if NAMES[kind] != "金" else 0)
                self._held[player][kind] += max(0, TOTALS[9][kind] - there - sum(held[kind] for held in self._held))
        elif code in CODES[PAWN : HAND_KINDS + 1]:
            self._held[player][CODES.index(code)] += 1
        else:
            raise MuGoError(f"{line[:40]!r}: {code} can't be at {column}{row}")

    def _pieces(self, line: str) -> list[tuple[str, str, str]]:
        found = _CSA_PIECE.findall(line[2:])
        if len(line) != 2 + 4 * len(found) or any(code not in (*CODES[1:], "AL") or not code for *_, code in found):
            raise MuGoError(f"{line[:40]!r}; wanted squares and pieces, e.g. 22KA")
        return found

    def _point(self, column: str, row: str, line: str) -> int:
        if "0" in (column, row):
            raise MuGoError(f"{line[:40]!r}: no such square as {column}{row}")
        return 9 * (int(row) - 1) + 9 - int(column)

    def _move(self, found: re.Match[str], text: str) -> None:
        if "+-".index(found[1]) != self.mover:
            raise MuGoError(f"{text}: a move of the player who has just moved")
        if found[6] not in CODES:
            raise MuGoError(f"{text}: no piece is written {found[6]}")
        kind, target = CODES.index(found[6]), _usi_square(found[4], found[5], text)
        if found[2] + found[3] == "00":
            if not PAWN <= kind <= HAND_KINDS:
                raise MuGoError(f"{text}: such a piece can't be dropped")
            self.play(f"{' PLNSGBR'[kind]}*{target}", text, (kind, kind))
            return
        source = _usi_square(found[2], found[3], text)
        was = pieces(self._state[0], 9)[self._point(found[2], found[3], text)] & 15
        self.play(source + target + "+" * (kind > was), text, (None, kind))

    def _end(self, text: str) -> None:
        if text in ("%+ILLEGAL_ACTION", "%-ILLEGAL_ACTION"):
            self.result = (LOST if "+-".index(text[1]) == self.mover else WON, "illegal move")
        elif text in CSA_RESULTS:
            self.result = CSA_RESULTS[text]
        else:
            raise MuGoError(f"{text[:40]!r}: unknown end; known: {', '.join(CSA_RESULTS)}")
        self.ended = True


def _usual_board(game: Shogi) -> list[int]:
    return pieces(game.initial(1)[0], game.size)


def _csa_games(lines: list[str]) -> list[tuple[int, int]]:
    """(begin, end) of the lines of each game; they are parted by a slash, and one behind the last is no other game."""
    cuts = [-1, *(number for number, line in enumerate(lines) if line.strip() == "/"), len(lines)]
    games = [(begin + 1, end) for begin, end in pairwise(cuts)]
    return games if len(games) == 1 or any(map(str.strip, lines[games[-1][0] :])) else games[:-1]


def _read_one(lines: list[str], begin: int, end: int, reader: _Reader) -> ReadGame:
    return _located([(number + 1, lines[number]) for number in range(begin, end)], reader.take, reader.finish)


def _located(lines: list[tuple[int, str]], take: Callable[[str], None], finish: Callable[[], ReadGame]) -> ReadGame:
    """Raises MuGoError that names the line."""
    for number, line in lines:
        try:
            take(line)
        except MuGoError as error:
            raise MuGoError(f"line {number}: {error}") from error
    try:
        return finish()
    except MuGoError as error:
        raise MuGoError(f"its end: {error}") from error


def _lines_of_usi(lines: list[str]) -> tuple[Shogi, list[ReadGame]]:
    """A game for each line that isn't empty, all on the board that the first of them tells."""
    texts = [(number, line.split()) for number, line in enumerate(lines, start=1) if line.strip()]
    if not texts:
        raise MuGoError("no line 'position startpos moves …' or SFEN; wanted a game a line")
    game, games = _reading_game(_board_of([words for _, words in texts])), []
    for number, words in texts:
        words = words[1:] if words[0] == "position" else words
        begin, _, moves = " ".join(words).partition(" moves ")
        reader = _Reader(game)
        reader.result, reader.found = _LEFT, True
        sfen = begin.removeprefix("sfen ").strip()
        if sfen.removesuffix(" moves") != "startpos":
            try:
                reader.begin(game.from_sfen(sfen.removesuffix(" moves")))
            except IllegalMove as error:
                raise MuGoError(f"line {number}: {error}") from error

        def play(word: str, reader: _Reader = reader) -> None:
            reader.play(word, word[:10], (None, None))

        games.append(_located([(number, word) for word in moves.split()], play, reader.finish))
    return game, games


def _board_of(texts: list[list[str]]) -> int:
    """The size of the board: an SFEN's number of rows, or whether a first move begins in the last rows of the large."""
    for words in texts:
        for word in words:
            if _SFEN.fullmatch(word):
                return 5 if word.count("/") == 4 else 9
        if "moves" in words[:-1]:
            return 5 if words[words.index("moves") + 1][1:2] in ("d", "e") else 9
    return 9
