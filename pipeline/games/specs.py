"""Games by spec string: ``name[:size][,option=value…]``, e.g. ``go:9,komi=7``.

An option without a value is on: ``NAME:19,capture`` is ``NAME:19,capture=on``.

The extension point ``mugo.games`` maps names to functions (size, options) -> game. The function gets the size and
options as text, and raises UsageError for those that the game doesn't have. An installed package is imported only if
the command line, a preset or a model's manifest names its game. A data file (shard, chunk, match record) imports
nothing: ``recorded_game`` accepts bundled games, games loaded by this process, and games named by models of the same
run (``TRUSTED``). No spec names a module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from pipeline import extensions
from pipeline.errors import MuGoError, UsageError
from pipeline.games.answers import check_answers
from pipeline.games.capabilities import family_of
from pipeline.games.contract import ON, AnyGame, Game

DEFAULT_GAME = "go:9"  # of commands without --game
LOADED: set[str] = set()  # names of games that this process has imported
TRUSTED: list[Callable[[], Iterable[str]]] = []  # each gives specs that data files may name; see run/models.trust_games


@lru_cache(maxsize=32)
def parse_game(spec: str) -> Game:
    """The game that a spec string names. Equal canonical specs mean the same game.

    Imports the package that offers the game, so it is for specs of command lines, presets and models.
    Raises UsageError with the spec.
    """
    name, size, options = _parsed(spec)
    offered = extensions.need(extensions.GAMES, name, f"game {spec!r}")
    make = extensions.load(offered)
    LOADED.add(name)
    if not callable(make):
        raise extensions.refuse(offered, make, "a function (size, options)")
    try:
        game: Any = make(size, options)
    except Exception as error:
        if isinstance(error, MuGoError) or not offered.package:
            raise
        said = f"{type(error).__name__}: {error}"
        raise UsageError(f"{offered}: making {spec!r} failed ({said}); update or uninstall the package") from error
    _check(offered, game)
    if name_in(game.spec) != name:
        wanted = f"one whose spec begins with {name!r}, since models and games are stored by their spec"
        raise extensions.refuse(offered, game.spec, wanted)
    return game


def name_in(spec: str) -> str:
    """The name with which a spec begins."""
    return spec.partition(",")[0].partition(":")[0]


def _check(extension: extensions.Extension, game: object) -> None:
    """Raises UsageError if this is no game, or a package's game whose answers at its first plies are wrong.

    Later answers of a package's game are checked when they are given.
    """
    if not isinstance(game, AnyGame):
        wanted = "a function (size, options) that gives a game of pipeline/games/contract.py"
        raise extensions.refuse(extension, game, wanted)
    if not extension.package:
        return
    from pipeline.games.testing import check_first_plies

    try:
        check_first_plies(game)
    except Exception as error:
        said = str(error).split("\n")[0] if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
        raise UsageError(f"{extension}: {said}; update or uninstall the package") from error
    check_answers(type(game), extension)


def recorded_game(spec: str) -> Game:
    """The game that a data file names. Raises UsageError if a package would have to be imported for it."""
    name, _, _ = _parsed(spec)
    known = {*extensions.bundled(extensions.GAMES), *LOADED}
    trusted = (name_in(one) for games in TRUSTED for one in games())  # read only if needed
    if name not in known and name in extensions.installed(extensions.GAMES) and name not in trusted:
        raise UsageError(
            f"game {spec!r} is another package's, and no package is imported because a data file names it; wanted a "
            "run whose models play it: run this in its folder"
        )
    return parse_game(spec)


def are_related(spec: str, other: str) -> bool:
    """Whether one model may learn from data files that name these games: the same game, or boards of one family.

    Raises UsageError as recorded_game does, unless the specs are equal.
    """
    return spec == other or family_of(recorded_game(spec)) == family_of(recorded_game(other))


def largest(specs: Iterable[str]) -> Game:
    """The largest of related games that data files name: examples of all fit into its arrays. Raises UsageError."""
    return max((recorded_game(spec) for spec in set(specs)), key=lambda game: game.state_size)


def _parsed(spec: str) -> tuple[str, str | None, dict[str, str]]:
    """(name, size, options) of a spec. Raises UsageError for wrong syntax."""
    head, *option_texts = spec.strip().split(",")
    name, colon, size = head.partition(":")
    options: dict[str, str] = {}
    for text in option_texts:
        key, equals, value = text.partition("=")
        if not key or (equals and not value):
            raise UsageError(f"game {spec!r}: option {text!r}; wanted NAME=VALUE, or NAME for what is on")
        if key in options:
            raise UsageError(f"game {spec!r}: option {key!r} is given twice")
        options[key] = value if equals else ON
    if colon and not size:
        raise UsageError(f"game {spec!r}: nothing after ':'; wanted a size, e.g. {name}:9")
    return name, size if colon else None, options
