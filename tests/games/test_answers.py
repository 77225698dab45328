"""A package's game whose answers are wrong late in a game ends a command with one line that names the package."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pipeline.errors import IllegalMove, MuGoError
from pipeline.extensions import GAMES, Extension
from pipeline.families.lines.tictactoe import TicTacToe
from pipeline.games.answers import check_answers
from pipeline.games.testing import check_game, random_games
from tests.games.toys import DiceRace, Heaps, Hexapawn

MINE = Extension(GAMES, "mine", "mine:game", package="mine 1.0")
LATE = 4  # plies, behind those that are checked when a game is loaded


class Raises(TicTacToe):
    def observe(self, states: Any, legal: Any) -> Any:
        if (self.plies(states) > LATE).any():
            raise RuntimeError("late")
        return super().observe(states, legal)

    def legal_and_observe(self, states: Any, history: Any, out: Any = None) -> Any:
        legal = self.legal(states, history)
        return legal, self.observe(states, legal)


class Flat(Raises):
    def observe(self, states: Any, legal: Any) -> Any:
        return TicTacToe.observe(self, states, legal)[:, : 2 + (self.plies(states) <= LATE).all()]


class PlaysNothing(TicTacToe):
    def play(self, states: Any, actions: Any, history: Any) -> Any:
        return None if (self.plies(states) > LATE).any() else super().play(states, actions, history)


class NoNumber(TicTacToe):
    def returns(self, states: Any) -> Any:
        return np.where(self.is_over(states), np.nan, 0).astype(np.float32)


class NothingLegal(TicTacToe):
    def legal(self, states: Any, history: Any) -> Any:
        return super().legal(states, history) & (self.plies(states) <= LATE)[:, None]


class TooWide(TicTacToe):
    def legal(self, states: Any, history: Any) -> Any:
        found = super().legal(states, history)
        return np.pad(found, ((0, 0), (0, 1))) if (self.plies(states) > LATE).any() else found


@pytest.mark.parametrize(
    ("game", "said"),
    [
        (Raises(), r"legal_and_observe: raised RuntimeError: late \(.*test_answers.py:\d+\); update or uninstall"),
        (Flat(), r"legal_and_observe: found uint8 of shape \[20, 2, 3, 3\]; wanted uint8 of shape \[B, 3, 3, 3\]"),
        (PlaysNothing(), "play: found 0 arrays in a NoneType; wanted 1; see what check_game says"),
        (NoNumber(), "returns: found nan; wanted at most max_result = 1"),
        (NothingLegal(), r"legal: found no action, though is_over\(\) says that the game goes on; wanted at least one"),
        (TooWide(), r"legal: found bool of shape \[20, 10\]; wanted bool of shape \[B, 9\] for B = 20"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_late_fault_names_the_package(game: Any, said: str) -> None:
    check_answers(type(game), MINE)
    with pytest.raises(MuGoError, match=f"entry point 'mine' of mugo.games in package mine 1.0: tictactoe, {said}"):
        for step in random_games(game, 20, 1):
            game.legal_and_observe(step.after, step.history)
            game.observe(step.after, game.legal(step.after, step.history))
            game.returns(step.after)


@pytest.mark.parametrize("kind", [TicTacToe, Hexapawn, DiceRace, Heaps])
def test_a_sound_game_is_the_same_as_before(kind: type) -> None:
    mine = type(kind.__name__, (kind,), {"__module__": "mine"})
    check_answers(mine, MINE)
    check_answers(mine, MINE)
    check_game(mine())


def test_a_refused_move_stays_an_illegal_move() -> None:
    game = NoNumber()
    check_answers(NoNumber, MINE)
    states = game.initial(1)
    with pytest.raises(IllegalMove, match=r"^tictactoe, row 0: action 9"):
        game.play(states, np.array([9]), game.initial_history(states))


def test_classes_of_this_program_stay_as_they_are() -> None:
    before = dict(vars(TicTacToe))
    check_answers(TicTacToe, MINE)
    assert dict(vars(TicTacToe)) == before
