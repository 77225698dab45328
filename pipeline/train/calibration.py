"""Calibration positions of the training window, stored with a trained model for int8 (players/loading.py).

They are examples of the chunk set that the model learned from; equal sets give equal positions. Every second game
gives positions that set the scales, the other games give positions that check them, so no game is on both sides.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.methods.method import Method
from pipeline.players.loading import in_turn
from pipeline.run.chunks import ChunkSet, read_chunk

POSITIONS = 256  # kept at most; more made no measurable difference (docs/log)
LEAST = 64  # with fewer, positions of random games are better
EXAMPLES = 2_048  # to choose from, so that neither half depends on a few games


def calibration_positions(method: Method, game: Any, chunks: ChunkSet) -> NDArray[np.uint8] | None:
    """[N, bytes] as run/models.py stores them; None if the method has none or the set has too few positions.

    Takes the first examples: chunks are uniform samples of the window, and so are their beginnings. Raises FileError.
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
