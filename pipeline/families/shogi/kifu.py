"""Records of shogi for other programs: KIF, which Japanese programs save, CSA, the format of servers, and lines of USI.

Each file that is written holds one game, from the usual or any other beginning. KIF is written in UTF-8, says so, and
has the suffix .kifu, as programs expect. CSA is version 2.2 and exists for the large board only. A line of USI is what
managers send: ``position startpos moves 7g7f 3c3d``; it holds neither players nor a result.

All are read, as are SFENs (USI without moves), and every move is checked by our rules. KIF is read with handicaps and
positions given as diagrams; variations after the main line are left out. KI2, whose moves don't say where a piece comes
from, isn't read. Declarations don't end a game that is read, because others may have played on. A record without an end
is of a game that wasn't finished. Lines that are neither moves nor known are skipped, and named in the game's notes. A
move that can't be read, or that stands behind the end, is an error: no move is skipped, except in variations and in a
second game of a KIF, which a note names.
Sources: http://kakinoki.o.oo7.jp/kif_format.html, http://www2.computer-shogi.org/protocol/record_v22.html
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

import numpy as np

from pipeline.errors import FileError, IllegalMove, MuGoError
from pipeline.families.shogi import kernels, notation
from pipeline.families.shogi.board import HAND_KINDS, LETTERS, PAWN, PROMOTED, THEIRS
from pipeline.families.shogi.game import LONGEST, Shogi
from pipeline.games.contract import AnyGame, History, States
from pipeline.games.encodings import decode
from pipeline.games.records import PlayedGame, ReadGame, RecordFormat
from pipeline.phrases import counted
from pipeline.run import atomic

KIF, CSA, USI = "kif", "csa", "usi"

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
    "左七枚落ち": "8b 2b 1a 9a 2a 8a 3a",
    "右七枚落ち": "8b 2b 1a 9a 2a 8a 7a",
    "八枚落ち": "8b 2b 1a 9a 2a 8a 3a 7a",
    "十枚落ち": "8b 2b 1a 9a 2a 8a 3a 7a 4a 6a",
}
OTHER_HANDICAPS = {"七枚落ち": "左七枚落ち"}  # names that are only read
OTHER_BEGINNING = "その他"
COUNTS = ("", *"一二三四五六七八九十", *(f"十{digit}" for digit in "一二三四五六七八"))
PLAYERS, OF_HANDICAP = ("先手", "後手"), ("下手", "上手")

LOST, WON = -1, 1  # of the player to move
NOT_DECIDED = "not decided"
_LEFT = (0, NOT_DECIDED)
# How games end: KIF's word, CSA's word, the result for the player to move (0: a draw, or nothing is decided), and what
# people call it.
_RESULTS: tuple[tuple[str, str, int, str], ...] = (
    ("投了", "%TORYO", LOST, "resigned"),
    ("詰み", "%TSUMI", LOST, "mate"),
    ("詰", "", LOST, "mate"),
    ("切れ負け", "%TIME_UP", LOST, "out of time"),
    ("反則負け", "%ILLEGAL_MOVE", LOST, "illegal move"),
    ("反則勝ち", "", WON, "illegal move"),
    ("時間切れ", "", LOST, "out of time"),
    ("不戦敗", "", LOST, "not played"),
    ("不戦勝", "", WON, "not played"),
    ("宣言勝ち", "", WON, "declared"),
    ("入玉宣言", "", WON, "declared"),
    ("入玉勝ち", "%KACHI", WON, "declared"),
    ("千日手", "%SENNICHITE", 0, "repetition"),
    ("持将棋", "%JISHOGI", 0, "impasse"),
    ("", "%HIKIWAKE", 0, "impasse"),
    ("最大手数", "%MAX_MOVES", 0, "move limit"),
    ("引き分け", "", 0, "a draw"),
    ("引分", "", 0, "a draw"),
    ("中断", "%CHUDAN", *_LEFT),
    ("封じ手", "", *_LEFT),
    ("不詰", "%FUZUMI", *_LEFT),
    ("", "%ERROR", *_LEFT),
    ("", "%MATTA", *_LEFT),
)
KIF_RESULTS = {kif: (result, called) for kif, _, result, called in _RESULTS if kif}
CSA_RESULTS = {csa: (result, called) for _, csa, result, called in _RESULTS if csa}
USI_RESULTS = {
    "resign": (LOST, "resigned"),
    "win": (WON, "declared"),
    "draw": (0, "a draw"),
    "rep_draw": (0, "repetition"),
    "rep_inf": _LEFT,  # a position came again, with fewer pieces in hand: no end by the rules
    "rep_sup": _LEFT,
    "sennichite": (0, "repetition"),
    "jishogi": (0, "impasse"),
    "max_moves": (0, "move limit"),
    "interrupt": _LEFT,
    "abort": _LEFT,
}
RESIGNED = ("投了", "%TORYO")
ENDS = {  # KIF's and CSA's words by kernels' END; 0: the game isn't over
    0: ("中断", "%CHUDAN"),
    kernels.NO_MOVE: ("詰み", "%TSUMI"),
    kernels.REPETITION: ("千日手", "%SENNICHITE"),
    kernels.DECLARATION: ("入玉勝ち", "%KACHI"),
    kernels.BOTH_ENTERED: ("持将棋", "%JISHOGI"),
    kernels.MOVE_LIMIT: ("持将棋", "%MAX_MOVES"),
}

MOST_BYTES, MOST_LINE = 4 << 20, 500  # bytes of a file that is read, characters of a line of KIF or CSA, but no comment
MOST_SKIPPED = 5  # lines that are named
OTHER_NAMES = {"王": "玉", "竜": "龍", "竜王": "龍", "竜馬": "馬"} | {
    short: name for name, short in SHORT_NAMES.items()
}

_MARKS = "▲△▼▽☗☖"  # before a move: whose it is
_NAME = "|".join(sorted({*filter(None, NAMES), *OTHER_NAMES}, key=len, reverse=True))
_KIF_MOVE = re.compile(
    rf"[{_MARKS}]?(?:([１-９1-9])([{NUMERALS}１-９1-9])|同)[　\s]*({_NAME})\s*"
    r"[左直右上寄引]*(?:(打)\s*(?:\(00\))?|(成|不成)?\s*\((\d)(\d)\))"
    r"\s*(?:\([^()]*\)\s*)*[\s+]*"
)
_KIF_CELL = re.compile(rf"([ 　v^])(・|{_NAME})")
_KIF_PIECES = re.compile(rf"([{''.join(NAMES[PAWN : HAND_KINDS + 1])}])(\d{{1,2}}|{'|'.join(reversed(COUNTS))})")
_KIF_HAND = re.compile(rf"(?:{_KIF_PIECES.pattern}\s*)*")
_KIF_LINE = re.compile(r"\s*([0-9]{1,5}|[０-９]{1,5})(\s*(?:手目|手(?=\s)|[.．:：)）、])?\s*)(\S.*)")
_KIF_LOST_MOVE = re.compile(rf"[^ぁ-ん一-龥]{{0,8}}(?:{_KIF_MOVE.pattern})")  # at the beginning of a line
_KIF_HEADINGS = ("手合割", "先手", "後手", "下手", "上手", "開始日時", "棋戦")  # that begin another game
_SIDE = "先手|後手|下手|上手"
_KIF_WINNER = re.compile(rf"({_SIDE})(?:(?!{_SIDE})[^勝負投切]){{0,12}}(切れ勝|勝|負|投了|切れ)")
_KIF_REASONS = {
    "反則": "illegal move", "切れ": "out of time", "投了": "resigned", "宣言": "declared", "入玉": "declared",
    "不戦": "not played", "": "no reason given",
}  # fmt: skip
_KIF_HEAD = re.compile(r"([^：:]{1,40})[：:](.*)")
_KIF_NUMBER = re.compile(r"手数＝(\d{1,5})", re.ASCII)
_ENCODING = re.compile(rb"^\W{0,4}(?:#KIF|'CSA)[^\n]*encoding=([\w-]{1,20})", re.IGNORECASE)
_CSA_MOVE = re.compile(r"([+-])(\d)(\d)(\d)(\d)([A-Z]{2})", re.ASCII)
_CSA_LOST_MOVE = re.compile(r"\d{4}[A-Z]{2}", re.ASCII)
_CSA_PLAYED = re.compile(rf"^(?:[^'N$].*,)?\s*(?:%|{_CSA_MOVE.pattern})")  # a line with a move or an end
_CSA_HEADING = re.compile(r"V\d|N[+-]|P[I1-9+-]")
_CSA_PIECE = re.compile(r"(\d)(\d)([A-Z]{2})", re.ASCII)
_CSA_CELL = re.compile(r"([+-])([A-Z]{2})|[^+\-A-Z]{3}")
_CSA_STAR = re.compile(r" ?\* {0,2}")  # an empty square, maybe with fewer blanks or in another place
_SFEN = re.compile(r"[+a-zA-Z1-9]+(?:/[+a-zA-Z1-9]+)+", re.ASCII)
_LIKE_A_MOVE = re.compile(rf"同.*|[{NUMERALS}].*|.?({_NAME}).*")
_END = re.compile("[ぁ-んァ-ヶー々一-龥]{2,12}")  # any word of Japanese
_COLUMNS = " 　\t\f\v\x1a\xa0１２３４５６７８９123456789"  # above a diagram
_KIF_KNOWN = ("手数----", "先手番", "下手番", "盤面回転", "盤面反転", "+-")  # lines without a meaning here


class ShogiFormat(RecordFormat):
    """A format of this module. form: its name."""

    games = ("shogi",)
    form: ClassVar[str]

    def refusal(self, game: AnyGame) -> str:
        return "" if isinstance(game, Shogi) else f"--{self.form} is for shogi"

    def write(self, game: AnyGame, played: PlayedGame) -> str:
        """Only the player to move can resign in these formats. If the other one did, the game counts as left, and KIF's
        last line names the winner.
        """
        if refusal := self.refusal(game):
            raise MuGoError(refusal)
        assert isinstance(game, Shogi)
        states = _replayed(game, played.moves, game.initial(1) if played.start is None else played.start)
        return self.text(game, states, played)

    @abstractmethod
    def text(self, game: Shogi, states: list[States], played: PlayedGame) -> str:
        """The file of a game whose T + 1 states are these [S]."""

    def read(self, path: Path) -> tuple[AnyGame, list[ReadGame]]:
        return read_kifu(path)

    def recognises(self, line: str) -> bool:
        """Whether a line shows this format. A text that no other format recognises is KIF."""
        return False

    @abstractmethod
    def parse(self, lines: list[str]) -> tuple[Shogi, list[ReadGame]]:
        """Raises MuGoError that names the line."""


# Writing


def _replayed(game: Shogi, moves: Sequence[int], start: States) -> list[States]:
    """The T + 1 states [S], even of a game that went on after an end that Game.played_on takes back.

    Raises IllegalMove.
    """
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
    board, board_after = notation.pieces(before, size), notation.pieces(after, size)
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


def _comment(played: PlayedGame, ply: int, mark: str) -> list[str]:
    """The lines of what is said of a ply."""
    return _marked(played.comments[ply] if ply < len(played.comments) else "", mark)


def _marked(text: str, mark: str) -> list[str]:
    return [mark + line for line in text.splitlines()]


def _plain(text: str) -> str:
    """Text for one line of a record's head."""
    return " ".join(text.split())


