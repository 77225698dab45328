"""Game records for other programs: ``.mat``, which every backgammon program imports, and SGF as in GNU Backgammon.

Written games are money play without the cube. A .mat has two columns of turns, ``31: 8/5 6/5``, the first player's on
the left, and a line with the winner's points; a turn without a move has only dice. In SGF (GM[6]) the first player is
W. A turn has the dice and two letters for each step (from, to): W's points 1 to 24 are a to x, B's are x to a, the bar
is y, off is z.

This module also reads .mat: complete games from the initial position, with every move checked, and matches with their
scores. Our rules have no doubling cube, so what players do with it is kept as remarks between the moves; it is followed
and checked, and multiplies the points.
Sources: GNU Backgammon's manual, "Import and export"; https://www.red-bean.com/sgf/backgammon.html
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, zip_longest
from pathlib import Path

import numpy as np

from pipeline.errors import FileError, IllegalMove, MuGoError
from pipeline.families.backgammon import kernels, notation
from pipeline.families.backgammon.game import STARTS, Backgammon
from pipeline.families.backgammon.kernels import ENTERING, HIGH_DIE, LOW_DIE, NUM_POINTS, TURN
from pipeline.games.contract import CHANCE, AnyGame
from pipeline.games.encodings import decode
from pipeline.games.records import PlayedGame, ReadGame, RecordFormat, RecordText
from pipeline.games.replay import replay_one
from pipeline.games.sgf import sgf_property
from pipeline.phrases import counted
from pipeline.run import atomic

MAT_SUFFIX = ".mat"
COLUMN = 28  # width of the first player's column in a .mat, in characters
MOST_BYTES, MOST_LINE = 16 << 20, 500  # bytes of a file, characters of a line
COLOURS = "WB"  # by player; W first, as in GNU Backgammon

_ANY_CASE = re.IGNORECASE | re.ASCII
_GAME = re.compile(r"\s*Game\s+(\d{1,9})\s*:?\s*", _ANY_CASE)
_MATCH = re.compile(r"\s*(\d{1,6}) point match\s*", _ANY_CASE)
_PLAYERS = re.compile(r"\s*(\S.*?)\s*:\s*(\d{1,6})\s+(\S.*?)\s*:\s*(\d{1,6})\s*", re.ASCII)
_ROW = re.compile(r"\s*(\d+)\)(.*)", re.ASCII)
_CELL = re.compile(
    r"(?<!\S)(?:\d\d:|(?:(?:re)?doubles?|beavers?|raccoons?|takes?|accepts?|drops?|rejects?|(?<!: )passes|wins)\b)",
    _ANY_CASE,
)
_TURN = re.compile(r"(\d)(\d):\s*([^:]*?)\s*", re.ASCII)
_CUBE = re.compile(r"([a-z]+?)s?(?:\s*(?:=>|\bto\b)\s*(\d{1,9}))?\s*", _ANY_CASE)
_WINS = re.compile(r"\s*Wins\s+(\d{1,9})\s+points?.*", _ANY_CASE)
_NO_MOVE = re.compile(r"cannot move|can't move|no move|passes|\?{2,}", re.IGNORECASE)


class _Unfinished(MuGoError):
    """A game that the file leaves before its result."""


@dataclass(frozen=True)
class Turn:
    """One turn. ply: of its move; name: in the game's notation; steps: (from, to) of each die played."""

    player: int
    ply: int
    dice: str
    name: str
    steps: tuple[notation.Step, ...]


def turns(game: Backgammon, moves: Sequence[int]) -> tuple[list[Turn], np.ndarray]:
    """The turns of one game with recorded throws and moves [T], and the state [S] after the last one.

    Raises IllegalMove for an illegal move.
    """
    states = [state[0] for state in replay_one(game, moves)]
    found = []
    for ply, (before, after) in enumerate(pairwise(states)):
        if game.to_move(before[None])[0] != CHANCE:
            dice, steps = f"{before[HIGH_DIE]}{before[LOW_DIE]}", tuple(notation.steps(before, after))
            found.append(Turn(int(before[TURN]), ply, dice, notation.name(before, after), steps))
    return found, states[-1]


