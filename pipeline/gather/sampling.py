"""Drawing positions from a window: alike, or more often where the search surprised the network.

Axes: S shards, E stretches (a stretch is some plies of a game without a gap), N positions of a pool.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

IndexArray = NDArray[np.int64]
MOST_PLIES = 2**16  # a ply is a u2 in every file


@dataclass(frozen=True)
class Positions:
    """N positions. shard [N] index into the window's metas, game [N] index in the shard, ply [N]."""

    shard: IndexArray
    game: IndexArray
    ply: IndexArray

    def __len__(self) -> int:
        return len(self.ply)

    def at(self, rows: NDArray[np.integer] | slice) -> Positions:
        return Positions(self.shard[rows], self.game[rows], self.ply[rows])


@dataclass(frozen=True)
class Stretches:
    """E stretches, ordered by shard, game and ply; no two share a position."""

    shard: IndexArray  # [E] index into the window's metas
    game: IndexArray  # [E] index in the shard
    first_ply: IndexArray  # [E]
    num_plies: IndexArray  # [E] at least 1
    first_move: IndexArray  # [E] where first_ply stands among the positions of its shard

    def __len__(self) -> int:
        return len(self.shard)

    def at(self, rows: NDArray[np.integer] | NDArray[np.bool_]) -> Stretches:
        return Stretches(
            self.shard[rows], self.game[rows], self.first_ply[rows], self.num_plies[rows], self.first_move[rows]
        )

    @property
    def num_positions(self) -> int:
        return int(self.num_plies.sum())

    @property
    def num_games(self) -> int:
        """Games of which there is anything."""
        return len(self) and 1 + int(((np.diff(self.shard) != 0) | (np.diff(self.game) != 0)).sum())


class PositionSampler:
    """Positions to draw from, numbered from 0."""

    def __init__(self, stretches: Stretches, surprises: list[NDArray[np.float16]], surprise_weight: float) -> None:
        """surprises: of every position, shard by shard; see ShardMeta.

        surprise_weight s: a position is drawn with a chance proportional to (1 − s) + s · surprise / mean surprise of
        the pool, so a share s of all draws is given out by surprise. A position whose policy doesn't count has surprise
        0: it is drawn for its value, with the share 1 − s alone. All are alike if none surprises.
        Source: KataGo, docs/KataGoMethods.md, "Policy Surprise Weighting", where s = 1/2 and the mean is of a game.
        """
        self._stretches = stretches
        self._ends = np.cumsum(stretches.num_plies)
        self._surprises = surprises
        self._surprise_weight = surprise_weight

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def positions(self, numbers: IndexArray) -> Positions:
        """Which positions these numbers mean."""
        at = np.searchsorted(self._ends, numbers, side="right")
        stretches = self._stretches
        ply = numbers - (self._ends[at] - stretches.num_plies[at]) + stretches.first_ply[at]
        return Positions(stretches.shard[at], stretches.game[at], ply)

    def draw(self, count: int, rng: np.random.Generator) -> Positions:
        """count positions in random order; count must not exceed the pool.

        All alike: different ones, each equally likely. By surprise: a position whose share of the draws is more
        than one copy is drawn so many times, rounded down or up; no other is drawn twice.
        """
        return self.positions(self._choose(np.arange(len(self)), count, rng))

    def draw_others(self, count: int, taken: Positions, rng: np.random.Generator) -> Positions:
        """Like draw, but none of those taken; fewer if there are fewer."""
        free = np.ones(len(self), np.bool_)
        free[self._numbers(taken)] = False
        left = np.flatnonzero(free)
        return self.positions(self._choose(left, min(count, len(left)), rng))

    def weights(self) -> NDArray[np.float64]:
        """[N], 1 on average: see __init__."""
        surprises = self._all_surprises()
        mean = surprises.mean() if len(surprises) else 0.0
        if mean == 0.0:
            return np.ones(len(self))
        return (1.0 - self._surprise_weight) + self._surprise_weight / mean * surprises

    def _choose(self, numbers: IndexArray, count: int, rng: np.random.Generator) -> IndexArray:
        if count == 0:
            return np.zeros(0, np.int64)
        if self._surprise_weight == 0.0:
            return numbers[rng.choice(len(numbers), count, replace=False)]
        return numbers[choose_weighted(rng, self.weights()[numbers], count)]

    def _all_surprises(self) -> NDArray[np.float64]:
        """[N]"""
        sizes = np.array([len(surprises) for surprises in self._surprises], np.int64)
        if not len(self):
            return np.zeros(0)
        everything = np.concatenate(self._surprises)
        stretches = self._stretches
        begin = (np.cumsum(sizes) - sizes)[stretches.shard] + stretches.first_move
        shift = begin - (self._ends - stretches.num_plies)
        return everything[np.arange(len(self)) + np.repeat(shift, stretches.num_plies)].astype(np.float64)

    def _numbers(self, positions: Positions) -> IndexArray:
        """The numbers of those positions that are in this pool."""
        stretches = self._stretches
        if not len(stretches) or not len(positions):
            return np.zeros(0, np.int64)
        games_per_shard = int(max(stretches.game.max(), positions.game.max())) + 1

        def keys(shard: IndexArray, game: IndexArray, ply: IndexArray) -> IndexArray:
            return (shard * games_per_shard + game) * MOST_PLIES + ply

        first = keys(stretches.shard, stretches.game, stretches.first_ply)
        wanted = keys(positions.shard, positions.game, positions.ply)
        at = np.searchsorted(first, wanted, side="right") - 1
        behind = wanted - first[at]
        inside = (at >= 0) & (behind < stretches.num_plies[at])
        at, behind = at[inside], behind[inside]
        return self._ends[at] - stretches.num_plies[at] + behind


def choose_weighted(rng: np.random.Generator, weights: NDArray[np.float64], count: int) -> IndexArray:
    """[count] numbers below N in random order; i is among them c = count · weights[i] / Σ weights times on average.

    It is there ⌊c⌋ or ⌈c⌉ times, so nothing stands twice whose c is at most 1. Systematic sampling of a shuffled list:
    points at distance 1 on the line on which i has length c. weights [N] ≥ 0, not all 0.
    Source: Goodman, Kish 1950, "Controlled selection: a technique in probability sampling".
    """
    order = rng.permutation(len(weights))
    ends = np.cumsum(weights[order])
    points = (rng.random() + np.arange(count)) * (ends[-1] / count)
    chosen = order[np.searchsorted(ends, points, side="right").clip(max=len(order) - 1)]
    return rng.permutation(chosen)  # copies of one position must not stand side by side
