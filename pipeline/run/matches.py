"""Matches: one folder each, ``CHALLENGER-vs-CHAMPION/``, from which an interrupted match is resumed.

    games.jsonl   the first line says what is played (players, settings, openings); each further line is a finished
                  game, a failed game or an addition of openings. Lines are appended and synced in small groups; a
                  line that a kill cut off doesn't count
    summary.json  the result, written when the match is decided
    results.json  the results of the games without their moves; a copy
    sgf/          game records, if the game has SGF

Games 2k and 2k+1 are pair k and play opening k; the challenger moves first in game 2k. If a player takes a handicap, it
is the first player (black) in every game, and game k plays opening k: its stones, then its moves, white's first. Later
openings continue the numbers. A game that failed may be played again: failures don't count.

Most readers of matches need the results of games, not their moves, and parsing moves takes nearly all the time. So
results.json has a row for each game in the first ``num_bytes`` bytes of games.jsonl, with the checksum of these bytes
and the openings added in them. Games after these bytes are read from games.jsonl, so reading a match that grows costs
only its new games. results.json has only games that were verified by the rules. It may be deleted, and is used only if
it is undamaged and games.jsonl begins with exactly these bytes. ``ratings``, ``tournament`` and ``evaluate`` replace it
as a whole; two of them may do so at once.

Sides: 0 the challenger, 1 the champion; players: 0 moves first, 1 second. Results are from the first player's view,
values of a move from the view of the player who made it; the names say so. This module plays nothing and doesn't know
what a result means: see matches/ and evaluate/.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator

from pipeline.errors import FileError, GamesDiffer, IllegalMove, UsageError
from pipeline.games.capabilities import recalled
from pipeline.games.contract import Game, States
from pipeline.games.replay import IllegalRecord, handicap_start, replay
from pipeline.games.specs import recorded_game
from pipeline.run import atomic, layout
from pipeline.run.store.base import current_store

GAMES_AT_ONCE = 2_048  # verified together: bounds the memory of their histories
SIDES = ("challenger", "champion")
RESULT = ("wins", "draws", "losses", "passed")  # of a summary: they tell one result of the match from another
# In a summary:
MEASURED = "measured"  # the games with numbers below this one decide the match
PENDING = "promotion_pending"  # decided, but best_model may not be re-pointed yet

# A finished game in results.json: its number, its plies, the index of its end in the file's list of ends, its result
# from the first player's view, and the checksum of its moves
ROW = np.dtype([("index", "<u4"), ("length", "<u4"), ("end", "|u1"), ("result", "<f8"), ("moves", "<u8")])

# The lines of games.jsonl


End = Literal["played_out", "move_limit", "resigned"]
Moves = list[Annotated[int, Field(ge=0, le=2**16 - 1)]]
Texts = tuple[tuple[str, Annotated[int, Field(ge=0, le=2**32 - 1)]], ...]


class PlayerInfo(BaseModel, frozen=True):
    """The player of one side."""

    name: str = Field(description="Unique in the match, and fit for a folder.")
    kind: str = Field(description="model, or a name at the extension point mugo.players, e.g. random")
    spec: str = Field(description="The spec string that named the player.")
    readouts: int | None = Field(None, description="Simulations per move; models only.")
    weights: str = Field("", description="SHA-256 of a model's weights.")
    parents: list[str] = Field([], description="The models it was trained from, as they are rated.")
    handicap: int = Field(0, ge=0, le=99, description="Its stones on the board, as black, before white begins.")

    @field_validator("name")
    @classmethod
    def _is_fit(cls, name: str) -> str:
        try:
            return layout.check_player_name(name)
        except UsageError as error:
            raise ValueError(str(error)) from error

    @property
    def rated_as(self) -> str:
        """The name in ratings. It includes what determines the strength: a model's readouts, a player's stones."""
        stones = handicap_suffix(self.handicap)
        name = self.name.removesuffix(stones)
        if self.kind == "model" and not re.search(r"@\d+$", name):
            name = f"{name}@{self.readouts}"
        return name + stones


def handicap_suffix(stones: int) -> str:
    """The end of the name of a player that takes handicap stones; empty if it takes none."""
    return f"-h{stones}" if stones else ""


def challenger_player(index: int, handicap_side: int | None) -> int:
    """Which player of game `index` the challenger is: they alternate, unless a side takes a handicap."""
    return index % 2 if handicap_side is None else handicap_side


def games_per_opening(handicap_side: int | None) -> int:
    """Two, with colours swapped; one if a side takes a handicap, because it is black in all games."""
    return 2 if handicap_side is None else 1


class MatchHeader(BaseModel, frozen=True):
    """The first line of games.jsonl. Two runs with the same header play the same match."""

    format: Literal["mugo-match"] = "mugo-match"
    version: Literal[1] = 1
    players: tuple[PlayerInfo, PlayerInfo] = Field(description="Challenger, champion.")
    game: str = Field(description="Canonical game spec.")
    games: int = Field(description="Games to play, without those of openings added later; even.", ge=0, multiple_of=2)
    threshold: float | None = Field(
        ge=-3,
        le=1,
        description="Share of games to win, or points per game if max_result is above 1; None: derived from the "
        "number of games.",
    )
    settings: dict[str, Any] = Field(description="All else that the games depend on: search, opening plies, seed …")
    openings: list[Moves] = Field(description="First moves of games 2k and 2k+1; with a handicap, of game k.")
    stones: list[Moves] = Field([], description="Points of the handicap stones of game k, in the order placed.")
    max_result: float = Field(1.0, gt=0, lt=1000, description="The most points that a game counts.")
    created: str = Field(
        default_factory=lambda: atomic.utc_now("microseconds"), description="Ratings count matches in this order."
    )

    @model_validator(mode="after")
    def _fits_together(self) -> MatchHeader:
        if self.challenger == self.champion:
            raise ValueError(f"both players are named {self.champion}")
        if len(self.openings) * games_per_opening(self.handicap_side) != self.games:
            raise ValueError(f"{len(self.openings)} openings for {self.games} games")
        if self.handicap and (self.max_result != 1 or all(player.handicap for player in self.players)):
            raise ValueError(f"handicaps of {[player.handicap for player in self.players]} stones")
        self.check_stones(self.openings, self.stones)
        return self

    def check_stones(self, openings: Sequence[Moves], stones: Sequence[Moves]) -> None:
        """Raises ValueError unless these openings have the handicap stones of this match."""
        wanted = len(openings) if self.handicap else 0
        if len(stones) != wanted or any(len(points) != self.handicap for points in stones):
            raise ValueError(
                f"stones for {len(stones)} openings; wanted {self.handicap} each for {wanted} of {len(openings)}"
            )

    @property
    def handicap(self) -> int:
        """The stones of the player that takes a handicap; 0: an even match."""
        return max(player.handicap for player in self.players)

    @property
    def handicap_side(self) -> int | None:
        """The side that takes the handicap."""
        return None if not self.handicap else int(self.players[1].handicap > 0)

    @property
    def games_per_opening(self) -> int:
        return games_per_opening(self.handicap_side)

    @property
    def is_of_models(self) -> bool:
        """Whether both players are models: only then can the match promote."""
        return all(player.kind == "model" for player in self.players)

    @property
    def challenger(self) -> str:
        return self.players[0].name

    @property
    def champion(self) -> str:
        return self.players[1].name


def _is_empty(value: tuple[object, ...]) -> bool:
    return not value


class MatchGame(BaseModel, frozen=True, extra="forbid"):
    """One finished game: a line of games.jsonl. Its opening is the first opening_plies of moves."""

    index: int = Field(ge=0)
    challenger_player: Literal[0, 1] = Field(description="0: the challenger is the first player, black.")
    opening_plies: int = Field(ge=0)
    stones: Moves = Field([], description="Black's handicap stones, placed before white's first move.")
    moves: Moves
    said: Texts = Field((), exclude_if=_is_empty, description="The texts among the moves, see games/capabilities.py.")
    values_to_move: list[float | None] = Field(
        description="Root value at each move, from its player's view; None: an opening move, or no value known."
    )
    result_first_player: int | float = Field(description="Points; whole numbers are integers.")
    end: End = Field(
        description="move_limit: cut off before the rules ended it; resigned: by the player to move after the last one."
    )

    @property
    def length(self) -> int:
        """Plies, the opening included."""
        return len(self.moves)

    @property
    def identity(self) -> object:
        """The same for games with the same moves, colours and handicap stones."""
        return self.challenger_player, tuple(self.stones), tuple(self.moves), tuple(text for text, _ in self.said)

    @property
    def challenger_began(self) -> bool:
        """Whether the challenger made the first move: as the first player, or against handicap stones."""
        return (self.challenger_player == 0) != bool(self.stones)

    @property
    def challenger_result(self) -> float:
        """Points: above 0 won, 0 drawn, below lost."""
        return self.result_first_player if self.challenger_player == 0 else -self.result_first_player


class MatchFailure(BaseModel, frozen=True, extra="forbid"):
    """A failed attempt at a game: a line of games.jsonl. The game is tried again."""

    failed: int = Field(description="Index of the game.", ge=0)
    attempt: int = Field(description="1: the first attempt.", ge=1)
    kind: str = Field(
        description="broken, protocol, refusal, illegal or crash: see players/player.py; game: its own program failed."
    )
    player: str = Field(description="The player at fault; empty if none is known.")
    problem: str
    moves: Moves = Field(description="Those known.")
    said: Texts = Field((), exclude_if=_is_empty, description="As in MatchGame.")


class MoreOpenings(BaseModel, frozen=True, extra="forbid"):
    """Openings added to the match: a line of games.jsonl. stones: as in the header."""

    more: list[Moves]
    stones: list[Moves] = []


# Matches


class UnknownGame(FileError):
    """The record of a game whose rules aren't known here. A data file doesn't load another package's game."""


