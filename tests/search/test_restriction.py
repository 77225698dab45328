"""Moves that a search leaves out: at its root, below it, for either player, until the game goes on."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.games.specs import parse_game
from pipeline.play.session import SearchSession
from pipeline.search.batch import BatchSearch
from pipeline.search.options import PlaySearchOptions, SearchOptions
from pipeline.search.restriction import Moves, restriction
from tests.players.finished import GO, SETTLED, counted, position, white_wins
from tests.search.helpers import hashed_evaluator, run_searches

GAME = parse_game("tictactoe")
ROWS = np.arange(2)


def test_what_is_left_out_until_when():
    """By player and action; the longest time counts, and lists of allowed moves add up."""
    until = restriction(5, [Moves(0, [1, 2], 3), Moves(0, [2]), Moves(1, [0], 10**9)], [Moves(1, [0, 3], 2)])
    assert until.tolist() == [[0, 3, 3, 0, 0], [32767, 2, 2, 0, 2]]
    assert restriction(3, allow=[Moves(0, [0], 2), Moves(0, [1], 1)]).tolist() == [[0, 0, 2], [0, 0, 0]]
    assert not restriction(4).any()


def searched(algorithm: str = "puct", leaves: int = 1) -> BatchSearch:
    search = BatchSearch(GAME, 2, 64, SearchOptions(algorithm=algorithm, noise_weight=0.0), leaves)
    search.new_games(ROWS, np.arange(2, dtype=np.uint64))
    return search


def run(search: BatchSearch) -> list[set[int]]:
    """The moves of each row's root that were searched."""
    search.begin(ROWS, np.full(2, 64, np.int32), np.zeros(2, np.bool_))
    run_searches(search, hashed_evaluator(GAME))
    return [set(np.flatnonzero(visits).tolist()) for visits in search.root_table(ROWS)[0]]


@pytest.mark.parametrize("algorithm", ["puct", "gumbel", "mixed"])
@pytest.mark.parametrize("leaves", [1, 4])
def test_a_row_is_restricted_alone_and_until_its_game_goes_on(algorithm, leaves):
    search = searched(algorithm, leaves)
    search.restrict(ROWS[1:], restriction(9, allow=[Moves(0, [2, 4])])[None])
    free, few = run(search)
    assert len(free) > 4 and few == {2, 4}
    assert np.flatnonzero(search.allowed(ROWS[1:])[0]).tolist() == [2, 4]
    assert {candidate.action for candidate in search.candidates(1)} == {2, 4}
    search.advance(ROWS, np.array([0, 2]))
    assert search.allowed(ROWS).sum(axis=1).tolist() == [8, 8] and len(run(search)[1]) > 4


def test_moves_below_the_root_have_a_depth_of_their_own():
    """At the second ply the second player may only answer in a corner, at the third there is no rule for him."""
    search = searched()
    search.restrict(ROWS, np.stack([restriction(9, allow=[Moves(1, [0], 2)])] * 2))
    run(search)
    for candidate in search.candidates(0):
        if len(candidate.variation) > 1 and candidate.action != 0:
            assert candidate.variation[1] == 0
    assert max(len(candidate.variation) for candidate in search.candidates(0)) > 3


def test_a_change_drops_the_tree_and_no_change_keeps_it():
    search, nothing = searched(), np.zeros((2, 2, 9), np.int16)
    run(search)
    search.restrict(ROWS, nothing)
    assert search.root_table(ROWS)[0].sum() == 128
    search.restrict(ROWS[:1], restriction(9, [Moves(0, [0])])[None])
    assert search.root_table(ROWS)[0].sum(axis=1).tolist() == [0, 64]
    run(search)
    search.restrict(ROWS[:1], restriction(9, [Moves(0, [0])])[None])  # as it is
    assert search.root_table(ROWS)[0].sum(axis=1).tolist() == [64, 128]
    search.restrict(ROWS[:1], restriction(9, [Moves(0, [1])])[None])
    assert search.root_table(ROWS)[0].sum(axis=1).tolist() == [0, 128]
    run(search)
    search.restrict(ROWS, nothing)
    assert search.root_table(ROWS)[0].sum(axis=1).tolist()[0] == 0 and search.allowed(ROWS).all()


def test_nothing_is_left_out_where_no_move_would_be_left():
    search = searched()
    search.restrict(ROWS, np.stack([restriction(9, [Moves(0, range(9), 9), Moves(1, range(9), 9)])] * 2))
    assert len(run(search)[0]) > 4


def test_the_second_search_of_a_decided_game_keeps_to_it():
    session = SearchSession(GO.without_move_limit(), white_wins(), PlaySearchOptions(), 60, 1, counted())
    session.restart(position(SETTLED, 0))
    assert session.think(None) == GO.pass_action
    points = [action for action in np.flatnonzero(session.legal()).tolist() if action != GO.pass_action]
    session.restrict(restriction(GO.num_actions, [Moves(0, [GO.pass_action])]))
    assert session.think(None) in points
    session.restrict()
    assert session.think(None) == GO.pass_action
