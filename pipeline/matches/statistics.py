"""The statistics of a match: what its games add up to, how much must be won for a promotion, how certain that is.

A match of n games is n Bernoulli trials. A win counts 1, a draw 1/2. Points are counted in half points throughout, as
integers (2·wins + draws), so that no decision depends on a rounding error. The *gate* of a match is the least number of
half points that promotes the challenger. All results are the challenger's. Where games count more than 1 only who won
matters here; points.py is about how much.

A *pair* is one opening played twice, with colours swapped; its score is the challenger's half points in both games,
0..4. A pair of which only one game was played doesn't count. *Pair counts* say how many pairs brought each score.

Everything is exact (integers or compensated sums) except the intervals, which are Wilson's. Knows no rules or files.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol, TypeVar

from pipeline.run.matches import MatchHeader

Z_95 = 1.959963984540054  # two-sided 95 % of a normal distribution

VOID = -1  # instead of a pair's score: one of its games is an excluded duplicate, so the pair doesn't count

Pentanomial = tuple[int, int, int, int, int]
"""Pair counts: how many pairs brought 0, 1/2, 1, 1 1/2 and 2 points."""


class Played(Protocol):
    """A finished game, with its moves or without: MatchGame or GameResult."""

    @property
    def index(self) -> int: ...

    @property
    def challenger_result(self) -> float: ...

    @property
    def identity(self) -> object: ...


AnyPlayed = TypeVar("AnyPlayed", bound=Played, covariant=True)


class Record(Protocol[AnyPlayed]):
    """A match as it was recorded, with the moves of its games or without: Match or MatchResults."""

    @property
    def folder(self) -> Path: ...

    @property
    def header(self) -> MatchHeader: ...

    @property
    def num_games(self) -> int: ...

    @property
    def games(self) -> Sequence[AnyPlayed]: ...

    @property
    def failed(self) -> frozenset[int]: ...

    @property
    def summary(self) -> dict[str, Any] | None: ...


@dataclass(frozen=True)
class Score:
    """Games won, drawn and lost by one of two sides: in a match, by the challenger."""

    wins: int = 0
    draws: int = 0
    losses: int = 0

    @staticmethod
    def of(results: Iterable[float]) -> Score:
        """results: above 0 won, 0 drawn, below lost, however many points."""
        counts = Counter((result > 0) - (result < 0) for result in results)
        return Score(counts[1], counts[0], counts[-1])

    def __add__(self, other: Score) -> Score:
        return Score(self.wins + other.wins, self.draws + other.draws, self.losses + other.losses)

    @property
    def reversed(self) -> Score:
        """The same games as the other side sees them."""
        return Score(self.losses, self.draws, self.wins)

    @property
    def games(self) -> int:
        return self.wins + self.draws + self.losses

    @property
    def half_points(self) -> int:
        return 2 * self.wins + self.draws

    @property
    def share(self) -> float:
        """Points per game; 1/2 if there are no games."""
        return self.half_points / (2 * self.games) if self.games else 0.5


def score_of(games: Iterable[Played]) -> Score:
    """The challenger's."""
    return Score.of(game.challenger_result for game in games)


