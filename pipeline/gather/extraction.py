"""Example extraction: makes examples of sampled positions and puts them into the rows of a scratch file.

Threads process groups of shards; each shard with a sampled position is read once. A damaged shard is reported and its
rows stay empty. The scratch file's contents depend neither on the number of threads nor on the grouping. Axis: N
positions, one row each.
"""

from __future__ import annotations

import mmap
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
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
from pipeline.run.shards import Shard, read_shard
from pipeline.run.store.base import current_store

POSITIONS_PER_GROUP = 32_768  # replayed in one batch: enough to keep kernels busy, few enough for memory
MAX_THREADS = 8

T = TypeVar("T")
R = TypeVar("R")


class Scratch:
    """num_rows examples with these columns (see chunks.column_types) in an unnamed file, written in any order.

    The file has no name, so a kill leaves nothing behind. Its disk space is allocated at once, so that a full disk is
    an error here and not a crash (SIGBUS) on access. A row holds all columns of one example. Raises FileError if the
    folder's disk has no room. Close it when done.
    """

    def __init__(self, folder: Path, num_rows: int, columns: dict[str, tuple[str, tuple[int, ...]]]) -> None:
        self._dtype = np.dtype([(name, dtype, shape) for name, (dtype, shape) in columns.items()])
        size = max(num_rows * self._dtype.itemsize, 1)
        with atomic.os_errors(folder), tempfile.TemporaryFile(dir=folder) as file:
            atomic.allocate(file.fileno(), size)
            self._map = mmap.mmap(file.fileno(), size)
        self._rows = np.frombuffer(self._map, np.uint8, num_rows * self._dtype.itemsize).reshape(num_rows, -1)

    def put(self, rows: NDArray[np.integer], columns: dict[str, NDArray[Any]]) -> None:
        """Write examples to these rows. Threads may write different rows at the same time."""
        packed = np.empty(len(rows), self._dtype)
        for name, column in columns.items():
            packed[name] = column
        self._rows[rows] = packed.view(np.uint8).reshape(len(rows), -1)

    def get(self, start: int, stop: int) -> dict[str, NDArray[Any]]:
        """The columns of these rows, copied."""
        packed = np.ascontiguousarray(self._rows[start:stop]).view(self._dtype)[:, 0]
        return {name: np.ascontiguousarray(packed[name]) for name in self._dtype.names or ()}

    def column(self, name: str, rows: NDArray[np.integer]) -> NDArray[Any]:
        """[n, ...] one column of these rows [n], copied."""
        return self._rows.view(self._dtype)[:, 0][name][rows]

    def set_column(self, name: str, rows: NDArray[np.integer], values: NDArray[Any]) -> None:
        """Write one column of these rows [n]."""
        self._rows.view(self._dtype)[:, 0][name][rows] = values

    def move(self, sources: NDArray[np.integer], targets: NDArray[np.integer]) -> None:
        """Copy whole rows."""
        self._rows[targets] = self._rows[sources]

    def close(self) -> None:
        del self._rows
        self._map.close()


class Reader:
    """Reads the shards of one window.

    bad          damaged shards found so far, as indices into the window's metas
    shards_read  number of reads
    """

    def __init__(
        self,
        config: GatherConfig,
        game: AnyGame,
        method: Method,
        window: Window,
        skip: Callable[[FileError], None],
        progress: Progress,
    ) -> None:
        """skip: called once with the error of each damaged shard."""
        self._config = config
        self._game = game
        self._method = method
        self._window = window
        self._skip = skip
        self._progress = progress
        self.bad: set[int] = set()
        self.shards_read = 0

    def extract(
        self, scratch: Scratch, wanted: Positions, rows: IndexArray, td_lambda: NDArray[np.float32]
    ) -> IndexArray:
        """Put the examples of N wanted positions into rows [N]; returns the rows of damaged shards, sorted.

        td_lambda: [N], see Method.examples. The column `shard` becomes an index into the window's metas.
        """
        failed = [np.zeros(0, np.int64)]

        def work(group: IndexArray) -> _Extracted:
            return self._extract_group(scratch, wanted.at(group), rows[group], td_lambda[group])

        for done in in_threads(work, _groups(wanted)):
            self.shards_read += done.shards_read
            for shard, error in done.errors:
                if shard not in self.bad:
                    self._skip(error)
                self.bad.add(shard)
            failed.append(done.failed)
            self._progress.advance(done.num_rows - len(done.failed))
        return np.sort(np.concatenate(failed))

    def _extract_group(
        self, scratch: Scratch, wanted: Positions, rows: IndexArray, td_lambda: NDArray[np.float32]
    ) -> _Extracted:
        """One thread's work: read whole shards and make their examples in one batch."""
        shards: dict[int, Shard] = {}
        errors: list[tuple[int, FileError]] = []
        metas = {number: self._window.metas[number] for number in np.unique(wanted.shard).tolist()}
        current_store().fetch([meta.path for meta in metas.values() if meta.pack is None])
        for number, meta in metas.items():
            try:
                shards[number] = read_shard(meta.path, meta)
            except FileError as error:
                errors.append((number, error))
        while True:
            good = np.flatnonzero(np.isin(wanted.shard, list(shards)))
            if not len(good):
                break
            here = wanted.at(good)
            known = np.array(sorted(shards))
            local = Positions(np.searchsorted(known, here.shard), here.game, here.ply)
            try:
                columns = self._method.examples(
                    self._game, [shards[one] for one in known.tolist()], local, td_lambda[good], self._config
                )
            except FileError as error:  # try again without the damaged shard
                damaged = next(number for number in shards if shards[number].path == error.path)
                del shards[damaged]
                errors.append((damaged, error))
                continue
            columns["shard"] = here.shard.astype(np.uint32)
            scratch.put(rows[good], columns)
            break
        return _Extracted(len(rows), len(metas), np.delete(rows, good), errors)


@dataclass(frozen=True)
class _Extracted:
    """The result of one group. failed: the rows without an example."""

    num_rows: int
    shards_read: int
    failed: IndexArray
    errors: list[tuple[int, FileError]]


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
