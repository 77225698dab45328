"""A scan of a run's files: sizes, names of shards, temporary files, locks.

A scan takes no lock, opens no file but the lists of shards in packs, and covers only data/ and saved_models/. Files
that disappear meanwhile are left out.

A full scan visits the folders of all generations, models and matches. A partial scan visits the newest ones and a
sample of the older ones, which represents the rest: its cost doesn't grow with the run, and its sums are estimates. In
the newest generations it visits every worker's folder; in older ones with many workers, a sample.
"""

from __future__ import annotations

import math
import os
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from pipeline.errors import FileError, explain
from pipeline.run import atomic, layout, packs
from pipeline.run.order import ShardFile, generation_of
from pipeline.run.store.base import current_store

TOPS = (Path(layout.DATA), layout.SAVED_MODELS)
LOOP_LOCK = layout.lock_path(layout.LOOP)
NEWEST, SPREAD = 100, 50  # subfolders of a folder that a partial scan visits: the newest, and a sample of the older
MOST_WITHIN = 2_000  # folders within the newest ones; beyond that, fewer of the newest and only a sample of workers

T = TypeVar("T")


def spread(items: Sequence[T], most: int) -> list[T]:
    """At most this many of the items, evenly spread, including the last one."""
    return list(items[:: -max(1, math.ceil(len(items) / max(most, 1)))])[::-1]


@dataclass(frozen=True, order=True)
class SizedShard(ShardFile):
    """A committed shard, known only by its sidecar's name. Shards sort by age: see run/order.py."""

    num_bytes: int = 0  # of shard and sidecar


@dataclass
class RunFiles:
    """The result of a scan. All paths are relative to the run's folder.

    is_whole     the scan was full; otherwise num_shards and num_bytes are estimates, and the rest covers what was
                 visited
    shards       committed ones, oldest first
    whole_from   from this generation on, `shards` is complete
    num_shards   number of committed shards
    uncommitted  shards with neither a sidecar nor a copy in a pack; no command reads them
    waiting      folders of games in which a worker has no shard yet
    temporaries  files and folders being written, or left by a kill
    checkpoints  names of models whose training has begun and hasn't ended
    num_bytes    by folder: selfplay, training_data, evaluate, …, saved_models
    model_bytes  size of each model's folder, by name
    held         lock files held by a process of this machine; None if the system doesn't say
    unreadable   folders that can't be listed
    """

    is_whole: bool = True
    shards: list[SizedShard] = field(default_factory=list)
    whole_from: int = 0
    num_shards: int = 0
    uncommitted: list[Path] = field(default_factory=list)
    waiting: set[str] = field(default_factory=set)
    temporaries: list[Path] = field(default_factory=list)
    checkpoints: list[str] = field(default_factory=list)
    num_bytes: Counter[str] = field(default_factory=Counter)
    model_bytes: Counter[str] = field(default_factory=Counter)
    held: set[Path] | None = None
    unreadable: list[FileError] = field(default_factory=list)


def scan_run(directory: Path, whole: bool = True) -> RunFiles:
    """Scan a run's folder. whole: a full scan; otherwise a partial one, see the module docstring."""
    return _Scan(directory, whole).files


