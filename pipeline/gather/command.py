"""``gather``: samples the newest self-play games and writes shuffled training examples as a set of chunks.

Sampling comes first, from sidecars alone: uniform without replacement, or more often where the search surprised the
network. Each sampled position gets a row of a chunk. Then every shard with a sampled position is read once, its
examples go to their rows in a scratch file, and chunks are cut from that file. So reading costs the same for any number
of chunks.

The sample depends only on the shards, the settings and the seed. The set's name contains a hash of them, by which a
rerun finds its earlier work and makes only what is missing. A set whose examples depend on each other (Method.settle)
is always made whole.

The total number of positions is carried from set to set: chunks store the count at their making, and the next gather
adds the shards written since. The first gather counts all shards.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import FileError, GamesDiffer, MuGoError, NotYet
from pipeline.games.contract import AnyGame
from pipeline.games.specs import are_related, largest
from pipeline.gather.config import GatherConfig
from pipeline.gather.extraction import Scratch, in_groups, in_threads, read_intact
from pipeline.gather.window import PositionSampler, Window, scan_window
from pipeline.methods.method import IndexArray, Positions
from pipeline.methods.named import method_named
from pipeline.phrases import counted, duration
from pipeline.progress import SILENT, Progress
from pipeline.run import atomic, layout
from pipeline.run.chunks import (
    HELD_OUT,
    ORIGIN,
    VERSION,
    ChunkHeader,
    ChunkSet,
    Columns,
    ColumnTypes,
    complete_set,
    list_sets,
    newest_complete_set,
    read_header,
    remove_old_sets,
    write_chunk,
)
from pipeline.run.models import check_champion, newest_info
from pipeline.run.order import COUNTED, TOTAL, Counted, generation_of
from pipeline.run.pruned import read_pruned
from pipeline.run.shards import Shard
from pipeline.run.store.base import current_store

HOLDOUT_CHUNKS = 4  # the hold-out's largest size, in chunks
TRAINING, HOLDOUT, REPLACEMENTS = 0, 1, 2  # random streams of a seed
MAX_SETTLED = 16  # numbers per example; Method.settle() gets no larger columns
NEW = "new_positions"  # in the description of a window


@dataclass(frozen=True)
class GatherSummary:
    """What one gather run did. The window's figures leave out damaged shards."""

    game: str
    set_id: str
    chunks: int  # in the set
    chunks_made: int  # in this run; 0: the set was complete
    chunks_short: int  # missing to --chunks-to-make, for lack of positions
    positions: int  # in the set's chunks
    holdout_positions: int  # in the set's hold-out
    window_positions: int
    window_games: int
    window_shards: int
    newest_shard: str
    oldest_shard: str
    total_positions: int  # made by self-play up to the newest shard
    new_positions: int  # made since the previous set
    shards_read: int
    shards_skipped: int  # damaged or missing; a warning names each
    games_differing: int  # that can't be replayed as recorded; a warning names them
    games_repeated: int  # left out of the window because one of its older shards has them
    sets_removed: int
    seconds: float
    positions_per_second: float  # written, over the whole run

    def lines(self) -> list[str]:
        """The short form."""
        if not self.chunks_made:
            chunks = counted(self.chunks, "chunk")
            return [f"set {self.set_id} of this window, settings and seed has its {chunks}: nothing to gather"]
        there = f", {self.chunks - self.chunks_made:,} made before" if self.chunks_made < self.chunks else ""
        lines = [
            f"set {self.set_id}: {counted(self.chunks, 'chunk')}{there} in {duration(self.seconds)}, "
            f"{self.positions_per_second:,.0f} positions/s",
            f"{counted(self.positions, 'position')} to train on, {self.holdout_positions:,} held out",
            f"window: {counted(self.window_games, 'game')} with {self.window_positions:,} of the "
            f"{counted(self.total_positions, 'position')} so far; {self.new_positions:,} new since the last set",
        ]
        if self.games_repeated:
            lines.append(f"{counted(self.games_repeated, 'game')} left out because older shards have them too")
        if self.games_differing:
            lines.append(f"{counted(self.games_differing, 'game')} left out that differ on replay; see the warnings")
        if self.shards_skipped:
            lines.append(f"{counted(self.shards_skipped, 'damaged or missing shard')} skipped; the warnings name them")
        return lines


