"""Games by spec string: ``name[:size][,option=value…]``, e.g. ``go:9,komi=7``.

An option alone means that it is on: ``gomoku:19,capture`` is ``gomoku:19,capture=on``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from pipeline.errors import UsageError
from pipeline.games.base import ON, Game


def _go(size: str | None, options: dict[str, str]) -> Game:
    from pipeline.games.go.game import Go

    return Go.from_spec(size, options)


def _tictactoe(size: str | None, options: dict[str, str]) -> Game:
    from pipeline.games.lines.tictactoe import TicTacToe

    _refuse_arguments("tictactoe", size, options)
    return TicTacToe()


def _connect4(size: str | None, options: dict[str, str]) -> Game:
    from pipeline.games.lines.connect4 import ConnectFour

    _refuse_arguments("connect4", size, options)
    return ConnectFour()


def _gomoku(size: str | None, options: dict[str, str]) -> Game:
    from pipeline.games.gomoku.game import Gomoku

    return Gomoku.from_spec(size, options)


def _refuse_arguments(name: str, size: str | None, options: dict[str, str]) -> None:
    if size is not None or options:
        raise UsageError(f"game {name!r} takes no size or options; write just {name!r}")


GAMES: dict[str, Callable[[str | None, dict[str, str]], Game]] = {
    "go": _go,
    "tictactoe": _tictactoe,
    "connect4": _connect4,
    "gomoku": _gomoku,
}


@lru_cache(maxsize=32)
def parse_game(spec: str) -> Game:
    """The game that a spec string names. Equal canonical specs mean the same game.

    Raises UsageError that carries the spec and says what was wanted.
    """
    head, *option_texts = spec.strip().split(",")
    name, colon, size = head.partition(":")
    if name not in GAMES:
        raise UsageError(f"game {spec!r}: unknown name {name!r}; known games: {', '.join(sorted(GAMES))}")
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
    return GAMES[name](size if colon else None, options)