def _digits(point: int, size: int) -> str:
    """A point as column and row, two digits."""
    return f"{size - point % size}{point // size + 1}"


def handicap(game: Shogi, name: str) -> States:
    """[1, S] the beginning of a handicap game of HANDICAPS: the second player has fewer pieces and moves first."""
    board, held = _usual_board(game), notation.hands(game.initial(1)[0], 9)
    for square in HANDICAPS[name].split():
        board[notation.named_square(square, 9)] = 0
    return game.from_sfen(notation.board_sfen(board, held, 1, 1, 9))


def _usual_board(game: Shogi) -> list[int]:
    return notation.pieces(game.initial(1)[0], game.size)


class Kif(ShogiFormat):
    form, suffixes, reads = KIF, (".kifu", ".kif"), (".kifu", ".kif")

    def text(self, game: Shogi, states: list[States], played: PlayedGame) -> str:
        text, size = played.text, game.size
        lines = ["#KIF version=2.0 encoding=UTF-8", "# ---- MuGo ----"]
        if event := _plain(f"{text.event} {text.round}"):
            lines.append(f"棋戦：{event}")
        beginning = self._beginning(game, states[0])
        players = OF_HANDICAP if beginning[0].partition("：")[2] in HANDICAPS else PLAYERS
        lines += [*beginning, f"{players[0]}：{_plain(text.first)}", f"{players[1]}：{_plain(text.second)}"]
        lines += [*_marked(text.comment, "*"), "手数----指手---------消費時間--"]
        earlier = -1
        for ply, (before, after) in enumerate(pairwise(states)):
            source, to, was, now = moved(before, after, size)
            target = "同　" if to == earlier else DIGITS[size - 1 - to % size] + NUMERALS[to // size]
            kind = NAMES[was] + ("成" if now != was else "")
            where = "打" if source < 0 else f"({_digits(source, size)})"
            lines += [f"{ply + 1:4d} {target}{kind}{where}", *_comment(played, ply, "*")]
            earlier = to
        word, _, result = ending(game, states[-1], played.resigned_by)
        mover = int(game.to_move(states[-1][None])[0])
        winner = players[mover if result == WON else 1 - mover]
        how = word if word in ("入玉勝ち", "反則勝ち") else "勝ち"
        lines.append(f"{len(states):4d} {word}")
        lines.append(f"まで{len(states) - 1}手で" + (f"{winner}の{how}" if result else word))
        return "\n".join([*lines, ""])

    def _beginning(self, game: Shogi, start: States) -> list[str]:
        """An even game or a handicap by its name, any other as a diagram of the board and the pieces in hand."""
        if is_usual(game, start):
            return [f"手合割：{EVEN[game.size]}"]
        if game.size == 9:
            for name in HANDICAPS:
                if game.sfen(start) == game.sfen(handicap(game, name)[0]):
                    return [f"手合割：{name}"]
        board, held, size = notation.pieces(start, game.size), notation.hands(start, game.size), game.size
        in_hand = [
            "　".join(NAMES[kind] + COUNTS[one[kind]] * (one[kind] > 1) for kind in notation.HAND_ORDER if one[kind])
            for one in held
        ]
        rule = "+" + "-" * (3 * size) + "+"
        lines = [f"手合割：{OTHER_BEGINNING}", f"後手の持駒：{in_hand[1] or 'なし'}"]
        lines += ["  " + " ".join(reversed(DIGITS[:size])), rule]
        for row in range(size):
            cells = [self._cell(piece) for piece in board[row * size : (row + 1) * size]]
            lines.append(f"|{''.join(cells)}|{NUMERALS[row]}")
        lines += [rule, f"先手の持駒：{in_hand[0] or 'なし'}"]
        return [*lines, "後手番"] if int(game.to_move(start[None])[0]) else lines

    def _cell(self, piece: int) -> str:
        name = NAMES[piece & 15]
        return ("v" if piece & THEIRS else " ") + SHORT_NAMES.get(name, name) if piece else " ・"

    def parse(self, lines: list[str]) -> tuple[Shogi, list[ReadGame]]:
        head = lines[:100]
        small = any("五将棋" in line for line in head if line.startswith("手合割")) or (
            sum(line.startswith("|") for line in head) == 5
        )
        game = _reading_game(5 if small else 9)
        return game, [_KifReader(game).read(enumerate(lines, start=1))]


class Csa(ShogiFormat):
    form, suffixes, reads = CSA, (".csa",), (".csa",)

    def refusal(self, game: AnyGame) -> str:
        return "" if isinstance(game, Shogi) and game.size == 9 else "--csa is for shogi on the large board"

    def text(self, game: Shogi, states: list[States], played: PlayedGame) -> str:
        text = played.text
        lines = ["'CSA encoding=UTF-8", "V2.2", f"N+{_plain(text.first)}", f"N-{_plain(text.second)}"]
        if event := _plain(f"{text.event} {text.round}"):
            lines.append(f"$EVENT:{event}")
        lines += [*_marked(text.comment, "'*"), *self._beginning(game, states[0])]
        for ply, (before, after) in enumerate(pairwise(states)):
            source, to, _, now = moved(before, after, 9)
            begin = "00" if source < 0 else _digits(source, 9)
            lines.append(f"{'+-'[int(game.to_move(before[None])[0])]}{begin}{_digits(to, 9)}{CODES[now]}")
            lines += _comment(played, ply, "'*")
        return "\n".join([*lines, ending(game, states[-1], played.resigned_by)[1], ""])

    def _beginning(self, game: Shogi, start: States) -> list[str]:
        if is_usual(game, start):
            return ["PI", "+"]
        board, lines = notation.pieces(start, 9), []
        cells = [f"{'-' if piece & THEIRS else '+'}{CODES[piece & 15]}" if piece else " * " for piece in board]
        for row in range(9):
            lines.append(f"P{row + 1}{''.join(cells[9 * row : 9 * row + 9])}")
        for sign, held in zip("+-", notation.hands(start, 9), strict=True):
            if any(held):
                lines.append(f"P{sign}" + "".join(f"00{CODES[kind]}" * held[kind] for kind in notation.HAND_ORDER))
        return [*lines, "+-"[int(game.to_move(start[None])[0])]]

    def recognises(self, line: str) -> bool:
        return line.startswith(("V2", "V3", "'CSA", "N+", "N-", "PI", "P1", "P+", "P-", "$EVENT"))

    def parse(self, lines: list[str]) -> tuple[Shogi, list[ReadGame]]:
        """Games are separated by a slash, or by a heading behind a move or an end. A slash at the end is ignored."""
        game = _reading_game(9)
        games: list[list[tuple[int, str]]] = [[]]
        played = False  # whether the last one has a move or an end
        for number, line in enumerate(lines, start=1):
            if line.strip() == "/" or (played and _CSA_HEADING.match(line)):
                games.append([])
                played = False
            if line.strip() != "/":
                games[-1].append((number, line))
            played |= bool(_CSA_PLAYED.search(line))
        if len(games) > 1 and not any(line.strip() for _, line in games[-1]):
            games.pop()
        return game, [_CsaReader(game).read(one) for one in games]


class Usi(ShogiFormat):
    form, suffixes, reads = USI, (".usi",), (".usi", ".sfen")

    def text(self, game: Shogi, states: list[States], played: PlayedGame) -> str:
        named = [game.move_name(state, move) for state, move in zip(states, played.moves, strict=False)]
        begin = "startpos" if is_usual(game, states[0]) else f"sfen {game.sfen(states[0])}"
        return " ".join([f"position {begin}", *(["moves", *named] if named else [])]) + "\n"

    def recognises(self, line: str) -> bool:
        words = line.split()
        return bool(words) and (words[0] in ("position", "startpos", "sfen") or bool(_SFEN.fullmatch(words[0])))

    def parse(self, lines: list[str]) -> tuple[Shogi, list[ReadGame]]:
        """A game for each line that isn't empty, all on the board of the first one."""
        texts = [(number, line.split()) for number, line in enumerate(lines, start=1) if line.strip()]
        if not texts:
            raise MuGoError("no line 'position startpos moves …' or SFEN; wanted a game a line")
        game, games = _reading_game(_board_of([words for _, words in texts])), []
        for number, words in texts:
            begin, moves = _usi_parts(words[1:] if words[0] == "position" else words)
            if moves and moves[0] != "moves":
                raise MuGoError(f"line {number}: {moves[0][:20]!r} behind startpos; wanted moves")
            reader = _UsiReader(game)
            if begin != "startpos":
                try:
                    reader.begin(game.from_sfen(begin))
                except IllegalMove as error:
                    raise MuGoError(f"line {number}: {error}") from error
            games.append(reader.read((number, word) for word in moves[1:]))
        return game, games


FORMATS: dict[str, ShogiFormat] = {KIF: Kif(), CSA: Csa(), USI: Usi()}
SUFFIXES = tuple(suffix for one in FORMATS.values() for suffix in one.reads)  # of files that are read


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
    """The same for a file's bytes. suffix: one of SUFFIXES; "": recognise the format by its lines.

    Raises MuGoError that names the line.
    """
    if len(data) > MOST_BYTES:
        raise MuGoError(f"{len(data):,} bytes; at most {MOST_BYTES:,} are read")
    declared = _ENCODING.search(data)
    decoded = decode(data, declared[1].decode("ascii") if declared else "")
    lines = _lines(decoded.text)
    if suffix:
        form = next(one for one in FORMATS.values() if suffix in one.reads)
    else:  # USI before CSA, because an SFEN may begin like a line of CSA
        found = (one for line in lines for one in reversed(FORMATS.values()) if one.recognises(line))
        form = next(found, FORMATS[KIF])
    for number, line in enumerate(lines, start=1):
        if len(line) > MOST_LINE and form is not FORMATS[USI] and not line.startswith(("*", "'")):
            raise MuGoError(f"line {number}: {len(line):,} characters; wanted at most {MOST_LINE}")
    game, games = form.parse(lines)
    if decoded.note:
        games = [replace(one, notes=(decoded.note, *one.notes)) for one in games]
    return game, games


def _lines(text: str) -> list[str]:
    """Only line feeds and carriage returns end lines: str.splitlines knows ends that people write within comments."""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _reading_game(size: int) -> Shogi:
    return Shogi(size, kernels.NO_RULE, LONGEST)


def _board_of(texts: list[list[str]]) -> int:
    """The size of the board: an SFEN's number of rows; else 5 if a first move starts in the last rows of that board."""
    for words in texts:
        for word in words:
            if _SFEN.fullmatch(word):
                return 5 if word.count("/") == 4 else 9
        if "moves" in words[:-1]:
            first = words[words.index("moves") + 1]
            return 5 if first[1:2] in ("d", "e") and not notation.END.fullmatch(first) else 9
    return 9


def _usi_parts(words: list[str]) -> tuple[str, list[str]]:
    """startpos or an SFEN, and the words behind it."""
    if words[:1] == ["startpos"]:
        return "startpos", words[1:]
    end = words.index("moves") if "moves" in words else len(words)
    return " ".join(words[words[:1] == ["sfen"] : end]), words[end:]


class _Reader:
    """Reads one game line by line."""

    def __init__(self, game: Shogi) -> None:
        self.game = game
        self.players = ["", ""]
        self.moves: list[int] = []
        self.result = _LEFT  # as in KIF_RESULTS
        self.ended = ""  # the record's text for the end
        self.line = self.end_line = 0  # the numbers of the present line and of that with the end
        self.found = False  # whether anything is there that only such a record has
        self.notes: list[str] = []
        self._skipped: list[str] = []
        self.is_end_known = True
        self.begin(game.initial(1))

    def read(self, lines: Iterable[tuple[int, str]]) -> ReadGame:
        """lines: with their numbers. Raises MuGoError that names the line."""
        where = "line 1"
        try:
            for number, line in lines:
                self.line, where = number, f"line {number}"
                self.take(line)
            where = "its end"
            return self.finish()
        except MuGoError as error:
            raise MuGoError(f"{where}: {error}") from error

    def begin(self, state: States) -> None:
        """Begin at this position [1, S]."""
        self.start = self._state = state
        self._history = History.empty(1, LONGEST + 1)
        self._history.append(np.arange(1), self.game.keys(state))

    def begin_with(self, board: list[int], held: list[list[int]], mover: int) -> None:
        """board, held: as in notation. Raises MuGoError for an impossible position."""
        try:
            self.begin(self.game.from_sfen(notation.board_sfen(board, held, mover, 1, self.game.size)))
        except IllegalMove as error:
            raise MuGoError(f"the position that it begins from: {str(error).partition('; wanted')[0]}") from error

    def take(self, line: str) -> None:
        """Follow a line. Raises MuGoError that says what is wrong with it."""
        raise NotImplementedError

    def skip(self, text: str) -> None:
        """Leave out a text that is neither a move nor known."""
        self._skip(self.line, text)

    def _skip(self, line: int, text: str) -> None:
        if len(self._skipped) <= MOST_SKIPPED:
            self._skipped.append(f"line {line} {text.strip()[:40]!r}")

    def end(self, text: str, results: Mapping[str, tuple[int, str]]) -> None:
        """Follow what a record says about its end, known or not."""
        self.is_end_known = text in results
        self.result, self.ended, self.end_line = results.get(text, _LEFT), text, self.line

    def go_on(self) -> None:
        """The end was none: the next move follows."""
        self._skip(self.end_line, self.ended)
        self.result, self.ended = _LEFT, ""

    def behind_end(self, text: str) -> MuGoError:
        return MuGoError(f"{text[:40]!r}: behind the end of the game, line {self.end_line}: {self.ended[:20]!r}")

    def play(self, name: str, told: str, wanted: tuple[int | None, int | None]) -> None:
        """Play a move in USI. told: the record's text; wanted: the kinds of piece that it names, before and after."""
        game, state = self.game, self.game.played_on(self._state)  # people overlook a repetition
        if game.is_over(state)[0]:
            raise MuGoError(f"{told}: a move after the end of the game")
        if len(self.moves) >= LONGEST - 1 - int(game.plies(self.start)[0]):
            raise MuGoError(f"{told}: more than {len(self.moves):,} moves")
        try:
            move = game.parse_move(state[0], name)
            after = game.play(state, np.array([move], np.int32), self._history)
        except IllegalMove as error:
            why = game.in_words(str(error)).removeprefix(f"{game.title_here}: ").partition("; wanted")[0]
            raise MuGoError(why if why.startswith(f"{told}: ") else f"{told}: {why}") from error
        _, _, was, now = moved(state[0], after[0], game.size)
        for kind, found in zip(wanted, (was, now), strict=True):
            if kind is not None and kind != found:
                raise MuGoError(f"{told}: it moves a {NAMES[found]} ({CODES[found]})")
        self._state = after
        self._history.append(np.arange(1), game.keys(after))
        self.moves.append(move)

    def drop(self, kind: int, target: str, told: str) -> None:
        if not PAWN <= kind <= HAND_KINDS:
            raise MuGoError(f"{told[:40]!r}: such a piece can't be dropped")
        self.play(f"{LETTERS[kind]}*{target}", told[:40], (kind, kind))

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
        result, end = self.result
        points = int(self.game.returns(self._state)[0]) if over else result * (1 - 2 * self.mover)
        first, second = (name or "?" for name in self.players)
        if self.ended and not self.is_end_known:
            self.notes.append(f"its end {self.ended[:20]!r} is unknown, and counts as not decided")
        if self._skipped:
            more = " …" if len(self._skipped) > MOST_SKIPPED else ""
            self.notes.append(f"skipped: {', '.join(self._skipped[:MOST_SKIPPED])}{more}")
        return ReadGame((first, second), self.start, self.moves, points, "" if over else end, tuple(self.notes))


class _KifReader(_Reader):
    def __init__(self, game: Shogi) -> None:
        super().__init__(game)
        self._rows: list[list[int]] = []  # of a diagram
        self._held = [[0] * (HAND_KINDS + 1) for _ in range(2)]
        self._second_begins = False
        self._beginning = EVEN[game.size]  # what the heading calls it
        self._before: int | None = None  # moves before the first one, by its number
        self._begun = False
        self._is_aside = self._is_over = False  # in variations; in a second game

    def take(self, line: str) -> None:
        text = line.strip()
        if self._is_over or text.startswith(("*", "＊", "#", "&")) or not line.strip(_COLUMNS):
            return
        numbered, head = _KIF_LINE.fullmatch(line), _KIF_HEAD.fullmatch(line)
        if numbered and not numbered[2].isspace():  # people number lists and dates so, too
            is_move = _KIF_LOST_MOVE.match(numbered[3]) or numbered[3].split()[0] in KIF_RESULTS
            numbered = numbered if is_move else None
        heading = head[1].strip() if head else ""
        if text.startswith("変化"):
            self._is_aside = True
        elif (self._is_aside or self.ended or self.moves) and (heading in _KIF_HEADINGS or text.startswith("手数--")):
            self._second_game()
        elif self._is_aside:
            return
        elif text.startswith("まで"):
            self._last_line(text)
        elif numbered:
            self._numbered(int(numbered[1]), numbered[3].strip(), text)
        elif _KIF_MOVE.fullmatch(text) or text in KIF_RESULTS:
            self._numbered(self._next(), text, text)
        elif text.startswith(tuple(_MARKS)) and not self.ended:
            raise MuGoError(f"{text[:40]!r}: KI2, which doesn't say where a piece comes from; wanted KIF")
        elif line.startswith("|") and not self._begun:
            self._rows.append(self._row(line))
        elif head and not self._begun and not _KIF_LOST_MOVE.match(head[2]):
            self._head(heading, head[2].strip("　 "))
        elif text in ("後手番", "上手番") and not self._begun:
            self._second_begins = True
        elif not _KIF_NUMBER.match(text) and not line.startswith(_KIF_KNOWN):
            if _KIF_LOST_MOVE.match(text) and not self.ended:
                raise MuGoError(f"{text[:40]!r}; wanted a move, e.g. '1 ７六歩(77)', and before comments *")
            self.skip(text)

    def finish(self) -> ReadGame:
        self._begin()
        return super().finish()

    def _second_game(self) -> None:
        self.notes.append(f"a second game begins at line {self.line} and isn't read")
        self._is_over = True

    def _next(self) -> int:
        """The number of the next move."""
        return (self._before or 0) + len(self.moves) + 1

    def _numbered(self, number: int, text: str, line: str) -> None:
        """Follow a move or an end.

        Moves are numbered from 1; from any number if the position before them is given as a diagram. What decides
        nothing, such as a sealed move or a comment, is no end if a move has the same number.
        """
        if self._before is None:
            self._before = number - 1 if self._rows else 0
        if self.ended:
            is_move = _KIF_MOVE.fullmatch(text)
            if number == self._next() and self.result == _LEFT and (is_move or text.split()[0] in KIF_RESULTS):
                self.go_on()
            elif number == 1 and is_move:
                self._second_game()
                return
            elif is_move:
                raise self.behind_end(line)
            else:
                self.skip(line)
                return
        if number != self._next():
            raise MuGoError(f"{line[:40]!r}; wanted move {self._next()}")
        self._move(text)

    def _last_line(self, text: str) -> None:
        """Follow what the line まで… says: how many moves there are, and who has won."""
        self._begin()
        if (said := _KIF_WINNER.search(text)) is not None:
            is_first = said[1] in ("先手", "下手")
            wins = is_first == said[2].endswith("勝")  # the first player
            reason = next(called for word, called in _KIF_REASONS.items() if word in text)
            result = (WON if wins == (self.mover == 0) else LOST, reason)
        else:
            word = next((word for word in sorted(KIF_RESULTS, key=len, reverse=True) if word in text), None)
            if word is None or re.search(_SIDE, text):
                self.skip(text)
                return
            result = KIF_RESULTS[word]
        self.found = True
        count = re.search(r"\d{1,5}(?=手)", text)
        if count and int(count[0]) not in (len(self.moves), self._next() - 1):
            self.notes.append(f"line {self.line} {text[:40]!r}; read: {counted(len(self.moves), 'move')}")
        over = bool(self.game.is_over(self._state)[0])
        known = int(self.game.returns(self._state)[0]) * (1 - 2 * self.mover) if over else self.result[0]
        if over or (self.ended and self.result != _LEFT):
            if result != _LEFT and result[0] != known:
                self.notes.append(f"line {self.line} {text[:40]!r} contradicts its end")
        elif result != _LEFT:
            if self.ended and not self.is_end_known:
                self.go_on()
            self.notes.append(f"only line {self.line} says how it ended: {text[:40]!r}")
            self.end(text, {text: result})
        elif not self.ended:
            self.end(text, {text: result})

    def _head(self, key: str, value: str) -> None:
        second = key.startswith(("後手", "上手"))
        self.found |= second or key.startswith(("先手", "下手")) or key == "手合割"
        if key in ("先手", "後手", "下手", "上手"):
            self.players[second] = value
        elif key in ("先手の持駒", "後手の持駒", "下手の持駒", "上手の持駒"):
            self._held[second] = self._in_hand(value)
        elif key == "手合割":
            self._beginning = OTHER_HANDICAPS.get(value, value)

    def _row(self, line: str) -> list[int]:
        """The pieces in a line of a diagram, e.g. "|v香 ・ 歩 …|一"."""
        self.found = True
        cells = _KIF_CELL.findall(line.split("|")[1])
        if len(cells) != self.game.size or len(self._rows) == self.game.size:
            raise MuGoError(f"{line.strip()[:60]!r}; wanted {self.game.size} rows of {self.game.size} squares")
        return [
            0 if name == "・" else NAMES.index(OTHER_NAMES.get(name, name)) + THEIRS * (side in "v^")
            for side, name in cells
        ]

    def _in_hand(self, value: str) -> list[int]:
        """[8] the number of pieces of each kind, from e.g. "飛　歩十二"."""
        held = [0] * (HAND_KINDS + 1)
        if value != "なし" and not _KIF_HAND.fullmatch(value):
            raise MuGoError(f"{value[:40]!r} in hand; wanted e.g. '飛　歩十二', or なし")
        for name, count in _KIF_PIECES.findall(value):
            held[NAMES.index(name)] += int(count) if count.isdecimal() else COUNTS.index(count or "一")
        return held

    def _begin(self) -> None:
        """Begin with the diagram, if there is one, or as the heading says, once all of both is known."""
        if self.moves or self._begun:
            return
        self._begun, name = True, self._beginning
        if not self._rows:
            if name in HANDICAPS and self.game.size == 9:
                self.begin(handicap(self.game, name))
            elif name not in (EVEN[self.game.size], ""):
                known = ", ".join((*EVEN.values(), *HANDICAPS))
                raise MuGoError(f"a game that begins {name[:20]!r}, without a diagram; known without: {known}")
            return
        if len(self._rows) != self.game.size:
            raise MuGoError(f"a diagram of {len(self._rows)} rows; wanted {self.game.size}")
        self.begin_with([piece for row in self._rows for piece in row], self._held, int(self._second_begins))

    def _move(self, text: str) -> None:
        self._begin()
        self.found = True
        word = text.split()[0]
        found = _KIF_MOVE.fullmatch(text)
        if word in KIF_RESULTS or (_END.fullmatch(word) and not _LIKE_A_MOVE.fullmatch(word)):
            self.end(word, KIF_RESULTS)
            return
        if found is None:
            raise MuGoError(f"{text[:40]!r}; wanted a move, e.g. '７六歩(77)', or an end, e.g. '投了'")
        kind = NAMES.index(OTHER_NAMES.get(found[3], found[3]))
        if found[1]:
            row = NUMERALS.index(found[2]) if found[2] in NUMERALS else int(found[2]) - 1
            target = f"{int(found[1])}{notation.ROWS[row]}"
        elif self.last < 0:
            raise MuGoError(f"{text[:40]!r}: the point of the move before, but there was none")
        else:
            target = notation.square_name(self.last, self.game.size)
        if found[4] or (found[6], found[7]) == ("0", "0"):
            self.drop(kind, target, text)
            return
        source = _usi_square(found[6], found[7], text)
        promotes = found[5] == "成"
        self.play(source + target + "+" * promotes, text[:40], (kind, kind + PROMOTED * promotes))


def _usi_square(column: str, row: str, text: str) -> str:
    if "0" in (column, row):
        raise MuGoError(f"{text[:40]!r}: no such square as {column}{row}")
    return f"{column}{notation.ROWS[int(row) - 1]}"


class _UsiReader(_Reader):
    """Its lines are moves, up to a word that ends the game."""

    def __init__(self, game: Shogi) -> None:
        super().__init__(game)
        self.found = True

    def take(self, line: str) -> None:
        if self.ended and notation.is_usi(line):
            raise self.behind_end(line)
        if self.ended:
            self.skip(line)
        elif notation.END.fullmatch(line):
            self.end(line, USI_RESULTS)
        else:
            self.play(line, line[:10], (None, None))


class _CsaReader(_Reader):
    def __init__(self, game: Shogi) -> None:
        super().__init__(game)
        self._board = [0] * game.num_points
        self._held = [[0] * (HAND_KINDS + 1) for _ in range(2)]
        self._is_placed = False

    def take(self, line: str) -> None:
        if line.startswith("'"):
            return
        if line.startswith("P") and not self.moves:
            self._place(line)
            return
        for part in [line] if line.startswith(("N", "$")) else line.partition(",'")[0].split(","):
            self._statement(part.strip())

    def _statement(self, text: str) -> None:
        self.found |= text.startswith(("N+", "N-", "V", "$", "T", "%", "+", "-"))
        if self.ended:
            if text.startswith(("+", "-")) or _CSA_LOST_MOVE.search(text):
                raise self.behind_end(text)
            if text and not text.startswith(("$", "T")):
                self.skip(text)
        elif text.startswith(("N+", "N-")):
            self.players["+-".index(text[1])] = text[2:]
        elif found := _CSA_MOVE.fullmatch(text):
            self._move(found, text)
        elif text.startswith("%"):
            self._end(text)
        elif text in ("+", "-") and not self.moves:
            if self._is_placed or text == "-":
                self.begin_with(self._board if self._is_placed else _usual_board(self.game), self._held, text == "-")
        elif text.startswith(("+", "-")):
            raise MuGoError(f"{text[:40]!r}; wanted a move, e.g. +7776FU, or an end, e.g. %TORYO")
        elif text.startswith("$"):
            return
        elif _CSA_LOST_MOVE.search(text):
            raise MuGoError(f"{text[:40]!r}; wanted + or - before a move, e.g. +7776FU, and before comments '")
        elif text and not text.startswith(("V", "T")):
            self.skip(text)

    def _place(self, line: str) -> None:
        """Follow PI with the pieces taken from it, a row, or a list of pieces."""
        self._is_placed = self.found = True
        if line[1:2] in tuple("123456789"):
            row = _CSA_STAR.sub(" * ", line[2:])
            cells = [_CSA_CELL.fullmatch(row[at : at + 3]) for at in range(0, 27, 3)]
            if row[27:].strip() or any(cell is None or (cell[2] or "FU") not in CODES for cell in cells):
                raise MuGoError(f"{line[:40]!r}; wanted nine squares of three characters, e.g. '-KY * +FU'")
            for i, cell in enumerate(cells):
                piece = CODES.index(cell[2]) + THEIRS * (cell[1] == "-") if cell and cell[2] else 0
                self._board[9 * (int(line[1]) - 1) + i] = piece
            return
        line = line.rstrip()
        if line.startswith("PI"):
            self._board = _usual_board(self.game)
            for column, row, code in self._pieces(line):
                point = self._point(column, row, line)
                if CODES[self._board[point] & 15] != code:
                    raise MuGoError(f"{line[:40]!r}: no {code} stands on {column}{row} at first")
                self._board[point] = 0
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
                there += sum(held[kind] for held in self._held)
                self._held[player][kind] += max(0, notation.TOTALS[9][kind] - there)
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
            self.drop(kind, target, text)
            return
        source = _usi_square(found[2], found[3], text)
        was = notation.pieces(self._state[0], 9)[self._point(found[2], found[3], text)] & 15
        self.play(source + target + "+" * (kind > was), text, (None, kind))

    def _end(self, text: str) -> None:
        if text in ("%+ILLEGAL_ACTION", "%-ILLEGAL_ACTION"):
            self.end(text, {text: (LOST if "+-".index(text[1]) == self.mover else WON, "illegal move")})
        else:
            self.end(text, CSA_RESULTS)
