"""Who plays next: counts, the information gained against a plain calculation, and players of known strength."""

import math
from collections import Counter
from itertools import combinations

import numpy as np
import pytest

from pipeline.ratings.matchmaking import next_pair, worst_error
from pipeline.ratings.strength import ELO_PER_LOGIT, PRIOR_SD_ELO, MatchResult, bradley_terry


def met(one, other, wins, draws=0, losses=0):
    return MatchResult(one, other, (1,) * wins + (0,) * draws + (-1,) * losses)


def play(strengths, games, matchmaking, seed, known=(), **options):
    """A tournament of simulated players, two pairs of games at a time; the results, those known before included."""
    rng = np.random.default_rng(seed)
    found = list(known)
    for _ in range(0, games, 4):
        one, other = next_pair(list(strengths), found, matchmaking, **options)
        chance = 1 / (1 + 10 ** ((strengths[other] - strengths[one]) / 400))
        found.append(MatchResult(one, other, tuple(np.where(rng.random(4) < chance, 1, -1).tolist())))
    return found


def in_a_row(players, known, num_pairs, matchmaking, **options):
    """The next pairs, if both games of each are drawn."""
    found, pairs = list(known), []
    for _ in range(num_pairs):
        pairs.append(next_pair(players, found, matchmaking, **options))
        found.append(met(*pairs[-1], 0, 2))
    return pairs


# Round-robin


def test_round_robin_plays_all_pairs_equally():
    players = list("abcde")
    pairs = in_a_row(players, [], 30, "round-robin")
    assert Counter(map(frozenset, pairs)) == {frozenset(pair): 3 for pair in combinations(players, 2)}
    for through in range(2, 30, 2):  # and players alike on the way, as far as five players allow
        counts = Counter(name for pair in pairs[:through] for name in pair)
        assert max(counts.values()) - min(counts[name] for name in players) <= 2


def test_round_robin_makes_up_for_what_is_missing():
    known = [met("a", "b", 2), met("c", "b", 1, 0, 1), met("a", "c", 4), met("a", "d", 2)]
    pairs = in_a_row(list("abcd"), known, 4, "round-robin")
    assert set(map(frozenset, pairs[:2])) == {frozenset("bd"), frozenset("cd")}
    assert frozenset("ac") not in set(map(frozenset, pairs))


@pytest.mark.parametrize("matchmaking", ["round-robin", "uncertainty"])
def test_players_that_are_kept_apart_never_meet(matchmaking):
    pairs = in_a_row(list("abcd"), [], 20, matchmaking, apart="bcd")
    assert {"".join(pair) for pair in pairs} == {"ab", "ac", "ad"}
    # For a place among few, the nearest are sought among those that it can meet.
    known = [met("b", "c", 0, 8), met("b", "a", 7, 0, 1), met("b", "d", 8)]
    assert next_pair(list("abcd"), known, matchmaking, place="b", against=1, apart="bcd") == ("a", "b")


# Uncertainty


def plain_gain(names, results, pair, place=None):
    """By how much two games of a pair shrink the variance that counts: the whole matrix inverted before and after.

    results may have players beyond names.
    """
    fit = bradley_terry(results, players=names)
    everybody = list(fit.names)
    eye = np.eye(len(everybody))
    project = eye[[everybody.index(name) for name in names]]
    project = project - project.mean(axis=0)

    def variance(extra):
        precision = eye * (ELO_PER_LOGIT / PRIOR_SD_ELO) ** 2
        for one, other, games in [(e.one, e.other, e.games) for e in results] + [(*two, 2) for two in extra]:
            p = 1 / (1 + math.exp(-(fit.ratings[one] - fit.ratings[other]) / ELO_PER_LOGIT))
            d = eye[everybody.index(one)] - eye[everybody.index(other)]
            precision += games * p * (1 - p) * np.outer(d, d)
        variances = np.diag(project @ np.linalg.inv(precision) @ project.T)
        return variances.sum() if place is None else variances[names.index(place)]

    return variance([]) - variance([pair])


@pytest.mark.parametrize("place", [None, "a", "d"])
@pytest.mark.parametrize("seed", range(12))
def test_uncertainty_takes_the_pairs_that_tell_most(seed, place):
    """Each of five choices in a row, among five players who met little, in a world of seven."""
    rng = np.random.default_rng(seed)
    names, known = list("abcde"), []
    for one, other in combinations("abcdexy", 2):
        if rng.random() < 0.5:
            known.append(met(one, other, *rng.integers(0, 4, 3).tolist()))
    pairs = [pair for pair in combinations(names, 2) if place is None or place in pair]
    for _ in range(5):
        chosen = next_pair(names, known, place=place)
        gains = {pair: plain_gain(names, known, pair, place) for pair in pairs}
        assert gains[chosen] == pytest.approx(max(gains.values()), rel=1e-6), (chosen, gains)
        known.append(met(*chosen, *rng.multinomial(2, [0.4, 0.2, 0.4]).tolist()))


