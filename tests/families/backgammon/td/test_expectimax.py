"""Looking ahead, against brute force over the 21 throws; filters; the player that plays by it."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.families.backgammon.game import Backgammon
from pipeline.families.backgammon.kernels import HIGH_DIE, LOW_DIE
from pipeline.families.backgammon.td.expectimax import ALL, Expectimax, ExpectimaxPlayer, Filter, passing
from pipeline.games.contract import States
from pipeline.search.options import SearchOptions
from tests.families.backgammon.boards import board, random_positions
from tests.families.backgammon.td.test_network import network
from tests.reference import expectimax as twin

BACKGAMMON, HYPERGAMMON = Backgammon(), Backgammon("hypergammon")


def judge(net, state: np.ndarray) -> float:
    return float(net.values(net.chances_at(state[None]))[0])


def before_throws(game: Backgammon, count: int, seed: int) -> States:
    """Positions of random games where a throw comes next; some where the game is over."""
    thrown, ends = random_positions(game, 20, seed)
    states = thrown[: count - 2].copy()
    states[:, [HIGH_DIE, LOW_DIE]] = 0
    return np.concatenate([states, ends[:2]])


@pytest.mark.parametrize("game", [BACKGAMMON, HYPERGAMMON], ids=lambda game: game.spec)
@pytest.mark.parametrize("outputs", [1, 5])
def test_one_ply_equals_brute_force(game: Backgammon, outputs: int) -> None:
    net = network(game, outputs=outputs)
    states = before_throws(game, 12, 1)
    found = net.values(Expectimax(net).expected(states, 1))
    wanted = [twin.expected(game, state, 1, lambda one: judge(net, one)) for state in states]
    assert found == pytest.approx(wanted, abs=1e-5)
    assert (net.values(Expectimax(net).expected(states, 0)) == net.values(net.chances_at(states))).all()


def test_two_plies_without_filters_equal_brute_force() -> None:
    net = network(HYPERGAMMON)
    states = np.concatenate(
        [
            board({1: 1}, {2: 1}, checkers=3),
            board({24: 1, 3: 1}, {5: 1}, mover=1, checkers=3),  # their 5 is my 20: both may still hit
            board({2: 1}, {1: 0}, checkers=3),
        ]
    )
    found = net.values(Expectimax(net, ALL).expected(states, 2))
    wanted = [twin.expected(HYPERGAMMON, state, 2, lambda one: judge(net, one)) for state in states]
    assert found == pytest.approx(wanted, abs=1e-5)


def test_with_a_filter_only_the_likeliest_replies_are_followed() -> None:
    """By default each throw is answered by the reply that the network likes best, and that is followed on."""
    net = network(HYPERGAMMON)
    state = board({24: 1, 3: 1}, {5: 1}, checkers=3)[0]
    wanted = 0.0
    for odds, turns in twin.turns_after(HYPERGAMMON, state):
        best = max(turns, key=lambda one: -twin.expected(HYPERGAMMON, one, 0, lambda x: judge(net, x)))
        wanted += odds * -twin.expected(HYPERGAMMON, best, 1, lambda x: judge(net, x))
    found = net.values(Expectimax(net).expected(state[None], 2))[0]
    assert found == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize("weights", [(1.0, 0.9, 5), (0.5, 1.0, 2), (0.0, 1.0, 3)])
def test_mixed_scores_equal_brute_force(weights: tuple[float, float, int]) -> None:
    """α · S - β · Σ p(throw) · mean(the best k replies)."""
    own, replies, counted = weights
    net = network(BACKGAMMON)
    config = SearchOptions(static_weight=own, replies_weight=replies, replies_counted=counted)
    player = ExpectimaxPlayer(BACKGAMMON, 1, net, config, 1, (ALL,))
    states = random_positions(BACKGAMMON, 20, 3)[0]
    counts = np.diff(BACKGAMMON.successors(states).offsets)
    states = states[(counts > 1) & (counts < 6)][:4]
    found, scores, values = player.scores(states)
    wanted = [twin.mixed(BACKGAMMON, one, lambda x: judge(net, x), *weights) for one in found.states]
    assert scores == pytest.approx(wanted, abs=1e-5)
    replies = [twin.mixed(BACKGAMMON, one, lambda x: judge(net, x), 0.0, 1.0, counted) for one in found.states]
    assert values == pytest.approx(replies, abs=1e-5)


@pytest.mark.parametrize("plies", [0, 1, 2])
def test_unmixed_values_are_what_looking_ahead_finds(plies: int) -> None:
    states = random_positions(HYPERGAMMON, 6, 3)[0]
    player = ExpectimaxPlayer(HYPERGAMMON, 1, network(HYPERGAMMON), SearchOptions(), plies)
    _, scores, values = player.scores(states)
    assert (values == scores).all()


def test_filters() -> None:
    offsets, values = np.array([0, 4, 4, 6]), np.array([0.1, 0.5, 0.45, 0.5, -1, -1], np.float32)
    assert passing(offsets, values, Filter(2, 1.0)).tolist() == [False, True, False, True, True, True]
    assert passing(offsets, values, Filter(9, 0.1)).tolist() == [False, True, True, True, True, True]
    assert passing(offsets, values, Filter(1, 0.0)).tolist() == [False, True, False, False, True, False]
    assert passing(offsets, values, ALL).all()


@pytest.mark.parametrize("plies", [0, 1, 2, 800])
def test_a_player_plays_the_best_turn_whatever_is_played_beside(plies: int) -> None:
    net = network(HYPERGAMMON)
    rows, throws = np.arange(3), np.array([4, 13, 3], np.int32)
    together = ExpectimaxPlayer(HYPERGAMMON, 3, net, SearchOptions(), plies)
    together.new_games(rows, np.arange(3, dtype=np.uint64))
    together.advance(rows, throws)
    together.begin(rows)
    decisions = together.step()
    assert decisions.rows.tolist() == [0, 1, 2] and not len(together.step().rows)
    for row in rows:
        alone = ExpectimaxPlayer(HYPERGAMMON, 1, net, SearchOptions(), plies)
        alone.new_games(np.array([0]), np.array([9], np.uint64))
        alone.advance(np.array([0]), throws[row : row + 1])
        alone.begin(np.array([0]))
        decided = alone.step()
        assert decided.actions[0] == decisions.actions[row] and decided.values[0] == decisions.values[row]
        if plies == 0:
            state = HYPERGAMMON.happen(HYPERGAMMON.initial(1), throws[row : row + 1])
            after = HYPERGAMMON.successors(state).states
            scores = [-judge(net, one) for one in after]
            assert int(np.argmax(scores)) == decided.actions[0] and max(scores) == pytest.approx(decided.values[0])


def test_warm_players_draw_by_their_seed() -> None:
    net = network(HYPERGAMMON)

    def moves(seeds: list[int]) -> list[int]:
        player = ExpectimaxPlayer(HYPERGAMMON, len(seeds), net, SearchOptions(temperature=5.0), 0)
        rows = np.arange(len(seeds))
        player.new_games(rows, np.array(seeds, np.uint64))
        player.advance(rows, np.full(len(seeds), 4, np.int32))
        player.begin(rows)
        return player.step().actions.tolist()

    drawn = moves(list(range(40)))
    assert len(set(drawn)) > 3 and moves(list(range(40))) == drawn and moves([7]) == [drawn[7]]
