"""Gomoku's heuristic evaluation."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.games.contract import History
from pipeline.games.specs import parse_game
from tests.families.gomoku.test_rules import board
from tests.games.heuristic_cases import move_scores


def best_moves(spec: str, *rows: str, to_move: str = "X", **words: object) -> set[str]:
    """Names of the best moves in a diagram of 9×9; see test_rules.board."""
    game, state, _ = board(*rows, to_move=to_move, spec=spec, **words)  # type: ignore[arg-type]
    scores = move_scores(game, state, History.empty(1, 1))[0]
    return {game.action_name(int(action)) for action in np.flatnonzero(scores == scores.max())}


@pytest.mark.parametrize(
    ("spec", "rows", "wanted"),
    [
        ("", ("XXXX.", "OOOO."), {"E9"}),  # wins rather than blocks
        ("", ("XX.XX", "OOOO."), {"C9"}),
        ("", (".........", "OOOO.", "X..X"), {"E8"}),  # blocks a four
        ("", (".........", "OO.OO", "X..X"), {"C8"}),
        ("", (".........", "..XXX..", "........", ".OO......"), {"B8", "F8"}),  # makes a straight four
        ("", (".........", "..OOO..", "........", ".XX......"), {"B8", "F8"}),  # keeps one from being made
        ("exact", ("XXX.XX", "X", "X", "X"), {"A5"}),  # six are no five
        ("exact", ("OOO.OO", ".........", "........", "..XXX...."), {"B6", "F6"}),  # nor need they be kept from
        ("capture", ("XXXX.", "", "XOO."), {"E9"}),
        ("capture", (".........", "XOO......", ".......", "....X...."), {"D8"}),  # takes a pair
    ],
)
def test_best_moves(spec: str, rows: tuple[str, ...], wanted: set[str]) -> None:
    best = best_moves(spec, *rows)
    assert best <= wanted and best


def test_the_last_pair_wins_and_is_kept_from_the_other() -> None:
    rows = (".........", "XOO......", "........", "..OOOO...")
    assert best_moves("capture", *rows, pairs=(4, 0)) == {"D8"}
    rows = (".........", "OXX......", "........", "....X....")
    assert best_moves("capture", *rows, pairs=(0, 4)) == {"D8"}


def test_a_five_that_must_be_answered_is() -> None:
    game, state, point = board(
        ".........", ".........", "..XXXX?", "...X.....", "...O.....", "........O", spec="capture"
    )
    state = game.play(state, np.array([point], np.int32), History.empty(1, 1))
    assert not game.is_over(state)[0]
    scores = move_scores(game, state, History.empty(1, 1))[0]
    assert game.action_name(int(scores.argmax())) == "D8"


def test_beats_random_moves() -> None:
    game = parse_game("gomoku:9,capture")
    none = History.empty(1, 1)
    rng = np.random.default_rng(2)
    for number in range(10):
        state = game.initial(1)
        while not game.is_over(state)[0]:
            own = game.to_move(state)[0] == number % 2
            weights = move_scores(game, state, none)[0] if own else 1.0 * game.legal(state, none)[0]
            weights = weights + 1e-3 * rng.random(len(weights))
            state = game.play(state, np.array([weights.argmax()], np.int32), none)
        assert game.returns(state)[0] == (1 if number % 2 == 0 else -1)
