"""The benchmarks of backgammon: hypergammon's own turns against the game's, pairs of games, and what is counted."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from benchmarks import backgammon, hypergammon
from pipeline.errors import UsageError
from pipeline.families.backgammon.game import THROWS, Backgammon
from pipeline.families.backgammon.kernels import HIGH_DIE, LOW_DIE, PLY, TURN
from pipeline.families.backgammon.td.kernels import best_of
from pipeline.games.contract import States, Successors
from pipeline.run.models import read_model, write_model
from pipeline.train.config import InitConfig
from pipeline.train.init import init
from tests.families.backgammon.boards import board, mirrored, random_positions
from tests.helpers import make_model
from tests.reference.backgammon import BackgammonReference

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
        mine, theirs = sides[one[i]].copy(), sides[other[i]].copy()
        place = hypergammon.best_turn(mine, theirs, high, low, values.ravel(), numbers)
        assert hypergammon.worth(place, values.ravel()) == wanted[i], HYPERGAMMON.diagram(states[i])
        assert (mine == sides[one[i]]).all() and (theirs == sides[other[i]]).all()
    assert over.any()


@pytest.mark.parametrize("mover", [0, 1])
def test_sides_are_seen_by_the_player_about_to_throw(mover: int) -> None:
    states = board({25: 1, 6: 1}, {24: 2, 1: 1}, mover=mover, checkers=3)
    one, other = hypergammon.sides_of(states)
    assert hypergammon.SIDES[one[0]].tolist() == [0, 6, 25] and hypergammon.SIDES[other[0]].tolist() == [1, 24, 24]


def test_sides_and_states_say_the_same() -> None:
    one, other = (np.random.default_rng(seed).integers(1, len(hypergammon.SIDES), 500) for seed in (1, 2))
    order = hypergammon.positions_in_order()
    fitting = np.isin(one * len(hypergammon.SIDES) + other, order)
    states = hypergammon.states_of(one[fitting], other[fitting])
    assert len(states) > 100 and not HYPERGAMMON.is_over(states).any()
    found = hypergammon.sides_of(states)
    assert (found[0] == one[fitting]).all() and (found[1] == other[fitting]).all()
    again = random_positions(HYPERGAMMON, 20, 2)[0]
    again[:, [HIGH_DIE, LOW_DIE]] = 0
    again = np.where(again[:, [TURN]] == 0, again, mirrored(again))
    built = hypergammon.states_of(*hypergammon.sides_of(again))
    assert (built[:, :PLY] == again[:, :PLY]).all()


def test_a_model_is_compared_with_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A network that says 0 everywhere against a table that says 1/4: an error of 1/4 wherever it is asked."""
    first, zero = tmp_path / "000000-first", tmp_path / "000001-zero"
    init(InitConfig(game="hypergammon", method="td", network_size="h8", value_head="scalar", new_model=first))
    read = read_model(first)
    write_model(zero, read.info, {name: 0 * array for name, array in read.weights.items()})
    values = np.full((len(hypergammon.SIDES),) * 2, 0.25, np.float32)
    hypergammon.compare(zero, values, num_games=5, num_positions=300, seed=0)
    said = capsys.readouterr().out
    assert said.count("mean |error| 0.2500") == 2 and "300 drawn uniformly from 7,953,353 positions" in said
    assert said.count("points in") == 3 and "a move loses" in said


def test_a_solution_equals_plain_value_iteration() -> None:
    """One checker each, the others off: all 601 positions, with the twin's turns and numpy's means."""
    order, sides = hypergammon.positions_in_order(), hypergammon.SIDES
    has_one = sides[:, 1] == 0
    order = order[has_one[order // len(sides)] & has_one[order % len(sides)]]
    values = np.zeros(len(sides) ** 2, np.float32)
    steps = list(hypergammon.improve(order, values, 1e-6))
    assert steps[0][0] == 1 and steps[-1][0] <= 1e-6 and 1 < len(steps) < 8

    mine, theirs = sides[order // len(sides), 2], sides[order % len(sides), 2]
    index = {position: i for i, position in enumerate(zip(mine.tolist(), theirs.tolist(), strict=True))}
    rows: list[tuple[int, float, list[int]]] = []  # position, chance of the throw, where its turns lead; -1: won
    for (one, other), i in index.items():
        both = [tuple((2 if p == 0 else 0) + (p == place) for p in range(26)) for place in (one, other)]
        for high, low in THROWS.tolist():
            ends = BackgammonReference(*both).successors(high, low)
            places = [-1 if end.mine[0] == 3 else index[_last(end.theirs), _last(end.mine)] for end in ends]
            rows.append((i, 1 / 36 if high == low else 2 / 36, places))
    wanted = np.zeros(len(order))
    for _ in range(60):
        before = np.append(-wanted, 1.0)  # the last one, at -1: the game is won
        wanted = np.bincount([i for i, _, _ in rows], [odds * before[places].max() for _, odds, places in rows])
    assert len(order) == 601 and values[order] == pytest.approx(wanted, abs=2e-5)
    assert wanted.min() < -0.9 and wanted.max() == pytest.approx(1)


def _last(side: tuple[int, ...]) -> int:
    return max(point for point in range(26) if side[point])


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


def test_a_missing_engine_is_named_with_the_way_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gnubg_nn", None)
    with pytest.raises(UsageError, match="pubeval needs the package gnubg-nn; python -m pip install"):
        backgammon.chooser("pubeval", 0)


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        (lambda path: backgammon.chooser(str(path), 0), "backgammon"),
        (lambda path: hypergammon.compare(path, np.zeros((1, 1), np.float32), 1, 1, 0), "hypergammon"),
    ],
)
def test_models_of_other_games_are_refused(tmp_path: Path, call: Callable[[Path], object], wanted: str) -> None:
    with pytest.raises(UsageError, match=f"it plays tictactoe; wanted a model of {wanted}$"):
        call(make_model(tmp_path))


def test_an_engine_beats_the_first_turn_that_comes() -> None:
    pytest.importorskip("gnubg_nn", reason="GNU Backgammon isn't installed: pip install gnubg-nn")
    results = backgammon.play(BACKGAMMON, backgammon.engine_chooses("pubeval"), first, 20, 5)
    assert backgammon.summary(results).mean > 1


def test_models_play_as_their_players_do() -> None:
    choose = backgammon.chooser(str(Path(__file__).parents[3] / "pretrained" / "backgammon"), 0)
    results = backgammon.play(BACKGAMMON, choose, first, 20, 6)
    assert backgammon.summary(results).mean > 1