@dataclass(frozen=True)
class Match:
    """A match as it is on disk.

    openings  of pairs 0, 1, 2 …; with a handicap, of games 0, 1, 2 …
    games     by index
    failures  in the order of their lines
    summary   None before the match is decided
    stones    of each opening; empty without a handicap
    """

    folder: Path
    header: MatchHeader
    openings: list[list[int]]
    games: list[MatchGame]
    failures: list[MatchFailure]
    summary: dict[str, Any] | None
    stones: Sequence[Sequence[int]] = ()

    @property
    def num_games(self) -> int:
        """All games of the match, those still to be played included."""
        return self.header.games_per_opening * len(self.openings)

    @property
    def failed(self) -> frozenset[int]:
        """Indexes of games that failed at least once."""
        return frozenset(failure.failed for failure in self.failures)


# Reading


def list_matches(directory: Path, challenger: str = "", since: int = -1) -> list[Path]:
    """The match folders in a directory, by name; none if it is missing. challenger: only its matches; since: only
    matches of a model with this number or a higher one.
    """
    begin = f"{challenger}{layout.VERSUS}" if challenger else ""
    names = sorted(name for name in atomic.names_in(directory) if name.startswith(begin))
    names = [name for name in names if layout.parse_match_name(name) and (since < 0 or _newest_number(name) >= since)]
    return list(filter(_is_match, (directory / name for name in names)))