class _Scan:
    def __init__(self, directory: Path, whole: bool) -> None:
        self.directory, self.whole = directory, whole
        self.files = files = RunFiles()
        self._locked = atomic.held_locks()
        self._held_inodes = {inode for _, inode in self._locked or ()}
        files.held = None if self._locked is None else set()
        self._followed: set[Path] = set()  # targets of links
        self._num_bytes: defaultdict[str, float] = defaultdict(float)
        self._num_shards = 0.0
        self._num_workers = 0  # visited folders of workers; the newest generations come first
        for top in TOPS:
            self._visit(top, 1.0)
        files.num_bytes.update({name: round(size) for name, size in self._num_bytes.items()})
        files.num_shards = round(self._num_shards)
        files.shards.sort(key=lambda shard: shard.age)
        files.uncommitted.sort()

    def _visit(self, folder: Path, stands_for: float) -> int:
        """Visit a folder and its subfolders; returns their number. stands_for: how many folders this one represents."""
        files, directory = self.files, self.directory
        sizes: dict[str, int] = {}  # of the files in it, by name
        folders = []
        try:
            if layout.GAMES in (folder, *folder.parents):
                current_store().names(directory / folder)  # workers' folders and sidecars that are in object storage
            with os.scandir(directory / folder) as entries:
                for entry in entries:
                    if entry.name.startswith("."):
                        self._add_hidden(folder / entry.name, entry.inode())
                    try:
                        if entry.is_file():
                            sizes[entry.name] = entry.stat().st_size
                        elif entry.is_dir() and (not entry.is_symlink() or self._leads_elsewhere(entry.path)):
                            folders.append(entry.name)
                    except FileNotFoundError:
                        continue
        except FileNotFoundError:
            return 0
        except FileError as error:
            files.unreadable.append(error)
        except OSError as error:
            files.unreadable.append(explain(directory / folder, error))
        self._add_sizes(folder, sizes, stands_for)
        newest_first = sorted(folders, reverse=True)  # names sort by age, except workers'; hidden ones come last
        is_new = folder.parent == layout.GAMES and self._num_workers < MOST_WITHIN
        if self.whole or is_new or len(folders) <= NEWEST + SPREAD:
            return 1 + sum(self._visit(folder / name, stands_for) for name in newest_first)
        return 1 + self._visit_some(folder, newest_first, stands_for)

    def _visit_some(self, folder: Path, newest_first: list[str], stands_for: float) -> int:
        self.files.is_whole = False
        visited = within = 0
        while visited < NEWEST and within < MOST_WITHIN:
            within += self._visit(folder / newest_first[visited], stands_for)
            visited += 1
        hidden = [name for name in newest_first[visited:] if name.startswith(".")]
        older = newest_first[visited : len(newest_first) - len(hidden)]
        in_part = older[:1] if folder == layout.GAMES else [folder.name] if folder.parent == layout.GAMES else []
        self.files.whole_from = max([self.files.whole_from, *(generation_of(games) + 1 for games in in_part)])
        num_some = min(len(older), max(1, SPREAD // (1 + within // MOST_WITHIN)))
        some = [older[index * len(older) // num_some] for index in range(num_some)]
        for name in some:
            within += self._visit(folder / name, stands_for * len(older) / len(some))
        return within + sum(self._visit(folder / name, stands_for) for name in hidden)

    def _add_sizes(self, folder: Path, sizes: dict[str, int], stands_for: float) -> None:
        """sizes: in bytes, of the files directly in the folder."""
        files, parts, total = self.files, folder.parts, sum(sizes.values())
        self._num_bytes[parts[1] if parts[0] == layout.DATA and len(parts) > 1 else parts[0]] += stands_for * total
        if parts[0] == layout.SAVED_MODELS.name and len(parts) > 1:
            files.model_bytes[parts[1]] += total
        if len(parts) != 4 or folder.parent.parent != layout.GAMES:
            return
        games, worker = parts[2:]
        if layout.parse_games_folder(games) is None or not layout.is_worker_name(worker):
            return
        self._num_workers += 1
        if not sizes:
            files.waiting.add(games)
        try:
            committed = packs.shards_in(self.directory / folder)
        except FileError as error:
            files.unreadable.append(error)
            return
        self._num_shards += stands_for * len(committed)
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
            and (layout.parse_shard_name(name) or layout.parse_pack_name(name))  # not somebody's own backup.gz
            and name.removesuffix(layout.SHARD_SUFFIX) + layout.META_SUFFIX not in sizes
            and layout.parse_shard_name(name) not in committed
        ]

    def _add_hidden(self, path: Path, inode: int) -> None:
        files = self.files
        if layout.parse_temporary_name(path.name) is not None:
            files.temporaries.append(path)
        elif (name := layout.parse_checkpoint_name(path.name)) is not None:
            files.checkpoints.append(name)
        is_held = inode in self._held_inodes and atomic.lock_id(self.directory / path) in (self._locked or ())
        if files.held is not None and is_held:
            files.held.add(path)

    def _leads_elsewhere(self, link: str) -> bool:
        """Whether a link leads to files that aren't counted elsewhere, e.g. to games on another disk."""
        real = Path(os.path.realpath(link))
        tops = [Path(os.path.realpath(self.directory / top)) for top in TOPS]
        if real in self._followed or any(real.is_relative_to(top) or top.is_relative_to(real) for top in tops):
            return False
        self._followed.add(real)
        return True
