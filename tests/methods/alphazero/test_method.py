"""Which games AlphaZero plays."""

from __future__ import annotations

import copy

import pytest

from pipeline.errors import UsageError
from pipeline.games.specs import parse_game
from pipeline.methods.named import method_named


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("num_actions", 32_769, r"tictactoe has 32,769 actions; wanted at most 32,768"),
        ("perfect_information", False, "tictactoe hides something"),
        ("has_chance", True, "tictactoe has chance"),
        ("max_result", 3.0, "tictactoe counts up to 3 points"),
    ],
)
def test_games_that_its_search_cannot_play_are_refused(name: str, value: object, says: str) -> None:
    game = copy.copy(parse_game("tictactoe"))
    method_named("alphazero").check(game)
    game.__dict__[name] = value
    with pytest.raises(UsageError, match=says):
        method_named("alphazero").check(game)