def gather(config: GatherConfig, progress: Progress = SILENT) -> GatherSummary:
    """Make one set of chunks from the newest games.

    Raises NotYet if there are no games or fewer than min_positions; UsageError for options that the games' method
    doesn't read; MuGoError if the chunks need more positions than there are, no position is a training target, a full
    window is too small, or games are mixed; FileError if all games are unknown or the output directory can't be
    written.
    """
    start = time.monotonic()
    skipped: list[str] = []

    def skip(error: FileError) -> None:
        skipped.append(str(error))
        progress.warn(f"skipped {error}")

    check_champion(layout.Run.of_games(config.directory).models)
    output = config.output_directory
    window = _scan(config, skip)
    if window.repeated:
        progress.warn(
            f"{counted(window.repeated, 'game')} left out because older shards have them too, e.g. in "
            f"{window.repeated_in}"
        )
    num_chunks = _num_chunks(config, window, len(skipped))
    game = largest(meta.game for meta in window.metas)  # boards of one family: all examples fit into its columns
    atomic.make_folder(output)
    with atomic.file_lock(output / "sets", on_wait=lambda: progress.say(f"another gather works in {output}; waiting")):
        atomic.sweep(output)
        maker = _SetMaker(config, window, game, skip, progress)
        made = maker.make(num_chunks)
        chunk_set = maker.chunk_set()
        sets_removed = remove_old_sets(output, config.keep_sets, chunk_set.id) if made else 0
    current_store().forget_shards(config.directory, generation_of(window.metas[-1].path.parts[-3]))
    seconds = time.monotonic() - start
    figures = window.figures(maker.bad)
    return GatherSummary(
        game=game.spec,
        set_id=chunk_set.id,
        chunks=len(chunk_set.chunks),
        chunks_made=made,
        chunks_short=config.chunks_to_make - len(chunk_set.chunks),
        positions=len(chunk_set.chunks) * config.positions_per_chunk,
        holdout_positions=read_header(chunk_set.holdout).num_examples if chunk_set.holdout else 0,
        window_positions=figures["positions"],
        window_games=figures["games"],
        window_shards=figures["shards"],
        newest_shard=figures["newest"],
        oldest_shard=figures["oldest"],
        total_positions=window.counted.total,
        new_positions=maker.counts[NEW],
        shards_read=maker.shards_read,
        shards_skipped=len(skipped),
        games_differing=sum(map(len, maker.differing.values())),
        games_repeated=window.repeated,
        sets_removed=sets_removed,
        seconds=seconds,
        positions_per_second=made * config.positions_per_chunk / max(seconds, 1e-9),
    )


def _scan(config: GatherConfig, skip: Callable[[FileError], None]) -> Window:
    game, counted = _counted_before(config.output_directory)
    bad: list[FileError] = []
    window = scan_window(config, counted, bad.append) if counted.total else None
    if window is None or (window.metas and not are_related(window.metas[0].game, game)):
        # Nothing was counted yet, or the output directory's sets are of another game.
        bad.clear()
        window = scan_window(config, read_pruned(config.directory).counted, bad.append)
    for error in bad:
        skip(error)
    return window


def _counted_before(output: Path) -> tuple[str, Counted]:
    """(game of the newest readable complete set, what was counted at its making)."""
    for name, files in reversed(list_sets(output).items()):
        chunk_set = complete_set(name, files)
        for path in chunk_set.files if chunk_set else ():
            try:
                header = read_header(path)
                return header.game, Counted.in_window(header.window)
            except (FileError, ValueError):
                continue  # reported when the chunk is needed
    return "", Counted()


