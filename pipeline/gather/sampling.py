"""Sampling positions from a window: uniformly, or more often where the search surprised the network.

Axes: S shards, E spans (a span is consecutive plies of one game), N positions of a pool. Shards are given as indices
into the window's metas.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.methods.method import IndexArray, Positions

MOST_PLIES = 2**16  # a ply is a u2 in every file


@dataclass(frozen=True)
class Spans:
    """E spans, ordered by shard, game and ply; they don't overlap."""

    shard: IndexArray  # [E] index into the window's metas
    game: IndexArray  # [E] index in the shard
    first_ply: IndexArray  # [E]
    num_plies: IndexArray  # [E] at least 1
    first_move: IndexArray  # [E] index of first_ply among the positions of its shard

    def __len__(self) -> int:
        return len(self.shard)

    def at(self, rows: NDArray[np.integer] | NDArray[np.bool_]) -> Spans:
        return Spans(*(column[rows] for column in vars(self).values()))

    @property
    def num_positions(self) -> int:
        return int(self.num_plies.sum())

    @property
    def num_games(self) -> int:
        """Games that at least one span belongs to."""
        return len(self) and 1 + int(((np.diff(self.shard) != 0) | (np.diff(self.game) != 0)).sum())


class PositionSampler:
    """Samples the N positions of a pool, numbered from 0 in the order of the spans."""

    def __init__(self, spans: Spans, surprises: list[NDArray[np.float16]], surprise_weight: float) -> None:
        """surprises: of every position, shard by shard; see ShardMeta.

        surprise_weight s: a position's probability is proportional to (1 − s) + s · surprise / (mean surprise of the
        pool), so surprise decides the share s of all samples. A position that isn't a policy target has surprise 0 and
        is sampled for its value only, by the share 1 − s. If all surprises are 0, sampling is uniform.
        Source: KataGo, docs/KataGoMethods.md, "Policy Surprise Weighting", with s = 1/2 and the mean over a game.
        """
        self._spans = spans
        self._ends = np.cumsum(spans.num_plies)
        self._surprises = surprises
        self._surprise_weight = surprise_weight

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def positions(self, numbers: IndexArray) -> Positions:
        """The positions with these numbers."""
        at = np.searchsorted(self._ends, numbers, side="right")
        spans = self._spans
        ply = numbers - (self._ends[at] - spans.num_plies[at]) + spans.first_ply[at]
        return Positions(spans.shard[at], spans.game[at], ply)

    def sample(self, count: int, rng: np.random.Generator) -> Positions:
        """`count` positions in random order, at most as many as the pool has.

        Uniform sampling is without replacement. By surprise, a position occurs as often as expected, rounded down or
        up: at most once if its expected number of copies is at most 1.
        """
        return self.positions(self._choose(np.arange(len(self)), count, rng))

    def sample_others(self, count: int, taken: Positions, rng: np.random.Generator) -> Positions:
        """As sample(), without the positions taken; fewer if fewer are left."""
        there = self.positions(np.arange(len(self)))
        num_games = 1 + max(int(positions.game.max(initial=0)) for positions in (there, taken))
        keys = [(one.shard * num_games + one.game) * MOST_PLIES + one.ply for one in (there, taken)]
        left = np.flatnonzero(~np.isin(*keys))
        return self.positions(self._choose(left, min(count, len(left)), rng))

    def weights(self) -> NDArray[np.float64]:
        """[N] relative probabilities, 1 on average; see __init__."""
        spans, sizes = self._spans, np.array([len(surprises) for surprises in self._surprises], np.int64)
        begin = (np.cumsum(sizes) - sizes)[spans.shard] + spans.first_move
        shift = np.repeat(begin - (self._ends - spans.num_plies), spans.num_plies)
        surprises = np.concatenate(self._surprises)[np.arange(len(self)) + shift].astype(np.float64)
        mean = surprises.mean()
        if mean == 0.0:
            return np.ones(len(self))
        return (1.0 - self._surprise_weight) + self._surprise_weight / mean * surprises

    def _choose(self, numbers: IndexArray, count: int, rng: np.random.Generator) -> IndexArray:
        if count == 0:
            return np.zeros(0, np.int64)
        if self._surprise_weight == 0.0:
            return numbers[rng.choice(len(numbers), count, replace=False)]
        return numbers[choose_weighted(rng, self.weights()[numbers], count)]


def choose_weighted(rng: np.random.Generator, weights: NDArray[np.float64], count: int) -> IndexArray:
    """[count] numbers below N in random order; i occurs c = count · weights[i] / Σ weights times on average.

    It occurs ⌊c⌋ or ⌈c⌉ times, so at most once if c ≤ 1. weights [N] ≥ 0, not all 0. Systematic sampling of a shuffled
    list: i is an interval of length c on a line, sampled at points of distance 1.
    Source: Goodman, Kish 1950, "Controlled selection: a technique in probability sampling".
    """
    order = rng.permutation(len(weights))
    ends = np.cumsum(weights[order])
    points = (rng.random() + np.arange(count)) * (ends[-1] / count)
    chosen = order[np.searchsorted(ends, points, side="right").clip(max=len(order) - 1)]
    return rng.permutation(chosen)  # copies of one position must not be neighbours
