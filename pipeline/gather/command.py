"""gather: from the newest games of self-play to chunks of shuffled training examples.

All positions are drawn before anything is read: uniformly and without replacement, or more often where the search
surprised the network; each is assigned to a row of a chunk. Then every shard that holds one is read once, its examples
go to their rows in a scratch file, and chunks are cut from it. So reading costs the same for any number of chunks. What
is drawn depends on the shards, the settings and the seed only; the set's name has a hash of them, by which a rerun
finds its own work: it makes what is missing, or says that all is there.

How many positions there ever were is counted on from set to set: a set's chunks say what was counted when it was made,
and the next gather adds the shards that came since. The first one counts them all.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.config import GatherConfig
from pipeline.errors import FileError, MuGoError, NotYet, UsageError
from pipeline.games.base import AnyGame
from pipeline.games.registry import recorded_game
from pipeline.gather.extraction import Reader, in_threads
from pipeline.gather.sampling import Positions, PositionSampler
from pipeline.gather.scratch import Scratch
from pipeline.gather.window import Capacity, Counted, Window, scan_window
from pipeline.methods.base import Method
from pipeline.methods.registry import method_named
from pipeline.phrases import counted, duration
from pipeline.progress import SILENT, Progress
from pipeline.storage import atomic, layout
from pipeline.storage.chunks import (
    ORIGIN,
    VERSION,
    ChunkHeader,
    ChunkSet,
    Columns,
    complete_set,
    list_sets,
    read_header,
    remove_old_sets,
    write_chunk,
)

HOLDOUT_CHUNKS = 4  # the hold-out is at most this many chunks large
DRAW_TRAINING, DRAW_HOLDOUT, DRAW_REPLACEMENTS = 0, 1, 2  # the random streams of a seed


@dataclass(frozen=True)
class GatherSummary:
    """What one gather run did."""

    game: str
    set_id: str
    chunks: int  # in the set
    chunks_made: int  # in this run; 0: the set was there already
    chunks_short: int  # fewer than were asked for, because there are too few positions
    positions: int  # in the set's chunks
    holdout_positions: int  # in the set's hold-out
    window_positions: int  # of this and what follows: without damaged shards
    window_games: int
    window_shards: int
    newest_shard: str
    oldest_shard: str
    total_positions: int  # that self-play has made, up to the newest shard
    new_positions: int  # of them since the set before
    shards_read: int
    shards_skipped: int  # damaged or missing, each named in a warning
    sets_removed: int
    seconds: float
    positions_per_second: float  # made, from start to end of the run

    def lines(self) -> list[str]:
        """The short form."""
        there = f", {self.chunks - self.chunks_made:,} of them made before" if self.chunks_made < self.chunks else ""
        lines = [
            f"set {self.set_id}: {counted(self.chunks, 'chunk')}{there} in {duration(self.seconds)}, "
            f"{self.positions_per_second:,.0f} positions/s",
            f"{counted(self.positions, 'position')} to train on, {self.holdout_positions:,} held out",
            f"window: {counted(self.window_games, 'game')} with {self.window_positions:,} of the "
            f"{counted(self.total_positions, 'position')} so far; {self.new_positions:,} new since the last set",
        ]
        if self.shards_skipped:
            lines.append(f"{counted(self.shards_skipped, 'damaged or missing shard')} skipped; the warnings name them")
        return lines


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

    output = config.output_directory
    window = _scan(config, skip)
    num_chunks = _num_chunks(config, window, len(skipped))
    game, method = _game_of(window), method_named(window.metas[0].method)
    atomic.make_folder(output)
    with atomic.file_lock(output / "sets", on_wait=lambda: progress.say(f"another gather works in {output}; waiting")):
        atomic.sweep(output)
        run = _Run(config, progress, window, game, method, skip)
        made = run.make(num_chunks)
        chunk_set = run.chunk_set()
        sets_removed = remove_old_sets(output, config.keep_sets) if made else 0
    seconds = time.monotonic() - start
    short = config.chunks_to_make - len(chunk_set.chunks)
    if short:
        progress.say(f"{short} of {config.chunks_to_make} chunks fell away: the window has too few positions")
    figures = window.figures(frozenset(run.bad))
    return GatherSummary(
        game=game.spec,
        set_id=chunk_set.id,
        chunks=len(chunk_set.chunks),
        chunks_made=made,
        chunks_short=short,
        positions=len(chunk_set.chunks) * config.positions_per_chunk,
        holdout_positions=read_header(chunk_set.holdout).num_examples if chunk_set.holdout else 0,
        window_positions=figures.positions,
        window_games=figures.games,
        window_shards=figures.shards,
        newest_shard=figures.newest,
        oldest_shard=figures.oldest,
        total_positions=window.counted.total,
        new_positions=run.new_positions,
        shards_read=run.reader.shards_read,
        shards_skipped=len(skipped),
        sets_removed=sets_removed,
        seconds=seconds,
        positions_per_second=made * config.positions_per_chunk / max(seconds, 1e-9),
    )


def _scan(config: GatherConfig, skip: Callable[[FileError], None]) -> Window:
    capacity = Capacity(
        most=config.max_positions,
        start=config.window_start,
        exponent=config.window_exponent,
        slope=config.window_slope,
    )
    random_seed = config.seed if config.replacement == "random" else None
    game, counted = _counted_before(config.output_directory)
    told: list[FileError] = []
    while True:
        told.clear()
        window = scan_window(
            config.directory, config.max_positions, config.holdout_fraction, told.append, capacity, counted, random_seed
        )
        if not counted.total or not window.metas or window.metas[0].game == game:
            break
        counted = Counted()  # the sets in the output directory are of another game
    for error in told:
        skip(error)
    return window


def _counted_before(output: Path) -> tuple[str, Counted]:
    """The game of the newest complete set that can be read, and what was counted when it was made."""
    for name, files in reversed(list_sets(output).items()):
        chunk_set = complete_set(name, files)
        for path in chunk_set.files if chunk_set else ():
            try:
                header = read_header(path)
            except FileError:
                continue  # who needs this chunk will say so
            return header.game, _counted(header.window)
    return "", Counted()


def _counted(window: dict[str, Any]) -> Counted:
    """window: of a chunk's header."""
    return Counted(int(window.get("total_positions", 0)), str(window.get("latest_shard", "")))


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
    return _affordable_chunks(config, window, len(window.pool(held_out=False)))