def _num_chunks(config: GatherConfig, window: Window, num_skipped: int) -> int:
    """How many chunks can be made. Raises as gather()."""
    found, where = window.num_positions, config.directory
    missing = max(config.min_positions, 1) - found
    if not found and window.seen >= missing:  # more games of the same kind wouldn't help
        why, way_out = (
            ("none searched in full", "give selfplay --readouts or leave out --searched-only")
            if config.searched_only
            else ("none of them a move that the model learns from", "leave out selfplay --filter-opponent-invalid")
        )
        raise MuGoError(f"{where}: {counted(window.seen, 'position')}, {why}; {way_out}")
    if not window.seen:
        if model := newest_info(layout.Run.of_games(where).models):  # a wrong option doesn't wait for games
            method_named(model.method).check_options("gather", config)
        why = f" ({num_skipped} unusable sidecars)" if num_skipped else "" if where.is_dir() else ", and no such folder"
        wanted = f"wanted {config.min_positions:,} positions; " if config.min_positions else ""
        raise NotYet(f"{where}: no games yet{why}; {wanted}run `python main.py selfplay`", missing)
    if missing > 0:
        problem = f"{where}: {found:,} positions in the window; wanted {config.min_positions:,}"
        _refuse(config, window, problem, "--min-positions", missing, missing)
    return _affordable_chunks(config, window, len(window.pool(held_out=False)))


def _affordable_chunks(config: GatherConfig, window: Window, available: int) -> int:
    """How many chunks to make from `available` training positions. Raises as gather()."""
    size, wanted = config.positions_per_chunk, config.chunks_to_make * config.positions_per_chunk
    if available >= wanted:
        return config.chunks_to_make
    held_out, undamaged = (len(window.pool(held_out=held_out)) for held_out in (True, False))
    found = f"{config.directory}: {available:,} positions to train on ({held_out:,} more are held out)"
    if not config.as_many_as_possible:
        limit = _limit(config, window)
        more = f"raise {limit}" if limit and _is_full(window, limit) else "run selfplay"
        raise MuGoError(
            f"{found}; {config.chunks_to_make} chunks of {size:,} need {wanted:,}; {wanted - available:,} missing; "
            f"{more}, or add --as-many-as-possible"
        )
    if available < size:
        problem = f"{found}; one chunk needs {size:,}"
        _refuse(config, window, problem, "--positions-per-chunk", size - available, size - undamaged)
    return available // size


def _limit(config: GatherConfig, window: Window) -> str:
    """The option that limits the window, with its value; "" while the window grows."""
    if config.max_games and window.spans.num_games >= config.max_games:
        return f"--max-games ({config.max_games:,})"
    return f"--max-positions ({config.max_positions:,})" if window.capacity == config.max_positions else ""


def _is_full(window: Window, limit: str) -> bool:
    """limit: from _limit()."""
    return window.seen >= window.capacity or limit.startswith("--max-games")


def _refuse(config: GatherConfig, window: Window, problem: str, option: str, missing: int, lacking: int) -> None:
    """Raise NotYet for `missing` positions, or MuGoError if more games don't help: the window is full and can't grow.

    lacking: how many would be missing if no shard were damaged. Repeated games and damaged shards will leave the
    window, and with random replacement its size varies by about its square root.
    """
    variation = 4 * math.sqrt(window.capacity) if config.replacement == "random" else 0.0
    limit = _limit(config, window)
    if limit and _is_full(window, limit) and not window.repeated and lacking > variation:
        way_out = f"the window is full; raise {limit} or lower {option}"
        raise MuGoError(f"{problem}; {missing:,} missing; {way_out}")
    raise NotYet(f"{problem}; {missing:,} missing; run selfplay again", missing)


def _set_name(config: GatherConfig, window: Window, types: ColumnTypes) -> layout.SetName:
    """The name of the set already gathered from this window, settings and seed, or a new name.

    types: a set of other columns, as before a game got more planes, is another one.
    """
    left_out = {"directory", "output_directory", "min_positions", "keep_sets", "replacement", "time_share"}
    evicts_any = config.replacement == "random"
    ingredients = {
        "version": VERSION,
        "shards": [(meta.id, meta.sha256) for meta in window.metas],
        "capacity": window.capacity,
        "evictions": max(window.counted.total - window.capacity, 0) if evicts_any else None,
        "settings": config.stored(left_out),
        "columns": {name: [dtype, list(shape)] for name, (dtype, shape) in types.items()},
    }
    digest = hashlib.sha256(json.dumps(ingredients, sort_keys=True).encode()).hexdigest()[:8]
    names = list(list_sets(config.output_directory))
    same = [name for name in names if name.digest == digest]
    return same[-1] if same else layout.SetName(names[-1].number + 1 if names else 0, digest)


