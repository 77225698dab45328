"""Batches of examples from a chunk set, in a random order.

An *epoch* visits every example once. A set that fits into MEMORY_BYTES is held and shuffled whole. A larger one is read
in groups of chunks that fit (a chunk that doesn't fit is a group by itself), which each epoch forms anew; chunks are
uniform samples. A group is cut into batches whose sizes differ by one at most; examples of different kinds
(Method.kinds) never share a batch. Each time an example is loaded, it gets a random symmetry of the board.

Prioritised replay instead samples rows of a set that is held whole.

The order depends on (seed, set, epoch) only, so a run resumed at step s sees the same batches as an uninterrupted one.
Axes: B batch, n examples. The columns are the method's.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pipeline.counter_rng import key_of, uniforms
from pipeline.errors import FileError
from pipeline.methods.method import IndexArray, Method
from pipeline.players.loading import in_turn
from pipeline.run.chunks import ORIGIN, ChunkSet, read_chunk
from pipeline.run.priorities import example_numbers

MEMORY_BYTES = 1 << 30  # of packed examples held at once
PREFETCHED_BATCHES = 4
LEAST_WEIGHT = 0.1  # of an example in a uniform sample; see Dataset.uniform
BATCH_ORDER = 1  # the random stream that mixes batches of different kinds
CALIBRATION_POSITIONS = 256  # kept at most; more made no measurable difference (docs/log)
LEAST_CALIBRATION = 64  # with fewer, positions of random games are better
CALIBRATION_EXAMPLES = 2_048  # to choose from, so that neither half depends on a few games

Columns = Mapping[str, NDArray[Any]]


class Dataset:
    """The examples of one chunk set. Equal arguments give equal batches.

    window    the window that gather sampled the set from, from the chunks' header
    examples  [n] the number of each example (run/priorities.py), in the order of the chunks
    """

    def __init__(
        self,
        method: Method,
        game: Any,
        chunks: ChunkSet,
        batch_size: int,
        seed: int,
        memory_bytes: float = MEMORY_BYTES,
        symmetries: bool = True,
    ) -> None:
        """Read every chunk once, so that a damaged one is found now and not hours into training.

        memory_bytes  math.inf holds a set of any size whole, as batch() needs
        symmetries    False: every example stays unchanged
        Raises FileError if a chunk can't be read or the set holds no examples.
        """
        self.game = game
        self._method = method
        self._types = method.columns(game)
        self.num_symmetries = method.num_symmetries(game) if symmetries else 1  # number 0 is the identity
        self.id = chunks.id
        self._paths = chunks.chunks
        self._seeds = [seed, *chunks.id.encode()]
        self._batch_size = batch_size
        self.window: dict[str, Any] = {}
        self._least_weight = math.inf  # of an example
        self._held: tuple[tuple[int, ...], dict[str, NDArray[Any]]] | None = None

        kinds: list[Counter[int]] = []  # of each chunk: its number of examples of each kind
        kept, examples, total_bytes, largest = [], [], 0, 1
        for path in self._paths:
            chunk = read_chunk(path, game.spec, self._types)
            columns = {name: chunk.columns[name] for name in self._types}
            num_bytes = sum(column.nbytes for column in columns.values())
            kinds.append(Counter(_kinds(method, columns).tolist()))
            total_bytes, largest = total_bytes + num_bytes, max(largest, num_bytes)
            self.window = chunk.header.window
            if chunk.weights is not None:
                self._least_weight = min(self._least_weight, float(chunk.weights.min(initial=math.inf)))
            examples.append(example_numbers(chunk.shards, *(chunk.columns[name] for name in ORIGIN)))
            if total_bytes <= memory_bytes:
                kept.append(columns)
        if not sum(map(len, examples)):
            raise FileError(self._paths[0], "the set holds no examples to train on; run gather again")
        self.examples = np.concatenate(examples)
        self.kinds = sorted(set().union(*kinds))
        self._counts = np.array([[one[kind] for kind in self.kinds] for one in kinds], np.int64)  # [chunks, kinds]
        if total_bytes <= memory_bytes:
            self._chunks_per_group = len(kept)
            self._held = tuple(range(len(kept))), _joined(kept, self._types)
        else:
            self._chunks_per_group = max(1, int(memory_bytes // largest))

    @property
    def num_examples(self) -> int:
        return int(self._counts.sum())

    def _groups(self, epoch: int) -> list[tuple[int, ...]]:
        """The chunks (indices) of each group, in order."""
        size, count = self._chunks_per_group, len(self._paths)
        if size == count:
            return [tuple(range(count))]
        order = self._generator(epoch, 0).permutation(count).tolist()
        return [tuple(order[start : start + size]) for start in range(0, count, size)]

    def _generator(self, epoch: int, group: int) -> np.random.Generator:
        return np.random.default_rng([*self._seeds, epoch, group])

    def _batches_by_kind(self, group: tuple[int, ...]) -> list[tuple[int, int]]:
        """(examples, batches) of each kind in a group."""
        counts = self._counts[list(group)].sum(axis=0).tolist()
        return [(count, -(-count // self._batch_size)) for count in counts]

    def _numbered(self, group: tuple[int, ...]) -> list[tuple[int, int]]:
        """(kind, examples) of each batch of a group, kind by kind; the sizes of a kind differ by one at most."""
        by_kind = zip(self.kinds, self._batches_by_kind(group), strict=True)
        return [
            (kind, (examples + count - 1 - index) // count)
            for kind, (examples, count) in by_kind
            for index in range(count)
        ]

    def _planned(self, epochs: int) -> Iterator[tuple[int, int, tuple[int, ...], IndexArray]]:
        """(epoch, number in it, chunks, order of the batches, which are numbered kind by kind) of each group."""
        for epoch in range(epochs):
            for number, group in enumerate(self._groups(epoch), start=1):
                order = np.arange(sum(batches for _, batches in self._batches_by_kind(group)))
                if len(self.kinds) > 1:
                    np.random.default_rng([*self._seeds, epoch, number, BATCH_ORDER]).shuffle(order)
                yield epoch, number, group, order

    def batch_sizes(self, epochs: int) -> IndexArray:
        """[steps] the number of examples in each batch of these epochs."""
        sizes = [np.zeros(0, np.int64)]
        for _, _, group, order in self._planned(epochs):
            sizes.append(np.array([examples for _, examples in self._numbered(group)], np.int64)[order])
        return np.concatenate(sizes)

    def batch(self, rows: IndexArray, symmetry: IndexArray, weights: NDArray[np.float32]) -> Any:
        """A batch of these rows [B] of the set, with these symmetries [B] and sample weights [B].

        Only for a set with one kind of examples that is held whole; see memory_bytes.
        """
        columns = self._load(tuple(range(len(self._paths))))
        return self._method.make_batch(self.game, columns, rows, symmetry)._replace(
            sample_weight=torch.from_numpy(weights)
        )

    def uniform(self, most: int) -> list[Any]:
        """At most `most` of the first examples without symmetries, as if the window had been sampled uniformly.

        Of a set sampled by weight w, an example is taken with probability l / w, where l is the least weight; weights
        below LEAST_WEIGHT count as that, so that one tiny weight doesn't leave all others out. Raises FileError.
        """
        batches: list[Any] = []
        for number, path in enumerate(self._paths):
            chunk = read_chunk(path, self.game.spec, self._types)
            rows = np.arange(chunk.num_examples)
            if chunk.weights is not None:
                least = max(self._least_weight, LEAST_WEIGHT)
                taken = uniforms(key_of(f"{self.id} {number}"), rows) < least / chunk.weights
                rows = rows[taken]
            rows = rows[:most]
            by_kind = _unchanged(self._method, self.game, chunk.columns, rows, self._batch_size)
            batches += chain.from_iterable(by_kind.values())
            most -= len(rows)
            if most <= 0:
                break
        return batches

    def batches(self, epochs: int, start_step: int = 0) -> Iterator[Any]:
        """The batches of these epochs from start_step on. Raises FileError if a chunk can't be read."""
        step = 0
        for epoch, number, group, order in self._planned(epochs):
            if step + len(order) > start_step:
                remaining = order[max(0, start_step - step) :]
                yield from self._group_batches(group, self._generator(epoch, number), remaining)
            step += len(order)

    def some(self, most: int) -> Iterator[Any]:
        """Batches of an epoch, without those of kinds of which there were `most` examples before."""
        left = dict.fromkeys(self.kinds, most)
        for epoch, number, group, order in self._planned(1):
            batches, wanted = self._numbered(group), []
            for index in order.tolist():
                kind, examples = batches[index]
                if left[kind] > 0:
                    wanted.append(index)
                    left[kind] -= examples
            if wanted:
                yield from self._group_batches(group, self._generator(epoch, number), np.array(wanted))

    def _group_batches(
        self, group: tuple[int, ...], generator: np.random.Generator, numbers: IndexArray
    ) -> Iterator[Any]:
        columns = self._load(group)
        size = _num_rows(columns)
        order = generator.permutation(size)
        symmetry = generator.integers(0, self.num_symmetries, size)
        kinds = _kinds(self._method, columns)[order]
        parts: list[tuple[IndexArray, IndexArray]] = []
        for kind, (_, count) in zip(self.kinds, self._batches_by_kind(group), strict=True):
            theirs = np.flatnonzero(kinds == kind)
            parts += [(order[part], symmetry[part]) for part in (np.array_split(theirs, count) if count else ())]
        for number in numbers.tolist():
            yield self._method.make_batch(self.game, columns, *parts[number])

    def _load(self, group: tuple[int, ...]) -> dict[str, NDArray[Any]]:
        if self._held is None or self._held[0] != group:
            self._held = None  # free the previous group, so that two are never in memory
            chunks = [read_chunk(self._paths[index], self.game.spec, self._types) for index in group]
            for index, chunk in zip(group, chunks, strict=True):
                if chunk.num_examples != self._counts[index].sum():
                    raise FileError(chunk.path, f"it changed during training: {chunk.num_examples} examples now")
            self._held = group, _joined([chunk.columns for chunk in chunks], self._types)
        return self._held[1]


