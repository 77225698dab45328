"""A thread as referee: rules, colours, both players' knowledge, independence of layout, and players that misbehave."""

from __future__ import annotations

import copy
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import GameFault, MuGoError
from pipeline.games.replay import replay_one
from pipeline.games.specs import parse_game
from pipeline.matches.match import MatchThread, ThreadPool, conduct
from pipeline.matches.openings import make_openings
from pipeline.players.builtin import RandomPlayer
from pipeline.players.player import Decisions, Player
from pipeline.run.matches import MatchHeader, MatchLines, PlayerInfo, verify_games
from pipeline.search.options import SearchOptions
from pipeline.workers.worker_pool import GameQueue
from tests.games.playing import SMALL
from tests.matches.helpers import (
    CALM,
    Spoilt,
    conducted,
    heuristic_player,
    pairing_of,
    play,
    random_player,
    searching,
    spoilt,
)
from tests.reference.puct import ReferenceSearch
from tests.search.helpers import hashed_evaluator

NOISY = SearchOptions(noise_weight=0.25)


def openings_for(spec, num_pairs, plies, seed=0):
    game = parse_game(spec)
    return make_openings(game, [hashed_evaluator(game, 1), hashed_evaluator(game, 2)], num_pairs, plies, seed, 16)


def check_games(pairing, games):
    """Every game is one that this match can have, and the rules lead to its result."""
    assert sorted(games) == list(range(2 * len(pairing.openings)))
    verify_games("here", pairing.game, list(games.values()))
    header = MatchHeader(
        players=tuple(PlayerInfo(name=name, kind="model", spec=name) for name in ("b", "a")), game=pairing.game.spec,
        games=len(games), threshold=None, settings={}, openings=pairing.openings,
    )  # fmt: skip
    match = MatchLines(Path("here"), header, header.openings)
    for index, one in games.items():
        assert one.index == index and one.challenger_player == index % 2
        match.check(one)


# Games


def is_cut_short(game, moves):
    *_, last = replay_one(game, moves)
    return game.cut_short(last)[0]


@pytest.mark.parametrize("spec", SMALL)
@pytest.mark.parametrize("champion", [searching(2), searching(2, readouts=0), random_player, heuristic_player])
def test_every_game_is_played_once_by_the_rules(spec, champion):
    if champion is heuristic_player and parse_game(spec).heuristic() is None:
        pytest.skip("a game without a heuristic evaluation")
    pairing = pairing_of(spec, openings_for(spec, 6, 3), champion=champion)
    games = play(pairing, threads=2, rows=3)
    check_games(pairing, games)
    searches = champion not in (random_player, heuristic_player)
    for one in games.values():
        assert one.values_to_move[:3] == [None] * 3
        challengers = one.values_to_move[3 + (3 + one.challenger_player) % 2 :: 2]
        champions = one.values_to_move[3 + (4 + one.challenger_player) % 2 :: 2]
        assert None not in challengers
        assert set(champions) == {None} if champions and not searches else None not in champions
        assert one.end == ("move_limit" if is_cut_short(pairing.game, one.moves) else "played_out")


def test_each_opening_is_played_twice_with_colours_swapped():
    pairing = pairing_of("go:5", openings_for("go:5", 8, 4), random_player, heuristic_player)
    games = play(pairing, threads=2)
    for pair, opening in enumerate(pairing.openings):
        assert games[2 * pair].moves[:4] == games[2 * pair + 1].moves[:4] == opening
        assert [games[2 * pair + i].challenger_player for i in range(2)] == [0, 1]


def test_each_side_moves_with_its_own_network_search_and_tree():
    """The match's moves are those of two plain searches, one a side, each with every move."""
    pairing = pairing_of("connect4", openings_for("connect4", 3, 2), searching(1, 20), searching(2, 20))
    for one in play(pairing).values():
        sides = [ReferenceSearch(pairing.game, CALM, hashed_evaluator(pairing.game, network)) for network in (1, 2)]
        for ply, move in enumerate(one.moves):
            if ply >= one.opening_plies:
                mover = int(pairing.game.to_move(sides[0].state)[0])
                search = sides[0 if mover == one.challenger_player else 1]
                search.search(20)
                visits, policy = search.visits(), search.policy()
                assert max(range(7), key=lambda a: (visits[a], policy[a])) == move
                assert one.values_to_move[ply] == pytest.approx(search.root_value(), abs=0.0006)
            for side in sides:
                side.advance(move)


def test_the_better_side_wins_whichever_it_is():
    openings = openings_for("connect4", 15, 2)
    strong = play(pairing_of("connect4", openings, heuristic_player, random_player))
    weak = play(pairing_of("connect4", openings, random_player, heuristic_player))
    assert sum(one.challenger_result for one in strong.values()) > 15
    assert sum(one.challenger_result for one in weak.values()) < -15