def newest_matches(directory: Path) -> Iterator[Path]:
    """All match folders, the newest model's first and those without a model last."""
    names = filter(layout.parse_match_name, atomic.names_in(directory))
    newest_first = [directory / name for _, name in sorted((_newest_number(name), name) for name in names)[::-1]]
    return filter(_is_match, newest_first)


def _is_match(folder: Path) -> bool:
    return (folder / layout.MATCH_GAMES).is_file() or current_store().is_listed(folder)


def _newest_number(name: str) -> int:
    numbers = (layout.number_of(player.partition("@")[0]) for player in layout.parse_match_name(name) or ())
    return max((number for number in numbers if number is not None), default=-1)


def read_match(folder: Path, with_summary: bool = True) -> Match:
    """Raises FileError if a file is missing, damaged or of another version. with_summary: read summary.json."""
    found, data, start = begin_lines(folder)
    take_lines(found, data, start)
    games = sorted(found.games.values(), key=lambda game: game.index)
    summary = read_summary(folder) if with_summary else None
    return Match(folder, found.header, found.openings, games, found.failures, summary, found.stones)


def has_match(folder: Path) -> bool:
    return atomic.exists(folder / layout.MATCH_GAMES)  # also False for a name that the file system refuses


def read_summary(folder: Path) -> dict[str, Any] | None:
    """summary.json; None if there is none. Raises FileError if it is damaged."""
    path = folder / layout.MATCH_SUMMARY
    if not atomic.exists(path):
        return None
    summary = atomic.read_json(path, "the summary of a match")
    measured = summary.get(MEASURED)
    if not isinstance(measured, int) or isinstance(measured, bool):
        raise FileError(path, f"damaged: {MEASURED} is {str(measured)[:40]}; wanted a number of games")
    return summary


