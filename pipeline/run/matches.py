"""Matches: a folder each, ``CHALLENGER-vs-CHAMPION/``, from which an interrupted match is resumed.

    games.jsonl   first line: what is played (players, settings, openings); then, as they happen, a line per finished
                  game, per failed game, and per addition of openings. Lines are appended and synced in small groups; a
                  line that a kill cut off doesn't count
    summary.json  the result, written when the match is decided
    sgf/          game records, if the game has SGF

Games 2k and 2k+1 are pair k and play opening k; the challenger moves first in the even one. Where a player takes a
handicap it is the first player (black) of every game, and game k plays opening k: its stones, then its moves, of which
white makes the first. Openings that are added later continue the numbers. A game may fail and be played again: failures
don't count.

Sides: 0 the challenger, 1 the champion; players: 0 moves first, 1 second. Results are seen by the first player, values
of a move by the player who made it; the names say so. Plays nothing, and doesn't know what a result means: see matches/
and evaluate/.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator

from pipeline.errors import FileError, IllegalMove, UsageError
from pipeline.games.contract import Game, States
from pipeline.games.replay import IllegalRecord, handicap_start, replay
from pipeline.games.specs import recorded_game
from pipeline.run import atomic, layout
from pipeline.run.store.base import current_store

GAMES_AT_ONCE = 2_048  # verified together: bounds the memory of their histories
SIDES = ("challenger", "champion")
RESULT = ("wins", "draws", "losses", "passed")  # in a summary: the match's, whatever came of it
MEASURED = "measured"  # in a summary: the games below this number decide the match

# The lines of games.jsonl


End = Literal["played_out", "move_limit", "resigned"]
Moves = list[Annotated[int, Field(ge=0, le=2**16 - 1)]]


class PlayerInfo(BaseModel, frozen=True):
    """The player of one side."""

    name: str = Field(description="Unique in the match, and fit for a folder.")
    kind: str = Field(description="model, or what offers it at the extension point mugo.players, e.g. random")
    spec: str = Field(description="The spec string that named the player.")
    readouts: int | None = Field(None, description="Simulations per move; models only.")
    weights: str = Field("", description="SHA-256 of a model's weights.")
    parents: list[str] = Field([], description="The models it was trained from, as they are rated.")
    handicap: int = Field(0, ge=0, le=99, description="Stones that it has on the board, as black, when white begins.")

    @field_validator("name")
    @classmethod
    def _is_fit(cls, name: str) -> str:
        try:
            return layout.check_player_name(name)
        except UsageError as error:
            raise ValueError(str(error)) from error

    @property
    def rated_as(self) -> str:
        """The name in ratings. A model's has its readouts, which determine how strong it is, and so do its stones."""
        stones = handicap_suffix(self.handicap)
        name = self.name.removesuffix(stones)
        if self.kind == "model" and not re.search(r"@\d+$", name):
            name = f"{name}@{self.readouts}"
        return name + stones


def handicap_suffix(stones: int) -> str:
    """What the name of a player ends with that takes so many handicap stones; empty for none."""
    return f"-h{stones}" if stones else ""


def challenger_player(index: int, handicap_side: int | None) -> int:
    """Which player of game `index` the challenger is: by turns, or always the same where a side takes a handicap."""
    return index % 2 if handicap_side is None else handicap_side


def games_per_opening(handicap_side: int | None) -> int:
    """Two, with colours swapped; one where a side takes a handicap, since it is black in all games."""
    return 2 if handicap_side is None else 1


