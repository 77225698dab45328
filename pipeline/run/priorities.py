"""Priorities of the examples of a chunk set, in one file beside its chunks.

The file belongs to one set and is replaced as a whole. Each priority has its example's number, a hash of the example's
origin, by which a later set with the same position finds the priority.

n: the examples of a set, in the order of its chunks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

from pipeline.errors import FileError
from pipeline.run import atomic, layout
from pipeline.run.arrays import pack
from pipeline.run.chunks import list_sets

FORMAT, VERSION = "mugo-priorities", 1

ExampleArray = NDArray[np.uint64]
PriorityArray = NDArray[np.float32]


@dataclass(frozen=True)
class Priorities:
    examples: ExampleArray  # [n]
    values: PriorityArray  # [n] above 0, finite


def example_numbers(
    shards: Sequence[str], shard: NDArray[np.integer], game: NDArray[np.integer], ply: NDArray[np.integer]
) -> ExampleArray:
    """[n] a 64-bit hash of each position's origin, the same in every chunk.

    shards: the chunk's list of names; shard [n] index into it, game [n] in the shard, ply [n] in the game.
    Source: the finaliser of splitmix64 (Steele et al. 2014).
    """
    digests = [hashlib.blake2b(name.encode(), digest_size=8).digest() for name in shards]
    hashes = np.array([int.from_bytes(digest, "little") for digest in digests], np.uint64)
    place = (game.astype(np.uint64) << np.uint64(16)) | ply.astype(np.uint64)
    mixed = hashes[shard] + place * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return mixed ^ (mixed >> np.uint64(31))


def write_priorities(path: Path, priorities: Priorities) -> None:
    """Write the file atomically. Raises FileError if the disk is full or read-only."""
    arrays: dict[str, NDArray[Any]] = {"examples": priorities.examples, "priorities": priorities.values}
    metadata = {"format": FORMAT, "version": str(VERSION), "sha256": _digest(arrays)}
    atomic.write_bytes(path, pack(arrays, metadata))


def read_priorities(path: Path) -> Priorities:
    """Raises FileError if the file is missing, damaged or of another version, or a priority isn't above 0."""
    atomic.bring(path)
    try:
        with safetensors.safe_open(path, framework="np") as opened:
            metadata = opened.metadata() or {}
            arrays = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118  no mapping
        if metadata.get("format") != FORMAT or metadata.get("version") != str(VERSION):
            raise ValueError(f"format {metadata.get('format')!r}, version {metadata.get('version')!r}")
        if metadata.get("sha256") != _digest(arrays):
            raise ValueError("its checksum differs")
        examples, values = arrays["examples"], arrays["priorities"]
        if examples.dtype != np.uint64 or values.dtype != np.float32 or examples.ndim != 1:
            raise ValueError(f"{examples.dtype} {examples.shape} and {values.dtype} {values.shape}")
        if examples.shape != values.shape or not (np.isfinite(values) & (values > 0)).all():
            raise ValueError("an example without a priority above 0")
    except (safetensors.SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
        text = " ".join(str(error).split())
        raise FileError(path, f"damaged ({text}); wanted priorities of version {VERSION}; remove it") from error
    return Priorities(examples, values)


def _digest(arrays: dict[str, NDArray[Any]]) -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        digest.update(f"{name} {arrays[name].dtype} {arrays[name].shape}".encode())
        digest.update(np.ascontiguousarray(arrays[name]).tobytes())
    return digest.hexdigest()


def newest_priorities(directory: Path, set_id: str) -> Path | None:
    """The file of this set, or of the newest earlier set that has one; None if there is none."""
    found = [(name, path) for name, path in list_priorities(directory) if str(name) <= set_id]
    return max(found)[1] if found else None


def remove_stale_priorities(directory: Path, keep: str) -> int:
    """Remove the files of sets whose chunks are gone, except that of the set `keep`; returns how many were removed.

    Gather removes old sets; their priorities stay until a training has taken them over.
    """
    present = list_sets(directory)
    stale = [path for name, path in list_priorities(directory) if name not in present and str(name) != keep]
    atomic.remove(stale)
    return len(stale)


def list_priorities(directory: Path) -> list[tuple[layout.SetName, Path]]:
    """(set, path) of the files of priorities in a folder; none if it is missing."""
    names = atomic.names_in(directory)
    return [(parsed, directory / name) for name in names if (parsed := layout.parse_priorities_name(name))]
