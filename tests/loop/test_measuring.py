"""Measurements of real games, within their time, and games that fail while they are measured."""

from __future__ import annotations

import itertools
import re
import time
from typing import Any

import numpy as np
import pytest
import yaml

from pipeline import extensions
from pipeline.errors import MuGoError, UsageError
from pipeline.families.lines.tictactoe import TicTacToe
from pipeline.games.answers import check_answers
from pipeline.loop import measuring
from pipeline.loop.measuring import measure, playable
from pipeline.loop.recipe import derive
from tests.families import having


def test_a_game_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "measuring_seconds", lambda minutes: 0.2)
    found = measure(playable("tictactoe"), 1)
    assert found.game == "tictactoe" and found.actions == 9 and not found.has_margins
    assert 7 < found.plies < 9 and 4 < found.moves < 7
    assert min(found.evaluations, found.simulations, found.samples) > 10 and found.evaluations_large is None
    assert yaml.safe_load(derive(found, 1)[0])["selfplay"]["games"][-1]["value"] >= 32


def test_random_games_end_with_their_time() -> None:
    plies, _ = measuring._random_games(playable("go:9"), 0.0)
    assert plies == 1


def test_compiling_takes_nothing_from_random_games(monkeypatch: pytest.MonkeyPatch) -> None:
    game = playable("tictactoe")
    legal, calls = type(game).legal, itertools.count()

    def slow_at_first(*given: Any) -> Any:
        if next(calls) == 0:
            time.sleep(0.3)
        return legal(*given)

    monkeypatch.setattr(type(game), "legal", slow_at_first)
    assert measuring._random_games(game, 0.2)[0] > 7


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("chess", "game 'chess': unknown name 'chess'; known games: "),
        ("go:99", "size '99'; wanted a number from 5 to 19"),
        *having("backgammon", ("backgammon", "--game backgammon: method alphazero: backgammon has chance; wanted")),
    ],
)
def test_games_that_the_recipe_is_not_for(spec: str, said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        playable(spec)


class Stuck(TicTacToe):
    def legal(self, states: Any, history: Any = None) -> Any:
        return super().legal(states, history) & (self.plies(states) < 2)[:, None]


class Endless(TicTacToe):
    def legal(self, states: Any, history: Any = None) -> Any:
        return np.ones((len(states), 9), np.bool_)

    def play(self, states: Any, actions: Any, history: Any = None) -> Any:
        return states.copy()


class Flat(TicTacToe):
    def is_over(self, states: Any) -> Any:
        return super().is_over(states)[:3] if (self.plies(states) > 2).any() else super().is_over(states)


@pytest.mark.parametrize(
    ("game", "said"),
    [
        (Stuck, "game tictactoe: after 2 plies a game isn't over, but has no legal move; wanted one"),
        (Endless, "game tictactoe: a game goes on after ply 9; wanted a max_plies that no game exceeds"),
        (Flat, "in package mine 1: tictactoe, is_over: found bool of shape [3]; wanted bool of shape [B] for B = 64"),
    ],
)
def test_a_game_that_breaks_its_contract(game: Any, said: str) -> None:
    broken = game()
    if game is Flat:  # as parse_game does with a package's game
        check_answers(Flat, extensions.Extension(extensions.GAMES, "tictactoe", "mine:game", package="mine 1"))
    with pytest.raises(MuGoError, match=re.escape(said)):
        measure(broken, 1)
