"""Games by spec string: ``name[:size][,option=value…]``, e.g. ``go:9,komi=7``.

An option alone means that it is on: ``gomoku:19,capture`` is ``gomoku:19,capture=on``.

Games of other packages are entry points of the group ``mugo.games``: a name and a function (size, options) -> Game,
like those in GAMES. Such a package is imported only if the command line, a preset or a model's manifest names its game.
A data file (shard, chunk, match record) imports none: ``recorded_game`` knows the games of GAMES, those that this
process has loaded, and those that the variable MUGO_GAMES lists, e.g. ``MUGO_GAMES=nim,hex``. No spec names a module.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import lru_cache
from pkgutil import resolve_name

from pipeline import entry_points
from pipeline.errors import UsageError
from pipeline.games.base import ON, AnyGame, Game

FromSpec = Callable[[str | None, dict[str, str]], Game]
"""(size, options) as they stand in the spec → the game. Raises UsageError for what the game doesn't know."""

GAMES = {
    "backgammon": "pipeline.games.backgammon.game:Backgammon.from_spec",
    "connect4": "pipeline.games.lines.connect4:ConnectFour.from_spec",
    "go": "pipeline.games.go.game:Go.from_spec",
    "gomoku": "pipeline.games.gomoku.game:Gomoku.from_spec",
    "hypergammon": "pipeline.games.backgammon.game:Backgammon.hypergammon",
    "othello": "pipeline.games.othello.game:Othello.from_spec",
    "shogi": "pipeline.games.shogi.game:Shogi.from_spec",
    "text": "pipeline.games.text.game:TextGame.from_spec",
    "tictactoe": "pipeline.games.lines.tictactoe:TicTacToe.from_spec",
}
LOADED: dict[str, FromSpec] = {}  # games of other packages that this process has imported


@lru_cache(maxsize=32)
def parse_game(spec: str) -> Game:
    """The game that a spec string names. Equal canonical specs mean the same game.

    Imports the package that offers it: for specs of command lines, presets and models.
    Raises UsageError that carries the spec and says what was wanted.
    """
    name, size, options = _parsed(spec)
    if name in GAMES:
        return resolve_name(GAMES[name])(size, options)
    offered = entry_points.find(entry_points.GAMES)
    if name not in offered:
        known = ", ".join(sorted({*GAMES, *offered}))
        raise UsageError(f"game {spec!r}: unknown name {name!r}; known games: {known}")
    LOADED[name] = entry_points.load(offered[name])
    game = LOADED[name](size, options)
    if not isinstance(game, AnyGame):
        raise entry_points.refuse(
            offered[name], game, "a function (size, options) that gives a game of pipeline/games/base.py"
        )
    return game


def recorded_game(spec: str) -> Game:
    """The game that a data file names. Raises UsageError for one whose package would have to be imported for it."""
    name, _, _ = _parsed(spec)
    allowed = {*GAMES, *LOADED, *os.environ.get("MUGO_GAMES", "").split(",")}
    if name not in allowed and name in entry_points.find(entry_points.GAMES):
        raise UsageError(
            f"game {spec!r} is another package's, and no package is imported because a data file names it; "
            f"to allow it set MUGO_GAMES={name}"
        )
    return parse_game(spec)


def are_related(spec: str, other: str) -> bool:
    """Whether data files that name these games may be learned from together: of one game, or of boards of one family.

    Raises UsageError as recorded_game does, unless they are equal.
    """
    return spec == other or recorded_game(spec).family == recorded_game(other).family


def largest(specs: Iterable[str]) -> Game:
    """Of related games that data files name, the one in whose examples those of all have room. Raises UsageError."""
    return max((recorded_game(spec) for spec in set(specs)), key=lambda game: game.state_size)


def _parsed(spec: str) -> tuple[str, str | None, dict[str, str]]:
    """(name, size, options) of a spec. Raises UsageError for what is written wrongly."""
    head, *option_texts = spec.strip().split(",")
    name, colon, size = head.partition(":")
    options: dict[str, str] = {}
    for text in option_texts:
        key, equals, value = text.partition("=")
        if not key or (equals and not value):
            raise UsageError(f"game {spec!r}: option {text!r}; wanted NAME=VALUE, or NAME for what is on")
        if key in options:
            raise UsageError(f"game {spec!r}: option {key!r} stands twice")
        options[key] = value if equals else ON
    if colon and not size:
        raise UsageError(f"game {spec!r}: nothing after ':'; wanted a size, e.g. {name}:9")
    return name, size if colon else None, options