def _affordable_chunks(config: GatherConfig, window: Window, available: int) -> int:
    """available: positions to train on."""
    held_out = len(window.pool(held_out=True))
    size, wanted = config.positions_per_chunk, config.chunks_to_make * config.positions_per_chunk
    if available >= wanted:
        return config.chunks_to_make
    found = f"{config.directory}: {available:,} positions to train on ({held_out:,} more are held out)"
    if not config.as_many_as_possible:
        raise_it = f"raise --max-positions ({config.max_positions:,}), "
        raise MuGoError(
            f"{found}; {config.chunks_to_make} chunks of {size:,} need {wanted:,}; {wanted - available:,} missing; "
            f"run selfplay, {raise_it if window.capacity == config.max_positions else ''}or add --as-many-as-possible"
        )
    if available < size:
        missing = size - available
        raise NotYet(f"{found}; one chunk needs {size:,}; {missing:,} missing; run selfplay again", missing)
    return available // size


def _game_of(window: Window) -> AnyGame:
    try:
        return recorded_game(window.metas[0].game)
    except UsageError as error:
        raise FileError(window.metas[0].path, f"{error}; wanted games that this program knows") from error


class _Run:
    """The making of one set. Row r of the scratch file becomes row r % size of the (r // size)th missing chunk;
    the rows of the hold-out follow."""

    def __init__(
        self,
        config: GatherConfig,
        progress: Progress,
        window: Window,
        game: AnyGame,
        method: Method,
        skip: Callable[[FileError], None],
    ) -> None:
        self.config = config
        self.progress = progress
        self.window = window
        self.game = game
        self.method = method
        self.types = method.columns(game)
        self.output = config.output_directory
        self.set_name = self._find_name()
        self.reader = Reader(game, method, window, skip, progress)
        self.bad = self.reader.bad  # shards that turned out damaged, as indices into window.metas
        self.new_positions = window.new_positions

    def _find_name(self) -> layout.SetName:
        """The name under which this window, these settings and this seed were gathered before, or a new one."""
        window = self.window
        left_out = {"directory", "output_directory", "min_positions", "keep_sets", "replacement", "time_share"}
        evicts_any = self.config.replacement == "random"
        ingredients = {
            "version": VERSION,
            "shards": [(meta.id, meta.sha256) for meta in window.metas],
            "capacity": window.capacity,
            "evictions": max(window.counted.total - window.capacity, 0) if evicts_any else None,
            "settings": self.config.stored(left_out),
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
        if existing:
            self.new_positions = int(read_header(existing[0]).window["new_positions"])  # as when the set was begun
        if complete_set(self.set_name, existing) is not None:
            newest = max(sets)
            later = "" if newest == self.set_name else f"; note that set {newest} is newer, and train takes the newest"
            self.progress.say(f"set {self.set_name} of this window, settings and seed is already made{later}")
            skipped = read_header(existing[0]).window["skipped"]
            self.bad.update(number for number, meta in enumerate(self.window.metas) if meta.id in skipped)
            return 0
        if existing and _had_replacements(existing[0]):
            self._remove_partial()  # which row stands in for a damaged shard is only known when all are drawn anew
        missing = [index for index, path in enumerate(self._paths(num_chunks)) if not path.exists()]
        num_drawn = num_chunks * self.config.positions_per_chunk
        drawn = self._pool(frozenset()).sample(num_drawn, self._rng(DRAW_TRAINING))
        rows = np.concatenate([self._rows_of(index) for index in missing])
        holdout = self._draw_holdout()
        num_rows = len(rows)
        with closing(Scratch(self.output, num_rows + len(holdout), {**self.types, **ORIGIN})) as scratch:
            wanted = _joined(drawn.at(rows), holdout)
            self.progress.start("reading games", len(wanted), "positions")
            # What is held out says how good the value is at results, whatever it learns from.
            td_lambda = np.full(len(wanted), self.config.td_lambda, np.float32)
            td_lambda[num_rows:] = 1
            failed = self.reader.extract(scratch, wanted, np.arange(len(wanted)), td_lambda)
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

    def _pool(self, without: frozenset[int]) -> PositionSampler:
        """What is drawn from. without: shards to leave out; none at first, so that reruns draw the same."""
        return self.window.pool(False, without, self.config.surprise_weight)

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
        return pool.sample(min(len(pool), limit), self._rng(DRAW_HOLDOUT))

    def _remove_partial(self) -> None:
        for path in list_sets(self.output).get(self.set_name, []):
            with atomic.os_errors(path):
                path.unlink(missing_ok=True)

    # Filling gaps

    def _replace(self, scratch: Scratch, failed: NDArray[np.int64], drawn: Positions) -> NDArray[np.int64]:
        """Fill rows that damaged shards left empty from the others; the rows that remain empty, sorted."""
        rng = self._rng(DRAW_REPLACEMENTS)
        while len(failed):
            others = self._pool(frozenset(self.bad)).sample_others(len(failed), drawn, rng)
            if not len(others):
                break
            td_lambda = np.full(len(others), self.config.td_lambda, np.float32)
            again = self.reader.extract(scratch, others, failed[: len(others)], td_lambda)
            failed = np.sort(np.concatenate([again, failed[len(others) :]]))
            drawn = _joined(drawn, others)
        return failed

    def _close_gaps(self, scratch: Scratch, num_rows: int, failed: NDArray[np.int64]) -> int:
        """Move the last rows into the empty ones; how many whole chunks remain. Raises like gather if too few."""
        num_chunks = _affordable_chunks(self.config, self.window, num_rows - len(failed))
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

        for _ in in_threads(work, slots):
            self.progress.advance()
        with atomic.os_errors(self.output):
            atomic.sync_folder(self.output)
        self.progress.finish()

    def _write_file(self, path: Path, index: int, num_chunks: int, columns: Columns) -> None:
        shards, columns["shard"] = _named(columns["shard"], self.window)
        figures = self.window.figures(frozenset(self.bad))
        header = ChunkHeader(
            game=self.game.spec,
            set_id=str(self.set_name),
            index=index,
            num_chunks=num_chunks,
            seed=self.config.seed,
            num_planes=getattr(self.game, "num_planes", 0),
            method=self.method.name,
            window={
                "positions": figures.positions,
                "max_positions": self.config.max_positions,
                "capacity": self.window.capacity,
                "games": figures.games,
                "shards": figures.shards,
                "newest": figures.newest,
                "oldest": figures.oldest,
                "total_positions": self.window.counted.total,
                "new_positions": self.new_positions,
                "latest_shard": self.window.counted.latest,
                "holdout_share": self.config.holdout_fraction,
                "td_lambda": self.config.td_lambda,
                "skipped": sorted(self.window.metas[shard].id for shard in self.bad),
            },
        )
        write_chunk(path, self.types, header, columns, shards, folder_sync=index < 0)


def _had_replacements(chunk: Path) -> bool:
    """Whether damaged shards were skipped when this chunk's set was begun; also if the chunk itself is damaged."""
    try:
        return bool(read_header(chunk).window.get("skipped", True))
    except FileError:
        return True


def _joined(first: Positions, second: Positions) -> Positions:
    return Positions(
        np.concatenate([first.shard, second.shard]),
        np.concatenate([first.game, second.game]),
        np.concatenate([first.ply, second.ply]),
    )


def _named(shard: NDArray[np.uint32], window: Window) -> tuple[list[str], NDArray[np.uint32]]:
    """The names of the shards that occur, and the column as an index into them."""
    numbers, local = np.unique(shard, return_inverse=True)
    return [window.metas[number].id for number in numbers.tolist()], local.astype(np.uint32)
