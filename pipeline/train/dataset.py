"""Batches of examples from a set of chunks, in a random order that depends on the seed and the step only.

An *epoch* sees every example once. A set that fits into MEMORY_BYTES is held whole, packed as on disk, and shuffled
whole; a larger one is read in groups of whole chunks that fit, the groups' chunks drawn anew each epoch. (Chunks are
uniform samples themselves, so that shuffling within a group loses nothing.) A group is cut into batches of equal size,
give or take one. Each time an example is loaded, one of the board's symmetries is drawn for it, and its planes, policy
and ownership are moved together.

Prioritised replay draws rows of a set that is held whole instead (``replay.py``) and has them made into a batch.

Because an epoch's order comes from (seed, set, epoch) alone, a run that goes on at step s sees the same batches as one
that was never interrupted.

B batch, A actions, C planes, H×W board, P points, K symmetries.
"""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pipeline.errors import FileError
from pipeline.games.base import Game
from pipeline.methods.alphazero.losses import Batch
from pipeline.storage.chunks import ChunkSet, read_chunk
from pipeline.storage.priorities import ExampleArray, example_numbers

MEMORY_BYTES = 1 << 30  # of packed examples held at once
PREFETCHED_BATCHES = 4
USED_COLUMNS = (
    "planes", "policy", "policy_weight", "value", "ownership", "score", "final_weight", "reply", "reply_weight",
)  # fmt: skip

Columns = Mapping[str, NDArray[Any]]
IndexArray = NDArray[np.int64]


def make_batch(game: Game, columns: Columns, rows: IndexArray, symmetry: IndexArray) -> Batch:
    """The examples rows [B] of columns (packed, as in chunks.column_types), each under its symmetry [B] in 0..K-1.

    Planes, policy, reply and ownership move together. Every sample_weight is 1.
    """
    height, width = game.board_shape
    num_bits = game.num_planes * game.num_points
    bits = np.unpackbits(columns["planes"][rows], axis=1, count=num_bits)
    source = _sources(game)
    planes = _move(bits.reshape(len(rows), game.num_planes, game.num_points), source.points, symmetry)
    policy = _move(columns["policy"][rows].astype(np.float32), source.actions, symmetry)
    reply = _move(columns["reply"][rows].astype(np.float32), source.actions, symmetry)
    ownership = _move(columns["ownership"][rows].astype(np.float32), source.points, symmetry)
    return Batch(
        planes=torch.from_numpy(planes.reshape(len(rows), game.num_planes, height, width)),
        policy=torch.from_numpy(policy),
        policy_weight=torch.from_numpy(columns["policy_weight"][rows].astype(np.float32)),
        value=torch.from_numpy(columns["value"][rows].astype(np.float32)),
        ownership=torch.from_numpy(ownership),
        score=torch.from_numpy(columns["score"][rows].astype(np.float32)),
        final_weight=torch.from_numpy(columns["final_weight"][rows].astype(np.float32)),
        reply=torch.from_numpy(reply),
        reply_weight=torch.from_numpy(columns["reply_weight"][rows].astype(np.float32)),
        sample_weight=torch.ones(len(rows)),
    )


@dataclass(frozen=True)
class _Sources:
    """Where each entry of a transformed array comes from: transformed[q] = array[points[k, q]]; [K, P] and [K, A]."""

    points: IndexArray
    actions: IndexArray


@lru_cache(maxsize=8)
def _sources(game: Game) -> _Sources:
    # The game's tables say where an entry goes; sorting them says where it comes from.
    return _Sources(np.argsort(game.symmetries.points, axis=1), np.argsort(game.symmetries.actions, axis=1))


def _move(array: NDArray[Any], source: IndexArray, symmetry: IndexArray) -> NDArray[Any]:
    """array [B, …, n] with each row's last axis permuted by its symmetry. One gather per symmetry, not per row."""
    moved = np.empty_like(array)
    for index in range(len(source)):
        rows = np.flatnonzero(symmetry == index)
        if rows.size:
            moved[rows] = np.take(array[rows], source[index], axis=-1)
    return moved


