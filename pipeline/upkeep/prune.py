"""``prune``: removes files that no window, training or report can need. Without --apply it only lists them.

docs/files.md has the whole table of what goes and what stays. Of each old generation a *sample* stays for reports: in
every worker's folder about SAMPLE shards, at least one every SAMPLE_EVERY, and always the last one, so that numbering
continues. A folder stays unchanged if a sidecar is damaged, a shard's size differs from its sidecar, or a shard of the
sample is damaged; checksums of removed shards aren't checked. Totals are kept in run/pruned.py.

A kill is safe at any time: the same command continues. Readers may run at the same time.

Generations are searched from the newest backwards, down to those in which an earlier run left nothing to remove, and
SETTLED of these, for games that came late. So the cost depends only on what has become old since the last run.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

from pipeline.errors import FileError
from pipeline.gather.config import GatherConfig
from pipeline.interrupts import held_back
from pipeline.phrases import counted, size
from pipeline.progress import SILENT, Progress
from pipeline.reports.run_files import scan_run
from pipeline.reports.tables import table
from pipeline.run import atomic, layout, packs
from pipeline.run.chunks import complete_set, list_sets, read_header, remove_sets
from pipeline.run.layout import Run
from pipeline.run.models import check_champion, has_model, models_in_training, newest_models, newest_number, read_info
from pipeline.run.order import Counted, ShardFile, files_of, generation_of, newest_generations, places_in
from pipeline.run.priorities import list_priorities, newest_priorities
from pipeline.run.pruned import Pruned, PrunedPlace, read_pruned, write_pruned
from pipeline.run.shards import meta_of, read_meta, read_shard
from pipeline.run.store.base import current_store
from pipeline.train.checkpoint import FILE as CHECKPOINT_FILE
from pipeline.upkeep.compact import SETTLED, finish, read_checked
from pipeline.upkeep.config import PruneConfig

LEAST_POSITIONS = int(GatherConfig.model_fields["max_positions"].default)
NEWEST_KEPT = 2  # generations
MODELS_ASKED = 100  # the newest ones, whose windows count
SAMPLE = 8  # shards of a worker's folder that stay, at least
SAMPLE_EVERY = timedelta(minutes=30)  # the sample has no longer gap, unless the games had: reports show pauses


@dataclass(frozen=True)
class Removal:
    """Files to be removed. why: nothing needs them. files: a shard in a pack counts as two, its parts of the pack."""

    what: str
    files: int
    num_bytes: int
    why: str

    @classmethod
    def of(cls, what: str, sizes: Sequence[int], why: str) -> Removal:
        """sizes: of the files, in bytes."""
        return cls(what, len(sizes), sum(sizes), why)


@dataclass(frozen=True)
class PruneSummary:
    """applied: whether removals were carried out or only listed. notes: files that unexpectedly stay, and why."""

    applied: bool
    removals: list[Removal]
    files: int
    num_bytes: int
    keep_positions: int
    notes: list[str]
    seconds: float

    def lines(self) -> list[str]:
        """The short form."""
        lines = []
        if self.removals:
            rows = [(one.what, f"{one.files:,}", size(one.num_bytes), one.why) for one in self.removals]
            lines += table(rows, ("what", "files, or parts of packs", "size", "why nothing needs it")).splitlines()
        lines += [f"note: {note}" for note in self.notes]
        total = f"{counted(self.files, 'file')} or parts of packs, {size(self.num_bytes)}"
        if not self.removals:
            return [*lines, f"nothing to remove; the newest {self.keep_positions:,} positions stay in any case"]
        return [*lines, f"removed: {total}" if self.applied else f"{total}; nothing was removed: --apply removes them"]


def prune(config: PruneConfig, progress: Progress = SILENT) -> PruneSummary:
    """List files that nothing needs, and with config.apply remove them.

    Raises FileError if the folder is not that of a run, or something can't be removed; NotYet if another process packs
    or prunes these games.
    """
    start = time.monotonic()
    run = Run.at(config.directory)
    check_champion(run.models)
    notes: list[str] = []
    with ExitStack() as stack:
        if config.apply and atomic.is_folder(run.games):
            stack.enter_context(packs.packing(run.games))
        max_positions, counted_so_far, oldest = _needs(run, progress)
        keep = max(LEAST_POSITIONS, max_positions) if config.keep_positions is None else config.keep_positions
        # Chunks and leftovers first: pruning games writes files, which a full disk refuses.
        others = [*_prune_chunks(run, config.apply, notes), *_prune_left_over(run, config.apply)]
        removals = [*_prune_games(run, counted_so_far, oldest, keep, config.apply, notes, progress), *others]
    return PruneSummary(
        applied=config.apply,
        removals=removals,
        files=sum(one.files for one in removals),
        num_bytes=sum(one.num_bytes for one in removals),
        keep_positions=keep,
        notes=notes,
        seconds=time.monotonic() - start,
    )


# Needs


def _needs(run: Run, progress: Progress) -> tuple[int, Counted | None, int]:
    """What the windows of sets and models need: (max_positions, the largest of any set or of the newest models; what
    gather has counted so far, None: nothing; the oldest generation that a set or the newest model names).
    """
    windows: list[Mapping[str, Any]] = []  # of all sets, newest first, then of the newest models
    naming: list[Mapping[str, Any]] = []  # those whose oldest generation stays
    counted_so_far: Counted | None = None
    for name, files in reversed(list_sets(run.chunks).items()):
        with suppress(FileError, ValueError):
            windows.append(read_header(files[-1]).window)
            naming.append(windows[-1])
            if counted_so_far is None and complete_set(name, files) is not None:
                counted_so_far = Counted.in_window(windows[-1])
    has_newest = False
    for path in islice(newest_models(run.models), MODELS_ASKED):
        try:
            window = read_info(path).manifest.get("window", {})
        except FileError as error:
            progress.warn(str(error))
            continue
        windows.append(window)
        if not has_newest and "oldest" in window:
            naming.append(window)
            with suppress(ValueError):
                counted_so_far = counted_so_far or Counted.in_window(window)
                has_newest = True
    most = [window.get("max_positions") for window in windows]
    oldest = [generation_of(str(window["oldest"])) for window in naming if window.get("oldest")]
    return max((one for one in most if type(one) is int), default=0), counted_so_far, min(oldest, default=0)


# Games


@dataclass
class _Place:
    """A worker's folder to be pruned.

    files  all its shards, ascending
    keep   those that stay, including the last
    sizes  bytes of the files, or parts of packs, that go
    """

    path: Path
    files: list[ShardFile]
    keep: list[layout.ShardName]
    sizes: list[int] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.files[0].place

    @property
    def num_gone(self) -> int:
        return len(self.files) - len(self.keep)


def _prune_games(
    run: Run, counted_so_far: Counted | None, oldest: int, keep: int, apply: bool, notes: list[str], progress: Progress
) -> Iterator[Removal]:
    """counted_so_far, oldest: see _needs; keep: number of positions that stay."""
    games = run.games
    pruned = read_pruned(games)
    if counted_so_far is None:
        notes.append("all games stay: nothing was gathered yet, so no gather has counted them")
        return
    positions = behind = 0
    settled = -1  # the newest generation from which on older ones need no further search
    going: dict[tuple[int, int, int], list[_Place]] = {}  # by generation, its shards, positions of newer generations
    searched: list[Path] = []
    for number, (generation, folders) in enumerate(newest_generations(games)):
        behind += generation <= pruned.settled
        if behind > SETTLED:
            break
        is_new = number < NEWEST_KEPT or generation >= oldest
        if not is_new and positions >= keep:
            for place in places_in(games, folders):
                current_store().look_at_place(place)
        files = sorted(files_of(games, generation, folders))
        if is_new or positions < keep or not all(map(counted_so_far.has, files)):
            if positions < keep:  # damaged sidecars count nothing; gather reports them
                metas = (meta_of(file, games, lambda error: None) for file in files)
                positions += sum(meta.positions for meta in metas if meta)
            settled = -1
            continue
        searched += dict.fromkeys(games / file.place for file in files)
        places = [place for place in _places(games, files, pruned, notes) if place.num_gone]
        is_damaged = any(isinstance(file.pack, FileError) for file in files)
        settled = -1 if is_damaged else max(settled, generation)
        if places:
            going[generation, len(files), positions] = places
    stayed: set[str] = set()
    if apply:
        places = [place for some in going.values() for place in some]
        after, stayed = _remove_games(games, pruned, searched, places, progress)
        if not stayed and settled > after.settled:  # comes last: after a kill everything is searched again
            write_pruned(games, after.model_copy(update={"settled": settled}))
    for (generation, shards, newer), places in going.items():
        thinned = [place for place in places if place.name not in stayed]
        gone = sum(place.num_gone for place in thinned)
        what = f"{gone:,} of {counted(shards, 'shard')} of generation {generation}"
        why = f"behind the newest {newer:,} positions; {counted(shards - gone, 'shard')} stay"
        if thinned:
            yield Removal.of(what, [part for place in thinned for part in place.sizes], why)


def _places(games: Path, files: list[ShardFile], pruned: Pruned, notes: list[str]) -> Iterator[_Place]:
    """files: of a generation, ascending."""
    by_place: dict[str, list[ShardFile]] = {}
    for file in files:
        by_place.setdefault(file.place, []).append(file)
    for name, found in sorted(by_place.items()):
        path = games / name
        if any(isinstance(file.pack, FileError) for file in found):
            notes.append(f"{path} stays as it is: one of its packs is damaged")
            continue
        known, names = pruned.places.get(name), [file.name for file in found]
        if known and known.up_to > names[-1]:
            known = None  # its last shard is gone: sample anew
        late = names if known is None else [one for one in names if one > known.up_to]
        before = [one for one in known.names if one in names] if known else []
        keep = _with_a_name_of_its_own(path, [*before, *(sample(late) if late else [])])
        kept = set(keep)
        sizes = [part for file in found if file.name not in kept for part in _sizes(path, file)]
        yield _Place(path, found, keep, sizes)


def sample(names: Sequence[layout.ShardName]) -> list[layout.ShardName]:
    """The shards of a folder that stay for reports, see the module docstring. names: ascending."""
    chosen = {*names[:: -max(1, -(-len(names) // SAMPLE))]}
    last = names[0]
    for name, following in pairwise(names):
        if name in chosen or following.time - last.time > SAMPLE_EVERY:
            chosen.add(name)
            last = name
    return sorted(chosen)


def _with_a_name_of_its_own(path: Path, keep: list[layout.ShardName]) -> list[layout.ShardName]:
    """keep, without its first shards if their pack would get the name of another pack."""
    there = packs.intact_packs(path)
    while len(keep) > 1:
        pack = there.get(layout.PackName(keep[-1], len(keep)))
        if pack is None or list(pack.names) == keep:
            break
        keep = keep[1:]
    return keep


def _sizes(place: Path, file: ShardFile) -> list[int]:
    """Bytes of a shard's files, or of its parts of a pack."""
    if isinstance(file.pack, packs.Pack):
        return file.pack.sizes[file.pack.index[file.name]].tolist()
    return _sizes_of([place / file.name.shard, place / file.name.meta])


