"""Scores and pairs; thresholds, tails and intervals against scipy, plain enumeration and docs/statistics.md."""

import itertools
import math
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from pipeline.matches import statistics as st
from pipeline.matches.statistics import VOID, Score, pair_counts, pair_scores
from pipeline.run.matches import MatchGame

PAGE = Path(__file__).parents[2] / "docs" / "statistics.md"


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


def test_a_score_from_both_sides() -> None:
    score = Score.of([1, 1, 0, -1, 1])
    assert score == Score(3, 1, 1) and score.reversed == Score(1, 1, 3)
    assert score + score.reversed == Score(4, 2, 4)


@pytest.mark.parametrize(
    ("games", "wins", "tail"),
    [(40, 27, 0.0192), (100, 60, 0.0284), (200, 115, 0.0200), (400, 220, 0.0255)],
)
def test_the_table_of_derived_thresholds(games, wins, tail):
    gate = st.gate_half_points(games)
    assert st.wins_needed(gate) == wins
    assert st.binomial_tail(wins, games) == pytest.approx(tail, abs=0.00006)
    assert st.derived_threshold(games) == pytest.approx(0.5 + games**-0.5)


def test_a_threshold_is_taken_as_written():
    assert 0.55 * 400 > 220  # what a careless comparison would ask for
    assert st.gate_half_points(400, 0.55) == 440
    assert st.gate_half_points(400) == 440
    assert st.passes(Score(wins=220, losses=180), 440)
    assert not st.passes(Score(wins=219, draws=1, losses=180), 440)
    assert st.passes(Score(wins=219, draws=2, losses=179), 440)
    assert st.gate_half_points(10, 0.7) == 14
    assert st.gate_half_points(10, 1.0) == 20
    assert st.gate_half_points(100, 1e-05) == 1


@pytest.mark.parametrize("games", [*range(1, 200), 399, 400, 401, 999, 10_000])
def test_the_derived_gate_is_the_least_share_that_reaches_the_threshold(games):
    gate = st.gate_half_points(games)
    if games < 4:
        assert gate == 2 * games  # all of them
        return
    assert (gate - games) ** 2 >= 4 * games > (gate - 1 - games) ** 2
    assert gate <= 2 * games


def test_no_games_are_safe():
    assert st.gate_half_points(0) == 0
    assert st.derived_threshold(0) == 1
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


def test_power():
    assert st.power(400, 440, 0.55) == pytest.approx(0.52, abs=0.005)
    assert st.share_of_elo(35) == pytest.approx(0.5502, abs=0.0001)
    assert st.power(400, 440, st.share_of_elo(35)) == pytest.approx(
        stats.binom.sf(219, 400, st.share_of_elo(35)), rel=1e-9
    )
    # A gate of 100 of 200 lets a model pass that is 20 Elo weaker, about a quarter of the time.
    assert st.power(200, st.gate_half_points(200, 0.5), st.share_of_elo(-20)) == pytest.approx(0.23, abs=0.01)


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


@pytest.mark.parametrize("first_share", [0.5, 0.65, 0.9, 1.0])
@pytest.mark.parametrize("draw_share", [0.0, 0.1, 0.5])
@pytest.mark.parametrize(("games", "threshold"), [(4, None), (10, None), (40, None), (40, 0.51), (100, None)])
def test_false_promotion_bounds_openings_that_favour_a_colour(games, threshold, first_share, draw_share):
    drawn = min(draw_share, 2 * (1 - first_share))
    win, loss = first_share - drawn / 2, 1 - first_share - drawn / 2
    chances = np.ones(1)  # of each number of half points
    for _ in range(games // 2):
        chances = np.convolve(np.convolve(chances, [loss, drawn, win]), [win, drawn, loss])
    gate = st.gate_half_points(games, threshold)
    assert chances[gate:].sum() <= st.false_promotion(games, gate) + 1e-12


@pytest.mark.parametrize(("games", "threshold"), [(10, None), (40, None), (12, 0.55), (6, 0.5), (8, 0.99), (4, None)])
def test_false_promotion_is_the_worst_over_all_numbers_of_draws(games, threshold):
    gate = st.gate_half_points(games, threshold)
    worst = max(
        sum(
            math.comb(games - draws, wins) / 2 ** (games - draws)
            for wins in range(games - draws + 1)
            if 2 * wins + draws >= gate
        )
        for draws in range(games + 1)
    )
    assert st.false_promotion(games, gate) == pytest.approx(worst, rel=1e-12)


@pytest.mark.parametrize("games", [1, 2, 5, 6])
@pytest.mark.parametrize("threshold", [None, 0.5, 0.51, 0.75, 1.0])
def test_curtailment_is_exact(games, threshold):
    """Decided means: whatever the remaining games bring, the decision is the same; and never a game later."""
    gate = st.gate_half_points(games, threshold)
    for played in range(games + 1):
        for half_points in range(2 * played + 1):
            wins, draws = divmod(half_points, 2)
            if wins + draws > played:
                continue
            score = Score(wins, draws, played - wins - draws)
            left = games - played
            decisions = {half_points + more >= gate for more in range(2 * left + 1)}
            assert st.is_decided(score, games, gate) == (len(decisions) == 1)


@pytest.mark.parametrize("draw_share", [0.0, 0.4])
def test_simulated_matches_between_equals_are_promoted_as_often_as_stated(draw_share):
    games, matches = 100, 40_000
    rng = np.random.default_rng(5)
    draws = rng.binomial(games, draw_share, matches)
    wins = rng.binomial(games - draws, 0.5)
    gate = st.gate_half_points(games)
    results = list(zip(wins.tolist(), draws.tolist(), strict=True))
    rate = np.mean([st.passes(Score(w, d, games - w - d), gate) for w, d in results])
    bound = st.false_promotion(games, gate)
    assert bound == pytest.approx(0.0284, abs=0.0001)
    error = 4 * math.sqrt(bound / matches)
    assert rate < bound + error
    if draw_share == 0:
        assert rate > bound - error
    curtailed = [curtail(w, d, games, gate, rng) for w, d in results[:300]]
    assert all(decision == full for decision, full, _ in curtailed)
    assert np.mean([length for *_, length in curtailed]) < 95


def curtail(wins, draws, games, gate, rng):
    """Play a finished match again in random order until decided: (decision, full decision, games played)."""
    score = Score()
    for result in rng.permutation([2] * wins + [1] * draws + [0] * (games - wins - draws)).tolist():
        if st.is_decided(score, games, gate):
            break
        score = Score(score.wins + (result == 2), score.draws + (result == 1), score.losses + (result == 0))
    return st.passes(score, gate), 2 * wins + draws >= gate, score.games


def test_the_docs_say_what_the_code_computes():
    section = PAGE.read_text(encoding="utf-8").split("## How much is enough?")[1].split("\n## ")[0]
    rows = re.findall(r"^\| *(\d+) \| (\d+) \| ([\d.]+) % \| ([\d.]+) % \|$", section, re.MULTILINE)
    assert [int(games) for games, *_ in rows] == [40, 100, 200, 400, 1000]
    for games, wins, equal, stronger in rows:
        gate = st.gate_half_points(int(games))
        assert int(wins) == st.wins_needed(gate)
        assert equal == f"{100 * st.binomial_tail(int(wins), int(games)):.2f}"
        assert stronger == f"{100 * st.power(int(games), gate, st.share_of_elo(35)):.0f}"
