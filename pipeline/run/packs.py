"""Packs: many shards of a place in one file, for generations in which nobody plays any more.

A place is a folder of shards, FOLDER/WORKER. Self-play writes a shard, two small files, about once a second, and file
systems are slow with millions of small files. A *pack* is two files that hold the bytes of its shards' files, one after
the other:

    20261121T131500.123456-002000x01998.gz    the shards: also gzip, so zcat prints all of them
    20261121T131500.123456-002000x01998.meta  a line of JSON with their names and sizes, then their sidecars, also
                                              lines of JSON; written last: it commits the pack

A pack's name is its last shard's name and the number of shards. Packing changes nothing about a shard (name, order,
checksum, games) but the location of its bytes, which only this module and run/shards.py know.

A pack never changes. It is written before the files of its shards are removed; a shard in both places counts once.
Readers see every shard once, whatever happens in the meantime: they list the packs after the other files, and again if
a pack has disappeared. A file that was listed and is gone is now in a pack, or was pruned.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import zlib
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, suppress
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
BUSY = "its packs change faster than they can be read; try again"
WANTED = "the sidecar of a pack of game shards"
LOCK = "packs"  # in the folder of all games
PACKS_KEPT = 64  # lists of shards in memory
MOST_INDEX = 64 << 20  # bytes of a pack's list of shards
MOST_LOOKS = 1_000  # at a folder whose packs change
MOST_MOVES = 100  # of a shard while it is read


@dataclass(frozen=True, eq=False)
class Pack:
    """The locations of a pack's shards.

    names          [S] of the shards, ascending
    sizes          [S, 2] bytes of each shard and of its sidecar
    checksums      [S] CRC-32 of the sidecars, which have the shards' own checksums
    first_sidecar  offset of the sidecars in the .meta file
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

    def read(self, name: layout.ShardName, suffix: str) -> bytes:
        """A shard's file, or with the suffix META_SUFFIX its sidecar, whose checksum is checked. Raises FileError if
        the pack is damaged, FileNotFoundError if it is gone.
        """
        number, column = self.index[name], int(suffix == layout.META_SUFFIX)
        path, before = (self.meta, self.first_sidecar) if column else (self.path, 0)
        start, size = before + int(self._starts[number, column]), int(self.sizes[number, column])
        atomic.bring(path)
        with atomic.os_errors(path, passing=FileNotFoundError), open(path, "rb", buffering=0) as file:
            found = os.fstat(file.fileno()).st_size
            if start + size > found:
                raise FileError(path, f"damaged: {found} bytes; its list has a shard up to byte {start + size}")
            data = os.pread(file.fileno(), size, start)
        if column and zlib.crc32(data) != self.checksums[number]:
            raise FileError(path, f"damaged: the sidecar of {name.shard} in it has another checksum")
        return data


# Looking


Packed = Pack | FileError | None
"""Where a shard is: in a pack, in an unreadable pack, or in files of its own."""


def shards_in(folder: Path) -> dict[layout.ShardName, Packed]:
    """The committed shards of a place, unordered, and where each is. A missing folder has none.

    Only the last shard of an unreadable pack is known. A shard's own files are preferred to a pack. Raises FileError if
    the folder can't be listed.
    """
    for _ in range(MOST_LOOKS):
        names = atomic.names_in(folder)
        packs = list_packs(folder)  # after the names: see the module docstring
        if packs.keys() >= _pack_names(names):  # otherwise one was replaced since
            break
    else:
        raise FileError(folder, BUSY)
    found: dict[layout.ShardName, Packed] = {}
    for pack_name, pack in sorted(packs.items(), key=lambda item: isinstance(item[1], Pack)):  # intact ones last
        found.update(dict.fromkeys(pack.names, pack) if isinstance(pack, Pack) else {pack_name.last: pack})
    for name in names:
        if name.endswith(layout.META_SUFFIX) and (parsed := layout.parse_shard_name(name)):
            found[parsed] = None
    return found


def list_packs(folder: Path) -> dict[layout.PackName, Pack | FileError]:
    """The committed packs of a place, by name; errors of unreadable ones. Raises FileError if it can't be listed."""
    for _ in range(MOST_LOOKS):
        with suppress(FileNotFoundError):  # one was replaced or removed since it was listed
            return {name: _opened(folder / name.meta) for name in sorted(_pack_names(atomic.names_in(folder)))}
    raise FileError(folder, BUSY)


def intact_packs(folder: Path) -> dict[layout.PackName, Pack]:
    """The readable packs of a place, by name. Raises like list_packs."""
    return {name: pack for name, pack in list_packs(folder).items() if isinstance(pack, Pack)}


def _pack_names(names: Iterable[str]) -> set[layout.PackName]:
    return {pack for name in names if name.endswith(layout.META_SUFFIX) and (pack := layout.parse_pack_name(name))}