@dataclass
class _SetMaker:
    """Makes one set.

    skip         called once with the error of each damaged shard
    bad          damaged shards found so far, as indices into the window's metas
    differing    games that can't be replayed as recorded, found so far, by shard
    shards_read  number of reads
    Row r of the scratch file becomes row r % size of the (r // size)th missing chunk; the hold-out's rows follow.
    """

    config: GatherConfig
    window: Window
    game: AnyGame
    skip: Callable[[FileError], None]
    progress: Progress
    bad: set[int] = field(default_factory=set)
    differing: dict[int, set[int]] = field(default_factory=dict)
    shards_read: int = 0

    def __post_init__(self) -> None:
        self.method = method_named(self.window.metas[0].method)
        self.types = {**self.method.columns(self.game), **ORIGIN}
        self.output = self.config.output_directory
        self.set_name = _set_name(self.config, self.window, self.types)
        # Counts for the headers; files made by a later run get the counts of the first.
        self.counts = {**self.window.counted.in_words(), NEW: self.window.new_positions}

    @cached_property
    def pool(self) -> PositionSampler:
        """What is trained on. Includes positions of damaged shards, so that reruns sample the same."""
        return self.window.pool(held_out=False, surprise_weight=self.config.surprise_weight)

    def make(self, num_chunks: int) -> int:
        """Make the missing chunks, or all if they depend on each other; returns how many were made."""
        existing = self._readable()
        complete = complete_set(self.set_name, existing)
        if existing:
            begun = read_header(existing[0]).window
            self.counts = {name: begun[name] for name in (TOTAL, COUNTED, NEW, HELD_OUT)}
            if complete is not None:
                self._already_made(begun["skipped"])
                num_chunks = len(complete.chunks)
            elif begun["skipped"] or self.method.settled:
                # Replacements of damaged shards' rows, and settled columns, are determined by the whole set only.
                atomic.remove(existing)
                existing = []
        missing = [index for index, path in enumerate(self._paths(num_chunks)) if path not in existing]
        wanted_holdout = self._sample_holdout()
        if not missing and not len(wanted_holdout):
            return 0
        size = self.config.positions_per_chunk
        sampled = self.pool.sample(num_chunks * size if missing else 0, self._rng(TRAINING))
        wanted = sampled.at(np.isin(np.arange(len(sampled)) // size, missing)) + wanted_holdout
        num_rows = len(missing) * size
        scratch = Scratch(self.output, len(wanted), self.types)
        self.progress.start("reading games", len(wanted), "positions")
        failed = self._extract(scratch, wanted, np.arange(len(wanted)), num_rows)
        if self.bad and 0 < len(missing) < num_chunks:  # a shard was damaged after chunks were made
            self.progress.finish()
            atomic.remove(self._files())
            del scratch  # room for another one
            return self.make(num_chunks)
        holdout = np.setdiff1d(np.arange(num_rows, len(wanted)), failed)
        if not existing:
            self.counts[HELD_OUT] = len(holdout)
        failed = self._replace(scratch, failed[failed < num_rows], sampled, num_rows)
        self.progress.finish()
        if len(failed):
            num_chunks = self._close_gaps(scratch, num_rows, failed)
            missing = list(range(num_chunks))
        self._settle(scratch, np.arange(len(missing) * size))
        self._settle(scratch, holdout)
        self._write(scratch, num_chunks, missing, holdout)
        if not missing and len(holdout):
            self.progress.say(f"the hold-out of set {self.set_name} was lost and has been made again")
        return len(missing)

    # The files of this set

    def chunk_set(self) -> ChunkSet:
        found = complete_set(self.set_name, self._files())
        if found is None:
            raise FileError(self.output, f"set {self.set_name} lost chunks during gather; run it again")
        return found

    def _files(self) -> list[Path]:
        return list_sets(self.output).get(self.set_name, [])

    def _paths(self, num_chunks: int) -> list[Path]:
        return [self.output / layout.chunk_name(self.set_name, index, num_chunks) for index in range(num_chunks)]

    def _readable(self) -> list[Path]:
        """The files of this set. Removes unreadable ones, which are then made again."""
        for path in self._files():
            try:
                read_header(path)
            except FileError as error:
                self.progress.warn(f"making it again: {error}")
                atomic.remove([path])
        return self._files()

    def _already_made(self, skipped: list[str]) -> None:
        """Report a complete set. skipped: ids of the shards that were damaged when it was made."""
        newest = newest_complete_set(self.output)
        if newest is not None and newest.id != str(self.set_name):
            newer = f"set {newest.id} is newer, and train takes the newest"
            self.progress.say(f"set {self.set_name} was made before; {newer}")
        self.bad.update(number for number, meta in enumerate(self.window.metas) if meta.id in skipped)

    # Sampling and reading

    def _rng(self, stream: int) -> np.random.Generator:
        return np.random.default_rng([self.config.seed, stream])

    def _sample_holdout(self) -> Positions:
        """Held-out positions of shards not known to be damaged; empty if the hold-out exists or nothing is held out."""
        pool = self.window.pool(held_out=True)
        made = atomic.exists(self.output / layout.holdout_name(self.set_name))
        limit = 0 if made else HOLDOUT_CHUNKS * self.config.positions_per_chunk
        sampled = pool.sample(min(len(pool), limit), self._rng(HOLDOUT))
        return sampled.at(~np.isin(sampled.shard, list(self.bad)))

    def _extract(self, scratch: Scratch, wanted: Positions, rows: IndexArray, num_training: int) -> IndexArray:
        """Put the examples of N wanted positions into rows [N]; returns the empty rows, sorted.

        Rows stay empty for damaged shards, and for games that can't be replayed as recorded.
        num_training: rows before the hold-out's. The column `shard` becomes an index into the window's metas.
        """
        # The hold-out always measures how well results are predicted.
        td_lambda = np.where(rows < num_training, np.float32(self.config.td_lambda), np.float32(1))
        failed = np.zeros(len(rows), np.bool_)

        def work(
            group: IndexArray,
        ) -> tuple[IndexArray, IndexArray, int, dict[int, FileError], dict[int, GamesDiffer]]:
            """One thread's work: read whole shards and make their examples in one batch."""
            of_group = wanted.at(group)
            left_out = np.zeros(len(group), np.bool_)
            differing: dict[int, GamesDiffer] = {}

            def put_all(shards: dict[int, Shard]) -> None:
                good = np.flatnonzero(np.isin(of_group.shard, list(shards)) & ~left_out)
                if not len(good):
                    return
                here = of_group.at(good)
                local = Positions(np.searchsorted(list(shards), here.shard), here.game, here.ply)
                lambdas = td_lambda[group[good]]
                columns = self.method.examples(self.game, list(shards.values()), local, lambdas, self.config)
                columns["shard"] = here.shard.astype(np.uint32)
                scratch.put(rows[group[good]], columns)

            def put(shards: dict[int, Shard]) -> None:
                with suppress(GamesDiffer):
                    put_all(shards)
                    return
                for number, shard in shards.items():  # it names those of one shard
                    while True:
                        try:
                            put_all({number: shard})
                            break
                        except GamesDiffer as error:  # go on without these games
                            differing[number] = error
                            left_out[(of_group.shard == number) & np.isin(of_group.game, list(error.games))] = True

            metas = {number: self.window.metas[number] for number in np.unique(of_group.shard).tolist()}
            errors = read_intact(metas, put)[1]
            return group[left_out], group, len(metas), errors, differing

        for left_out, group, num_read, errors, differing in in_threads(work, in_groups(wanted)):
            self.shards_read += num_read
            for shard, error in errors.items():
                if shard not in self.bad:
                    self.skip(error)
                self.bad.add(shard)
            for shard, differs in differing.items():
                if shard not in self.differing:
                    self.progress.warn(f"left out {differs}")
                self.differing.setdefault(shard, set()).update(differs.games)
            failed[group] = np.isin(wanted.shard[group], list(errors))
            failed[left_out] = True
            self.progress.advance(len(group) - int(failed[group].sum()))
        return np.sort(rows[failed])

    def _replace(self, scratch: Scratch, failed: IndexArray, sampled: Positions, num_rows: int) -> IndexArray:
        """Fill the empty rows from undamaged shards; returns the rows that remain empty, sorted."""
        rng = self._rng(REPLACEMENTS)
        while len(failed):
            others = self.pool.sample_others(len(failed), sampled, rng, self.bad)
            if not len(others):
                break
            again = self._extract(scratch, others, failed[: len(others)], num_rows)
            failed = np.sort(np.concatenate([again, failed[len(others) :]]))
            sampled = sampled + others
        return failed

    def _close_gaps(self, scratch: Scratch, num_rows: int, failed: IndexArray) -> int:
        """Move the last rows into the empty ones; returns how many whole chunks remain. Raises as gather()."""
        num_chunks = _affordable_chunks(self.config, self.window, num_rows - len(failed))
        end = num_chunks * self.config.positions_per_chunk
        holes = failed[failed < end]
        scratch.examples[holes] = scratch.examples[np.setdiff1d(np.arange(end, num_rows), failed)[: len(holes)]]
        return num_chunks

    def _settle(self, scratch: Scratch, rows: IndexArray) -> None:
        """Let the method set columns that depend on all examples in these rows."""
        if not self.method.settled or not len(rows):
            return
        small = [name for name, (_, shape) in self.types.items() if np.prod(shape) <= MAX_SETTLED]
        columns = {name: scratch.examples[name][rows] for name in small}
        for name, values in self.method.settle(columns, self.config).items():
            scratch.examples[name][rows] = values

    # Writing

    def _write(self, scratch: Scratch, num_chunks: int, indices: list[int], holdout: IndexArray) -> None:
        """Write the hold-out, then the chunks with these indices, whose rows are consecutive in the scratch file."""
        size = self.config.positions_per_chunk
        self.progress.start("writing chunks", len(indices), "chunks")
        figures = self.window.figures(self.bad)
        if len(holdout):
            path = self.output / layout.holdout_name(self.set_name)
            self._write_file(path, -1, num_chunks, figures, scratch.get(holdout))
        paths = self._paths(num_chunks)
        weights = self.pool.weights().astype(np.float32) if self.config.surprise_weight and indices else None

        def work(slot: int) -> None:
            columns = scratch.get(np.arange(slot * size, (slot + 1) * size))
            origin = Positions(*(columns[name].astype(np.int64) for name in ORIGIN))
            theirs = None if weights is None else weights[self.pool.numbers(origin)]
            self._write_file(paths[indices[slot]], indices[slot], num_chunks, figures, columns, theirs)

        for _ in in_threads(work, range(len(indices))):
            self.progress.advance()
        with atomic.os_errors(self.output):
            atomic.sync(self.output)
        self.progress.finish()

    def _write_file(
        self,
        path: Path,
        index: int,
        num_chunks: int,
        figures: dict[str, Any],
        columns: Columns,
        weights: NDArray[np.float32] | None = None,
    ) -> None:
        metas, config = self.window.metas, self.config
        numbers, local = np.unique(columns["shard"], return_inverse=True)
        columns["shard"] = local.astype(np.uint32)  # index into this file's own list of shards
        header = ChunkHeader(
            game=self.game.spec,
            set_id=str(self.set_name),
            index=index,
            num_chunks=num_chunks,
            seed=config.seed,
            num_planes=getattr(self.game, "num_planes", 0),
            method=self.method.name,
            window={
                "max_positions": config.max_positions,
                "capacity": self.window.capacity,
                **({"max_games": config.max_games} if config.max_games else {}),
                **figures,
                **self.counts,
                "holdout_fraction": config.holdout_fraction,
                "td_lambda": config.td_lambda,
                "skipped": sorted(metas[shard].id for shard in self.bad),
            },
        )
        shards = [metas[number].id for number in numbers.tolist()]
        write_chunk(path, header, columns, shards, folder_sync=index < 0, weights=weights)