def _remove_games(
    games: Path, pruned: Pruned, searched: Sequence[Path], places: Sequence[_Place], progress: Progress
) -> tuple[Pruned, set[str]]:
    """Record the totals of the places, then remove what goes.

    searched: the folders of all old generations, in which a killed run may have left something.
    Returns what was recorded, and the names of damaged places, which stay unchanged.
    """
    for path in searched:
        finish(path, progress)
        atomic.sweep(path)
        _remove_uncommitted(path, pruned)
    good: list[_Place] = []
    known = dict(pruned.places)
    for place in places:
        try:
            known[place.name] = _totals(games, place, pruned.places.get(place.name))
            good.append(place)
        except FileError as error:
            progress.warn(f"{place.path} stays as it is: {error}")
    after = Pruned(places=known, settled=pruned.settled)
    if places:
        write_pruned(games, after)
    for place in progress.each(good, "removing", "folders"):
        with held_back():
            _thin(place)
    return after, {place.name for place in places} - {place.name for place in good}


def _remove_uncommitted(place: Path, pruned: Pruned) -> None:
    """Remove shards whose sidecar a killed run has removed already."""
    committed = packs.shards_in(place)
    named = {name: parsed for name in atomic.names_in(place) if (parsed := layout.parse_shard_name(name))}
    atomic.remove(place / name for name, one in named.items() if one not in committed and pruned.has(place / name))


