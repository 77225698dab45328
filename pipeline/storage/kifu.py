"""Records of shogi for other programs: KIF, which Japanese programs save, CSA, the format of servers, and lines of USI.

One game each, from the initial position, every move checked by our rules. KIF is UTF-8 and says so; it is read in
Shift JIS, too, and variations behind the main line are left out. CSA is version 2.2, for the large board alone. A line
of USI is what managers send: ``position startpos moves 7g7f 3c3d``; it has no players and no result of its own.
Handicap games and other beginnings aren't read. Declarations don't end a game that is read: others may have played on.
Sources: http://kakinoki.o.oo7.jp/kif_format.html, http://www2.computer-shogi.org/protocol/record_v22.html
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np

from pipeline.errors import FileError, IllegalMove, MuGoError
from pipeline.games.base import History, States
from pipeline.games.replay import replay_one
from pipeline.games.shogi import kernels
from pipeline.games.shogi.board import HAND_KINDS, PAWN, PROMOTED
from pipeline.games.shogi.game import LONGEST, Shogi
from pipeline.games.shogi.notation import ROWS, pieces
from pipeline.storage import atomic
from pipeline.storage.sgf import SgfText

KIF, CSA, USI = "kif", "csa", "usi"
MOST_BYTES, MOST_LINE = 4 << 20, 500  # bytes of a file, characters of a line of KIF or CSA

# By kind of piece.
NAMES = ("", "歩", "香", "桂", "銀", "金", "角", "飛", "玉", "と", "成香", "成桂", "成銀", "", "馬", "龍")
CODES = ("", "FU", "KY", "KE", "GI", "KI", "KA", "HI", "OU", "TO", "NY", "NK", "NG", "", "UM", "RY")
OTHER_NAMES = {"王": "玉", "竜": "龍", "杏": "成香", "圭": "成桂", "全": "成銀"}
DIGITS, NUMERALS = "１２３４５６７８９", "一二三四五六七八九"
EVEN = {9: "平手", 5: "5五将棋"}
CSA_START = ("PI", "+")
CSA_ROWS = ("P1-KY-KE-GI-KI-OU-KI-GI-KE-KY", "P2 * -HI *  *  *  *  * -KA *", "P3-FU-FU-FU-FU-FU-FU-FU-FU-FU",
            *(f"P{row} *  *  *  *  *  *  *  *  *" for row in (4, 5, 6)), "P7+FU+FU+FU+FU+FU+FU+FU+FU+FU",
            "P8 * +KA *  *  *  *  * +HI *", "P9+KY+KE+GI+KI+OU+KI+GI+KE+KY")  # fmt: skip
PLAYERS = ("先手", "後手")

# How a game that is over ended, seen by the player to move: KIF's word, CSA's.
_LOST, _WON = -1, 1
RESIGNED = ("投了", "%TORYO")
ENDS = {
    0: ("中断", "%CHUDAN"),
    kernels.NO_MOVE: ("詰み", "%TSUMI"),
    kernels.REPETITION: ("千日手", "%SENNICHITE"),
    kernels.DECLARATION: ("入玉勝ち", "%KACHI"),
    kernels.BOTH_ENTERED: ("持将棋", "%JISHOGI"),
    kernels.MOVE_LIMIT: ("持将棋", "%MAX_MOVES"),
}
# What the player to move has then, 0 for a draw or where nothing is decided; and what people call it.
_RESIGNED, _MATED, _LATE = (_LOST, "resigned"), (_LOST, "mate"), (_LOST, "out of time")
_DECLARED, _REPEATED, _IMPASSE, _LEFT = (_WON, "declared"), (0, "repetition"), (0, "impasse"), (0, "not decided")
KIF_RESULTS = {
    "投了": _RESIGNED,
    "詰み": _MATED,
    "切れ負け": _LATE,
    "反則負け": (_LOST, "illegal move"),
    "反則勝ち": (_WON, "illegal move"),
    "入玉勝ち": _DECLARED,
    "千日手": _REPEATED,
    "持将棋": _IMPASSE,
    "中断": _LEFT,
    "不詰": _LEFT,
}
CSA_RESULTS = {
    "%TORYO": _RESIGNED,
    "%TSUMI": _MATED,
    "%TIME_UP": _LATE,
    "%ILLEGAL_MOVE": (_LOST, "illegal move"),
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
_KIF_LINE = re.compile(r"\s*(\d{1,5})\s+(\S.*)", re.ASCII)
_CSA_MOVE = re.compile(r"([+-])(\d)(\d)(\d)(\d)([A-Z]{2})", re.ASCII)


@dataclass(frozen=True)
class KifuGame:
    """A game of a record.

    players   first, second      moves     [T] actions, as shards and matches have them
    points    the result for the first player, 1, 0 or -1
    end       "" if the rules ended it, otherwise what the record says: "resigned", "declared", "not decided", …
    """

    players: tuple[str, str]
    moves: list[int] = field(default_factory=list)
    points: int = 0
    end: str = ""

    @property
    def resigned(self) -> bool:
        """Whether it stopped before its end by the rules."""
        return bool(self.end)


# Writing


def kifu_record(
    form: str, game: Shogi, moves: Sequence[int], text: SgfText, comments: Sequence[str] = (), resigned: bool = False
) -> str:
    """One game as KIF, CSA or USI. text.black: the first player's name; comments: by ply, "" for none.

    Raises IllegalMove for a move that the rules forbid, MuGoError for minishogi in CSA, which doesn't know it.
    """
    states = [state[0] for state in replay_one(game, moves)]
    if form == USI:
        named = [game.move_name(state, move) for state, move in zip(states, moves, strict=False)]
        return " ".join(["position startpos", *(["moves", *named] if named else [])]) + "\n"
    padded = [*comments, *[""] * (len(moves) - len(comments))]
    if form == KIF:
        return _kif(game, states, moves, text, padded, resigned)
    if game.size != 9:
        raise MuGoError(f"CSA knows the large board alone, not {game.spec}; KIF and USI know both")
    return _csa(game, states, moves, text, padded, resigned)


def _moved(before: States, after: States, action: int, size: int) -> tuple[int, int, int, int]:
    """(from, to, kind before, kind after) of a move between two states [S]; from is -1 for a drop."""
    board, board_after = pieces(before, size), pieces(after, size)
    to = int(after[kernels.words_of(size * size) + kernels.LAST])
    left = [point for point in range(size * size) if board[point] and not board_after[point]]
    kind = board_after[to] & 15
    return (left[0], to, board[left[0]] & 15, kind) if left else (-1, to, kind, kind)


def _ending(game: Shogi, last: States, resigned: bool) -> tuple[str, str, int]:
    """KIF's word, CSA's, and the result for the player to move in the last state [S]."""
    one = last[None]
    mover = int(game.to_move(one)[0])
    result = _LOST if resigned else int(game.returns(one)[0]) * (1 - 2 * mover)
    end = int(game.ends(one)[0])
    if resigned:
        return *RESIGNED, result
    if end == kernels.PERPETUAL_CHECK:
        loser = mover if result == _LOST else 1 - mover
        return "反則負け" if result == _LOST else "反則勝ち", f"%{'+-'[loser]}ILLEGAL_ACTION", result
    return *ENDS[end], result


def _lines_of(text: str, mark: str) -> list[str]:
    return [mark + line for line in text.splitlines()]


def _plain(text: str) -> str:
    """Text for one line of a record's head."""
    return " ".join(text.split())


