"""Which handicap makes a game even? Fits scores at several handicaps; `benchmarks.strength handicap` plays the games.

Even games tell little when one side nearly always wins. So the opponent gets an advantage of some *amount*, in handicap
stones or points of komi, and the estimate is the amount at which the player scores half.

In stones: black's first move in an even game counts as its first stone, so the even game is amount 1 (``amount_of``)
and n handicap stones are amount n. White makes the next move in all of them; the player is white, the komi the same.

    P(a point at amount x) = 1 / (1 + exp(-slope · (half - x)))        slope from 0 to STEEPEST

A draw is half a point. half is the maximum of the likelihood. Its interval comes from the *profile likelihood*: all
amounts at which 2 · (log L(half) - log L(amount)) is at most 3.84, where L uses the best slope for that amount. Games
count as independent. Results outside the measured amounts are reported only as "above" or "below" them. The interval
is that of one player; ``Spread`` shows how much runs differ.
Source: Venzon and Moolgavkar 1988, "A method for computing profile-likelihood-based confidence intervals".
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import expit

from pipeline.matches.statistics import Score
from pipeline.phrases import counted

STEEPEST = 8.0  # the largest slope: from 98 % to 2 % within one stone
LIMIT_95 = 3.841458820694124  # 95 % quantile of χ² with one degree of freedom
FAR = 8.0  # how far beyond the measured amounts the maximum is searched for
NEAR = 1e-9  # precision of slopes and amounts


def amount_of(stones: int) -> int:
    """Black stones on the board when white first moves; in the even game, that is black's first move."""
    return max(stones, 1)


@dataclass(frozen=True)
class Level:
    """The player's score against an opponent with an advantage of this amount."""

    amount: float
    score: Score

    def as_json(self) -> dict[str, Any]:
        return {"amount": self.amount, **vars(self.score)}


@dataclass(frozen=True)
class Estimate:
    """The amount at which the player scores half.

    half       None if it lies outside the measured amounts or the scores don't tell
    low, high  the 95 % interval; None where it extends beyond the measured amounts
    side       where half is None: "above" or "below" the measured amounts, or "" if the scores don't tell
    """

    levels: tuple[Level, ...]
    half: float | None
    low: float | None
    high: float | None
    side: str
    unit: str = "stones"

    def __str__(self) -> str:
        least, most = self.levels[0].amount, self.levels[-1].amount
        ends = {"above": f"above {most:g}", "below": f"below {least:g}", "": "not known"}
        low = f"below {least:g}" if self.low is None else f"{self.low:.2f}"
        high = f"above {most:g}" if self.high is None else f"{self.high:.2f}"
        found = ends[self.side] if self.half is None else f"{self.half:.2f}"
        if self.low is None and self.high is None and self.half is None:
            return found
        return f"{found} ({low} to {high})"

    def as_json(self) -> dict[str, Any]:
        fields = {name: getattr(self, name) for name in ("unit", "half", "low", "high", "side")}
        return {**fields, "levels": [level.as_json() for level in self.levels]}

    @staticmethod
    def from_json(found: dict[str, Any]) -> Estimate:
        levels = [
            Level(one["amount"], Score(*(one[name] for name in ("wins", "draws", "losses")))) for one in found["levels"]
        ]
        return Estimate(tuple(levels), *(found[name] for name in ("half", "low", "high", "side", "unit")))


def estimate(levels: Sequence[Level], unit: str = "stones") -> Estimate:
    """See the module docstring. Raises ValueError if no game was played."""
    played = tuple(sorted((level for level in levels if level.score.games), key=lambda level: level.amount))
    if not played:
        raise ValueError("no game was played at any amount")
    least, most = played[0].amount, played[-1].amount
    if not _falls(played):  # no falling slope fits better than a constant
        shares = [level.score.share for level in played]
        side = "above" if min(shares) > 0.5 else "below" if max(shares) < 0.5 else ""
        return Estimate(played, None, None, None, side, unit)

    half = _highest(played, least - FAR, most + FAR)
    top = _profile(played, half)

    def beyond(amount: float) -> float:
        """Above 0 outside the interval."""
        return 2 * (top - _profile(played, amount)) - LIMIT_95

    middle = min(max(half, least), most)
    low, high = (
        brentq(beyond, end, middle, xtol=NEAR) if beyond(end) > 0 >= beyond(middle) else None for end in (least, most)
    )
    if beyond(middle) > 0:  # the interval excludes all measured amounts
        low, high = (most, None) if half > most else (None, least)
    side = "above" if half > most else "below" if half < least else ""
    return Estimate(played, None if side else half, low, high, side, unit)


def deviance(levels: Sequence[Level], half: float) -> float:
    """2 · (largest log-likelihood − log-likelihood of this half), which the interval compares with LIMIT_95."""
    least, most = min(level.amount for level in levels), max(level.amount for level in levels)
    return 2 * (_profile(levels, _highest(levels, least - FAR, most + FAR)) - _profile(levels, half))


def _falls(levels: Sequence[Level]) -> bool:
    """Whether scores fall with the amount: the sign of the derivative by the slope at slope 0."""
    share = sum((level.score for level in levels), Score()).share
    away = (level.amount * (level.score.half_points / 2 - level.score.games * share) for level in levels)
    return sum(away) < -1e-9


def _log_likelihood(levels: Sequence[Level], half: float, slope: float) -> float:
    total = 0.0
    for level in levels:
        logit, won = slope * (half - level.amount), level.score.half_points / 2
        total -= won * np.logaddexp(0, -logit) + (level.score.games - won) * np.logaddexp(0, logit)
    return float(total)


def _profile(levels: Sequence[Level], half: float) -> float:
    """The log-likelihood with the best slope for this half, in which it is concave."""

    def derivative(slope: float) -> float:
        found = 0.0
        for level in levels:
            away = half - level.amount
            found += (level.score.half_points / 2 - level.score.games * expit(slope * away)) * away
        return found

    if derivative(STEEPEST) >= 0:
        best = STEEPEST
    else:
        best = brentq(derivative, 0.0, STEEPEST, xtol=NEAR) if derivative(0.0) > 0 else 0.0
    return _log_likelihood(levels, half, best)


def _highest(levels: Sequence[Level], low: float, high: float) -> float:
    """The half of the largest likelihood; the only maximum, as the log-likelihood is concave in (slope · half, slope).
    """
    found = minimize_scalar(lambda half: -_profile(levels, half), bounds=(low, high), options={"xatol": NEAR})
    return float(found.x)


# Several runs


@dataclass(frozen=True)
class Spread:
    """One figure of several runs that differ only in their seeds. deviation: between runs (n − 1); None for one run."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    @property
    def deviation(self) -> float | None:
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    def text(self, form: str) -> str:
        """form: the format of one value, e.g. ``.1%``."""
        spread = "" if self.deviation is None else f", standard deviation between runs {self.deviation:{form}}"
        low, high = min(self.values), max(self.values)
        return f"mean {self.mean:{form}}{spread}, {low:{form}} to {high:{form}}, {counted(len(self.values), 'run')}"
