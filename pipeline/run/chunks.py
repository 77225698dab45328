"""Chunks: training examples in HDF5, and the sets that they form.

A chunk has n examples in columns; axes: A actions, C planes, P points. The chunks of one gather run are a *set*. Its
hold-out, from games of which no chunk has examples, is written before the first chunk, so a set is complete when all
its numbered chunks exist. Chunks state the size of the hold-out, so that a missing one is noticed.
"""

from __future__ import annotations

import hashlib
import io
import json
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from pipeline.errors import FileError
from pipeline.run import atomic, layout
from pipeline.run.order import COUNTED, MOST, TOTAL

FORMAT, VERSION = "mugo-chunk", 1
SHARD_LIST = "shards"  # dataset of names, beside the columns
WEIGHTS = "sampling_weights"  # dataset, only in sets that weren't sampled uniformly
SEAL_BYTES = 512  # the smallest user block that HDF5 allows
MOST_NAMES_BYTES = 64 << 20  # of an uncompressed list of names: about a million
HELD_OUT = "holdout_positions"  # a window's key for the number of examples in the set's hold-out
COUNTS = (TOTAL, "new_positions", HELD_OUT)  # keys of a window that commands read


Columns = dict[str, NDArray[Any]]
ColumnTypes = dict[str, tuple[str, tuple[int, ...]]]  # name → (dtype, shape of one example)

# The columns of examples are the method's (Method.columns; AlphaZero's: methods/alphazero/examples.py). Every chunk has
# these after them: index into the chunk's list of shards, the game's index in its shard, plies before the position.
ORIGIN: ColumnTypes = {"shard": ("<u4", ()), "game": ("<u4", ()), "ply": ("<u2", ())}


@dataclass(frozen=True)
class ChunkHeader:
    """A chunk's attributes."""

    game: str  # canonical spec
    set_id: str
    index: int  # of this chunk in its set, from 0; -1: the hold-out
    num_chunks: int  # in the set, the hold-out not counted
    seed: int
    num_planes: int  # of the game; 0 if it has none
    method: str  # that extracted the examples
    window: dict[str, Any]  # what the set was sampled from, as JSON, with COUNTS and COUNTED
    num_examples: int = 0  # set by reading


@dataclass(frozen=True)
class Chunk:
    """Columns of the method, then ORIGIN, each with n rows.

    weights [n]: relative probabilities with which the positions were sampled, 1 on average over the window; None: equal
    """

    path: Path
    header: ChunkHeader
    columns: dict[str, NDArray[Any]]
    shards: list[str]  # ``MODEL/WORKER/FILE.gz``; the column shard is an index into this list
    weights: NDArray[np.float32] | None = None

    @property
    def num_examples(self) -> int:
        return len(self.columns["ply"])


@dataclass(frozen=True)
class ChunkSet:
    """The files of a complete set."""

    id: str
    chunks: tuple[Path, ...]  # by index
    holdout: Path | None

    @property
    def files(self) -> tuple[Path, ...]:
        return self.chunks if self.holdout is None else (*self.chunks, self.holdout)


# One chunk


def write_chunk(
    path: Path,
    header: ChunkHeader,
    columns: Columns,
    shards: list[str],
    folder_sync: bool = True,
    weights: NDArray[np.float32] | None = None,
) -> None:
    """Write a chunk atomically. columns: the method's, then ORIGIN; weights: see Chunk.

    Raises FileError for a full or read-only disk.
    """
    image = io.BytesIO()  # in memory first, because HDF5 reports a full disk by many errors
    with h5py.File(image, "w", userblock_size=SEAL_BYTES) as file:
        facts = asdict(replace(header, num_examples=len(columns["ply"])))
        window = dict(facts.pop("window"))
        numbers = window.pop(COUNTED)  # in a dataset, because an attribute has at most 64 KiB
        file.attrs.update({"format": FORMAT, "version": VERSION, **facts, "window": json.dumps(window)})
        for name, column in columns.items():
            file.create_dataset(name, data=column)
        if weights is not None:
            file.create_dataset(WEIGHTS, data=weights)
        _write_names(file, SHARD_LIST, shards)
        _write_names(file, COUNTED, [f"{place} {number}" for place, number in numbers.items()])
    sealed = image.getbuffer()
    sealed[:SEAL_BYTES] = _seal(sealed)
    atomic.write_bytes(path, sealed, folder_sync)


