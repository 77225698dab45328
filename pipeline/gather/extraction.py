"""Example extraction: makes examples of sampled positions and puts them into the rows of a scratch file.

Threads process groups of shards; each shard with a sampled position is read once. A damaged shard is reported and its
rows stay empty. The scratch file's contents depend neither on the number of threads nor on the grouping. Axis: N
positions, one row each.
"""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import FileError
from pipeline.games.contract import AnyGame
from pipeline.gather.config import GatherConfig
from pipeline.gather.window import Window
from pipeline.machine import available_cores
from pipeline.methods.method import IndexArray, Method, Positions
from pipeline.progress import Progress
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


@dataclass
class Reader:
    """Reads the shards of one window.

    skip         called once with the error of each damaged shard
    bad          damaged shards found so far, as indices into the window's metas
    shards_read  number of reads
    """

    config: GatherConfig
    game: AnyGame
    method: Method
    window: Window
    skip: Callable[[FileError], None]
    progress: Progress
    bad: set[int] = field(default_factory=set)
    shards_read: int = 0

    def extract(self, scratch: Scratch, wanted: Positions, rows: IndexArray, num_training: int) -> IndexArray:
        """Put the examples of N wanted positions into rows [N]; returns the rows of damaged shards, sorted.

        num_training: rows before the hold-out's. The column `shard` becomes an index into the window's metas.
        """
        # The hold-out always measures how well results are predicted.
        td_lambda = np.where(rows < num_training, np.float32(self.config.td_lambda), np.float32(1))
        failed = np.zeros(len(rows), np.bool_)

        def work(group: IndexArray) -> tuple[IndexArray, int, dict[int, FileError]]:
            """One thread's work: read whole shards and make their examples in one batch."""
            of_group = wanted.at(group)

            def put(shards: dict[int, Shard]) -> None:
                good = np.flatnonzero(np.isin(of_group.shard, list(shards)))
                here = of_group.at(good)
                local = Positions(np.searchsorted(list(shards), here.shard), here.game, here.ply)
                lambdas = td_lambda[group[good]]
                columns = self.method.examples(self.game, list(shards.values()), local, lambdas, self.config)
                columns["shard"] = here.shard.astype(np.uint32)
                scratch.put(rows[group[good]], columns)

            metas = {number: self.window.metas[number] for number in np.unique(of_group.shard).tolist()}
            return group, len(metas), read_intact(metas, put)[1]

        for group, num_read, errors in in_threads(work, _groups(wanted)):
            self.shards_read += num_read
            for shard, error in errors.items():
                if shard not in self.bad:
                    self.skip(error)
                self.bad.add(shard)
            failed[group] = np.isin(wanted.shard[group], list(errors))
            self.progress.advance(len(group) - int(failed[group].sum()))
        return np.sort(rows[failed])


def read_intact(
    metas: Mapping[int, ShardMeta], use: Callable[[dict[int, Shard]], None]
) -> tuple[dict[int, Shard], dict[int, FileError]]:
    """(the intact shards, the errors of the others). use: called with the readable ones, and again without each whose
    FileError it raises.
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


def _groups(wanted: Positions) -> Iterator[IndexArray]:
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
