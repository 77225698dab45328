"""Promotion decisions: exact curtailment, the sequential test, duplicates, independence of the order of games."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from pipeline.evaluate.promotion import Rule, deciding_games, match_status, score_so_far, summarise
from pipeline.evaluate.sprt import Sprt
from pipeline.evaluate.threshold import gate_half_points
from pipeline.matches.statistics import VOID, Score, repeated_games, score_of
from pipeline.run.matches import MatchFailure, MatchGame, MatchHeader, MatchWriter, PlayerInfo, open_match

SPRT = Sprt(0, 150, 0.1, 0.1)


def game(index, challenger_result, moves=None):
    """A game with its own moves unless given; results follow from moves and colours, as in real games."""
    player = index % 2
    return MatchGame(
        index=index,
        challenger_player=player,
        opening_plies=0,
        moves=[index] if moves is None else moves,
        values_to_move=[None] * len([index] if moves is None else moves),
        result_first_player=challenger_result if player == 0 else -challenger_result,
        end="played_out",
    )


def some_match(
    stream: random.Random, num_games: int, num_different: int, win: float, draw: float
) -> dict[int, MatchGame]:
    """A whole match; with few different games there are duplicates, which have the results of those they repeat."""
    results: dict[tuple[int, int], int] = {}
    games = {}
    for index in range(num_games):
        what = stream.randrange(num_different)
        luck = stream.random()
        result = 1 if luck < win else 0 if luck < win + draw else -1
        games[index] = game(index, results.setdefault((index % 2, what), result), [what])
    return games


# The gate


def test_a_match_is_decided_by_hand():
    rule = Rule(8, 0.75)  # 12 of 16 half points
    wins = {index: game(index, 1) for index in range(6)}
    status = match_status(rule, {index: wins[index] for index in range(5)})
    assert (status.gate, status.decided, status.passed) == (12, False, False)
    status = match_status(rule, wins)
    assert (status.decided, status.passed, status.score) == (True, True, Score(6, 0, 0))
    lost = {index: game(index, -1) for index in range(2)}
    assert not match_status(rule, lost).decided  # 6 wins to come are enough
    status = match_status(rule, lost | {2: game(2, 0)})
    assert (status.decided, status.passed) == (True, False)
    assert status.pair_scores == [0, None, None, None] and status.pair_counts == (1, 0, 0, 0, 0)


def test_progress_counts_the_games_that_the_decision_counts():
    rule = Rule(8, 0.75)
    games = {index: game(index, 1 if index < 6 else -1) for index in range(7)}
    assert score_so_far(rule, {0: games[0], 5: games[5]}, stops_early=True) == "2 won, 0 drawn, 0 lost"
    assert score_so_far(rule, games, stops_early=True) == "6 won, 0 drawn, 0 lost in the 6 games that count"
    assert score_so_far(rule, games, stops_early=False) == "6 won, 0 drawn, 1 lost"
    repeated = {**games, 1: game(1, 1, [9]), 3: game(3, 1, [9])}
    without = Rule(8, 0.9, exclude_duplicates=True)
    assert score_so_far(without, repeated, stops_early=False) == "5 won, 0 drawn, 1 lost in the 6 games that count"


def test_no_games_decide_nothing():
    status = match_status(Rule(4), {})
    assert (status.decided, status.passed, status.score, status.pair_scores) == (False, False, Score(), [None, None])


def test_scores_of_pairs_are_the_challengers_in_both_colours():
    games = {0: game(0, 1), 1: game(1, 1), 2: game(2, -1), 3: game(3, 0), 4: game(4, 1), 7: game(7, 1)}
    status = match_status(Rule(10), games)
    assert status.pair_scores == [4, 1, None, None, None]
    assert status.score == score_of(games.values()) == Score(4, 1, 1)


@pytest.mark.parametrize("exclude_duplicates", [False, True])
@pytest.mark.parametrize("threshold", [None, 0.5, 0.55, 0.9, 1.0, 0.01])
def test_the_decision_of_a_curtailed_match_is_that_of_the_whole_match(threshold, exclude_duplicates):
    """Once a match is decided, no further game changes the decision, in any order of games."""
    stream = random.Random(f"{threshold} {exclude_duplicates}")
    saved = 0
    for _ in range(250):
        num_games = stream.choice([2, 4, 6, 12, 30])
        win = stream.random()
        whole = some_match(stream, num_games, stream.choice([2, 5, 1000]), win, (1 - win) * stream.random())
        rule = Rule(num_games, threshold, exclude_duplicates=exclude_duplicates)
        final = match_status(rule, whole)
        assert final.decided
        order = stream.sample(range(num_games), num_games)
        known: dict[int, MatchGame] = {}
        for index in order:
            known[index] = whole[index]
            status = match_status(rule, known)
            if status.decided:
                assert status.passed == final.passed, (whole, order, index)
                saved += len(known) < num_games
    assert saved > 250


def possible(rule, known, stream, tries=60):
    """The decisions that matches with these games may end with: the extremes and some at random."""
    missing = [index for index in range(rule.games) if index not in known]
    decisions = set()
    for attempt in range(tries):
        rest = {}
        for index in missing:
            result = (1, -1)[attempt] if attempt < 2 else stream.choice([1, 0, -1])
            rest[index] = game(index, result, [1000 + index])
        decisions.add(match_status(rule, known | rest).passed)
    return decisions


@pytest.mark.parametrize("threshold", [None, 0.5, 0.7])
def test_it_is_decided_as_soon_as_it_can_be(threshold):
    """Exact: as long as it isn't decided, both decisions are still possible."""
    stream = random.Random(7)
    for _ in range(60):
        whole = some_match(stream, 10, 1000, stream.random(), 0.2)
        rule = Rule(10, threshold)
        known: dict[int, MatchGame] = {}
        for index in stream.sample(range(10), 10):
            decided = match_status(rule, known).decided
            assert decided == (len(possible(rule, known, stream, tries=2)) == 1)
            known[index] = whole[index]


