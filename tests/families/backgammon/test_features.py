"""Tesauro's 198 inputs: worked out by hand, and against the plain twin."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.families.backgammon.game import Backgammon
from pipeline.families.backgammon.kernels import HALF_FEATURES, TURN
from tests.families.backgammon.boards import board, mirrored, random_positions, seen_by

BACKGAMMON, HYPERGAMMON = Backgammon(), Backgammon("hypergammon")
MY_TURN, THEIR_TURN = 196, 197


def vector(*values: tuple[int, float]) -> np.ndarray:
    found = np.zeros(198, np.float32)
    for index, value in values:
        found[index] = value
    return found


def test_the_start_by_hand() -> None:
    # Point p's four numbers begin at 4 (p - 1): 6 at 20, 8 at 28, 13 at 48, 24 at 92. Five checkers: (5 - 3) / 2 = 1.
    side = [(20, 1), (21, 1), (22, 1), (23, 1), (28, 1), (29, 1), (30, 1), (48, 1), (49, 1), (50, 1), (51, 1),
            (92, 1), (93, 1)]  # fmt: skip
    wanted = vector(*side, *((98 + index, value) for index, value in side), (MY_TURN, 1))
    assert BACKGAMMON.features(BACKGAMMON.initial(1)).tolist() == [wanted.tolist()]


@pytest.mark.parametrize("mover", [0, 1])
def test_a_board_by_hand(mover: int) -> None:
    # Mine: two on the bar, 1 checker on 24, 6 on 6, 2 on 1, so 4 are off. Theirs: one on the bar, 4 on their 20, 3 on
    # their 3, so 7 are off.
    state = board({25: 2, 24: 1, 6: 6, 1: 2}, {25: 1, 20: 4, 3: 3}, "31", mover)
    mine = [(96, 2 / 2), (97, 4 / 15), (92, 1), (20, 1), (21, 1), (22, 1), (23, 1.5), (0, 1), (1, 1)]
    theirs = [(96, 1 / 2), (97, 7 / 15), (76, 1), (77, 1), (78, 1), (79, 0.5), (8, 1), (9, 1), (10, 1)]
    seen = vector(*mine, *((98 + index, value) for index, value in theirs), (MY_TURN, 1))
    found = BACKGAMMON.features(state)
    assert found.dtype == np.float32 and (found == seen).all()
    across = vector(*theirs, *((98 + index, value) for index, value in mine), (THEIR_TURN, 1))
    assert (BACKGAMMON.features(state, np.array([1 - mover], np.int8)) == across).all()


def test_in_hypergammon_the_numbers_mean_the_same() -> None:
    found = HYPERGAMMON.features(board({22: 1}, {24: 1, 23: 1, 22: 1}, checkers=3))
    wanted = vector((84, 1), (97, 2 / 15), (98 + 84, 1), (98 + 88, 1), (98 + 92, 1), (MY_TURN, 1))
    assert (found == wanted).all()


@pytest.mark.parametrize("game", [BACKGAMMON, HYPERGAMMON], ids=lambda game: game.spec)
def test_features_equal_the_plain_twin(game: Backgammon) -> None:
    states = np.concatenate([*random_positions(game, 60, 1), game.initial(1)])[-3000:]
    viewers = np.random.default_rng(2).integers(0, 2, len(states)).astype(np.int8)
    wanted = [
        seen_by(state, viewer).features(my_turn=viewer == state[TURN])
        for state, viewer in zip(states, viewers, strict=True)
    ]
    assert (game.features(states, viewers) == np.array(wanted, np.float32)).all()
    assert (game.features(states) == game.features(states, game.turns(states))).all()


def test_exchanged_players_look_alike() -> None:
    states, _ = random_positions(BACKGAMMON, 30, 3)
    seen = BACKGAMMON.features(states)
    assert (BACKGAMMON.features(mirrored(states)) == seen).all()
    across = BACKGAMMON.features(states, 1 - BACKGAMMON.turns(states))
    halves = [slice(0, HALF_FEATURES), slice(HALF_FEATURES, 2 * HALF_FEATURES)]
    assert (across[:, halves[0]] == seen[:, halves[1]]).all() and (across[:, halves[1]] == seen[:, halves[0]]).all()
