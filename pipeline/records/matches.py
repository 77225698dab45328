"""Matches: a folder each, ``CHALLENGER-vs-CHAMPION/``, that an interrupted match is resumed from.

    games.jsonl   first line: what is played (models, settings, openings); then a line per finished game, in the order
                  of finishing. Appended to and synced in small groups; a line that a kill cut off is no game.
    summary.json  the result, written when the match is decided
    sgf/          game records, where the game has SGF

A game of a match is known by its index: games 2k and 2k+1 play opening k, the challenger moving first in the even one.
Results are seen by the first player, values of a move by the player who made it; the names say so. Doesn't play,
and doesn't know what a result means: see arena/.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pipeline.errors import FileError, IllegalMove
from pipeline.games.base import Game
from pipeline.records import atomic, layout

FORMAT, VERSION = "mugo-match", 1
End = Literal["played_out", "full_length"]


class MatchHeader(BaseModel):
    """The first line of games.jsonl: what is played. Two runs with the same settings play the same match."""

    model_config = ConfigDict(frozen=True, protected_namespaces=())

    format: Literal["mugo-match"] = "mugo-match"
    version: Literal[1] = 1
    challenger: str = Field(description="Name of the model that wants to be champion.")
    champion: str
    challenger_weights: str = Field(description="SHA-256 of its weights.")
    champion_weights: str
    game: str = Field(description="Canonical game spec.")
    games: int = Field(description="Games to play; even.", ge=0, multiple_of=2)
    threshold: float | None = Field(description="Share of games to win; None: derived from the number of games.")
    settings: dict[str, Any] = Field(description="Whatever else the games depend on: readouts, search, seed …")
    openings: list[list[int]] = Field(description="Moves of opening k, which games 2k and 2k+1 begin with.")
    created: str = Field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))


class MatchGame(BaseModel):
    """One finished game: a line of games.jsonl. Its opening is the first opening_plies of moves."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    index: int = Field(ge=0)
    challenger_player: Literal[0, 1] = Field(description="0: the challenger moved first.")
    opening_plies: int = Field(ge=0)
    moves: list[int]
    values_to_move: list[float | None] = Field(description="Root value at each move, by its mover; None: opening.")
    result_first_player: Literal[-1, 0, 1]
    end: End = Field(description="full_length: it lasted as many plies as the game allows (Go: the move limit).")

    @property
    def length(self) -> int:
        """Plies, the opening included."""
        return len(self.moves)

    @property
    def challenger_result(self) -> int:
        """+1 won, 0 drawn, −1 lost."""
        return self.result_first_player if self.challenger_player == 0 else -self.result_first_player


@dataclass(frozen=True)
class Match:
    """A match as far as it is on disk. games: sorted by index; summary: None before it is decided."""

    folder: Path
    header: MatchHeader
    games: list[MatchGame]
    summary: dict[str, Any] | None


# Reading


def list_matches(directory: Path) -> list[Path]:
    """The match folders in a directory, by name. A missing directory has none."""
    with atomic.os_errors(directory):
        try:
            names = os.listdir(directory)
        except FileNotFoundError:
            return []
    return [
        directory / name
        for name in sorted(filter(layout.parse_match_name, names))
        if (directory / name / layout.MATCH_GAMES).is_file()
    ]


def read_match(folder: Path) -> Match:
    """Everything of a match. Raises FileError if games.jsonl is missing, damaged, or of another version."""
    header, games, _ = _read_games(folder / layout.MATCH_GAMES)
    return Match(folder, header, sorted(games, key=lambda game: game.index), read_summary(folder))


def has_match(folder: Path) -> bool:
    return (folder / layout.MATCH_GAMES).exists()


def read_summary(folder: Path) -> dict[str, Any] | None:
    """summary.json; None if there is none. Raises FileError if it is damaged."""
    path = folder / layout.MATCH_SUMMARY
    return atomic.read_json(path, "the summary of a match") if path.exists() else None


def _read_games(path: Path) -> tuple[MatchHeader, list[MatchGame], int]:
    """Header, games in file order, and the length in bytes of what is whole: a last line without end doesn't count."""
    data = atomic.read_bytes(path, "the games of a match")
    whole = data.rfind(b"\n") + 1
    lines = data[:whole].splitlines()
    header = _header(path, lines[0] if lines else b"")
    games: dict[int, MatchGame] = {}
    for number, line in enumerate(lines[1:], start=2):
        try:
            game = MatchGame.model_validate_json(line)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "line"
            raise _damaged(path, number, f"{where}: {first['msg']}") from error
        problem = _disagreement(header, game)
        if problem is None and game.index in games:
            problem = f"game {game.index} stands twice"
        if problem is not None:
            raise _damaged(path, number, problem)
        games[game.index] = game
    return header, list(games.values()), whole


def _damaged(path: Path, line: int, problem: str) -> FileError:
    return FileError(
        path, f"damaged at line {line}: {problem}; wanted a game of this match; remove that line to replay it"
    )


