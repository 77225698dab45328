"""Policy improvement: with few readouts, Gumbel AlphaZero's target and move are better than the prior policy."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.games.specs import parse_game
from pipeline.search.batch import BatchSearch
from pipeline.search.options import SearchOptions
from tests.search.helpers import run_searches, zero_evaluator
from tests.search.solved import Solved

GUMBEL = SearchOptions(algorithm="gumbel")
ROWS = np.arange(400)


@pytest.fixture(scope="module")
def solved():
    return Solved()


def search_all(game, states, readouts, evaluate, config=GUMBEL, seed=0):
    """One exploring search from each of states [N, S]: targets [N, A] that sum to 1, chosen actions [N]."""
    rows = np.arange(len(states))
    search = BatchSearch(game, len(states), readouts, config)
    search.new_games(rows, (rows + seed * len(states)).astype(np.uint64))
    search.states[:] = states
    search.history.lengths[:] = 0
    search.history.append(rows, game.keys(states))
    search.begin(rows, np.full(len(rows), readouts), np.ones(len(rows), np.bool_))
    run_searches(search, evaluate)
    targets = search.targets(rows).astype(np.float64)
    return targets / targets.sum(axis=1, keepdims=True), search.choose(rows, np.zeros(len(rows)))


def position(game, moves):
    """[400, S] one position repeated; rows differ in their noise."""
    state, past = game.initial(1), game.initial_history(game.initial(1))
    for move in moves:
        state = game.play(state, np.array([move], np.int32), past)
        past.append(np.array([0]), game.keys(state))
    return np.repeat(state, len(ROWS), axis=0)


def threat_evaluator(game, length):
    """Uniform policy; value 0.5 where the player to move completes a line at once, else 0: a beginner's knowledge."""

    def evaluate(planes):
        height, width = planes.shape[2:]
        values = np.zeros(len(planes), np.float32)
        for k, (own, other) in enumerate(planes[:, :2]):
            for y, x in np.argwhere((own == 0) & (other == 0)):
                if game.spec.startswith("connect4") and y + 1 < height and not (own | other)[y + 1, x]:
                    continue  # nothing to stand on
                for dy, dx in ((0, 1), (1, 0), (1, 1), (1, -1)):
                    run = 1
                    for sign in (1, -1):
                        for step in range(1, length):
                            a, b = y + sign * step * dy, x + sign * step * dx
                            if not (0 <= a < height and 0 <= b < width and own[a, b]):
                                break
                            run += 1
                    if run >= length:
                        values[k] = 0.5
        return np.zeros((len(planes), game.num_actions), np.float32), values

    return evaluate


# game, moves so far, the one right move
WINS = [("tictactoe", [0, 3, 1, 4], 2), ("tictactoe", [0, 1, 3, 2], 6), ("connect4", [3, 0, 3, 1, 3, 0], 3)]
BLOCKS = [
    ("tictactoe", [0, 3, 8, 4], 5),  # X must stop 3-4-5
    ("tictactoe", [4, 0, 8, 2], 1),
    ("connect4", [0, 3, 1, 3, 0, 3], 3),  # X must stop three in a column
    ("connect4", [6, 0, 6, 1, 5, 2], 3),  # three on the bottom row
]


def check_improved(spec, moves, right, readouts, evaluate):
    """Averaged over the noise, the target favours the right move more than the prior; it is played more often, too."""
    game = parse_game(spec)
    states = position(game, moves)
    prior = 1 / game.legal(states[:1], game.initial_history(states[:1]))[0].sum()
    targets, chosen = search_all(game, states, readouts, evaluate)
    share = (chosen == right).mean()
    spread = (prior * (1 - prior) / len(ROWS)) ** 0.5
    assert targets[:, right].mean() > prior + 0.04, (targets.mean(axis=0), prior)
    assert share > prior + 3 * spread, (share, prior)
    return share


@pytest.mark.parametrize(("spec", "moves", "right"), WINS)
def test_wins_are_found_by_knowing_nothing(spec, moves, right):
    game = parse_game(spec)
    shares = [check_improved(spec, moves, right, readouts, zero_evaluator(game)) for readouts in (2, 4, 16)]
    assert shares == sorted(shares) and shares[-1] > 0.95


@pytest.mark.parametrize(("spec", "moves", "right"), BLOCKS)
def test_blocks_are_found_by_a_beginner(spec, moves, right):
    game = parse_game(spec)
    evaluate = threat_evaluator(game, 3 if spec == "tictactoe" else 4)
    shares = [check_improved(spec, moves, right, readouts, evaluate) for readouts in (2, 4, 16)]
    assert shares == sorted(shares) and shares[-1] > 0.65


@pytest.mark.parametrize("readouts", [1, 2])
def test_exact_values_never_make_the_policy_worse(solved, readouts):
    """With v_π and q_π exact, the improved policy is at least as good as π on every position, whatever the noise.

    Danihelka et al. 2022, section 4. It holds where the mixed value lies on the same side of each visited q as v_π:
    always with up to two visited moves, here; and while readouts go to the root's moves, each once.
    """
    targets, _ = search_all(solved.game, solved.states, readouts, solved.evaluator(solved.value))
    gain = (targets * solved.q).sum(axis=1) - solved.value
    assert len(gain) == 4520
    assert gain.min() > -2e-4  # the target's whole numbers
    assert gain.mean() > 0.25


@pytest.mark.parametrize("readouts", [2, 4, 16])
def test_perfect_values_improve_policy_and_choice(solved, readouts):
    """With the values of perfect play there is no guarantee, but the policy almost always improves."""
    before = (solved.policy * solved.best_q).sum(axis=1)
    targets, chosen = search_all(solved.game, solved.states, readouts, solved.evaluator(solved.best))
    gain = (targets * solved.best_q).sum(axis=1) - before
    assert gain.mean() > 0.4 and (gain < -2e-4).mean() < 0.01
    assert (solved.best_q[np.arange(len(chosen)), chosen] - before).mean() > 0.3


def test_the_solver_knows_tictactoe(solved):
    assert len(solved.states) == 4520  # 5,478 positions can be reached, 958 of them are over
    assert solved.best[0] == 0
    assert set(np.unique(solved.best)) == {-1, 0, 1}