def _points(game: Backgammon, state: np.ndarray, resigned_by: int | None = None) -> int:
    """The first player's points; a player who resigned loses 1."""
    if resigned_by is not None:
        return -1 if resigned_by == 0 else 1
    return int(kernels.points_won(state[None], game.num_checkers)[0])


# .mat


def mat_record(game: Backgammon, moves: Sequence[int], text: RecordText, resigned_by: int | None = None) -> str:
    """A .mat session of one game. text.first: the first player's name; resigned_by: the player who resigned.

    Raises IllegalMove for an illegal move, MuGoError for hypergammon, which .mat doesn't support.
    """
    if game.is_hypergammon:
        raise MuGoError(f".mat supports backgammon only, not {game.spec}; SGF supports both")
    played, last = turns(game, moves)
    columns: tuple[list[str], list[str]] = ([], [])
    for turn in played:
        shown = "" if turn.name == notation.PASS else turn.name
        columns[turn.player].append(f"{turn.dice}: {shown}".rstrip())
    pairs = enumerate(zip_longest(*columns, fillvalue=""), start=1)
    rows = [f"{number:3d}) {one:<{COLUMN - 1}} {other}" for number, (one, other) in pairs]
    points = _points(game, last, resigned_by)
    if points:
        wins = f"Wins {abs(points)} point{'s' if abs(points) > 1 else ''}"
        rows.append(f"{'':<{6 if points > 0 else COLUMN + 6}}{wins}")
    names = f" {text.first} : 0{'':<{max(2, COLUMN - len(text.first) - 1)}}{text.second} : 0"
    head = [f'; [Event "{text.event}"]', f'; [Round "{text.round}"]', "", " 0 point match", "", " Game 1", names]
    return "\n".join([*head, *(row.rstrip() for row in rows), "", ""])


class Mat(RecordFormat):
    """The format for the extension point ``mugo.records``."""

    games = tuple(STARTS)
    suffixes = reads = (MAT_SUFFIX,)
    holds = "match"

    def refusal(self, game: AnyGame) -> str:
        return "" if isinstance(game, Backgammon) and not game.is_hypergammon else ".mat is for backgammon"

    def write(self, game: AnyGame, played: PlayedGame) -> str:
        assert isinstance(game, Backgammon)
        return mat_record(game, played.moves, played.text, played.resigned_by)

    def read(self, path: Path) -> tuple[AnyGame, list[ReadGame]]:
        game = Backgammon()
        return game, read_mat(path, game)