@dataclass
class MatchLines:
    """The lines of games.jsonl read so far.

    openings, stones  the header's and the added ones
    games             finished ones by index
    failures          in the order of their lines
    before            indexes of finished games that results.json has, and `games` hasn't
    """

    folder: Path
    header: MatchHeader
    openings: list[list[int]]
    games: dict[int, MatchGame] = field(default_factory=dict)
    failures: list[MatchFailure] = field(default_factory=list)
    before: frozenset[int] = frozenset()
    stones: list[list[int]] = field(default_factory=list)

    @property
    def num_games(self) -> int:
        """Including those still to be played."""
        return self.header.games_per_opening * len(self.openings)

    def check(self, line: MatchGame | MatchFailure) -> None:
        """Raises ValueError unless the line fits this match."""
        index = line.index if isinstance(line, MatchGame) else line.failed
        if index >= self.num_games:
            raise ValueError(f"game {index} of {self.num_games}")
        if isinstance(line, MatchGame):
            self._check_game(line)

    def _check_game(self, game: MatchGame) -> None:
        header, name = self.header, f"game {game.index}"
        most, result = header.max_result, game.result_first_player
        if not abs(result) <= most or (most == 1 and result % 1):
            raise ValueError(f"{name}: a result of {result:g}; it counts {most:g}")
        if game.challenger_player != challenger_player(game.index, header.handicap_side):
            began = (game.challenger_player == 0) == (header.handicap_side is None)
            found, wanted = ("first", "second") if began else ("second", "first")
            raise ValueError(f"{name}: the challenger moves {found}, it must move {wanted}")
        number = game.index // header.games_per_opening
        opening = self.openings[number]
        if game.stones != (self.stones[number] if self.stones else []):
            raise ValueError(f"{name}: it doesn't begin with the handicap stones of its opening")
        if game.moves[: game.opening_plies] != opening or game.opening_plies != len(opening):
            raise ValueError(f"{name}: it doesn't begin with its opening")
        if len(game.values_to_move) != len(game.moves):
            raise ValueError(f"{name}: {len(game.values_to_move)} values for {len(game.moves)} moves")

    def take(self, line: bytes) -> None:
        """Add a line after the first. Raises ValueError that says what is wrong with it."""
        raw = atomic.load_json(line)
        if not isinstance(raw, dict):
            raise ValueError(f"a JSON {type(raw).__name__}")
        if "more" in raw:
            self.take_more(MoreOpenings.model_validate(raw))
        elif "failed" in raw:
            failure = MatchFailure.model_validate(raw)
            self.check(failure)
            self.failures.append(failure)
        else:
            game = MatchGame.model_validate(raw)
            self.check(game)
            if game.index in self.games or game.index in self.before:
                raise ValueError(f"game {game.index} appears twice")
            self.games[game.index] = game

    def take_more(self, added: MoreOpenings) -> None:
        """Add openings. Raises ValueError if they don't fit this match."""
        self.header.check_stones(added.more, added.stones)
        self.openings += added.more
        self.stones += added.stones


