"""Turns made checker by checker: every legal turn can be reached, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.families.backgammon.game import Backgammon
from pipeline.families.backgammon.stepping import Stepper
from tests.families.backgammon.boards import board, random_positions

BACKGAMMON, HYPERGAMMON = Backgammon(), Backgammon("hypergammon")


@pytest.mark.parametrize("game", [BACKGAMMON, HYPERGAMMON], ids=lambda game: game.spec)
def test_every_turn_can_be_reached_step_by_step_and_no_way_is_a_dead_end(game: Backgammon) -> None:
    rng = np.random.default_rng(0)
    states, _ = random_positions(game, 4, seed=6)
    for state in states[:150]:
        stepper, reached = Stepper(game, state), set()
        waiting = [()]
        for _ in range(60):
            if not waiting:
                break
            done = waiting.pop(int(rng.integers(len(waiting))))
            options = stepper.options(done)
            action = stepper.action(done)
            assert (action is None) == bool(options) and len(done) <= 4
            if action is not None:
                reached.add(action)
            waiting += [(*done, step) for step in options]
        count = len(game.successors(state[None]).states)
        assert reached <= set(range(count)) and (waiting or reached == set(range(count)))


def test_who_is_stuck_passes_and_bearing_off_takes_the_die_that_fits() -> None:
    stuck = Stepper(BACKGAMMON, board({25: 1, 6: 14}, {1: 2, 2: 2, 3: 2, 4: 2, 5: 2, 6: 5}, "65")[0])
    assert stuck.options() == [] and stuck.action(()) == 0
    off = Stepper(BACKGAMMON, board({6: 1, 2: 1}, {1: 15}, "61")[0])
    assert off.action([(6, 0), (2, 1)]) is not None and off.board([(6, 0)])[0] == 14
    assert off.action([(6, 0)]) is None and off.options([(6, 0)]) == [(2, 1)]  # the 1 must be played, too
    assert off.action([(6, 5), (5, 0)]) is not None
    with pytest.raises(ValueError, match="don't lead to a legal turn"):
        off.board([(2, 0)])
    stalled = Stepper(BACKGAMMON, board({5: 1, 2: 1}, {1: 15}, "65")[0])
    assert stalled.options() == [(5, 0)] and stalled.options([(5, 0)]) == [(2, 0)]  # whichever die bore it off