def test_what_failed_counts_for_nobody_and_may_leave_the_decision_open():
    rule = Rule(6, 0.5)
    wins = {index: game(index, 1) for index in (0, 1)}
    losses = {index: game(index, -1) for index in (2, 3)}
    status = match_status(
        rule, wins | losses | {4: game(4, 0)}
    )  # game 5 failed: 5 of the 6 half points, 6 are possible
    assert not status.decided and status.score.games == 5
    assert match_status(rule, wins | losses | {4: game(4, 1)}).passed  # here it could change nothing
    status = match_status(rule, wins | losses | {4: game(4, -1)})
    assert not status.decided and not status.passed


@pytest.mark.parametrize("sprt", [None, SPRT])
@pytest.mark.parametrize("exclude_duplicates", [False, True])
def test_a_decision_depends_on_which_games_are_there_not_on_how_they_came(sprt, exclude_duplicates):
    stream = random.Random(3)
    for _ in range(60):
        whole = some_match(stream, 20, 12, 0.6, 0.1)
        some = stream.sample(range(20), stream.randrange(21))
        rule = Rule(20, None, sprt, exclude_duplicates)
        forwards = match_status(rule, {index: whole[index] for index in sorted(some)})
        assert match_status(rule, {index: whole[index] for index in some}) == forwards


# The sequential test


@pytest.mark.parametrize("exclude_duplicates", [False, True])
def test_the_sequential_decision_of_a_curtailed_match_is_that_of_the_whole_match(exclude_duplicates):
    stream = random.Random(5)
    decisions = []
    for _ in range(40):
        num_games = stream.choice([20, 60])
        whole = some_match(stream, num_games, stream.choice([20, 1000]), stream.choice([0.4, 0.6, 0.8]), 0.1)
        rule = Rule(num_games, None, SPRT, exclude_duplicates)
        final = match_status(rule, whole)
        known: dict[int, MatchGame] = {}
        for index in stream.sample(range(num_games), num_games):
            known[index] = whole[index]
            if len(known) % 8 and len(known) < num_games:
                continue
            status = match_status(rule, known)
            if status.decided:
                assert status.passed == final.passed and status.sprt == final.sprt
                decisions.append((final.passed, len(known) < num_games))
                break
    assert {(True, True), (False, True)} <= set(decisions)


