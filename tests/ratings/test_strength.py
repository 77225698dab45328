"""Ratings against hand calculations, choix, the trueskill library, and simulated players of known strength."""

import math
from itertools import combinations, pairwise

import choix
import numpy as np
import pytest
import scipy.stats
import trueskill

from pipeline.errors import UsageError
from pipeline.ratings import strength
from pipeline.ratings.strength import (
    ELO_PER_LOGIT,
    PRIOR_SD_ELO,
    BradleyTerry,
    MatchResult,
    average_opponents,
    bradley_terry,
    connected_groups,
    elo,
    parse_anchor,
    resolve_name,
    total_scores,
    true_skill,
)

FLAT = 1e7  # a prior that says nothing


def met(one, other, wins, draws=0, losses=0):
    return MatchResult(one, other, (1,) * wins + (0,) * draws + (-1,) * losses)


def simulated(strengths, games_per_pair, rng, draws=0.0):
    """All players meet all. strengths: in Elo, by name; draws: share of drawn games, for every pair."""
    found = []
    for one, other in combinations(strengths, 2):
        chance = 1 / (1 + 10 ** ((strengths[other] - strengths[one]) / 400))
        results = np.where(rng.random(games_per_pair) < chance, 1, -1)
        results[rng.random(games_per_pair) < draws] = 0
        found.append(MatchResult(one, other, tuple(results.tolist())))
    return found


# Counting


def test_tallies_and_average_opponents():
    games = [met("a", "b", 2, 1, 3), met("c", "a", 1, 0, 1), met("a", "a", 5), met("b", "c", 0)]
    found = total_scores(games)
    assert {name: (t.games, t.wins, t.draws, t.losses) for name, t in found.items()} == {
        "a": (8, 3, 1, 4), "b": (6, 3, 1, 2), "c": (2, 1, 0, 1),
    }  # fmt: skip
    average = average_opponents(games, {"a": 0.0, "b": 100.0, "c": -100.0})
    assert average == {"a": (6 * 100 - 2 * 100) / 8, "b": 0.0, "c": 0.0}


# Bradley-Terry


def test_two_players_by_hand(monkeypatch):
    monkeypatch.setattr(strength, "PRIOR_SD_ELO", FLAT)
    fit = bradley_terry([met("a", "b", 2, 2, 0)])  # 3 points to 1
    difference, error = fit.difference("a", "b")
    assert difference == pytest.approx(400 * math.log10(3), abs=1e-3)
    deviation = 1 / math.sqrt(4 * 0.75 * 0.25) * 400 / math.log(10)  # Fisher information of 4 games at p = 3/4
    assert error == pytest.approx(1.959964 * deviation, rel=1e-5)
    # Both err by half the difference around their mean.
    assert fit.errors() == pytest.approx({"a": error / 2, "b": error / 2})
    assert fit.difference("b", "a") == pytest.approx((-difference, error))
    assert fit.difference("a", "a") == (0, 0)
    assert fit.elo.sum() == pytest.approx(0, abs=0.01)


def test_a_clean_sheet_stays_finite_where_likelihood_and_prior_balance():
    fit = bradley_terry([met("a", "b", 60)])
    difference = fit.difference("a", "b")[0]
    logits = difference / ELO_PER_LOGIT
    precision = (ELO_PER_LOGIT / PRIOR_SD_ELO) ** 2
    assert 60 / (1 + math.exp(logits)) == pytest.approx(precision * logits / 2, rel=1e-6)
    assert 1225 < difference < 1240  # what the docstring of the prior says


