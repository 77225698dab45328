"""Packs: many shards of a place in one file, for the generations that nobody plays in any more.

A place is a folder of shards, FOLDER/WORKER. Self-play writes a shard about once a second; years of two small files
each are what a file system bears least. A *pack* is two files that hold what the files of its shards held, byte for
byte, one after the other:

    20261121T131500.123456-002000x01998.gz    the shards: gzip, like each of them, so zcat prints them all
    20261121T131500.123456-002000x01998.meta  a line of JSON with their names and sizes, then their sidecars, which
                                              are lines of JSON, too; written last: it commits the pack

Its name is that of its last shard and how many there are. So a shard is what it was: its name, its place in the order,
its checksum, its games. Only where its bytes lie has changed, and nobody but this module and run/shards.py knows.

A pack never changes. It is written before the files of its shards are removed, and a shard that lies in both is one
shard. Whoever looks at a place sees every shard once, whatever happens there meanwhile: a pack is made before anything
is missing, so the names of packs are read after all others. A file that was listed and is gone now lies in a pack, or
was pruned.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import zlib
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import FileError
from pipeline.run import atomic, layout

FORMAT, VERSION = "mugo-shard-pack", 1
WANTED = "the sidecar of a pack of game shards"
LOCK = "packs"  # in the folder of all games
PACKS_KEPT = 64  # whose lists of shards are kept in memory
MOST_INDEX = 64 << 20  # bytes of a pack's list of shards
MOST_LOOKS = 1_000  # at a folder in which packs come and go
MOST_MOVES = 100  # of a shard from one pack to another while it is read


@dataclass(frozen=True, eq=False)
class Pack:
    """Where the shards of a pack lie.

    names         [S] of the shards, ascending
    sizes         [S, 2] bytes of each shard and of its sidecar
    checksums     [S] CRC-32 of the sidecars; they know the shards' own checksums
    first_sidecar where the sidecars begin in the .meta
    """

    folder: Path
    name: layout.PackName
    names: tuple[layout.ShardName, ...]
    sizes: NDArray[np.int64]
    checksums: NDArray[np.uint32]
    first_sidecar: int

    @property
    def path(self) -> Path:
        return self.folder / self.name.shard

    @property
    def meta(self) -> Path:
        return self.folder / self.name.meta

    @cached_property
    def index(self) -> dict[layout.ShardName, int]:
        return {name: number for number, name in enumerate(self.names)}

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        """[S + 1, 2]"""
        return np.concatenate([np.zeros((1, 2), np.int64), np.cumsum(self.sizes, axis=0)])

    def num_bytes(self, name: layout.ShardName) -> int:
        """Of a shard and its sidecar."""
        return int(self.sizes[self.index[name]].sum())

    def sidecar(self, name: layout.ShardName) -> bytes:
        """Of a shard. Raises FileError if the pack is damaged, FileNotFoundError if it is gone."""
        number = self.index[name]
        data = self._read(self.meta, number, 1, self.first_sidecar)
        if zlib.crc32(data) != self.checksums[number]:
            raise FileError(self.meta, f"damaged: the sidecar of {name.shard} in it has another checksum")
        return data

    def shard(self, name: layout.ShardName) -> bytes:
        """The shard's file as it was. Raises like sidecar(), but its checksum is the sidecar's business."""
        return self._read(self.path, self.index[name], 0, 0)

    def _read(self, path: Path, number: int, column: int, before: int) -> bytes:
        start, size = before + int(self._starts[number, column]), int(self.sizes[number, column])
        atomic.bring(path)
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise FileError(path, f"{error.strerror}; wanted a pack of game shards") from error
        try:
            with atomic.os_errors(path):
                found = os.fstat(descriptor).st_size
                if start + size > found:
                    raise FileError(path, f"damaged: {found} bytes; its list has a shard up to byte {start + size}")
                return os.pread(descriptor, size, start)
        finally:
            os.close(descriptor)


# Looking


Packed = Pack | FileError | None
"""Where a shard lies: in a pack, in a pack that can't be read, in files of its own."""