def test_greedy_players_without_openings_repeat_one_game_per_colour():
    games = play(pairing_of("tictactoe", [[], []]))
    assert games[0].moves == games[2].moves and games[1].moves == games[3].moves


@pytest.mark.parametrize(
    ("challenger", "champion"),
    [
        (searching(1, 8, NOISY), searching(2, 8, NOISY)),
        (searching(1, 0), random_player),
        (random_player, heuristic_player),
        (random_player, random_player),
    ],
)
def test_a_game_depends_on_neither_threads_rows_nor_on_what_was_played_before(challenger, champion):
    openings = openings_for("go:5", 8, 4)
    pairing = pairing_of("go:5", openings, challenger, champion)
    wanted = play(pairing, threads=1, rows=16)
    assert play(pairing, threads=3, rows=2) == wanted
    assert play(pairing, threads=1, rows=1) == wanted
    some = play(pairing, numbers=[15, 3, 4, 9], rows=2)
    assert some == {index: wanted[index] for index in (3, 4, 9, 15)}
    assert play(pairing_of("go:5", openings, challenger, champion, seed=1), rows=16) != wanted


def test_a_player_that_takes_several_steps_changes_nothing():
    openings = openings_for("go:5", 6, 2)
    wanted = play(pairing_of("go:5", openings, random_player, heuristic_player))
    slow = pairing_of("go:5", openings, spoilt("lag", range(12)), heuristic_player)
    assert play(slow, rows=5) == wanted


def test_the_two_sides_of_a_game_and_its_two_halves_draw_from_different_streams():
    games = play(pairing_of("go:5", [[], []], random_player, random_player))
    assert len({tuple(one.moves) for one in games.values()}) == 4


def test_games_end_with_the_move_limit_too():
    pairing = pairing_of("go:5,moves=20", [[]] * 20, random_player, random_player)
    games = play(pairing)
    check_games(pairing, games)
    assert {one.end for one in games.values()} == {"move_limit", "played_out"}
    for one in games.values():
        passed = one.moves[-2:] == [25, 25]
        assert (one.end == "move_limit") == (not passed) and (passed or one.length == 20)


def test_a_full_board_is_no_move_limit():
    games = play(pairing_of("tictactoe", [[]] * 20, random_player, random_player))
    assert {one.end for one in games.values()} == {"played_out"}
    assert {one.length for one in games.values()} >= {8, 9}


def test_openings_of_different_lengths():
    openings = [[], [0], [0, 1], [0, 1, 2, 3]]
    pairing = pairing_of("connect4", openings, random_player, random_player)
    games = play(pairing, rows=8)
    check_games(pairing, games)
    assert [games[2 * pair].opening_plies for pair in range(4)] == [0, 1, 2, 4]


def test_each_player_is_told_every_move_of_its_games_in_order():
    told: list[dict[int, list[int]]] = []

    class Listening(RandomPlayer):
        def __init__(self, game, num_rows):
            super().__init__(game, num_rows)
            self.now: dict[int, tuple[int, list[int]]] = {}
            self.heard: dict[int, list[int]] = {}
            told.append(self.heard)

        def new_games(self, rows, seeds):
            super().new_games(rows, seeds)
            for row, seed in zip(rows.tolist(), seeds.tolist(), strict=True):
                self.heard[seed] = []
                self.now[row] = seed

        def advance(self, rows, actions):
            super().advance(rows, actions)
            for row, action in zip(rows.tolist(), actions.tolist(), strict=True):
                self.heard[self.now[row]].append(action)

    listening = lambda game, rows, thread: Listening(game, rows)  # noqa: E731
    pairing = pairing_of("connect4", [[3], [2, 2]], listening, listening)
    games = play(pairing, rows=2)
    wanted = sorted(one.moves for one in games.values())
    assert [sorted(heard.values()) for heard in told] == [wanted, wanted]


# Misbehaviour


