"""A sequential test of promotion: stop as soon as the pairs of games show clearly which of two strengths it is.

The generalised sequential probability ratio test (GSPRT) of H0 "the challenger is elo0 stronger" against H1 "it is elo1
stronger". It observes *whole pairs* (see statistics.py), as counts of their five scores (pentanomial): the two
games of an opening share its bias, pairs are independent of each other. After each pair the log-likelihood ratio (LLR)
of the best distribution with H1's mean to the best one with H0's is compared with Wald's bounds: log((1−β)/α) above
accepts, log(β/(1−α)) below rejects.

A test has a last pair. A challenger not accepted by then is rejected, so truncation can only lower the rate of false
promotions; it is rejected earlier if winning every pair that is left would no longer be enough.

Sources: A. Wald 1945, "Sequential tests of statistical hypotheses"; M. Van den Bergh's notes on the GSPRT, as used by
fishtest, which tests chess engines: cantate.be/Fishtest/support_MLE_multinomial.pdf (Proposition 1.1).
Knows no games or files.

Axes: T pairs in the order of their numbers; the last axis of counts is the pair's score, 0..4 half points.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pipeline.errors import UsageError
from pipeline.matches.statistics import pair_counts, share_of_elo

ACCEPTED, REJECTED, UNDECIDED = "accepted", "rejected", "undecided"

MAX_ELO = 1000.0  # beyond, shares are too close to 0 and 1 to be told apart
MIN_GAP = 0.01  # Elo; a test of less would take some 10^9 games
# Added to the count of every score, so that every mean has a distribution with finite likelihood. fishtest replaces
# zero counts only; added to all, one more pair is exactly 1 more, whatever came before: llr() stays monotonic.
PRIOR_COUNT = 1e-3
# The log-likelihood is stationary at the multiplier sought, so it changes only by the square of an error there.
BISECTIONS = 36
PAIR_SHARES = np.arange(5) / 4  # of the points of a pair


@dataclass(frozen=True)
class SprtState:
    """The state of a test after its deciding pair, or else after all pairs that are known without a gap.

    decision      ACCEPTED, REJECTED, or UNDECIDED: go on
    pairs         how many count, without VOID ones
    llr           their log-likelihood ratio
    lower, upper  bounds of rejection and acceptance; after a rejection above `lower` too few pairs were left
    """

    decision: str
    pairs: int
    llr: float
    lower: float
    upper: float


@dataclass(frozen=True)
class Sprt:
    """elo0, elo1: the challenger's strength above the champion's under H0 and H1; they stand for shares of the points.

    alpha: how often a challenger of strength elo0 is accepted; beta: how often one of strength elo1 is rejected, if no
    last pair comes before. Wald's bounds promise α/(1−β) and β/(1−α); as the LLR oversteps them, the rates come out
    near or below α and β (benchmarks/promotion.py shows them).
    """

    elo0: float
    elo1: float
    alpha: float
    beta: float

    @staticmethod
    def parse(text: str) -> Sprt:
        """From "elo0,elo1,alpha,beta". Raises UsageError."""
        wanted = "wanted elo0,elo1,alpha,beta, e.g. 0,35,0.05,0.05"
        words = text.split(",")
        if len(words) != 4:
            raise UsageError(f"--sprt {text!r}: found {len(words)} numbers; {wanted}")
        numbers = []
        for name, word in zip(("elo0", "elo1", "alpha", "beta"), words, strict=True):
            try:
                numbers.append(float(word))
            except ValueError:
                raise UsageError(f"--sprt {text!r}: {name} is {word.strip()!r}, no number; {wanted}") from None
        elo0, elo1, alpha, beta = numbers
        if not (elo0 >= -MAX_ELO and elo0 + MIN_GAP <= elo1 <= MAX_ELO):
            raise UsageError(
                f"--sprt {text!r}: elo0 is {elo0:g} and elo1 is {elo1:g}; wanted elo0 < elo1 by {MIN_GAP:g} at least, "
                f"both from {-MAX_ELO:g} to {MAX_ELO:g}"
            )
        for name, chance in (("alpha", alpha), ("beta", beta)):
            if not 0 < chance < 0.5:
                raise UsageError(f"--sprt {text!r}: {name} is {chance:g}; wanted above 0 and below 0.5")
        return Sprt(elo0, elo1, alpha, beta)

    def bounds(self) -> tuple[float, float]:
        """(lower, upper) bounds of the LLR."""
        return math.log(self.beta / (1 - self.alpha)), math.log((1 - self.beta) / self.alpha)

    def llr(self, counts: ArrayLike) -> NDArray[np.float64]:
        """The log-likelihood ratio of H1 to H0 for pair counts [..., 5] → [...]; 0 where there are no pairs.

        With p̂ the shares observed and a the points of each score, the likeliest distribution with mean s is
        p = p̂ / (1 + x(a − s)), x such that Σ p̂(a − s) / (1 + x(a − s)) = 0. So with g(s) = Σ p̂ log(1 + x(a − s))
        the LLR of N pairs is N·(g(s₀) − g(s₁)).

        Adding a pair won 2–0 always raises it, and by more than any other pair would: the odds of the highest score
        against any other rise with the mean. can_accept() rests on that.
        """
        observed = np.asarray(counts, np.float64)
        filled = observed + PRIOR_COUNT
        total = filled.sum(-1)
        shares = filled / total[..., None]
        ratio = total * (_surplus(shares, share_of_elo(self.elo0)) - _surplus(shares, share_of_elo(self.elo1)))
        return np.where(observed.any(-1), ratio, 0.0)

    def decisions(self, counts: ArrayLike, pairs_left: ArrayLike) -> NDArray[np.int8]:
        """[...] 1 accept, −1 reject, 0 go on, after these pair counts [..., 5] with pairs_left [...] to come."""
        lower, upper = self.bounds()
        ratio = self.llr(counts)
        rejected = (ratio <= lower) | ~self.can_accept(counts, pairs_left)
        return np.where(ratio >= upper, 1, -rejected.astype(np.int8)).astype(np.int8)

    def can_accept(self, counts: ArrayLike, pairs_left: ArrayLike) -> NDArray[np.bool_]:
        """[...] whether winning all pairs_left [...] would reach the upper bound after these pair counts [..., 5]."""
        best = np.array(counts, np.float64)
        best[..., 4] += np.asarray(pairs_left)
        return self.llr(best) >= self.bounds()[1]

    def run(self, pair_scores: Sequence[int | None], max_pairs: int) -> SprtState:
        """The test over pairs 0, 1, 2 … of a match that has max_pairs at most.

        pair_scores: of each pair by its number, 0..4 half points, VOID (one of its games is an excluded duplicate: the
        pair is left out, its place among max_pairs used up), or None where not both games are there, because they were
        not played yet or failed, as for pairs the sequence doesn't reach. The test stops at the first None, whatever is
        known beyond, so which games happen to end early can't sway it.
        """
        known = list(takewhile(lambda score: score is not None, pair_scores[:max_pairs]))
        seen = np.zeros((len(known) + 1, 5), np.int64)  # after 0, 1, … pairs
        for t, score in enumerate(known, start=1):
            seen[t] = seen[t - 1] + pair_counts([score])
        decisions = self.decisions(seen, max_pairs - np.arange(len(known) + 1))
        end = int(np.argmax(decisions != 0)) if decisions.any() else len(known)
        lower, upper = self.bounds()
        decision = {1: ACCEPTED, -1: REJECTED, 0: UNDECIDED}[int(decisions[end])]
        return SprtState(decision, int(seen[end].sum()), float(self.llr(seen[end])), lower, upper)

    def check_games(self, games: int) -> None:
        """Raises UsageError if winning this many games would not be enough to be accepted."""
        _, upper = self.bounds()
        pairs = math.floor(upper / math.log(share_of_elo(self.elo1) / share_of_elo(self.elo0)))
        while self.llr((0, 0, 0, 0, pairs)) < upper:
            pairs += 1
        if games // 2 < pairs:
            raise UsageError(
                f"--sprt {self.elo0:g},{self.elo1:g},{self.alpha:g},{self.beta:g} accepts nothing before {2 * pairs} "
                f"games; found --games {games}; give more games, or an elo1 farther from elo0"
            )


def _surplus(shares: NDArray[np.float64], mean: float) -> NDArray[np.float64]:
    """g: by how much a pair's mean log-likelihood falls if the distribution must have this mean. [..., 5] → [...]

    The sum whose root is the multiplier x falls from +∞ to −∞ between the poles of the highest and the lowest score.
    """
    by_score = np.ascontiguousarray(np.moveaxis(shares, -1, 0))  # numpy sums over a short last axis slowly
    deviation = (PAIR_SHARES - mean).reshape(5, *[1] * (shares.ndim - 1))
    weighted = by_score * deviation
    low = np.full(shares.shape[:-1], -1 / (1 - mean))
    high = np.full(shares.shape[:-1], 1 / mean)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        positive = (weighted / (1 + middle * deviation)).sum(0) > 0
        low, high = np.where(positive, middle, low), np.where(positive, high, middle)
    return (by_score * np.log1p((low + high) / 2 * deviation)).sum(0)