def shards_in(folder: Path) -> dict[layout.ShardName, Packed]:
    """The committed shards of a place, in no order, and where each lies. A missing folder has none.

    Of a pack that can't be read only the last is known; what lies in files of its own as well is taken from there.
    Raises FileError if the folder can't be listed.
    """
    for _ in range(MOST_LOOKS):
        names = atomic.names_in(folder)
        packs = list_packs(folder)  # after the names: see the module docstring
        if packs is not None:
            break
    else:
        raise FileError(folder, "its packs come and go faster than they can be read; try again")
    found: dict[layout.ShardName, Packed] = {}
    for pack_name, error in packs:
        if isinstance(error, FileError):
            found[pack_name.last] = error
    for _, pack in packs:
        if isinstance(pack, Pack):
            found.update(dict.fromkeys(pack.names, pack))
    for name in names:
        if name.endswith(layout.META_SUFFIX) and (parsed := layout.parse_shard_name(name)):
            found[parsed] = None
    return found


def list_packs(folder: Path) -> list[tuple[layout.PackName, Pack | FileError]] | None:
    """The committed packs of a place, by name. None: one disappeared just now; look at everything again."""
    found: list[tuple[layout.PackName, Pack | FileError]] = []
    for name in sorted(atomic.names_in(folder)):
        parsed = layout.parse_pack_name(name) if name.endswith(layout.META_SUFFIX) else None
        if parsed is None:
            continue
        try:
            found.append((parsed, _opened(folder / name)))
        except FileNotFoundError:
            return None
        except FileError as error:
            found.append((parsed, error))
    return found


def find(shard: Path) -> tuple[layout.ShardName, Pack] | None:
    """Where a shard lies whose own files are gone. shard: its path or its sidecar's. None: in no pack that is readable.

    Raises FileError if the folder can't be listed.
    """
    name = layout.parse_shard_name(shard.name)
    for _ in range(MOST_LOOKS):
        packs = list_packs(shard.parent) if name else []
        if packs is not None:
            break
    for _, pack in packs or ():
        if name is not None and isinstance(pack, Pack) and name in pack.index:
            return name, pack
    return None


class Gone(FileError):
    """A shard has neither files of its own nor a place in a pack: it was removed, or never there."""


def read_stored(path: Path, pack: Pack | None, wanted: str) -> tuple[bytes, Pack | None]:
    """(the content of a shard's file or of its sidecar, the pack in which it lies; None: in a file of its own).

    pack: where it lay when it was listed. Looks again if it isn't there any more. Raises FileError, Gone among them.
    """
    name = layout.parse_shard_name(path.name)
    for _ in range(MOST_MOVES):
        try:
            if pack is None or name is None:
                return atomic.read_bytes(path, wanted), None
            return (pack.sidecar if path.suffix == layout.META_SUFFIX else pack.shard)(name), pack
        except FileNotFoundError:
            pass
        except FileError:
            if pack is not None or os.path.lexists(path):
                raise
        found = find(path)
        if found is None:
            raise Gone(path, f"no such file; wanted {wanted}")
        name, pack = found
    raise FileError(path, f"it moves faster than it can be read; wanted {wanted}")


def is_gone(path: Path) -> bool:
    """Whether a file or folder is neither here nor in object storage, from where it is brought, nor a shard or sidecar
    in a pack. Damaged ones aren't gone. Raises FileError.
    """
    if not os.path.lexists(path):
        atomic.names_in(path.parent)  # makes the folders in it that are in object storage
        if not os.path.lexists(path):
            atomic.bring(path)
    return not os.path.lexists(path) and find(path) is None


def open_pack(path: Path) -> Pack:
    """path: of the pack or its sidecar. Raises FileError if it is missing or damaged."""
    try:
        return _opened(layout.meta_path(path))
    except FileNotFoundError as error:
        raise FileError(layout.meta_path(path), f"no such file; wanted {WANTED}") from error