class Dataset:
    """The examples of one chunk set. Equal arguments give equal batches."""

    def __init__(
        self,
        game: Game,
        chunks: ChunkSet,
        batch_size: int,
        seed: int,
        memory_bytes: float = MEMORY_BYTES,
        symmetries: bool = True,
    ) -> None:
        """Reads every chunk once, so that a damaged one is found before training and not hours into it.

        memory_bytes: math.inf holds the set whole, whatever its size, which batch() needs. symmetries: False shows
        every example unchanged.
        Raises FileError if a chunk can't be read or the set holds no examples.
        """
        self.game = game
        self.num_symmetries = game.symmetries.count if symmetries else 1  # those that are drawn from; 0 is the identity
        self.id = chunks.id
        self._paths = chunks.chunks
        self._seeds = [seed, *chunks.id.encode()]
        self._batch_size = batch_size
        self._window: dict[str, Any] = {}
        self._examples: list[ExampleArray] = []
        self._held: tuple[tuple[int, ...], dict[str, NDArray[Any]]] | None = None

        sizes, kept, total_bytes, largest = [], [], 0, 1
        for path in self._paths:
            chunk = read_chunk(path, game)
            columns = {name: chunk.columns[name] for name in USED_COLUMNS}
            num_bytes = sum(column.nbytes for column in columns.values())
            sizes.append(chunk.num_examples)
            total_bytes, largest = total_bytes + num_bytes, max(largest, num_bytes)
            self._window = chunk.header.window
            place = (chunk.columns[name] for name in ("shard", "game", "ply"))
            self._examples.append(example_numbers(chunk.shards, *place))
            if total_bytes <= memory_bytes:
                kept.append(columns)
        if not sum(sizes):
            raise FileError(self._paths[0], "the set holds no examples; wanted some to train on; run gather again")
        self._sizes = np.array(sizes, np.int64)
        self._chunks_per_group = len(sizes) if total_bytes <= memory_bytes else max(1, int(memory_bytes // largest))
        if self._chunks_per_group == len(sizes):
            self._held = tuple(range(len(sizes))), _joined(kept)

    @property
    def window(self) -> dict[str, Any]:
        """What gather drew the set from, as its header says."""
        return self._window

    @property
    def num_examples(self) -> int:
        return int(self._sizes.sum())

    def _groups(self, epoch: int) -> list[tuple[int, ...]]:
        """Which chunks are in memory together, in order."""
        order = self._generator(epoch, 0).permutation(len(self._paths))
        if self._chunks_per_group == len(self._paths):
            order = np.arange(len(self._paths))
        return [
            tuple(int(index) for index in order[start : start + self._chunks_per_group])
            for start in range(0, len(order), self._chunks_per_group)
        ]

    def _generator(self, epoch: int, group: int) -> np.random.Generator:
        return np.random.default_rng([*self._seeds, epoch, group])

    @property
    def examples(self) -> ExampleArray:
        """[n] the number of each example, in the order of the chunks."""
        return np.concatenate(self._examples)

    def _num_batches(self, group: tuple[int, ...]) -> int:
        return -(-int(self._sizes[list(group)].sum()) // self._batch_size)

    def batch_sizes(self, epochs: int) -> IndexArray:
        """[steps] the number of examples in each batch of these epochs."""
        sizes = []
        for group in (group for epoch in range(epochs) for group in self._groups(epoch)):
            count = self._num_batches(group)
            sizes += [(int(self._sizes[list(group)].sum()) + count - 1 - index) // count for index in range(count)]
        return np.array(sizes, np.int64)

    def batch(self, rows: IndexArray, symmetry: IndexArray, weights: NDArray[np.float32]) -> Batch:
        """The examples rows [B] of the whole set, in the order of its chunks, with these sample weights [B].

        Only for a set that is held whole: see memory_bytes.
        """
        columns = self._load(tuple(range(len(self._paths))))
        return make_batch(self.game, columns, rows, symmetry)._replace(sample_weight=torch.from_numpy(weights))

    def first(self, most: int) -> list[Batch]:
        """The first examples, at most this many, without symmetries. Raises FileError.

        Chunks are uniform samples of the window, so their first examples are one, too.
        """
        batches: list[Batch] = []
        for path in self._paths:
            columns = read_chunk(path, self.game).columns
            rows = np.arange(min(len(columns["value"]), most))
            batches += _as_they_stand(self.game, columns, rows, self._batch_size)
            most -= len(rows)
            if most <= 0:
                break
        return batches

    def batches(self, epochs: int, start_step: int = 0) -> Iterator[Batch]:
        """The batches of these epochs from start_step on. Raises FileError if a chunk can't be read."""
        step = 0
        for epoch in range(epochs):
            for number, group in enumerate(self._groups(epoch)):
                count = self._num_batches(group)
                if step + count > start_step:
                    skip = max(0, start_step - step)
                    yield from self._group_batches(group, self._generator(epoch, number + 1), count, skip)
                step += count

    def _group_batches(
        self, group: tuple[int, ...], generator: np.random.Generator, count: int, skip: int
    ) -> Iterator[Batch]:
        columns = self._load(group)
        size = len(columns["value"])
        order = generator.permutation(size)
        symmetry = generator.integers(0, self.num_symmetries, size)
        parts = zip(np.array_split(order, count), np.array_split(symmetry, count), strict=True)
        for rows, symmetries in itertools.islice(parts, skip, None):
            yield make_batch(self.game, columns, rows, symmetries)

    def _load(self, group: tuple[int, ...]) -> dict[str, NDArray[Any]]:
        if self._held is None or self._held[0] != group:
            self._held = None  # frees the previous group, so that two are never in memory
            chunks = [read_chunk(self._paths[index], self.game) for index in group]
            for index, chunk in zip(group, chunks, strict=True):
                if chunk.num_examples != self._sizes[index]:
                    raise FileError(chunk.path, f"it changed while it was used: {chunk.num_examples} examples now")
            self._held = group, _joined([chunk.columns for chunk in chunks])
        return self._held[1]


def holdout_batches(game: Game, path: Path, batch_size: int, most: int) -> list[Batch]:
    """The hold-out's examples without symmetries: at most `most`, evenly spread. [] if it is empty."""
    chunk = read_chunk(path, game)
    count = min(chunk.num_examples, most)
    rows = np.arange(count) * chunk.num_examples // max(count, 1)
    return _as_they_stand(game, chunk.columns, rows, batch_size)


def _as_they_stand(game: Game, columns: Columns, rows: IndexArray, batch_size: int) -> list[Batch]:
    parts = [rows[start : start + batch_size] for start in range(0, len(rows), batch_size)]
    return [make_batch(game, columns, part, np.zeros_like(part)) for part in parts]


@contextmanager
def prefetched(batches: Iterator[Batch], depth: int = PREFETCHED_BATCHES) -> Iterator[Iterator[Batch]]:
    """The same batches, made in a background thread, at most `depth` ahead. Its exceptions are raised in the consumer.

    Leaving the block ends the thread, however much is left.
    """
    ready: queue.Queue[Batch | BaseException | None] = queue.Queue(depth)
    stopped = threading.Event()

    def put(item: Batch | BaseException | None) -> bool:
        while not stopped.is_set():
            try:
                ready.put(item, timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

    def produce() -> None:
        try:
            for batch in batches:
                if not put(batch):
                    return
            put(None)
        except BaseException as error:
            put(error)

    def consume() -> Iterator[Batch]:
        while True:
            item = ready.get()
            if item is None:
                return
            if isinstance(item, BaseException):
                raise item
            yield item

    thread = threading.Thread(target=produce, name="batches", daemon=True)
    thread.start()
    try:
        yield consume()
    finally:
        stopped.set()
        thread.join()


def _joined(chunks: Sequence[Columns]) -> dict[str, NDArray[Any]]:
    return {name: np.concatenate([columns[name] for columns in chunks]) for name in USED_COLUMNS}
