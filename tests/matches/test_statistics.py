"""Scores, pairs and points; tails and intervals against scipy and plain enumeration."""

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from pipeline.matches import statistics as st
from pipeline.matches.statistics import VOID, PairPoints, Score, counts_by_name, pair_counts, pair_points, pair_scores
from pipeline.run.matches import Match, MatchFailure, MatchGame, MatchHeader, PlayerInfo


def games_of(results: dict[int, int]) -> list[MatchGame]:
    """results: of the player that moves first, by number of the game."""
    return [
        MatchGame(index=index, challenger_player=index % 2, opening_plies=0, moves=[0, 1], values_to_move=[None, None],
                  result_first_player=result, end="played_out")
        for index, result in results.items()
    ]  # fmt: skip


def test_pairs_count_where_both_games_are_there() -> None:
    # challenger's results of pair 0, 1, …: (won, lost), (drawn, won), (drawn, drawn), (lost, lost), (won, ?)
    games = games_of({0: 1, 1: 1, 2: 0, 3: -1, 4: 0, 5: 0, 6: -1, 7: 1, 8: 1})
    assert pair_scores(games, 6) == [2, 3, 2, 0, None, None]
    assert pair_scores(games, 6, excluded={3, 8}) == [2, VOID, 2, 0, None, None]
    assert pair_counts(pair_scores(games, 8)) == (1, 0, 2, 1, 0)
    assert pair_counts(pair_scores([], 8)) == (0,) * 5


def test_an_open_match_is_measured_up_to_its_first_incomplete_pair(tmp_path: Path) -> None:
    def measured(numbers: set[int], *failed: int) -> list[int]:
        problems = [
            MatchFailure(failed=number, attempt=1, kind="crash", player="a", problem="", moves=[]) for number in failed
        ]
        players = tuple(PlayerInfo(name=name, kind="random", spec="random") for name in "ab")
        openings: list[list[int]] = [[]] * 4
        header = MatchHeader(players=players, game="x", games=8, threshold=None, settings={}, openings=openings)
        match = Match(tmp_path, header, openings, games_of(dict.fromkeys(sorted(numbers), 1)), problems, None)
        return [game.index for game in st.measured_games(match)]

    assert measured({0, 1, 2, 4, 5}) == [0, 1]
    assert measured({0, 1, 2, 3, 4, 6}) == [0, 1, 2, 3]
    assert measured({0, 1, 2, 4, 5, 7}, 3) == [0, 1, 2, 4, 5]
    assert measured(set(range(8))) == list(range(8))


def test_a_score_from_both_sides() -> None:
    score = Score.of([1, 1, 0, -1, 1])
    assert score == Score(3, 1, 1) and score.reversed == Score(1, 1, 3)
    assert score + score.reversed == Score(4, 2, 4)


def test_no_games_are_safe():
    assert st.wilson_interval(Score()) == (0, 1)
    assert st.elo_interval(Score()) == (-math.inf, 0, math.inf)
    assert st.result_tail(Score()) == 1
    assert st.result_tail(Score(draws=10)) == 1
    assert Score().share == 0.5