def _opened(path: Path) -> Pack:
    """Raises FileError, or FileNotFoundError if it is gone."""
    try:
        stat = path.stat()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise FileError(path, f"{error.strerror}; wanted {WANTED}") from error
    return _read_pack(path, stat.st_ino, stat.st_size)


@lru_cache(maxsize=PACKS_KEPT)
def _read_pack(path: Path, inode: int, size: int) -> Pack:
    """inode, size: of the file, so that what was read of another one of the same name isn't taken for it."""
    name = layout.parse_pack_name(path.name)
    assert name is not None
    try:
        with open(path, "rb") as file:
            line = file.readline(MOST_INDEX)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise FileError(path, f"{error.strerror}; wanted {WANTED}") from error
    raw = atomic.parse_json(path, line, WANTED)
    atomic.check_format(path, raw, FORMAT, VERSION, WANTED)
    try:
        if raw.pop("seal") != _seal(raw):
            raise ValueError("its checksum is another")
        names = tuple(_shard_name(text) for text in raw["shards"])
        sizes = np.stack([_numbers(raw[key], "<u4") for key in ("bytes", "sidecar_bytes")], axis=1).astype(np.int64)
        checksums = _numbers(raw["sidecar_checksums"], "<u4")
        if not (len(names) == len(sizes) == len(checksums) == name.count) or names[-1] != name.last:
            raise ValueError("its shards are not those of its name")
        if any(one >= other for one, other in pairwise(names)):
            raise ValueError("its shards are not in order")
    except (KeyError, TypeError, ValueError) as error:
        raise FileError(path, f"damaged: {type(error).__name__}: {error}; wanted {WANTED}") from error
    return Pack(path.parent, name, names, sizes, checksums, len(line))


def _shard_name(text: Any) -> layout.ShardName:
    name = layout.parse_shard_name(f"{text}{layout.SHARD_SUFFIX}")
    if name is None:
        raise ValueError(f"a shard {str(text)[:40]!r}")
    return name


def _numbers(text: str, dtype: str) -> NDArray[Any]:
    return np.frombuffer(base64.b64decode(text, validate=True), dtype)


def _seal(raw: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(raw, sort_keys=True).encode()).hexdigest()


# Writing


def packing(directory: Path) -> AbstractContextManager[None]:
    """The lock of the one process that packs or removes games under directory. Raises Busy if another has it."""
    busy = "another process packs or prunes these games; wait until it is done"
    return atomic.file_lock(directory / LOCK, wait=False, busy=busy)


def write_pack(folder: Path, shards: Sequence[tuple[layout.ShardName, bytes, bytes]]) -> Pack:
    """Write and commit a pack of these shards of the place; what it replaces is left to the caller.

    shards: ascending; the name of each, its file and its sidecar, as they are. Raises FileError.
    """
    name = layout.PackName(shards[-1][0], len(shards))
    table = np.array([(len(data), len(sidecar)) for _, data, sidecar in shards], "<u4")
    checksums = np.array([zlib.crc32(sidecar) for _, _, sidecar in shards], "<u4")
    raw: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "shards": [one.stem for one, _, _ in shards],
        "bytes": base64.b64encode(table[:, 0].tobytes()).decode(),
        "sidecar_bytes": base64.b64encode(table[:, 1].tobytes()).decode(),
        "sidecar_checksums": base64.b64encode(checksums.tobytes()).decode(),
    }
    line = json.dumps({**raw, "seal": _seal(raw)}).encode() + b"\n"
    atomic.write_bytes(folder / name.shard, b"".join(data for _, data, _ in shards), folder_sync=False)
    atomic.write_bytes(folder / name.meta, line + b"".join(sidecar for _, _, sidecar in shards))
    return open_pack(folder / name.meta)


def remove_files(folder: Path, names: Sequence[layout.ShardName]) -> None:
    """Remove the files that shards have of their own. The sidecars go first: a shard without one doesn't exist."""
    atomic.remove(folder / name.meta for name in names)
    atomic.remove(folder / name.shard for name in names)
    with atomic.os_errors(folder):
        atomic.sync(folder)
