"""TD(λ) by hand on a tiny game, against the textbook's sum of n-step returns, and what it must never depend on."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.families.backgammon.td.outcomes import chances_of, seen_by_other
from pipeline.families.backgammon.td.targets import lambda_returns
from tests.reference import td as twin


def one_game(at_throw: list, after_move: list, td_lambda: float, gamma: float = 1.0, rewards=None) -> np.ndarray:
    """[K, O]"""
    parts = (np.array(part, np.float32)[:, None] for part in (at_throw, after_move))
    paid = None if rewards is None else np.array(rewards, np.float32)[:, None]
    found = lambda_returns(*parts, np.array([len(at_throw)]), np.array([td_lambda], np.float32), gamma, paid)
    return found[:, 0]


# Three turns: A moves and thinks it has 0.6; B moves and thinks it has 0.5; A moves and has won.
SAID = [[0.6], [0.5], [1.0]]


@pytest.mark.parametrize(
    ("td_lambda", "gamma", "wanted"),
    [
        (0.0, 1.0, [0.6, 0.5, 1.0]),  # TD(0): what was said of the next position; the result itself at the end
        (1.0, 1.0, [1.0, 0.0, 1.0]),  # the result, as each of them sees it
        (0.5, 1.0, [(0.6 + 0.75) / 2, (0.5 + 0.0) / 2, 1.0]),  # A's second half: B's target is 0.25, so A's is 0.75
        # γ = 0.9 draws everything but the result towards one half: 0.6 → 0.59, 0.5 → 0.5; the result isn't discounted.
        (0.0, 0.9, [0.59, 0.5, 1.0]),
        (1.0, 0.9, [0.5 + 0.81 * 0.5, 0.5 - 0.9 * 0.5, 1.0]),
    ],
)
def test_three_turns_by_hand(td_lambda: float, gamma: float, wanted: list[float]) -> None:
    assert one_game(SAID, SAID, td_lambda, gamma)[:, 0] == pytest.approx(wanted, abs=1e-6)


def test_the_mean_over_all_throws_takes_the_luck_out() -> None:
    """B's throw was a lucky one: 0.5 after it, 0.3 on average. Nothing that A learns depends on it."""
    average = [[0.55], [0.3], [0.8]]
    assert one_game(average, SAID, 0.0)[:, 0] == pytest.approx([0.55, 0.3, 0.8])
    # A's own error at its last turn is 0.8 - 0.5 (what B left it): B's target is 0.3 less of that, and so on.
    third = 0.8
    second = 0.3 + ((1 - third) - 0.5)
    first = 0.55 + ((1 - second) - 0.6)
    assert one_game(average, SAID, 1.0)[:, 0] == pytest.approx([first, second, third], abs=1e-6)


@pytest.mark.parametrize("outputs", [1, 5])
@pytest.mark.parametrize(("td_lambda", "gamma"), [(0.0, 1.0), (0.7, 1.0), (0.7, 0.99), (1.0, 0.9), (1.0, 1.0)])
def test_it_equals_the_mean_of_n_step_returns(outputs: int, td_lambda: float, gamma: float) -> None:
    rng = np.random.default_rng(1)
    lengths = np.array([7, 5, 5, 1])
    said = rng.random((7, 4, outputs), np.float32)
    for game, turns in enumerate(lengths):
        said[turns - 1, game] = chances_of(np.array([float(rng.integers(1, 4))], np.float32), outputs, 3.0)[0]
        said[turns:, game] = np.nan  # nothing behind the end may count
    found = lambda_returns(said, said, lengths, np.full(4, td_lambda, np.float32), gamma)
    for game, turns in enumerate(lengths.tolist()):
        played = said[:turns, game].tolist()
        wanted = [twin.mean_of_n_steps(played, turn, td_lambda, gamma) for turn in range(turns)]
        assert found[:turns, game] == pytest.approx(np.array(wanted), abs=1e-5)


def test_each_game_has_its_own_lambda() -> None:
    said = np.array(SAID, np.float32)[:, None].repeat(2, axis=1)
    found = lambda_returns(said, said, np.array([3, 3]), np.array([0.0, 1.0], np.float32))
    assert pytest.approx(np.array([[0.6, 0.5, 1.0], [1.0, 0.0, 1.0]]), abs=1e-6) == found[:, :, 0].T


def test_rewards_are_paid_to_the_mover_and_taken_from_the_other() -> None:
    """A builds something at its first turn: with λ = 1 only that turn learns of it; B's later one never does."""
    assert one_game(SAID, SAID, 1.0, rewards=[0.0, 0.05, 0.0])[:, 0] == pytest.approx([0.95, 0.05, 1.0], abs=1e-6)
    assert one_game(SAID, SAID, 0.0, rewards=[0.05, 0.0, 0.1])[:, 0] == pytest.approx([0.65, 0.5, 1.0], abs=1e-6)


def test_both_players_learn_the_same_of_a_game() -> None:
    """Targets of consecutive turns with λ = 1 are the same chances, seen from both sides."""
    rng = np.random.default_rng(2)
    said = rng.random((6, 1, 5), np.float32)
    found = lambda_returns(said, said, np.array([6]), np.ones(1, np.float32))[:, 0]
    assert found[:-1] == pytest.approx(seen_by_other(found[1:]), abs=1e-6)