class MatchHeader(BaseModel, frozen=True):
    """The first line of games.jsonl: what is played. Two runs with the same settings play the same match."""

    format: Literal["mugo-match"] = "mugo-match"
    version: Literal[1] = 1
    players: tuple[PlayerInfo, PlayerInfo] = Field(description="Challenger, champion.")
    game: str = Field(description="Canonical game spec.")
    games: int = Field(description="Games to play, without those of openings added later; even.", ge=0, multiple_of=2)
    threshold: float | None = Field(
        ge=-3,
        le=1,
        description="Share of games to win, or points per game where games count several; None: derived from the "
        "number of games.",
    )
    settings: dict[str, Any] = Field(description="All else that the games depend on: search, opening plies, seed …")
    openings: list[Moves] = Field(
        description="Moves of opening k, which games 2k and 2k+1 begin with; with a handicap, game k."
    )
    stones: list[Moves] = Field([], description="Points of the handicap stones of game k, as their player placed them.")
    max_result: float = Field(1.0, gt=0, lt=1000, description="The most that a game counts.")
    created: str = Field(default_factory=atomic.utc_now_exactly, description="Matches count in this order.")

    @model_validator(mode="after")
    def _fits_together(self) -> MatchHeader:
        if self.challenger == self.champion:
            raise ValueError(f"both players are called {self.champion}")
        if len(self.openings) * games_per_opening(self.handicap_side) != self.games:
            raise ValueError(f"{len(self.openings)} openings for {self.games} games")
        if self.handicap and (self.max_result != 1 or all(player.handicap for player in self.players)):
            raise ValueError(f"handicaps of {[player.handicap for player in self.players]} stones")
        self.check_stones(self.openings, self.stones)
        return self

    def check_stones(self, openings: Sequence[Moves], stones: Sequence[Moves]) -> None:
        """Raises ValueError unless these openings have the handicap stones that this match wants."""
        wanted = len(openings) if self.handicap else 0
        if len(stones) != wanted or any(len(points) != self.handicap for points in stones):
            raise ValueError(
                f"stones for {len(stones)} openings; wanted {self.handicap} each for {wanted} of {len(openings)}"
            )

    @property
    def handicap(self) -> int:
        """Stones that one of the players takes; 0: an even match."""
        return max(player.handicap for player in self.players)

    @property
    def handicap_side(self) -> int | None:
        """Which side takes them."""
        return None if not self.handicap else int(self.players[1].handicap > 0)

    @property
    def games_per_opening(self) -> int:
        return games_per_opening(self.handicap_side)

    def challenger_player(self, index: int) -> int:
        """Which player of game `index` the challenger is."""
        return challenger_player(index, self.handicap_side)

    @property
    def is_of_models(self) -> bool:
        """Whether both players are models: only such a match can promote."""
        return all(player.kind == "model" for player in self.players)

    @property
    def challenger(self) -> str:
        return self.players[0].name

    @property
    def champion(self) -> str:
        return self.players[1].name


class MatchGame(BaseModel, frozen=True, extra="forbid"):
    """One finished game: a line of games.jsonl. Its opening is the first opening_plies of moves."""

    index: int = Field(ge=0)
    challenger_player: Literal[0, 1] = Field(description="0: the challenger is the first player, black.")
    opening_plies: int = Field(ge=0)
    stones: Moves = Field([], description="Of black, there when white makes the first move.")
    moves: Moves
    values_to_move: list[float | None] = Field(
        description="Root value at each move, by its mover; None: opening, or the mover had no opinion."
    )
    result_first_player: int | float = Field(description="Points; as a whole number where it is one.")
    end: End = Field(
        description="move_limit: ended by it, though the rules would go on; resigned: the player to move after the "
        "last move gave up."
    )

    @property
    def length(self) -> int:
        """Plies, the opening included."""
        return len(self.moves)

    @property
    def identity(self) -> object:
        """The same for games with the same moves, colours and handicap stones."""
        return self.challenger_player, tuple(self.stones), tuple(self.moves)

    @property
    def challenger_began(self) -> bool:
        """Whether the challenger made the first move: as the first player, or against handicap stones."""
        return (self.challenger_player == 0) != bool(self.stones)

    @property
    def challenger_result(self) -> float:
        """Points: above 0 won, 0 drawn, below lost."""
        return self.result_first_player if self.challenger_player == 0 else -self.result_first_player


class MatchFailure(BaseModel, frozen=True, extra="forbid"):
    """An attempt at a game that failed: a line of games.jsonl. The game may fail again, or be played after all."""

    failed: int = Field(description="Index of the game.", ge=0)
    attempt: int = Field(description="1: the first time that it was tried.", ge=1)
    kind: str = Field(description="broken, protocol, refusal, illegal or crash: see players/player.py.")
    player: str = Field(description="The player at fault; empty if none is known.")
    problem: str
    moves: Moves = Field(description="As far as they are known.")


class MoreOpenings(BaseModel, frozen=True, extra="forbid"):
    """Openings added to the match: a line of games.jsonl. stones: as in the header."""

    more: list[Moves]
    stones: list[Moves] = []


