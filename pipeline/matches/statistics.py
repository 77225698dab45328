"""The statistics of a match: scores, the promotion threshold, and the probabilities behind both.

A match of n games is n Bernoulli trials. A win counts 1, a draw 1/2. Points are counted in half points, as integers
(2·wins + draws), so that no decision depends on a rounding error. The *gate* of a match is the least number of half
points that promotes the challenger. All results are the challenger's. In games that count more than 1 only the winner
matters here; points.py counts the points.

A *pair* is one opening played twice, with colours swapped. Its score is the challenger's half points in both games,
0..4. A pair with a missing game doesn't count. *Pair counts* are the numbers of pairs with each score.

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

DEVIATIONS = 2
"""How far a challenger must score above an equal player's mean, in standard deviations: the one number behind the
derived promotion threshold, here (derived_threshold, gate_half_points) and for points (points.py)."""

VOID = -1  # instead of a pair's score: one of its games is an excluded duplicate, so the pair doesn't count

Pentanomial = tuple[int, int, int, int, int]
"""Pair counts: the numbers of pairs with 0, 1/2, 1, 1 1/2 and 2 points."""


class Played(Protocol):
    """A finished game, with or without its moves: MatchGame or GameResult."""

    @property
    def index(self) -> int: ...

    @property
    def challenger_result(self) -> float: ...

    @property
    def identity(self) -> object: ...


AnyPlayed = TypeVar("AnyPlayed", bound=Played, covariant=True)


class Record(Protocol[AnyPlayed]):
    """A recorded match, with or without the moves of its games: Match or MatchResults."""

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
    """Games won, drawn and lost by one side: in a match, by the challenger."""

    wins: int = 0
    draws: int = 0
    losses: int = 0

    @staticmethod
    def of(results: Iterable[float]) -> Score:
        """results: above 0 won, 0 drawn, below 0 lost."""
        counts = Counter((result > 0) - (result < 0) for result in results)
        return Score(counts[1], counts[0], counts[-1])

    def __add__(self, other: Score) -> Score:
        return Score(self.wins + other.wins, self.draws + other.draws, self.losses + other.losses)

    @property
    def reversed(self) -> Score:
        """The other side's score."""
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
    """The challenger's score."""
    return Score.of(game.challenger_result for game in games)


