"""Sampled openings are distinct, unfinished, seeded, and follow the policies. Files of openings: round trip, errors."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import FileError, UsageError
from pipeline.games.replay import replay_one
from pipeline.games.specs import parse_game
from pipeline.matches.openings import (
    ATTEMPTS,
    MAX_RANDOM_PLIES,
    choose_openings,
    make_openings,
    read_openings,
    write_openings,
)
from tests.search.helpers import hashed_evaluator


def two_policies(game):
    return [hashed_evaluator(game, 1), hashed_evaluator(game, 2)]


def preferring(*columns):
    """A policy of connect four that plays these columns only."""

    def evaluate(planes):
        logits = np.full((len(planes), 7), -40.0, np.float32)
        logits[:, columns] = 20
        return logits, np.zeros(len(planes), np.float32)

    return evaluate


def in_order(planes):
    """A policy of tic-tac-toe that plays the first free point: the first player wins with its fourth stone."""
    logits = np.tile(-1000 * np.arange(9, dtype=np.float32), (len(planes), 1))
    return logits, np.zeros(len(planes), np.float32)


def num_random(seed, pair=0, attempt=0):
    """How many random moves an opening begins with: the first thing that is drawn for it."""
    return int(np.random.default_rng([seed, pair, attempt]).integers(0, MAX_RANDOM_PLIES + 1))


@pytest.mark.parametrize(("spec", "pairs", "plies"), [("connect4", 60, 4), ("tictactoe", 30, 4), ("go:5", 40, 6)])
@pytest.mark.parametrize("num_policies", [0, 1, 2])
def test_they_are_distinct_unfinished_and_of_full_length(spec, pairs, plies, num_policies):
    game = parse_game(spec)
    openings = make_openings(game, two_policies(game)[:num_policies], pairs, plies, seed=3, max_batch=16)
    assert [len(opening) for opening in openings] == [plies] * pairs
    assert len({tuple(opening) for opening in openings}) == pairs
    ends = {state.tobytes() for opening in openings for *_, state in [list(replay_one(game, opening))]}
    assert len(ends) == pairs, "moves in another order are the same opening"
    for opening in openings:
        state = game.initial(1)
        history = game.initial_history(state)
        for move in opening:
            state = game.play(state, np.array([move], np.int32), history)  # raises if it is illegal
            history.append(np.array([0]), game.keys(state))
        assert not game.is_over(state)[0]


def test_they_depend_on_the_seed_not_on_the_batch():
    game = parse_game("connect4")

    def made(seed, batch):
        return make_openings(game, two_policies(game), 40, 2, seed, batch)

    assert made(1, 7) == made(1, 40) == made(1, 1)  # of 49 openings, so some of 40 are sampled again
    assert made(1, 20) != made(2, 20)


def test_an_opening_is_the_same_however_many_are_asked_for():
    game = parse_game("go:5")
    many = make_openings(game, two_policies(game), 20, 6, 0, 64)
    assert make_openings(game, two_policies(game), 5, 6, 0, 64) == many[:5]


def test_those_that_follow_are_as_if_all_had_been_made_at_once_and_repeat_none():
    game = parse_game("connect4")
    first = make_openings(game, two_policies(game), 15, 3, 0, 64)
    more = make_openings(game, two_policies(game), 15, 3, 0, 64, known=first)
    assert len({tuple(opening) for opening in first + more}) == 30
    long = make_openings(parse_game("go:5"), [], 8, 8, 0, 64)
    assert make_openings(parse_game("go:5"), [], 4, 8, 0, 64, known=long[:4]) == long[4:]


def test_the_first_moves_of_some_are_random_and_the_rest_is_the_mean_of_the_policies():
    game = parse_game("connect4")
    begins = Counter()
    for seed in range(300):
        opening = make_openings(game, [preferring(2), preferring(5)], 1, 4, seed, 1)[0]
        count = num_random(seed)
        begins[count] += 1
        assert set(opening[count:]) <= {2, 5}
    assert set(begins) == {0, 1, 2} and min(begins.values()) > 60
    # 400 openings of one ply can't all differ, so each is sampled alone: its first attempt counts.
    first = {seed: make_openings(game, [preferring(2), preferring(5)], 1, 1, seed, 1)[0][0] for seed in range(400)}
    by_policy = Counter(move for seed, move in first.items() if num_random(seed) == 0)
    at_random = Counter(move for seed, move in first.items() if num_random(seed) > 0)
    assert set(by_policy) == {2, 5} and 0.35 < by_policy[2] / by_policy.total() < 0.65
    assert set(at_random) == set(range(7)) and max(at_random.values()) < 0.3 * at_random.total()


def test_one_policy_alone_and_none():
    game = parse_game("connect4")
    seeds = [seed for seed in range(60) if num_random(seed) == 0]
    assert {make_openings(game, [preferring(3)], 1, 3, seed, 1)[0] == [3, 3, 3] for seed in seeds} == {True}
    without = Counter(make_openings(game, [], 1, 1, seed, 1)[0][0] for seed in range(350))
    assert set(without) == set(range(7)) and min(without.values()) > 25


def test_a_random_move_is_no_pass():
    game = parse_game("go:5")
    openings = make_openings(game, [], 100, 6, 0, 64)
    assert max(move for opening in openings for move in opening) < game.num_points


def test_illegal_moves_are_never_drawn():
    """A policy of one column must leave it when it is full, after six stones."""
    game = parse_game("connect4")
    alone = [seed for seed in range(20) if num_random(seed) == 0]
    for seed in alone:
        opening = make_openings(game, [preferring(3)], 1, 8, seed, 1)[0]
        assert opening[:6] == [3] * 6 and 3 not in opening[6:]


def test_where_there_are_too_few_some_repeat():
    game = parse_game("connect4")
    openings = make_openings(game, two_policies(game), 20, 1, 0, 20)
    assert {opening[0] for opening in openings} == set(range(7))
    assert all(len(opening) == 1 for opening in openings)


def test_one_stops_before_the_move_that_ends_the_game():
    game = parse_game("tictactoe")
    # Six stones in order; the seventh would win for the first player. Random moves before them end no game.
    openings = make_openings(game, [in_order], 10, 8, 0, 10)
    ended = [num_random(0, pair, ATTEMPTS - 1) == 0 for pair in range(10)]
    assert any(ended)
    for opening, in_order_throughout in zip(openings, ended, strict=True):
        if in_order_throughout and len(opening) < 8:
            assert opening == [0, 1, 2, 3, 4, 5]
        state, history = game.initial(1), game.initial_history(game.initial(1))
        for move in opening:
            state = game.play(state, np.array([move], np.int32), history)
        assert not game.is_over(state)[0]


def test_none_of_no_plies():
    game = parse_game("tictactoe")
    assert make_openings(game, two_policies(game), 3, 0, 0, 8) == [[], [], []]
    assert make_openings(game, two_policies(game), 0, 4, 0, 8) == []


def test_openings_of_a_file_go_round_from_where_the_seed_says():
    listed = [[number] for number in range(120)]
    assert choose_openings(listed, 3, seed=0) == [[0], [1], [2]]
    assert choose_openings(listed, 3, seed=2) == [[100], [101], [102]]
    assert choose_openings(listed, 2, seed=2, num_known=19) == [[119], [0]]
    seen = [opening for seed in (0, 1) for opening in choose_openings(listed, 50, seed)]
    assert len({tuple(opening) for opening in seen}) == 100  # matches of 100 games share none
    with pytest.raises(UsageError, match="244 games need 122 openings, the file has 120"):
        choose_openings(listed, 2, seed=0, num_known=120)


# Files


GAME = parse_game("tictactoe")
CORNERS = [[0, 4], [2, 4], [8, 4]]


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "some" / "openings.json"
    write_openings(path, GAME, CORNERS, {"made_by": "hand", "tried": 3})
    assert read_openings(path, GAME) == CORNERS
    lines = path.read_text().splitlines()
    assert sum('["' in line for line in lines) == 3  # one a line
    assert json.loads(path.read_text())["origin"] == {"made_by": "hand", "tried": 3}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"game": "connect4"}, "openings of connect4; wanted some of tictactoe"),
        ({"openings": [["a1", "a1"]]}, r"opening 0 \(a1 a1\): .*; wanted legal moves"),
        ({"openings": [["a1"], ["z9"]]}, r"opening 1 \(z9\)"),
        ({"openings": [["a1", "b1", "a2", "b2", "a3"]]}, r"opening 0 \(.*\) ends the game"),
        ({"openings": [["a1"], ["a1"]]}, "is listed twice"),
        ({"openings": []}, "openings"),
        ({"format": "mugo-match"}, "format"),
    ],
)
def test_what_cannot_be_played_is_refused(tmp_path: Path, change: dict, message: str) -> None:
    path = tmp_path / "openings.json"
    write_openings(path, GAME, CORNERS, {})
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(FileError, match=message):
        read_openings(path, GAME)


@pytest.mark.parametrize(
    ("spec", "fits"),
    [
        ("go:9,komi=7", True),
        ("go:9", True),
        ("go:9,komi=22", True),
        ("go:any,komi=7", True),
        ("go:any,size=13,komi=7", False),
        ("go:13,komi=7", False),
        ("go:13,komi=150", False),  # no komi of 9x9
        ("go:9,komi=7,moves=50", False),
        ("tictactoe", False),
    ],
)
def test_openings_of_go_are_for_every_komi(tmp_path: Path, spec: str, fits: bool) -> None:
    path, listed = tmp_path / "openings.json", parse_game("go:9,komi=7")
    write_openings(path, listed, [[0, 1], [2, 3]], {})
    if fits:
        assert read_openings(path, parse_game(spec)) == [[0, 1], [2, 3]]
    else:
        with pytest.raises(FileError, match="openings of go:9,komi=7; wanted some of"):
            read_openings(path, parse_game(spec))
    write_openings(path, GAME, CORNERS, {})
    with pytest.raises(FileError, match="openings of tictactoe; wanted some of go:9"):
        read_openings(path, listed)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="no such file; wanted a file of openings"):
        read_openings(tmp_path / "none.json", GAME)
