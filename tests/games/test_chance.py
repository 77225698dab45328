"""Outcomes of chance: what a game's key and ply make of its probabilities, against the plain twin."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.counter_rng import uniforms
from pipeline.families.backgammon.game import Backgammon
from pipeline.games.chance import _drawn, outcomes
from tests.families.backgammon.boards import board


def drawn(odds: np.ndarray, point: float) -> int:
    """The plain twin, one row at a time."""
    bounds = np.cumsum(odds, dtype=np.float64)
    return int((bounds <= point * bounds[-1]).sum())


def test_draws_equal_the_plain_twin() -> None:
    rng = np.random.default_rng(1)
    odds = (rng.random((5000, 21)) * (rng.random((5000, 21)) < 0.7)).astype(np.float32)
    odds[:, 7] += 0.01
    points = rng.random(5000)
    points[:100] = 0
    found = _drawn(odds, points)
    assert found.dtype == np.int32
    assert found.tolist() == [drawn(row, point) for row, point in zip(odds, points.tolist(), strict=True)]
    assert (odds[np.arange(5000), found] > 0).all()


def test_a_key_and_a_ply_make_an_outcome() -> None:
    game = Backgammon()
    states = np.concatenate([game.initial(3000), np.repeat(board({6: 15}, {6: 15}), 3000, axis=0)])
    keys = np.tile(np.arange(3000, dtype=np.uint64), 2)
    found = outcomes(game, states, keys)
    points = uniforms(keys, game.plies(states))
    assert found.tolist() == [drawn(*both) for both in zip(game.chance(states), points.tolist(), strict=True)]
    assert (outcomes(game, states[::-1], keys[::-1]) == found[::-1]).all()
    shares = np.bincount(found[3000:], minlength=21) / 3000
    assert shares == pytest.approx(game.chance(states)[-1], abs=0.02)