def begin_lines(folder: Path) -> tuple[MatchLines, bytes, int]:
    """(the first line's contents, the whole lines of games.jsonl, where the second one begins). Raises FileError.

    A last line that is being written or was cut off is left out.
    """
    path = folder / layout.MATCH_GAMES
    data = atomic.read_bytes(path, "the games of a match")
    data = data[: data.rfind(b"\n") + 1]
    start = data.find(b"\n") + 1
    wanted = "the description of a match in its first line; remove the folder to play the match again"
    raw = atomic.parse_json(path, data[:start], wanted)
    header = atomic.parse_record(path, MatchHeader, raw, wanted)
    if missing := MatchHeader.model_fields.keys() - raw.keys():
        raise FileError(path, f"damaged: {min(missing)} is missing; wanted {wanted}")
    return MatchLines(folder, header, list(header.openings), stones=list(header.stones)), data, start


def take_lines(found: MatchLines, data: bytes, start: int) -> None:
    """Add the lines of data from byte `start` on. Raises FileError that says which line is damaged and how."""
    path = found.folder / layout.MATCH_GAMES
    lines = data[start:].split(b"\n")[:-1]
    for number, line in enumerate(lines, start=data.count(b"\n", 0, start) + 1):
        try:
            found.take(line)
        except ValueError as error:
            # Later games may play these openings, so they can't stay without them.
            remedy = "that line and all that follow" if line.startswith(b'{"more"') else "that line to replay it"
            problem = atomic.first_problem(error) if isinstance(error, ValidationError) else str(error)
            wanted = f"wanted a game of this match; remove {remedy}"
            raise FileError(path, f"damaged at line {number}: {problem}; {wanted}") from error


def verify_match(match: Match) -> None:
    """Replay its games; see verify_games. Raises UnknownGame if the rules of its game aren't known here."""
    path = match.folder / layout.MATCH_GAMES
    try:
        game = recorded_game(match.header.game)
    except UsageError as error:
        raise UnknownGame(path, f"{error}; wanted a game that this program knows") from error
    verify_games(path, game, match.games)


def verify_games(path: Path, game: Game, games: Sequence[MatchGame]) -> None:
    """Replay every game. Raises FileError if a move is illegal or the moves don't lead to the result.

    A resigned game must not be over, and the player to move must have lost it. Raises GamesDiffer if all is well but
    for games whose texts can't be replayed as recorded.
    """
    intact: list[tuple[MatchGame, list[int]]] = []
    differ: dict[int, str] = {}
    for one in games:
        try:
            intact.append((one, recalled(game, one.moves, one.said)))
        except IllegalMove as error:
            differ[one.index] = f"{error}; remove that line to replay it"
    for start in range(0, len(intact), GAMES_AT_ONCE):
        _verify(path, game, sorted(intact[start : start + GAMES_AT_ONCE], key=lambda pair: -pair[0].length))
    if differ:
        raise GamesDiffer(path, differ)


def _verify(path: Path, game: Game, recorded: Sequence[tuple[MatchGame, Sequence[int]]]) -> None:
    """recorded: games, the longest first, with their moves in this process."""
    games = [one for one, _ in recorded]
    lengths = np.array([one.length for one in games], np.int64)
    moves = np.full((int(lengths.max()), len(games)), -1, np.int32)
    for row, (one, actions) in enumerate(recorded):
        moves[: one.length, row] = actions
    states = np.empty((len(games), game.state_size), np.int16)
    starts = _starts(path, game, games)
    try:
        for reached, _ in replay(game, moves, lengths, starts):
            states[: len(reached)] = reached
    except IllegalRecord as error:
        found = f"game {games[error.row].index}, ply {error.ply}: {error}"
        raise FileError(path, f"{found}; wanted legal moves; remove that line to replay it") from error
    resigned = np.array([one.end == "resigned" for one in games])
    results = np.where(resigned, np.where(game.to_move(states) == 0, -1, 1), game.returns(states))
    wrong = (game.is_over(states) == resigned) | (results != [one.result_first_player for one in games])
    if wrong.any():
        one = games[int(wrong.argmax())]
        found = f"game {one.index}: its moves don't lead to its result {one.result_first_player} ({one.end})"
        raise FileError(path, f"{found}; wanted the games of this match; remove that line to replay it")


