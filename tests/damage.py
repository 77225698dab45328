"""A run with a file of every kind, and damage that only somebody who means it would do: used by all tests of readers.

Where a checksum covers what was changed, ``reseal`` makes it right again, so that what lies behind it is tried, too.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.games.specs import parse_game
from pipeline.methods.alphazero.examples import column_types
from pipeline.run import layout
from pipeline.run.chunks import ORIGIN, ChunkHeader, write_chunk
from pipeline.run.matches import MatchFailure, MatchHeader, match_lock, open_match, write_summary
from pipeline.run.ratings import Member, Pool, RatedPlayer, Ratings, write_record
from tests.helpers import make_champion, make_model
from tests.reports.test_show import match_game, player
from tests.reports.test_show_games import LEFT_COLUMN, record
from tests.run.random_games import window_of, write_shard

GAME = parse_game("tictactoe")
DEEP = "[" * 2000 + "]" * 2000
# As JSON text, because some of them are none.
VALUES = (
    "null", "true", "-1", "0.5", "1000000000000000", "1e308", "1e999", "-1e999", "NaN", "Infinity", "-Infinity",
    '""', '"\\u001b[2J\\n"', '"\\u0000"', '"\\ud800"', "[]", "{}", "[null]", '{"a": null}', "[[1]]",
    "1" + "0" * 250, "1" + "0" * 400, "9" * 5000, "[" * 60 + "]" * 60, DEEP,
)  # fmt: skip


def make_run(folder: Path) -> None:
    """A file of every kind; the readers look at all of them."""
    first = make_champion(folder / "saved_models")
    second = make_model(folder / "saved_models", 1, seed=1)
    info = json.loads((second / "model.json").read_text())
    part = {"policy": 1.5, "value": 0.75, "total": 2.25}
    info["parents"] = [first.name]
    info["manifest"] = {
        "stage": "train", "total_samples": 128, "seconds": 12.5, "config": {"epochs": 1},
        "window": {"positions": 9, "capacity": 10, "max_positions": 20, "total_positions": 9, "counted_shards": {}},
        "metrics": {"train": part, "holdout_before": part, "holdout_after": part},
    }  # fmt: skip
    (second / "model.json").write_text(json.dumps(info))
    provenance = {"generation": 0, "seed": 1, "settings": {"readouts": 4}, "effective_resign_threshold": -0.9}
    games = [record(LEFT_COLUMN), record([4, 0])]
    for worker in ("w00", "w01"):
        write_shard(folder / "data/selfplay", first.name, worker, "tictactoe", games, provenance, 7)
    types = column_types(GAME)
    columns = {name: np.zeros((2, *shape), dtype) for name, (dtype, shape) in {**types, **ORIGIN}.items()}
    window = window_of(total_positions=9, new_positions=9)
    name = layout.SetName(1, "ffffffff")
    (folder / "data/training_data").mkdir()
    header = ChunkHeader("tictactoe", str(name), 0, 1, 0, GAME.num_planes, "alphazero", window)
    path = folder / "data/training_data" / layout.chunk_name(name, 0, 1)
    write_chunk(path, header, columns, ["000000-m/w00/x.gz"])
    match = folder / "data/evaluate" / layout.match_name(second.name, first.name)
    head = MatchHeader(
        players=(player(second.name, parents=[f"{first.name}@16"]), player(first.name)), game="tictactoe", games=4,
        threshold=0.5, settings={"opening_plies": 1, "exclude_duplicates": True}, openings=[[0], [4]],
    )  # fmt: skip
    with match_lock(match):
        writer = open_match(match, head)
        writer.add([match_game(0, LEFT_COLUMN, 1), match_game(1, LEFT_COLUMN, 1)])
        writer.add_failure(
            MatchFailure(failed=2, attempt=1, kind="broken", player=first.name, problem="it died", moves=[4])
        )
    write_summary(
        match,
        {"wins": 1, "draws": 0, "losses": 1, "games": 4, "measured": 4, "points_needed": 2.5, "promoted": False,
         "reason": "lost", "sprt": {"llr": 0.5}, "conditions": {"random>=0.9": {"passed": True}}},
    )  # fmt: skip
    rated = [RatedPlayer(name=f"{first.name}@16", games=2, wins=1, losses=1), RatedPlayer(name="random")]
    write_record(
        folder / "data/ratings.json",
        Ratings(game="tictactoe", anchor="random", anchor_elo=0, matches=1, games=2, players=rated),
    )
    members = (Member(name="random", spec="random"), Member(name=first.name, spec=str(first)))
    write_record(folder / "data/pool.json", Pool(members=members))


def file_of(run: Path, end: str) -> Path:
    return max(path for path in run.rglob("*") if path.name.endswith(end) and not path.name.startswith("."))


def reseal(path: Path, data: bytes) -> bytes:
    """Damage with a checksum that is right again, as only somebody who means it would write it."""
    digest = hashlib.sha256(data).hexdigest()
    if path.name.endswith(".gz"):
        meta = layout.meta_path(path)
        meta.write_text(json.dumps({**json.loads(meta.read_text()), "bytes": len(data), "sha256": digest}))
    elif path.name.endswith(".safetensors"):
        info = json.loads((path.parent / "model.json").read_text())
        info["files"][path.name] = {"bytes": len(data), "sha256": digest}
        (path.parent / "model.json").write_text(json.dumps(info))
    elif path.name.endswith(".h5"):
        body = data[512:]
        seal = {"format": "mugo-chunk", "version": 1, "bytes": len(body), "sha256": hashlib.sha256(body).hexdigest()}
        return json.dumps(seal).encode().ljust(511) + b"\n" + body
    return data


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*at, key))


def changed(text: str, at: tuple[Any, ...], new: str) -> str:
    """JSON with the value at this place replaced by this text."""
    if not at:
        return new
    value = json.loads(text)
    inner = value
    for key in at[:-1]:
        inner = inner[key]
    inner[at[-1]] = "@@"
    return json.dumps(value).replace('"@@"', new, 1)
