"""What is run, on which files, and what it must end with.

A stage's *base* is a folder in which exactly that stage has something to do. Its *outcome* is everything in the folder
when it has ended, without what differs between any two runs: times, and the names made from them.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.run import layout
from pipeline.run.shards import newest_shards, read_shard
from tests.chaos.workshop import Workshop

PLAY = ("--backend", "torch", "--threads", "1")
PRESET = """
# a loop that takes seconds
init: {game: tictactoe, network_size: b1c8}
selfplay: {games: 12, readouts: 2, backend: torch, threads: 1, commit_seconds: 0, parallel_games: 4,
           seed: 7}
gather: {max_positions: 2000, positions_per_chunk: 16, as_many_as_possible: true, holdout_fraction: 0.2}
train: {epochs: 1, batch_size: 16, checkpoint_seconds: 0}
evaluate: {games: 4, threshold: 0.25, readouts: 2, opening_plies: 2, backend: torch, threads: 1, parallel_games: 4}
"""
VARYING = {"created", "time", "decided", "finished", "seconds", "samples_per_second", "commit", "versions"}  # in JSON


@dataclass(frozen=True)
class Stage:
    """before: the commands that make the base; arguments: of main.py; games: that self-play must have made then."""

    name: str
    arguments: tuple[str, ...]
    before: tuple[tuple[str, ...], ...] = ()
    games: int | None = None


INIT = ("init", "--game", "tictactoe", "--network-size", "b1c8")
SELFPLAY = (
    "selfplay", "--games", "12", "--readouts", "2", "--parallel-games", "4", "--commit-seconds", "0", "--top-up",
    "--seed", "7", *PLAY,
)  # fmt: skip
GATHER = ("gather", "--positions-per-chunk", "16", "--as-many-as-possible", "--holdout-fraction", "0.2")
TRAIN = ("train", "--epochs", "1", "--batch-size", "16", "--checkpoint-seconds", "0", "--priority-exponent", "0.6")
EVALUATE = (
    "evaluate", "--games", "4", "--threshold", "0.25", "--readouts", "2", "--opening-plies", "2", "--seed", "1",
    "--parallel-games", "1", "--require", "random>=0.01", "--require-games", "2", *PLAY,
)  # fmt: skip
WATCH = (
    "evaluate", "--watch", "--once", "--readouts", "2", "--opening-plies", "2", "--seed", "1", "--parallel-games", "1",
    "--single-games", "2", "--benchmark", "random", "--benchmark-games", "2", "--ladder-games", "2",
    "--tournament-games", "0", *PLAY,
)  # fmt: skip

STAGES = {
    stage.name: stage
    for stage in (
        Stage("selfplay", SELFPLAY, (INIT,), games=12),
        Stage("gather", GATHER, (INIT, SELFPLAY)),
        Stage("train", TRAIN, (INIT, SELFPLAY, GATHER)),
        Stage("evaluate", EVALUATE, (INIT, SELFPLAY, GATHER, TRAIN)),
        Stage("watch", WATCH, (INIT, SELFPLAY, GATHER, TRAIN)),
    )
}


def make_base(stage: Stage, folder: Path, workshop: Workshop) -> Path:
    """A folder in which this stage has something to do, from scratch or from the base of the stage before."""
    folder.mkdir(parents=True)
    for arguments in stage.before:
        done = workshop.run(arguments, folder)
        assert done.code == 0, done.said
    return folder


def copy(base: Path, folder: Path) -> Path:
    return Path(shutil.copytree(base, folder, symlinks=True))


# What a folder holds


def committed(folder: Path) -> dict[str, str]:
    """What must never be lost: checksums of shards, sidecars, chunks and models; whole lines of records."""
    found: dict[str, str] = {}
    for path in folder.rglob("*"):
        name = str(path.relative_to(folder))
        if path.is_symlink() or not path.is_file() or is_hidden(name):
            continue
        if name.startswith("data/logs/"):  # a training that was killed makes its points anew
            continue
        if path.suffix in (".meta", ".gz", ".h5") or path.name.startswith(("model.json", "weights", "optimizer")):
            if path.suffix == ".gz" and not layout.meta_path(path).exists():
                continue  # not committed
            found[name] = digest(path.read_bytes())
        elif path.suffix == ".jsonl":
            data = path.read_bytes()
            for line in data[: data.rfind(b"\n") + 1].splitlines():
                found[f"{name}: {digest(line)}"] = ""
    return found


def outcome(folder: Path) -> dict[str, Any]:
    """Everything that doesn't vary, by path."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if (
            is_hidden(name)
            or name.startswith(("data/logs", "data/selfplay"))
            or (path.is_dir() and not path.is_symlink())
            or path.name == layout.MATCH_RESULTS  # a copy of what the games say
        ):
            continue
        if path.is_symlink():
            found[name] = os.readlink(path)
        elif path.suffix == ".json":
            found[name] = steady(json.loads(path.read_text()))
        elif path.suffix == ".jsonl":
            found[name] = sorted(map(json.dumps, map(steady, lines_of(path))))
        else:
            found[name] = digest(path.read_bytes())
    return found


def games_of(folder: Path) -> dict[int, str]:
    """Self-play's games: a checksum of what was played, by id. Raises AssertionError if an id stands twice."""
    games: dict[int, str] = {}
    for meta in newest_shards(folder / "data/selfplay"):
        shard = read_shard(meta.path, meta)
        for index in range(shard.num_games):
            record = shard.game(index)
            assert record.game_id not in games, f"game {record.game_id:016x} was played twice"
            games[record.game_id] = digest(b"".join(value.tobytes() for value in (record.moves, record.visit_counts)))
    return games


def is_hidden(name: str) -> bool:
    return any(part.startswith(".") for part in Path(name).parts)


def lines_of(path: Path) -> Iterator[Any]:
    """The JSON in a file of lines. A kill leaves a line that was cut off, which doesn't count."""
    for line in path.read_text(errors="replace").splitlines():
        with suppress(ValueError):
            yield json.loads(line)


def steady(value: Any) -> Any:
    """JSON without what varies."""
    if isinstance(value, dict):
        return {key: steady(item) for key, item in value.items() if key not in VARYING}
    return [steady(item) for item in value] if isinstance(value, list) else value


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