def measured_games(match: Record[AnyPlayed]) -> Sequence[AnyPlayed]:
    """The games from which strength may be estimated, by number: those that were chosen by number.

    Many games begin at once, and whoever wins fast has won more of those that are over than of all. So a match that
    ended early counts as far as its summary says, to the game that settled it *by number*; one that isn't decided, to
    the first pair that isn't whole, where games that failed count as there. In a match that is under way even these are
    rather the short ones (docs/statistics.md), but soon they are all.
    """
    if match.summary is not None:
        return [game for game in match.games if game.index < match.summary["measured"]]
    there = {game.index for game in match.games} | match.failed
    gap = next((number for number in range(match.num_games) if number not in there), match.num_games)
    return [game for game in match.games if game.index < gap // 2 * 2]


def repeated_games(games: Iterable[Played]) -> set[int]:
    """Numbers of the games whose moves and colours are those of a game with a lower number."""
    first: dict[object, int] = {}
    return {
        game.index
        for game in sorted(games, key=lambda game: game.index)
        if first.setdefault(game.identity, game.index) != game.index
    }


def pair_scores(games: Iterable[Played], num_pairs: int, excluded: Collection[int] = ()) -> list[int | None]:
    """[num_pairs] the challenger's half points 0..4 in games 2k and 2k + 1; None: not both of them are there.

    VOID: both are, but one is among the excluded, which are numbers of games.
    """
    half_points = {game.index: 1 + (game.challenger_result > 0) - (game.challenger_result < 0) for game in games}
    scores: list[int | None] = []
    for pair in ((first, first + 1) for first in range(0, 2 * num_pairs, 2)):
        if not half_points.keys() >= set(pair):
            scores.append(None)
        elif any(number in excluded for number in pair):
            scores.append(VOID)
        else:
            scores.append(sum(half_points[number] for number in pair))
    return scores


def derived_threshold(games: int) -> float:
    """1/2 + 1/sqrt(n): two standard deviations above the mean of n fair games; never more than 1.

    .55 at 400 games, .60 at 100. Below 4 games, where winning all is less than two deviations, all must be won.
    """
    return min(1.0, 0.5 + 1 / math.sqrt(games)) if games else 1.0


def gate_half_points(games: int, threshold: float | None = None) -> int:
    """The least half points whose share of `games` games reaches the threshold; None = the derived one.

    Exact: a threshold counts as the decimal number it is written as (.55 of 400 games is 220, not 220.00000000000003),
    the derived one as the root it is: (half − n)² ≥ 4n.
    """
    if threshold is None:
        return min(2 * games, games + math.isqrt(4 * games - 1) + 1) if games else 0
    return math.ceil(Fraction(repr(threshold)) * 2 * games)


def wins_needed(gate: int) -> int:
    """How many wins a match without draws needs to reach the gate (half points)."""
    return -(-gate // 2)


def is_decided(score: Score, games: int, gate: int) -> bool:
    """Exact curtailment: whether the games still to be played can no longer change the decision."""
    return score.half_points >= gate or score.half_points + 2 * (games - score.games) < gate


def passes(score: Score, gate: int) -> bool:
    return score.half_points >= gate


def binomial_tail(wins: int, games: int, share: float = 0.5) -> float:
    """P(at least `wins` of `games` independent games are won), each with probability `share`."""
    if wins <= 0:
        return 1.0
    if wins > games:
        return 0.0
    if share == 0.5:
        ways = term = math.comb(games, wins)
        for k in range(wins, games):
            term = term * (games - k) // (k + 1)
            ways += term
        return ways / 2**games
    if not 0 < share < 1:
        return float(share >= 1)
    log_win, log_loss = math.log(share), math.log1p(-share)
    all_ways = math.lgamma(games + 1)
    return min(
        1.0,
        math.fsum(
            math.exp(all_ways - math.lgamma(k + 1) - math.lgamma(games - k + 1) + k * log_win + (games - k) * log_loss)
            for k in range(wins, games + 1)
        ),
    )


def pair_counts(scores: Sequence[int | None]) -> Pentanomial:
    """How many pairs have each score 0..4, without None (not both games were played) and VOID.

    Raises ValueError for any other number.
    """
    counts = Counter(score for score in scores if score not in (None, VOID))
    if wrong := counts.keys() - {0, 1, 2, 3, 4}:
        raise ValueError(f"a pair of games has 0..4 half points, not {wrong.pop()}")
    return counts[0], counts[1], counts[2], counts[3], counts[4]


def pair_tail(counts: Pentanomial) -> float:
    """The chance that an equal player does at least this well over pairs, given each pair's distance from a tie.

    Let A be the result, in half points above a draw (−1, 0, 1), of a challenger that moves first, and let the champion
    be its equal: then the champion's result, when it moves first in the same opening, is distributed as A too, and the
    challenger's as −A. So a pair's deviation from a tie is D = A − A′ with A, A′ independent and alike, hence symmetric
    about 0, *whatever the opening*, even one that its first player always wins. The games themselves are not
    symmetric there, which is why counting decided games as fair coins is exact only if no opening favours a colour.

    Given |D| of every pair the signs are fair and independent coins: with n₁ pairs at |D| = 1 and n₂ at |D| = 2,
    S = ΣD = (2·B₁ − n₁) + 2·(2·B₂ − n₂), B ~ Binomial(n, 1/2). P(S ≥ s) is counted in integers:
    Σ_j C(n₂, j) · #{B₁ ≥ (s + n₁ + 2·n₂ − 4j) / 2} of 2^(n₁+n₂) ways; s and n₁ are both even or both odd. 1 if no pair
    was decided.
    """
    ones, twos = counts[1] + counts[3], counts[0] + counts[4]
    total = counts[3] - counts[1] + 2 * (counts[4] - counts[0])
    at_least = [0] * (ones + 2)  # at_least[b]: ways in which B₁ ≥ b
    ways = 1
    for b in range(ones, -1, -1):
        at_least[b] = at_least[b + 1] + ways
        ways = ways * b // (ones - b + 1)
    favourable, ways = 0, 1
    for j in range(twos + 1):
        least = (total + ones + 2 * twos - 4 * j) // 2
        favourable += ways * at_least[min(max(least, 0), ones + 1)]
        ways = ways * (twos - j) // (j + 1)
    return favourable / 2 ** (ones + twos)


def result_tail(score: Score, counts: Pentanomial | None = None) -> float:
    """The chance that an equal model does at least this well.

    Without draws it is the binomial tail over games: exact if no opening favours a colour; if some do, too large rather
    than too small for anything above half the points (see false_promotion). With draws it is pair_tail(counts), where
    a draw counts 1/2; or, where games have no pairs (counts None), the sign test of the decided games.

    This holds for a number of games fixed beforehand: of a match that stopped once decided, the chance that matters is
    the gate's, false_promotion().
    """
    if score.draws and counts is not None:
        return pair_tail(counts)
    return binomial_tail(score.wins, score.games - score.draws)


def false_promotion(games: int, gate: int) -> float:
    """The largest chance that an equal model reaches the gate, however many draws and whichever side openings favour.

    With m decided games between equals, S = wins − losses must reach k = gate − games. For k ≥ 1 the chance of that
    grows with m in steps of 2, as P(S=k−2) ≥ P(S=k); so it is largest with no draw, or with one (which adds half a
    point to the even totals). For k ≤ 0 drawing every game passes.

    Openings that favour a colour change nothing: if one game of a pair is drawn, each is equally likely to be that one,
    and the other is a fair coin; if none is, and the first player wins with chance p, the pair's deviation is ±2 with
    chance p(1−p) ≤ 1/4 each, which is a mixture of two fair coins (4p(1−p) of the time) and of none. So S is always a
    mixture of sums of m ≤ games fair coins.
    """
    if gate <= games:
        return 1.0
    return max(binomial_tail(wins_needed(gate - draws), games - draws) for draws in (0, 1) if draws <= games)


def power(games: int, gate: int, share: float) -> float:
    """The chance that a model which truly wins `share` of its games, and draws none, reaches the gate."""
    return binomial_tail(wins_needed(gate), games, share)


def share_of_elo(elo: float) -> float:
    """The expected share of a player that is `elo` points stronger."""
    return 1 / (1 + 10 ** (-elo / 400))


def elo_of_share(share: float) -> float:
    """The inverse; −inf at 0, +inf at 1."""
    if share <= 0 or share >= 1:
        return math.copysign(math.inf, share - 0.5)
    return 400 * math.log10(share / (1 - share))


def wilson_interval(score: Score, z: float = Z_95) -> tuple[float, float]:
    """Wilson's interval of the true share; (0, 1) without games.

    Draws count as half a win. Their variance is smaller than that of games won and lost, so the interval is then
    wider than it need be.
    """
    if score.games == 0:
        return 0.0, 1.0
    n, share = score.games, score.share
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half_width = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    # At shares of exactly 0 and 1 the bound is 0 and 1; arithmetic would miss it by a rounding error.
    low = 0.0 if share == 0 else max(0.0, centre - half_width)
    high = 1.0 if share == 1 else min(1.0, centre + half_width)
    return low, high


def elo_interval(score: Score) -> tuple[float, float, float]:
    """(low, difference, high): the challenger's Elo less the champion's, with its 95 % interval; may be infinite."""
    low, high = wilson_interval(score)
    return elo_of_share(low), elo_of_share(score.share), elo_of_share(high)
