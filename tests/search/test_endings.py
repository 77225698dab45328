"""EndingSearch: what ends are worth, which root moves count, and when a pass is played."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.games.margins import squash, step_of
from pipeline.games.specs import parse_game
from pipeline.search.batch import BatchSearch
from pipeline.search.ending_search import FAR, EndingSearch
from pipeline.search.options import PlaySearchOptions
from tests.search.helpers import hashed_evaluator, run_searches

ROW = np.arange(1)
CONFIG = PlaySearchOptions()


def after(spec: str, moves: str) -> BatchSearch:
    game = parse_game(spec)
    search = BatchSearch(game, 1, 10, CONFIG)
    for name in moves.split():
        search.advance(ROW, np.array([game.parse_action(name)], np.int32))
    return search


def ending_at(search: BatchSearch, allowed=None, readouts: int = 60) -> EndingSearch:
    found = EndingSearch(search.game, 1, readouts, CONFIG)
    allowed = np.ones((1, search.game.num_actions), np.bool_) if allowed is None else allowed
    found.begin_at(search, ROW, np.full(1, readouts, np.int32), allowed)
    return found


def value_of_end(search: EndingSearch, moves: str, mover: int) -> float:
    """The value of the end that these moves lead to from the search's position."""
    ended = after(search.game.spec, moves)
    assert ended.over(ROW)[0]
    return float(search._ending_values(np.zeros(1, np.int32), ended.states, np.array([mover], np.int8))[0])


def test_without_margins_losses_count_less_the_later_they_come_and_wins_more_the_sooner() -> None:
    search = ending_at(after("connect4", "4 1"))
    soon, late = "4 1 4 1 4 2 4", "4 1 3 1 4 2 4 2 4"
    wins, losses = ([value_of_end(search, moves, mover) for moves in (soon, late)] for mover in (0, 1))
    assert 1 > wins[0] > wins[1] > FAR
    assert losses == [-value for value in wins]


def test_with_margins_an_end_is_worth_its_score() -> None:
    search = ending_at(after("go:5,komi=0.5", "C3"))
    won = value_of_end(search, "C3 pass pass", 0)
    assert won == pytest.approx(float(squash(np.float32(24.5), 25)))
    assert value_of_end(search, "C3 pass pass", 1) == -won
    assert value_of_end(search, "pass pass", 0) == pytest.approx(float(squash(np.float32(-0.5), 25)))


def test_steps_are_the_slope_of_squashed_margins() -> None:
    margins = np.array([-30, -3, 0, 0.5, 12], np.float32)
    steps = step_of(squash(margins, 81), 0.01, 81)
    assert steps == pytest.approx(squash(margins + 0.005, 81) - squash(margins - 0.005, 81), abs=1e-6)


def test_only_allowed_moves_are_searched_and_a_pass_always_is() -> None:
    before = after("go:5,komi=0.5", "C3 C2")
    game = before.game
    names = ["B2", "D4", "pass"]
    allowed = np.zeros((1, game.num_actions), np.bool_)
    allowed[0, [game.parse_action(name) for name in names]] = True

    def evaluate(planes):
        logits, values = hashed_evaluator(game)(planes)
        logits[:, game.pass_action] = -30.0
        return logits, values

    search = ending_at(before, allowed)
    run_searches(search, evaluate)
    visits, priors = search.root_table(ROW)
    assert {game.action_name(action) for action in np.flatnonzero(priors[0])} == set(names)
    assert visits[0, game.pass_action] > 0
    assert visits.sum() == 60


def test_searches_begin_at_the_other_searchs_position_with_its_history() -> None:
    before = after("go:5,komi=0.5", "C3 C2 B2 D4")
    search = ending_at(before)
    assert np.array_equal(search.states, before.states)
    assert np.array_equal(search.legal(ROW), before.legal(ROW))
    assert search.history.lengths[0] == before.history.lengths[0]
    run_searches(search, hashed_evaluator(before.game))
    first = search.best(ROW)
    search.begin_at(before, ROW, np.full(1, 60, np.int32), np.ones((1, before.game.num_actions), np.bool_))
    run_searches(search, hashed_evaluator(before.game))
    assert np.array_equal(search.best(ROW), first)  # from an empty tree again
