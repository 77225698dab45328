"""``PlayerKind``: what a plug-in offers at the extension point ``mugo.players``, and how a kind is found by its name.

A kind says how its players are written, NAME or NAME:ARGUMENT, what is wrong with an argument or a game, and how a
player is made. Where NAME alone is enough, a function (game, num_rows, thread) -> Player may be offered instead.

    [project.entry-points."mugo.players"]
    chess-engine = "mugo_chess.players:ChessEngine"

Light to import, as modules of kinds should be: --help loads them. What a player needs is imported when one is made.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from pipeline import extensions
from pipeline.errors import UsageError
from pipeline.extensions import PLAYERS, Extension
from pipeline.run import layout

if TYPE_CHECKING:
    from pipeline.games.contract import AnyGame
    from pipeline.players.player import MakePlayer, Player

RESERVED = ("model", "policy", "handicap")  # names that mean something else
ENGINE_ROWS = 4  # games of a thread against an engine: it thinks about one, the others make a batch for the network

_NAMED_KIND = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)(?::(.*))?", re.DOTALL)


class PlayerKind(ABC):
    """A kind of player. A plug-in offers a subclass, which is made without arguments.

    help            one line for evaluate --help
    argument        what stands behind ``NAME:``, as help writes it: "COMMAND"; empty: NAME stands alone
    runs_program    whether it runs another program. Files may not start it then without --allow-engines; so that they
                    can be checked without importing anything, it must have an argument
    most_rows       how many games a thread may play with it at once; None: any number
    takes_handicap  whether handicap:N: may stand before it
    default_game    the spec of what `play` opens against it where no game is given
    """

    help: ClassVar[str] = ""
    argument: ClassVar[str] = ""
    runs_program: ClassVar[bool] = False
    most_rows: ClassVar[int | None] = None
    takes_handicap: ClassVar[bool] = True
    default_game: ClassVar[str] = ""

    def default_name(self, spec: str, argument: str) -> str:
        """What a player is called whose spec gives no name: other arguments, another name. See check_player_name.

        spec: NAME:ARGUMENT, or NAME alone. Raises UsageError for an argument that means nothing. Starts no program.
        """
        return spec.replace(":", "-")

    def check_game(self, game: AnyGame, spec: str, argument: str) -> None:  # noqa: B027  most play any game
        """Raises UsageError if it can't play this game, or lacks a program. Asked before anything is loaded or played.

        spec: for messages.
        """

    @abstractmethod
    def make(self, argument: str, name: str, seconds: float) -> MakePlayer:
        """What makes the player for each thread. name: what it is called; seconds: the limit of each of its moves.

        Making one may raise UsageError; a player must not start a program before it is asked for a move.
        """

    def place_handicap(
        self,
        game: AnyGame,
        argument: str,
        name: str,
        stones: int,
        seeds: Sequence[Sequence[int]],
        seconds: float,
        known: Sequence[Sequence[int]],
    ) -> list[list[int]]:
        """The points of so many stones for each game, as the player who takes them places them; here the game's own.

        seeds: of each game, for a player that has a choice: to be tried one after another until the points are none of
        those known or of the games before. Raises PlayerFault, UsageError.
        """
        return [game.handicap(stones) for _ in seeds]


class Random(PlayerKind):
    help = "uniform over the legal moves"

    def make(self, argument: str, name: str, seconds: float) -> MakePlayer:
        from pipeline.players.builtin import make_builtin

        return make_builtin("random")


class Heuristic(PlayerKind):
    help = "the move that a heuristic evaluation of the game prefers"

    def make(self, argument: str, name: str, seconds: float) -> MakePlayer:
        from pipeline.players.builtin import make_builtin

        return make_builtin("heuristic")


class FunctionKind(PlayerKind):
    """A function (game, num_rows, thread) -> Player, as a kind without an argument."""

    def __init__(self, function: MakePlayer) -> None:
        self._function = function

    def make(self, argument: str, name: str, seconds: float) -> MakePlayer:
        return self._function


def split(text: str) -> tuple[str, str | None] | None:
    """(name, argument) of a spec that a kind's name begins; None for the spec of anything else. Imports nothing.

    argument: None where the name stands alone.
    """
    found = _NAMED_KIND.fullmatch(text)
    if found is None or found[1] in RESERVED or extensions.named(PLAYERS, found[1]) is None:
        return None
    return found[1], None if found[2] is None else found[2].strip()


def kind_named(name: str) -> PlayerKind:
    """The kind that is offered under this name. Imports the package that offers it.

    Raises UsageError if none does, if it can't be imported, or if it isn't what a plug-in must give.
    """
    return _loaded(_offered(name))


def name_of(kind: str, argument: str) -> str:
    """The default_name of a kind's player, checked. Raises UsageError."""
    found = kind_named(kind).default_name(f"{kind}:{argument}" if argument else kind, argument)
    if not isinstance(found, str):
        raise extensions.refuse(_offered(kind), found, "default_name() to give a text")
    return layout.check_player_name(found)


