"""Points per game: the condition against its formula, early ends against all completions, tails against all signs."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from pipeline.matches import points
from pipeline.matches.points import PairPoints, counts_by_name, pair_points
from pipeline.run.matches import MatchGame

VALUES = (-3.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0)  # of a pair, per game


def game(index: int, result: float) -> MatchGame:
    return MatchGame(
        index=index, challenger_player=index % 2, opening_plies=0, moves=[0], values_to_move=[None],
        result_first_player=result, end="played_out",
    )  # fmt: skip


def test_what_pairs_add_up_to() -> None:
    games = [game(0, 2), game(1, 1), game(2, -1), game(4, 3), game(5, -3), game(7, 2)]
    assert pair_points(games, 4) == [0.5, None, 3.0, None]
    assert pair_points(games, 4, excluded={5}) == [0.5, None, None, None]
    found = PairPoints.of([0.5, 3.0, -1.0])
    assert found.mean == pytest.approx(2.5 / 3) and found.deviation == pytest.approx(np.std([0.5, 3, -1], ddof=1))
    low, high = found.interval(1.0)
    assert (high - low) / 2 == pytest.approx(found.error) == found.deviation / math.sqrt(3)
    assert PairPoints().mean == 0 and PairPoints.of([1.0]).error == math.inf
    won, lost = counts_by_name(games, {2.0: "gammon", 3.0: "backgammon"})
    assert won == {"single": 0, "gammon": 1, "backgammon": 2} and lost == {"single": 2, "gammon": 1, "backgammon": 0}


@pytest.mark.parametrize("threshold", [None, 0.0, 0.3])
def test_the_condition_is_its_formula(threshold: float | None) -> None:
    rng, seen = np.random.default_rng(0), set()
    for _ in range(2000):
        found = rng.choice(VALUES, rng.integers(8, 40)) + 0.5 * rng.integers(0, 2)
        enough = threshold if threshold is not None else 2 * found.std(ddof=1) / math.sqrt(len(found))
        given = PairPoints.of(found.tolist())
        if abs(found.mean() - enough) > 1e-9:
            assert points.passes(given, threshold) == (found.mean() > enough)
        assert points.needed(given, threshold) == pytest.approx(enough)
        seen.add(points.passes(given, threshold))
    assert seen == {True, False}


def test_few_pairs_show_nothing() -> None:
    assert not points.passes(PairPoints.of([2.0] * 7)) and points.passes(PairPoints.of([2.0] * 8))
    assert not points.passes(PairPoints.of([0.0] * 50)) and points.needed(PairPoints.of([2.0])) is None
    assert not points.is_decided(PairPoints.of([3.0] * 7), 1, 3.0)
    assert points.is_decided(PairPoints.of([3.0] * 8), 1, 3.0)
    assert points.passes(PairPoints.of([2.0]), 1.0) and not points.passes(PairPoints(), 0.0)


def test_the_lowest_threshold_needs_one_pair() -> None:
    assert not points.is_decided(PairPoints(), 5, 3.0, -3.0)
    assert points.is_decided(PairPoints.of([-3.0]), 5, 3.0, -3.0) and points.passes(PairPoints.of([-3.0]), -3.0)


@pytest.mark.parametrize("threshold", [None, 0.0, 0.3])
def test_a_match_ends_early_only_if_no_completion_decides_otherwise(threshold: float | None) -> None:
    rng, early = np.random.default_rng(1), {True: 0, False: 0}
    for _ in range(400):
        known = rng.choice(rng.choice(VALUES, 3), rng.integers(6, 30)).tolist()
        left = int(rng.integers(0, 4))
        if not points.is_decided(PairPoints.of(known), left, 3.0, threshold):
            continue
        decisions = {
            points.passes(PairPoints.of([*known, *rest]), threshold)
            for rest in itertools.combinations_with_replacement(VALUES, left)
        }
        assert decisions == {points.passes(PairPoints.of(known), threshold)}, (known, left)
        early[decisions.pop()] += left > 0
    assert min(early.values()) > 5


def test_decided_stays_decided() -> None:
    """The first prefix that decides is found by bisection, which needs that."""
    rng = np.random.default_rng(2)
    for _ in range(300):
        every = rng.choice(rng.choice(VALUES, 4), 30).tolist()
        decided = [points.is_decided(PairPoints.of(every[:n]), 30 - n, 3.0) for n in range(31)]
        assert decided == sorted(decided) and decided[-1]
        final = points.passes(PairPoints.of(every))
        first = decided.index(True)
        assert points.passes(PairPoints.of(every[:first])) == final


def test_the_tail_is_that_of_fair_signs() -> None:
    rng = np.random.default_rng(3)
    for _ in range(60):
        found = rng.choice((-2.75, -1.5, -0.25, 0.0, 0.5, 1.0, 3.0), rng.integers(1, 11))
        signs = np.array(list(itertools.product((-1, 1), repeat=len(found))))
        exact = ((signs * np.abs(found)).sum(axis=1) >= found.sum() - 1e-9).mean()
        assert points.sign_tail(found.tolist()) == pytest.approx(exact)
    assert points.sign_tail([]) == 1


@pytest.mark.parametrize("num_pairs", [8, 20, 100])
def test_equals_pass_as_seldom_as_is_promised(num_pairs: int) -> None:
    """Games of two equals: whoever moves first wins more, and more gammons; the same dice, other decisions."""
    rng = np.random.default_rng(4)
    results = rng.choice(
        (1.0, 2.0, 3.0, -1.0, -2.0, -3.0), (4000, num_pairs, 2), p=(0.38, 0.15, 0.01, 0.34, 0.11, 0.01)
    )
    found = (results[..., 0] - results[..., 1]) / 2
    passed = [points.passes(PairPoints.of(row)) for row in found.tolist()]
    assert 0.015 < np.mean(passed) < min(0.05, points.false_promotion_at_most(num_pairs))
    assert points.false_promotion_at_most(100) == pytest.approx(math.exp(-2), rel=0.3)
