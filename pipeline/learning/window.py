"""The window: the newest positions of self-play, and which of them may be trained on.

A window holds exactly the newest max_positions positions if there are that many: the oldest shard may be cut, within a
game even. Whole games are held out; a game's hold-out depends on its shard's name and its place in it alone, so it
stays held out in every window, whatever the seed. Opens sidecars only. Axes: S shards, G games.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import FileError, MuGoError
from pipeline.records.shards import ShardMeta, newest_shards

IndexArray = NDArray[np.int64]


@dataclass(frozen=True)
class Window:
    """metas: S sidecars, newest shard first. The games of all shards, in that order, one an entry of the arrays."""

    metas: tuple[ShardMeta, ...]
    game_shard: IndexArray  # [G] index into metas
    game_index: IndexArray  # [G] index in the shard
    first_ply: IndexArray  # [G] plies before this are outside the window; 0 but for the game that the window cuts
    num_plies: IndexArray  # [G] positions within the window
    held_out: NDArray[np.bool_]  # [G]

    @property
    def num_positions(self) -> int:
        return int(self.num_plies.sum())

    @property
    def num_games(self) -> int:
        return len(self.num_plies)

    def pool(self, held_out: bool, without: frozenset[int] = frozenset()) -> Pool:
        """The positions to train on, or those held out; without: shards (indices into metas) to leave out."""
        games = np.flatnonzero((self.held_out == held_out) & ~np.isin(self.game_shard, list(without)))
        return Pool(self, games)


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


class Pool:
    """Positions of some games of a window, numbered from 0."""

    def __init__(self, window: Window, games: IndexArray) -> None:
        self._window = window
        self._games = games
        self._ends = np.cumsum(window.num_plies[games])

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def positions(self, numbers: IndexArray) -> Positions:
        """Which positions these numbers mean."""
        order = np.searchsorted(self._ends, numbers, side="right")
        games = self._games[order]
        window = self._window
        ply = numbers - (self._ends[order] - window.num_plies[games]) + window.first_ply[games]
        return Positions(window.game_shard[games], window.game_index[games], ply)

    def draw(self, count: int, rng: np.random.Generator) -> Positions:
        """count different positions, each equally likely, in random order. count must not exceed the pool."""
        return self.positions(_choose(rng, len(self), count))

    def draw_others(self, count: int, taken: Positions, rng: np.random.Generator) -> Positions:
        """Like draw, but none of those taken; fewer if there are fewer."""
        free = np.ones(len(self), np.bool_)
        free[self._numbers(taken)] = False
        left = np.flatnonzero(free)
        return self.positions(left[_choose(rng, len(left), min(count, len(left)))])

    def _numbers(self, positions: Positions) -> IndexArray:
        """The numbers of those positions that are in this pool."""
        window, games = self._window, self._games
        span = int(window.game_index.max(initial=0)) + 1
        keys = window.game_shard[games] * span + window.game_index[games]
        order = np.argsort(keys)
        wanted = positions.shard * span + positions.game
        at = order[np.searchsorted(keys, wanted, sorter=order).clip(max=max(len(keys) - 1, 0))] if len(keys) else order
        if not len(at):
            return np.zeros(0, np.int64)
        inside = keys[at] == wanted
        at, ply = at[inside], positions.ply[inside]
        return self._ends[at] - window.num_plies[games[at]] + ply - window.first_ply[games[at]]


def _choose(rng: np.random.Generator, total: int, count: int) -> IndexArray:
    """count different numbers below total, in random order."""
    return rng.choice(total, count, replace=False) if count else np.zeros(0, np.int64)


def scan_window(
    directory: Path, max_positions: int, holdout_share: float, on_damage: Callable[[FileError], None]
) -> Window:
    """The newest positions under directory; see newest_shards for the order and on_damage.

    Raises MuGoError if the window mixes games, naming both.
    """
    metas: list[ShardMeta] = []
    found = 0
    for meta in newest_shards(directory, on_damage):
        if metas and meta.game != metas[0].game:
            raise MuGoError(
                f"{directory}: the newest {max_positions:,} positions mix {metas[0].game} ({metas[0].id}) and "
                f"{meta.game} ({meta.id}); wanted one game; move the others away or lower --max-positions"
            )
        metas.append(meta)
        found += meta.positions
        if found >= max_positions:
            break
    return _window(tuple(metas), max(found - max_positions, 0), holdout_share)


def _window(metas: tuple[ShardMeta, ...], surplus: int, holdout_share: float) -> Window:
    """surplus: how many positions of the oldest shard, its first ones, lie outside."""
    if not metas:
        none = np.zeros(0, np.int64)
        return Window((), none, none, none, none, np.zeros(0, np.bool_))
    lengths = np.concatenate([meta.lengths for meta in metas]).astype(np.int64)
    counts = np.array([meta.games for meta in metas])
    shard = np.repeat(np.arange(len(metas)), counts)
    index = np.arange(len(lengths)) - np.repeat(np.cumsum(counts) - counts, counts)
    held_out = np.concatenate([holdout_games(meta, holdout_share) for meta in metas])

    first_ply = np.zeros_like(lengths)
    oldest = len(lengths) - int(counts[-1])
    before = np.cumsum(lengths[oldest:]) - lengths[oldest:]  # positions of the oldest shard before each of its games
    first_ply[oldest:] = (surplus - before).clip(0, lengths[oldest:])
    inside = first_ply < lengths
    return Window(
        metas, shard[inside], index[inside], first_ply[inside], (lengths - first_ply)[inside], held_out[inside]
    )


def holdout_games(meta: ShardMeta, share: float) -> NDArray[np.bool_]:
    """[G] which games of a shard are held out. A game that is, is so for every larger share too."""
    seed = np.frombuffer(hashlib.blake2b(meta.id.encode(), digest_size=8).digest(), np.uint64)[0]
    # splitmix64 of the shard's hash and the game's index: a random number per game that depends on nothing else
    with np.errstate(over="ignore"):
        mixed = seed + np.arange(1, meta.games + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(31)
    return (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53 < share