def _starts(path: Path, game: Game, games: Sequence[MatchGame]) -> States | None:
    """[G, S] the states after handicap stones; None: there are none. Raises FileError for illegal ones."""
    if not any(one.stones for one in games):
        return None
    starts = []
    for one in games:
        try:
            starts.append(handicap_start(game, one.stones))
        except IllegalMove as error:
            wanted = "wanted handicap stones on free points of its board; remove that line to replay it"
            raise FileError(path, f"game {one.index}: {error}; {wanted}") from error
    return np.concatenate(starts)


# Writing


@dataclass
class MatchWriter(MatchLines):
    """A match folder that only this process writes. Made by open_match. added: indexes of games added by add()."""

    added: set[int] = field(default_factory=set)

    def add(self, games: Sequence[MatchGame]) -> None:
        """Append finished games and sync them together. After a FileError none of them was added.

        If two attempts at a game were both finished, the first counts. Raises ValueError for a game that doesn't fit.
        """
        new: dict[int, MatchGame] = {}
        for game in games:
            self.check(game)
            if game.index not in self.games:
                new.setdefault(game.index, game)
        self._append(list(new.values()))
        self.games.update(new)
        self.added.update(new)

    def add_failure(self, failure: MatchFailure) -> None:
        """Append a failed game. After a FileError it wasn't added."""
        self.check(failure)
        self._append([failure])
        self.failures.append(failure)

    def extend(self, openings: Sequence[list[int]], stones: Sequence[list[int]] = ()) -> None:
        """Add openings, whose games are missing then. After a FileError none was added."""
        if openings:
            added = MoreOpenings(more=list(openings), stones=list(stones))
            self.header.check_stones(added.more, added.stones)
            self._append([added])
            self.take_more(added)

    def missing(self) -> list[int]:
        """Indexes of the games still to be played."""
        return [index for index in range(self.num_games) if index not in self.games]

    def _append(self, lines: Sequence[BaseModel]) -> None:
        if lines:
            atomic.append_line(self.folder / layout.MATCH_GAMES, "\n".join(line.model_dump_json() for line in lines))


BUSY = "this match is being played by another process; wait until it is done, or stop it and continue the match here"


def match_lock(folder: Path, busy: str = BUSY) -> AbstractContextManager[None]:
    """The lock of a match. Raises Busy with this text if another process holds it, FileError if it can't be made."""
    return atomic.file_lock(folder, wait=False, busy=f"{folder}: {busy}")


def open_match(folder: Path, header: MatchHeader) -> MatchWriter:
    """Continue the match in the folder, or begin it. Call it under match_lock.

    An existing match must have the same header, except for openings and time: the file's count. Raises FileError that
    names the first setting that differs, or if the folder can't be written.
    """
    path = folder / layout.MATCH_GAMES
    atomic.make_folder(folder)
    atomic.sweep(folder)
    if not atomic.exists(path):
        atomic.write_text(path, header.model_dump_json() + "\n")
        return MatchWriter(folder, header, list(header.openings), stones=list(header.stones))
    found, data, start = begin_lines(folder)
    take_lines(found, data, start)
    check_same_match(path, found.header, header)
    with atomic.os_errors(path):
        if path.stat().st_size > len(data):
            os.truncate(path, len(data))
    return MatchWriter(folder, found.header, found.openings, found.games, found.failures, stones=found.stones)


def check_same_match(path: Path, found: MatchHeader, wanted: MatchHeader) -> None:
    """Raises FileError that names the first difference, unless both headers describe the same match.

    Players are the same if kind, name, readouts, weights and handicap are, and the spec unless they are models.
    """
    now, before = _identity(wanted), _identity(found)
    for name in dict.fromkeys((*now, *before)):
        if now.get(name) != before.get(name):
            if name.endswith("weights"):
                difference = f"another {name.split(chr(39))[0]} of the same name: that model was made again since then;"
            else:
                values = f"{before.get(name)!r}, now it is {now.get(name)!r}"
                difference = f"{name} {values}; go on with the old setting,"
            remedy = "choose another --output-dir, or remove the folder"
            raise FileError(path, f"this match was begun with {difference} {remedy}")


