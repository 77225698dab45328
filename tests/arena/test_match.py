"""Matches with made-up networks: rules of openings and colours, independence of layout, interruption."""

import threading
from collections import Counter

import numpy as np
import pytest

from pipeline.arena.match import MatchSettings, make_openings, play_match
from pipeline.config import SearchConfig
from pipeline.errors import MuGoError
from pipeline.games.registry import parse_game
from pipeline.records.matches import verify_games
from pipeline.search.reference import ReferenceSearch
from tests.search.helpers import hashed_evaluator, zero_evaluator

CALM = SearchConfig(noise_weight=0.0)


def two_sides(game):
    return hashed_evaluator(game, 1), hashed_evaluator(game, 2)


def play(game, openings, missing=None, lanes=1, rows=4, readouts=8, search=CALM, sides=None, seed=0):
    """The finished games by index."""
    found = []

    def on_games(games):
        found.extend(games)
        return True

    numbers = range(2 * len(openings)) if missing is None else missing
    both = [sides or two_sides(game) for _ in range(lanes)]
    play_match(game, both, MatchSettings(search, readouts, seed), openings, numbers, rows, on_games)
    assert len({one.index for one in found}) == len(found)
    return {one.index: one for one in found}


# Openings


@pytest.mark.parametrize(("spec", "pairs", "plies"), [("connect4", 60, 4), ("tictactoe", 30, 4), ("go:5", 40, 6)])
def test_openings_are_distinct_unfinished_and_of_full_length(spec, pairs, plies):
    game = parse_game(spec)
    openings = make_openings(game, two_sides(game), pairs, plies, seed=3, max_batch=16)
    assert [len(opening) for opening in openings] == [plies] * pairs
    assert len({tuple(opening) for opening in openings}) == pairs
    for opening in openings:
        state = game.initial(1)
        history = game.initial_history(state)
        for move in opening:
            state = game.play(state, np.array([move], np.int32), history)  # raises if it is illegal
            history.append(np.array([0]), game.keys(state))
        assert not game.is_over(state)[0]


def test_openings_depend_on_the_seed_alone():
    game = parse_game("connect4")

    def made(seed, batch):
        return make_openings(game, two_sides(game), 20, 5, seed, batch)

    assert made(1, 7) == made(1, 20)
    assert made(1, 20) != made(2, 20)


def test_an_opening_is_sampled_from_the_mean_of_both_policies():
    game = parse_game("connect4")

    def preferring(column):
        def evaluate(planes):
            logits = np.full((len(planes), 7), -20.0, np.float32)
            logits[:, column] = 20
            return logits, np.zeros(len(planes), np.float32)

        return evaluate

    # 400 openings of one ply can't all differ, so what counts is each one's first try; a pair's first try is its only
    # one if it is asked for alone.
    first = Counter(make_openings(game, (preferring(2), preferring(5)), 1, 1, seed, 1)[0][0] for seed in range(400))
    assert set(first) == {2, 5}
    assert 150 < first[2] < 250


def test_where_there_are_too_few_openings_some_repeat():
    game = parse_game("connect4")
    openings = make_openings(game, two_sides(game), 20, 1, 0, 20)
    assert {opening[0] for opening in openings} == set(range(7))
    assert all(len(opening) == 1 for opening in openings)


def test_an_opening_stops_before_the_move_that_ends_the_game():
    game = parse_game("tictactoe")

    def in_order(planes):  # the first player wins with its fourth stone
        logits = np.tile(-1000 * np.arange(9, dtype=np.float32), (len(planes), 1))
        return logits, np.zeros(len(planes), np.float32)

    assert make_openings(game, (in_order, in_order), 3, 8, 0, 10) == [[0, 1, 2, 3, 4, 5]] * 3
    assert make_openings(game, (in_order, in_order), 1, 5, 0, 10) == [[0, 1, 2, 3, 4]]


def test_no_opening():
    game = parse_game("tictactoe")
    assert make_openings(game, two_sides(game), 3, 0, 0, 8) == [[], [], []]
    games = play(game, [[], []])
    assert games[0].moves == games[2].moves  # greedy from the same position: the same game


# Games