def holdout_batches(method: Method, game: Any, path: Path, batch_size: int, most: int) -> dict[int, list[Any]]:
    """Batches of at most `most` evenly spaced examples of the hold-out, without symmetries, by the examples' kind."""
    chunk = read_chunk(path, game.spec, method.columns(game))
    count = min(chunk.num_examples, most)
    rows = np.arange(count) * chunk.num_examples // max(count, 1)
    return _unchanged(method, game, chunk.columns, rows, batch_size)


def calibration_positions(method: Method, game: Any, chunks: ChunkSet) -> NDArray[np.uint8] | None:
    """[N, bytes] examples that a model is stored with for int8, as in run/models.py. None: the method has none, or the
    set too few. Raises FileError.

    Every second game gives positions that set the scales, the others give positions that check them. Takes the first
    examples: chunks are uniform samples of the window, and so are their beginnings. Equal sets give equal positions.
    """
    planes, games, plies = [], [], []
    shards: dict[str, int] = {}
    for path in chunks.chunks:
        chunk = read_chunk(path, game.spec, method.columns(game))
        found = method.calibration(chunk.columns)
        if found is None:
            return None
        numbers = np.array([shards.setdefault(name, len(shards)) for name in chunk.shards], np.int64)
        planes.append(found)
        games.append(numbers[chunk.columns["shard"]] << 32 | chunk.columns["game"])
        plies.append(chunk.columns["ply"])
        if sum(map(len, planes)) >= CALIBRATION_EXAMPLES:
            break
    _, of_game = np.unique(np.concatenate(games), return_inverse=True)
    order = np.argsort(np.concatenate(plies), kind="stable")
    packed, half = np.concatenate(planes)[order], of_game[order] % 2
    halves = [packed[half == which] for which in range(2)]
    return in_turn(halves, CALIBRATION_POSITIONS) if min(map(len, halves)) >= LEAST_CALIBRATION // 2 else None