def test_the_sequential_test_looks_at_pairs_in_the_order_of_their_numbers():
    wins = {index: game(index, 1) for index in range(2, 60)}
    rule = Rule(60, None, SPRT)
    status = match_status(rule, wins)  # 29 pairs are won, but not pair 0
    assert not status.decided and status.sprt is not None and status.sprt.pairs == 0
    losing = {0: game(0, -1), 1: game(1, -1)}
    assert match_status(rule, wins | losing).passed
    # A game of pair 3 failed: the three before it decide nothing.
    status = match_status(rule, losing | {index: one for index, one in wins.items() if index != 7})
    assert not status.decided and status.sprt is not None and status.sprt.pairs == 3


def test_the_sequential_test_decides_instead_of_the_gate():
    wins = {index: game(index, 1) for index in range(24)}
    status = match_status(Rule(40, 1.0, SPRT), wins)
    assert status.decided and status.passed
    assert status.score.half_points < status.gate


# Duplicates


def test_duplicates_have_the_same_moves_and_colours():
    games = {
        0: game(0, 1, [1, 2]),
        1: game(1, -1, [1, 2]),  # the same moves with colours swapped: another game
        2: game(2, 1, [1, 2]),
        3: game(3, 1, [3]),
        4: game(4, 1, [1, 2]),
        5: game(5, 1, [3]),
    }
    assert repeated_games(reversed(games.values())) == {2, 4, 5}
    counting = match_status(Rule(6, 0.5), games)
    assert (counting.duplicates, counting.score, counting.gate) == (3, Score(5, 0, 1), 6)
    excluding = match_status(Rule(6, 0.5, exclude_duplicates=True), games)
    assert (excluding.duplicates, excluding.score, excluding.gate) == (3, Score(2, 0, 1), 3)
    assert sorted(excluding.counted) == [0, 1, 3]
    assert excluding.pair_scores == [2, VOID, VOID] and excluding.pair_counts == (0, 0, 1, 0, 0)
    assert excluding.decided and excluding.passed


def test_of_games_that_are_alike_the_one_with_the_lowest_number_counts_whenever_it_ends():
    late = {4: game(4, 1, [9]), 2: game(2, 1, [9])}
    rule = Rule(8, exclude_duplicates=True)
    assert list(match_status(rule, late).counted) == [2]
    assert list(match_status(rule, late | {0: game(0, 1, [9])}).counted) == [0]


def test_a_match_that_is_nothing_but_one_game_is_not_won_by_repeating_it():
    """Two greedy players without openings: 100 games, and one win that is proof of nothing."""
    games = {index: game(index, 1, [5]) if index % 2 == 0 else game(index, 1, [6]) for index in range(100)}
    assert match_status(Rule(100), games).passed
    status = match_status(Rule(100, exclude_duplicates=True), games)
    assert status.score == Score(2, 0, 0) and status.gate == gate_half_points(2) == 4
    sequential = match_status(Rule(100, None, SPRT, exclude_duplicates=True), games)
    assert sequential.decided and not sequential.passed


