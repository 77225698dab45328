"""Statistics of games, against counts by hand."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.families.backgammon.game import Backgammon
from pipeline.families.backgammon.td.tracking import _values, tracked
from pipeline.games.replay import replay_one
from pipeline.run.shards import GameRecord
from tests.families.backgammon.td.helpers import HYPERGAMMON, play, small_network
from tests.families.backgammon.td.test_network import network

BACKGAMMON = Backgammon("backgammon")


def game_with(at_throw: list[float], after: list[float], result: float) -> GameRecord:
    """A game of which only values and result are read."""
    values = np.column_stack([at_throw, after]).astype(np.float32).ravel()
    moves = np.zeros(len(values), np.uint16)
    return GameRecord(game_id=0, moves=moves, root_values=values, result_first_player=result)


def test_errors_and_calibration_by_hand() -> None:
    """Turn 1's position was worth -C_0 to its mover, so the error is C_1 + C_0. The last value is the result itself.

    Values at the throw don't count: with value_plies 1 they have another meaning.
    """
    games = [
        game_with([0.5, -1.0, 2.0], [0.5, -1.0, 2.0], 2.0),  # C_0 = 0.5 against C_1 = -1: error 0.5; then 1.0
        game_with([2.6, 3.0], [2.6, -1.0], 1.0),  # error 1.6; the first player wins 1, so the second loses
    ]
    found = _values(3.0, games)
    assert found["td_error"] == pytest.approx((0.5 + 1.0 + 1.6) / 3)
    # Values 0.5 (wins 2), -1 (the other side loses 2), 2.6 (wins 1).
    assert found["value_error"] == pytest.approx((1.5 + 1.0 + 1.6) / 3)
    # Parts of 1.2 points from -3: -1 in the second, 0.5 in the third, 2.6 in the fifth.
    assert {name: found[name] for name in found if name.endswith("_of_5")} == pytest.approx(
        {
            "value_2_of_5": -1.0,
            "result_2_of_5": -2.0,
            "value_3_of_5": 0.5,
            "result_3_of_5": 2.0,
            "value_5_of_5": 2.6,
            "result_5_of_5": 1.0,
        }
    )
    assert found["calibration_error"] == pytest.approx((1.0 + 1.5 + 1.6) / 3)


def test_exact_values_have_no_error() -> None:
    found = _values(3.0, [game_with([1.0, -1.0, 1.0], [1.0, -1.0, 1.0], 1.0)] * 2)
    assert found["td_error"] == found["value_error"] == found["calibration_error"] == 0


def test_wins_by_kind_and_lengths() -> None:
    records = [one.record for one in play(small_network(), 50)]
    facts = tracked(HYPERGAMMON, records)["selfplay"]
    points = np.abs([one.result_first_player for one in records])
    assert (facts["games"], facts["points"]) == (50, pytest.approx(points.mean()))
    assert facts["plies"] == pytest.approx(np.mean([len(one.moves) for one in records]))
    for name, worth in (("single", 1), ("gammon", 2), ("backgammon", 3)):
        assert facts[name] == pytest.approx((points == worth).mean())
    assert "unfinished" not in facts and "closeout_first" not in facts  # three checkers close nobody out


def test_structures_are_counted_once_a_game_and_by_player() -> None:
    net = network(BACKGAMMON, outputs=1)
    records = [one.record for one in play(net, 40, 40, BACKGAMMON)]
    facts = tracked(BACKGAMMON, records)["selfplay"]
    built = np.zeros((40, 2, 2), bool)  # by game, player and structure
    for number, one in enumerate(records):
        for ply, state in enumerate(replay_one(BACKGAMMON, one.moves)):
            if ply and ply % 2 == 0:
                mover = 1 - BACKGAMMON.turns(state)
                built[number, mover[0]] |= BACKGAMMON.structures(state, mover)[0]
    assert built[:, :, 1].any()
    for structure, what in enumerate(("closeout", "prime")):
        for player, who in enumerate(("first", "second")):
            assert facts[f"{what}_{who}"] == pytest.approx(built[:, player, structure].mean())


def test_illegal_moves_of_a_damaged_game_count_for_no_structure() -> None:
    record = play(small_network(), 1)[0].record
    record.moves[1] = 60_000
    assert "games" in tracked(HYPERGAMMON, [record])["selfplay"]