@pytest.mark.parametrize("share", [0.5, 0.55, 0.05, 0.999])
@pytest.mark.parametrize("games", [1, 7, 400, 3000])
def test_binomial_tail_equals_scipy(games, share):
    for wins in {0, 1, games // 2, int(games * share), games, games + 1}:
        assert st.binomial_tail(wins, games, share) == pytest.approx(stats.binom.sf(wins - 1, games, share), rel=1e-9)


def test_certain_and_impossible_shares():
    assert st.binomial_tail(3, 10, 0.0) == 0
    assert st.binomial_tail(3, 10, 1.0) == 1
    assert st.binomial_tail(0, 10, 0.0) == 1


def test_elo_and_share_are_inverse():
    for elo in (-800.0, -35.0, 0.0, 1.0, 400.0):
        assert st.elo_of_share(st.share_of_elo(elo)) == pytest.approx(elo, abs=1e-9)
    assert st.elo_of_share(10 / 11) == pytest.approx(400)
    assert st.elo_of_share(0) == -math.inf and st.elo_of_share(1) == math.inf


@pytest.mark.parametrize(("wins", "losses"), [(220, 180), (1, 9), (0, 5), (5, 0), (95, 5)])
def test_wilson_interval_equals_scipy(wins, losses):
    wanted = stats.binomtest(wins, wins + losses).proportion_ci(0.95, method="wilson")
    assert st.wilson_interval(Score(wins=wins, losses=losses)) == pytest.approx((wanted.low, wanted.high), abs=1e-12)
    low, middle, high = st.elo_interval(Score(wins=wins, losses=losses))
    assert low <= middle <= high


def test_result_tail_is_the_sign_test_of_the_decided_games():
    assert st.result_tail(Score(wins=220, losses=180)) == pytest.approx(0.0255, abs=0.00005)
    score = Score(wins=30, draws=50, losses=20)
    assert st.result_tail(score) == pytest.approx(stats.binomtest(30, 50, 0.5, "greater").pvalue, rel=1e-12)


def test_pairs_are_counted_by_their_half_points():
    assert st.pair_counts([0, 4, 4, 2, 3, 1, 4]) == (1, 1, 1, 1, 3)
    assert st.pair_counts([]) == (0, 0, 0, 0, 0)
    assert st.pair_counts([4, None, VOID, 2, None]) == (0, 0, 1, 0, 1)
    for wrong in (5, -2):
        with pytest.raises(ValueError, match=f"not {wrong}"):
            st.pair_counts([2, wrong])


@pytest.mark.parametrize(
    "counts", [(0, 0, 7, 0, 0), (0, 0, 0, 0, 3), (2, 0, 1, 0, 5), (1, 3, 2, 2, 3), (0, 4, 0, 3, 1), (3, 1, 0, 0, 0)]
)
def test_pair_tail_counts_every_way_the_signs_may_fall(counts):
    sizes = [1] * (counts[1] + counts[3]) + [2] * (counts[0] + counts[4])
    seen = counts[3] - counts[1] + 2 * (counts[4] - counts[0])
    sums = [sum(signed) for signed in itertools.product(*[(-size, size) for size in sizes])]
    assert st.pair_tail(counts) == np.mean([total >= seen for total in sums])


def test_pair_tail_of_large_matches():
    # Only pairs won or lost 2–0: the binomial over pairs.
    assert st.pair_tail((80, 0, 40, 0, 100)) == pytest.approx(stats.binom.sf(99, 180, 0.5), rel=1e-12)
    # Half of them closer: a convolution of two binomials, in floating point.
    ones = stats.binom.pmf(np.arange(701), 700, 0.5)
    twos = stats.binom.pmf(np.arange(501), 500, 0.5)
    total = (2 * np.arange(701) - 700)[:, None] + 2 * (2 * np.arange(501) - 500)
    wanted = (ones[:, None] * twos)[total >= 380 - 320 + 2 * (270 - 230)].sum()
    assert st.pair_tail((230, 320, 900, 380, 270)) == pytest.approx(wanted, rel=1e-9)
    assert st.pair_tail((0, 0, 0, 0, 2000)) == 0  # 2^-2000 is below every float


@pytest.mark.parametrize(("first_share", "draw_share"), [(0.5, 0.0), (0.65, 0.3), (0.9, 0.1)])
def test_pair_tail_is_exact_whatever_the_openings(first_share, draw_share):
    """Equal players: P(tail ≤ q) ≤ q for every q, and = q at each value that the tail takes; by enumerating 3 pairs."""
    win, draw, loss = first_share - draw_share / 2, draw_share, 1 - first_share - draw_share / 2
    first, second = {2: win, 1: draw, 0: loss}, {2: loss, 1: draw, 0: win}
    of_score = [sum(first[a] * second[s - a] for a in first if s - a in second) for s in range(5)]
    tails: dict[tuple, dict[float, float]] = {}
    for scores in itertools.product(range(5), repeat=3):
        distances = tuple(sorted(abs(score - 2) for score in scores))
        tail = st.pair_tail(st.pair_counts(scores))
        by_tail = tails.setdefault(distances, {})
        by_tail[tail] = by_tail.get(tail, 0) + math.prod(of_score[score] for score in scores)
    for by_tail in tails.values():
        whole = sum(by_tail.values())
        for tail in by_tail:
            if whole:
                assert sum(p for other, p in by_tail.items() if other <= tail) / whole == pytest.approx(tail)


def test_draws_take_the_tail_over_pairs():
    counts = (0, 1, 5, 6, 2)
    drawn = Score(wins=10, draws=11, losses=7)
    assert st.result_tail(drawn, counts) == st.pair_tail(counts) != st.result_tail(drawn)
    decided = Score(wins=16, losses=12)
    assert st.result_tail(decided, (2, 0, 8, 0, 4)) == st.result_tail(decided) == st.binomial_tail(16, 28)


# Points


def game(index: int, result: float) -> MatchGame:
    return MatchGame(
        index=index, challenger_player=index % 2, opening_plies=0, moves=[0], values_to_move=[None],
        result_first_player=result, end="played_out",
    )  # fmt: skip


def test_what_pairs_add_up_to() -> None:
    games = [game(0, 2), game(1, 1), game(2, -1), game(4, 3), game(5, -3), game(7, 2)]
    assert pair_points(games) == [0.5, 3.0]
    assert pair_points(games[:4]) == [0.5]
    found = PairPoints.of([0.5, 3.0, -1.0])
    assert found.mean == pytest.approx(2.5 / 3) and found.deviation == pytest.approx(np.std([0.5, 3, -1], ddof=1))
    low, high = found.interval()
    assert (high - low) / 2 == pytest.approx(st.Z_95 * found.error)
    assert found.error == found.deviation / math.sqrt(3)
    assert PairPoints().mean == 0 and PairPoints.of([1.0]).error == math.inf
    won, lost = counts_by_name(games, {2.0: "gammon", 3.0: "backgammon"})
    assert won == {"single": 0, "gammon": 1, "backgammon": 2} and lost == {"single": 2, "gammon": 1, "backgammon": 0}


def test_the_tail_is_that_of_fair_signs() -> None:
    rng = np.random.default_rng(3)
    for _ in range(60):
        found = rng.choice((-2.75, -1.5, -0.25, 0.0, 0.5, 1.0, 3.0), rng.integers(1, 11))
        signs = np.array(list(itertools.product((-1, 1), repeat=len(found))))
        exact = ((signs * np.abs(found)).sum(axis=1) >= found.sum() - 1e-9).mean()
        assert st.sign_tail(found.tolist()) == pytest.approx(exact)
    assert st.sign_tail([]) == 1
