"""Files that somebody damaged or made to do harm: every reader raises MuGoError, at once and in bounded memory.

One run with a file of each kind. Bits are flipped, ends cut off, and every value of JSON is replaced by each of VALUES;
where a checksum covers what was changed, it is made right again, so that what lies behind it is tried, too.
"""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from pipeline.config import RatingsConfig, ReportConfig, StatusConfig
from pipeline.errors import MuGoError
from pipeline.games.registry import parse_game
from pipeline.gather.command import _counted_before
from pipeline.methods.alphazero.examples import column_types
from pipeline.methods.resignation import watched
from pipeline.printing import printable
from pipeline.ratings.command import ratings
from pipeline.ratings.pool import pool
from pipeline.reports.report.command import report
from pipeline.reports.show import game_records, show
from pipeline.reports.status import status
from pipeline.reports.status_metrics import exposition
from pipeline.reports.status_screen import screen
from pipeline.reports.summaries import summary_json, summary_text
from pipeline.run_state import _state_of
from pipeline.selfplay.opponents import read_champions
from pipeline.storage import layout
from pipeline.storage.chunks import ORIGIN, ChunkHeader, read_chunk, write_chunk
from pipeline.storage.gzipped import compress, decompress
from pipeline.storage.matches import MatchFailure, MatchHeader, match_lock, open_match, write_summary
from pipeline.storage.models import read_model
from pipeline.storage.ratings import Member, Pool, RatedPlayer, Ratings, write_pool, write_ratings
from pipeline.storage.shards import read_shard, write_shard
from tests.helpers import make_champion, make_model
from tests.reports.test_show import match_game, player
from tests.reports.test_show_records import LEFT_COLUMN, record

NOW = datetime(2026, 11, 24, tzinfo=UTC)
GAME = parse_game("tictactoe")
SEED, FLIPS = 1, 12  # damages of each file
TRIED = 2  # of VALUES, for each value
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
        "window": {"positions": 9, "capacity": 10, "max_positions": 20, "total_positions": 9, "latest_shard": "2"},
        "metrics": {"train": part, "holdout_before": part, "holdout_after": part},
    }  # fmt: skip
    (second / "model.json").write_text(json.dumps(info))
    provenance = {"generation": 0, "seed": 1, "settings": {"readouts": 4}, "effective_resign_threshold": -0.9}
    games = [record(LEFT_COLUMN), record([4, 0])]
    for worker in ("w00", "w01"):
        write_shard(folder / "data/selfplay", first.name, worker, "tictactoe", games, provenance, 7)
    types = column_types(GAME)
    columns = {name: np.zeros((2, *shape), dtype) for name, (dtype, shape) in {**types, **ORIGIN}.items()}
    window = {"total_positions": 9, "new_positions": 9, "latest_shard": "2", "skipped": []}
    name = layout.SetName(1, "ffffffff")
    (folder / "data/training_data").mkdir()
    header = ChunkHeader("tictactoe", str(name), 0, 1, 0, GAME.num_planes, window)
    path = folder / "data/training_data" / layout.chunk_name(name, 0, 1)
    write_chunk(path, types, header, columns, ["000000-m/w00/x.gz"])
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
        {"wins": 1, "draws": 0, "losses": 1, "games": 4, "points_needed": 2.5, "promoted": False, "reason": "lost",
         "sprt": {"llr": 0.5}, "guards": {"random>=0.9": {"passed": True}}},
    )  # fmt: skip
    rated = [RatedPlayer(name=f"{first.name}@16", games=2, wins=1, losses=1), RatedPlayer(name="random")]
    write_ratings(
        folder / "data/ratings.json",
        Ratings(game="tictactoe", anchor="random", anchor_elo=0, matches=1, games=2, players=rated),
    )
    members = (Member(name="random", spec="random"), Member(name=first.name, spec=str(first)))
    write_pool(folder / "data/pool.json", Pool(members=members))


READERS: dict[str, Callable[[Path], Any]] = {
    "status": lambda run: seen_status(run),
    "report": lambda run: report(ReportConfig(directory=run, output=run / "report.html")),
    "show": lambda run: list(show(run)),
    "pool": lambda run: summary_text(pool(path=run / "data/pool.json", ratings_path=run / "data/ratings.json")),
    "ratings": lambda run: ratings(RatingsConfig(directory=[run / "data/evaluate"], output=run / "ratings.json")),
    "champions": lambda run: read_champions(run / "saved_models"),
    "window": lambda run: _counted_before(run / "data/training_data"),
    "run state": lambda run: _state_of(run / "saved_models/000001-test"),
}
BY_KIND = {  # what else reads a file, and which of READERS read it, by its name's end
    ".meta": ("status", "report", "show"),
    ".gz": ("report",),
    ".h5": ("window",),
    "model.json": ("status", "report", "show", "run state"),
    "weights.safetensors": (),
    "games.jsonl": ("status", "report", "show", "ratings"),
    "summary.json": ("status", "report", "show"),
    "ratings.json": ("status", "pool"),
    "pool.json": ("pool",),
    "promotions.jsonl": ("status", "report", "champions"),
}