def _write_names(file: h5py.File, dataset: str, names: list[str]) -> None:
    file.create_dataset(dataset, data=np.array(names, "S" if names else "S1"), compression=1 if names else None)


def _seal(data: memoryview) -> bytes:
    """The user block, which HDF5 skips: one line of JSON with the length and checksum of the rest.

    It is checked first, because HDF5's behaviour on damaged files is undefined and includes endless loops.
    """
    body = data[SEAL_BYTES:]
    seal = {"format": FORMAT, "version": VERSION, "bytes": len(body), "sha256": hashlib.sha256(body).hexdigest()}
    return json.dumps(seal).encode().ljust(SEAL_BYTES - 1) + b"\n"


def _unseal(path: Path) -> io.BytesIO:
    """The whole file, checked against its seal."""
    data = atomic.read_bytes(path, "a chunk of training examples; run `python main.py gather`")
    try:
        seal = atomic.load_json(data[:SEAL_BYTES])
    except ValueError:
        seal = None
    if not isinstance(seal, dict) or seal.get("format") != FORMAT:
        raise FileError(path, "damaged, or no chunk of training examples; wanted one; remove it and run gather again")
    if seal.get("version") != VERSION:
        found = f"made by another version: format {seal.get('version')}; wanted {VERSION}"
        raise FileError(path, f"{found}; run `python main.py gather` again to make new ones")
    if data[:SEAL_BYTES] != _seal(memoryview(data)):
        length = seal.get("bytes")
        wanted = length + SEAL_BYTES if isinstance(length, int) else f"{SEAL_BYTES} and more"
        found = f"{len(data)} bytes; wanted {wanted}" if len(data) != wanted else "its checksum differs"
        raise FileError(path, f"damaged or cut off: {found}; run the same gather again, or remove it")
    return io.BytesIO(data)


def read_chunk(path: Path, game_spec: str, types: ColumnTypes) -> Chunk:
    """A checked chunk. Raises FileError if it is missing, cut off, damaged, or of another version or game."""
    with _opened(path) as file:
        header = _read_header(path, file)
        if header.game != game_spec:
            raise FileError(path, f"it holds {header.game}; wanted {game_spec}")
        columns = {
            name: _read_column(path, file, name, np.dtype(dtype), (header.num_examples, *shape), game_spec)
            for name, (dtype, shape) in {**types, **ORIGIN}.items()
        }
        weights = None
        if file.get(WEIGHTS, getlink=True) is not None:
            weights = _read_column(path, file, WEIGHTS, np.dtype("<f4"), (header.num_examples,), game_spec)
            if not (np.isfinite(weights) & (weights > 0)).all():
                raise FileError(path, f"damaged: one of its {WEIGHTS} isn't above 0")
        shards = _read_names(path, file, SHARD_LIST)
    if len(columns["shard"]) and int(columns["shard"].max()) >= len(shards):
        raise FileError(path, "damaged: an example's shard is not in its list of shards")
    return Chunk(path, header, columns, shards, weights)


def read_header(path: Path) -> ChunkHeader:
    """A chunk's attributes. Raises FileError like read_chunk, but for no game."""
    with _opened(path) as file:
        return _read_header(path, file)


@contextmanager
def _opened(path: Path) -> Iterator[h5py.File]:
    """The file, checked against its seal. Errors of HDF5 inside the block become FileErrors."""
    data = _unseal(path)
    try:
        with h5py.File(data, "r") as file:
            yield file
    except (OSError, KeyError, ValueError, TypeError, RuntimeError, OverflowError, MemoryError, zlib.error) as error:
        text = " ".join(str(error).split())
        problem = f"not readable as HDF5 ({text}); wanted a chunk; remove it and run gather again"
        raise FileError(path, problem) from error