@pytest.mark.parametrize(("mode", "kind"), [("fault", "refusal"), ("illegal", "illegal"), ("outside", "illegal")])
@pytest.mark.parametrize("side", [0, 1])
def test_a_faulty_game_fails_and_its_neighbours_go_on_as_if_nothing_was(mode, kind, side):
    openings = openings_for("go:5", 5, 2)
    players = [random_player, heuristic_player]
    players[side] = random_player  # which the spoilt one is where it behaves
    wanted = play(pairing_of("go:5", openings, *players), rows=10)
    players[side] = spoilt(mode, [2, 7], side)
    games, failures, given_up = conducted(ThreadPool(pairing_of("go:5", openings, *players), 1, 10), range(10))
    assert games == {index: one for index, one in wanted.items() if index not in (2, 7)}
    assert given_up == {2, 7}
    assert sorted((one.failed, one.attempt, one.kind) for one in failures) == [
        (2, 1, kind), (2, 2, kind), (7, 1, kind), (7, 2, kind)
    ]  # fmt: skip
    name = "spoilt" if mode == "fault" else ("challenger", "champion")[side]
    for one in failures:
        assert one.player == name
        assert one.moves[:2] == openings[one.failed // 2]
        assert len(one.moves) == 2 + (one.failed + side) % 2  # opening, and the other's move if it was first to move


@pytest.mark.parametrize(
    ("spec", "opening_plies", "ply"), [("connect4", 2, 1), ("connect4", 2, 5), ("hypergammon", 0, 0)]
)  # at an opening's move, a player's, chance's
def test_a_game_whose_own_program_fails_costs_that_game_only(spec, opening_plies, ply):
    openings = openings_for(spec, 6, opening_plies) if opening_plies else [[]] * 6
    pairing = pairing_of(spec, openings, random_player, random_player)
    wanted = play(pairing, rows=6)
    bad = wanted[2].moves[ply]
    guilty = {index for index, one in wanted.items() if one.moves[ply] == bad}
    assert 0 < len(guilty) < len(wanted)

    class Faulty(type(pairing.game)):
        def play(self, states, actions, history):
            if ((self.plies(states) == ply) & (actions == bad)).any():
                raise GameFault("the rules broke")
            return super().play(states, actions, history)

    faulty = copy.copy(pairing.game)
    faulty.__class__ = Faulty
    games, failures, given_up = conducted(ThreadPool(replace(pairing, game=faulty), 1, 12), range(12))
    assert games == {index: one for index, one in wanted.items() if index not in guilty} and given_up == guilty
    attempts = [(one, attempt) for one in sorted(guilty) for attempt in (1, 2)]
    assert sorted((one.failed, one.attempt) for one in failures) == attempts
    assert {(one.kind, one.player, one.problem) for one in failures} == {("game", "", "the rules broke")}


def test_whoever_resigns_loses():
    openings = openings_for("connect4", 3, 2)
    for side in (0, 1):
        players = [random_player, random_player]
        players[side] = spoilt("resign", range(6), side)
        pairing = pairing_of("connect4", openings, *players)
        games = play(pairing)
        check_games(pairing, games)
        assert {one.end for one in games.values()} == {"resigned"}
        assert {one.challenger_result for one in games.values()} == {-1 if side == 0 else 1}


@pytest.mark.parametrize("mode", ["raise", "exit"])
def test_a_thread_whose_player_breaks_loses_its_games_once(mode):
    openings = openings_for("connect4", 6, 2)
    wanted = play(pairing_of("connect4", openings, random_player, heuristic_player))
    pairing = pairing_of("connect4", openings, spoilt(mode, [5], times=[1]), heuristic_player)
    games, failures, given_up = conducted(ThreadPool(pairing, 1, 4), range(12))
    assert games == wanted and not given_up
    assert 5 in {one.failed for one in failures}
    for one in failures:
        assert (one.kind, one.player, one.attempt) == ("crash", "", 1)
        assert one.problem == ("RuntimeError: the player broke" if mode == "raise" else "SystemExit: 3")


def test_a_player_that_always_breaks_in_one_game_costs_that_game_only():
    openings = openings_for("connect4", 8, 2)
    wanted = play(pairing_of("connect4", openings, random_player, heuristic_player))
    pairing = pairing_of("connect4", openings, spoilt("raise", [5, 11]), heuristic_player)
    games, failures, given_up = conducted(ThreadPool(pairing, 2, 8), range(16))
    assert given_up == {5, 11}
    assert games == {index: one for index, one in wanted.items() if index not in (5, 11)}
    for guilty in (5, 11):
        attempts = [one.attempt for one in failures if one.failed == guilty]
        assert attempts == list(range(1, len(attempts) + 1)) and len(attempts) <= 8


def test_no_game_is_lost_where_a_player_breaks_on_hearing_that_one_is_over():
    class Broken(RandomPlayer):
        times = 1

        def drop(self, rows):
            super().drop(rows)
            if Broken.times:
                Broken.times = 0
                raise RuntimeError("can't let go")

    pairing = pairing_of("tictactoe", [[0], [1], [2]], random_player, lambda game, rows, thread: Broken(game, rows))
    games, failures, given_up = conducted(ThreadPool(pairing, 1, 6), range(6))
    assert sorted(games) == list(range(6)) and not given_up
    assert {one.problem for one in failures} == {"RuntimeError: can't let go"}


def test_an_idle_thread_waits_for_its_players_instead_of_spinning():
    class Waiting(RandomPlayer):
        waits = 0

        def step(self):
            return super().step() if Waiting.waits % 3 == 2 else Decisions.none(worked=False)

        def wait(self, seconds):
            Waiting.waits += 1
            time.sleep(min(seconds, 0.001))

    pairing = pairing_of("tictactoe", [[0]], lambda game, rows, thread: Waiting(game, rows), random_player)
    assert sorted(play(pairing, rows=2)) == [0, 1]
    assert Waiting.waits >= 2


# Players' lives


def test_players_are_closed_and_those_made_before_a_failure_too():
    lives = Counter()

    class Mortal(RandomPlayer):
        def __init__(self, game, rows):
            super().__init__(game, rows)
            lives["made"] += 1

        def close(self):
            lives["closed"] += 1

    def stillborn(game, rows, thread) -> Player:
        raise MuGoError("no such engine")

    mortal = lambda game, rows, thread: Mortal(game, rows)  # noqa: E731
    play(pairing_of("tictactoe", [[0], [1]], mortal, mortal), threads=2, rows=2)
    assert lives == {"made": 4, "closed": 4}
    with pytest.raises(MuGoError, match="no such engine"):
        MatchThread(pairing_of("tictactoe", [[0]], mortal, stillborn), 2, 0, GameQueue(), lambda outcome: None)
    assert lives == {"made": 5, "closed": 5}


def test_broken_players_are_replaced_by_fresh_ones():
    made = []

    def make(game, rows, thread):
        made.append(thread)
        return Spoilt(game, rows, "raise", set(), [0])

    broken = spoilt("raise", [1], side=1, times=[1])
    conducted(ThreadPool(pairing_of("tictactoe", [[0], [1]], make, broken), 1, 4), range(4))
    assert made == [0, 0]


# Stopping


def test_it_stops_when_told_and_hands_over_what_was_finished():
    pairing = pairing_of("tictactoe", openings_for("tictactoe", 40, 2))
    calls = []

    def on_outcomes(games, failures):
        calls.append(len(games))
        return sum(calls) < 10

    before = threading.active_count()
    conduct(ThreadPool(pairing, 1, 2), range(80), on_outcomes)
    assert 10 <= sum(calls) < 80
    assert threading.active_count() == before


@pytest.mark.parametrize("error", [KeyboardInterrupt(), MuGoError("disk")])
def test_games_finished_at_an_interruption_are_handed_over(error):
    pairing = pairing_of("tictactoe", openings_for("tictactoe", 40, 2))
    calls = []

    def on_outcomes(games, failures):
        calls.append(len(games))
        if len(calls) == 1:
            raise error
        return True

    before = threading.active_count()
    with pytest.raises(type(error)):
        conduct(ThreadPool(pairing, 2, 2), range(80), on_outcomes)
    assert sum(calls) < 80
    assert threading.active_count() == before


def test_a_thread_that_never_gets_its_players_stops_the_others_and_what_they_finished_is_handed_over():
    some_ended = threading.Event()

    def make(game, rows, thread):
        if thread == 1:
            some_ended.wait()
            raise MuGoError("no such engine")
        return RandomPlayer(game, rows)

    found = []

    def on_outcomes(games, failed):
        found.extend(games)
        some_ended.set()
        return True

    before = threading.active_count()
    with pytest.raises(MuGoError, match="no such engine"):
        conduct(
            ThreadPool(pairing_of("tictactoe", [[0]] * 5000, make, random_player), 2, 1), range(10_000), on_outcomes
        )
    assert 0 < len(found) < 10_000
    assert threading.active_count() == before


def test_nothing_to_play_is_no_work():
    assert play(pairing_of("connect4", [[0]]), numbers=[]) == {}


def test_values_are_rounded_as_they_are_written():
    games = play(pairing_of("connect4", [[0]]))
    values = [value for one in games.values() for value in one.values_to_move if value is not None]
    assert values and all(value == round(value, 3) and np.isfinite(value) for value in values)


def test_a_model_resigns_when_its_value_is_low_at_two_of_its_moves_in_a_row() -> None:
    whole_pairing = pairing_of("connect4", [[a, b] for a in range(7) for b in range(3)])
    whole, cut = play(whole_pairing), play(replace(whole_pairing, resign_threshold=-0.2))
    ends = {game.end for game in cut.values()}
    assert ends == {"resigned", "played_out"}
    for index, game in cut.items():
        long = whole[index]
        assert game.moves == long.moves[: len(game.moves)]  # nothing else differs
        assert game.values_to_move == long.values_to_move[: len(game.moves)]
        low = [value is not None and value < -0.2 for value in long.values_to_move]
        resigned_at = [ply for ply in range(2, len(low)) if low[ply] and low[ply - 2]]
        if game.end == "played_out":
            assert not resigned_at and game == long
        else:
            assert len(game.moves) == resigned_at[0]
            assert game.result_first_player == (-1 if resigned_at[0] % 2 == 0 else 1)
