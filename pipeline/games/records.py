"""Records: games as files of other programs. What a format is (extension point ``mugo.records``), and which there are.

SGF is the core's own format (``sgf.py``); families and installed packages offer others. ``show --NAME`` writes games of
shards and matches in the format NAME, ``show FILE`` reads files with a suffix that a format reads, and ``play`` saves
its game in the format of the file's suffix. An installed package is imported only for its own name, or for a suffix
that no bundled format has.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import ClassVar

from pipeline import extensions
from pipeline.errors import UsageError
from pipeline.games.contract import AnyGame, States
from pipeline.games.specs import name_in

SGF = "sgf"


@dataclass(frozen=True)
class RecordText:
    """What a record says besides the moves. first, second: the players' names. Any text may be empty."""

    first: str
    second: str
    event: str = ""
    round: str = ""
    comment: str = ""


@dataclass(frozen=True)
class PlayedGame:
    """A game to write, finished or not. T moves.

    moves        actions and outcomes of chance, as shards and matches have them
    text         names and notes
    comments     by ply, "" for none; may be shorter than moves
    winrates     the first player's, in percent, before each move; None where unknown; may be shorter than moves
    resigned_by  the player who gave up after the moves
    stones       points of the first player's handicap stones
    start        [1, S] the position that the game begins from; None: the game's initial one, or that after the stones
    settled      the game ended because nothing was left to decide, see AnyGame.settled_owners
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
    """A game read from a file, with every move checked.

    players   first, second
    start     [1, S] the position that the game begins from
    moves     [T] actions and outcomes of chance, as shards and matches have them
    points    the result for the first player, 0 if undecided; with a doubling cube, what it makes of it
    end       "" if the rules ended it, else the record's words: "resigned", "not decided", …
    notes     what to tell people about the record: its encoding, if it isn't UTF-8, and what was skipped or guessed
    remarks   by ply, what happened before that move besides moves, such as doubles
    score     first, second: the points in the match before this game; None if it is no match
    """

    players: tuple[str, str]
    start: States
    moves: list[int]
    points: int = 0
    end: str = ""
    notes: tuple[str, ...] = ()
    remarks: Mapping[int, str] = field(default_factory=dict)
    score: tuple[int, int] | None = None


class RecordFormat(ABC):
    """A format of records. A plug-in lists a subclass, whose constructor takes no arguments, under the format's name:

        [project.entry-points."mugo.records"]
        nif = "mugo_nim.records:Nif"

    The name, in small letters and digits, becomes the option ``show --nif``.

    games     names of the games that people keep in this format, as their specs begin
    suffixes  of written files, in small letters, with the dot, the usual one first
    reads     suffixes of files that read() takes; () for a write-only format
    holds     what a file is called, as in "record of nim"
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
        """Why a game can't be written, in a few words, e.g. "--nif is for nim"; "" if it can."""

    @abstractmethod
    def write(self, game: AnyGame, played: PlayedGame) -> str:
        """The text of a file with this one game. Leaves out what the format has no place for.

        Raises IllegalMove for a move that the rules forbid, MuGoError for a game that refusal() refuses.
        """

    def read(self, path: Path) -> tuple[AnyGame, list[ReadGame]]:
        """The games of a file, at least one, and the game that all of them play. Raises FileError.

        encodings.decode decodes a text whatever its encoding.
        """
        raise NotImplementedError(f"{type(self).__name__} is only written")


def name_of(game: AnyGame) -> str:
    """The name at the beginning of its spec, e.g. "NAME" of "NAME:9,komi=7"."""
    return name_in(game.spec)


def record_names() -> list[str]:
    """The names of all formats, bundled ones first. Imports none. Raises as extensions.find does."""
    return list(extensions.bundled(extensions.RECORDS) | extensions.installed(extensions.RECORDS))


@cache
def record_format(name: str) -> RecordFormat:
    """Raises UsageError if the name is unknown, or names a package's entry that can't be imported or is no format."""
    offered = extensions.need(extensions.RECORDS, name, "records")
    found = extensions.load(offered)
    is_format = isinstance(found, type) and issubclass(found, RecordFormat)
    if not is_format or inspect.isabstract(found) or not getattr(found, "suffixes", ()):
        raise extensions.refuse(offered, found, "a whole subclass of pipeline.games.records.RecordFormat")
    made: RecordFormat = found()
    return made


def formats_of(game: AnyGame) -> list[str]:
    """The names of the formats in which people keep a game, without those that can't be imported."""
    found = []
    for name in record_names():
        with suppress(UsageError):
            found += [name] if record_format(name).is_for(game) else []
    return found


def format_that_reads(suffix: str) -> RecordFormat | None:
    """The format that reads files with this suffix, in small letters, or None. Raises as record_format does."""
    return next((one for one in _formats(suffix) if suffix in one.reads), None)


def format_to_write(game: AnyGame, suffix: str) -> RecordFormat:
    """The game's format for files with this suffix, in small letters; SGF if none has the suffix.

    Raises UsageError if the game isn't written in SGF either, and as record_format does.
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
    """All formats: first one that is named like the suffix, then the bundled ones."""
    return map(record_format, sorted(record_names(), key=lambda name: suffix != f".{name}"))
