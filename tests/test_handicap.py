"""The handicap at which a player scores half: the fit against a search of a grid, its interval by simulation."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from benchmarks import handicap
from benchmarks.handicap import LIMIT_95, STEEPEST, Estimate, Level, Spread, amount_of, deviance, estimate
from pipeline.matches.statistics import Score


def levels_of(*rows: tuple[int, int, int, int]) -> list[Level]:
    """(stones, wins, draws, losses) of each."""
    return [Level(amount_of(stones), Score(*score)) for stones, *score in rows]


def test_the_even_game_is_one_stone() -> None:
    assert [amount_of(stones) for stones in (0, 2, 3, 4)] == [1, 2, 3, 4]


# stones, won, drawn, lost …; where half lies, how the interval ends
TABLE = [
    ([(2, 75, 0, 25), (3, 25, 0, 75)], 2.5, (True, True), ""),  # symmetric
    ([(2, 50, 0, 50), (3, 20, 0, 80)], 2.0, (False, True), None),  # half at the smallest amount, or just below
    ([(2, 60, 20, 20), (4, 20, 20, 60)], 3.0, (True, True), ""),  # a draw is half a point
    ([(0, 90, 0, 10), (2, 10, 0, 90)], 1.5, (True, True), ""),  # the even game counts as one stone
    ([(2, 20, 0, 0), (3, 0, 0, 20)], 2.5, (True, True), ""),  # no game on the other side: the steepest slope decides
    ([(2, 60, 0, 40), (3, 55, 0, 45)], None, (True, False), "above"),
    ([(0, 30, 0, 70), (2, 10, 0, 90)], None, (False, None), "below"),
    ([(2, 60, 0, 40)], None, (False, False), "above"),  # one amount has no slope
    ([(2, 3, 0, 17)], None, (False, False), "below"),
    ([(2, 5, 0, 5)], None, (False, False), ""),
    ([(2, 3, 0, 17), (3, 15, 0, 5)], None, (False, False), ""),  # more stones, more points: no handicap says anything
]


@pytest.mark.parametrize(("rows", "half", "ends", "side"), TABLE)
def test_where_half_of_the_points_are(rows, half, ends, side) -> None:
    found = estimate(levels_of(*rows))
    if half is None:
        assert found.half is None
    elif found.half is None:
        assert side is None and found.side == "below" and half == found.levels[0].amount
    else:
        assert found.half == pytest.approx(half, abs=1e-6)
    if side is not None:
        assert found.side == side
    for end, wanted in zip((found.low, found.high), ends, strict=True):
        if wanted is not None:
            assert (end is not None) == wanted
    assert Estimate.from_json(found.as_json()) == found


def test_wide_ranges_of_komi_have_an_interval() -> None:
    levels = [Level(points, Score(won, 0, 200 - won)) for points, won in ((-45, 199), (0, 101), (45, 2))]
    found = estimate(levels, "points of komi")
    assert found.half is not None and abs(found.half) < 5 and found.low is not None and found.high is not None


def test_a_level_without_games_says_nothing() -> None:
    rows = [(2, 30, 0, 10), (3, 10, 0, 30)]
    assert estimate(levels_of(*rows, (4, 0, 0, 0))) == estimate(levels_of(*rows))
    with pytest.raises(ValueError, match="no game"):
        estimate(levels_of((2, 0, 0, 0)))


def test_more_games_of_the_same_make_the_interval_narrower() -> None:
    widths = []
    for factor in (1, 4, 16):
        found = estimate(levels_of((2, 20 * factor, 0, 5 * factor), (3, 6 * factor, 0, 19 * factor)))
        assert found.low is not None and found.high is not None and found.low < found.half < found.high
        widths.append(found.high - found.low)
    assert widths[0] > 1.6 * widths[1] > 2.5 * widths[2]


def grid_log_likelihood(levels: list[Level], halves: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """[halves, slopes] the log-likelihood, written out as the module docstring has it."""
    total = np.zeros((len(halves), len(slopes)))
    for level in levels:
        chance = 1 / (1 + np.exp(-slopes[None, :] * (halves[:, None] - level.amount)))
        won, games = level.score.wins + level.score.draws / 2, level.score.games
        total += won * np.log(chance) + (games - won) * np.log(1 - chance)
    return total


def test_the_fit_is_that_of_a_search_of_the_whole_grid() -> None:
    rng = random.Random(5)
    halves, slopes = np.linspace(1, 4, 601), np.linspace(0, STEEPEST, 401)
    compared = 0
    for _ in range(40):
        true_half, slope = rng.uniform(1.5, 3.5), rng.uniform(0.5, 3)
        levels = []
        for amount in sorted(rng.sample((1, 2, 3, 4), rng.choice((2, 3, 4)))):
            chance = 1 / (1 + math.exp(-slope * (true_half - amount)))
            wins = sum(rng.random() < chance for _ in range(rng.randrange(20, 60)))
            draws = rng.randrange(0, 4)
            levels.append(Level(amount, Score(wins, draws, rng.randrange(20, 60))))
        profile = grid_log_likelihood(levels, halves, slopes).max(axis=1)
        found = estimate(levels)
        if found.half is None:
            continue
        compared += 1
        best = halves[profile.argmax()]
        inside = (halves >= levels[0].amount) & (halves <= levels[-1].amount)
        assert found.half == pytest.approx(best, abs=0.02)
        accepted = halves[inside & (2 * (profile.max() - profile) <= LIMIT_95)]
        assert (found.low or levels[0].amount) == pytest.approx(accepted.min(), abs=0.02)
        assert (found.high or levels[-1].amount) == pytest.approx(accepted.max(), abs=0.02)
        for end in filter(None, (found.low, found.high)):
            assert deviance(levels, end) == pytest.approx(LIMIT_95, abs=1e-3)
    assert compared > 10


def played(rng: np.random.Generator, half: float, slope: float, games: int, amounts: tuple[int, ...]) -> list[Level]:
    """Of games that are what the model says."""
    levels = []
    for amount in amounts:
        wins = int(rng.binomial(games, 1 / (1 + math.exp(-slope * (half - amount)))))
        levels.append(Level(amount, Score(wins, 0, games - wins)))
    return levels


@pytest.mark.parametrize(
    ("half", "slope", "games", "amounts"),
    [
        (2.4, 1.5, 200, (1, 2, 3, 4)),
        (2.4, 1.5, 30, (2, 3)),
        (3.0, 0.8, 60, (2, 3, 4)),
    ],
)
def test_the_interval_has_the_truth_in_it_as_often_as_it_says(half, slope, games, amounts) -> None:
    rng, rounds = np.random.default_rng(11), 1_000
    samples = [played(rng, half, slope, games, amounts) for _ in range(rounds)]
    inside = sum(deviance(levels, half) <= LIMIT_95 for levels in samples)
    assert 0.95 - 0.021 <= inside / rounds <= 0.95 + 0.021  # three deviations of so many rounds
    for levels in samples[:30]:  # what is printed is that interval, as far as it lies between the amounts
        found = estimate(levels)
        covered = (found.low is None or found.low <= half) and (found.high is None or half <= found.high)
        if found.side == "" or min(deviance(levels, end) for end in (amounts[0], amounts[-1])) <= LIMIT_95:
            assert covered == (deviance(levels, half) <= LIMIT_95)


def test_an_interval_of_one_deviation_holds_as_often_as_that() -> None:
    rng = np.random.default_rng(3)
    samples = [played(rng, 2.4, 1.5, 60, (2, 3)) for _ in range(300)]
    inside = sum(deviance(levels, 2.4) <= 1.0 for levels in samples)  # one deviation, not 1.96
    assert 0.6 < inside / 300 < 0.77


def test_how_it_is_said() -> None:
    text = str(estimate(levels_of((2, 75, 0, 25), (3, 25, 0, 75))))
    assert text.startswith("2.50 (2.3") and text.endswith(")")
    assert str(estimate(levels_of((2, 60, 0, 40)))) == "above 2"
    assert str(estimate(levels_of((0, 3, 0, 20), (2, 0, 0, 20)))).startswith("below 1 (below 1 to 1.")
    assert str(estimate(levels_of((2, 5, 0, 5)))) == "not known"
    points = estimate([Level(0, Score(8, 0, 2)), Level(10, Score(2, 0, 8))], "points of komi")  # another unit
    assert points.half == pytest.approx(5) and points.unit == "points of komi"


def test_the_spread_between_runs() -> None:
    assert Spread((1.0, 2.0, 3.0)).text(".2f") == (
        "mean 2.00, standard deviation between runs 1.00, 1.00 to 3.00, 3 runs"
    )
    assert Spread((2.0,)).deviation is None and Spread((2.0,)).text(".1f") == "mean 2.0, 2.0 to 2.0, 1 run"


def test_every_constant_is_what_its_name_says() -> None:
    assert pytest.approx(1.959963984540054**2) == LIMIT_95
    assert 1 / (1 + math.exp(-handicap.STEEPEST / 2)) == pytest.approx(0.982, abs=1e-3)
