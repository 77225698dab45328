"""The network that follows a turn's changes against the plain twin; its kernels' choices; what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.errors import MuGoError, UsageError
from pipeline.families.backgammon.game import Backgammon
from pipeline.families.backgammon.td import kernels
from pipeline.families.backgammon.td.network import AfterstateNetwork, parse_hidden, random_weights
from pipeline.families.backgammon.td.outcomes import chances_of
from pipeline.games.contract import Successors
from tests.families.backgammon.boards import mirrored, random_positions
from tests.reference import afterstates as twin

BACKGAMMON, HYPERGAMMON = Backgammon(), Backgammon("hypergammon")
GAMES = [BACKGAMMON, HYPERGAMMON]


def network(game: Backgammon, hidden: int = 8, outputs: int = 5, tactics: bool = False) -> AfterstateNetwork:
    """Weights ten times as large as a new network's, so that outputs differ."""
    weights = random_weights(game.num_features + tactics * game.num_tactical_features, hidden, outputs, 1)
    return AfterstateNetwork(game, {name: 10 * array for name, array in weights.items()})


def test_sigmoids_are_right_to_the_last_bits() -> None:
    x = np.concatenate([np.linspace(-40, 40, 20_001), [0, -1e-30, 700, -700]]).astype(np.float32)
    found, bits = x.copy(), np.empty(len(x), np.int32)
    kernels.apply_sigmoid(found, bits, bits.view(np.float32))
    assert found == pytest.approx(np.array([twin.sigmoid(one) for one in x.tolist()]), abs=3e-7)


@pytest.mark.parametrize("game", GAMES, ids=lambda game: game.spec)
@pytest.mark.parametrize(("hidden", "outputs", "tactics"), [(1, 1, False), (7, 5, True), (33, 5, False), (33, 1, True)])
def test_outputs_equal_the_plain_twin(game: Backgammon, hidden: int, outputs: int, tactics: bool) -> None:
    num_inputs = game.num_features + tactics * game.num_tactical_features
    weights = {k: 10 * v for k, v in random_weights(num_inputs, hidden, outputs, 1).items()}
    states = random_positions(game, 30, 2)[0][:60]
    found = game.successors(states)
    got = AfterstateNetwork(game, weights).outputs_of(states, found)
    some = np.random.default_rng(0).integers(0, len(found.states), 300)
    inputs = np.concatenate([game.features(found.states[some]), game.tactical_features(found.states[some])], axis=1)
    wanted = [twin.outputs(weights, row) for row in inputs[:, :num_inputs].tolist()]
    assert got[some] == pytest.approx(np.array(wanted), abs=2e-6)
    assert got.std(axis=0).min() > 0.001


@pytest.mark.parametrize("game", GAMES, ids=lambda game: game.spec)
def test_a_near_win_for_one_is_a_near_loss_for_the_other(game: Backgammon) -> None:
    """Exchanged players: the same outputs to the last bit, for they see the same position."""
    net = network(game)
    states, ends = random_positions(game, 40, 3)
    here, there = (net.chances(one, game.successors(one)) for one in (states, mirrored(states)))
    # The kernel adds the same numbers in another order of points.
    assert here == pytest.approx(there, abs=1e-6)
    assert (net.exact(ends) == net.exact(mirrored(ends))).all()


def test_ended_games_are_never_guessed() -> None:
    net = network(HYPERGAMMON)
    states, ends = random_positions(HYPERGAMMON, 60, 5)
    found = HYPERGAMMON.successors(states)
    over = HYPERGAMMON.is_over(found.states)
    results = HYPERGAMMON.returns(found.states[over]) * (1 - 2 * HYPERGAMMON.turns(found.states[over]))
    assert over.any() and (net.chances(states, found)[over] == chances_of(results, 5, 3)).all()
    assert (results < 0).all()  # who is to throw has lost
    assert (net.values(net.chances_at(ends)) == HYPERGAMMON.returns(ends) * (1 - 2 * HYPERGAMMON.turns(ends))).all()


def test_rows_without_successors_and_no_rows_at_all() -> None:
    net = network(BACKGAMMON)
    before = np.concatenate([BACKGAMMON.initial(2), random_positions(BACKGAMMON, 1, 6)[0][:3], BACKGAMMON.initial(1)])
    found = BACKGAMMON.successors(before)
    middle = net.chances(before[2:5], BACKGAMMON.successors(before[2:5]))
    assert (net.chances(before, found) == middle).all() and len(middle) > 3
    nothing = Successors(np.zeros(1, np.int64), BACKGAMMON.initial(0))
    assert net.chances(BACKGAMMON.initial(0), nothing).shape == (0, 5)


def test_the_best_and_the_drawn() -> None:
    offsets, scores = np.array([0, 3, 4]), np.array([0.0, 0.2, 0.2, -5.0], np.float32)
    assert kernels.best_of(offsets, scores).tolist() == [1, 3]
    many = 20_000
    offsets = np.arange(many + 1) * 3
    scores = np.tile(np.array([0.1, 0.3, -0.2], np.float32), many)
    points = (np.arange(many) + 0.5) / many
    chosen = kernels.sample_of(offsets, scores, 0.25, points) - offsets[:-1]
    odds = np.exp(np.array([0.1, 0.3, -0.2]) / 0.25)
    assert np.bincount(chosen) / many == pytest.approx(odds / odds.sum(), abs=1e-4)
    cold = kernels.sample_of(offsets, scores, 1e-6, points) - offsets[:-1]
    assert (cold == 1).all()


def test_what_it_refuses() -> None:
    wanted = [(1, False), (80, True), (4096, False)]
    assert [parse_hidden(size) for size in ("h1", "h80t", "h4096")] == wanted
    for size in ("80", "h0", "h4097", "b2c32", "h", "ht", "h80x", "h99999"):
        with pytest.raises(UsageError, match=r"wanted hN with N hidden units, 1 to 4096, e.g. h80, or hNt"):
            parse_hidden(size)
    weights = random_weights(198, 8, 5, 0)
    for broken in (
        {**weights, "hidden.bias": weights["hidden.bias"][:4]},
        {name: array for name, array in weights.items() if name != "output.bias"},
        random_weights(198, 8, 3, 0),
        random_weights(20, 8, 5, 0),
        random_weights(218, 8, 5, 0),
    ):
        with pytest.raises(MuGoError, match=r"wanted .* with one or five outputs"):
            AfterstateNetwork(BACKGAMMON, broken)