def read_mat(path: Path, game: Backgammon) -> list[ReadGame]:
    """The games of a .mat, replayed and checked. A game with a result but no final position was resigned or dropped.

    The player who makes the first turn becomes the first player, in either column.
    Raises FileError with the line, what was found and what was wanted.
    """
    data = atomic.read_bytes(path, "a match of backgammon (.mat)")
    if len(data) > MOST_BYTES:
        raise FileError(path, f"{len(data):,} bytes; at most {MOST_BYTES:,} are read")
    try:
        decoded = decode(data)
    except MuGoError as error:
        raise FileError(path, str(error)) from error
    match = _Match(decoded.note)
    current: _Reader | None = None
    for number, line in enumerate(decoded.text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith(";"):
            continue
        if current is not None and len(line) > MOST_LINE:
            raise FileError(path, f"line {number}: {len(line):,} characters; wanted at most {MOST_LINE}")
        try:
            new_game, new_match = _GAME.fullmatch(line), _MATCH.fullmatch(line)
            if current is not None and (new_game or new_match):
                match.add(current)
                current = None
            if new_match:
                match.begin(int(new_match[1]))
            elif new_game:
                current = _Reader(game, int(new_game[1]), match.length)
            elif current is not None:
                current.take(line)
        except MuGoError as error:
            raise FileError(path, f"line {number}: {error}") from error
    try:
        if current is not None:
            match.add_last(current)
    except MuGoError as error:
        raise FileError(path, f"at its end: {error}") from error
    if not match.games:
        raise FileError(path, "no line 'Game 1'; wanted a match of backgammon (.mat)")
    return match.games


class _Match:
    """The games of a file so far. length: the points that the match is played to; 0: money, game by game."""

    def __init__(self, note: str) -> None:
        self.games: list[ReadGame] = []
        self.length = 0
        self._note, self._score = note, [0, 0]  # by column

    def begin(self, length: int) -> None:
        self.length, self._score = length, [0, 0]

    def add(self, reader: _Reader) -> None:
        """Raises MuGoError for an incomplete game or a wrong result."""
        one, notes = reader.ended(), [self._note] if self._note else []
        if self.length:
            notes.append(f"it is of a match to {counted(self.length, 'point')}")
        if self._score != reader.score:
            told, found = ("–".join(map(str, score)) for score in (reader.score, self._score))
            notes.append(f"the score before game {reader.number} is {told}; the games before it give {found}")
        left, right = reader.score
        first, second = one.points, -one.points
        won = (first, second) if reader.left_is_first else (second, first)
        self._score = [left + max(0, won[0]), right + max(0, won[1])]
        score = (left, right) if reader.left_is_first else (right, left)
        self.games.append(replace(one, notes=tuple(notes), score=score))

    def add_last(self, reader: _Reader) -> None:
        """As add; but an incomplete game is only said to be left out, unless it is the only one."""
        try:
            self.add(reader)
        except _Unfinished as error:
            if not self.games:
                raise
            last = self.games[-1]
            self.games[-1] = replace(last, notes=(*last.notes, f"left out: {error}"))


class _Reader:
    """Reads one game line by line. score: before the game, by column. length: of the match."""

    def __init__(self, game: Backgammon, number: int, length: int) -> None:
        self.number, self.score = number, [0, 0]
        self._game, self._length = game, length
        self._names: tuple[str, str] | None = None
        self._state = game.initial(1)
        self._moves: list[int] = []
        self._left_is_first: bool | None = None
        self._points: int | None = None
        self._unplayed = ""  # the last throw, if no move follows it
        self._remarks: dict[int, list[str]] = {}
        self._cube, self._owner = 1, -1  # whose cube it is, -1: either player's
        self._offer: tuple[int, int] | None = None  # a player and the value that they doubled to
        self._beavered = False  # the last double was a beaver or raccoon: its player keeps the cube
        self._dropped: int | None = None  # the player who dropped

    @property
    def left_is_first(self) -> bool:
        return self._left_is_first is not False

    def take(self, line: str) -> None:
        """Read one line. Raises MuGoError if it is wrong."""
        if self._names is None:
            found = _PLAYERS.fullmatch(line)
            if found is None:
                raise MuGoError(f"{line.strip()[:40]!r}; wanted both players, e.g. 'white : 0    black : 0'")
            self._names, self.score = (found[1], found[3]), [int(found[2]), int(found[4])]
        elif found := _WINS.fullmatch(line):
            self._win(int(found[1]), len(line) - len(line.lstrip()) < COLUMN)
        elif found := _ROW.fullmatch(line):
            self._row(found[2])
        else:
            raise MuGoError(f"{line.strip()[:40]!r}; wanted turns, e.g. '1) 31: 8/5 6/5', or 'Wins 1 point'")

    def _row(self, text: str) -> None:
        begins = [found.start() for found in _CELL.finditer(text)]
        rest = text[: begins[0] if begins else None].strip()
        if rest or len(begins) > 2:
            raise MuGoError(f"{(rest or text.strip())[:40]!r}; wanted dice and moves, e.g. '31: 8/5 6/5'")
        for begin, end in pairwise([*begins, len(text)]):
            cell = text[begin:end].strip()
            on_left = begin < COLUMN // 2 if len(begins) == 1 else begin == begins[0]
            if self._points is not None:
                raise MuGoError("a turn after the end of the game")
            if found := _WINS.fullmatch(cell):
                self._win(int(found[1]), on_left)
            elif found := _TURN.fullmatch(cell):
                if self._left_is_first is None:
                    self._left_is_first = on_left
                self._turn(f"{found[1]}{found[2]}", found[3], self._player(on_left))
            elif found := _CUBE.fullmatch(cell):
                self._use_cube(found[1].lower(), found[2], self._player(on_left), cell)
            else:
                raise MuGoError(f"{cell[:40]!r}; wanted dice and moves, e.g. '31: 8/5 6/5', or e.g. 'Doubles => 2'")

    def _player(self, on_left: bool) -> int:
        return 0 if on_left == self.left_is_first else 1

    def _win(self, points: int, on_left: bool) -> None:
        self._points = points if self._player(on_left) == 0 else -points

    def _turn(self, dice: str, text: str, player: int) -> None:
        game, state = self._game, self._state
        if game.is_over(state)[0]:
            raise MuGoError(f"{dice}: {text}: a turn after the end of the game")
        if self._dropped is not None or (self._offer and not self._beavered):
            what = "the game is over" if self._dropped is not None else "the other player hasn't taken the cube"
            raise MuGoError(f"{dice}: {text[:40]}: {what}")
        if self._unplayed:
            raise MuGoError(f"{self._unplayed}: no move, though there is one, and the game goes on")
        if state[0, TURN] != player:
            raise MuGoError(f"{dice}: {text}: a turn of the player who has just moved")
        if self._offer:  # beavers and raccoons need no answer
            self._cube, self._offer = self._offer[1], None
        self._play(dice, f"{dice}: {text}")
        passes = not text or _NO_MOVE.fullmatch(text)
        if not text and not self._must_pass():
            self._unplayed = dice  # the player resigned after the throw
            return
        self._play(notation.PASS if passes else text, f"{dice}: {text}")

    def _must_pass(self) -> bool:
        try:
            self._game.parse_move(self._state[0], notation.PASS)
        except IllegalMove:
            return False
        return True

    def _play(self, what: str, told: str) -> None:
        game = self._game
        try:
            move = game.parse_move(self._state[0], what)
        except IllegalMove as error:
            raise MuGoError(f"{told[:44]}: {error}") from error
        self._state = game.play(self._state, np.array([move], np.int32), game.initial_history(self._state))
        self._moves.append(move)

    def _use_cube(self, what: str, number: str | None, player: int, cell: str) -> None:
        """Follow what a player does with the cube. Raises MuGoError if they can't."""
        assert self._names is not None
        value, doubles = int(number or 0), what in ("double", "redouble", "beaver", "raccoon")
        now = self._offer[1] if self._offer else self._cube
        problem = ""
        if not self._moves or self._game.is_over(self._state)[0] or self._unplayed or self._dropped is not None:
            problem = "not at this time"
        elif what in ("double", "redouble"):
            if self._offer or self._state[0, TURN] != player:
                problem = "not this player's turn"
            elif self._owner not in (-1, player):
                problem = "the cube is the other player's"
        elif self._offer is None or self._offer[0] == player:
            problem = "there is no double to answer"
        if doubles and not problem and value not in (0, 2 * now):
            problem = f"the cube was at {now}"
        if problem:
            raise MuGoError(f"{cell[:40]!r}: {problem}")
        if doubles:
            if what == "beaver":
                self._owner = player
            self._cube, self._offer = (self._cube if what.endswith("double") else now), (player, 2 * now)
            told = f"{what}s to {2 * now}"
        elif what in ("take", "accept"):
            self._owner = self._owner if self._beavered else player
            self._cube, self._offer, told = now, None, "takes"
        else:
            self._dropped, told = player, "drops"
        self._beavered = what in ("beaver", "raccoon")
        name = self._names[0 if (player == 0) == self.left_is_first else 1]
        self._remarks.setdefault(len(self._moves), []).append(f"{name} {told}")

    def ended(self) -> ReadGame:
        """The complete game. Raises MuGoError if it is incomplete or its result is wrong."""
        if self._names is None:
            raise _Unfinished(f"game {self.number} has no players; was the file cut off?")
        over = bool(self._game.is_over(self._state)[0])
        if not over and self._points is None and self._dropped is None:
            raise _Unfinished(f"game {self.number} has no result after {len(self._moves)} plies; was the file cut off?")
        played = _points(self._game, self._state[0]) * self._cube
        possible = [played]
        if over and self._length == 0 and self._cube == 1:  # Jacoby's rule: gammons count once the cube was turned
            possible.append(1 if played > 0 else -1)
        if not over and self._dropped is not None:
            possible = [self._cube if self._dropped == 1 else -self._cube]
        elif not over:
            possible = [sign * kind * self._cube for sign in (1, -1) for kind in (1, 2, 3)]
        points = possible[0] if self._points is None else self._points
        if points not in possible:
            given = f"{possible[0]:+d}" if len(possible) < 6 else f"{self._cube} times 1, 2 or 3"
            raise MuGoError(f"game {self.number}: {points:+d} points for the first player; the moves give {given}")
        names = self._names if self.left_is_first else self._names[::-1]
        end = "" if over else "resigned" if self._dropped is None else "a double was dropped"
        if not over and self._offer is not None and self._dropped is None:
            end = "a double was not answered"
        remarks = {ply: "; ".join(told) for ply, told in self._remarks.items()}
        return ReadGame(names, self._game.initial(1), self._moves, points, end, remarks=remarks)


# SGF


def gammon_sgf(
    game: Backgammon,
    moves: Sequence[int],
    text: RecordText,
    comments: Sequence[str] = (),
    resigned_by: int | None = None,
) -> str:
    """The SGF record of one game. text.first: the first player's name (W); comments: by ply, "" for none;
    resigned_by: the player who resigned.

    Raises IllegalMove for an illegal move.
    """
    played, last = turns(game, moves)
    nodes = []
    for turn in played:
        letters = "".join(_letter(point, turn.player) for step in turn.steps for point in step)
        comment = comments[turn.ply] if turn.ply < len(comments) else ""
        nodes.append(f";{COLOURS[turn.player]}[{turn.dice}{letters}]" + sgf_property("C", comment))
    points = _points(game, last, resigned_by)
    result = f"{COLOURS[points < 0]}+{abs(points)}{'' if resigned_by is None else 'R'}" if points else ""
    rules = "NoCube:Hypergammon3" if game.is_hypergammon else "NoCube"
    header = [
        sgf_property("FF", "4"),
        sgf_property("GM", "6"),
        sgf_property("CA", "UTF-8"),
        sgf_property("AP", "MuGo:1"),
        "MI[length:0][game:0][ws:0][bs:0]",
        sgf_property("PW", text.first),
        sgf_property("PB", text.second),
        sgf_property("EV", text.event),
        sgf_property("RO", text.round),
        sgf_property("RU", rules),
        sgf_property("RE", result),
        sgf_property("C", text.comment),
    ]
    return f"(;{''.join(header)}\n" + "\n".join(nodes) + ")\n"


def _letter(point: int, player: int) -> str:
    """The SGF letter of a point in this player's own numbering."""
    if point in (0, ENTERING):
        return "z" if point == 0 else "y"
    return chr(ord("a") + (point - 1 if player == 0 else NUM_POINTS - point))
