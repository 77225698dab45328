"""``GameTable``: the games that contain wanted positions, for replaying them in one batch.

Games are sorted by length, longest first, so that those in progress are always the first rows. Axes: N wanted
positions, G games, T plies of the longest game.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import FileError
from pipeline.methods.method import IndexArray, Positions
from pipeline.run.shards import Shard


class GameTable:
    """See the module docstring.

    row, ply [N]  the wanted positions' games and plies
    moves [T, G]  int32, -1 after a game's end
    All other arrays are [G].
    """

    def __init__(self, shards: Sequence[Shard], wanted: Positions) -> None:
        self.shards = shards
        first_game = np.cumsum([0, *(shard.num_games for shard in shards)])
        keys, row = np.unique(first_game[wanted.shard] + wanted.game, return_inverse=True)
        all_lengths = np.concatenate([shard.lengths for shard in shards]) if shards else np.zeros(0, np.int32)
        order = np.argsort(-all_lengths[keys], kind="stable")
        keys = keys[order]
        self.row = np.argsort(order)[row]
        self.ply = wanted.ply
        self.shard = np.searchsorted(first_game, keys, side="right") - 1
        self.game = keys - first_game[self.shard]
        self.lengths = all_lengths[keys].astype(np.int64)
        self.results = self._gather("results", keys)
        self.ends = self._gather("ends", keys)
        self.learners = self._gather("learners", keys)
        self.setups = self._gather("setups", keys)
        self.moves = self.per_move("moves", np.int32(-1))

    def __len__(self) -> int:
        return len(self.lengths)

    def _gather(self, name: str, keys: IndexArray) -> NDArray[Any]:
        return np.concatenate([getattr(shard, name) for shard in self.shards])[keys] if len(keys) else np.zeros(0)

    def per_move(self, name: str, missing: np.generic, shape: tuple[int, ...] = ()) -> NDArray[Any]:
        """[T, G, *shape] a column of the shards with an entry of this shape per move.

        missing: fills the plies after a game's end; its type is the result's. Raises FileError if a shard lacks the
        column.
        """
        found = np.full((int(self.lengths.max(initial=0)), len(self), *shape), missing)
        for row in range(len(self)):
            shard = self.shards[self.shard[row]]
            column = getattr(shard, name) if hasattr(shard, name) else shard.own_column(name)
            start = shard.move_offsets[self.game[row]]
            found[: self.lengths[row], row] = column[start : start + self.lengths[row]]
        return found

    def of_wanted(self, name: str) -> NDArray[Any]:
        """[N, …] the entries of the wanted positions in a column of the shards with an entry per move.

        Raises FileError if a shard lacks the column.
        """
        parts = []
        for number, shard in enumerate(self.shards):
            here = self.shard[self.row] == number
            at = shard.move_offsets[self.game[self.row[here]]] + self.ply[here]
            parts.append((here, shard.own_column(name)[at]))
        found = np.empty((len(self.row), *parts[0][1].shape[1:]), parts[0][1].dtype)  # there is a shard
        for here, entries in parts:
            found[here] = entries
        return found

    def error(self, row: int | np.integer, problem: str, ply: int | None = None) -> FileError:
        where = f"game {self.game[row]}" if ply is None else f"game {self.game[row]}, ply {ply}"
        return FileError(self.shards[self.shard[row]].path, f"{where}: {problem}")
