"""The promotion threshold: against scipy, plain enumeration, simulation and docs/statistics.md; points against their
formula and all completions."""

import itertools
import math
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from pipeline.evaluate import threshold as th
from pipeline.matches import statistics as st
from pipeline.matches.statistics import PairPoints, Score

PAGE = Path(__file__).parents[2] / "docs" / "statistics.md"
VALUES = (-3.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0)  # of a pair, per game


# The gate


@pytest.mark.parametrize(
    ("games", "wins", "tail"),
    [(40, 27, 0.0192), (100, 60, 0.0284), (200, 115, 0.0200), (400, 220, 0.0255)],
)
def test_the_table_of_derived_thresholds(games, wins, tail):
    gate = th.gate_half_points(games)
    assert th.wins_needed(gate) == wins
    assert st.binomial_tail(wins, games) == pytest.approx(tail, abs=0.00006)
    assert th.derived_threshold(games) == pytest.approx(0.5 + games**-0.5)


def test_a_threshold_is_taken_as_written():
    assert 0.55 * 400 > 220  # what a careless comparison would ask for
    assert th.gate_half_points(400, 0.55) == 440
    assert th.gate_half_points(400) == 440
    assert Score(wins=220, losses=180).half_points >= 440
    assert not Score(wins=219, draws=1, losses=180).half_points >= 440
    assert Score(wins=219, draws=2, losses=179).half_points >= 440
    assert th.gate_half_points(10, 0.7) == 14
    assert th.gate_half_points(10, 1.0) == 20
    assert th.gate_half_points(100, 1e-05) == 1


@pytest.mark.parametrize("games", [*range(1, 200), 399, 400, 401, 999, 10_000])
def test_the_derived_gate_is_the_least_share_that_reaches_the_threshold(games):
    gate = th.gate_half_points(games)
    if games < 4:
        assert gate == 2 * games  # all of them
        return
    assert (gate - games) ** 2 >= 4 * games > (gate - 2 - games) ** 2
    assert gate % 2 == 0 and gate <= 2 * games


def test_no_games():
    assert th.gate_half_points(0) == 0
    assert th.derived_threshold(0) == 1


def test_power():
    assert th.power(400, 440, 0.55) == pytest.approx(0.52, abs=0.005)
    assert st.share_of_elo(35) == pytest.approx(0.5502, abs=0.0001)
    assert th.power(400, 440, st.share_of_elo(35)) == pytest.approx(
        stats.binom.sf(219, 400, st.share_of_elo(35)), rel=1e-9
    )
    # A gate of 100 of 200 lets a model pass that is 20 Elo weaker, about a quarter of the time.
    assert th.power(200, th.gate_half_points(200, 0.5), st.share_of_elo(-20)) == pytest.approx(0.23, abs=0.01)