def _identity(header: MatchHeader) -> dict[str, Any]:
    """What determines a match, by names for the user."""
    facts: dict[str, Any] = {"game": header.game}
    for side, player in zip(SIDES, header.players, strict=True):
        same = ("kind", "name", "readouts", "weights", "handicap")
        facts |= {f"{side}'s {name}": getattr(player, name) for name in same}
        if player.kind != "model":
            facts[f"{side}'s command"] = player.spec
    facts |= {"games": header.games, "threshold": header.threshold}
    return facts | json.loads(json.dumps(header.settings))  # tuples become lists, as in a file


def write_summary(folder: Path, summary: dict[str, Any]) -> None:
    """Write the summary and when the match was decided: when a summary with this result was first written."""
    before: dict[str, Any] = {}
    with suppress(FileError):  # a damaged summary is replaced
        before = read_summary(folder) or {}
    same = all(before.get(name) == summary.get(name) for name in RESULT)
    decided = (before.get("decided") if same else None) or atomic.utc_now()
    atomic.write_json(folder / layout.MATCH_SUMMARY, {**summary, "decided": decided}, indent=2)


# Results without moves


@dataclass(frozen=True, slots=True)
class GameResult:
    """A finished game without its moves; fields as in MatchGame."""

    index: int
    length: int
    end: str
    result_first_player: int | float
    moves_checksum: int
    challenger_player: int

    @property
    def challenger_result(self) -> float:
        """Points: above 0 won, 0 drawn, below lost."""
        return self.result_first_player if self.challenger_player == 0 else -self.result_first_player

    @property
    def identity(self) -> object:
        """The same for games with the same moves, colours and handicap stones."""
        return self.challenger_player, self.moves_checksum


@dataclass(frozen=True)
class MatchResults:
    """A match like Match, but without the moves of its games.

    num_games  including those still to be played
    num_bytes  of the whole lines of games.jsonl
    rows       [G] ROW, by index
    ends       the names of the games' ends
    failed     indexes of games that failed at least once
    summary    None before with_summary
    left_out   the error about games that can't be replayed as recorded; the rows lack them, they count for neither side
    """

    folder: Path
    header: MatchHeader
    num_games: int
    num_bytes: int
    rows: NDArray[Any]
    ends: tuple[str, ...]
    failed: frozenset[int]
    summary: dict[str, Any] | None = None
    left_out: GamesDiffer | None = None

    def with_summary(self) -> MatchResults:
        """A copy with the present summary.json. Raises FileError if that is damaged."""
        return replace(self, summary=read_summary(self.folder))

    @cached_property
    def games(self) -> list[GameResult]:
        """By index."""
        ends, side = self.ends, self.header.handicap_side
        return [
            GameResult(
                index, length, ends[end], int(points) if points.is_integer() else points, moves,
                challenger_player(index, side),
            )
            for index, length, end, points, moves in self.rows.tolist()
        ]  # fmt: skip


class KeptResults(BaseModel, frozen=True, extra="forbid"):
    """results.json."""

    format: Literal["mugo-match-results"] = "mugo-match-results"
    version: Literal[1] = 1
    num_bytes: int = Field(ge=0, description="Of games.jsonl, from its beginning; whole lines.")
    sha256: str = Field(description="Of these bytes.")
    num_more: int = Field(ge=0, description="Number of openings added after the header's.")
    more: str = Field(description="MoreOpenings of them, as JSON in a string.")
    ends: list[str] = Field(description="How games ended.")
    failed: list[int] = Field(description="Games that failed at least once.")
    rows: str = Field(description="ROW of each game, by index, in base64.")
    seal: str = Field("", description="SHA-256 of all of the above.")

    def sealed(self) -> str:
        return hashlib.sha256(self.model_dump_json(exclude={"seal"}).encode()).hexdigest()


