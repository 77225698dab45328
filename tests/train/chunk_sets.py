"""Chunk sets made up for training tests: positions of random games, so that planes and symmetries mean something."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from pipeline.games.contract import Game
from pipeline.methods.alphazero.examples import column_types
from pipeline.run import layout
from pipeline.run.chunks import ORIGIN, Chunk, ChunkHeader, ChunkSet, newest_complete_set, read_chunk, write_chunk
from tests.run.random_games import window_of


def made_up_examples(game: Game, count: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Columns of a chunk: positions of random play, with made-up targets. Some policies and endings don't count."""
    rng = np.random.default_rng(seed)
    states = game.initial(count)
    history = game.initial_history(states)
    stop = rng.integers(0, min(game.max_plies, 12), count)
    for ply in range(int(stop.max(initial=0))):
        legal = game.legal(states, history)
        going = (stop > ply) & legal.any(axis=1)
        rows = np.flatnonzero(going)
        actions = (rng.random(legal.shape) * legal)[rows].argmax(axis=1).astype(np.int32)
        states[rows] = game.play(states[rows], actions, history.select(rows))
        history.append(rows, game.keys(states[rows]))
    legal = game.legal(states, history)
    planes = game.observe(states, legal)
    policy = rng.random((count, game.num_actions)) ** 4 * np.maximum(legal, 1e-9)
    reply = rng.random((count, game.num_actions)) ** 4
    replied = rng.random(count) < 0.7
    final = rng.random(count) < 0.8
    columns: dict[str, Any] = {
        "planes": np.packbits(planes.reshape(count, game.num_planes * game.num_points), axis=1),
        "policy": policy / policy.sum(1, keepdims=True),
        "policy_weight": rng.random(count) < 0.8,
        "value": rng.choice([-1.0, 0.0, 1.0], count),
        "ownership": rng.integers(-1, 2, (count, game.num_points)) * final[:, None],
        "score": rng.normal(0, 5, count) * final,
        "final_weight": final,
        "reply": reply / reply.sum(1, keepdims=True) * replied[:, None],
        "reply_weight": replied,
        "side": np.full(count, game.board_shape[0]),  # only where the network plays on several boards
        "shard": np.zeros(count),
        "game": np.arange(count),
        "ply": game.plies(states),
    }
    return {name: columns[name].astype(dtype) for name, (dtype, _) in {**column_types(game), **ORIGIN}.items()}


def write_set(
    directory: Path, game: Game, sizes: list[int], holdout: int = 0, number: int = 1, seed: int = 0,
    method: str = "alphazero", **drawn_from: Any,
) -> ChunkSet:  # fmt: skip
    """A complete set with chunks of these sizes. drawn_from: more of the headers' window."""
    name = layout.SetName(number, f"{seed:08x}")
    directory.mkdir(parents=True, exist_ok=True)
    parts = [(index, size, layout.chunk_name(name, index, len(sizes))) for index, size in enumerate(sizes)]
    if holdout:
        parts.append((-1, holdout, layout.holdout_name(name)))
    for index, size, file in parts:
        window = window_of(positions=sum(sizes), holdout_positions=holdout, **drawn_from)
        header = ChunkHeader(game.spec, str(name), index, len(sizes), seed, game.num_planes, method, window)
        columns = made_up_examples(game, size, seed * 1000 + index + 1)
        write_chunk(directory / file, header, columns, ["000000-init/w00/made-up.gz"])
    found = newest_complete_set(directory)
    assert found is not None
    return found


def chunk_of(path: Path, game: Game) -> Chunk:
    return read_chunk(path, game.spec, column_types(game))
