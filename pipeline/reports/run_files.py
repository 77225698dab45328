"""One look at all files of a run: sizes, names of shards, temporaries, locks. Takes no lock, and of files it opens only
the lists of shards in packs.

So it costs the same for games of any size, and disturbs nobody. Only data/ and saved_models/ are looked at, because
what else is in a run's folder isn't the run's. Whatever disappears meanwhile is left out.
"""

from __future__ import annotations

import os
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from pipeline.errors import FileError, explain
from pipeline.storage import atomic, layout, packs
from pipeline.storage.order import ShardFile, generation_of

DATA = Path("data")
SELFPLAY, TRAINING, EVALUATE, TOURNAMENT = (
    DATA / name for name in ("selfplay", "training_data", "evaluate", "tournament")
)
WATCH = EVALUATE / layout.WATCH
TOPS = (DATA, layout.SAVED_MODELS)
LOOP_LOCK = DATA / ".rl_loop.lock"


def is_run(path: Path) -> bool:
    return (path / layout.SAVED_MODELS).is_dir() or (path / SELFPLAY).is_dir()


def time_in(text: object) -> datetime | None:
    """A time as our files write it, UTC; None if it is none."""
    try:
        return datetime.fromisoformat(str(text)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


@dataclass(frozen=True, order=True)
class SizedShard(ShardFile):
    """A committed shard, known by its sidecar's name alone. Shards sort by age: see storage/order.py."""

    num_bytes: int = 0  # of shard and sidecar


@dataclass
class RunFiles:
    """What is there; all paths are relative to the run's folder.

    shards       committed ones, oldest first
    uncommitted  shards without a sidecar, which nobody reads, unless they lie in a pack as well
    waiting      folders of games that workers have begun, before the first shard
    temporaries  files and folders being written, or left by a kill
    checkpoints  names of models whose training has begun and hasn't ended
    num_bytes    by folder: selfplay, training_data, evaluate, …, saved_models
    model_bytes  of each model's folder, by its name
    held         lock files that a process of this machine holds; None: the system doesn't tell
    unreadable   folders that can't be listed
    """

    shards: list[SizedShard] = field(default_factory=list)
    uncommitted: list[Path] = field(default_factory=list)
    waiting: set[str] = field(default_factory=set)
    temporaries: list[Path] = field(default_factory=list)
    checkpoints: list[str] = field(default_factory=list)
    num_bytes: Counter[str] = field(default_factory=Counter)
    model_bytes: Counter[str] = field(default_factory=Counter)
    held: set[Path] | None = None
    unreadable: list[FileError] = field(default_factory=list)


def look_at(directory: Path) -> RunFiles:
    """directory: the run's, with data/ and saved_models/."""
    files = RunFiles()
    locked = atomic.held_locks()
    files.held = None if locked is None else set()
    folders = list(TOPS)
    followed: set[Path] = set()
    while folders:
        folder = folders.pop()
        sizes: dict[str, int] = {}  # of the files in it, by name
        hidden = []
        try:
            with os.scandir(directory / folder) as entries:
                for entry in entries:
                    if entry.name.startswith("."):
                        hidden.append(entry.name)
                    try:
                        if entry.is_file():
                            sizes[entry.name] = entry.stat().st_size
                        elif entry.is_dir() and (
                            not entry.is_symlink() or _leads_elsewhere(directory, entry.path, followed)
                        ):
                            folders.append(folder / entry.name)
                    except FileNotFoundError:
                        continue
        except FileNotFoundError:
            continue
        except OSError as error:
            files.unreadable.append(explain(directory / folder, error))
        _take_sizes(directory, files, folder, sizes)
        for name in hidden:
            _take_hidden(files, folder / name)
            if files.held is not None and locked and _file_id(directory / folder / name) in locked:
                files.held.add(folder / name)
    files.shards.sort(key=lambda shard: shard.age)
    files.uncommitted.sort()
    return files


def _leads_elsewhere(directory: Path, link: str, followed: set[Path]) -> bool:
    """Whether a link leads to files that aren't counted anyway, e.g. to games on another disk; best_model doesn't.

    followed: where the links before led; extended.
    """
    real = Path(os.path.realpath(link))
    tops = [Path(os.path.realpath(directory / top)) for top in TOPS]
    if real in followed or any(real.is_relative_to(top) or top.is_relative_to(real) for top in tops):
        return False
    followed.add(real)
    return True


def _file_id(path: Path) -> tuple[int, int] | None:
    """(device, inode); None if it is gone."""
    with suppress(OSError):
        stat = path.stat()
        return stat.st_dev, stat.st_ino
    return None


def _take_hidden(files: RunFiles, path: Path) -> None:
    if layout.parse_temporary_name(path.name) is not None:
        files.temporaries.append(path)
    elif (name := layout.parse_checkpoint_name(path.name)) is not None:
        files.checkpoints.append(name)


def _take_sizes(directory: Path, files: RunFiles, folder: Path, sizes: dict[str, int]) -> None:
    """directory: the run's; sizes: in bytes, of the files that lie directly in the folder."""
    parts = folder.parts
    total = sum(sizes.values())
    files.num_bytes[parts[1] if parts[0] == DATA.name and len(parts) > 1 else parts[0]] += total
    if parts[0] == layout.SAVED_MODELS.name and len(parts) > 1:
        files.model_bytes[parts[1]] += total
    if len(parts) != 4 or folder.parent.parent != SELFPLAY:
        return
    games, worker = parts[2:]
    if layout.parse_games_folder(games) is None or not layout.is_worker_name(worker):
        return
    if not sizes:
        files.waiting.add(games)
    try:
        committed = packs.shards_in(directory / folder)
    except FileError as error:
        files.unreadable.append(error)
        return
    for shard, pack in committed.items():
        if isinstance(pack, packs.Pack):
            of_both = pack.num_bytes(shard)
        else:
            of_both = sizes.get(shard.meta, 0) + sizes.get(shard.shard, 0)
        files.shards.append(SizedShard(generation_of(games), shard, worker, games, pack, of_both))
    files.uncommitted += [
        folder / name
        for name in sizes
        if name.endswith(layout.SHARD_SUFFIX)
        and name.removesuffix(layout.SHARD_SUFFIX) + layout.META_SUFFIX not in sizes
        and layout.parse_shard_name(name) not in committed
    ]