def seen_status(run: Path) -> None:
    summary = status(StatusConfig(directory=run), now=NOW)
    console = Console(width=120, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(screen(summary))
    exposition(summary)
    summary_json(summary)


def shown(path: Path) -> None:
    for text in show(path):
        printable(text).encode()


def with_games(path: Path) -> None:
    shown(path)
    for _, text in game_records(path):
        text.encode(errors="strict")


def read_whole_chunk(path: Path) -> None:
    shown(path)
    read_chunk(path, "tictactoe", column_types(GAME))


def read_all(run: Path, path: Path) -> None:
    """Call everything that reads this file."""
    kind = next(end for end in BY_KIND if path.name.endswith(end))
    own: dict[str, Callable[[Path], Any]] = {
        ".gz": lambda one: (shown(one), watched(read_shard(one))),
        ".h5": read_whole_chunk,
        "weights.safetensors": lambda one: read_model(one.parent),
    }
    for read in [own.get(kind, shown), *(READERS[name] for name in BY_KIND[kind])]:
        try:
            read(run if read in READERS.values() else path)
        except MuGoError as error:
            assert "\n" not in str(error).strip()


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    make_run(folder)
    return folder


@pytest.fixture
def run(pristine: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(pristine, tmp_path / "run", symlinks=True))


def file_of(run: Path, end: str) -> Path:
    return max(path for path in run.rglob("*") if path.name.endswith(end) and not path.name.startswith("."))


@pytest.mark.parametrize("end", BY_KIND)
def test_the_files_as_they_were_are_read(run: Path, end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the tests below might try nothing."""
    path = file_of(run, end)
    shown(path if end != "weights.safetensors" else path.parent)
    for name in BY_KIND[end]:
        READERS[name](run)


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
        seal = {"format": "mugo-chunk", "version": 2, "bytes": len(body), "sha256": hashlib.sha256(body).hexdigest()}
        return json.dumps(seal).encode().ljust(511) + b"\n" + body
    return data


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize("end", BY_KIND)
def test_flipped_bits_and_cut_ends(run: Path, end: str, sealed: bool) -> None:
    if sealed and end not in (".gz", "weights.safetensors"):
        pytest.skip("nothing seals it, or, of HDF5, the library may then do anything")
    path = file_of(run, end)
    whole = path.read_bytes()
    rng = random.Random(SEED)
    for number in range(FLIPS):
        data = bytearray(whole)
        if number % 3 == 0:
            del data[rng.randrange(len(data)) :]
        for _ in range(1 + number % 4):
            if data:
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(reseal(path, bytes(data)) if sealed else bytes(data))
        read_all(run, path)


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


def damaged_json(text: str) -> Iterator[str]:
    """For every value of this JSON some of VALUES, in turn; and a name that stands twice."""
    for number, at in enumerate(places(json.loads(text))):
        for step in range(TRIED):
            yield changed(text, at, VALUES[(number + step * len(VALUES) // TRIED) % len(VALUES)])
    yield text.replace("{", '{"format": 1, "format": 2,', 1)


@pytest.mark.parametrize("end", [end for end in BY_KIND if end.endswith(("json", "jsonl", "meta"))])
def test_wrong_values(run: Path, end: str) -> None:
    path = file_of(run, end)
    lines = path.read_text().splitlines() if end.endswith("jsonl") else [path.read_text()]
    for number, line in enumerate(lines):
        for damaged in damaged_json(line):
            path.write_text("\n".join([*lines[:number], damaged, *lines[number + 1 :]]) + "\n")
            read_all(run, path)


def test_wrong_values_in_the_header_of_a_shard(run: Path) -> None:
    path = file_of(run, ".gz")
    header, body = decompress(path.read_bytes()).split(b"\n", 1)
    for damaged in damaged_json(header.decode()):
        path.write_bytes(reseal(path, compress(damaged.encode() + b"\n" + body)))
        read_all(run, path)