def _kif(
    game: Shogi, states: list[States], moves: Sequence[int], text: SgfText, comments: Sequence[str], resigned: bool
) -> str:
    lines = ["#KIF version=2.0 encoding=UTF-8", "# ---- MuGo ----"]
    if event := _plain(f"{text.event} {text.round}"):
        lines.append(f"棋戦：{event}")
    lines += [f"手合割：{EVEN[game.size]}", f"先手：{_plain(text.black)}", f"後手：{_plain(text.white)}"]
    lines += [*_lines_of(text.comment, "*"), "手数----指手---------消費時間--"]
    earlier = -1
    for ply, (before, after) in enumerate(pairwise(states)):
        source, to, was, now = _moved(before, after, moves[ply], game.size)
        target = "同　" if to == earlier else _kif_square(to, game.size)
        kind = NAMES[was] + ("成" if now != was else "")
        where = "打" if source < 0 else f"({game.size - source % game.size}{source // game.size + 1})"
        lines += [f"{ply + 1:4d} {target}{kind}{where}", *_lines_of(comments[ply], "*")]
        earlier = to
    word, _, result = _ending(game, states[-1], resigned)
    lines.append(f"{len(moves) + 1:4d} {word}")
    winner = int(game.to_move(states[-1][None])[0]) if result == _WON else 1 - int(game.to_move(states[-1][None])[0])
    how = word if word in ("入玉勝ち", "反則勝ち") else "勝ち"
    lines.append(f"まで{len(moves)}手で" + (f"{PLAYERS[winner]}の{how}" if result else word))
    return "\n".join([*lines, ""])


