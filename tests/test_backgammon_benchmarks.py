"""The benchmarks of backgammon: hypergammon's own turns against the game's, pairs of games, and what is counted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks import backgammon, hypergammon
from pipeline.games.backgammon.game import THROWS, Backgammon
from pipeline.games.backgammon.kernels import HIGH_DIE, LOW_DIE, TURN
from pipeline.games.base import States, Successors
from pipeline.networks.afterstate_kernels import best_of
from tests.games.backgammon.boards import board, random_positions

HYPERGAMMON, BACKGAMMON = Backgammon("hypergammon"), Backgammon()


def test_hypergammons_best_turns_are_those_of_the_game() -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(size=(len(hypergammon.SIDES),) * 2).astype(np.float32)
    numbers = hypergammon.side_numbers()
    states = random_positions(HYPERGAMMON, 150, 1)[0][:3000]
    states[:, [HIGH_DIE, LOW_DIE]] = THROWS[np.arange(len(states)) % len(THROWS)]
    one, other = hypergammon.sides_of(states)
    found = HYPERGAMMON.successors(states)
    over = HYPERGAMMON.is_over(found.states)
    worth = np.empty(len(found.states), np.float32)
    worth[over] = np.abs(HYPERGAMMON.returns(found.states[over]))
    worth[~over] = -hypergammon.exact(found.states[~over], values)
    wanted = worth[best_of(found.offsets, worth)]
    sides = hypergammon.SIDES
    for i, (high, low) in enumerate(states[:, [HIGH_DIE, LOW_DIE]].tolist()):
        got = hypergammon.best_turn(sides[one[i]].copy(), sides[other[i]].copy(), high, low, values, numbers)
        assert got == wanted[i], HYPERGAMMON.diagram(states[i])
    assert over.any()


@pytest.mark.parametrize("mover", [0, 1])
def test_sides_are_seen_by_the_player_about_to_throw(mover: int) -> None:
    states = board({25: 1, 6: 1}, {24: 2, 1: 1}, mover=mover, checkers=3)
    one, other = hypergammon.sides_of(states)
    assert hypergammon.SIDES[one[0]].tolist() == [0, 6, 25] and hypergammon.SIDES[other[0]].tolist() == [1, 24, 24]


def test_a_sweep_knows_the_last_turns() -> None:
    """Both have a checker on their own first point: who throws wins, a single game, since both have borne off."""
    numbers, values = hypergammon.side_numbers(), np.zeros((len(hypergammon.SIDES),) * 2, np.float32)
    last = numbers[0, 0, 1]
    order = np.array([last * len(hypergammon.SIDES) + last], np.int64)
    assert hypergammon.sweep(order, hypergammon.SIDES, THROWS, values, numbers) == 1.0 and values[last, last] == 1.0


def first(states: States, found: Successors) -> np.ndarray:
    return np.zeros(len(states), np.int64)


def last(states: States, found: Successors) -> np.ndarray:
    return np.diff(found.offsets) - 1


def test_a_player_against_itself_wins_nothing_and_dice_are_the_same() -> None:
    results = backgammon.play(HYPERGAMMON, last, last, 40, 3)
    assert (results.sum(axis=1) == 0).all() and results.any()
    there, back = backgammon.play(HYPERGAMMON, last, first, 40, 3), backgammon.play(HYPERGAMMON, first, last, 40, 3)
    assert (there == -back[:, ::-1]).all() and there.sum() != 0


def test_what_is_counted() -> None:
    points = backgammon.summary(np.array([[1.0, -2.0], [3.0, 1.0], [2.0, -1.0], [1.0, 1.0]]))
    assert points.games == 8 and points.mean == pytest.approx(0.75)
    assert points.error == pytest.approx(1.96 * np.std([-0.5, 2.0, 0.5, 1.0], ddof=1) / 2)
    assert (points.wins, points.gammons_won, points.gammons_lost) == (0.75, 0.25, 0.125)


@pytest.mark.parametrize("name", ["pubeval", "gnubg"])
def test_engines_play_legal_turns(name: str) -> None:
    pytest.importorskip("gnubg_nn", reason="GNU Backgammon isn't installed: pip install gnubg-nn")
    states = random_positions(BACKGAMMON, 20, 4)[0][:1500]
    found = BACKGAMMON.successors(states)
    chosen = backgammon.engine_chooses(name)(states, found)
    assert ((chosen >= 0) & (chosen < np.diff(found.offsets))).all() and len(set(states[:, TURN].tolist())) == 2


def test_an_engine_beats_the_first_turn_that_comes() -> None:
    pytest.importorskip("gnubg_nn", reason="GNU Backgammon isn't installed: pip install gnubg-nn")
    results = backgammon.play(BACKGAMMON, backgammon.engine_chooses("pubeval"), first, 20, 5)
    assert backgammon.summary(results).mean > 1


def test_models_play_as_their_players_do() -> None:
    choose = backgammon.chooser(str(Path(__file__).parent.parent / "pretrained" / "backgammon"), 0)
    results = backgammon.play(BACKGAMMON, choose, first, 20, 6)
    assert backgammon.summary(results).mean > 1
