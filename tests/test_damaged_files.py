"""Files that somebody damaged or made to do harm: every reader raises MuGoError, at once and in bounded memory.

One run with a file of each kind. Bits are flipped, ends cut off, and every value of JSON is replaced by each of VALUES;
where a checksum covers what was changed, it is made right again, so that what lies behind it is tried, too.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from pipeline.command_state import run_state_of
from pipeline.errors import MuGoError, NotYet
from pipeline.gather.command import gather
from pipeline.gather.config import GatherConfig
from pipeline.methods.alphazero.examples import column_types
from pipeline.methods.resignation import no_resign_games
from pipeline.phrases import printable
from pipeline.ratings.command import ratings
from pipeline.ratings.config import RatingsConfig
from pipeline.ratings.pool import pool
from pipeline.reports.config import ReportConfig, StatusConfig
from pipeline.reports.report.command import report
from pipeline.reports.show import game_records, show
from pipeline.reports.status import status
from pipeline.reports.status_metrics import exposition
from pipeline.reports.status_screen import screen
from pipeline.reports.summaries import summary_json, summary_text
from pipeline.run.chunks import read_chunk
from pipeline.run.models import read_champions, read_model
from pipeline.run.shards import compress, decompress, read_shard
from pipeline.selfplay.config import SelfplayConfig
from tests.damage import GAME, VALUES, changed, file_of, make_run, places, reseal

NOW = datetime(2026, 11, 24, tzinfo=UTC)
SEED, FLIPS = 1, 12  # damages of each file
TRIED = 2  # of VALUES, for each value

READERS: dict[str, Callable[[Path], Any]] = {
    "status": lambda run: seen_status(run),
    "report": lambda run: report(ReportConfig(directory=run, output=run / "report.html")),
    "show": lambda run: list(show(run)),
    "pool": lambda run: summary_text(pool(path=run / "data/pool.json", ratings_path=run / "data/ratings.json")),
    "ratings": lambda run: ratings(RatingsConfig(directory=[run / "data/evaluate"], output=run / "ratings.json")),
    "champions": lambda run: read_champions(run / "saved_models"),
    "window": lambda run: look_at_window(run / "data"),
    "run state": lambda run: run_state_of(SelfplayConfig(network=run / "saved_models/best_model")),
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


def look_at_window(data: Path) -> None:
    """All that gather reads before it finds that there are too few games."""
    wanted = GatherConfig(directory=data / "selfplay", output_directory=data / "training_data", min_positions=1_000_000)
    with suppress(NotYet):
        gather(wanted)


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
        ".gz": lambda one: (shown(one), no_resign_games(read_shard(one))),
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


@pytest.mark.parametrize("end", BY_KIND)
def test_the_files_as_they_were_are_read(run: Path, end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the tests below might try nothing."""
    path = file_of(run, end)
    shown(path if end != "weights.safetensors" else path.parent)
    for name in BY_KIND[end]:
        READERS[name](run)


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