def _header(path: Path, line: bytes) -> MatchHeader:
    wanted = "the description of a match in its first line; remove the folder to play the match again"
    try:
        raw = json.loads(line)
    except ValueError as error:
        raise FileError(path, f"damaged: its first line is not readable as JSON; wanted {wanted}") from error
    if not isinstance(raw, dict) or raw.get("format") != FORMAT:
        raise FileError(
            path, f"not a match: format {raw.get('format') if isinstance(raw, dict) else raw!r}; wanted {wanted}"
        )
    if raw.get("version") != VERSION:
        raise FileError(path, f"version {raw.get('version')!r}; this program reads version {VERSION}; update it")
    try:
        header = MatchHeader(**raw)
    except ValidationError as error:
        first = error.errors()[0]
        raise FileError(
            path, f"damaged: {'.'.join(map(str, first['loc']))}: {first['msg']}; wanted {wanted}"
        ) from error
    if len(header.openings) * 2 != header.games:
        raise FileError(path, f"damaged: {len(header.openings)} openings for {header.games} games; wanted {wanted}")
    return header


def _disagreement(header: MatchHeader, game: MatchGame) -> str | None:
    """What a game has that this match can't have; None if nothing."""
    if game.index >= header.games:
        return f"game {game.index} of {header.games}"
    if game.challenger_player != game.index % 2:
        found, wanted = ("first", "second") if game.index % 2 else ("second", "first")
        return f"game {game.index}: the challenger moves {found}, it must move {wanted}"
    opening = header.openings[game.index // 2]
    if game.moves[: game.opening_plies] != opening or game.opening_plies != len(opening):
        return f"game {game.index}: it doesn't begin with its opening"
    if len(game.values_to_move) != len(game.moves):
        return f"game {game.index}: {len(game.values_to_move)} values for {len(game.moves)} moves"
    return None


def verify_games(path: Path, game: Game, games: Sequence[MatchGame]) -> None:
    """Play every game again. Raises FileError if a move is illegal or a result isn't what the moves lead to."""
    if not games:
        return
    states = game.initial(len(games))
    history = game.initial_history(states)
    lengths = np.array([len(one.moves) for one in games], np.int64)
    for ply in range(int(lengths.max(initial=0))):
        rows = np.flatnonzero(lengths > ply)
        actions = np.array([games[row].moves[ply] for row in rows.tolist()], np.int32)
        try:
            states[rows] = game.play(states[rows], actions, history.select(rows))
        except IllegalMove as error:
            raise FileError(path, f"a game at ply {ply} ({error}); wanted legal moves; remove that line") from error
        history.append(rows, game.keys(states[rows]))
    wrong = ~game.is_over(states) | (game.returns(states) != [one.result_first_player for one in games])
    for row in np.flatnonzero(wrong).tolist():
        raise FileError(
            path,
            f"game {games[row].index}: its moves don't lead to its result {games[row].result_first_player}; wanted the "
            "games of this match; remove that line to replay it",
        )


# Writing


class MatchWriter:
    """A match folder that this process alone writes. Made by open_match.

    games: those finished so far, by index; added: indexes of those that came through add().
    """

    def __init__(self, folder: Path, header: MatchHeader, games: Sequence[MatchGame]) -> None:
        self.folder = folder
        self.header = header
        self.games = {game.index: game for game in games}
        self.added: set[int] = set()

    def add(self, games: Sequence[MatchGame]) -> None:
        """Append finished games and sync them, once for all. Raises FileError; then none of them is there."""
        if not games:
            return
        lines = "\n".join(game.model_dump_json() for game in games)
        atomic.append_line(self.folder / layout.MATCH_GAMES, lines)
        self.games.update({game.index: game for game in games})
        self.added.update(game.index for game in games)

    def missing(self) -> list[int]:
        """Indexes of the games that are still to be played."""
        return [index for index in range(self.header.games) if index not in self.games]


@contextmanager
def match_lock(folder: Path) -> Iterator[None]:
    """Hold a match against other processes. Raises FileError if one holds it, or if the folder can't be made."""
    atomic.make_folder(folder.parent)
    with atomic.file_lock(folder, wait=False):
        yield


def open_match(folder: Path, header: MatchHeader) -> MatchWriter:
    """Go on with the match in the folder, or begin it; call it under match_lock.

    Where there is one, header must say the same as its first line, apart from openings and time, which are taken from
    there. Raises FileError that names the first setting that differs, and if the folder can't be written.
    """
    path = folder / layout.MATCH_GAMES
    if not path.exists():
        atomic.make_folder(folder)
        atomic.sweep(folder)
        atomic.write_text(path, header.model_dump_json() + "\n")
        return MatchWriter(folder, header, [])
    found, games, whole = _read_games(path)
    check_same_match(path, found, header)
    with atomic.os_errors(path):
        if path.stat().st_size > whole:
            os.truncate(path, whole)
    return MatchWriter(folder, found, games)


def check_same_match(path: Path, found: MatchHeader, wanted: MatchHeader) -> None:
    """Raises FileError unless both describe one match."""

    def flat(header: MatchHeader) -> dict[str, Any]:
        lines = json.loads(header.model_dump_json(exclude={"openings", "created", "settings"}))
        return {**lines, **json.loads(json.dumps(header.settings))}

    ours, theirs = flat(wanted), flat(found)
    for name in dict.fromkeys((*ours, *theirs)):
        if ours.get(name) != theirs.get(name):
            raise FileError(
                path,
                f"this match was begun with {name} {theirs.get(name)!r}, now it is {ours.get(name)!r}; go on with the "
                "old setting, choose another --output-dir, or remove the folder",
            )


def write_summary(folder: Path, summary: dict[str, Any]) -> None:
    atomic.write_json(folder / layout.MATCH_SUMMARY, summary, indent=2)
