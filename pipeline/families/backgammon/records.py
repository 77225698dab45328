"""Game records for other programs: ``.mat``, which every backgammon program imports, and SGF as in GNU Backgammon.

Both describe money play without the cube. A .mat has two columns of turns, ``31: 8/5 6/5``, the first player's on the
left, and a line with the winner's points; a turn without a move has only dice. In SGF (GM[6]) the first player is W. A
turn has the dice and two letters for each step (from, to): W's points 1 to 24 are a to x, B's are x to a, the bar is y,
off is z. This module also reads .mat: complete games from the initial position, with every move checked.
Sources: GNU Backgammon's manual, "Import and export"; https://www.red-bean.com/sgf/backgammon.html
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from pathlib import Path

import numpy as np

from pipeline.errors import FileError, IllegalMove, MuGoError
from pipeline.families.backgammon import kernels, notation
from pipeline.families.backgammon.game import STARTS, Backgammon
from pipeline.families.backgammon.kernels import ENTERING, HIGH_DIE, LOW_DIE, NUM_POINTS, TURN
from pipeline.games.contract import CHANCE, AnyGame
from pipeline.games.records import PlayedGame, ReadGame, RecordFormat, RecordText
from pipeline.games.replay import replay_one
from pipeline.games.sgf import sgf_property
from pipeline.run import atomic

MAT_SUFFIX = ".mat"
COLUMN = 28  # width of the first player's column in a .mat, in characters
MOST_BYTES, MOST_LINE = 16 << 20, 500  # bytes of a file, characters of a line
COLOURS = "WB"  # by player; W first, as in GNU Backgammon

_ANY_CASE = re.IGNORECASE | re.ASCII
_GAME = re.compile(r"\s*Game\s+(\d{1,9})\s*", _ANY_CASE)
_MATCH = re.compile(r"\s*\d+ point match\s*", _ANY_CASE)
_PLAYERS = re.compile(r"\s*(\S.*?)\s*:\s*\d+\s+(\S.*?)\s*:\s*\d+\s*", re.ASCII)
_ROW = re.compile(r"\s*(\d+)\)(.*)", re.ASCII)
_TURN = re.compile(r"(\d)(\d):\s*([^:]*?)\s*(?=\d\d:|$)", re.ASCII)
_WINS = re.compile(r"\s*Wins\s+(\d{1,9})\s+points?.*", _ANY_CASE)
_NO_MOVE = re.compile(r"cannot move|can't move|\?{2,}", re.IGNORECASE)


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
    """The games of a .mat, replayed and checked. A game with a result but no final position was resigned.

    The player who makes the first turn becomes the first player, in either column.
    Raises FileError with the line, what was found and what was wanted; also for cube actions, which aren't supported.
    """
    data = atomic.read_bytes(path, "a match of backgammon (.mat)")
    if len(data) > MOST_BYTES:
        raise FileError(path, f"{len(data):,} bytes; at most {MOST_BYTES:,} are read")
    games: list[ReadGame] = []
    current: _Reader | None = None
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith(";"):
            continue
        if current is not None and len(line) > MOST_LINE:
            raise FileError(path, f"line {number}: {len(line):,} characters; wanted at most {MOST_LINE}")
        try:
            new_game = _GAME.fullmatch(line)
            if current is not None and (new_game or _MATCH.fullmatch(line)):
                games.append(current.ended())
                current = None
            if new_game:
                current = _Reader(game, int(new_game[1]))
            elif current is not None:
                current.take(line)
        except MuGoError as error:
            raise FileError(path, f"line {number}: {error}") from error
    try:
        games += [] if current is None else [current.ended()]
    except MuGoError as error:
        raise FileError(path, f"at its end: {error}") from error
    if not games:
        raise FileError(path, "no line 'Game 1'; wanted a match of backgammon (.mat)")
    return games


class _Reader:
    """Reads one game line by line."""

    def __init__(self, game: Backgammon, number: int) -> None:
        self._game, self._number = game, number
        self._names: tuple[str, str] | None = None
        self._state = game.initial(1)
        self._moves: list[int] = []
        self._left_is_first: bool | None = None
        self._points: int | None = None

    def take(self, line: str) -> None:
        """Read one line. Raises MuGoError if it is wrong."""
        if self._names is None:
            found = _PLAYERS.fullmatch(line)
            if found is None:
                raise MuGoError(f"{line.strip()[:40]!r}; wanted both players, e.g. 'white : 0    black : 0'")
            self._names = (found[1], found[2])
        elif found := _WINS.fullmatch(line):
            left = len(line) - len(line.lstrip()) < COLUMN
            self._points = int(found[1]) if left == (self._left_is_first is not False) else -int(found[1])
        elif found := _ROW.fullmatch(line):
            self._row(found[2])
        else:
            raise MuGoError(f"{line.strip()[:40]!r}; wanted turns, e.g. '1) 31: 8/5 6/5', or 'Wins 1 point'")

    def _row(self, text: str) -> None:
        if self._points is not None:
            raise MuGoError("a turn after the end of the game")
        found = list(_TURN.finditer(text))
        rest = _TURN.sub("", text).strip()
        if rest or len(found) > 2:
            raise MuGoError(f"{(rest or text.strip())[:40]!r}; wanted dice and moves, e.g. '31: 8/5 6/5'; no cube")
        for turn in found:
            on_left = turn.start() < COLUMN // 2 if len(found) == 1 else turn is found[0]
            if self._left_is_first is None:
                self._left_is_first = on_left
            self._turn(f"{turn[1]}{turn[2]}", turn[3], 0 if on_left == self._left_is_first else 1)

    def _turn(self, dice: str, text: str, player: int) -> None:
        game, state = self._game, self._state
        if game.is_over(state)[0]:
            raise MuGoError(f"{dice}: {text}: a turn after the end of the game")
        if state[0, TURN] != player:
            raise MuGoError(f"{dice}: {text}: a turn of the player who has just moved")
        for what in (dice, notation.PASS if _NO_MOVE.fullmatch(text) or not text else text):
            try:
                move = game.parse_move(self._state[0], what)
            except IllegalMove as error:
                raise MuGoError(f"{dice}: {text[:40]}: {error}") from error
            self._state = game.play(self._state, np.array([move], np.int32), game.initial_history(self._state))
            self._moves.append(move)

    def ended(self) -> ReadGame:
        """The complete game. Raises MuGoError if it is incomplete or its result is wrong."""
        if self._names is None:
            raise MuGoError(f"game {self._number} has no players; was the file cut off?")
        over = bool(self._game.is_over(self._state)[0])
        played = _points(self._game, self._state[0])
        if over and self._points not in (None, played):
            problem = f"{self._points:+d} points for the first player; the moves give {played:+d}"
            raise MuGoError(f"game {self._number}: {problem}")
        if not over and self._points is None:
            raise MuGoError(f"game {self._number} has no result after {len(self._moves)} plies; was the file cut off?")
        names = self._names if self._left_is_first is not False else self._names[::-1]
        start, points = self._game.initial(1), played if over else int(self._points or 0)
        return ReadGame(names, start, self._moves, points, "" if over else "resigned")


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