def _find(shard: Path) -> Pack | None:
    """The readable pack that has this shard or sidecar; None if there is none. Raises like list_packs."""
    name = layout.parse_shard_name(shard.name)
    packs = intact_packs(shard.parent).values() if name else ()
    return next((pack for pack in packs if name in pack.index), None)


class Gone(FileError):
    """A shard is neither in files of its own nor in a pack: it was removed, or never there."""


def read_stored(path: Path, pack: Pack | None, wanted: str) -> tuple[bytes, Pack | None]:
    """Returns the content of a shard's file or sidecar, and the pack that holds it; None if it has a file of its own.

    pack: where it was listed. If it isn't there any more, looks for it again. Raises FileError; Gone if it is missing.
    """
    name = layout.parse_shard_name(path.name)
    for _ in range(MOST_MOVES):
        try:
            if pack is None or name is None:
                return atomic.read_bytes(path, wanted), None
            return pack.read(name, path.suffix), pack
        except FileNotFoundError:
            pass
        except FileError:
            if pack is not None or os.path.lexists(path):
                raise
        pack = _find(path)
        if pack is None:
            raise Gone(path, f"no such file; wanted {wanted}")
    raise FileError(path, f"it moves faster than it can be read; wanted {wanted}")


def is_gone(path: Path) -> bool:
    """Whether a file or folder is missing: here, in object storage, from which it is fetched, and, if it is a shard or
    a sidecar, in packs. Damaged ones aren't gone. Raises FileError.
    """
    if not os.path.lexists(path):
        atomic.names_in(path.parent)  # makes its folders that are only in object storage
        if not os.path.lexists(path):
            atomic.bring(path)
    return not os.path.lexists(path) and _find(path) is None


def open_pack(path: Path) -> Pack:
    """path: the pack or its sidecar. Raises FileError if it is missing or damaged."""
    path = layout.meta_path(path)
    try:
        found = _opened(path)
    except FileNotFoundError as error:
        raise FileError(path, f"no such file; wanted {WANTED}") from error
    if isinstance(found, FileError):
        raise found
    return found


def _opened(path: Path) -> Pack | FileError:
    """Raises FileNotFoundError if it is gone."""
    try:
        with atomic.os_errors(path, passing=FileNotFoundError):
            stat = path.stat()
        return _read_pack(path, stat.st_ino, stat.st_size)
    except FileError as error:
        return error


@lru_cache(maxsize=PACKS_KEPT)
def _read_pack(path: Path, inode: int, size: int) -> Pack:
    """inode, size: of the file, so that the cache doesn't take it for an earlier file of the same name."""
    name = layout.parse_pack_name(path.name)
    assert name is not None
    with atomic.os_errors(path, passing=FileNotFoundError), open(path, "rb") as file:
        line = file.readline(MOST_INDEX)
    raw = atomic.parse_json(path, line, WANTED)
    atomic.check_format(path, raw, FORMAT, VERSION, WANTED)
    try:
        if raw.pop("seal") != _seal(raw):
            raise ValueError("its checksum differs")
        names = tuple(map(layout.shard_named, raw["shards"]))
        sizes = np.stack([_numbers(raw[key], "<u4") for key in ("bytes", "sidecar_bytes")], axis=1).astype(np.int64)
        checksums = _numbers(raw["sidecar_checksums"], "<u4")
        if not (len(names) == len(sizes) == len(checksums) == name.count) or names[-1] != name.last:
            raise ValueError("its shards are not those of its name")
        if any(one >= other for one, other in pairwise(names)):
            raise ValueError("its shards are not in order")
    except (KeyError, TypeError, ValueError) as error:
        raise FileError(path, f"damaged: {type(error).__name__}: {error}; wanted {WANTED}") from error
    return Pack(path.parent, name, names, sizes, checksums, len(line))


def _numbers(text: str, dtype: str) -> NDArray[Any]:
    return np.frombuffer(base64.b64decode(text, validate=True), dtype)


def _seal(raw: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(raw, sort_keys=True).encode()).hexdigest()


# Writing


def packing(directory: Path) -> AbstractContextManager[None]:
    """The lock of the one process that packs or removes games under directory. Raises Busy if another has it."""
    busy = f"{directory}: another process packs or prunes these games; wait until it is done"
    return atomic.file_lock(directory / LOCK, wait=False, busy=busy)


def write_pack(folder: Path, shards: Sequence[tuple[layout.ShardName, bytes, bytes]]) -> Pack:
    """Write and commit a pack of shards of this place. The caller removes what it replaces.

    shards: (name, content of the file, content of the sidecar), ascending. Raises FileError.
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
    """Remove the shards' own files, sidecars first: a shard without one doesn't exist."""
    atomic.remove(folder / name.meta for name in names)
    atomic.remove(folder / name.shard for name in names)
    with atomic.os_errors(folder):
        atomic.sync(folder)
