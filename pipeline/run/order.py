"""Which shards there are, and their order: by when their games were begun in the run. From names alone: of files it
opens only the lists of names in packs.

The order, which every command goes by:

1. The *generation*, in the name of the folder: the number of the newest model when the games began. No clock has a say
   in it, and neither has which model played. See layout.py.
2. Within a generation, the time in the shard's name. It is the writer's clock's, so one that goes wrong misplaces the
   games of its generation among those of other workers, and no others. In a worker's folder times strictly increase
   whatever its clock does: a shard's time is at least a microsecond after the one before.

``ls`` shows the same order: folders sort by generation, files by time. What is newest is found from the end, so that
finding it costs what is looked at, not what lies before it.

A shard's *number* counts the shards in its worker's folder: 1, 2, … for as long as the folder is there, whichever
process writes. Whoever has seen a folder up to a number knows what is new in it, whatever the times say; that is how
gather counts. Two things keep this true:

- One process at a time writes as a worker.
- A shard keeps its name in a pack (see packs.py), and numbers go on behind it. Who removes shards leaves a folder's
  last one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from threading import Lock
from typing import Any

from pipeline.run import atomic, layout, packs
from pipeline.run.store.base import current_store

TOTAL, COUNTED = "total_positions", "counted_shards"  # in the description of a window
MOST = 2**63  # shards or positions


@dataclass(frozen=True, order=True)
class ShardFile:
    """A committed shard, by names alone. Sorts as the module docstring says, then by worker and folder."""

    generation: int
    name: layout.ShardName
    worker: str
    folder: str  # of the games of a model and generation
    pack: packs.Packed = field(default=None, compare=False)  # where it lies

    @property
    def place(self) -> str:
        """``FOLDER/WORKER``, within which numbers count."""
        return f"{self.folder}/{self.worker}"

    @property
    def age(self) -> tuple[int, datetime, int, str, str]:
        """Sorts like the file itself, and many times faster."""
        return self.generation, self.name.time, self.name.number, self.worker, self.folder

    @property
    def time(self) -> datetime:
        return self.name.time

    @property
    def number(self) -> int:
        return self.name.number

    @property
    def model(self) -> str:
        """That played."""
        found = layout.parse_games_folder(self.folder)
        return found.model if found else self.folder

    def meta(self, directory: Path) -> Path:
        """The sidecar. directory: that of all games."""
        return directory / self.folder / self.worker / self.name.meta


def newest_files(directory: Path, worker: str | None = None) -> Iterator[ShardFile]:
    """Committed shards under directory, newest first; of this worker alone, or of all. A missing directory has none.

    Lazy: lists the folders of a generation when it comes to it; older ones cost nothing.
    """
    for generation, folders in newest_generations(directory):
        found = sorted(_found(directory, folders, worker), key=itemgetter(0), reverse=True)
        for (_, _, by, folder), name, pack in found:  # made one by one: most are never asked for
            yield ShardFile(generation, name, by, folder, pack)


_Found = tuple[tuple[datetime, int, str, str], layout.ShardName, packs.Packed]
"""What shards of one generation sort by, as ShardFile does; name and pack."""


def newest_generations(directory: Path) -> Iterator[tuple[int, list[str]]]:
    """Each generation that games lie in, newest first, and its folders by name."""
    folders = folders_in(directory, lambda name: layout.parse_games_folder(name) is not None)
    keyed = sorted((generation_of(name), name) for name in folders)
    for generation, group in groupby(reversed(keyed), key=lambda pair: pair[0]):
        yield generation, sorted(name for _, name in group)


def files_of(directory: Path, generation: int, folders: list[str]) -> Iterator[ShardFile]:
    """The committed shards of a generation, in no order."""
    for (_, _, worker, folder), name, pack in _found(directory, folders, None):
        yield ShardFile(generation, name, worker, folder, pack)


def _found(directory: Path, folders: list[str], only: str | None) -> Iterator[_Found]:
    for folder in folders:
        for worker in [only] if only else folders_in(directory / folder, layout.is_worker_name):
            for name, pack in packs.shards_in(directory / folder / worker).items():
                yield (name.time, name.number, worker, folder), name, pack


def generation_of(folder: str) -> int:
    """Of the games in a folder of this name; -1, before all others, if it is none of games."""
    found = layout.parse_games_folder(folder)
    return -1 if found is None else found.generation


def folders_in(directory: Path, is_ours: Callable[[str], bool]) -> list[str]:
    """The names of the folders there that are ours, in no order; a missing directory has none. Raises FileError."""
    current_store().names(directory)  # makes those that are in object storage
    with atomic.os_errors(directory), suppress(FileNotFoundError), os.scandir(directory) as entries:
        return [entry.name for entry in entries if is_ours(entry.name) and entry.is_dir()]
    return []


# Counting


@dataclass(frozen=True)
class Counted:
    """What earlier scans counted: total positions, and how far.

    numbers  the number of the last shard counted in each place, of the generations that the window reached back to.
    reach    the generation behind which nothing is counted any more; None: the oldest in numbers
    """

    total: int = 0
    numbers: Mapping[str, int] = field(default_factory=dict)
    reach: int | None = None

    @classmethod
    def in_window(cls, window: Mapping[str, Any]) -> Counted:
        """By a window that a chunk or a model's manifest describes. Raises ValueError if that is damaged."""
        numbers, total = window.get(COUNTED), window.get(TOTAL, -1)
        if not _is_count(total):
            raise ValueError(f"window {TOTAL} is {str(total)[:40]}")
        if not (isinstance(numbers, dict) and all(map(_is_count, numbers.values()))):
            raise ValueError(f"window {COUNTED} has something other than numbers")
        return cls(total, numbers)

    def in_words(self) -> dict[str, Any]:
        """What a window says of it."""
        return {TOTAL: self.total, COUNTED: dict(self.numbers)}

    def has(self, file: ShardFile) -> bool:
        """Whether this shard was counted."""
        return file.number <= self.numbers.get(file.place, 0) or file.generation < self.oldest

    @cached_property
    def oldest(self) -> int:
        """The generation behind which everything was counted."""
        if self.reach is not None:
            return self.reach
        return min(map(place_generation, self.numbers), default=0)


def place_generation(place: str) -> int:
    return generation_of(place.partition("/")[0])


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MOST


# Writing


class ShardNames:
    """The next name in each folder, whatever the clock does: see the module docstring. For any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._last: dict[Path, layout.ShardName] = {}

    def next(self, folder: Path) -> layout.ShardName:
        """Raises OSError if the folder can't be listed."""
        with self._lock:
            last = self._last.get(folder)
            if last is None:  # earlier processes may have written here, under another clock
                found = [name for name in map(layout.parse_shard_name, atomic.names_in(folder)) if name]
                found += packs.shards_in(folder)
                last = max(found, default=None)
            time = datetime.now(UTC)
            if last is not None:
                time = max(time, last.time + timedelta(microseconds=1))
            name = layout.ShardName(time, last.number + 1 if last else 1)
            self._last[folder] = name
            return name
