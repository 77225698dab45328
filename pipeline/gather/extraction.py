"""Example extraction: threads read intact shards in groups, and their examples go to the rows of a scratch file.

The scratch file's contents depend neither on the number of threads nor on the grouping. Axis: N positions, or rows.
"""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import FileError
from pipeline.machine import available_cores
from pipeline.methods.method import IndexArray, Positions
from pipeline.run import atomic
from pipeline.run.chunks import Columns, ColumnTypes
from pipeline.run.shards import Shard, ShardMeta, read_shard
from pipeline.run.store.base import current_store

POSITIONS_PER_GROUP = 32_768  # replayed in one batch: enough to keep kernels busy, few enough for memory
MAX_THREADS = 8

T = TypeVar("T")
R = TypeVar("R")


class Scratch:
    """Examples with these columns in an unnamed file, written in any order.

    examples  [num_rows] structured, with a field per column

    The file has no name, so a kill leaves nothing behind. Its disk space is allocated at once, so that a full disk is
    an error here and not a crash (SIGBUS) on access. Raises FileError if the folder's disk has no room.
    """

    def __init__(self, folder: Path, num_rows: int, columns: ColumnTypes) -> None:
        dtype = np.dtype([(name, dtype, shape) for name, (dtype, shape) in columns.items()])
        with atomic.os_errors(folder), tempfile.TemporaryFile(dir=folder) as file:
            atomic.allocate(file.fileno(), num_rows * dtype.itemsize)
            self.examples: NDArray[Any] = np.memmap(file, dtype, "r+", shape=num_rows).view(np.ndarray)

    def put(self, rows: IndexArray, columns: Columns) -> None:
        """Write examples to these rows. Threads may write different rows at the same time."""
        packed = np.empty(len(rows), self.examples.dtype)
        for name, column in columns.items():
            packed[name] = column
        as_bytes = np.dtype((np.void, packed.itemsize))  # copied whole, not field by field
        self.examples.view(as_bytes)[rows] = packed.view(as_bytes)

    def get(self, rows: IndexArray) -> Columns:
        """The columns of these rows, copied."""
        return {name: self.examples[name][rows] for name in self.examples.dtype.names or ()}


def read_intact(
    metas: Mapping[int, ShardMeta], use: Callable[[dict[int, Shard]], None]
) -> tuple[dict[int, Shard], dict[int, FileError]]:
    """Returns the intact shards and the others' errors.

    use: gets all readable shards; if it raises FileError for one, it is called again without that one.
    """
    shards: dict[int, Shard] = {}
    errors: dict[int, FileError] = {}
    current_store().fetch([meta.path for meta in metas.values() if meta.pack is None])
    for number, meta in metas.items():
        try:
            shards[number] = read_shard(meta.path, meta)
        except FileError as error:
            errors[number] = error
    while shards:
        try:
            use(shards)
            break
        except FileError as error:
            damaged = next(number for number in shards if shards[number].path == error.path)
            del shards[damaged]
            errors[damaged] = error
    return shards, errors


def in_groups(wanted: Positions) -> Iterator[IndexArray]:
    """Indices into wanted, in groups of whole shards."""
    order = np.argsort(wanted.shard, kind="stable")
    stops = np.flatnonzero(np.diff(wanted.shard[order], append=-1)) + 1
    start = 0
    for stop in stops.tolist():
        if stop - start >= POSITIONS_PER_GROUP or stop == len(order):
            yield order[start:stop]
            start = stop


def in_threads(function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """The function's results for the items, in order; only a few items are in progress at a time."""
    threads = min(available_cores(), MAX_THREADS)
    with ThreadPoolExecutor(threads) as pool:
        pending: deque[Future[R]] = deque()
        try:
            for item in items:
                pending.append(pool.submit(function, item))
                if len(pending) >= 2 * threads:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()