@pytest.mark.parametrize("seed", range(4))
def test_equals_choix_with_the_same_regularisation(seed):
    rng = np.random.default_rng(seed)
    strengths = {f"p{i}": float(rng.normal(0, 300)) for i in range(7)}
    games = [one for one in simulated(strengths, 14, rng, draws=0.2) if rng.random() < 0.8]
    ours = bradley_terry(games, players=list(strengths))
    # choix knows no draws: every win counts twice, a draw once each way, and so the penalty twice too.
    index = {name: i for i, name in enumerate(strengths)}
    won = []
    for one in games:
        a, b = index[one.one], index[one.other]
        won += [(a, b)] * one.score.half_points + [(b, a)] * one.score.reversed.half_points
    alpha = (ELO_PER_LOGIT / PRIOR_SD_ELO) ** 2  # choix's penalty is alpha |x|², half of the prior's precision, twice
    theirs = choix.opt_pairwise(7, won, alpha=alpha, method="Newton-CG", tol=1e-12) * 400 / math.log(10)
    assert [ours.ratings[name] for name in strengths] == pytest.approx(theirs.tolist(), abs=0.01)


def test_equals_choix_without_regularisation(monkeypatch):
    monkeypatch.setattr(strength, "PRIOR_SD_ELO", FLAT)
    games = simulated({"a": 0.0, "b": 100.0, "c": 250.0, "d": -100.0}, 60, np.random.default_rng(3))
    won = [pair for one in games for r in one.results for pair in [(one.one, one.other)[::r]]]
    theirs = choix.ilsr_pairwise(4, [("abcd".index(a), "abcd".index(b)) for a, b in won]) * 400 / math.log(10)
    ours = bradley_terry(games).ratings
    assert [ours[name] for name in "abcd"] == pytest.approx(theirs.tolist(), abs=0.01)


@pytest.mark.parametrize(
    "games",
    [
        [met(f"p{i + 1}", f"p{i}", 200) for i in range(6)] + [met("p0", "p6", 1)],
        # Full Newton steps go past the maximum here and come back,
        [met("a", "b", 1), met("c", "b", 4443), met("c", "d", 3723), met("d", "a", 5049), met("e", "a", 5),
         met("e", "d", 123)],
        # and never come back here.
        [met("a", "b", 598, 0, 32), met("c", "b", 6202), met("d", "c", 3151), met("e", "a", 7337), met("e", "d", 4222),
         met("f", "d", 242)],
    ],
    ids=["ladder", "overshoots", "diverges"],
)  # fmt: skip
def test_extreme_results_converge(games):
    """At the maximum the slope is 0."""
    fit = bradley_terry(games)
    logits = fit.elo / ELO_PER_LOGIT
    slope = -((ELO_PER_LOGIT / PRIOR_SD_ELO) ** 2) * logits
    for one in games:
        i, j = fit.index[one.one], fit.index[one.other]
        excess = one.points - one.games / (1 + math.exp(logits[j] - logits[i]))
        slope[i] += excess
        slope[j] -= excess
    assert np.abs(slope).max() < 1e-5


def test_covariance_is_the_inverse_of_a_numerical_hessian():
    games = [met("a", "b", 3, 1, 2), met("b", "c", 4, 0, 1), met("a", "c", 5, 2, 1)]
    fit = bradley_terry(games)

    def loss(logits):
        at = dict(zip(fit.names, logits, strict=True))
        total = sum(x * x for x in logits) / 2 * (ELO_PER_LOGIT / PRIOR_SD_ELO) ** 2
        for one in games:
            gap = at[one.one] - at[one.other]
            total += one.points * math.log1p(math.exp(-gap)) + (one.games - one.points) * math.log1p(math.exp(gap))
        return total

    here, step, eye = fit.elo / ELO_PER_LOGIT, 1e-3, np.eye(3)
    hessian = np.array(
        [
            [
                sum(s * t * loss(here + step * (s * eye[i] + t * eye[j])) for s in (1, -1) for t in (1, -1))
                for j in range(3)
            ]
            for i in range(3)
        ]
    ) / (4 * step * step)
    assert fit.covariance_among(fit.names) == pytest.approx(np.linalg.inv(hessian) * ELO_PER_LOGIT**2, rel=1e-3)