@pytest.mark.parametrize("spec", ["tictactoe", "connect4", "go:5"])
def test_every_game_is_played_once_by_the_rules(spec):
    game = parse_game(spec)
    openings = make_openings(game, two_sides(game), 6, 3, 0, 16)
    games = play(game, openings)
    assert sorted(games) == list(range(12))
    verify_games("here", game, list(games.values()))
    for index, one in games.items():
        assert one.moves[:3] == openings[index // 2]
        assert one.challenger_player == index % 2
        assert one.values_to_move[:3] == [None] * 3 and None not in one.values_to_move[3:]
        assert one.end == ("full_length" if one.length == game.max_plies else "played_out")


def test_each_side_moves_with_its_own_network_search_and_tree():
    """The match's moves are those of two plain searches, one a side, each told every move."""
    game = parse_game("connect4")
    openings = make_openings(game, two_sides(game), 3, 2, 0, 8)
    games = play(game, openings, readouts=20)
    for one in games.values():
        sides = [ReferenceSearch(game, CALM, evaluate) for evaluate in two_sides(game)]
        for ply, move in enumerate(one.moves):
            if ply >= one.opening_plies:
                mover = int(game.to_move(sides[0].state)[0])
                search = sides[0 if mover == one.challenger_player else 1]
                search.search(20)
                visits, policy = search.visits(), search.policy()
                best = max(range(7), key=lambda a: (visits[a], policy[a]))
                assert best == move
                assert one.values_to_move[ply] == pytest.approx(search.root_value(), abs=0.0006)
            for side in sides:
                side.advance(move)


def test_a_game_depends_on_neither_lanes_rows_nor_on_what_was_played_before():
    game = parse_game("go:5")
    openings = make_openings(game, two_sides(game), 8, 4, 0, 16)
    noisy = SearchConfig(noise_weight=0.25)
    wanted = play(game, openings, lanes=1, rows=16, search=noisy)
    assert play(game, openings, lanes=3, rows=2, search=noisy) == wanted
    half = play(game, openings, missing=[15, 3, 4, 9], rows=1, search=noisy)
    assert half == {index: wanted[index] for index in (3, 4, 9, 15)}
    assert play(game, openings, rows=16, search=noisy, seed=1) != wanted


def test_the_better_side_wins():
    """A network that knows who stands better against one that thinks the opposite."""
    game = parse_game("tictactoe")
    openings = make_openings(game, (zero_evaluator(game),) * 2, 10, 2, 0, 20)

    def hopeful(sign):
        def evaluate(planes):
            ahead = planes[:, 0, 1, 1].astype(np.float32) - planes[:, 1, 1, 1]  # who holds the centre
            return np.zeros((len(planes), 9), np.float32), sign * 0.9 * ahead

        return evaluate

    games = play(game, openings, readouts=60, sides=(hopeful(1), hopeful(-1)))
    score = Counter(one.challenger_result for one in games.values())
    assert score[1] >= score[-1]
    swapped = play(game, openings, readouts=60, sides=(hopeful(-1), hopeful(1)))
    assert Counter(one.challenger_result for one in swapped.values())[1] == score[-1]


def test_raw_policies_play_too():
    game = parse_game("connect4")
    openings = make_openings(game, two_sides(game), 4, 3, 0, 8)
    games = play(game, openings, readouts=0)
    assert len(games) == 8
    verify_games("here", game, list(games.values()))


def test_nothing_missing_is_no_work():
    game = parse_game("connect4")
    assert play(game, [[0]], missing=[]) == {}


# Stopping


def test_it_stops_when_told_and_hands_over_what_was_finished():
    game = parse_game("tictactoe")
    openings = make_openings(game, two_sides(game), 40, 2, 0, 80)
    calls = []

    def on_games(games):
        calls.append(len(games))
        return sum(calls) < 10

    play_match(game, [two_sides(game)], MatchSettings(CALM, 8, 0), openings, range(80), 2, on_games)
    assert 10 <= sum(calls) < 80
    assert threading.active_count() < 5


@pytest.mark.parametrize("error", [KeyboardInterrupt(), MuGoError("disk")])
def test_games_finished_at_an_interruption_are_handed_over(error):
    game = parse_game("tictactoe")
    openings = make_openings(game, two_sides(game), 40, 2, 0, 80)
    calls = []

    def on_games(games):
        calls.append(len(games))
        if len(calls) == 1:
            raise error
        return True

    before = threading.active_count()
    with pytest.raises(type(error)):
        play_match(game, [two_sides(game)] * 2, MatchSettings(CALM, 8, 0), openings, range(80), 2, on_games)
    assert sum(calls) < 80
    assert threading.active_count() == before


def test_what_a_lane_raises_reaches_the_caller():
    game = parse_game("tictactoe")
    good, _ = two_sides(game)
    asked = []

    def failing(planes):
        asked.append(len(planes))
        if len(asked) > 30:
            raise RuntimeError("the engine broke")
        return good(planes)

    recorded = []
    with pytest.raises(RuntimeError, match="the engine broke"):
        play_match(
            game, [(good, failing)], MatchSettings(CALM, 8, 0), [[0], [1], [2]] * 30, range(180), 4,
            lambda games: recorded.extend(games) or True,
        )  # fmt: skip
    assert len(recorded) < 180