@pytest.mark.parametrize("first_share", [0.5, 0.65, 0.9, 1.0])
@pytest.mark.parametrize("draw_share", [0.0, 0.1, 0.5, 0.9])
@pytest.mark.parametrize(("games", "threshold"), [(4, None), (10, None), (40, None), (40, 0.51), (64, None)])
def test_false_promotion_bounds_openings_that_favour_a_colour(games, threshold, first_share, draw_share):
    drawn = min(draw_share, 2 * (1 - first_share))
    win, loss = first_share - drawn / 2, 1 - first_share - drawn / 2
    first, second = [(win, 1, 0), (drawn, 0, 1), (loss, 0, 0)], [(loss, 1, 0), (drawn, 0, 1), (win, 0, 0)]
    chances = np.zeros((games + 1, games + 1))  # of each number of wins and draws
    chances[0, 0] = 1
    for colour in [first, second] * (games // 2):
        chances = sum(p * np.roll(chances, (wins, draws), (0, 1)) for p, wins, draws in colour)
    assert chances.sum() == pytest.approx(1)
    passing = sum(
        chances[wins, draws]
        for wins in range(games + 1)
        for draws in range(games + 1 - wins)
        if 2 * wins + draws >= th.gate_half_points(games, threshold, draws)
    )
    assert passing <= th.false_promotion(games, threshold) + 1e-12


@pytest.mark.parametrize(("games", "threshold"), [(10, None), (40, None), (12, 0.55), (6, 0.5), (8, 0.99), (4, None)])
def test_false_promotion_is_the_worst_over_all_numbers_of_draws(games, threshold):
    worst = max(
        sum(
            math.comb(games - draws, wins) / 2 ** (games - draws)
            for wins in range(games - draws + 1)
            if 2 * wins + draws >= th.gate_half_points(games, threshold, draws)
        )
        for draws in range(games + 1)
    )
    assert th.false_promotion(games, threshold) == pytest.approx(worst, rel=1e-12)


def test_draws_lower_the_derived_gate_and_no_other():
    """By hand, of 64 games: P(at least 40 of 64) = 2.997 %. Of 32, 21 have 5.5 and 22 have 2.5 %; 6 of 6 1.6 %; of 5
    not even all (3.1 %).
    """
    assert st.binomial_tail(40, 64) == pytest.approx(0.02997, abs=1e-5)
    assert [th.gate_half_points(64, None, draws) - draws for draws in (0, 32, 58)] == [2 * 40, 2 * 22, 2 * 6]
    assert th.gate_half_points(64, None, 59) - 59 > 2 * 5
    assert th.gate_half_points(64, None, 64) > 64  # draws alone never promote
    assert th.gate_half_points(64, 0.625, 32) == th.gate_half_points(64, 0.625) == 80
    gates = [th.gate_half_points(64, None, draws) for draws in range(65)]
    assert all(after - before in (-1, 1) for before, after in itertools.pairwise(gates))


def test_games_without_their_pair_may_all_be_won():
    """Their openings may favour the challenger's colour."""
    assert th.false_promotion(100, 0.55, 0) == th.false_promotion(100, 0.55)
    assert th.false_promotion(100, 0.55, 6) == th.false_promotion(94, 0.52) > th.false_promotion(100, 0.55)
    assert th.false_promotion(3, 1.0, 3) == 1.0
    assert th.false_promotion(100) < th.false_promotion(100, None, 4) < 0.3
    assert th.false_promotion(100, None, 6) == 1.0  # if all others are drawn


@pytest.mark.parametrize("games", [1, 2, 5, 6, 9])
@pytest.mark.parametrize("threshold", [None, 0.5, 0.51, 0.75, 1.0])
def test_curtailment_is_exact(games, threshold):
    """A match is decided exactly when no result of the remaining games can change the decision."""

    def passes(wins, draws):
        return 2 * wins + draws >= th.gate_half_points(games, threshold, draws)

    for wins, draws, losses in itertools.product(range(games + 1), repeat=3):
        left = games - wins - draws - losses
        if left < 0:
            continue
        decisions = {passes(wins + w, draws + d) for w in range(left + 1) for d in range(left + 1 - w)}
        gate = th.gate_half_points(games, threshold, draws)
        assert th.is_decided(Score(wins, draws, losses), games, gate) == (len(decisions) == 1)


@pytest.mark.parametrize("draw_share", [0.0, 0.4, 0.95])
def test_simulated_matches_between_equals_are_promoted_as_often_as_stated(draw_share):
    games, matches = 100, 40_000
    rng = np.random.default_rng(5)
    draws = rng.binomial(games, draw_share, matches)
    wins = rng.binomial(games - draws, 0.5)
    results = list(zip(wins.tolist(), draws.tolist(), strict=True))
    rate = np.mean([2 * w + d >= th.gate_half_points(games, None, d) for w, d in results])
    bound = th.false_promotion(games)
    assert bound == pytest.approx(0.0284, abs=0.0001)
    error = 4 * math.sqrt(bound / matches)
    assert rate < bound + error
    if draw_share == 0:
        assert rate > bound - error
    curtailed = [curtail(w, d, games, rng) for w, d in results[:300]]
    assert all(decision == full for decision, full, _ in curtailed)
    assert np.mean([length for *_, length in curtailed]) < 95


def curtail(wins, draws, games, rng):
    """Play a finished match again in random order until decided: (decision, full decision, games played)."""
    score = Score()
    for result in rng.permutation([2] * wins + [1] * draws + [0] * (games - wins - draws)).tolist():
        gate = th.gate_half_points(games, None, score.draws)
        if th.is_decided(score, games, gate):
            break
        score = Score(score.wins + (result == 2), score.draws + (result == 1), score.losses + (result == 0))
    full = 2 * wins + draws >= th.gate_half_points(games, None, draws)
    return score.half_points >= th.gate_half_points(games, None, score.draws), full, score.games


def test_the_docs_say_what_the_code_computes():
    section = PAGE.read_text(encoding="utf-8").split("## How much is enough?")[1].split("\n## ")[0]
    rows = re.findall(r"^\| *(\d+) \| (\d+) \| ([\d.]+) % \| ([\d.]+) % \|$", section, re.MULTILINE)
    assert [int(games) for games, *_ in rows] == [40, 100, 200, 400, 1000]
    for games, wins, equal, stronger in rows:
        gate = th.gate_half_points(int(games))
        assert int(wins) == th.wins_needed(gate)
        assert equal == f"{100 * st.binomial_tail(int(wins), int(games)):.2f}"
        assert stronger == f"{100 * th.power(int(games), gate, st.share_of_elo(35)):.0f}"


# The points condition


@pytest.mark.parametrize("threshold", [None, 0.0, 0.3])
def test_the_condition_is_its_formula(threshold: float | None) -> None:
    rng, seen = np.random.default_rng(0), set()
    for _ in range(2000):
        found = rng.choice(VALUES, rng.integers(8, 40)) + 0.5 * rng.integers(0, 2)
        enough = threshold if threshold is not None else 2 * found.std(ddof=1) / math.sqrt(len(found))
        given = PairPoints.of(found.tolist())
        if abs(found.mean() - enough) > 1e-9:
            assert th.points_pass(given, threshold) == (found.mean() > enough)
        assert th.points_needed(given, threshold) == pytest.approx(enough)
        seen.add(th.points_pass(given, threshold))
    assert seen == {True, False}


def test_few_pairs_show_nothing() -> None:
    assert not th.points_pass(PairPoints.of([2.0] * 7)) and th.points_pass(PairPoints.of([2.0] * 8))
    assert not th.points_pass(PairPoints.of([0.0] * 50)) and th.points_needed(PairPoints.of([2.0])) is None
    assert not th.points_decided(PairPoints.of([3.0] * 7), 1, 3.0)
    assert th.points_decided(PairPoints.of([3.0] * 8), 1, 3.0)
    assert th.points_pass(PairPoints.of([2.0]), 1.0) and not th.points_pass(PairPoints(), 0.0)


def test_the_lowest_threshold_needs_one_pair() -> None:
    assert not th.points_decided(PairPoints(), 5, 3.0, -3.0)
    assert th.points_decided(PairPoints.of([-3.0]), 5, 3.0, -3.0) and th.points_pass(PairPoints.of([-3.0]), -3.0)


@pytest.mark.parametrize("threshold", [None, 0.0, 0.3])
def test_a_match_ends_early_only_if_no_completion_decides_otherwise(threshold: float | None) -> None:
    rng, early = np.random.default_rng(1), {True: 0, False: 0}
    for _ in range(400):
        known = rng.choice(rng.choice(VALUES, 3), rng.integers(6, 30)).tolist()
        left = int(rng.integers(0, 4))
        if not th.points_decided(PairPoints.of(known), left, 3.0, threshold):
            continue
        decisions = {
            th.points_pass(PairPoints.of([*known, *rest]), threshold)
            for rest in itertools.combinations_with_replacement(VALUES, left)
        }
        assert decisions == {th.points_pass(PairPoints.of(known), threshold)}, (known, left)
        early[decisions.pop()] += left > 0
    assert min(early.values()) > 5


def test_decided_stays_decided() -> None:
    """The first prefix that decides is found by bisection, which needs that."""
    rng = np.random.default_rng(2)
    for _ in range(300):
        every = rng.choice(rng.choice(VALUES, 4), 30).tolist()
        decided = [th.points_decided(PairPoints.of(every[:n]), 30 - n, 3.0) for n in range(31)]
        assert decided == sorted(decided) and decided[-1]
        final = th.points_pass(PairPoints.of(every))
        first = decided.index(True)
        assert th.points_pass(PairPoints.of(every[:first])) == final


@pytest.mark.parametrize("num_pairs", [8, 20, 100])
def test_equals_pass_as_seldom_as_is_promised(num_pairs: int) -> None:
    """Games of two equals with the same dice: the first player wins more, and more gammons."""
    rng = np.random.default_rng(4)
    results = rng.choice(
        (1.0, 2.0, 3.0, -1.0, -2.0, -3.0), (4000, num_pairs, 2), p=(0.38, 0.15, 0.01, 0.34, 0.11, 0.01)
    )
    found = (results[..., 0] - results[..., 1]) / 2
    passed = [th.points_pass(PairPoints.of(row)) for row in found.tolist()]
    assert 0.015 < np.mean(passed) < min(0.05, th.points_false_promotion(num_pairs))
    assert th.points_false_promotion(100) == pytest.approx(math.exp(-2), rel=0.3)
