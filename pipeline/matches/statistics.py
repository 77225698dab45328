"""The statistics of a match: scores, pairs, points, the probability of a result, intervals.

A match of n games is n Bernoulli trials. A win counts 1, a draw 1/2. Points are counted in half points, as integers
(2·wins + draws), so that no decision depends on a rounding error. All results are the challenger's.

A *pair* is one opening played twice, with colours swapped. Its score is the challenger's half points in both games,
0..4. A pair with a missing game doesn't count. In games that count more than 1, scores count only the winner, and
PairPoints the points: the unit of observation is a pair's points per game, as both games of a pair have the same luck.

Everything is exact to rounding, except the intervals.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.run.matches import GameResult, Match, MatchGame, MatchResults

Z_95 = 1.959963984540054  # two-sided 95 % of a normal distribution
VOID = -1  # instead of a pair's score: one of its games is an excluded duplicate, so the pair doesn't count

Played = MatchGame | GameResult  # a finished game, with or without its moves
Record = Match | MatchResults  # a recorded match, with or without the moves of its games
Pentanomial = tuple[int, int, int, int, int]  # pair counts: the numbers of pairs with 0, 1/2, 1, 1 1/2 and 2 points


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


def measured_games(match: Record) -> Sequence[Played]:
    """The games from which strength may be estimated: a prefix by number, see docs/statistics.md.

    A decided match counts up to the game that settled it *by number*, as its summary says. An undecided match counts up
    to its first incomplete pair, where failed games count as complete.
    """
    if match.summary is not None:
        return [game for game in match.games if game.index < match.summary["measured"]]
    there = {game.index for game in match.games} | match.failed
    gap = next((number for number in range(match.num_games) if number not in there), match.num_games)
    return [game for game in match.games if game.index < gap // 2 * 2]


def rated_games(match: Record) -> Sequence[Played]:
    """The measured games without those that the match excludes as duplicates."""
    return without_repeated(match, measured_games(match))


def without_repeated(match: Record, games: Sequence[Played]) -> Sequence[Played]:
    """Games of a match, without the repeated ones if the match excludes them."""
    if not match.header.settings.get("exclude_duplicates"):
        return games
    repeated = repeated_games(games)
    return [game for game in games if game.index not in repeated]


def repeated_games(games: Iterable[Played]) -> set[int]:
    """Numbers of the games whose moves and colours repeat those of a game with a lower number."""
    first: dict[object, int] = {}
    return {
        game.index
        for game in sorted(games, key=lambda game: game.index)
        if first.setdefault(game.identity, game.index) != game.index
    }


# Pairs


def pair_scores(games: Iterable[Played], num_pairs: int, excluded: Collection[int] = ()) -> list[int | None]:
    """[num_pairs] the challenger's half points 0..4 in games 2k and 2k + 1; None: one of them is missing.

    VOID: neither is missing, but one is excluded. excluded: numbers of games.
    """
    half_points = {game.index: 1 + (game.challenger_result > 0) - (game.challenger_result < 0) for game in games}
    scores: list[int | None] = []
    for first in range(0, 2 * num_pairs, 2):
        if first not in half_points or first + 1 not in half_points:
            scores.append(None)
        elif first in excluded or first + 1 in excluded:
            scores.append(VOID)
        else:
            scores.append(half_points[first] + half_points[first + 1])
    return scores


def pair_counts(scores: Sequence[int | None]) -> Pentanomial:
    """The numbers of pairs with each score 0..4; None (a game is missing) and VOID don't count.

    Raises ValueError for any other number.
    """
    counts = Counter(score for score in scores if score not in (None, VOID))
    if wrong := counts.keys() - {0, 1, 2, 3, 4}:
        raise ValueError(f"a pair of games has 0..4 half points, not {wrong.pop()}")
    return counts[0], counts[1], counts[2], counts[3], counts[4]


def pair_points(games: Iterable[Played]) -> list[float]:
    """[N] the challenger's points per game in each whole pair, by number."""
    points = {game.index: game.challenger_result for game in games}
    firsts = [number for number in sorted(points) if number % 2 == 0 and number + 1 in points]
    return [(points[first] + points[first + 1]) / 2 for first in firsts]


