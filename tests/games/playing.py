"""The specs that tests play, and boards that print well when they differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from pipeline.games.contract import AnyGame, History
from pipeline.games.records import PlayedGame, RecordText
from pipeline.games.sgf import SgfFormat
from pipeline.games.specs import parse_game
from tests.families import offered

# Every registered game with a fixed list of actions, with the sizes and options that change what its code does. The
# contract tests play them all: the packages of the families' tests list them.
SPECS = offered("SPECS")
OTHERS = offered("OTHERS")  # with chance, or without a fixed list of actions


def name_of(spec: str) -> str:
    return spec.partition(":")[0].partition(",")[0]


def smallest_of_each(specs: tuple[str, ...]) -> tuple[str, ...]:
    """One spec of each game: that of the fewest points, the first of several. For tests that need small boards."""
    by_size = sorted(specs, key=lambda spec: parse_game(spec).num_points)
    return tuple({name_of(spec): spec for spec in reversed(by_size)}.values())[::-1]


SMALL = smallest_of_each(SPECS)
NO_HISTORY = History.empty(1, 1)  # for games without repetition rules, however many rows are asked about


def game_sgf(
    game: AnyGame, moves: Sequence[int], text: RecordText, comments: Sequence[str] = (), resigned: bool = False
) -> str:
    """The SGF of a game whose players take turns. resigned: the player to move after the moves gave up."""
    return SgfFormat().write(game, PlayedGame(moves, text, comments, resigned_by=len(moves) % 2 if resigned else None))


def draw_board(values: np.ndarray | list[int], width: int) -> list[str]:
    """Lines of X (1), O (-1) and dots."""
    text = [".XO"[int(value)] for value in values]
    return [" ".join(text[at : at + width]) for at in range(0, len(text), width)]


def assert_same_board(
    expected: np.ndarray | list[int], found: np.ndarray | list[int], width: int, what: Callable[[], str] | str
) -> None:
    """Fail with both boards side by side, the rows that differ marked. what: the headline, asked for only then."""
    if np.array_equal(expected, found):
        return
    left, right = draw_board(expected, width), draw_board(found, width)
    head = f"{'expected':<{2 * width + 3}}found"
    rows = [f"{a:<{2 * width}}   {b}{'' if a == b else '   <'}" for a, b in zip(left, right, strict=True)]
    pytest.fail("\n".join([what if isinstance(what, str) else what(), head, *rows]), pytrace=False)