# Matches


class UnknownGame(FileError):
    """A record of a game whose rules aren't known here: those of other packages aren't loaded for a file."""


@dataclass(frozen=True)
class Match:
    """A match as it is on disk.

    openings: of pair 0, 1, 2 …, with a handicap of game 0, 1, 2 …; games: sorted by index; failures: as they happened;
    summary: None before the match is decided; stones: of each opening, with a handicap.
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
        """Played or still to be played."""
        return self.header.games_per_opening * len(self.openings)

    @property
    def failed(self) -> frozenset[int]:
        """Indexes of games that failed at least once."""
        return frozenset(failure.failed for failure in self.failures)


# Reading


def list_matches(directory: Path, challenger: str = "", since: int = -1) -> list[Path]:
    """The match folders in a directory, by name. A missing directory has none.

    challenger: only its matches; since: only those of a model with this number or a higher one.
    """
    begin = f"{challenger}{layout.VERSUS}" if challenger else ""
    names = sorted(name for name in atomic.names_in(directory) if name.startswith(begin))
    names = [name for name in names if layout.parse_match_name(name) and (since < 0 or _newest_number(name) >= since)]
    return list(filter(_is_match, (directory / name for name in names)))


def newest_match(directory: Path) -> Path | None:
    """That of the newest model, whomever it met. None: there is none."""
    return next(newest_matches(directory), None)


def newest_matches(directory: Path) -> Iterator[Path]:
    """All of them, those of the newest model first: players without a number are of no age."""
    names = filter(layout.parse_match_name, atomic.names_in(directory))
    newest_first = [directory / name for _, name in sorted((_newest_number(name), name) for name in names)[::-1]]
    return filter(_is_match, newest_first)


def _is_match(folder: Path) -> bool:
    return (folder / layout.MATCH_GAMES).is_file() or current_store().is_listed(folder)


def _newest_number(name: str) -> int:
    models = (layout.parse_model_name(player.partition("@")[0]) for player in layout.parse_match_name(name) or ())
    return max((model.number for model in models if model), default=-1)


def read_match(folder: Path, with_summary: bool = True) -> Match:
    """Raises FileError if games.jsonl is missing, or a file is damaged or of another version.

    with_summary: False leaves summary.json unread and the summary None.
    """
    found, _ = _read_games(folder)
    games = sorted(found.games.values(), key=lambda game: game.index)
    summary = read_summary(folder) if with_summary else None
    return Match(folder, found.header, found.openings, games, found.failures, summary, found.stones)


def has_match(folder: Path) -> bool:
    return atomic.exists(folder / layout.MATCH_GAMES)  # False also for a name that no file system takes


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
    """The contents of games.jsonl.

    openings: all of them; games: finished ones by index; failures: as they happened; before: indexes of finished games
    in lines that were read earlier, and aren't among games; stones: as in the header, of all openings.
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
        """Played or still to be played."""
        return self.header.games_per_opening * len(self.openings)

    def check(self, line: MatchGame | MatchFailure) -> None:
        """Raises ValueError if it can't be of this match."""
        if isinstance(line, MatchGame):
            check_game(self.openings, line, self.header.max_result, self.header.handicap_side, self.stones)
        elif line.failed >= self.num_games:
            raise ValueError(f"game {line.failed} of {self.num_games}")

    def take(self, line: bytes) -> None:
        """Read a line after the first. Raises ValueError that says what is wrong with it."""
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
                raise ValueError(f"game {game.index} stands twice")
            self.games[game.index] = game

    def take_more(self, added: MoreOpenings) -> None:
        """Add openings. Raises ValueError for such as this match can't have."""
        self.header.check_stones(added.more, added.stones)
        self.openings += added.more
        self.stones += added.stones


def _read_games(folder: Path) -> tuple[MatchLines, int]:
    """All whole lines of games.jsonl, and the number of their bytes."""
    data = read_lines(folder)
    found, first = begin_lines(folder, data)
    take_lines(found, data, first)
    return found, len(data)


def read_lines(folder: Path) -> bytes:
    """The whole lines of games.jsonl: without one that is being written, or that a kill cut off. Raises FileError."""
    data = atomic.read_bytes(folder / layout.MATCH_GAMES, "the games of a match")
    return data[: data.rfind(b"\n") + 1]


