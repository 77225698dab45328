"""``show`` for chunks: the distribution of their labels, and some examples.

Axes: N examples, A actions, C planes, H×W the board. Labels are from the viewpoint of the player to move.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import indent
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import named_in
from pipeline.games.capabilities import AllBoards
from pipeline.games.contract import Game, Planes
from pipeline.games.specs import recorded_game
from pipeline.methods.alphazero.examples import entries
from pipeline.methods.named import method_named
from pipeline.phrases import counted
from pipeline.reports.recorded_games import top_moves
from pipeline.reports.tables import described, table
from pipeline.run.chunks import ORIGIN, Chunk, read_chunk, read_header
from pipeline.run.order import COUNTED

EXAMPLES_SHOWN = 3
MOST = 16  # numbers of a column per example; averages of a larger one mean nothing


def without_counts(window: Mapping[str, Any]) -> dict[str, Any]:
    """A window's description without the number of shards counted for every worker."""
    return {name: value for name, value in window.items() if name != COUNTED}


def show_chunk(path: Path) -> Iterator[str]:
    """A chunk's attributes, the distribution of its labels, and some evenly spaced examples."""
    header = read_header(path)
    with named_in(path):
        game = recorded_game(header.game)
        types = method_named(header.method).columns(game)
    chunk = read_chunk(path, game.spec, types)
    columns = chunk.columns
    num_shards = len(np.unique(columns["shard"]))
    part = "hold-out: games that are never trained on" if header.index < 0 else f"{header.index} of {header.num_chunks}"
    yield described(
        {
            "chunk": path,
            "game": header.game,
            "set": header.set_id,
            "part": part,
            "seed": header.seed,
            "examples": f"{chunk.num_examples:,}",
            "sampled from": f"{counted(num_games(columns), 'game')} in {counted(num_shards, 'shard')}",
            **{f"window {name}": value for name, value in without_counts(header.window).items()},
        }
    )
    if not chunk.num_examples:
        return
    yield ""
    if header.method != "alphazero":
        yield from _numbers(columns)
        return
    yield described(distributions(columns))
    for index in np.linspace(0, chunk.num_examples - 1, EXAMPLES_SHOWN).astype(int):
        yield ""
        yield example(game, chunk, int(index))


def _numbers(columns: dict[str, NDArray[Any]]) -> Iterator[str]:
    """Means of the small columns, entry by entry, then some examples. Leaves out entries that are always NaN."""
    flat = {name: column.reshape(len(column), -1) for name, column in columns.items() if column[0].size <= MOST}
    known = {name: column[:, ~np.isnan(column).all(axis=0)] for name, column in flat.items()}
    shown = {name: column for name, column in known.items() if column.shape[1]}

    def text(numbers: NDArray[np.floating]) -> str:
        return " ".join(f"{number:.4g}" for number in numbers.tolist())

    means = {name: np.nanmean(column, axis=0) for name, column in shown.items() if name not in ORIGIN}
    yield described({name: f"{text(mean)} on average" for name, mean in means.items()})
    names = tuple(sorted(shown, key=lambda name: name not in ORIGIN))
    chosen = np.linspace(0, len(shown["ply"]) - 1, EXAMPLES_SHOWN).astype(int)
    yield ""
    yield table([tuple(text(shown[name][index]) for name in names) for index in chosen], names)


def num_games(columns: dict[str, NDArray[Any]]) -> int:
    return len(np.unique(np.stack([columns["shard"], columns["game"]], axis=1), axis=0))


def are_results(values: NDArray[np.floating]) -> bool:
    """Whether all values are wins, draws or losses, with nothing in between."""
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
        "ends known": f"{np.mean(known):.1%} of the examples; other games were resigned or cut by the move limit",
    }
    if "side" in columns:
        shares = {side: np.mean(columns["side"] == side) for side in np.unique(columns["side"]).tolist()}
        facts["boards"] = ", ".join(f"{side}×{side} {share:.1%}" for side, share in shares.items())
    if targets.any():
        chosen = policy[targets]
        entropy = -np.sum(chosen * np.log(np.maximum(chosen, 1e-12)), axis=1)
        favourite = chosen.max(axis=1).mean()
        facts["policy"] = f"favourite move {favourite:.1%}, entropy {entropy.mean():.2f} nats, on average"
    if known.any():
        score = columns["score"][known]
        facts["score"] = f"{score.mean():+.1f} on average, deviation {score.std():.1f}"
        owned = columns["ownership"][known]
        points = owned.size
        if "side" in columns:
            points = int((columns["side"][known].astype(np.int64) ** 2).sum())
        own, others = ((owned > 0).sum() / points, (owned < 0).sum() / points)
        facts["ownership"] = f"own {own:.1%}, opponent's {others:.1%} of the points"
    return facts


def example(game: Game, chunk: Chunk, index: int) -> str:
    row = {name: column[index] for name, column in chunk.columns.items()}
    if isinstance(game, AllBoards):  # smaller boards use the first entries
        game = game.on_board(int(row["side"]))
        row |= {name: row[name][:size] for name, size in entries(game).items()}
    actions = np.arange(game.num_actions)
    policy = top_moves(game.action_name, actions, row["policy"]) if row["policy_weight"] else "not a target"
    lines = [
        f"example {index}: from {chunk.shards[row['shard']]}, game {row['game']}, ply {row['ply']}",
        indent(planes_diagram(game, row["planes"]), "    "),
    ]
    if type(game).planes_diagram is not Game.planes_diagram:
        lines.append("    X the player to move, O the opponent")
    lines.append(f"    policy  {policy}")
    if row["reply_weight"]:
        lines.append(f"    reply   {top_moves(game.action_name, actions, row['reply'])}")
    label, precision = ("result", "g") if are_results(chunk.columns["value"]) else ("value ", ".3f")
    lines.append(f"    {label}  {row['value'] + 0.0:+{precision}}")
    if row["final_weight"]:
        lines.append(f"    score   {row['score'] + 0.0:+g} at the end")
    return "\n".join(lines)


def planes_diagram(game: Game, bits: NDArray[np.uint8]) -> str:
    """A position from its packed planes, X the mover's stones; then the names of the planes that are all 1."""
    height, width = game.board_shape
    planes: Planes = np.unpackbits(bits, count=game.num_planes * height * width).reshape(-1, height, width)
    full = [name for name, plane in zip(game.plane_names, planes, strict=True) if plane.all()]
    return game.planes_diagram(planes) + (f"\nplanes all 1: {', '.join(full)}" if full else "")
