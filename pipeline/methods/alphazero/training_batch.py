"""Examples as tensors: unpacked, each under one of the board's symmetries.

Axes: B batch, A actions, C planes, H×W board, P points, K symmetries.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pipeline.games.capabilities import AllBoards
from pipeline.games.contract import Game
from pipeline.methods.alphazero.examples import entries
from pipeline.methods.method import IndexArray

Columns = Mapping[str, NDArray[Any]]


class Batch(NamedTuple):
    """B examples as tensors. The weights of targets are 1 if the row's target is known, else 0.

    sample_weight multiplies a row's loss in every term: 1, or prioritised replay's correction.
    """

    planes: Tensor  # [B, C, H, W] uint8
    policy: Tensor  # [B, A] float32, sums to 1
    policy_weight: Tensor  # [B] float32
    value: Tensor  # [B] float32
    ownership: Tensor  # [B, P] float32, -1, 0 or +1
    score: Tensor  # [B] float32, in the game's own points
    final_weight: Tensor  # [B] float32: ownership and score are known
    reply: Tensor  # [B, A] float32, the policy of the position after the move that was played; sums to 1
    reply_weight: Tensor  # [B] float32
    sample_weight: Tensor  # [B] float32


def make_batch(game: Game, columns: Columns, rows: IndexArray, symmetry: IndexArray) -> Batch:
    """Examples rows [B] of columns (packed, as in examples.column_types), each under its symmetry [B] in 0..K-1.

    Planes, policy, reply and ownership are transformed together. Every sample_weight is 1. game: as for column_types;
    all rows must be of one board size.
    """
    if isinstance(game, AllBoards) and "side" in columns:
        (side,) = np.unique(columns["side"][rows])  # raises ValueError for several
        game = _board(game, int(side))
    arrays: dict[str, NDArray[Any]] = {name: columns[name][rows] for name in Batch._fields[1:-1]}
    arrays |= {name: arrays[name][:, :size] for name, size in entries(game).items()}
    arrays = {name: array.astype(np.float32) for name, array in arrays.items()}
    num_bits = game.num_planes * game.num_points
    bits = np.unpackbits(columns["planes"][rows], axis=1, count=num_bits)
    arrays["planes"] = bits.reshape(len(rows), game.num_planes, game.num_points)
    arrays["sample_weight"] = np.ones(len(rows), np.float32)
    for name, source in _sources(game).items():
        arrays[name] = _move(arrays[name], source, symmetry)
    arrays["planes"] = arrays["planes"].reshape(len(rows), game.num_planes, *game.board_shape)
    return Batch(**{name: torch.from_numpy(array) for name, array in arrays.items()})


@lru_cache(maxsize=32)
def _board(game: AllBoards, side: int) -> Game:
    return game.on_board(side)


@lru_cache(maxsize=32)
def _sources(game: Game) -> dict[str, IndexArray]:
    """Where each entry of a column's transformed row comes from: transformed[q] = row[source[k, q]]."""
    # The game's tables say where an entry goes; argsort inverts them.
    points, actions = np.argsort(game.symmetries.points, axis=1), np.argsort(game.symmetries.actions, axis=1)
    return {"planes": points, "ownership": points, "policy": actions, "reply": actions}


def _move(array: NDArray[Any], source: IndexArray, symmetry: IndexArray) -> NDArray[Any]:
    """array [B, …, n] with each row's last axis permuted by its symmetry: one gather per symmetry, not per row."""
    moved = np.empty_like(array)
    for index in range(len(source)):
        rows = np.flatnonzero(symmetry == index)
        if rows.size:
            moved[rows] = np.take(array[rows], source[index], axis=-1)
    return moved