def _read_header(path: Path, file: h5py.File) -> ChunkHeader:
    read: dict[str, Callable[[Any], Any]] = {"game": str, "set_id": str, "window": _read_window, "method": str}
    names = [one.name for one in fields(ChunkHeader)]
    header = ChunkHeader(**{name: read.get(name, int)(_read_attribute(file, name)) for name in names})
    header.window[COUNTED] = dict(map(_read_counted, _read_names(path, file, COUNTED)))
    return header


def _read_attribute(file: h5py.File, name: str) -> Any:
    """A text or a number. Raises ValueError for anything else, KeyError if it is missing."""
    shape = file.attrs.get_id(name).shape
    if shape != ():
        raise ValueError(f"attribute {name} has shape {shape}")
    value = file.attrs[name]
    if not isinstance(value, str | np.integer):
        raise ValueError(f"attribute {name} is a {type(value).__name__}")
    return value


def _read_window(text: str) -> dict[str, Any]:
    window = atomic.load_json(text)
    if not isinstance(window, dict):
        raise ValueError(f"window is a {type(window).__name__}")
    if missing := [name for name in (*COUNTS, "td_lambda", "skipped") if name not in window]:
        raise ValueError(f"window has no {missing[0]}")
    for name in COUNTS:
        count = window[name]
        if not isinstance(count, int) or not 0 <= count < 2**63:
            raise ValueError(f"window {name} is {str(count)[:40]}")
    return window


def _read_counted(line: str) -> tuple[str, int]:
    place, _, number = line.partition(" ")
    if not number.isdecimal() or not int(number) < MOST:
        raise ValueError(f"{COUNTED} has {line[:40]!r}")
    return place, int(number)


def _dataset(path: Path, file: h5py.File, name: str) -> h5py.Dataset:
    """A dataset in this file, so that reading it opens no other file.

    A correct seal doesn't exclude that, because the author of the file also made the seal.
    """
    link = file.get(name, getlink=True)
    if link is None:
        raise KeyError(f"{name} is missing")
    # The link is checked before it is opened, because h5py follows all links.
    if isinstance(link, h5py.HardLink) and isinstance(dataset := file[name], h5py.Dataset):
        stored = dataset.id.get_create_plist()
        if stored.get_layout() in (h5py.h5d.CONTIGUOUS, h5py.h5d.CHUNKED) and not stored.get_external_count():
            return dataset
    raise FileError(path, f"{name} is no array in this file; wanted a chunk; remove it and run gather again")


def _is_whole(dataset: h5py.Dataset, file_bytes: int) -> bool:
    """Whether all its bytes are in the file, contiguous and uncompressed."""
    if dataset.id.get_create_plist().get_layout() != h5py.h5d.CONTIGUOUS:
        return False
    offset = dataset.id.get_offset() or 0  # None: it has no bytes
    return dataset.id.get_storage_size() == dataset.nbytes <= file_bytes - offset


def _read_column(
    path: Path, file: h5py.File, name: str, dtype: np.dtype[Any], shape: tuple[int, ...], spec: str
) -> NDArray[Any]:
    dataset = _dataset(path, file, name)
    if dataset.shape != shape or dataset.dtype != dtype:
        found = f"{name} is {dataset.dtype} {dataset.shape}"
        raise FileError(path, f"{found}; {spec} needs {dtype} {shape}; run gather again")
    if not _is_whole(dataset, file.id.get_filesize()):
        raise FileError(path, f"{name}: its {dataset.nbytes} bytes aren't in the file; remove it and run gather again")
    return dataset[()]


def _read_names(path: Path, file: h5py.File, name: str) -> list[str]:
    dataset = _dataset(path, file, name)
    if dataset.ndim != 1 or dataset.dtype.kind != "S" or dataset.nbytes > MOST_NAMES_BYTES:
        found = f"{name} is {dataset.dtype} {dataset.shape}"
        raise FileError(path, f"{found}; wanted a list of names of at most {MOST_NAMES_BYTES} bytes")
    names = dataset[()] if _is_whole(dataset, file.id.get_filesize()) else _unpacked(dataset)
    return [one.decode() for one in names]