def test_error_bars_cover_the_truth_as_often_as_they_say():
    rng = np.random.default_rng(0)
    strengths = {"a": -250.0, "b": -100.0, "c": 0.0, "d": 50.0, "e": 100.0, "f": 200.0}  # their mean is 0
    inside, differences, tried = 0, 0, 300
    for _ in range(tried):
        fit = bradley_terry(simulated(strengths, 20, rng))
        errors = fit.errors()
        inside += sum(abs(fit.ratings[name] - true) <= errors[name] for name, true in strengths.items())
        gap, error = fit.difference("f", "a")
        differences += abs(gap - 450) <= error
    assert 0.935 < inside / (6 * tried) < 0.97
    assert 0.915 < differences / tried < 0.98


def test_draws_make_the_bars_too_wide_never_too_narrow():
    rng = np.random.default_rng(1)
    strengths = {"a": 0.0, "b": 0.0, "c": 0.0}
    inside = 0
    for _ in range(200):
        fit = bradley_terry(simulated(strengths, 20, rng, draws=0.5))
        inside += sum(abs(fit.ratings[name]) <= error for name, error in fit.errors().items())
    assert inside / 600 > 0.97


def test_groups_that_never_met():
    games = [met("a", "b", 1, 0, 1), met("x", "y", 3, 0, 1), met("y", "z", 1, 0, 1), met("a", "z", 0)]
    fit = bradley_terry(games, players=["a", "lonely"])
    assert fit.groups == (("x", "y", "z"), ("a", "b"), ("lonely",))
    assert math.isinf(fit.difference("a", "x")[1])
    assert math.isinf(fit.errors()["lonely"])
    assert fit.ratings["x"] + fit.ratings["y"] + fit.ratings["z"] == pytest.approx(0, abs=1e-6)
    # What one group plays says nothing about the errors of another.
    alone = bradley_terry(games[:1])
    assert fit.errors()["a"] == pytest.approx(alone.errors()["a"])


def test_errors_among_some_players_are_relative_to_their_mean():
    fit = bradley_terry([met("a", "b", 30, 0, 20), met("b", "c", 5, 0, 4)])
    assert fit.errors_among(["b", "c"]) == pytest.approx(dict.fromkeys("bc", fit.difference("b", "c")[1] / 2))


def test_connected_groups_through_others():
    chain = [met("a", "b", 1), met("c", "d", 1), met("d", "b", 1)]
    assert connected_groups(["a", "b", "c", "d"], chain) == [("a", "b", "c", "d")]


def test_anchoring_moves_everybody_alike():
    fit = bradley_terry([met("a", "b", 3, 0, 1), met("b", "random", 9, 0, 1)])
    moved = fit.anchored("random", 100)
    assert moved.ratings["random"] == pytest.approx(100)
    assert moved.difference("a", "random") == pytest.approx(fit.difference("a", "random"))
    assert moved.errors() == fit.errors()


def test_the_order_of_matches_and_of_their_players_does_not_matter():
    games = simulated({"a": 0.0, "b": 80.0, "c": 200.0}, 9, np.random.default_rng(5))
    turned = [MatchResult(one.other, one.one, tuple(-result for result in one.results)) for one in games[::-1]]
    assert bradley_terry(turned).ratings == pytest.approx(bradley_terry(games).ratings, abs=1e-6)


def test_nobody():
    fit = bradley_terry([])
    assert isinstance(fit, BradleyTerry)
    assert fit.ratings == {}
    assert fit.groups == ()


# Bradley-Terry of many players, whose covariance isn't written out


def results_of_a_run(models):
    """Champions and failed challengers, every fifth of which met random; and two others who only met each other."""
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


