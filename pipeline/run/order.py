"""Which shards exist and their order: by when their games began in the run. It follows from names alone; the only files
opened are the lists of shards in packs.

All commands use this order:

1. The *generation*, in the folder's name: the number of the newest model when the games began. It depends neither on
   clocks nor on which model played. See layout.py.
2. Within a generation, the time in the shard's name, by the writer's clock. A wrong clock misplaces games only among
   those of other workers in the same generation. In a worker's folder times strictly increase whatever the clock does:
   a shard's time is at least a microsecond after its predecessor's.

``ls`` shows the same order: folders sort by generation, files by time. The newest shards are found from the end, so
older ones cost nothing.

A shard's *number* counts the shards in its worker's folder, 1, 2, …, as long as the folder exists and whichever process
writes. A reader that has seen a folder up to a number knows what is new, whatever the times say; gather counts this
way. It works because

- one process at a time writes as a worker;
- a shard keeps its name in a pack (packs.py), later shards continue the numbers, and a folder's last shard is never
  removed by commands. If somebody deletes games, numbers begin anew: until they reach the old ones, all is new.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from threading import Lock
from typing import Any

from pipeline.run import atomic, layout, packs
from pipeline.run.store.base import current_store

TOTAL, COUNTED = "total_positions", "counted_shards"  # keys of a window's description
MOST = 2**63  # shards or positions


@dataclass(frozen=True, order=True)
class ShardFile:
    """A committed shard, known by names alone. Sorts as the module docstring says, then by worker and folder."""

    generation: int
    name: layout.ShardName
    worker: str
    folder: str  # of the games of a model and generation
    pack: packs.Packed = field(default=None, compare=False)  # where its bytes are

    @property
    def place(self) -> str:
        """``FOLDER/WORKER``, within which numbers count."""
        return f"{self.folder}/{self.worker}"

    @property
    def age(self) -> tuple[int, layout.ShardName, str, str]:
        """A key that sorts like the file itself, many times faster."""
        return self.generation, self.name, self.worker, self.folder

    @property
    def time(self) -> datetime:
        return self.name.time

    @property
    def number(self) -> int:
        return self.name.number

    @property
    def model(self) -> str:
        """The model that played."""
        return model_of(self.folder)

    def meta(self, directory: Path) -> Path:
        """The sidecar. directory: that of all games."""
        return directory / self.folder / self.worker / self.name.meta


def newest_files(directory: Path, worker: str | None = None) -> Iterator[ShardFile]:
    """The committed shards under directory, newest first, of one worker or of all. Lazy: lists a generation's folders
    only when it comes to them.
    """
    for generation, folders in newest_generations(directory):
        yield from sorted(files_of(directory, generation, folders, worker), key=attrgetter("age"), reverse=True)


def newest_generations(directory: Path) -> Iterator[tuple[int, list[str]]]:
    """Each generation that has games, newest first, and its folders by name."""
    folders = folders_in(directory, lambda name: layout.parse_games_folder(name) is not None)
    keyed = sorted((generation_of(name), name) for name in folders)
    for generation, group in groupby(reversed(keyed), key=lambda pair: pair[0]):
        yield generation, sorted(name for _, name in group)


def files_of(directory: Path, generation: int, folders: list[str], only: str | None = None) -> Iterator[ShardFile]:
    """The committed shards of a generation, unordered. only: those of one worker."""
    places = [directory / folder / only for folder in folders] if only else places_in(directory, folders)
    for place in places:
        for name, pack in packs.shards_in(place).items():
            yield ShardFile(generation, name, place.name, place.parent.name, pack)


def places_in(directory: Path, folders: list[str]) -> list[Path]:
    """The workers' folders in these folders of games."""
    return [
        directory / folder / worker
        for folder in folders
        for worker in folders_in(directory / folder, layout.is_worker_name)
    ]


def generation_of(place: str) -> int:
    """The generation of the games in this folder, or in FOLDER/WORKER; -1, before all others, if they aren't games."""
    found = layout.parse_games_folder(place.partition("/")[0])
    return -1 if found is None else found.generation


def model_of(place: str) -> str:
    """The model that played the games in this folder, or in FOLDER/WORKER; the folder's name if they aren't games."""
    folder = place.partition("/")[0]
    found = layout.parse_games_folder(folder)
    return folder if found is None else found.model


def folders_in(directory: Path, is_wanted: Callable[[str], bool]) -> list[str]:
    """The names of the wanted folders there, unordered; none if directory is missing. Raises FileError."""
    current_store().names(directory)  # makes folders that are only in object storage
    with atomic.os_errors(directory), suppress(FileNotFoundError), os.scandir(directory) as entries:
        return [entry.name for entry in entries if is_wanted(entry.name) and entry.is_dir()]
    return []


# Counting


@dataclass(frozen=True)
class Counted:
    """What earlier scans counted.

    total    positions
    numbers  the number of the last counted shard of each place, in the generations that the window reached
    reach    older generations are counted completely; None: that of the oldest place in numbers
    """

    total: int = 0
    numbers: Mapping[str, int] = field(default_factory=dict)
    reach: int | None = None

    @classmethod
    def in_window(cls, window: Mapping[str, Any]) -> Counted:
        """From a window's description in a chunk or a model's manifest. Raises ValueError if that is damaged."""
        numbers, total = window.get(COUNTED), window.get(TOTAL, -1)
        if not _is_count(total):
            raise ValueError(f"window {TOTAL} is {str(total)[:40]}")
        if not (isinstance(numbers, dict) and all(map(_is_count, numbers.values()))):
            raise ValueError(f"window {COUNTED} has values that aren't numbers of shards")
        return cls(total, numbers)

    def in_words(self) -> dict[str, Any]:
        """As in a window's description."""
        return {TOTAL: self.total, COUNTED: dict(self.numbers)}

    def has(self, file: ShardFile) -> bool:
        """Whether this shard was counted."""
        return file.number <= self.numbers.get(file.place, 0) or file.generation < self.oldest

    def has_restarted(self, newest: ShardFile) -> bool:
        """Whether the numbers of a place, whose newest shard this is, begin anew: somebody deleted what was counted."""
        return newest.number < self.numbers.get(newest.place, 0)

    def without(self, places: Collection[str]) -> Counted:
        """As if nothing had been counted in these places."""
        left = {place: number for place, number in self.numbers.items() if place not in places}
        return Counted(self.total, left, self.oldest) if places else self

    @cached_property
    def oldest(self) -> int:
        """All older generations were counted completely."""
        if self.reach is not None:
            return self.reach
        return min(map(generation_of, self.numbers), default=0)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MOST


# Writing


class ShardNames:
    """Gives the next name in each folder, with increasing times and numbers. For any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._last: dict[Path, layout.ShardName] = {}

    def forget(self, folder: Path) -> None:
        """Look into this folder again: another process may have written here."""
        with self._lock:
            self._last.pop(folder, None)

    def next(self, folder: Path) -> layout.ShardName:
        """Raises OSError if the folder can't be listed."""
        with self._lock:
            last = self._last.get(folder)
            if last is None:  # earlier processes may have written here, by another clock
                found = [name for name in map(layout.parse_shard_name, atomic.names_in(folder)) if name]
                found += packs.shards_in(folder)
                last = max(found, default=None)
            time = datetime.now(UTC)
            if last is not None:
                time = max(time, last.time + timedelta(microseconds=1))
            name = layout.ShardName(time, last.number + 1 if last else 1)
            self._last[folder] = name
            return name