def read_results(folder: Path, checked: bool = False, keep: bool = False) -> MatchResults:
    """The results of a match. Raises FileError if games.jsonl is missing or damaged.

    checked  verify the games that results.json doesn't have; raises like verify_match, but only leaves games out that
             can't be replayed as recorded
    keep     if checked, write a results.json that isn't up to date; a failure, as on a read-only disk, is ignored
    """
    found, data, start = begin_lines(folder)
    rows, ends, failed = np.zeros(0, ROW), list[str](), frozenset[int]()
    kept = _kept(found, data, start)
    if kept is not None:
        before, rows, more = kept
        start, ends, failed = before.num_bytes, before.ends, frozenset(before.failed)
        found.take_more(more)
    left_out: GamesDiffer | None = None
    is_new = kept is None or start < len(data)
    if is_new:
        found.before = frozenset(rows["index"].tolist())
        take_lines(found, data, start)
        if checked:
            try:
                verify_match(Match(folder, found.header, found.openings, list(found.games.values()), [], None))
            except GamesDiffer as error:
                left_out, keep = error, False
                found.games = {index: one for index, one in found.games.items() if index not in error.games}
        rows, ends = _with_new(found, rows, ends)
        failed |= {failure.failed for failure in found.failures} | (left_out.games if left_out else frozenset())
    results = MatchResults(
        folder, found.header, found.num_games, len(data), rows, tuple(ends), failed, left_out=left_out
    )
    if is_new and checked and keep:
        with suppress(FileError):
            _keep(results, found, data)
    return results


def _kept(found: MatchLines, data: bytes, first: int) -> tuple[KeptResults, NDArray[Any], MoreOpenings] | None:
    """(results.json, its rows, the openings added); None unless it is whole and fits the lines of games.jsonl, data.

    found: the contents of the first line; first: where the second begins.
    """
    try:
        kept = atomic.read_record(found.folder / layout.MATCH_RESULTS, KeptResults, "the results of a match")
        rows = np.frombuffer(base64.b64decode(kept.rows), ROW)
        more = MoreOpenings.model_validate(atomic.load_json(kept.more))
        found.header.check_stones(more.more, more.stones)
    except (FileError, ValueError):
        return None
    indexes = rows["index"]
    num_games = found.header.games_per_opening * (len(found.openings) + kept.num_more)
    fits = (
        kept.seal == kept.sealed()
        and kept.num_more == len(more.more)
        and first <= kept.num_bytes <= len(data)
        and (indexes[1:] > indexes[:-1]).all()
        and (indexes[-1:] < num_games).all()
        and (rows["end"] < len(kept.ends)).all()
        and (np.abs(rows["result"]) <= found.header.max_result).all()
        and hashlib.sha256(memoryview(data)[: kept.num_bytes]).hexdigest() == kept.sha256
    )
    return (kept, rows, more) if fits else None


def _with_new(found: MatchLines, rows: NDArray[Any], ends: Sequence[str]) -> tuple[NDArray[Any], list[str]]:
    """(rows, ends) with the games in found added."""
    games = found.games.values()
    ends = list(dict.fromkeys([*ends, *(game.end for game in games)]))
    new = []
    for game in games:
        moves = np.array([*game.stones, *game.moves], "<u2")  # all games of a match have equally many stones
        texts = json.dumps([text for text, _ in game.said]).encode() if game.said else b""
        checksum = int.from_bytes(hashlib.blake2b(moves.tobytes() + texts, digest_size=8).digest(), "little")
        new.append((game.index, game.length, ends.index(game.end), game.result_first_player, checksum))
    both = np.concatenate([rows, np.array(new, ROW)])
    return both[np.argsort(both["index"], kind="stable")], ends


def _keep(results: MatchResults, found: MatchLines, data: bytes) -> None:
    """Write results.json. data: the lines of games.jsonl, found: their contents."""
    atomic.sweep(results.folder)
    header = found.header
    more = MoreOpenings(more=found.openings[len(header.openings) :], stones=found.stones[len(header.stones) :])
    kept = KeptResults(
        num_bytes=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
        num_more=len(more.more),
        more=more.model_dump_json(),
        ends=list(results.ends),
        failed=sorted(results.failed),
        rows=base64.b64encode(results.rows.tobytes()).decode(),
    )
    whole = kept.model_copy(update={"seal": kept.sealed()})
    atomic.write_text(results.folder / layout.MATCH_RESULTS, whole.model_dump_json() + "\n", folder_sync=False)