def make_player(kind: str, argument: str, name: str, seconds: float) -> MakePlayer:
    """What the kind makes, checked: making the player raises UsageError, naming the package, if what comes is none."""
    offered = _offered(kind)
    make = _loaded(offered).make(argument, name, seconds)
    if not callable(make):
        raise extensions.refuse(offered, make, "make() to give a function (game, num_rows, thread)")

    def checked(game: Any, num_rows: int, thread: int) -> Player:
        from pipeline.players.player import Player

        player = make(game, num_rows, thread)
        if not isinstance(player, Player):
            raise extensions.refuse(offered, player, "a function (game, num_rows, thread) that gives a Player")
        return player

    return checked


def descriptions() -> Iterator[tuple[str, str]]:
    """(how it is written, what it is) of all kinds. Of packages only the names, as none is imported."""
    for name, extension in sorted(extensions.bundled(PLAYERS).items()):
        kind = _loaded(extension)
        yield f"{name}:{kind.argument}" if kind.argument else name, kind.help
    for name, extension in sorted(extensions.installed(PLAYERS).items()):
        if name not in extensions.bundled(PLAYERS):
            yield name, f"of package {extension.package}"


def name_of_command(spec: str, command: str, example: str) -> str:
    """``gnugo-1a2b3c4d``: the program and a hash of its command line, so that other options are another player.

    For kinds whose argument is a command line. example: of a spec. Raises UsageError for what is none.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"player {spec!r}: not readable as a command line ({error})") from error
    if not words or not words[0]:
        raise UsageError(f"player {spec!r}: no command; wanted e.g. {example!r}")
    program = re.sub(r"[^A-Za-z0-9._]+", "-", os.path.basename(words[0])).strip("-._") or "engine"
    return f"{program}-{hashlib.sha256(command.encode()).hexdigest()[:8]}"


def _offered(name: str) -> Extension:
    found = extensions.named(PLAYERS, name)
    if found is None:
        known = ", ".join(sorted(extensions.find(PLAYERS)))
        raise UsageError(f"player {name!r}: no installed package offers it; known players: {known}")
    return found


def _loaded(extension: Extension) -> PlayerKind:
    found = extensions.load(extension)
    wanted = "a subclass of PlayerKind, or a function (game, num_rows, thread) that gives a Player"
    if not callable(found):
        raise extensions.refuse(extension, found, wanted)
    if not (isinstance(found, type) and issubclass(found, PlayerKind)):
        return FunctionKind(found)
    try:
        kind = found()
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
        raise UsageError(f"{extension}: making {extension.value!r} failed ({problem})") from error
    if kind.runs_program and not kind.argument:
        raise extensions.refuse(extension, found, "an argument, as it runs a program")
    return kind