def begin_lines(folder: Path, data: bytes) -> tuple[MatchLines, int]:
    """What the first line of data says, which read_lines found, and where the others begin. Raises FileError."""
    end = data.find(b"\n")
    header = _header(folder / layout.MATCH_GAMES, data[: max(end, 0)])
    return MatchLines(folder, header, list(header.openings), stones=list(header.stones)), end + 1


def take_lines(found: MatchLines, data: bytes, start: int) -> None:
    """Read the lines of data from byte `start` on. Raises FileError that says which line is damaged, and how."""
    path = found.folder / layout.MATCH_GAMES
    lines = data[start:].split(b"\n")[:-1]
    for number, line in enumerate(lines, start=data.count(b"\n", 0, start) + 1):
        try:
            found.take(line)
        except ValueError as error:
            # Later games may be those of these openings, so they can't stay without them.
            remedy = "that line and all that follow" if line.startswith(b'{"more"') else "that line to replay it"
            problem = atomic.first_problem(error) if isinstance(error, ValidationError) else str(error)
            wanted = f"wanted a game of this match; remove {remedy}"
            raise FileError(path, f"damaged at line {number}: {problem}; {wanted}") from error


def _header(path: Path, line: bytes) -> MatchHeader:
    wanted = "the description of a match in its first line; remove the folder to play the match again"
    raw = atomic.parse_json(path, line, wanted)
    header = atomic.parse_record(path, MatchHeader, raw, wanted)
    if missing := MatchHeader.model_fields.keys() - raw.keys():
        raise FileError(path, f"damaged: {min(missing)} is missing; wanted {wanted}")
    return header


def verify_match(match: Match) -> None:
    """Play its games again, like verify_games. Raises FileError also if the rules of its game aren't known here."""
    path = match.folder / layout.MATCH_GAMES
    try:
        game = recorded_game(match.header.game)
    except UsageError as error:
        raise UnknownGame(path, f"{error}; wanted a game that this program knows") from error
    verify_games(path, game, match.games)


def verify_games(path: Path, game: Game, games: Sequence[MatchGame]) -> None:
    """Play every game again. Raises FileError if a move is illegal or a result isn't what the moves lead to.

    A game that was resigned must not be over, and the player to move must have lost it.
    """
    for start in range(0, len(games), GAMES_AT_ONCE):
        _verify(path, game, games[start : start + GAMES_AT_ONCE])


def _verify(path: Path, game: Game, games: Sequence[MatchGame]) -> None:
    games = sorted(games, key=lambda one: -one.length)
    lengths = np.array([one.length for one in games], np.int64)
    moves = np.full((int(lengths.max()), len(games)), -1, np.int32)
    for row, one in enumerate(games):
        moves[: one.length, row] = one.moves
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
    """[G, S] where these games begin; None: without handicap stones. Raises FileError for stones that can't stand."""
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


def check_game(
    openings: Sequence[Sequence[int]],
    game: MatchGame,
    max_result: float = 1.0,
    handicap_side: int | None = None,
    stones: Sequence[Sequence[int]] = (),
) -> None:
    """Raises ValueError if a game can't be one of a match with these openings whose games count so much.

    handicap_side: who takes the stones of each opening; None: nobody.
    """
    num_games = games_per_opening(handicap_side) * len(openings)
    if not abs(game.result_first_player) <= max_result or (max_result == 1 and game.result_first_player % 1):
        raise ValueError(f"game {game.index}: a result of {game.result_first_player:g}; it counts {max_result:g}")
    if game.index >= num_games:
        raise ValueError(f"game {game.index} of {num_games}")
    if game.challenger_player != challenger_player(game.index, handicap_side):
        began = (game.challenger_player == 0) == (handicap_side is None)
        found, wanted = ("first", "second") if began else ("second", "first")
        raise ValueError(f"game {game.index}: the challenger moves {found}, it must move {wanted}")
    number = game.index // games_per_opening(handicap_side)
    opening = openings[number]
    if list(game.stones) != (list(stones[number]) if stones else []):
        raise ValueError(f"game {game.index}: it doesn't begin with the handicap stones of its opening")
    if game.moves[: game.opening_plies] != opening or game.opening_plies != len(opening):
        raise ValueError(f"game {game.index}: it doesn't begin with its opening")
    if len(game.values_to_move) != len(game.moves):
        raise ValueError(f"game {game.index}: {len(game.values_to_move)} values for {len(game.moves)} moves")