@pytest.mark.parametrize(
    "results",
    [
        results_of_a_run(120),
        simulated({f"p{i}": 10.0 * i for i in range(30)}, 4, np.random.default_rng(2)),  # everybody met everybody
    ],
    ids=["sparse", "dense"],
)
@pytest.mark.parametrize("few_entries", [0, strength.FEW_ENTRIES])
def test_ratings_of_many_players_are_those_of_the_dense_covariance(results, few_entries, monkeypatch):
    dense = bradley_terry(results, players=["lonely"])
    monkeypatch.setattr(strength, "MAX_DENSE", 10)
    monkeypatch.setattr(strength, "FEW_ENTRIES", few_entries)
    sparse = bradley_terry(results, players=["lonely"])
    assert isinstance(sparse.inverse, strength.SparseInverse)
    assert (sparse.names, sparse.groups) == (dense.names, dense.groups)
    assert sparse.ratings == pytest.approx(dense.ratings, abs=1e-6)
    assert sparse.errors() == pytest.approx(dense.errors(), abs=1e-6) and math.isinf(sparse.errors()["lonely"])
    some = sparse.names[3:60:7]
    assert sparse.errors_among(some) == pytest.approx(dense.errors_among(some), abs=1e-6)
    one, other = sparse.names[4], sparse.names[-1]
    assert sparse.difference(one, other) == pytest.approx(dense.difference(one, other), abs=1e-6)
    assert math.isinf(sparse.difference(one, "lonely")[1])
    assert sparse.covariance_among(some) == pytest.approx(dense.covariance_among(some), rel=1e-6)
    assert sparse.anchored(one, 0.0).ratings[one] == 0.0


def test_a_long_chain_is_one_group_and_takes_no_recursion():
    names = [f"m{number}" for number in range(20_000)]
    met = [MatchResult(one, other, (1,)) for one, other in pairwise(names)]
    assert connected_groups([*names, "x"], met) == [tuple(names), ("x",)]


# Elo


def test_elo_by_hand():
    """K 32, start 1500, the mean score of a match."""
    games = [met("a", "b", 3, 0, 1), met("b", "c", 0, 2, 0), met("a", "c", 0, 0, 7)]
    after_first = {"a": 1500 + 32 * (0.75 - 0.5), "b": 1500 - 32 * 0.25}
    expected = 1 / (1 + 10 ** ((1500 - 1492) / 400))
    b, c = 1492 + 32 * (0.5 - expected), 1500 - 32 * (0.5 - expected)
    expected = 1 / (1 + 10 ** ((c - 1508) / 400))
    assert after_first == {"a": 1508, "b": 1492}
    assert elo(games) == pytest.approx({"a": 1508 - 32 * expected, "b": b, "c": c + 32 * expected})
    assert sum(elo(games).values()) == pytest.approx(4500)


def test_elo_counts_only_the_games_against_that_opponent():
    """What "a" does against "c" must not move "b"."""
    before = elo([met("a", "b", 5, 0, 5)])
    after = elo([met("a", "b", 5, 0, 5), met("a", "c", 9, 0, 0)])
    assert before["b"] == after["b"] == 1500
    assert after["a"] - 1500 == pytest.approx(16)


def test_elo_of_a_game_against_oneself():
    assert elo([met("a", "a", 3)]) == {}


# TrueSkill


EXACT = trueskill.TrueSkill(backend=(scipy.stats.norm.cdf, scipy.stats.norm.pdf, scipy.stats.norm.ppf))
"""The library with a normal distribution of more than its own seven digits."""


def test_true_skill_is_the_library_game_by_game():
    games = [MatchResult("a", "b", (1, 0, -1, -1)), MatchResult("c", "a", (0, 1))]
    a, b, c = (EXACT.create_rating() for _ in range(3))
    a, b = trueskill.rate_1vs1(a, b, env=EXACT)
    a, b = trueskill.rate_1vs1(a, b, drawn=True, env=EXACT)
    for _ in range(2):
        b, a = trueskill.rate_1vs1(b, a, env=EXACT)
    c, a = trueskill.rate_1vs1(c, a, drawn=True, env=EXACT)
    c, a = trueskill.rate_1vs1(c, a, env=EXACT)
    found = true_skill(games)
    for name, rating in (("a", a), ("b", b), ("c", c)):
        assert (found[name].mu, found[name].sigma) == pytest.approx((rating.mu, rating.sigma))