def _kif_square(point: int, size: int) -> str:
    return DIGITS[size - 1 - point % size] + NUMERALS[point // size]


def _csa(
    game: Shogi, states: list[States], moves: Sequence[int], text: SgfText, comments: Sequence[str], resigned: bool
) -> str:
    lines = ["V2.2", f"N+{_plain(text.black)}", f"N-{_plain(text.white)}"]
    if event := _plain(f"{text.event} {text.round}"):
        lines.append(f"$EVENT:{event}")
    lines += [*_lines_of(text.comment, "'"), *CSA_START]
    for ply, (before, after) in enumerate(pairwise(states)):
        source, to, _, now = _moved(before, after, moves[ply], game.size)
        begin = "00" if source < 0 else _csa_square(source, game.size)
        mover = int(game.to_move(before[None])[0])
        lines.append(f"{'+-'[mover]}{begin}{_csa_square(to, game.size)}{CODES[now]}")
        lines += _lines_of(comments[ply], "'")
    return "\n".join([*lines, _ending(game, states[-1], resigned)[1], ""])


def _csa_square(point: int, size: int) -> str:
    return f"{size - point % size}{point // size + 1}"


# Reading


def read_kifu(path: Path) -> tuple[Shogi, list[KifuGame]]:
    """The games of a .kif, .kifu, .csa or .usi, each played again by our rules, and the game that they are of.

    Raises FileError that says where, what was found and what was wanted.
    """
    data = atomic.read_bytes(path, "a record of shogi (.kif, .csa or .usi)")
    if len(data) > MOST_BYTES:
        raise FileError(path, f"{len(data):,} bytes; at most {MOST_BYTES:,} are read")
    lines = _decoded(data).splitlines()
    form = path.suffix.lower()
    if form == f".{USI}":
        return _read_lines_of_usi(path, lines)
    if any(len(line) > MOST_LINE for line in lines):
        number = next(number for number, line in enumerate(lines, start=1) if len(line) > MOST_LINE)
        raise FileError(path, f"line {number}: {len(lines[number - 1]):,} characters; wanted at most {MOST_LINE}")
    if form == f".{CSA}":
        game, games = _reading_game(9), []
        for begin, end in _csa_games(lines):
            games.append(_read_one(path, lines, begin, end, _CsaReader(game)))
        return game, games
    size = 5 if any(line.startswith("手合割：") and "五将棋" in line for line in lines[:100]) else 9
    game = _reading_game(size)
    return game, [_read_one(path, lines, 0, len(lines), _KifReader(game))]


def _decoded(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("cp932", "replace")


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
        self._state = game.initial(1)
        self._history = History.empty(1, LONGEST + 1)
        self._history.append(np.arange(1), game.keys(self._state))

    def take(self, line: str) -> None:
        """Raises MuGoError that says what is wrong with it."""
        raise NotImplementedError

    def play(self, name: str, told: str, wanted: tuple[int | None, int | None]) -> None:
        """Play a move in USI. told: as it stands in the record; wanted: the kinds that it names, before and after."""
        game, state = self.game, self._state
        if game.is_over(state)[0]:
            raise MuGoError(f"{told}: a move after the end of the game")
        if len(self.moves) >= LONGEST:
            raise MuGoError(f"{told}: more than {LONGEST:,} moves")
        try:
            move = game.parse_move(state[0], name)
            after = game.play(state, np.array([move], np.int32), self._history)
        except IllegalMove as error:
            raise MuGoError(f"{told}: {error}") from error
        _, _, was, now = _moved(state[0], after[0], move, game.size)
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

    def finish(self) -> KifuGame:
        """Raises MuGoError for what isn't a whole record."""
        over = bool(self.game.is_over(self._state)[0])
        played = int(self.game.returns(self._state)[0])
        if not over and self.result is None:
            raise MuGoError(f"no result after {len(self.moves)} moves; was the file cut off?")
        result, end = self.result or _LEFT
        points = played if over else result * (1 - 2 * self.mover)
        first, second = (name or "?" for name in self.players)
        return KifuGame((first, second), self.moves, points, "" if over else end)


class _KifReader(_Reader):
    def take(self, line: str) -> None:
        if not line.strip() or line.startswith(("*", "#", "&")) or self.ended:
            return
        if line.startswith(("変化", "まで")):
            self.ended = True
            return
        key, colon, value = line.partition("：")
        if colon and not self.moves:
            self._head(key.strip(), value.strip("　 "))
        elif found := _KIF_LINE.fullmatch(line):
            if int(found[1]) != len(self.moves) + 1:
                raise MuGoError(f"{line.strip()[:40]!r}; wanted move {len(self.moves) + 1}")
            self._move(found[2].strip())

    def _head(self, key: str, value: str) -> None:
        if key in ("先手", "後手", "下手", "上手"):
            self.players[key in ("後手", "上手")] = value
        elif key == "手合割" and value != EVEN[self.game.size]:
            raise MuGoError(f"a game that begins {value[:20]!r}; only {EVEN[self.game.size]}, even games, are read")

    def _move(self, text: str) -> None:
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
    def take(self, line: str) -> None:
        if line.startswith("'") or self.ended:
            return
        for part in line.strip().split(","):
            self._statement(part.strip())

    def _statement(self, text: str) -> None:
        if text.startswith(("N+", "N-")):
            self.players["+-".index(text[1])] = text[2:]
        elif found := _CSA_MOVE.fullmatch(text):
            self._move(found, text)
        elif text.startswith("%"):
            self._end(text)
        elif text.startswith("P") and text.rstrip() != "PI" and text.rstrip() not in CSA_ROWS:
            raise MuGoError(f"{text[:40]!r}: a beginning of its own; only the usual one is read")
        elif text == "-" and not self.moves:
            raise MuGoError("'-': the second player begins; only games from the usual beginning are read")
        elif text and not (text.startswith(("V", "$", "T", "P")) or text == "+"):
            raise MuGoError(f"{text[:40]!r}; wanted a move, e.g. +7776FU, or an end, e.g. %TORYO")

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
        board, size = pieces(self._state[0], self.game.size), self.game.size
        was = board[(int(found[3]) - 1) * size + size - int(found[2])] & 15
        self.play(source + target + "+" * (kind > was), text, (None, kind))

    def _end(self, text: str) -> None:
        if text in ("%+ILLEGAL_ACTION", "%-ILLEGAL_ACTION"):
            self.result = (_LOST if "+-".index(text[1]) == self.mover else _WON, "illegal move")
        elif text in CSA_RESULTS:
            self.result = CSA_RESULTS[text]
        else:
            raise MuGoError(f"{text[:40]!r}: unknown end; known: {', '.join(CSA_RESULTS)}")
        self.ended = True


def _csa_games(lines: list[str]) -> list[tuple[int, int]]:
    """(begin, end) of the lines of each game; they are parted by a slash."""
    cuts = [-1, *(number for number, line in enumerate(lines) if line.strip() == "/"), len(lines)]
    return [(begin + 1, end) for begin, end in pairwise(cuts)]


def _read_one(path: Path, lines: list[str], begin: int, end: int, reader: _Reader) -> KifuGame:
    return _located(path, [(number + 1, lines[number]) for number in range(begin, end)], reader.take, reader.finish)


def _located(
    path: Path, lines: list[tuple[int, str]], take: Callable[[str], None], finish: Callable[[], KifuGame]
) -> KifuGame:
    """Raises FileError that names the line."""
    for number, line in lines:
        try:
            take(line)
        except MuGoError as error:
            raise FileError(path, f"line {number}: {error}") from error
    try:
        return finish()
    except MuGoError as error:
        raise FileError(path, f"its end: {error}") from error


def _read_lines_of_usi(path: Path, lines: list[str]) -> tuple[Shogi, list[KifuGame]]:
    """A game for each line that isn't empty. The first move says which board it is: from row g to i it's the large
    one.
    """
    texts = [(number, line.split()) for number, line in enumerate(lines, start=1) if line.strip()]
    if not texts:
        raise FileError(path, "no line 'position startpos moves …'; wanted a game a line")
    firsts = [words[words.index("moves") + 1 :] for _, words in texts if "moves" in words]
    on_small_board = any(words and words[0][1:2] in ("d", "e") for words in firsts)
    game, games = _reading_game(5 if on_small_board else 9), []
    for number, words in texts:
        words = words[1:] if words[0] == "position" else words
        if words[:1] != ["startpos"] or words[1:2] not in ([], ["moves"]):
            raise FileError(path, f"line {number}: {' '.join(words)[:40]!r}; wanted position startpos moves MOVE …")
        reader = _Reader(game)
        reader.result = _LEFT
        take = [(number, word) for word in words[2:]]

        def play(word: str, reader: _Reader = reader) -> None:
            reader.play(word, word[:10], (None, None))

        games.append(_located(path, take, play, reader.finish))
    return game, games
