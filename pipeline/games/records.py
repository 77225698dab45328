"""Records of games for other programs: what a format is (extension point ``mugo.records``), and the formats there are.

A *record* is a game as another program's file has it: SGF, which is the core's own (``sgf.py``), and the formats of the
families and of installed packages. ``show --NAME`` writes games of shards and matches in the format NAME, ``show FILE``
reads files whose suffix a format reads, and ``play`` saves its game in the format that the file's suffix names. An
installed package is imported only for its own name, or for a suffix that no bundled format has.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar

from pipeline import extensions
from pipeline.errors import UsageError
from pipeline.games.contract import AnyGame, States

SGF = "sgf"


@dataclass(frozen=True)
class RecordText:
    """What a record says besides the moves. first, second: who played; any text may be empty."""

    first: str
    second: str
    event: str = ""
    round: str = ""
    comment: str = ""


@dataclass(frozen=True)
class PlayedGame:
    """A game to write, finished or not. T moves; where nothing is said of a field, it may be left out.

    moves        actions and outcomes of chance, as shards and matches have them
    text         who played, and what is said of the whole game
    comments     by ply, "" for none; may be shorter than moves
    winrates     the first player's, in percent, before each move; None where unknown; may be shorter than moves
    resigned_by  the player who gave up after the moves
    stones       points of the first player's handicap stones
    start        [1, S] the position that the game begins from; None: the game's initial one, or that after the stones
    settled      the game ended there because nothing was left to decide, see Game.settled_owners
    """

    moves: Sequence[int]
    text: RecordText
    comments: Sequence[str] = ()
    winrates: Sequence[float | None] = ()
    resigned_by: int | None = None
    stones: Sequence[int] = ()
    start: States | None = None
    settled: bool = False


@dataclass(frozen=True)
class ReadGame:
    """A game that a file holds, every move checked by our rules.

    players   first, second
    start     [1, S] the position that the game begins from
    moves     [T] actions and outcomes of chance, as shards and matches have them
    points    the result for the first player, 0 where nothing is decided
    end       "" if the rules ended it, otherwise what the record says: "resigned", "not decided", …
    """

    players: tuple[str, str]
    start: States
    moves: list[int]
    points: int = 0
    end: str = ""


class RecordFormat(ABC):
    """A format of records. A plug-in lists a subclass, which is made without arguments, under the format's name:

        [project.entry-points."mugo.records"]
        nif = "mugo_nim.records:Nif"

    The name, in small letters and digits, becomes the option ``show --nif``.

    games     names of the games that people keep in this format, as their specs begin
    suffixes  of the files that are written, in small letters and with the dot, the usual one first
    reads     suffixes of the files that read() takes; () for a format that is only written
    holds     what a file of it is called in "record of nim"
    """

    games: ClassVar[tuple[str, ...]] = ()
    suffixes: ClassVar[tuple[str, ...]]
    reads: ClassVar[tuple[str, ...]] = ()
    holds: ClassVar[str] = "record"

    def is_for(self, game: AnyGame) -> bool:
        """Whether people keep this game in this format, even if some of its boards can't be written."""
        return name_of(game) in self.games

    @abstractmethod
    def refusal(self, game: AnyGame) -> str:
        """Why a game isn't written, in a few words for one line, e.g. "--nif is for nim"; "" for a game that is."""

    @abstractmethod
    def write(self, game: AnyGame, played: PlayedGame) -> str:
        """A file that holds this one game. What the format has no place for is left out.

        Raises IllegalMove for a move that the rules forbid, MuGoError for a game that is_for() takes and refusal()
        doesn't.
        """

    def read(self, path: Path) -> tuple[AnyGame, list[ReadGame]]:
        """The games of a file, at least one, and the game that all of them are of.

        Raises FileError that says where, what was found and what was wanted.
        """
        raise NotImplementedError(f"{type(self).__name__} is only written")


def name_of(game: AnyGame) -> str:
    """What its spec begins with, e.g. "NAME" of "NAME:9,komi=7"."""
    return game.spec.partition(",")[0].partition(":")[0]


def record_names() -> list[str]:
    """The names of all formats, bundled ones first. Imports none. Raises UsageError as extensions.find does."""
    return list(extensions.bundled(extensions.RECORDS) | extensions.installed(extensions.RECORDS))


@cache
def record_format(name: str) -> RecordFormat:
    """Raises UsageError, which names the package, for one that can't be imported or isn't a format."""
    offered = extensions.find(extensions.RECORDS)
    if name not in offered:
        raise UsageError(f"records {name!r}: unknown format; known formats: {', '.join(record_names())}")
    found = extensions.load(offered[name])
    is_format = isinstance(found, type) and issubclass(found, RecordFormat)
    if not is_format or inspect.isabstract(found) or not getattr(found, "suffixes", ()):
        raise extensions.refuse(offered[name], found, "a whole subclass of pipeline.games.records.RecordFormat")
    made: RecordFormat = found()
    return made


def formats_of(game: AnyGame) -> list[str]:
    """The names of the formats in which people keep a game; those that can't be imported are left out."""
    found = []
    for name in record_names():
        with suppress(UsageError):
            found += [name] if record_format(name).is_for(game) else []
    return found


def format_that_reads(suffix: str) -> RecordFormat | None:
    """The format of files with this suffix, in small letters; None if none reads them. Raises as record_format does."""
    return next((one for one in _formats(suffix) if suffix in one.reads), None)


def format_to_write(game: AnyGame, suffix: str) -> RecordFormat:
    """The format for a file with this suffix, in small letters: SGF where no other format of the game has it.

    Raises UsageError if the game has none for it, and as record_format does.
    """
    fitting = []
    for one in _formats(suffix):
        if one.is_for(game):
            if suffix in one.suffixes:
                return one
            fitting.append(one)
    sgf = record_format(SGF)
    if sgf in fitting:
        return sgf
    if not fitting:
        raise UsageError(sgf.refusal(game))
    raise UsageError(f"wanted a name that ends in {', '.join(end for one in fitting for end in sorted(one.suffixes))}")


def _formats(suffix: str) -> Iterator[RecordFormat]:
    """All formats, one after another: first that with the suffix for a name, then the bundled ones."""
    return map(record_format, sorted(record_names(), key=lambda name: suffix != f".{name}"))
