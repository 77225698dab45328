"""The results of a match without its moves, kept beside the games: ``results.json`` in the match's folder.

Whoever rates or lists matches needs who won each game, not how, and reading the moves takes nearly all the time. So
``results.json`` says what the first bytes of games.jsonl come to: how many bytes, their checksum, the openings added
in them, and a row per game. Games after those bytes are read as ever, so a match that grows costs what is new in it.

It has only games that were played again by the rules. It is a copy: it may be deleted, and is believed only if it is
undamaged itself and games.jsonl begins with exactly those bytes, all of which are compared by their checksum. Otherwise
everything is read anew. It is replaced whole, by ``ratings``, ``tournament`` and ``evaluate``; two may do so at once.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from pipeline.errors import FileError
from pipeline.run import atomic, layout
from pipeline.run.matches import (
    Match,
    MatchGame,
    MatchHeader,
    MatchLines,
    MoreOpenings,
    begin_lines,
    read_lines,
    read_summary,
    take_lines,
    verify_match,
)

# A finished game: its number, its plies, the index of its end in the file's list of ends, its result as the first
# player sees it, and a checksum of its moves.
ROW = np.dtype([("index", "<u4"), ("length", "<u4"), ("end", "|u1"), ("result", "<f8"), ("moves", "<u8")])


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
    """A match as Match has it, its games without moves.

    num_games: played or still to be played; num_bytes: of games.jsonl, whole lines; rows: [G] ROW, by index; ends: the
    names of their ends; failed: indexes of games that failed at least once; summary: None before with_summary.
    """

    folder: Path
    header: MatchHeader
    num_games: int
    num_bytes: int
    rows: NDArray[Any]
    ends: tuple[str, ...]
    failed: frozenset[int]
    summary: dict[str, Any] | None = None

    def with_summary(self) -> MatchResults:
        """The same with what summary.json says now. Raises FileError if that is damaged."""
        return replace(self, summary=read_summary(self.folder))

    @cached_property
    def games(self) -> list[GameResult]:
        """By index."""
        return [
            GameResult(
                index,
                length,
                self.ends[end],
                int(result) if result.is_integer() else result,
                moves,
                self.header.challenger_player(index),
            )
            for index, length, end, result, moves in self.rows.tolist()
        ]


class KeptResults(BaseModel, frozen=True, extra="forbid"):
    """results.json."""

    format: Literal["mugo-match-results"] = "mugo-match-results"
    version: Literal[1] = 1
    num_bytes: int = Field(ge=0, description="Of games.jsonl, from its beginning; whole lines.")
    sha256: str = Field(description="Of those bytes.")
    num_more: int = Field(ge=0, description="Number of openings added after the header's.")
    more: str = Field(
        description="What lines of openings say of them, as JSON in a text: only games that are added need them."
    )
    ends: list[str] = Field(description="How games ended.")
    failed: list[int] = Field(description="Games that failed at least once.")
    rows: str = Field(description="ROW per game, by index, in base64.")
    seal: str = Field("", description="SHA-256 of all of the above.")

    def sealed(self) -> str:
        return hashlib.sha256(self.model_dump_json(exclude={"seal"}).encode()).hexdigest()


def read_results(folder: Path, checked: bool = False, keep: bool = False) -> MatchResults:
    """The results of a match. Raises FileError if games.jsonl is missing or damaged.

    checked  play the games again that results.json doesn't have, see verify_match for what that raises
    keep     write results.json if they were checked and it isn't up to date; nothing is said if that fails, as on a
             read-only disk
    """
    data = read_lines(folder)
    found, start = begin_lines(folder, data)
    kept, rows = _kept(found, data, start)
    ends: list[str] = []
    failed: frozenset[int] = frozenset()
    if kept is not None:
        failed = frozenset(kept.failed)
        if kept.num_bytes == len(data):
            num_games = _num_games(found, kept)
            return MatchResults(folder, found.header, num_games, len(data), rows, tuple(kept.ends), failed)
        found.take_more(_more(kept))
        found.before = frozenset(rows["index"].tolist())
        start, ends = kept.num_bytes, kept.ends
    take_lines(found, data, start)
    if checked:
        verify_match(Match(folder, found.header, found.openings, list(found.games.values()), [], None))
    rows, ends = _with_new(found, rows, ends)
    failed |= {failure.failed for failure in found.failures}
    results = MatchResults(folder, found.header, found.num_games, len(data), rows, tuple(ends), failed)
    if checked and keep:
        with suppress(FileError):
            begun = len(found.header.openings)
            added = MoreOpenings(more=found.openings[begun:], stones=found.stones[len(found.header.stones) :])
            _keep(results, added, data)
    return results


def _kept(found: MatchLines, data: bytes, first: int) -> tuple[KeptResults | None, NDArray[Any]]:
    """results.json and its rows, if it fits data, the lines of games.jsonl; else None and no rows.

    found: what the first of those lines says; first: where the second begins.
    """
    none = None, np.zeros(0, ROW)
    path = found.folder / layout.MATCH_RESULTS
    if not atomic.exists(path):
        return none
    try:
        kept = atomic.read_record(path, KeptResults, "the results of a match")
        rows = np.frombuffer(base64.b64decode(kept.rows), ROW)
        added = _more(kept)
        found.header.check_stones(added.more, added.stones)
        if len(added.more) != kept.num_more:
            return none
    except (FileError, ValueError):
        return none
    if kept.seal != kept.sealed() or not first <= kept.num_bytes <= len(data):
        return none
    numbers = rows["index"]
    if (numbers[1:] <= numbers[:-1]).any() or (numbers[-1:] >= _num_games(found, kept)).any():
        return none
    if (rows["end"] >= len(kept.ends)).any() or not (np.abs(rows["result"]) <= found.header.max_result).all():
        return none
    begins = memoryview(data)[: kept.num_bytes]
    return (kept, rows) if hashlib.sha256(begins).hexdigest() == kept.sha256 else none


def _num_games(found: MatchLines, kept: KeptResults) -> int:
    """Played or still to be played. found: before the openings that were added are."""
    return found.header.games_per_opening * (len(found.openings) + kept.num_more)


def _more(kept: KeptResults) -> MoreOpenings:
    """Openings added after the header's. Raises ValueError for anything else."""
    return MoreOpenings.model_validate(atomic.load_json(kept.more))