@pytest.mark.parametrize("seed", range(5))
def test_true_skill_is_the_library_over_a_history(seed):
    """A thousand games each, upsets of certain winners among them."""
    rng = np.random.default_rng(seed)
    names = "abcdefgh"
    rated = {name: EXACT.create_rating() for name in names}
    games = []
    for _ in range(1000):
        one, other = rng.choice(list(names), 2, replace=False).tolist()
        better = names.index(one) < names.index(other)
        result = int(rng.choice([1 if better else -1, 0, -1 if better else 1], p=[0.9, 0.08, 0.02]))
        games.append(MatchResult(one, other, (result,)))
        if result >= 0:
            rated[one], rated[other] = trueskill.rate_1vs1(rated[one], rated[other], drawn=result == 0, env=EXACT)
        else:
            rated[other], rated[one] = trueskill.rate_1vs1(rated[other], rated[one], env=EXACT)
    found = true_skill(games)
    for name, rating in rated.items():
        assert (found[name].mu, found[name].sigma) == pytest.approx((rating.mu, rating.sigma), rel=1e-9)


def test_true_skill_when_a_certain_winner_loses_or_draws():
    certain = [met("strong", "weak", 2000)]
    for result in (-1, 0):
        before, after = true_skill(certain), true_skill([*certain, *[MatchResult("strong", "weak", (result,))] * 3])
        assert before["weak"].mu < after["weak"].mu < after["strong"].mu < before["strong"].mu
        assert all(0 < rating.sigma < 25 / 3 for rating in after.values())


def test_true_skill_first_win_is_the_published_one():
    """Equal newcomers, one win: 29.396, 7.171 against 20.604, 7.171 (documentation of the trueskill library)."""
    found = true_skill([met("a", "b", 1)])
    assert (found["a"].mu, found["b"].mu) == pytest.approx((29.396, 20.604), abs=1e-3)
    assert found["a"].sigma == pytest.approx(7.171, abs=1e-3)


def test_a_new_model_inherits_from_its_parent():
    first = [met("parent", "random", 8, 0, 2)]
    parent = true_skill(first)["parent"]
    child_lost = [*first, MatchResult("child", "other", (-1,))]
    start = trueskill.Rating(parent.mu, parent.sigma)
    _, expected = trueskill.rate_1vs1(trueskill.Rating(), start)
    found = true_skill(child_lost, {"child": ["unknown", "parent"]})["child"]
    assert (found.mu, found.sigma) == pytest.approx((expected.mu, expected.sigma))
    assert true_skill(child_lost)["child"].mu < found.mu
    # A parent that is first met later isn't known yet.
    assert true_skill(child_lost[::-1], {"child": ["parent"]})["child"] == true_skill(child_lost)["child"]


# Names


def test_resolve_name():
    games = {"000001-a@8": 10, "000001-a@100": 20, "random": 5, "000001-a@8-h3": 40, "000002-b@8-h3": 40}
    assert resolve_name("000001-a", games) == "000001-a@100"
    assert resolve_name("000001-a@8", games) == "000001-a@8"
    assert resolve_name("random", games) == "random"
    assert resolve_name("000001", games) is None
    assert resolve_name("000002-b", games) is None and resolve_name("000002-b@8-h3", games) == "000002-b@8-h3"


def test_parse_anchor():
    assert parse_anchor("random") == ("random", 0.0)
    assert parse_anchor("000001-a@8=1500.5") == ("000001-a@8", 1500.5)
    for text in ("", "=5", "a=", "a=x", "a=nan", "a=inf"):
        with pytest.raises(UsageError, match="NAME=ELO"):
            parse_anchor(text)