def _unchanged(method: Method, game: Any, columns: Columns, rows: IndexArray, batch_size: int) -> dict[int, list[Any]]:
    """Batches of these rows without symmetries, by kind."""
    kinds = _kinds(method, columns)[rows]
    by_kind: dict[int, list[Any]] = {}
    for kind in np.unique(kinds).tolist():
        of_kind = rows[kinds == kind]
        parts = (of_kind[start : start + batch_size] for start in range(0, len(of_kind), batch_size))
        by_kind[kind] = [method.make_batch(game, columns, part, np.zeros_like(part)) for part in parts]
    return by_kind


@contextmanager
def prefetched(batches: Iterator[Any], depth: int = PREFETCHED_BATCHES) -> Iterator[Iterator[Any]]:
    """The same batches, made at most `depth` ahead in a background thread. Its exceptions are raised in the consumer.

    Leaving the block ends the thread, even before the last batch.
    """
    thread = ThreadPoolExecutor(1, "batches")
    ready = deque(thread.submit(next, batches, None) for _ in range(depth))

    def consume() -> Iterator[Any]:
        while (batch := ready.popleft().result()) is not None:
            ready.append(thread.submit(next, batches, None))
            yield batch

    try:
        yield consume()
    finally:
        thread.shutdown(cancel_futures=True)


def _joined(chunks: Sequence[Columns], names: Iterable[str]) -> dict[str, NDArray[Any]]:
    return {name: np.concatenate([columns[name] for columns in chunks]) for name in names}


def _kinds(method: Method, columns: Columns) -> NDArray[np.integer]:
    """[n] see Method.kinds; all 0 if the method has one kind."""
    found = method.kinds(columns)
    return np.zeros(_num_rows(columns), np.uint8) if found is None else found


def _num_rows(columns: Columns) -> int:
    return len(next(iter(columns.values())))
