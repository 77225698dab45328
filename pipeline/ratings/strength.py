"""Ratings of players from the results of their games: Bradley-Terry with error bars, Elo, TrueSkill.

A *match result* has two names and one result per game, seen by the first player. Ratings are in Elo: 400 points are
odds of 10 to 1. TrueSkill has its own scale.

    bradley_terry  maximum a posteriori over all games, in any order
    elo            match by match in order of time
    true_skill     game by game in order of time, by the equations of TrueSkill

Pure: names and numbers. Games of a player against itself are left out everywhere.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import NormalDist
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import trueskill
from numpy.typing import NDArray

from pipeline.errors import UsageError
from pipeline.matches.statistics import Z_95, Score, share_of_elo

if TYPE_CHECKING:
    from scipy.sparse.linalg import SuperLU

Matrix = NDArray[np.float64]
Ints = NDArray[np.int64]

ELO_PER_LOGIT = 400 / math.log(10)
PRIOR_SD_ELO = 1500.0
"""Standard deviation of the prior on a rating, around the mean of all. Random and strong play are about 3,000 Elo apart
on a small board, so a pool's players lie within about one standard deviation. The prior is weak: at one standard
deviation it weighs as much as 0.12 points of a player's score. It rates 60 wins of 60 games at +1,230, not infinity."""
K_FACTOR = 32.0
ELO_START = 1500.0
MAX_NEWTON_STEPS = 100
MAX_DENSE = 1_000
"""The most players with a dense covariance. For more, only the sparse curvature is factorised: it has an entry for each
pair that met, the dense inverse one for each pair of players."""
FEW_ENTRIES = 32
"""Entries of L per player up to which the diagonal of the inverse is computed from L, in Python, instead of column by
column. Most runs have fewer than ten."""
BLOCK_SIZE = 2**17
"""Numbers in a block of columns of that inverse, which fits a processor's cache."""


@dataclass(frozen=True)
class MatchResult:
    """The games of one match. results: of `one`, in the order of the games: +1 won, 0 drawn, −1 lost."""

    one: str
    other: str
    results: tuple[int, ...]

    @cached_property
    def score(self) -> Score:
        """The score of `one`."""
        return Score.of(self.results)

    @property
    def games(self) -> int:
        return len(self.results)

    @property
    def points(self) -> float:
        """The points of `one`; a draw counts 1/2."""
        return self.score.half_points / 2


def total_scores(results: Sequence[MatchResult]) -> dict[str, Score]:
    """Each player's score against all others, in order of appearance; only players with games."""
    found: dict[str, Score] = {}
    for met in _between_two(results):
        for name, score in ((met.one, met.score), (met.other, met.score.reversed)):
            found[name] = found.get(name, Score()) + score
    return found


def average_opponents(results: Sequence[MatchResult], ratings: Mapping[str, float]) -> dict[str, float]:
    """The mean rating of each player's opponents, weighted by games."""
    sums: dict[str, float] = {}
    for met in _between_two(results):
        for name, opponent in ((met.one, met.other), (met.other, met.one)):
            sums[name] = sums.get(name, 0.0) + met.games * ratings[opponent]
    return {name: sums[name] / score.games for name, score in total_scores(results).items()}


def _between_two(results: Sequence[MatchResult]) -> list[MatchResult]:
    return [met for met in results if met.games and met.one != met.other]


# Bradley-Terry


