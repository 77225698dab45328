"""The sparse factorisation, against dense inverses, and ratings of many players, which go by it, against the same."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from pipeline.ratings import strength
from pipeline.ratings.sparse import factorise, pattern_of
from pipeline.ratings.strength import MatchResult, bradley_terry, connected_groups


@pytest.mark.parametrize(
    ("size", "num_pairs", "fill"),
    [
        (1, 0, 0),
        (6, 5, None),
        (40, 60, None),
        (30, 435, 435),  # everybody met everybody
    ],
)
def test_solutions_and_the_inverse_s_diagonal_are_the_dense_ones(size: int, num_pairs: int, fill: int | None) -> None:
    rng = np.random.default_rng(size)
    all_pairs = np.array([(i, j) for i in range(size) for j in range(i)], np.int64).reshape(-1, 2)
    one, other = all_pairs[rng.permutation(len(all_pairs))[:num_pairs]].T
    weights = rng.random(num_pairs) + 0.1
    diagonal = np.bincount(one, weights, size) + np.bincount(other, weights, size) + 0.01
    dense = np.diag(diagonal)
    dense[one, other] = dense[other, one] = -weights

    pattern = pattern_of(size, one, other)
    factor = factorise(pattern, diagonal, -weights)

    inverse, right = np.linalg.inv(dense), rng.random(size)
    assert factor.solve(right) == pytest.approx(inverse @ right, rel=1e-9)
    assert factor.inverse_diagonal() == pytest.approx(np.diag(inverse), rel=1e-9)
    assert sorted(pattern.order.tolist()) == list(range(size))
    assert fill is None or len(pattern.rows) == fill


def test_a_hub_and_a_chain_fill_nothing() -> None:
    """Challengers that met one champion, and champions that followed each other: the entries of L are the pairs."""
    hub = pattern_of(1000, np.arange(1, 1000), np.zeros(999, np.int64))
    chain = pattern_of(1000, np.arange(1, 1000), np.arange(999))
    assert len(hub.rows) == len(chain.rows) == 999


def results_of_a_run(models: int) -> list[MatchResult]:
    """A chain of champions, each also met by failed challengers, all of them by random; and two whom nobody met."""
    rng = np.random.default_rng(1)
    found = [MatchResult("a", "b", (1, 1, -1, 0))]
    for number in range(1, models):
        other = f"m{max(0, number - int(rng.integers(1, 4)))}"
        found.append(MatchResult(f"m{number}", other, tuple(rng.choice([-1, 0, 1], 12, p=[0.4, 0.1, 0.5]).tolist())))
        if number % 5 == 0:
            found.append(MatchResult("random", f"m{number}", (-1,) * 9 + (1,)))
        if number % 7 == 0:
            found.append(MatchResult(other, f"m{number}", (1, 0)))  # the same two again, the other way round
    return found


def test_ratings_of_many_players_are_those_of_the_dense_covariance(monkeypatch: pytest.MonkeyPatch) -> None:
    results = results_of_a_run(120)
    dense = bradley_terry(results, players=["lonely"])
    monkeypatch.setattr(strength, "MOST_DENSE", 10)
    sparse = bradley_terry(results, players=["lonely"])
    assert isinstance(sparse.covariance, strength.SparseCovariance)
    assert (sparse.names, sparse.groups) == (dense.names, dense.groups)
    assert sparse.ratings == pytest.approx(dense.ratings, abs=1e-6)
    assert sparse.errors() == pytest.approx(dense.errors(), abs=1e-6) and math.isinf(sparse.errors()["lonely"])
    some = ["m3", "m50", "random"]
    assert sparse.errors_among(some) == pytest.approx(dense.errors_among(some), abs=1e-6)
    assert sparse.difference("m3", "m90") == pytest.approx(dense.difference("m3", "m90"), abs=1e-6)
    assert math.isinf(sparse.difference("m3", "a")[1])
    assert sparse.covariance_among(some) == pytest.approx(dense.covariance_among(some), rel=1e-6)
    assert sparse.anchored("random", 0.0).ratings["random"] == 0.0


def test_a_long_chain_is_one_group_and_takes_no_recursion() -> None:
    names = [f"m{number}" for number in range(20_000)]
    met = [MatchResult(one, other, (1,)) for one, other in pairwise(names)]
    assert connected_groups([*names, "x"], met) == [tuple(names), ("x",)]