def _totals(games: Path, place: _Place, before: PrunedPlace | None) -> PrunedPlace:
    """Raises FileError for a damaged sidecar, a shard whose size it contradicts, or a damaged shard of the sample."""
    new = [file for file in place.files if before is None or file.name > before.up_to]
    metas = [read_meta(file.meta(games), file.pack) for file in new if not isinstance(file.pack, FileError)]
    for meta in metas:
        with atomic.os_errors(meta.path), suppress(FileNotFoundError):  # the file may not have been fetched
            if meta.pack is None and (found := meta.path.stat().st_size) != meta.num_bytes:
                raise FileError(meta.path, f"damaged: {found} bytes; its sidecar says {meta.num_bytes}")
    for file in place.files:
        if file.name in place.keep:
            meta = read_meta(file.meta(games))
            read_shard(meta.path, meta)
    return PrunedPlace(
        kept=[name.stem for name in place.keep],
        number=max([*(file.number for file in new), before.number if before else 0]),
        shards=len(metas) + (before.shards if before else 0),
        games=sum(meta.games for meta in metas) + (before.games if before else 0),
        positions=sum(meta.positions for meta in metas) + (before.positions if before else 0),
    )


def _thin(place: _Place) -> None:
    """Put the shards that stay into one pack, then remove everything else."""
    there = packs.intact_packs(place.path)
    stay = layout.PackName(place.keep[-1], len(place.keep))
    if stay not in there:
        listed = {file.name: file.pack for file in place.files}
        # A shard that a killed compact left in both places was listed with its own files; finish() removed these.
        in_packs = {name: pack if isinstance(pack, packs.Pack) else None for name, pack in listed.items()}
        packs.write_pack(place.path, [read_checked(place.path, name, in_packs[name])[0] for name in place.keep])
    for name, pack in there.items():
        if name != stay:
            atomic.remove([pack.meta, pack.path])
    packs.remove_files(place.path, [file.name for file in place.files])