def _with_new(found: MatchLines, rows: NDArray[Any], ends: Sequence[str]) -> tuple[NDArray[Any], list[str]]:
    """Rows and ends with those of the games in found."""
    games = found.games.values()
    ends = list(dict.fromkeys([*ends, *(game.end for game in games)]))
    new = [
        (game.index, game.length, ends.index(game.end), game.result_first_player, moves_checksum(game))
        for game in games
    ]
    both = np.concatenate([rows, np.array(new, ROW)])
    return both[np.argsort(both["index"], kind="stable")], ends


def moves_checksum(game: MatchGame) -> int:
    """Of handicap stones and moves; all games of a match have as many stones."""
    moves = np.array([*game.stones, *game.moves], "<u2").tobytes()
    return int.from_bytes(hashlib.blake2b(moves, digest_size=8).digest(), "little")


def _keep(results: MatchResults, added: MoreOpenings, data: bytes) -> None:
    """added: the openings after the header's."""
    kept = KeptResults(
        num_bytes=results.num_bytes,
        sha256=hashlib.sha256(data).hexdigest(),
        num_more=len(added.more),
        more=added.model_dump_json(),
        ends=list(results.ends),
        failed=sorted(results.failed),
        rows=base64.b64encode(results.rows.tobytes()).decode(),
    )
    whole = kept.model_copy(update={"seal": kept.sealed()})
    atomic.write_text(results.folder / layout.MATCH_RESULTS, whole.model_dump_json() + "\n", folder_sync=False)
