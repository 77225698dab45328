"""Throws: what a game's key and ply make of their probabilities."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.counter_rng import uniforms
from pipeline.families.backgammon.game import Backgammon
from pipeline.games.chance import outcomes
from tests.families.backgammon.boards import board
from tests.games.test_chance import drawn


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