@dataclass(frozen=True)
class BradleyTerry:
    """Strengths of n players.

    names    in the order of the arrays
    elo      [n] ratings, maximum a posteriori; the mean of every group is 0 before anchoring
    inverse  of the curvature of the log posterior at the maximum, in logits: the ratings' covariance [n, n]. Only the
             prior determines the common offset of a group, so use differences
    groups   of players connected by games, the largest first; ratings of different groups can't be compared
    """

    names: tuple[str, ...]
    elo: Matrix
    inverse: Matrix | SparseInverse
    groups: tuple[tuple[str, ...], ...]

    @cached_property
    def index(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.names)}

    @property
    def ratings(self) -> dict[str, float]:
        return dict(zip(self.names, self.elo.tolist(), strict=True))

    def errors(self) -> dict[str, float]:
        """Half the 95 % interval of each rating, relative to the mean of its group. Infinite for a group of one.

        They aren't errors of the distance to the anchor; difference() has the error of a distance.
        """
        return {name: error for group in self.groups for name, error in self.errors_among(group).items()}

    def errors_among(self, names: Sequence[str]) -> dict[str, float]:
        """The same relative to the mean of these players; infinite for a single player, or if not all are connected."""
        if len(names) < 2 or not any(set(names) <= set(group) for group in self.groups):
            return dict.fromkeys(names, math.inf)
        rows = [self.index[name] for name in names]
        mean = np.zeros(len(self.names))
        mean[rows] = 1 / len(rows)
        with_mean = self.inverse @ mean
        own = self.inverse.diagonal(rows) if isinstance(self.inverse, SparseInverse) else self.inverse[rows, rows]
        variances = own - 2 * with_mean[rows] + mean @ with_mean
        errors = Z_95 * ELO_PER_LOGIT * np.sqrt(np.maximum(variances, 0.0))
        return dict(zip(names, errors.tolist(), strict=True))

    def difference(self, one: str, other: str) -> tuple[float, float]:
        """(Elo of one minus that of other, half its 95 % interval); the error is infinite between groups."""
        if one == other:
            return 0.0, 0.0
        apart = float(self.elo[self.index[one]] - self.elo[self.index[other]])
        return apart, 2 * self.errors_among([one, other])[one]  # both are equally far from their mean

    def covariance_among(self, names: Sequence[str]) -> Matrix:
        """[k, k] the covariance of these players' ratings, in Elo²."""
        rows = [self.index[name] for name in names]
        if not isinstance(self.inverse, SparseInverse):
            return ELO_PER_LOGIT**2 * self.inverse[np.ix_(rows, rows)]
        units = np.zeros((len(self.names), len(rows)), order="F")
        units[rows, np.arange(len(rows))] = 1
        return ELO_PER_LOGIT**2 * (self.inverse @ units)[rows]

    def anchored(self, name: str, elo: float) -> BradleyTerry:
        """The ratings shifted so that this player has this Elo."""
        return replace(self, elo=self.elo + (elo - self.elo[self.index[name]]))