def opened(folder: Path, rule: Rule) -> MatchWriter:
    """A match under this rule, without a game."""
    players = PlayerInfo(name="a", kind="random", spec="random"), PlayerInfo(name="b", kind="random", spec="random")
    header = MatchHeader(
        players=players, game="tictactoe", games=rule.games, threshold=rule.threshold,
        settings={"exclude_duplicates": rule.exclude_duplicates}, openings=[[]] * (rule.games // 2),
    )  # fmt: skip
    return open_match(folder, header)


def test_what_was_needed_is_said_of_the_games_that_count(tmp_path: Path) -> None:
    rule = Rule(40, 0.55, exclude_duplicates=True)
    writer = opened(tmp_path / "a-vs-b", rule)
    writer.add([game(index, 1 if index < 24 else -1, None if index < 30 else [index % 2]) for index in range(40)])
    summary = summarise(rule, writer, whole=True)
    # The last ten games repeat games 0 and 1.
    assert (summary.games, summary.games_that_count, summary.points_needed) == (40, 30, 16.5)
    assert ", needed 55.0 %;" in summary.lines()[1]
    assert summary.reason == "24 points of the 16.5 needed from 30 different games"


def test_games_that_failed_once_before_it_was_decided_did_not_fail_twice(tmp_path: Path) -> None:
    writer = opened(tmp_path / "a-vs-b", Rule(10, 0.6))
    writer.add([game(index, 1) for index in range(6)])
    for number, attempt in ((6, 1), (6, 2), (7, 1), (8, 1), (5, 1), (5, 2)):
        writer.add_failure(
            MatchFailure(failed=number, attempt=attempt, kind="broken", player="a", problem="gone", moves=[])
        )
    summary = summarise(Rule(10, 0.6), writer)
    assert summary.passed and summary.failed == 1
    assert "1 game failed twice" in "\n".join(summary.lines())


# Matches that end early: which games measure strength


def first_decided(rule: Rule, games: dict[int, MatchGame], order: list[int], decided) -> dict[int, MatchGame]:
    """The games that are over when decided(rule, these games) first holds; they end in this order."""
    low, high = 0, len(order)
    while low < high:
        middle = (low + high) // 2
        if decided(rule, {number: games[number] for number in order[:middle]}):
            high = middle
        else:
            low = middle + 1
    return {number: games[number] for number in sorted(order[:low])}


def test_a_player_that_wins_fast_looks_no_stronger_when_its_match_ends_early() -> None:
    """Equal players, 100 games that begin at once; the challenger's wins take 60 plies and the others 90, give or take
    15. The table of docs/statistics.md, "What an ended match measures", is this with 4,000 matches.
    """
    stream, rule = random.Random(5), Rule(100)
    shares: dict[str, list[float]] = {"over first": [], "to the first gap": [], "by number": [], "whole": []}
    for _ in range(150):
        games = {number: game(number, stream.choice((-1, 1))) for number in range(100)}
        ends = {number: stream.gauss(60 if one.challenger_result > 0 else 90, 15) for number, one in games.items()}
        order = sorted(games, key=lambda number: ends[number])
        early = first_decided(rule, games, order, lambda rule, some: match_status(rule, some).decided)
        gap = next(number for number in range(101) if number not in early)
        later = first_decided(rule, games, order, lambda rule, some: deciding_games(rule, some) is not None)
        measured = deciding_games(rule, later)
        assert measured is not None
        settled = match_status(rule, {number: games[number] for number in range(measured)})
        assert match_status(rule, early).passed == settled.passed == match_status(rule, games).passed  # exact, always
        shares["over first"].append(score_of(early.values()).share)
        if gap >= 2:
            shares["to the first gap"].append(score_of(games[number] for number in range(gap // 2 * 2)).share)
        shares["by number"].append(settled.score.share)
        shares["whole"].append(score_of(games.values()).share)
    means = {name: sum(of_one) / len(of_one) for name, of_one in shares.items()}
    assert abs(means["whole"] - 0.5) < 0.01 and abs(means["by number"] - 0.5) < 0.012
    # The first gap is a long game, so the games before it are short ones: a prefix alone mends nothing.
    assert means["over first"] > 0.53 and means["to the first gap"] > 0.53


@pytest.mark.parametrize(
    "rule", [Rule(40, 0.55), Rule(40, 0.4), Rule(40, None, SPRT), Rule(40, exclude_duplicates=True)]
)
def test_what_is_measured_depends_on_results_by_number_alone(rule: Rule) -> None:
    stream = random.Random(3)
    for _ in range(20):
        games = some_match(stream, 40, stream.choice((6, 1000)), stream.uniform(0.3, 0.7), 0.1)
        least = next(n for n in range(0, 41, 2) if match_status(rule, {i: games[i] for i in range(n)}).decided)
        order = stream.sample(range(40), 40)
        for count in range(41):
            known = {number: games[number] for number in order[:count]}
            reached = all(number in known for number in range(least))
            assert deciding_games(rule, known) == (least if reached else None)


def test_games_that_failed_leave_the_decision_to_all() -> None:
    wins = {number: game(number, 1) for number in range(40) if number != 3}
    assert match_status(Rule(40), wins).decided and deciding_games(Rule(40), wins) is None
