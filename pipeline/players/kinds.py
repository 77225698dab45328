"""``PlayerKind``: an extension of ``mugo.players``, and the functions that find kinds by name.

A kind defines the spec of its players (NAME or NAME:ARGUMENT), checks arguments and games, and makes players. For a
kind without an argument a package may offer a function (game, num_rows, thread) -> Player instead.

    [project.entry-points."mugo.players"]
    chess-engine = "mugo_chess.players:ChessEngine"

Modules of kinds must be light to import, as --help loads them: import a player's requirements when one is made.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from pipeline import extensions
from pipeline.errors import UsageError
from pipeline.extensions import PLAYERS, Extension
from pipeline.run import layout

if TYPE_CHECKING:
    from pipeline.games.contract import AnyGame
    from pipeline.players.player import MakePlayer, Player

RESERVED = ("model", "policy", "handicap")  # names with another meaning in specs
ENGINE_ROWS = 4  # games of a thread against an engine: it thinks in one, and the others batch for the network

_NAMED_KIND = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)(?::(.*))?", re.DOTALL)


class PlayerKind(ABC):
    """A kind of player. A package offers a subclass, which is instantiated without arguments.

    help            one line for evaluate --help
    argument        the placeholder after ``NAME:`` in help texts, e.g. "COMMAND"; empty: NAME stands alone
    runs_program    whether it runs or asks another program. If so, specs in files need --allow-engines, and the kind
                    must have an argument, so that files can be checked without importing anything
    in_selfplay     whether selfplay --opponents may name it, if it runs or asks another program
    most_rows       the most games that a thread plays with it at once; None: any number
    takes_handicap  whether its spec may follow handicap:N:
    default_game    the spec of the game that `play` opens against it by default
    """

    help: ClassVar[str] = ""
    argument: ClassVar[str] = ""
    runs_program: ClassVar[bool] = False
    in_selfplay: ClassVar[bool] = False
    most_rows: ClassVar[int | None] = None
    takes_handicap: ClassVar[bool] = True
    default_game: ClassVar[str] = ""

    def default_name(self, spec: str, argument: str) -> str:
        """The name of a player whose spec gives none; must differ between arguments. See layout.check_player_name.

        spec: NAME:ARGUMENT, or NAME alone. Raises UsageError for an invalid argument. Must not start a program.
        """
        return spec.replace(":", "-")

    def check_game(self, game: AnyGame, spec: str, argument: str) -> None:  # noqa: B027  most play any game
        """Raises UsageError if it can't play this game or its program is missing. Called before anything is loaded.

        spec: for messages.
        """

    @abstractmethod
    def make(self, argument: str, name: str, seconds: float) -> MakePlayer:
        """The maker of each thread's player. name: the player's name; seconds: the time limit of each move.

        The maker may raise UsageError. A player must not start a program before its first move is asked for.
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
        """The points of the handicap stones of each game, as this player places them; by default the game's own.

        seeds: several per game, for a player with a choice: it tries them in turn until the placement repeats none of
        those known or made before. Raises PlayerFault, UsageError.
        """
        from pipeline.games.capabilities import usual_handicap

        return [usual_handicap(game, stones) for _ in seeds]


class BuiltIn(PlayerKind):
    """kind: the player's name in builtin.BUILT_INS."""

    kind: ClassVar[str]

    def make(self, argument: str, name: str, seconds: float) -> MakePlayer:
        from pipeline.players.builtin import BUILT_INS

        return lambda game, num_rows, thread: BUILT_INS[self.kind](game, num_rows)


class Random(BuiltIn):
    kind, help = "random", "uniform over the legal moves"


class Heuristic(BuiltIn):
    kind, help = "heuristic", "the move that a heuristic evaluation of the game prefers"

    def check_game(self, game: AnyGame, spec: str, argument: str) -> None:
        from pipeline.players.builtin import heuristic_of

        heuristic_of(game)


class FunctionKind(PlayerKind):
    """A kind without an argument, from a function (game, num_rows, thread) -> Player."""

    def __init__(self, function: MakePlayer) -> None:
        self._function = function

    def make(self, argument: str, name: str, seconds: float) -> MakePlayer:
        return self._function


def split(text: str) -> tuple[str, str | None] | None:
    """(kind, argument or None) of a spec that begins with a kind's name; None for other specs. Imports nothing."""
    found = _NAMED_KIND.fullmatch(text)
    if found is None or found[1] in RESERVED or extensions.named(PLAYERS, found[1]) is None:
        return None
    return found[1], None if found[2] is None else found[2].strip()


def kind_named(name: str) -> PlayerKind:
    """Imports the package that offers the kind. Raises UsageError if there is none, or it can't be used."""
    return _loaded(_offered(name))


def name_of(kind: str, argument: str) -> str:
    """The checked default_name of a kind's player. Raises UsageError."""
    found = kind_named(kind).default_name(f"{kind}:{argument}" if argument else kind, argument)
    if not isinstance(found, str):
        raise extensions.refuse(_offered(kind), found, "default_name() to give a text")
    return layout.check_player_name(found)


def make_player(kind: str, argument: str, name: str, seconds: float) -> MakePlayer:
    """The kind's maker, checked: it raises UsageError naming the package if it doesn't make a Player."""
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


def name_of_command(spec: str, command: str, example: str) -> str:
    """``gnugo-1a2b3c4d``: the program and a hash of its command line, so that other options make another player.

    For kinds whose argument is a command line. example: of a spec. Raises UsageError for an invalid command line.
    """
    words = command_words(command, f"player {spec!r}", example)
    program = re.sub(r"[^A-Za-z0-9._]+", "-", os.path.basename(words[0])).strip("-._") or "engine"
    return f"{program}-{hashlib.sha256(command.encode()).hexdigest()[:8]}"


def command_words(command: str, where: str, example: str) -> list[str]:
    """The words of a command line, split as by a shell. Raises UsageError if there are none. where: begins messages."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"{where}: not readable as a command line ({error}); wanted e.g. {example!r}") from error
    if not words or not words[0]:
        raise UsageError(f"{where}: no command; wanted e.g. {example!r}")
    return words


def _offered(name: str) -> Extension:
    return extensions.need(PLAYERS, name, "player")


def _loaded(extension: Extension) -> PlayerKind:
    found = extensions.load(extension)
    if not callable(found):
        wanted = "a subclass of PlayerKind, or a function (game, num_rows, thread) that gives a Player"
        raise extensions.refuse(extension, found, wanted)
    if not (isinstance(found, type) and issubclass(found, PlayerKind)):
        return FunctionKind(found)
    kind: PlayerKind = extensions.make(extension, PlayerKind)
    if kind.runs_program and not kind.argument:
        raise extensions.refuse(extension, found, "an argument, as it runs a program")
    return kind