# Writing


@dataclass
class MatchWriter(MatchLines):
    """A match folder that only this process writes. Made by open_match. added: games that came through add()."""

    added: set[int] = field(default_factory=set)

    def add(self, games: Sequence[MatchGame]) -> None:
        """Append finished games and sync them together. Raises FileError; then none of them was added.

        Of two attempts at a game that both came to an end, the first counts. Raises ValueError for a game that this
        match can't have.
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
        """Append a failed game. Raises FileError; then it wasn't added."""
        self.check(failure)
        self._append([failure])
        self.failures.append(failure)

    def extend(self, openings: Sequence[list[int]], stones: Sequence[list[int]] = ()) -> None:
        """Add the games of these openings. Raises FileError; then none was added."""
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


BUSY = (
    "this match is being played by another process; wait until it is done, or stop that one and go on with the match "
    "here"
)


def match_lock(folder: Path, busy: str = BUSY) -> AbstractContextManager[None]:
    """The lock of a match. Raises Busy with this text if another process holds it, FileError if it can't be made."""
    return atomic.file_lock(folder, wait=False, busy=busy)


def open_match(folder: Path, header: MatchHeader) -> MatchWriter:
    """Go on with the match in the folder, or begin it; call it under match_lock.

    The header of an existing match must say the same, except for openings and time, which are taken from the file.
    Raises FileError that names the first setting that differs, and if the folder can't be written.
    """
    path = folder / layout.MATCH_GAMES
    atomic.make_folder(folder)
    atomic.sweep(folder)
    if not atomic.exists(path):
        atomic.write_text(path, header.model_dump_json() + "\n")
        return MatchWriter(folder, header, list(header.openings), stones=list(header.stones))
    found, num_bytes = _read_games(folder)
    check_same_match(path, found.header, header)
    with atomic.os_errors(path):
        if path.stat().st_size > num_bytes:
            os.truncate(path, num_bytes)
    return MatchWriter(folder, found.header, found.openings, found.games, found.failures, stones=found.stones)


def check_same_match(path: Path, found: MatchHeader, wanted: MatchHeader) -> None:
    """Raises FileError that names the first difference, unless both describe one match.

    A player is the same if its kind, name, readouts and weights are, and for any but a model its spec.
    """
    now, before = _identity(wanted), _identity(found)
    for name in dict.fromkeys((*now, *before)):
        if now.get(name) != before.get(name):
            if name.endswith("weights"):
                difference = f"another {name.split(chr(39))[0]} of the same name: that model was made anew since;"
            else:
                values = f"{before.get(name)!r}, now it is {now.get(name)!r}"
                difference = f"{name} {values}; go on with the old setting,"
            remedy = "choose another --output-dir, or remove the folder"
            raise FileError(path, f"this match was begun with {difference} {remedy}")


def _identity(header: MatchHeader) -> dict[str, Any]:
    """The facts that two descriptions of one match agree on, by names for the user."""
    facts: dict[str, Any] = {"game": header.game}
    for side, player in zip(SIDES, header.players, strict=True):
        same = ("kind", "name", "readouts", "weights", "handicap")
        facts |= {f"{side}'s {name}": getattr(player, name) for name in same}
        if player.kind != "model":
            facts[f"{side}'s command"] = player.spec
    facts |= {"games": header.games, "threshold": header.threshold}
    return facts | json.loads(json.dumps(header.settings))  # as read from a file: tuples become lists


def write_summary(folder: Path, summary: dict[str, Any]) -> None:
    """The summary, with the time at which the match was decided: when it was first written with this result."""
    before: dict[str, Any] = {}
    with suppress(FileError):  # a damaged one is replaced
        before = read_summary(folder) or {}
    same = all(before.get(name) == summary.get(name) for name in RESULT)
    decided = (before.get("decided") if same else None) or atomic.utc_now()
    atomic.write_json(folder / layout.MATCH_SUMMARY, {**summary, "decided": decided}, indent=2)
