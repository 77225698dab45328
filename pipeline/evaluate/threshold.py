"""The promotion threshold: what a challenger must score, and whether the games left can still change the decision.

A match of n games has a *gate*: the least number of half points that promotes the challenger. By default it lies
DEVIATIONS standard deviations above the mean of an equal player if no game is drawn. A drawn game doesn't say who is
better, and equal players draw most. So with draws the challenger must win so many of the m other games that an equal
player does so no more often than it reaches the gate of n games without a draw.

Where games count more than 1, the unit is a pair's points per game x (statistics.PairPoints). Axis: N whole pairs. The
*points condition* is the same with the observed variance instead of the known one: with z = DEVIATIONS,

    mean ≥ z·s/√N,  s² = Σ (x − mean)² / (N − 1),  which is  S ≥ 0 and S²·(N − 1 + z²) ≥ z²·N·Q

with S = Σ x and Q = Σ x². Between equals, x and −x are equally likely. So, given all |x|, the signs are fair coins, and
P(S ≥ t·√Q) ≤ exp(−t²/2) for *any* distribution of points (Hoeffding 1963), where t = z·√(N / (N − 1 + z²)). It is also
at most 4.47 times the normal tail beyond t (Pinelis 1994, for this very statistic).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from fractions import Fraction
from functools import cache

from pipeline.matches.statistics import PairPoints, Score, binomial_tail

DEVIATIONS = 2  # how far a challenger must score above an equal player's mean, in standard deviations
LEAST_PAIRS = 8  # among fewer pairs, equal values by luck alone would show no variance


# The gate


def derived_threshold(games: int) -> float:
    """1/2 + 1/√n: the share DEVIATIONS standard deviations (1/(2√n) each) above the mean of n fair games; at most 1."""
    return min(1.0, 0.5 + DEVIATIONS / (2 * math.sqrt(games))) if games else 1.0


def gate_half_points(games: int, threshold: float | None = None, draws: int = 0) -> int:
    """The gate: the least half points whose share of `games` games reaches the threshold; None: the derived one.

    Exact. A threshold counts as the decimal number it is written as (.55 of 400 games is 220, not 220.00000000000003).
    draws: of these games; each moves the derived gate by half a point up or down, so winning a game instead of drawing
    it never hurts.
    """
    if threshold is None:
        return draws + 2 * _derived_wins(games, games - draws) if games else 0
    return math.ceil(Fraction(repr(threshold)) * 2 * games)


@cache
def _derived_wins(games: int, decided: int) -> int:
    """The wins in `decided` games, the others being drawn; above `decided` if no number of wins is enough."""
    lead = math.isqrt(DEVIATIONS**2 * games - 1) + 1  # without draws: (2·wins − n)² ≥ DEVIATIONS²·n
    chance = binomial_tail(min(games, wins_needed(games + lead)), games)
    return bisect_left(range(decided + 1), True, key=lambda wins: binomial_tail(wins, decided) <= chance)


def wins_needed(gate: int) -> int:
    """The wins with which a match without draws reaches the gate."""
    return -(-gate // 2)


def is_decided(score: Score, games: int, gate: int) -> bool:
    """Exact curtailment: whether the games left can no longer change the decision."""
    return score.half_points >= gate or score.half_points + 2 * (games - score.games) < gate


def false_promotion(games: int, threshold: float | None = None, unpaired: int = 0) -> float:
    """The largest chance that an equal player reaches the gate, for any number of draws and any openings.

    unpaired: how many of the games belong to no pair, because the other one was excluded as a duplicate. Their openings
    may favour the challenger's colour, so all of them may be won: the others must reach the rest of the gate.

    With m decided games between equals, S = wins − losses must reach a lead k. For k ≥ 1 the chance of that grows with
    m in steps of 2, as P(S=k−2) ≥ P(S=k). For a given threshold, k = gate − games, so the chance is largest with no
    draw, or with one (which adds half a point to the even totals); for k ≤ 0 drawing every game passes. For the derived
    threshold it is largest without draws, by the choice of k for each m, unless games that may all be won come on top.

    Openings that favour a colour don't raise it. If one game of a pair is drawn, it is equally likely to be either, and
    the other is a fair coin. If none is drawn, and the first player wins with chance p, the pair's deviation is ±2 with
    chance p(1−p) ≤ 1/4 each, which is a mixture of two fair coins (with weight 4p(1−p)) and of none. So S is always a
    mixture of sums of at most m fair coins, and of as many as m or fewer by an even number.
    """
    paired, worst = games - unpaired, 0.0
    numbers = range(2) if threshold is not None else range(paired + 1 if unpaired else 1)
    for draws in numbers[: paired + 1]:
        needed = gate_half_points(games, threshold, draws) - 2 * unpaired
        if needed <= paired:
            return 1.0
        worst = max(worst, binomial_tail(wins_needed(needed - draws), paired - draws))
    return worst


def power(games: int, gate: int, share: float) -> float:
    """The chance that a player whose true winning share is `share`, without draws, reaches the gate."""
    return binomial_tail(wins_needed(gate), games, share)


# The points condition


def points_needed(found: PairPoints, threshold: float | None = None) -> float | None:
    """The points per game that would pass with the variance observed so far; None if there is none yet."""
    if threshold is not None:
        return threshold
    return DEVIATIONS * found.error if math.isfinite(found.error) else None


def points_pass(found: PairPoints, threshold: float | None = None) -> bool:
    """Whether the points reach the threshold, in points per game; None: the points condition."""
    if threshold is not None:
        return found.pairs > 0 and found.mean >= threshold
    if found.pairs < LEAST_PAIRS or found.total <= 0:
        return False
    n, z = found.pairs, DEVIATIONS
    return found.total**2 * (n - 1 + z * z) >= z * z * n * found.squares


def points_decided(found: PairPoints, left: int, most: float, threshold: float | None = None) -> bool:
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


def points_false_promotion(pairs: int) -> float:
    """A bound, for any distribution of points, on the chance that an equal player passes the points condition."""
    if pairs < LEAST_PAIRS:
        return 0.0
    t = DEVIATIONS * math.sqrt(pairs / (pairs - 1 + DEVIATIONS**2))
    return min(math.exp(-t * t / 2), (2 * math.e**3 / 9) * math.erfc(t / math.sqrt(2)) / 2)