def _unpacked(dataset: h5py.Dataset) -> NDArray[Any]:
    """[n] a dataset that is compressed by zlib alone. HDF5 itself would unpack a part without a limit.

    Raises ValueError if it is stored in another way.
    """
    stored, (num_names,) = dataset.id.get_create_plist(), dataset.shape
    filters = [stored.get_filter(number)[0] for number in range(stored.get_nfilters())]
    if stored.get_layout() != h5py.h5d.CHUNKED or filters != [h5py.h5z.FILTER_DEFLATE]:
        raise ValueError(f"{dataset.name} is stored in another way")
    (length,) = dataset.chunks
    num_bytes, num_parts = length * dataset.dtype.itemsize, dataset.id.get_num_chunks()
    if num_bytes > MOST_NAMES_BYTES or num_parts != -(-num_names // length):
        raise ValueError(f"{dataset.name} has {num_parts} parts of {num_bytes} bytes")
    names = np.zeros(num_names, dataset.dtype)
    for number in range(num_parts):
        offset = dataset.id.get_chunk_info(number).chunk_offset
        _, packed = dataset.id.read_direct_chunk(offset)
        unpacked = zlib.decompressobj().decompress(packed, num_bytes)
        part = names[offset[0] : offset[0] + length]
        part[:] = np.frombuffer(unpacked, dataset.dtype, length)[: len(part)]
    return names


# Sets


def list_sets(directory: Path) -> dict[layout.SetName, list[Path]]:
    """The files of every set in a folder, complete or not, oldest set first; none if the folder is missing."""
    names = atomic.names_in(directory)
    sets: dict[layout.SetName, list[Path]] = {}
    for parsed, name in sorted((parsed, name) for name in names if (parsed := layout.parse_chunk_name(name))):
        sets.setdefault(parsed.set, []).append(directory / name)
    return sets


def complete_set(set_name: layout.SetName, files: list[Path]) -> ChunkSet | None:
    """The files of one set as a ChunkSet; None if a numbered chunk is missing."""
    by_count: dict[int, list[Path]] = defaultdict(list)
    for path in sorted(files):
        if parsed := layout.parse_chunk_name(path.name):
            by_count[parsed.count].append(path)
    holdouts = by_count.pop(0, [])  # a hold-out's name gives no count
    for count, paths in by_count.items():
        if len(paths) == count:
            return ChunkSet(str(set_name), tuple(paths), holdouts[0] if holdouts else None)
    return None


def check_holdout(chunks: ChunkSet, header: ChunkHeader) -> None:
    """Raises FileError if the set's hold-out is missing. header: of one of its chunks."""
    examples = header.window[HELD_OUT]
    if examples and chunks.holdout is None:
        path = chunks.chunks[0].with_name(f"{chunks.id}-holdout{layout.CHUNK_SUFFIX}")
        raise FileError(path, f"missing; set {chunks.id} was made with {examples:,} examples in it; run gather again")


def newest_complete_set(directory: Path) -> ChunkSet | None:
    """The newest complete set in a folder; None if no set is complete."""
    newest_first = (complete_set(name, files) for name, files in reversed(list_sets(directory).items()))
    return next(filter(None, newest_first), None)


def remove_old_sets(directory: Path, keep: int, made: str = "") -> int:
    """Remove all sets, also incomplete ones, but the newest `keep` complete ones and the one just made, if it is older.

    Returns how many were removed.

    Call it under the folder's lock when the new set is complete.
    """
    sets = list_sets(directory)
    complete = [name for name, files in sets.items() if complete_set(name, files)]
    old = [files for name, files in sets.items() if name not in complete[-keep:] and str(name) != made]
    remove_sets(old)
    return len(old)


def remove_sets(sets: Iterable[Sequence[Path]]) -> None:
    """Remove the files of sets, as list_sets() has them. A kill in between leaves incomplete sets at most."""
    atomic.remove(path for files in sets for path in reversed(files))  # the hold-out, which comes first, last
