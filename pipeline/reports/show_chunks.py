"""``show`` for chunks: what they were sampled from, how their labels are distributed, a few examples.

Axes: n examples of a chunk, A actions, C planes, H×W the board. All labels are seen by the player to move.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.games.base import Game, Planes
from pipeline.games.registry import recorded_game
from pipeline.methods.registry import method_named
from pipeline.reports.boards import planes_diagram, top_moves
from pipeline.reports.tables import described, indented
from pipeline.storage.chunks import Chunk, read_chunk, read_header
from pipeline.storage.layout import DEFAULT_METHOD

EXAMPLES_SHOWN = 3


def show_chunk(path: Path) -> Iterator[str]:
    """A chunk's attributes, the distribution of its labels, and examples from all over it."""
    header = read_header(path)
    game = recorded_game(header.game)
    chunk = read_chunk(path, game.spec, method_named(header.method).columns(game))
    columns = chunk.columns
    part = "hold-out: games that are never trained on" if header.index < 0 else f"{header.index} of {header.num_chunks}"
    yield described(
        {
            "chunk": path,
            "game": header.game,
            "set": header.set_id,
            "part": part,
            "seed": header.seed,
            "examples": f"{chunk.num_examples:,}",
            "sampled from": f"{num_games(columns):,} games in {len(np.unique(columns['shard'])):,} shards",
            **{f"window {name}": value for name, value in header.window.items()},
        }
    )
    if not chunk.num_examples:
        return
    yield ""
    if header.method != DEFAULT_METHOD:
        yield described({name: f"{column.mean():.4g} on average" for name, column in columns.items()})
        return
    yield described(distributions(columns))
    for index in np.linspace(0, chunk.num_examples - 1, EXAMPLES_SHOWN).astype(int):
        yield ""
        yield example(game, chunk, int(index))


def num_games(columns: dict[str, NDArray[Any]]) -> int:
    return len(np.unique(np.stack([columns["shard"], columns["game"]], axis=1), axis=0))


def are_results(values: NDArray[np.floating]) -> bool:
    """Whether values are results alone: nothing between a win, a draw and a loss."""
    return bool(np.isin(values, (-1, 0, 1)).all())


def distributions(columns: dict[str, NDArray[Any]]) -> dict[str, object]:
    value, policy = columns["value"], columns["policy"].astype(np.float32)
    targets = columns["policy_weight"] > 0
    known = columns["final_weight"] > 0
    facts: dict[str, object] = {}
    if are_results(value):
        won, drawn, lost = np.mean(value > 0), np.mean(value == 0), np.mean(value < 0)
        facts["result"] = f"won {won:.1%}, drawn {drawn:.1%}, lost {lost:.1%}"
    else:
        facts["value"] = f"{value.mean():+.2f} on average, deviation {value.std():.2f}; mixed by gather --td-lambda"
    facts |= {
        "policy targets": f"{np.mean(targets):.1%} of the examples",
        "replies known": f"{np.mean(columns['reply_weight'] > 0):.1%} of the examples",
        "plies": f"{columns['ply'].min()} to {columns['ply'].max()}, {columns['ply'].mean():.1f} on average",
        "ends known": f"{np.mean(known):.1%} of the examples; the others' games were resigned",
    }
    if targets.any():
        chosen = policy[targets]
        entropy = -np.sum(chosen * np.log(np.maximum(chosen, 1e-12)), axis=1)
        favourite = chosen.max(axis=1).mean()
        facts["policy"] = f"favourite move {favourite:.1%}, entropy {entropy.mean():.2f} nats, on average"
    if known.any():
        score = columns["score"][known]
        facts["score"] = f"{score.mean():+.1f} on average, deviation {score.std():.1f}"
        owned = columns["ownership"][known]
        facts["ownership"] = f"own {np.mean(owned > 0):.1%}, opponent's {np.mean(owned < 0):.1%} of the points"
    return facts


def example(game: Game, chunk: Chunk, index: int) -> str:
    columns = chunk.columns
    origin = f"{chunk.shards[columns['shard'][index]]}, game {columns['game'][index]}, ply {columns['ply'][index]}"
    lines = [
        f"example {index}: from {origin}",
        indented(planes_diagram(game, unpacked_planes(game, columns["planes"][index]))),
        "    X the player to move, O the opponent",
    ]
    if columns["policy_weight"][index]:
        lines.append(f"    policy  {top_moves(game, np.arange(game.num_actions), columns['policy'][index])}")
    else:
        lines.append("    policy  not a target")
    if columns["reply_weight"][index]:
        lines.append(f"    reply   {top_moves(game, np.arange(game.num_actions), columns['reply'][index])}")
    label, precision = ("result", "g") if are_results(columns["value"]) else ("value ", ".3f")
    lines.append(f"    {label}  {columns['value'][index]:+{precision}}")
    if columns["final_weight"][index]:
        lines.append(f"    score   {columns['score'][index]:+g} at the end")
    return "\n".join(lines)


def unpacked_planes(game: Game, bits: NDArray[np.uint8]) -> Planes:
    """[C, H, W] of one example's packed bits."""
    height, width = game.board_shape
    return np.unpackbits(bits, count=game.num_planes * height * width).reshape(game.num_planes, height, width)