@dataclass(frozen=True)
class SparseInverse:
    """The inverse of a factorised [n, n] matrix; never written out."""

    factors: SuperLU

    def __matmul__(self, columns: Matrix) -> Matrix:
        """[n] or [n, k] → the same shape."""
        return self.factors.solve(columns)

    def diagonal(self, rows: Sequence[int]) -> Matrix:
        """[k] these entries of the diagonal."""
        if self.factors.L.nnz <= FEW_ENTRIES * self.factors.shape[0]:
            return self._whole_diagonal[rows]
        size = self.factors.shape[0]
        width = max(1, BLOCK_SIZE // size)
        found = np.empty(len(rows))
        for start in range(0, len(rows), width):
            block = rows[start : start + width]
            at = np.arange(len(block))
            units = np.zeros((size, len(block)), order="F")
            units[block, at] = 1
            found[start : start + width] = self.factors.solve(units)[block, at]
        return found

    @cached_property
    def _whole_diagonal(self) -> Matrix:
        """[n], by the entries of the inverse where L of LDLᵀ has entries: Takahashi, Fagan & Chen 1973."""
        lower, pivots = self.factors.L, self.factors.U.diagonal().tolist()
        starts, places, values = lower.indptr.tolist(), lower.indices.tolist(), lower.data.tolist()
        inverse: list[dict[int, float]] = [{} for _ in pivots]  # by column: its entries from the diagonal down
        for k in reversed(range(len(pivots))):
            column = range(starts[k], starts[k + 1])
            below = [(places[at], values[at]) for at in column if places[at] != k]
            found = {i: -sum(value * inverse[min(i, j)][max(i, j)] for j, value in below) for i, _ in below}
            inverse[k] = {**found, k: 1 / pivots[k] - sum(value * found[i] for i, value in below)}
        return np.array([column[k] for k, column in enumerate(inverse)])[self.factors.perm_c]


def bradley_terry(results: Sequence[MatchResult], players: Sequence[str] = ()) -> BradleyTerry:
    """The maximum a posteriori ratings: P(i beats j) = 1 / (1 + 10^((Rj − Ri)/400)), a draw is half a win.

    players: to be rated even without a game, by the prior alone.
    The error bars come from the curvature at the maximum (the inverse Hessian), an approximation: if one of two players
    won nearly all games, the true interval is longer on the side away from the other; draws make the bars too wide.
    Source: Bradley & Terry 1952; Newton's method and the error bars as in logistic regression, Bishop 2006, 4.3.3, 4.5.
    Axes: E pairs of players that met, i < j.
    """
    met = _between_two(results)
    names = tuple(dict.fromkeys([*players, *(name for one in met for name in (one.one, one.other))]))
    i, j, won, games = _by_pair(met, {name: number for number, name in enumerate(names)})
    size, precision = len(names), (ELO_PER_LOGIT / PRIOR_SD_ELO) ** 2

    def log_posterior(logits: Matrix) -> float:
        apart = logits[i] - logits[j]
        losses = won * np.logaddexp(0, -apart) + (games - won) * np.logaddexp(0, apart)
        return float(-losses.sum() - precision * (logits @ logits) / 2)

    def slope(logits: Matrix) -> Matrix:
        surplus = won - games * _logistic(logits[i] - logits[j])
        return np.bincount(i, surplus, size) - np.bincount(j, surplus, size) - precision * logits

    def inverse_curvature(logits: Matrix) -> Matrix | SparseInverse:
        """Of the negative Hessian of the log posterior: the games' Fisher information and the prior's precision."""
        chances = _logistic(logits[i] - logits[j])
        information = games * chances * (1 - chances)
        diagonal = np.bincount(i, information, size) + np.bincount(j, information, size) + precision
        return _inverse(diagonal.astype(np.float64), i, j, -information)

    # Newton's method. The log posterior is strictly concave.
    logits = np.zeros(size)
    best = log_posterior(logits)
    for _ in range(MAX_NEWTON_STEPS):
        step = inverse_curvature(logits) @ slope(logits)
        # Far from the maximum a full step may overshoot to where the likelihood is flat: halve it until it improves.
        while (value := log_posterior(logits + step)) < best and np.abs(step).max() > 1e-12:
            step = step / 2
        if value >= best:
            logits, best = logits + step, value
        if np.abs(step).max(initial=0.0) < 1e-9:
            break
    groups = tuple(connected_groups(names, met))
    return BradleyTerry(names, logits * ELO_PER_LOGIT, inverse_curvature(logits), groups)


def _by_pair(met: Sequence[MatchResult], index: Mapping[str, int]) -> tuple[Ints, Ints, Matrix, Matrix]:
    """[E] (i, j, the points of i against j, their games)."""
    totals: dict[tuple[int, int], tuple[float, int]] = {}
    for match in met:
        one, other, points = index[match.one], index[match.other], match.points
        if one > other:
            one, other, points = other, one, match.games - points
        before = totals.get((one, other), (0.0, 0))
        totals[one, other] = before[0] + points, before[1] + match.games
    pairs = np.array(list(totals), np.int64).reshape(-1, 2)
    sums = np.array(list(totals.values()), np.float64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1], sums[:, 0], sums[:, 1]


def _inverse(diagonal: Matrix, i: Ints, j: Ints, entries: Matrix) -> Matrix | SparseInverse:
    """Of the symmetric positive definite matrix with this diagonal [n], and entries [E] at (i, j) and (j, i)."""
    size = len(diagonal)
    if size <= MAX_DENSE:
        dense = np.diag(diagonal)
        dense[i, j] = dense[j, i] = entries
        return np.linalg.inv(dense).astype(np.float64)
    from scipy.sparse import coo_array  # slow to import, and rarely needed
    from scipy.sparse.linalg import splu

    every = np.arange(size)
    values, places = np.concatenate([diagonal, entries, entries]), (np.r_[every, i, j], np.r_[every, j, i])
    matrix = coo_array((values, places), shape=(size, size)).tocsc()
    # Positive definite, so no pivoting is needed; it would undo the order that keeps the factors sparse.
    options = {"SymmetricMode": True}
    return SparseInverse(splu(matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options))


def _logistic(x: Matrix) -> Matrix:
    return np.exp(-np.logaddexp(0, -x))


def connected_groups(names: Sequence[str], results: Sequence[MatchResult]) -> list[tuple[str, ...]]:
    """Groups of players that met, directly or through others; the largest first, else in the order of names."""
    group_of = {name: [name] for name in names}
    for met in results:
        fewer, more = sorted((group_of[met.one], group_of[met.other]), key=len)
        if fewer is not more:
            more += fewer
            group_of.update(dict.fromkeys(fewer, more))
    found: dict[int, list[str]] = {}
    for name in dict.fromkeys(names):
        found.setdefault(id(group_of[name]), []).append(name)
    return sorted(map(tuple, found.values()), key=lambda group: -len(group))


# In order of time


def elo_gain(one: float, other: float, share: float) -> float:
    """The change of a player's Elo after a match with this share of the points; the opponent's is the negative."""
    return K_FACTOR * (share - share_of_elo(one - other))


def elo(results: Sequence[MatchResult]) -> dict[str, float]:
    """Elo after all matches, which must be in order of time.

    A match updates both players once: R′ = R + K(S − E), E = 1/(1 + 10^((Rb − Ra)/400)), S the mean score of its games.
    """
    ratings: dict[str, float] = {}
    for met in _between_two(results):
        one, other = ratings.get(met.one, ELO_START), ratings.get(met.other, ELO_START)
        gain = elo_gain(one, other, met.points / met.games)
        ratings[met.one], ratings[met.other] = one + gain, other - gain
    return ratings


def true_skill(
    results: Sequence[MatchResult], parents: Mapping[str, Sequence[str]] = MappingProxyType({})
) -> dict[str, trueskill.Rating]:
    """TrueSkill after all games; matches must be in order of time.

    parents: the models that a model was trained from. It starts from mu and sigma of the first that is rated when it
    first plays; all other players start from the library's values.
    Uses the library's settings: beta 25/6, tau 25/300, one draw in ten between equals. For two players its messages
    have a closed form, which is a hundred times as fast, here with full precision instead of seven digits.
    Source: Herbrich, Minka & Graepel 2006; the closed form as in Moser 2010, "The Math Behind TrueSkill".
    """
    library = trueskill.TrueSkill()
    newcomer = (library.mu, library.sigma**2)
    margin = NormalDist().inv_cdf((1 + library.draw_probability) / 2) * math.sqrt(2) * library.beta
    drift, noise = library.tau**2, 2 * library.beta**2
    found: dict[str, tuple[float, float]] = {}  # mu, sigma²

    def known(name: str) -> tuple[float, float]:
        if name not in found:
            parent = next((one for one in parents.get(name, ()) if one in found and one != name), None)
            found[name] = found[parent] if parent is not None else newcomer
        return found[name]

    for met in _between_two(results):
        (mu, variance), (other_mu, other_variance) = known(met.one), known(met.other)
        for result in met.results:
            variance, other_variance = variance + drift, other_variance + drift
            total = variance + other_variance + noise
            scale = math.sqrt(total)
            if result == 0:
                v, w = _truncation_drawn((mu - other_mu) / scale, margin / scale)
            else:
                v, w = _truncation_won((result * (mu - other_mu) - margin) / scale)
                v *= result
            mu, other_mu = mu + variance / scale * v, other_mu - other_variance / scale * v
            variance *= 1 - variance / total * w
            other_variance *= 1 - other_variance / total * w
        found[met.one], found[met.other] = (mu, variance), (other_mu, other_variance)
    return {name: trueskill.Rating(mu, math.sqrt(variance)) for name, (mu, variance) in found.items()}


def _truncation_won(x: float) -> tuple[float, float]:
    """(V, W): by how much mean and variance of a standard normal change if truncated to values above −x."""
    chance = _normal_cdf(x)
    if chance == 0:  # in the far tail all mass lies at −x
        return -x, 1.0
    v = _normal_density(x) / chance
    return v, min(max(v * (v + x), 0.0), 1.0)  # clipped, as both factors are rounded in the tail


def _truncation_drawn(t: float, margin: float) -> tuple[float, float]:
    """The same if truncated to values within the margin; t: the mean."""
    high, low = margin - abs(t), -margin - abs(t)
    chance = _normal_cdf(high) - _normal_cdf(low)
    if chance == 0:
        return math.copysign(1, t) * high, 1.0
    density_high, density_low = _normal_density(high), _normal_density(low)
    v = (density_low - density_high) / chance
    w = v * v + (high * density_high - low * density_low) / chance
    return math.copysign(1, t) * v, min(max(w, 0.0), 1.0)


def _normal_cdf(x: float) -> float:
    return 0.5 * math.erfc(-x * math.sqrt(0.5))


def _normal_density(x: float) -> float:
    return math.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)


# Names


def resolve_name(name: str, games: Mapping[str, int]) -> str | None:
    """The rated player of a name: itself, or the ``NAME@READOUTS`` with the most games; None: unrated.

    games: of every rated player. A model that takes handicap stones, ``NAME@READOUTS-h3``, is another player.
    """
    if name in games:
        return name
    versions = [one for one in games if re.fullmatch(re.escape(name) + r"@\d+", one)]
    return max(versions, key=lambda one: games[one], default=None)


def parse_anchor(text: str) -> tuple[str, float]:
    """Parse ``NAME`` or ``NAME=ELO`` into (name, Elo); Elo is 0 by default. Raises UsageError."""
    name, equals, number = text.partition("=")
    try:
        value = float(number) if equals else 0.0
    except ValueError:
        value = math.nan
    if not name or not math.isfinite(value):
        raise UsageError(f"--anchor {text!r}: wanted NAME or NAME=ELO, e.g. random=0")
    return name, value
