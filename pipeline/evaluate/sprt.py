"""A sequential promotion test: it stops as soon as the pairs of games clearly favour one of two strengths.

The generalised sequential probability ratio test (GSPRT) of H0 "the challenger is elo0 stronger" against H1 "it is elo1
stronger". It observes *whole pairs* (see statistics.py), as counts of their five scores (pentanomial). After each pair
it computes the log-likelihood ratio (LLR) of the best distribution with H1's mean to the best one with H0's. An LLR of
at least log((1−β)/α) accepts, one of at most log(β/(1−α)) rejects (Wald's bounds).

The number of pairs is limited. A challenger not accepted by the last pair is rejected, which can only lower the rate of
false promotions; it is rejected earlier if winning all remaining pairs would no longer be enough.

Sources: A. Wald 1945, "Sequential tests of statistical hypotheses"; M. Van den Bergh's notes on the GSPRT, as used by
fishtest, which tests chess engines: cantate.be/Fishtest/support_MLE_multinomial.pdf (Proposition 1.1).

The last axis of counts is the pair's score, 0..4 half points.
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

MAX_ELO = 1000.0  # beyond it, shares are too close to 0 and 1 to differ numerically
MIN_GAP = 0.01  # Elo; a smaller gap would take some 10^9 games
# Added to the count of every score, so that every mean has a distribution with finite likelihood. fishtest replaces
# only zero counts. Added to all, each further pair adds exactly 1, which keeps llr() monotonic.
PRIOR_COUNT = 1e-3
# Enough: the log-likelihood is stationary at the multiplier sought, so an error there enters only squared.
BISECTIONS = 36
PAIR_SHARES = np.arange(5) / 4  # a pair's score as a share of its points


@dataclass(frozen=True)
class SprtState:
    """The state of a test after its deciding pair, else after all pairs before the first missing one."""

    decision: str  # ACCEPTED, REJECTED or UNDECIDED
    pairs: int  # number of pairs that count, without VOID ones
    llr: float  # their log-likelihood ratio
    lower: float  # bound of rejection; a rejection above it was for too few remaining pairs
    upper: float  # bound of acceptance


@dataclass(frozen=True)
class Sprt:
    """The parameters of a test.

    Wald's bounds guarantee α/(1−β) and β/(1−α); the actual rates are lower (measured by benchmarks/promotion.py).
    """

    elo0: float  # the challenger's Elo above the champion's under H0
    elo1: float  # under H1
    alpha: float  # the rate at which challengers of strength elo0 are accepted
    beta: float  # the rate at which challengers of strength elo1 are rejected, without a limit on pairs

    @staticmethod
    def parse(text: str) -> Sprt:
        """From "elo0,elo1,alpha,beta". Raises UsageError."""
        try:
            elo0, elo1, alpha, beta = map(float, text.split(","))
        except ValueError:
            wanted = "wanted four numbers, elo0,elo1,alpha,beta, e.g. 0,35,0.05,0.05"
            raise UsageError(f"--sprt {text!r}: {wanted}") from None
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
        """The log-likelihood ratio of H1 to H0 for pair counts [..., 5] → [...]; 0 without pairs.

        With p̂ the observed shares and a the points of each score, the likeliest distribution with mean s is
        p = p̂ / (1 + x(a − s)), x such that Σ p̂(a − s) / (1 + x(a − s)) = 0. So with g(s) = Σ p̂ log(1 + x(a − s))
        the LLR of N pairs is N·(g(s₀) − g(s₁)).

        A pair won 2–0 always raises the LLR, and by more than any other pair, because the odds of the highest score
        against any other rise with the mean. can_accept() relies on that.
        """
        observed = np.asarray(counts, np.float64)
        filled = observed + PRIOR_COUNT
        total = filled.sum(-1)
        shares = filled / total[..., None]
        ratio = total * (_surplus(shares, share_of_elo(self.elo0)) - _surplus(shares, share_of_elo(self.elo1)))
        return np.where(observed.any(-1), ratio, 0.0)

    def decisions(self, counts: ArrayLike, pairs_left: ArrayLike) -> NDArray[np.int8]:
        """[...] 1 accept, −1 reject, 0 continue, after these pair counts [..., 5] with pairs_left [...] to come."""
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
        """The test over pairs 0, 1, 2 … of a match of at most max_pairs.

        pair_scores, by pair number: 0..4 half points; VOID if one of its games is an excluded duplicate (the pair
        doesn't count, but uses up its place among max_pairs); None if not both games have been played. The test stops
        at the first None, so games that happen to end early can't bias it.
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
        """Raises UsageError if winning all these games would not be enough for acceptance."""
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
    """g(mean) of llr(): the loss of mean log-likelihood per pair if the distribution must have this mean.

    [..., 5] → [...]. Bisects for the multiplier x: the sum falls from +∞ to −∞ between the poles of the highest and the
    lowest score.
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
