"""The heuristic player of backgammon: turns that nobody doubts, the same for both players, and how it does."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.families.backgammon.game import Backgammon
from pipeline.families.backgammon.heuristic import checkers, lead
from tests.families.backgammon.boards import board, mirrored, random_positions, seen_by
from tests.games.playing import NO_HISTORY

BACKGAMMON, HYPERGAMMON = Backgammon(), Backgammon("hypergammon")
START = {24: 2, 13: 5, 8: 3, 6: 5}


@pytest.mark.parametrize(
    ("mine", "theirs", "dice", "best"),
    [
        (START, START, "31", "8/5 6/5"),
        (START, START, "42", "8/4 6/4"),
        (START, START, "61", "13/7 8/7"),
        (START, {24: 1, 20: 1, 13: 5, 8: 3, 6: 5}, "31", "8/5* 6/5"),  # hits
        ({6: 3, 5: 3, 4: 3, 3: 3}, {1: 3}, "65", "6/off 5/off"),  # a race
        ({1: 1, 2: 1}, {1: 3}, "21", "2/off 1/off"),  # wins
    ],
)
@pytest.mark.parametrize("mover", [0, 1])
def test_turns_that_nobody_doubts(
    mine: dict[int, int], theirs: dict[int, int], dice: str, best: str, mover: int
) -> None:
    state = board(mine, theirs, dice, mover)
    scores = BACKGAMMON.heuristic()(state, NO_HISTORY)
    assert BACKGAMMON.move_name(state[0], int(scores[0].argmax())) == best


@pytest.mark.parametrize("game", [BACKGAMMON, HYPERGAMMON], ids=lambda game: game.spec)
def test_both_players_see_the_same_and_rows_are_alone(game: Backgammon) -> None:
    states, _ = random_positions(game, 6, seed=4)
    evaluate = game.heuristic()
    scores = evaluate(states, NO_HISTORY)
    legal = game.legal(states, NO_HISTORY)
    assert scores.shape == legal.shape and np.array_equal(np.isfinite(scores), legal)
    np.testing.assert_allclose(scores[legal], evaluate(mirrored(states), NO_HISTORY)[legal])
    for row in range(0, len(states), 7):
        alone = evaluate(states[row : row + 1], NO_HISTORY)[0]
        np.testing.assert_allclose(alone, scores[row, : len(alone)])


def test_checkers_are_counted_as_their_owner_does() -> None:
    states, _ = random_positions(BACKGAMMON, 3, seed=5)
    for player in range(2):
        found = checkers(states, np.full(len(states), player))
        assert found.tolist() == [list(map(float, seen_by(state, player).mine)) for state in states]


def test_a_race_is_a_matter_of_pips() -> None:
    def pips(own: dict[int, int]) -> np.ndarray:
        found = np.zeros((1, 26))
        for point, count in own.items():
            found[0, point] = count
        return found

    near, far = pips({6: 3, 1: 12}), pips({6: 5, 1: 10})
    assert lead(near, far)[0] == 10 == -lead(far, near)[0]