@dataclass(frozen=True)
class PairPoints:
    """The sums over N whole pairs. total: Σ of points per game; squares: Σ of their squares."""

    pairs: int = 0
    total: float = 0.0
    squares: float = 0.0

    @staticmethod
    def of(points: Sequence[float]) -> PairPoints:
        """points [N]: see pair_points()."""
        return PairPoints(len(points), math.fsum(points), math.fsum(one * one for one in points))

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

    def interval(self) -> tuple[float, float]:
        """(low, high): the 95 % interval of the true mean."""
        return self.mean - Z_95 * self.error, self.mean + Z_95 * self.error


def counts_by_name(games: Iterable[Played], names: Mapping[float, str]) -> tuple[dict[str, int], dict[str, int]]:
    """Numbers of (won, lost) games by their points: "single" for 1 point, the others by the game's result_names."""
    counts = Counter(game.challenger_result for game in games)
    named = {1.0: "single", **names}
    won, lost = ({name: counts[sign * points] for points, name in named.items()} for sign in (1, -1))
    return won, lost


# The probability of a result


def binomial_tail(wins: int, games: int, share: float = 0.5) -> float:
    """P(at least `wins` of `games` independent games are won), each with probability `share`."""
    from scipy.special import bdtrc  # a quarter of a second, which those who only read matches needn't wait

    return 1.0 if wins <= 0 else 0.0 if wins > games else float(bdtrc(wins - 1, games, share))


def pair_tail(counts: Pentanomial) -> float:
    """The chance that an equal player does at least this well over pairs, given each pair's distance from a tie.

    The result of moving first has one distribution for two equal players. So a pair's deviation from a tie is the
    difference of two independent results of one distribution, which is symmetric about 0 *for every opening*, even one
    that its first player always wins. Given all distances, the signs are fair coins. 1 if no pair was decided.
    """
    return sign_tail([score - 2 for score, count in enumerate(counts) for _ in range(count)])


def result_tail(score: Score, counts: Pentanomial | None = None) -> float:
    """The chance that an equal player does at least this well.

    Without draws it is the binomial tail over games: exact if no opening favours a colour, otherwise an upper bound for
    any score above half the points. With draws it is pair_tail(), where a draw counts 1/2; or the sign test of the
    decided games where games have no pairs (counts None). Holds for a number of games fixed in advance.
    """
    if score.draws and counts is not None:
        return pair_tail(counts)
    return binomial_tail(score.wins, score.games - score.draws)


def sign_tail(deviations: Sequence[float]) -> float:
    """P(S ≥ s): s is the sum of these deviations from a tie [N], S their sum if every sign is a fair coin.

    deviations: multiples of 1/4. For pairs of games between equals the signs are fair coins even if the dice favour a
    side, as swapping the players swaps the games.
    """
    sizes = Counter(round(4 * abs(one)) for one in deviations if one)
    unit = math.gcd(*sizes) or 1
    total = sum(round(4 * one) for one in deviations) // unit
    reach = sum(sizes.elements()) // unit
    chances = np.zeros(2 * reach + 1)  # of sums from -reach on
    chances[reach] = 1.0
    for size in sizes.elements():
        step = size // unit
        both = np.zeros_like(chances)
        both[step:] += chances[:-step] / 2
        both[:-step] += chances[step:] / 2
        chances = both
    return min(1.0, float(chances[reach + total :].sum()))


# Elo and intervals


def share_of_elo(elo: float) -> float:
    """The expected share of a player that is `elo` points stronger."""
    return 1 / (1 + 10 ** (-elo / 400))


def elo_of_share(share: float) -> float:
    """The inverse of share_of_elo; −inf at 0, +inf at 1."""
    if share <= 0 or share >= 1:
        return math.copysign(math.inf, share - 0.5)
    return 400 * math.log10(share / (1 - share))


def wilson_interval(score: Score) -> tuple[float, float]:
    """Wilson's interval of the true share, at 95 %; (0, 1) without games. Draws make it wider than necessary."""
    if score.games == 0:
        return 0.0, 1.0
    n, share, z = score.games, score.share, Z_95
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
