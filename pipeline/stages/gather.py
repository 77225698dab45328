"""gather: from the newest games of self-play to chunks of shuffled training examples.

All positions are drawn before anything is read: uniformly, without replacement, each assigned to a row of a chunk. Then
every shard that holds one is read once, its examples go to their rows in a scratch file, and chunks are cut from it.
So reading costs the same for any number of chunks, and memory does not grow with the window. What is drawn depends
on the shards, the settings and the seed only; the set's name has a hash of them, by which a rerun finds its own
work: it makes what is missing, or says that all is there.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from pipeline.config import GatherConfig
from pipeline.errors import FileError, MuGoError, NotYet, UsageError
from pipeline.games.base import Game
from pipeline.games.registry import parse_game
from pipeline.learning.examples import Columns, Wanted, make_examples
from pipeline.learning.scratch import Scratch
from pipeline.learning.window import Positions, Window, scan_window
from pipeline.progress import SILENT, Progress
from pipeline.records import atomic, layout
from pipeline.records.chunks import (
    VERSION,
    ChunkHeader,
    ChunkSet,
    column_types,
    complete_set,
    list_sets,
    read_header,
    remove_old_sets,
    write_chunk,
)
from pipeline.records.shards import Shard, read_shard

POSITIONS_PER_GROUP = 32_768  # replayed in one batch: enough to keep kernels busy, little enough to stay in memory
MAX_THREADS = 8
HOLDOUT_CHUNKS = 4  # the hold-out is at most this many chunks large
DRAW_TRAINING, DRAW_HOLDOUT, DRAW_REPLACEMENTS = 0, 1, 2  # the random streams of a seed

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class GatherSummary:
    """What one gather run did."""

    game: str
    set_id: str
    chunks: int  # in the set
    chunks_made: int  # in this run; 0: the set was there already
    positions: int  # in the set's chunks
    holdout_positions: int  # in the set's hold-out
    window_positions: int
    window_games: int
    window_shards: int
    newest_shard: str
    oldest_shard: str
    shards_read: int
    shards_skipped: int  # damaged or missing, each named in a warning
    sets_removed: int
    seconds: float
    positions_per_second: float  # made, from start to end of the run


def gather(config: GatherConfig, progress: Progress = SILENT) -> GatherSummary:
    """Make one set of chunks from the newest games.

    Raises NotYet if there are no games or too few for min_positions, MuGoError if there are fewer positions than
    the chunks need or games are mixed, FileError if the output directory can't be written.
    """
    start = time.monotonic()
    skipped: list[str] = []

    def skip(error: FileError) -> None:
        skipped.append(str(error))
        progress.warn(f"skipped {error}")

    window = scan_window(config.directory, config.max_positions, config.holdout_share, skip)
    num_chunks = _num_chunks(config, window, len(skipped))
    game = _game_of(window)
    output = config.output_directory
    atomic.make_folder(output)
    with atomic.file_lock(output / "sets", on_wait=lambda: progress.say(f"another gather works in {output}; waiting")):
        atomic.sweep(output)
        run = _Run(config, progress, window, game, skip)
        made = run.make(num_chunks)
        chunk_set = run.chunk_set()
        sets_removed = remove_old_sets(output, config.keep_sets) if made else 0
    seconds = time.monotonic() - start
    return GatherSummary(
        game=game.spec,
        set_id=chunk_set.id,
        chunks=len(chunk_set.chunks),
        chunks_made=made,
        positions=len(chunk_set.chunks) * config.positions_per_chunk,
        holdout_positions=read_header(chunk_set.holdout).num_examples if chunk_set.holdout else 0,
        window_positions=window.num_positions,
        window_games=window.num_games,
        window_shards=len(window.metas),
        newest_shard=window.metas[0].id,
        oldest_shard=window.metas[-1].id,
        shards_read=run.shards_read,
        shards_skipped=len(skipped),
        sets_removed=sets_removed,
        seconds=seconds,
        positions_per_second=made * config.positions_per_chunk / max(seconds, 1e-9),
    )


def _num_chunks(config: GatherConfig, window: Window, num_skipped: int) -> int:
    """How many chunks can be made; see gather for what it raises."""
    found, where = window.num_positions, config.directory
    if not found:
        unusable = f" ({num_skipped} unusable sidecars)" if num_skipped else ""
        raise NotYet(
            f"{where}: no games yet{unusable}; {max(config.min_positions, 1):,} positions missing; "
            "run `python main.py selfplay`",
            max(config.min_positions, 1),
        )
    if found < config.min_positions:
        missing = config.min_positions - found
        raise NotYet(
            f"{where}: {found:,} positions in the window; wanted {config.min_positions:,}; {missing:,} missing; "
            "run selfplay again",
            missing,
        )
    available = len(window.pool(held_out=False))
    return _affordable_chunks(config, available, len(window.pool(held_out=True)))


def _affordable_chunks(config: GatherConfig, available: int, held_out: int) -> int:
    """available: positions to train on. held_out: positions that are not."""
    size, wanted = config.positions_per_chunk, config.chunks_to_make * config.positions_per_chunk
    if available >= wanted:
        return config.chunks_to_make
    found = f"{config.directory}: {available:,} positions to train on ({held_out:,} more are held out)"
    if not config.as_many_as_possible:
        raise MuGoError(
            f"{found}; {config.chunks_to_make} chunks of {size:,} need {wanted:,}; {wanted - available:,} missing; "
            f"run selfplay, raise --max-positions ({config.max_positions:,}), or add --as-many-as-possible"
        )
    if available < size:
        missing = size - available
        raise NotYet(f"{found}; one chunk needs {size:,}; {missing:,} missing; run selfplay again", missing)
    return available // size


def _game_of(window: Window) -> Game:
    try:
        return parse_game(window.metas[0].game)
    except UsageError as error:
        raise FileError(window.metas[0].path, f"{error}; wanted games that this program knows") from error


class _Run:
    """The making of one set. Row r of the scratch file becomes row r % size of the (r // size)th missing chunk;
    the rows of the hold-out follow."""

    def __init__(
        self, config: GatherConfig, progress: Progress, window: Window, game: Game, skip: Callable[[FileError], None]
    ) -> None:
        self.config = config
        self.progress = progress
        self.window = window
        self.game = game
        self.skip = skip
        self.output = config.output_directory
        self.set_name = self._find_name()
        self.bad: set[int] = set()  # shards that turned out damaged, as indices into window.metas
        self.shards_read = 0
        self.threads = min(len(os.sched_getaffinity(0)), MAX_THREADS)

    def _find_name(self) -> layout.SetName:
        """The name under which this window, these settings and this seed were gathered before, or a new one."""
        ingredients = {
            "version": VERSION,
            "shards": [(meta.id, meta.sha256) for meta in self.window.metas],
            "settings": self.config.model_dump(
                mode="json", exclude={"directory", "output_directory", "min_positions", "keep_sets"}
            ),
        }
        digest = hashlib.sha256(json.dumps(ingredients, sort_keys=True).encode()).hexdigest()[:8]
        names = list(list_sets(self.output))
        ours = [name for name in names if name.digest == digest]
        return ours[-1] if ours else layout.SetName(names[-1].number + 1 if names else 0, digest)

    def chunk_set(self) -> ChunkSet:
        """The set, when it is complete."""
        found = complete_set(self.set_name, list_sets(self.output).get(self.set_name, []))
        if found is None:
            raise FileError(self.output, f"set {self.set_name} lost chunks while it was made; run gather again")
        return found

    def _remove_damaged(self, files: list[Path]) -> None:
        """Chunks of this set that can't be read are made again."""
        for path in files:
            try:
                read_header(path)
            except FileError as error:
                self.progress.warn(f"making it again: {error}")
                with atomic.os_errors(path):
                    path.unlink(missing_ok=True)

    def make(self, num_chunks: int) -> int:
        """Make whatever is missing; how many chunks that was."""
        self._remove_damaged(list_sets(self.output).get(self.set_name, []))
        sets = list_sets(self.output)
        existing = sets.get(self.set_name, [])
        if complete_set(self.set_name, existing) is not None:
            newest = max(sets)
            later = "" if newest == self.set_name else f"; note that set {newest} is newer, and train takes the newest"
            self.progress.say(f"set {self.set_name} of this window, settings and seed is already made{later}")
            return 0
        if existing and _had_replacements(existing[0]):
            self._remove_partial()  # which row stands in for a damaged shard is only known when all are drawn anew
        missing = [index for index, path in enumerate(self._paths(num_chunks)) if not path.exists()]
        num_drawn = num_chunks * self.config.positions_per_chunk
        drawn = self.window.pool(held_out=False).draw(num_drawn, self._rng(DRAW_TRAINING))
        rows = np.concatenate([self._rows_of(index) for index in missing])
        holdout = self._draw_holdout()
        num_rows = len(rows)
        with closing(Scratch(self.output, num_rows + len(holdout), column_types(self.game))) as scratch:
            wanted = _joined(drawn.at(rows), holdout)
            self.progress.start("reading games", len(wanted), "positions")
            failed = self._extract(scratch, wanted, np.arange(len(wanted)))
            if self.bad and len(missing) < num_chunks:
                self.progress.finish()  # damaged since the others were made
                self._remove_partial()
                return self.make(num_chunks)
            kept_holdout = np.setdiff1d(np.arange(num_rows, len(wanted)), failed)
            failed = self._replace(scratch, failed[failed < num_rows], drawn)
            self.progress.finish()
            if len(failed):
                num_chunks = self._close_gaps(scratch, num_rows, failed)
                missing = list(range(num_chunks))
            slots = {index: slot for slot, index in enumerate(missing)}
            self._write(scratch, num_chunks, slots, kept_holdout)
        return len(missing)

    def _paths(self, num_chunks: int) -> list[Path]:
        return [self.output / layout.chunk_name(self.set_name, index, num_chunks) for index in range(num_chunks)]

    def _rows_of(self, index: int) -> NDArray[np.int64]:
        size = self.config.positions_per_chunk
        return np.arange(index * size, (index + 1) * size)

    def _rng(self, stream: int) -> np.random.Generator:
        return np.random.default_rng([self.config.seed, stream])

    def _draw_holdout(self) -> Positions:
        """Empty if it is made already, or nothing is held out."""
        pool = self.window.pool(held_out=True)
        made = (self.output / layout.holdout_name(self.set_name)).exists()
        limit = 0 if made else HOLDOUT_CHUNKS * self.config.positions_per_chunk
        return pool.draw(min(len(pool), limit), self._rng(DRAW_HOLDOUT))

    def _remove_partial(self) -> None:
        for path in list_sets(self.output).get(self.set_name, []):
            with atomic.os_errors(path):
                path.unlink(missing_ok=True)

    # Reading

    def _extract(self, scratch: Scratch, wanted: Positions, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Put the wanted examples into these rows, each shard read once. The rows that a damaged shard left empty."""
        failed = [np.zeros(0, np.int64)]

        def work(group: NDArray[np.int64]) -> _Extracted:
            return self._extract_group(scratch, wanted.at(group), rows[group])

        for done in _in_threads(work, _groups(wanted), self.threads):
            self.shards_read += done.shards_read
            for shard, error in done.errors:
                if shard not in self.bad:
                    self.skip(error)
                self.bad.add(shard)
            failed.append(done.failed)
            self.progress.advance(done.num_rows - len(done.failed))
        return np.sort(np.concatenate(failed))

    def _extract_group(self, scratch: Scratch, wanted: Positions, rows: NDArray[np.int64]) -> _Extracted:
        """The work of one thread: read whole shards, make their examples in one batch, put them into their rows."""
        numbers = np.unique(wanted.shard)
        shards: dict[int, Shard] = {}
        errors: list[tuple[int, FileError]] = []
        for number in numbers.tolist():
            meta = self.window.metas[number]
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
            local = Wanted(np.searchsorted(known, here.shard), here.game, here.ply)
            try:
                columns = make_examples(self.game, [shards[number] for number in known.tolist()], local)
            except FileError as error:  # one shard spoils the batch: try again without it
                spoilt = next(number for number in shards if shards[number].path == error.path)
                del shards[spoilt]
                errors.append((spoilt, error))
                continue
            columns["shard"] = here.shard.astype(np.uint32)  # in the scratch file: index into the window's shards
            scratch.put(rows[good], columns)
            break
        return _Extracted(len(rows), len(numbers), np.delete(rows, good), errors)

    def _replace(self, scratch: Scratch, failed: NDArray[np.int64], drawn: Positions) -> NDArray[np.int64]:
        """Fill rows that damaged shards left empty from the others; the rows that remain empty, sorted."""
        rng = self._rng(DRAW_REPLACEMENTS)
        while len(failed):
            pool = self.window.pool(held_out=False, without=frozenset(self.bad))
            others = pool.draw_others(len(failed), drawn, rng)
            if not len(others):
                break
            again = self._extract(scratch, others, failed[: len(others)])
            failed = np.sort(np.concatenate([again, failed[len(others) :]]))
            drawn = _joined(drawn, others)
        return failed

    def _close_gaps(self, scratch: Scratch, num_rows: int, failed: NDArray[np.int64]) -> int:
        """Move the last rows into the empty ones; how many whole chunks remain. Raises like gather if too few."""
        held_out = len(self.window.pool(held_out=True))
        num_chunks = _affordable_chunks(self.config, num_rows - len(failed), held_out)
        end = num_chunks * self.config.positions_per_chunk
        holes = failed[failed < end]
        scratch.move(np.setdiff1d(np.arange(end, num_rows), failed)[: len(holes)], holes)
        return num_chunks

    # Writing

    def _write(self, scratch: Scratch, num_chunks: int, slots: dict[int, int], holdout: NDArray[np.int64]) -> None:
        """Write the hold-out, then the chunks. slots: chunk → which rows of the scratch file, counted in chunks."""
        size = self.config.positions_per_chunk
        self.progress.start("writing chunks", len(slots), "chunks")
        if len(holdout):
            columns = scratch.get(int(holdout[0]), int(holdout[-1]) + 1)
            columns = {name: column[holdout - holdout[0]] for name, column in columns.items()}
            path = self.output / layout.holdout_name(self.set_name)
            self._write_file(path, -1, num_chunks, columns)
        paths = self._paths(num_chunks)

        def work(index: int) -> None:
            start = slots[index] * size
            self._write_file(paths[index], index, num_chunks, scratch.get(start, start + size))

        for _ in _in_threads(work, slots, self.threads):
            self.progress.advance()
        with atomic.os_errors(self.output):
            atomic.sync_folder(self.output)
        self.progress.finish()

    def _write_file(self, path: Path, index: int, num_chunks: int, columns: Columns) -> None:
        shards, columns["shard"] = _named(columns["shard"], self.window)
        header = ChunkHeader(
            game=self.game.spec,
            set_id=str(self.set_name),
            index=index,
            num_chunks=num_chunks,
            seed=self.config.seed,
            num_planes=self.game.num_planes,
            window={
                "positions": self.window.num_positions,
                "max_positions": self.config.max_positions,
                "games": self.window.num_games,
                "shards": len(self.window.metas),
                "newest": self.window.metas[0].id,
                "oldest": self.window.metas[-1].id,
                "holdout_share": self.config.holdout_share,
                "skipped": sorted(self.window.metas[shard].id for shard in self.bad),
            },
        )
        write_chunk(path, self.game, header, columns, shards, folder_sync=index < 0)


def _had_replacements(chunk: Path) -> bool:
    """Whether damaged shards were skipped when this chunk's set was begun; also if the chunk itself is damaged."""
    try:
        return bool(read_header(chunk).window.get("skipped", True))
    except FileError:
        return True


@dataclass(frozen=True)
class _Extracted:
    """What became of one group. failed: the rows that got no example."""

    num_rows: int
    shards_read: int
    failed: NDArray[np.int64]
    errors: list[tuple[int, FileError]]


def _joined(first: Positions, second: Positions) -> Positions:
    return Positions(
        np.concatenate([first.shard, second.shard]),
        np.concatenate([first.game, second.game]),
        np.concatenate([first.ply, second.ply]),
    )


def _groups(wanted: Positions) -> Iterator[NDArray[np.int64]]:
    """Indices into wanted, so grouped that all positions of a shard are in one group."""
    order = np.argsort(wanted.shard, kind="stable")
    stops = np.flatnonzero(np.diff(wanted.shard[order], append=-1)) + 1
    start = 0
    for stop in stops.tolist():
        if stop - start >= POSITIONS_PER_GROUP or stop == len(order):
            yield order[start:stop]
            start = stop


def _named(shard: NDArray[np.uint32], window: Window) -> tuple[list[str], NDArray[np.uint32]]:
    """The names of the shards that occur, and the column as an index into them."""
    numbers, local = np.unique(shard, return_inverse=True)
    return [window.metas[number].id for number in numbers.tolist()], local.astype(np.uint32)


def _in_threads(function: Callable[[T], R], items: Iterable[T], threads: int) -> Iterator[R]:
    """function of each item, in order; only a few items are under way at a time."""
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