def measured_games(match: Record[AnyPlayed]) -> Sequence[AnyPlayed]:
    """The games from which strength may be estimated: a prefix by number.

    Games that end early are no fair sample of games that run side by side: a player that wins fast has won more of
    them. So a decided match counts up to the game that settled it *by number*, as its summary says. An undecided match
    counts up to its first incomplete pair, where failed games count as complete. While a match runs, even this prefix
    favours short games (docs/statistics.md).
    """
    if match.summary is not None:
        return [game for game in match.games if game.index < match.summary["measured"]]
    there = {game.index for game in match.games} | match.failed
    gap = next((number for number in range(match.num_games) if number not in there), match.num_games)
    return [game for game in match.games if game.index < gap // 2 * 2]


def repeated_games(games: Iterable[Played]) -> set[int]:
    """Numbers of the games whose moves and colours repeat those of a game with a lower number."""
    first: dict[object, int] = {}
    return {
        game.index
        for game in sorted(games, key=lambda game: game.index)
        if first.setdefault(game.identity, game.index) != game.index
    }


def pair_scores(games: Iterable[Played], num_pairs: int, excluded: Collection[int] = ()) -> list[int | None]:
    """[num_pairs] the challenger's half points 0..4 in games 2k and 2k + 1; None: one of them is missing.

    VOID: neither is missing, but one is excluded. excluded: numbers of games.
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


# The promotion threshold


def derived_threshold(games: int) -> float:
    """1/2 + 1/√n: the share DEVIATIONS standard deviations (1/(2√n) each) above the mean of n fair games; at most 1.

    .55 at 400 games, .60 at 100. Below 4 games, winning all is less than two deviations, and all must be won.
    """
    return min(1.0, 0.5 + DEVIATIONS / (2 * math.sqrt(games))) if games else 1.0


def gate_half_points(games: int, threshold: float | None = None) -> int:
    """The gate: the least half points whose share of `games` games reaches the threshold; None: the derived one.

    Exact. A threshold counts as the decimal number it is written as (.55 of 400 games is 220, not 220.00000000000003).
    The derived one counts as the root it is: (half − n)² ≥ DEVIATIONS²·n.
    """
    if threshold is None:
        return min(2 * games, games + math.isqrt(DEVIATIONS**2 * games - 1) + 1) if games else 0
    return math.ceil(Fraction(repr(threshold)) * 2 * games)


def wins_needed(gate: int) -> int:
    """The wins with which a match without draws reaches the gate (half points)."""
    return -(-gate // 2)


def is_decided(score: Score, games: int, gate: int) -> bool:
    """Exact curtailment: whether the games left can no longer change the decision."""
    return score.half_points >= gate or score.half_points + 2 * (games - score.games) < gate


def passes(score: Score, gate: int) -> bool:
    return score.half_points >= gate


# The probability of a result


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
    """The numbers of pairs with each score 0..4; None (a game is missing) and VOID don't count.

    Raises ValueError for any other number.
    """
    counts = Counter(score for score in scores if score not in (None, VOID))
    if wrong := counts.keys() - {0, 1, 2, 3, 4}:
        raise ValueError(f"a pair of games has 0..4 half points, not {wrong.pop()}")
    return counts[0], counts[1], counts[2], counts[3], counts[4]


def pair_tail(counts: Pentanomial) -> float:
    """The chance that an equal player does at least this well over pairs, given each pair's distance from a tie.

    Let A be the result, in half points above a draw (−1, 0, 1), of a challenger that moves first. If the champion is
    its equal, the champion's result when it moves first in the same opening has the distribution of A too, and the
    challenger's result that of −A. So a pair's deviation from a tie is D = A − A′, with A and A′ independent and of the
    same distribution. D is symmetric about 0 *for every opening*, even one that its first player always wins. Single
    games aren't symmetric there: counting decided games as fair coins is exact only if no opening favours a colour.

    Given |D| of every pair, the signs are independent fair coins: with n₁ pairs at |D| = 1 and n₂ at |D| = 2,
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
    """The chance that an equal player does at least this well.

    Without draws it is the binomial tail over games. That is exact if no opening favours a colour, and otherwise an
    upper bound for any score above half the points (see false_promotion). With draws it is pair_tail(counts), where a
    draw counts 1/2; or the sign test of the decided games where games have no pairs (counts None).

    Holds for a number of games fixed in advance. For a match that stopped once decided, use the gate's chance,
    false_promotion().
    """
    if score.draws and counts is not None:
        return pair_tail(counts)
    return binomial_tail(score.wins, score.games - score.draws)


def false_promotion(games: int, gate: int) -> float:
    """The largest chance that an equal player reaches the gate, for any number of draws and any openings.

    With m decided games between equals, S = wins − losses must reach k = gate − games. For k ≥ 1 the chance of that
    grows with m in steps of 2, as P(S=k−2) ≥ P(S=k). So it is largest with no draw, or with one (which adds half a
    point to the even totals). For k ≤ 0 drawing every game passes.

    Openings that favour a colour don't raise it. If one game of a pair is drawn, it is equally likely to be either, and
    the other is a fair coin. If none is drawn, and the first player wins with chance p, the pair's deviation is ±2 with
    chance p(1−p) ≤ 1/4 each, which is a mixture of two fair coins (with weight 4p(1−p)) and of none. So S is always a
    mixture of sums of m ≤ games fair coins.
    """
    if gate <= games:
        return 1.0
    return max(binomial_tail(wins_needed(gate - draws), games - draws) for draws in (0, 1) if draws <= games)


def power(games: int, gate: int, share: float) -> float:
    """The chance that a player whose true winning share is `share`, without draws, reaches the gate."""
    return binomial_tail(wins_needed(gate), games, share)


# Elo and intervals


def share_of_elo(elo: float) -> float:
    """The expected share of a player that is `elo` points stronger."""
    return 1 / (1 + 10 ** (-elo / 400))


def elo_of_share(share: float) -> float:
    """The inverse of share_of_elo; −inf at 0, +inf at 1."""
    if share <= 0 or share >= 1:
        return math.copysign(math.inf, share - 0.5)
    return 400 * math.log10(share / (1 - share))


def wilson_interval(score: Score, z: float = Z_95) -> tuple[float, float]:
    """Wilson's interval of the true share; (0, 1) without games.

    A draw counts as half a win. Drawn games vary less than decided ones, so draws make the interval wider than
    necessary.
    """
    if score.games == 0:
        return 0.0, 1.0
    n, share = score.games, score.share
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half_width = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    # At shares 0 and 1 the bounds are exactly 0 and 1; the formula misses them by a rounding error.
    low = 0.0 if share == 0 else max(0.0, centre - half_width)
    high = 1.0 if share == 1 else min(1.0, centre + half_width)
    return low, high


def elo_interval(score: Score) -> tuple[float, float, float]:
    """(low, difference, high): the challenger's Elo minus the champion's, with its 95 % interval; may be infinite."""
    low, high = wilson_interval(score)
    return elo_of_share(low), elo_of_share(score.share), elo_of_share(high)
