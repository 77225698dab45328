"""Choose the players of the next pair of games (one opening, both colours), and tell when enough is known.

    round-robin   the players that met least, so that in the end all have met equally often
    uncertainty   the players whose next games reduce the summed variance of the ratings most

The variance is Bradley-Terry's: with Σ the covariance of the ratings and d = e_i − e_j, a game of i and j adds Fisher
information w = p(1 − p) along d, so that Σ becomes Σ − w Σd dᵀΣ / (1 + w dᵀΣd) (Sherman & Morrison 1950). It is the
variance of ratings minus their mean, as no game says anything about a common offset. This is A-optimal design:
Chaloner & Verdinelli 1995, "Bayesian experimental design: a review".

Pure: names and numbers.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from itertools import combinations

import numpy as np

from pipeline.ratings.strength import ELO_PER_LOGIT, BradleyTerry, MatchResult, Matrix, bradley_terry

GAMES_PER_PAIR = 2
TIE = 1e-9  # relative difference below which gains are equal


def next_pair(
    players: Sequence[str],
    results: Sequence[MatchResult],
    matchmaking: str = "uncertainty",
    place: str | None = None,
    against: int = 0,
    apart: Collection[str] = (),
) -> tuple[str, str]:
    """The players of the next pair of games.

    players     at least two different ones; pairs keep this order
    results     all known results, including those of other players
    matchmaking uncertainty or round-robin
    place       one of players: only pairs with it, and only its variance counts
    against     with place: only this many opponents, those nearest in rating; 0, or while place is unrated: all
    apart       players that can't meet each other; not all players
    Ties go to the pair with the fewest games against each other, then with the fewest games, then in order of players.
    """
    fit = bradley_terry(results, players=players)
    pairs = [(i, j) for i, j in combinations(range(len(players)), 2) if not {players[i], players[j]} <= set(apart)]
    if place is not None:
        me = players.index(place)
        others = [i + j - me for i, j in pairs if me in (i, j)]
        if against and any(place in (one.one, one.other) and one.games for one in results):
            others.sort(key=lambda other: abs(fit.ratings[players[other]] - fit.ratings[place]))
            others = others[:against]
        pairs = [(i, j) for i, j in pairs if me in (i, j) and i + j - me in others]
    if matchmaking == "uncertainty":
        gains = _gains(players, fit, place)
        most = max(gains[pair] for pair in pairs)
        pairs = [pair for pair in pairs if gains[pair] >= most * (1 - TIE)]
    index = {name: i for i, name in enumerate(players)}
    met = np.zeros((len(players), len(players)), np.int64)
    for one in results:
        if one.one in index and one.other in index and one.one != one.other:
            met[index[one.one], index[one.other]] += one.games
            met[index[one.other], index[one.one]] += one.games
    i, j = min(pairs, key=lambda pair: (met[pair], met[list(pair)].sum()))
    return players[i], players[j]


def worst_error(fit: BradleyTerry, players: Sequence[str], place: str | None = None) -> float:
    """The largest error of these players in Elo (95 %, relative to their mean); with place, that player's.

    Infinite until games connect them all.
    """
    errors = fit.errors_among(players)
    return errors[place] if place is not None else max(errors.values(), default=math.inf)


def _gains(names: Sequence[str], fit: BradleyTerry, place: str | None) -> Matrix:
    """[n, n] the reduction of variance by a pair of games between row and column."""
    covariance: Matrix = fit.covariance_among(names) / ELO_PER_LOGIT**2
    logits = fit.elo[[fit.index[name] for name in names]] / ELO_PER_LOGIT
    chances = 1 / (1 + np.exp(logits[None, :] - logits[:, None]))
    information = GAMES_PER_PAIR * chances * (1 - chances)
    spread = np.diag(covariance)[:, None] + np.diag(covariance)[None, :] - 2 * covariance  # dᵀΣd
    half = covariance - covariance.mean(axis=0)  # PΣ; P subtracts the mean
    if place is None:
        squares = half.T @ half
        moved = np.diag(squares)[:, None] + np.diag(squares)[None, :] - 2 * squares  # |PΣd|²
    else:
        row = half[names.index(place)]
        moved = (row[:, None] - row[None, :]) ** 2
    return information * moved / (1 + information * spread)
