"""Example extraction: from sampled positions in shards to rows of a scratch file, several shards at a time.

Each shard that holds a wanted position is read once. A damaged shard is reported and leaves its rows empty. The
contents of the scratch file don't depend on the number of threads or on how positions are grouped. Axis: N positions,
one row each.
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

POSITIONS_PER_GROUP = 32_768  # replayed in one batch: enough to keep kernels busy, little enough to stay in memory
MAX_THREADS = 8

T = TypeVar("T")
R = TypeVar("R")


class Scratch:
    """num_rows examples with these columns (see chunks.column_types) in a file of that folder, in any order.

    The file has no name, so a killed process leaves nothing behind. Its disk space is allocated at once, so that a full
    disk is an error before the work and not a fault in the middle of it. A row holds all columns of one example side by
    side. Raises FileError if the disk has no room for it. Close it when done.
    """

    def __init__(self, folder: Path, num_rows: int, columns: dict[str, tuple[str, tuple[int, ...]]]) -> None:
        self._dtype = np.dtype([(name, dtype, shape) for name, (dtype, shape) in columns.items()])
        size = max(num_rows * self._dtype.itemsize, 1)
        with atomic.os_errors(folder), tempfile.TemporaryFile(dir=folder) as file:
            atomic.allocate(file.fileno(), size)
            self._map = mmap.mmap(file.fileno(), size)
        self._rows = np.frombuffer(self._map, np.uint8, num_rows * self._dtype.itemsize).reshape(num_rows, -1)

    def put(self, rows: NDArray[np.integer], columns: dict[str, NDArray[Any]]) -> None:
        """Write examples to these rows. Threads may do so at once, each to its own rows."""
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

    bad  damaged shards found so far, as indices into the window's metas   shards_read  number of reads
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
        """Put the examples of N wanted positions into these rows [N]; returns the rows left empty by damage, sorted.

        td_lambda: [N], see Method.examples. The column shard is then an index into the window's metas.
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
        """The work of one thread: read whole shards, make their examples in one batch, put them into their rows."""
        numbers = np.unique(wanted.shard)
        shards: dict[int, Shard] = {}
        errors: list[tuple[int, FileError]] = []
        metas = [self._window.metas[number] for number in numbers.tolist()]
        atomic.bring_all([meta.path for meta in metas if meta.pack is None])
        for number in numbers.tolist():
            meta = self._window.metas[number]
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
            except FileError as error:  # one shard spoils the batch: try again without it
                spoilt = next(number for number in shards if shards[number].path == error.path)
                del shards[spoilt]
                errors.append((spoilt, error))
                continue
            columns["shard"] = here.shard.astype(np.uint32)  # in the scratch file: index into the window's shards
            scratch.put(rows[good], columns)
            break
        return _Extracted(len(rows), len(numbers), np.delete(rows, good), errors)


@dataclass(frozen=True)
class _Extracted:
    """The result of one group. failed: the rows that got no example."""

    num_rows: int
    shards_read: int
    failed: IndexArray
    errors: list[tuple[int, FileError]]


def _groups(wanted: Positions) -> Iterator[IndexArray]:
    """Indices into wanted, grouped so that all positions of a shard are in one group."""
    order = np.argsort(wanted.shard, kind="stable")
    stops = np.flatnonzero(np.diff(wanted.shard[order], append=-1)) + 1
    start = 0
    for stop in stops.tolist():
        if stop - start >= POSITIONS_PER_GROUP or stop == len(order):
            yield order[start:stop]
            start = stop


def in_threads(function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """The results of function for each item, in order; only a few items are in progress at a time."""
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
