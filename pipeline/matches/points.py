"""Points in a match whose games count more than 1: their statistics and the promotion condition.

The unit of observation is a whole pair: two games with the same luck and the players' sides swapped. A pair's value x
is the challenger's points per game in it. Pairs are independent. All points are the challenger's. Axes: N whole pairs.

The promotion condition is statistics.derived_threshold() with the observed variance instead of the known one: the mean
must be z = DEVIATIONS standard errors above 0,

    mean ≥ z·s/√N,  s² = Σ (x − mean)² / (N − 1),  which is  S ≥ 0 and S²·(N − 1 + z²) ≥ z²·N·Q

with S = Σ x and Q = Σ x². Between equals, x and −x are equally likely even if the dice favour a side, as swapping the
players swaps the games. So, given all |x|, the signs are fair coins, and P(S ≥ t·√Q) ≤ exp(−t²/2) for *any*
distribution of points (Hoeffding 1963), where t = z·√(N / (N − 1 + z²)). It is also at most 4.47 times the normal tail
beyond t (Pinelis 1994, for this very statistic). For many pairs it is the normal tail itself, 2.3 %.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.matches.statistics import DEVIATIONS, Z_95
from pipeline.run.matches import MatchGame

LEAST_PAIRS = 8  # among fewer pairs, equal values by luck alone would show no variance


@dataclass(frozen=True)
class PairPoints:
    """The sums over N whole pairs. total: Σ of points per game; squares: Σ of their squares."""

    pairs: int = 0
    total: float = 0.0
    squares: float = 0.0

    @staticmethod
    def of(points: Iterable[float]) -> PairPoints:
        """points [N]: the challenger's points per game in each pair."""
        known = list(points)
        return PairPoints(len(known), math.fsum(known), math.fsum(one * one for one in known))

    @property
    def mean(self) -> float:
        """Points per game."""
        return self.total / self.pairs if self.pairs else 0.0

    @property
    def deviation(self) -> float:
        """The standard deviation of a pair's points per game; infinite for fewer than two pairs."""
        if self.pairs < 2:
            return math.inf
        return math.sqrt(max(0.0, self.squares - self.total**2 / self.pairs) / (self.pairs - 1))

    @property
    def error(self) -> float:
        """The standard error of the mean."""
        return self.deviation / math.sqrt(self.pairs) if self.pairs else math.inf

    def interval(self, z: float = Z_95) -> tuple[float, float]:
        """(low, high) of the true mean, ± z standard errors."""
        return self.mean - z * self.error, self.mean + z * self.error


def pair_points(games: Iterable[MatchGame], num_pairs: int, excluded: Collection[int] = ()) -> list[float | None]:
    """[num_pairs] the challenger's points per game in games 2k and 2k + 1; None: one of them is missing or excluded.

    excluded: numbers of games.
    """
    points = {game.index: game.challenger_result for game in games if game.index not in excluded}
    pairs = ((points.get(first), points.get(first + 1)) for first in range(0, 2 * num_pairs, 2))
    return [None if one is None or other is None else (one + other) / 2 for one, other in pairs]


def passes(found: PairPoints, threshold: float | None = None) -> bool:
    """Whether the points reach the threshold, in points per game; None: the derived one of the module docstring."""
    if threshold is not None:
        return found.pairs > 0 and found.mean >= threshold
    if found.pairs < LEAST_PAIRS or found.total <= 0:
        return False
    n, z = found.pairs, DEVIATIONS
    return found.total**2 * (n - 1 + z * z) >= z * z * n * found.squares


def needed(found: PairPoints, threshold: float | None = None) -> float | None:
    """The points per game that would pass with the variance observed so far; None if there is none yet."""
    if threshold is not None:
        return threshold
    return DEVIATIONS * found.error if math.isfinite(found.error) else None


def is_decided(found: PairPoints, left: int, most: float, threshold: float | None = None) -> bool:
    """Whether `left` more pairs, each of -most to most points per game, can no longer change the decision.

    Conservative: it also allows for sums and squares that no real pairs can have.
    """
    if left == 0:
        return True
    if threshold is not None:
        if not found.pairs:
            return False  # no match passes without a pair
        reach = (found.total + left * most) / (found.pairs + left), (found.total - left * most) / (found.pairs + left)
        return reach[0] < threshold or reach[1] >= threshold
    n, z2 = found.pairs + left, DEVIATIONS**2
    if n < LEAST_PAIRS:
        return True
    weight = n - 1 + z2
    # Passed for certain, even if all pairs left are lost and vary as much as possible. The known pairs then pass alone.
    lowest = found.total - left * most
    if found.pairs >= LEAST_PAIRS and lowest > 0 and weight * lowest**2 >= z2 * n * (found.squares + left * most**2):
        return True
    # Failed for certain: no sum y of the pairs left passes. They vary least if all are equal; the surplus is then
    # quadratic in y, and y lies between low, below which the total is negative, and high.
    low, high = max(-found.total, -left * most), left * most
    if high <= low:
        return True

    def surplus(y: float) -> float:
        return weight * (found.total + y) ** 2 - z2 * n * (found.squares + y * y / left)

    curvature = weight - z2 * n / left
    candidates = [low, high]
    if curvature < 0:
        candidates.append(min(max(-weight * found.total / curvature, low), high))
    scale = weight * (abs(found.total) + left * most) ** 2
    return max(map(surplus, candidates)) < -1e-9 * scale


def false_promotion_at_most(pairs: int) -> float:
    """A bound, for any distribution of points, on the chance that an equal player passes the derived condition."""
    if pairs < LEAST_PAIRS:
        return 0.0
    t = DEVIATIONS * math.sqrt(pairs / (pairs - 1 + DEVIATIONS**2))
    return min(math.exp(-t * t / 2), (2 * math.e**3 / 9) * math.erfc(t / math.sqrt(2)) / 2)


def sign_tail(points: Sequence[float]) -> float:
    """The chance that an equal player does at least this well over pairs [N], given each pair's distance from a tie.

    Exact: the signs are fair coins (module docstring), and points are multiples of 1/4.
    """
    sizes = Counter(round(4 * abs(one)) for one in points)
    total, reach = sum(round(4 * one) for one in points), sum(size * count for size, count in sizes.items())
    chances = np.zeros(2 * reach + 1)  # of sums from -reach on
    chances[reach] = 1.0
    for size, count in sizes.items():
        for _ in range(count if size else 0):
            both = np.zeros_like(chances)
            both[size:] += chances[: len(chances) - size] / 2
            both[: len(chances) - size] += chances[size:] / 2
            chances = both
    return min(1.0, float(chances[reach + total :].sum()))


def counts_by_name(games: Iterable[MatchGame], names: Mapping[float, str]) -> tuple[dict[str, int], dict[str, int]]:
    """Numbers of (won, lost) games by their points: "single" for 1 point, the others by the game's result_names."""
    found: tuple[Counter[float], Counter[float]] = Counter(), Counter()
    for game in games:
        if game.challenger_result:
            found[game.challenger_result < 0][abs(game.challenger_result)] += 1
    named = {1.0: "single", **names}
    won, lost = ({name: counts[points] for points, name in named.items()} for counts in found)
    return won, lost