# Chunks, checkpoints, temporary files


def _prune_chunks(run: Run, apply: bool, notes: list[str]) -> Iterator[Removal]:
    sets = list_sets(run.chunks)
    complete = [name for name, files in sets.items() if complete_set(name, files) is not None]
    if not complete:
        return
    newest = str(complete[-1])
    if current_store().shared:  # other machines may be training, but on no set older than the newest model's
        newest = min(newest, _newest_set_of_a_model(run))
    old = [name for name in sets if str(name) < newest]
    needed = newest_priorities(run.chunks, newest)
    stale = [path for name, path in list_priorities(run.chunks) if str(name) < newest and path != needed]
    newest_model = newest_number(run.models)
    begun = [model for model in models_in_training(run.models) if not _why_over(run, model, newest_model)]
    if old and begun:
        notes.append(f"all sets of chunks stay: the training of {begun[0]} has begun and hasn't ended")
        old = []
    files = [path for name in old for path in sets[name]]
    if files:
        why = f"training takes the newest complete set, {complete[-1]}"
        yield Removal.of(f"{counted(len(old), 'set')} of chunks", _sizes_of(files), why)
    if stale:
        why = f"{needed.name if needed else newest} has newer ones"
        yield Removal.of(f"{counted(len(stale), 'file')} of priorities", _sizes_of(stale), why)
    if apply and (files or stale):
        with atomic.file_lock(run.chunks / "sets"):  # gather's lock: it may be completing a set
            remove_sets(sets[name] for name in old)
            atomic.remove(stale)


def _newest_set_of_a_model(run: Run) -> str:
    """The set that the newest model was trained on; "" if unknown."""
    for path in newest_models(run.models):
        with suppress(FileError):
            return str(read_info(path).manifest.get("chunk_set") or "")
    return ""


def _why_over(run: Run, model: str, newest: int) -> str:
    """Why no training will resume the checkpoint of this model; "" if one may. newest: the newest model's number."""
    number = layout.number_of(model)
    if has_model(run.models / model):
        return f"the training of {model} has ended"
    if number is not None and number <= newest:
        return f"model {newest:06d} is newer; no training will resume {model}"
    return ""


def _prune_left_over(run: Run, apply: bool) -> Iterator[Removal]:
    """Checkpoints that no training will resume, and temporary files of killed processes."""
    newest, seen = newest_number(run.models), scan_run(run.folder, whole=False)
    for name in sorted(atomic.names_in(run.models)):
        model = layout.parse_checkpoint_name(name)
        why = _why_over(run, model, newest) if model else ""
        if not why:
            continue
        checkpoint = run.models / name
        if layout.lock_path(layout.SAVED_MODELS / name / CHECKPOINT_FILE) in (seen.held or ()):
            continue  # in use
        files = [checkpoint / file for file in atomic.names_in(checkpoint)]  # it may be gone on a network disk
        yield Removal.of(f"checkpoint of {model}", _sizes_of(files), why)
        if apply:
            with suppress(atomic.Busy), atomic.file_lock(checkpoint / CHECKPOINT_FILE, wait=False):
                shutil.rmtree(checkpoint, ignore_errors=True)  # its own lock is open in it: on NFS a file stays
    dead = [run.folder / path for path in seen.temporaries if atomic.is_left_over(path.name)]
    if dead:
        files = [file for path in dead for file in ([path] if path.is_file() else path.rglob("*")) if file.is_file()]
        why = "the processes that wrote them were killed"
        yield Removal.of(counted(len(dead), "temporary file"), _sizes_of(files), why)
    for path in dead if apply else ():
        atomic.remove_tree(path)


def _sizes_of(files: Iterable[Path]) -> list[int]:
    found = []
    for path in files:
        with suppress(OSError):
            found.append(path.stat().st_size)
    return found