def test_newcomers_meet_each_other_then_link_up():
    pairs = in_a_row(list("abcd"), [], 3, "uncertainty")
    assert [set(pair) for pair in pairs[:2]] == [{"a", "b"}, {"c", "d"}]
    assert len(set(pairs[2]) & {"a", "b"}) == 1


def test_pairs_whose_result_is_foregone_tell_little():
    """a and b are equal, z is hopeless: more games of a and b say more than games against z."""
    known = [met("a", "b", 10, 0, 10), met("a", "z", 40), met("b", "z", 39, 0, 1), met("y", "z", 10, 0, 10)]
    assert set(next_pair(["a", "b", "y", "z"], known)) not in ({"a", "z"}, {"b", "z"})


def test_ranking_of_known_strengths_comes_out():
    strengths = {name: 150.0 * i for i, name in enumerate("cafbed")}
    for matchmaking in ("round-robin", "uncertainty"):
        fit = bradley_terry(play(strengths, 900, matchmaking, seed=2))
        assert sorted(strengths, key=lambda name: fit.ratings[name]) == list(strengths), matchmaking


def test_uncertainty_needs_fewer_games_than_round_robin_on_a_ladder():
    """Eight players, 200 Elo between neighbours. Over 40 seeds: 192 games leave 74 Elo of error and a worst bar of 214
    where round-robin leaves 166 and 363, and needs some 440 and 350 games to get there.
    """
    strengths = {f"p{i}": 200.0 * i for i in range(8)}
    truth = np.array(list(strengths.values()))

    def errors(matchmaking, games):
        """(root mean square distance from the truth, mean worst error bar)"""
        squares, bars = [], []
        for seed in range(10):
            fit = bradley_terry(play(strengths, games, matchmaking, seed), players=list(strengths))
            estimate = np.array([fit.ratings[name] for name in strengths])
            squares.append(((estimate - estimate.mean() - truth + truth.mean()) ** 2).mean())
            bars.append(worst_error(fit, list(strengths)))
        return math.sqrt(np.mean(squares)), float(np.mean(bars))

    clever, plain, plain_longer = errors("uncertainty", 192), errors("round-robin", 192), errors("round-robin", 288)
    assert clever[0] < 0.7 * plain[0]
    assert clever[1] < 0.8 * plain[1]
    assert clever[0] < plain_longer[0]
    assert clever[1] < plain_longer[1]


def test_error_bars_stay_honest_when_the_results_choose_the_pairs():
    strengths = {"a": -300.0, "b": -100.0, "c": 0.0, "d": 150.0, "e": 250.0}
    inside = 0
    for seed in range(60):
        fit = bradley_terry(play(strengths, 160, "uncertainty", seed))
        inside += sum(abs(fit.ratings[name] - strengths[name]) <= error for name, error in fit.errors().items())
    assert 0.91 < inside / 300 < 0.99


# Placing one


def test_placing_asks_only_for_the_newcomer_and_those_near_it():
    strengths = {f"p{i}": 150.0 * i for i in range(8)}
    known = play(strengths, 600, "round-robin", seed=1)
    strengths["new"] = 520.0
    everybody = play(strengths, 80, "uncertainty", seed=2, known=known, place="new")[len(known) :]
    assert all("new" in (one.one, one.other) for one in everybody)
    before = [*known, *everybody]
    fit = bradley_terry(before)
    near = sorted((f"p{i}" for i in range(8)), key=lambda name: abs(fit.ratings[name] - fit.ratings["new"]))[:3]
    for matchmaking in ("uncertainty", "round-robin"):
        pairs = in_a_row(list(strengths), before, 6, matchmaking, place="new", against=3)
        assert {name for pair in pairs for name in pair} <= {"new", *near}
        assert all("new" in pair for pair in pairs)
    gap = fit.ratings["new"] - np.mean([fit.ratings[f"p{i}"] for i in range(8)])
    assert abs(gap - (520 - 525)) < 150
    assert worst_error(fit, list(strengths), place="new") == fit.errors_among(list(strengths))["new"]


def test_an_unrated_newcomer_may_meet_anybody():
    players = [f"p{i}" for i in range(6)]
    for played_least in players:
        others = [name for name in players if name != played_least]
        known = [met(one, other, 1, 0, 3) for one, other in combinations(others, 2)]
        pair = next_pair([*players, "new"], known, "round-robin", place="new", against=2)
        assert set(pair) == {"new", played_least}


# When it is enough


def test_worst_error():
    games = [met("a", "b", 5, 0, 5), met("b", "c", 5, 0, 5)]
    fit = bradley_terry([*games, met("x", "y", 1)])
    errors = fit.errors_among(["a", "b", "c"])
    assert worst_error(fit, ["a", "b", "c"]) == max(errors.values()) == errors["a"]
    assert math.isinf(worst_error(fit, ["a", "b", "x"]))
    assert math.isinf(worst_error(bradley_terry([], players=["a", "b"]), ["a", "b"]))
    more = bradley_terry(games * 4)
    assert worst_error(more, ["a", "b", "c"]) == pytest.approx(errors["a"] / 2, rel=0.02)


def test_too_few_players():
    with pytest.raises(ValueError, match="empty"):
        next_pair(["a"], [])
