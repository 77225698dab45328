"""Calibration positions of the training window, which a trained model carries for int8: see players/loading.py.

They are examples of the set that it learns from, the same whenever that set is chosen. Every second game gives
positions for scales, the others' check them, so that none of a game stands on both sides.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.methods.method import Method
from pipeline.players.loading import in_turn
from pipeline.run.chunks import ChunkSet, read_chunk

POSITIONS = 256  # kept at most; more make no difference that was ever measured (docs/log)
LEAST = 64  # with fewer, positions of random games say more
EXAMPLES = 2_048  # that they are chosen from, so that halves aren't what a few games happen to be


def calibration_positions(method: Method, game: Any, chunks: ChunkSet) -> NDArray[np.uint8] | None:
    """[N, bytes] as run/models.py keeps them; None if the method has none, or the set is of too few positions.

    Chunks are uniform samples of the window, so their first examples are one, too. Raises FileError.
    """
    planes, games, plies = [], [], []
    shards: dict[str, int] = {}
    for path in chunks.chunks:
        chunk = read_chunk(path, game.spec, method.columns(game))
        found = method.calibration(chunk.columns)
        if found is None:
            return None
        numbers = np.array([shards.setdefault(name, len(shards)) for name in chunk.shards], np.int64)
        planes.append(found)
        games.append(numbers[chunk.columns["shard"]] << 32 | chunk.columns["game"])
        plies.append(chunk.columns["ply"])
        if sum(map(len, planes)) >= EXAMPLES:
            break
    _, of_game = np.unique(np.concatenate(games), return_inverse=True)
    order = np.argsort(np.concatenate(plies), kind="stable")
    packed, half = np.concatenate(planes)[order], of_game[order] % 2
    halves = [packed[half == which] for which in range(2)]
    return in_turn(halves, POSITIONS) if min(map(len, halves)) >= LEAST // 2 else None
