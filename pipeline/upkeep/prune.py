"""``prune``: removes files that no window, training or report can need. Without --apply it only lists them.

Games. The newest positions stay: --keep-positions, or as many as the largest window of any set of chunks and of the
newest models holds, but no fewer than gather's default window. Also kept are the two newest generations, generations
that a set or the newest model still names, and games that no gather has counted yet. Of each older generation, a sample
stays for reports: in every worker's folder about eight shards, at least one every half hour, and always the last one,
so that numbering continues. A folder stays unchanged if a sidecar is damaged, a shard's size differs from its sidecar,
or a shard of the sample is damaged; checksums of removed shards aren't checked. Totals are kept in run/pruned.py.

Chunks. Training takes the newest complete set. Older sets are removed, unless an unfinished training may be reading
one.

Checkpoints of trainings that ended or that a newer model has superseded, and temporary files of killed processes are
removed.

Models, matches, ratings, the pool, promotions, curves and logs always stay. A kill is safe at any time: the same
command continues. Readers may run at the same time.

Generations are searched from the newest backwards, down to those in which an earlier run left nothing to remove, and a
few of these, for games that came late. So the cost depends only on what has become old since the last run.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
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
from pipeline.reports.run_files import look_at
from pipeline.reports.tables import table
from pipeline.run import atomic, layout, packs
from pipeline.run.chunks import complete_set, list_sets, read_header
from pipeline.run.models import has_model, newest_number, read_info
from pipeline.run.order import Counted, ShardFile, files_of, generation_of, newest_generations
from pipeline.run.priorities import list_priorities, newest_priorities
from pipeline.run.pruned import Pruned, PrunedPlace, read_pruned, write_pruned
from pipeline.run.run import Run
from pipeline.run.shards import ShardMeta, parse_meta, read_meta, read_shard
from pipeline.run.store.base import current_store
from pipeline.train.checkpoint import FILE as CHECKPOINT_FILE
from pipeline.upkeep.compact import SETTLED, finish, places_in
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


@dataclass
class _Plan:
    """The removals, and the steps of `work` that carry them out. Each step returns what it has removed."""

    removals: list[Removal] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    work: list[Callable[[], list[Removal]]] = field(default_factory=list)

    def add(self, what: str, sizes: Sequence[int], why: str, work: Callable[[], None]) -> None:
        removal = Removal(what, len(sizes), sum(sizes), why)

        def step() -> list[Removal]:
            work()
            return [removal]

        self.removals.append(removal)
        self.work.append(step)


def prune(config: PruneConfig, progress: Progress = SILENT) -> PruneSummary:
    """List files that nothing needs, and with config.apply remove them.

    Raises FileError if the folder is not that of a run, or something can't be removed; NotYet if another process packs
    or prunes these games.
    """
    start = time.monotonic()
    run = Run.at(config.directory)
    games = run.games
    plan = _Plan()
    with ExitStack() as stack:
        if config.apply and games.is_dir():
            stack.enter_context(packs.packing(games))
        windows = list(_windows(run, progress))
        keep = config.keep_positions
        if keep is None:
            keep = max([LEAST_POSITIONS, *(_whole(window.get("max_positions")) for window in windows)])
        _plan_games(run, keep, plan, progress)
        _plan_chunks(run, plan, progress)
        _plan_left_over(run, plan)
        removals = plan.removals
        if config.apply:
            progress.start("removing", len(plan.work), "steps")
            removals = []
            for step in plan.work:
                removals += step()
                progress.advance()
            progress.finish()
    return PruneSummary(
        applied=config.apply,
        removals=removals,
        files=sum(one.files for one in removals),
        num_bytes=sum(one.num_bytes for one in removals),
        keep_positions=keep,
        notes=plan.notes,
        seconds=time.monotonic() - start,
    )


# Needs


def _windows(run: Run, progress: Progress) -> Iterator[Mapping[str, Any]]:
    """The windows of the newest models and of all sets of chunks."""
    for path in islice(run.newest_models(), MODELS_ASKED):
        try:
            window = read_info(path).manifest.get("window")
        except FileError as error:
            progress.warn(str(error))
            continue
        if isinstance(window, dict):
            yield window
    for files in list_sets(run.chunks).values():
        with suppress(FileError):
            yield read_header(files[-1]).window


def _whole(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _needs(run: Run) -> tuple[Counted | None, int]:
    """(what gather has counted so far, None if nothing; the oldest generation that a set or the newest model names)."""
    windows: list[Mapping[str, Any]] = []
    counted_so_far: Counted | None = None
    sets = list_sets(run.chunks)
    for name, files in reversed(sets.items()):
        with suppress(FileError, ValueError):
            window = read_header(files[-1]).window
            windows.append(window)
            if counted_so_far is None and complete_set(name, files) is not None:
                counted_so_far = Counted.in_window(window)
    for path in run.newest_models():
        with suppress(FileError, ValueError):
            of_model = read_info(path).manifest.get("window")
            if isinstance(of_model, dict) and "oldest" in of_model:
                windows.append(of_model)
                counted_so_far = counted_so_far or Counted.in_window(of_model)
                break
    oldest = [generation_of(str(window["oldest"]).partition("/")[0]) for window in windows if window.get("oldest")]
    return counted_so_far, min(oldest, default=0)


# Games


@dataclass
class _Place:
    """A worker's folder to be pruned. files: all its shards, ascending; keep: those that stay, including the last."""

    path: Path
    files: list[ShardFile]
    keep: list[layout.ShardName]

    @property
    def gone(self) -> list[ShardFile]:
        kept = set(self.keep)
        return [file for file in self.files if file.name not in kept]


@dataclass(frozen=True)
class _Thinning:
    """A generation to be pruned.

    shards     number of all its shards
    positions  number of positions in newer generations
    places     folders to be pruned, each with the bytes of the files, or parts of packs, that go
    """

    generation: int
    shards: int
    positions: int
    places: list[tuple[_Place, list[int]]]

    def removals(self, stayed: Collection[Path] = ()) -> list[Removal]:
        """One, or none if all places stayed unchanged. stayed: places that did."""
        thinned = [(one, parts) for one, parts in self.places if one.path not in stayed]
        if not thinned:
            return []
        gone = sum(len(one.gone) for one, _ in thinned)
        sizes = [part for _, parts in thinned for part in parts]
        what = f"{gone:,} of {counted(self.shards, 'shard')} of generation {self.generation}"
        why = f"behind the newest {self.positions:,} positions; {counted(self.shards - gone, 'shard')} stay"
        return [Removal(what, len(sizes), sum(sizes), why)]


def _plan_games(run: Run, keep: int, plan: _Plan, progress: Progress) -> None:
    games = run.games
    counted_so_far, oldest_needed = _needs(run)
    pruned = read_pruned(games)
    if counted_so_far is None:
        plan.notes.append("all games stay: nothing was gathered yet, so no gather has counted them")
        return
    positions = behind = 0
    settled = -1  # the newest generation from which on older ones need no further search
    going: list[_Thinning] = []
    old: list[Path] = []
    for number, (generation, folders) in enumerate(newest_generations(games)):
        behind += generation <= pruned.settled
        if behind > SETTLED:
            break
        is_new = number < NEWEST_KEPT or generation >= oldest_needed
        if not is_new and positions >= keep:
            for place in places_in(games, folders):
                current_store().look_at_place(place)
        files = sorted(files_of(games, generation, folders))
        if is_new or positions < keep or not all(map(counted_so_far.has, files)):
            positions += sum(_positions(games, file) for file in files) if positions < keep else 0
            settled = -1
            continue
        old += [games / file.place for file in files]
        thinned = [one for one in _places(games, files, pruned, plan) if one.gone]
        is_damaged = any(isinstance(file.pack, FileError) for file in files)
        settled = -1 if is_damaged else max(settled, generation)
        if thinned:
            places = [(one, [part for file in one.gone for part in _sizes(one.path, file)]) for one in thinned]
            going.append(_Thinning(generation, len(files), positions, places))
            plan.removals += going[-1].removals()

    def work() -> list[Removal]:
        for place in dict.fromkeys(old):  # leftovers of a killed run
            finish(place, progress)
            atomic.sweep(place)
            _remove_uncommitted(place, pruned)
        after, stayed = pruned, set[Path]()
        if going:
            after, stayed = _prune_places(games, pruned, [one for old in going for one, _ in old.places], progress)
        if not stayed and settled > after.settled:  # comes last: after a kill everything is searched again
            write_pruned(games, after.model_copy(update={"settled": settled}))
        return [removal for one in going for removal in one.removals(stayed)]

    plan.work.append(work)


def _positions(games: Path, file: ShardFile) -> int:
    if isinstance(file.pack, FileError):
        return 0
    try:
        return read_meta(file.meta(games), file.pack).positions
    except FileError:
        return 0  # damaged or gone; gather reports it


def _places(games: Path, files: list[ShardFile], pruned: Pruned, plan: _Plan) -> Iterator[_Place]:
    by_place: dict[str, list[ShardFile]] = {}
    for file in files:
        by_place.setdefault(file.place, []).append(file)
    for name, found in sorted(by_place.items()):
        path = games / name
        if any(isinstance(file.pack, FileError) for file in found):
            plan.notes.append(f"{path} stays as it is: one of its packs is damaged")
            continue
        known = pruned.places.get(name)
        names = sorted(file.name for file in found)
        if known is None:
            keep = sample(names)
        elif known.up_to == names[-1]:
            keep = [one for one in known.names if one in names]
        else:  # games that came late
            late = [one for one in names if one > known.up_to]
            keep = [*(one for one in known.names if one in names), *sample(late)]
        yield _Place(path, sorted(found), _with_a_name_of_its_own(path, keep))


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
    there = _packs_in(path)
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


def _packs_in(place: Path) -> dict[layout.PackName, packs.Pack]:
    """The intact packs of a folder."""
    return {name: pack for name, pack in packs.list_packs(place) if isinstance(pack, packs.Pack)}


def _prune_places(
    games: Path, pruned: Pruned, places: Sequence[_Place], progress: Progress
) -> tuple[Pruned, set[Path]]:
    """Record the totals of the places, then remove what goes. Places that _totals finds damaged stay unchanged.

    Returns what was recorded, and the places that stayed.
    """
    good: list[_Place] = []
    stayed: set[Path] = set()
    known = dict(pruned.places)
    for place in places:
        name = f"{place.path.parent.name}/{place.path.name}"
        try:
            known[name] = _totals(games, place, pruned.places.get(name))
        except FileError as error:
            progress.warn(f"{place.path} stays as it is: {error}")
            stayed.add(place.path)
        else:
            good.append(place)
    after = Pruned(places=known, settled=pruned.settled)
    write_pruned(games, after)
    for place in good:
        with held_back():
            _thin(games, place)
    return after, stayed


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
        if meta.pack is None:
            _check_size(meta)
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


def _check_size(meta: ShardMeta) -> None:
    """Raises FileError if the shard's file is here and its size contradicts the sidecar."""
    with atomic.os_errors(meta.path), suppress(FileNotFoundError):
        found = meta.path.stat().st_size
        if found != meta.num_bytes:
            raise FileError(meta.path, f"damaged: {found} bytes; its sidecar says {meta.num_bytes}")


def _thin(games: Path, place: _Place) -> None:
    """Put the shards that stay into one pack, then remove everything else. A single shard gets files of its own."""
    there = _packs_in(place.path)
    stay = layout.PackName(place.keep[-1], len(place.keep))
    if stay not in there or len(place.keep) == 1:
        _write(games, place)
    for name, pack in there.items():
        if name != stay or len(place.keep) == 1:
            atomic.remove([pack.meta, pack.path])
    own = [file.name for file in place.files if len(place.keep) > 1 or file.name != place.keep[-1]]
    packs.remove_files(place.path, own)


def _write(games: Path, place: _Place) -> None:
    stored = []
    for name in place.keep:
        file = next(one for one in place.files if one.name == name)
        pack = file.pack if isinstance(file.pack, packs.Pack) else None
        # A shard that a killed compact left in both places was listed with its own files; finish() removed these.
        sidecar, _ = packs.read_stored(place.path / name.meta, pack, "a sidecar")
        data, _ = packs.read_stored(place.path / name.shard, pack, "a game shard")
        meta = parse_meta(place.path / name.meta, sidecar)
        atomic.check_content(place.path / name.shard, data, meta.num_bytes, meta.sha256, "its sidecar")
        stored.append((name, data, sidecar))
    if len(stored) > 1:
        packs.write_pack(place.path, stored)
        return
    name, data, sidecar = stored[0]
    atomic.write_bytes(place.path / name.shard, data, folder_sync=False)
    atomic.write_bytes(place.path / name.meta, sidecar)


# Chunks


def _plan_chunks(run: Run, plan: _Plan, progress: Progress) -> None:
    folder = run.chunks
    sets = list_sets(folder)
    complete = [name for name, files in sets.items() if complete_set(name, files) is not None]
    if not complete:
        return
    newest = str(complete[-1])
    if run.store.shared:  # other machines may be training, but on no set older than the newest model's
        newest = min(newest, _newest_set_of_a_model(run))
    old = [name for name in sets if str(name) < newest]
    stale = [path for name, path in list_priorities(folder) if str(name) < newest]
    needed = newest_priorities(folder, newest)
    stale = [path for path in stale if path != needed]
    begun = [name for name in atomic.names_in(run.models) if layout.parse_checkpoint_name(name)]
    if old and begun:
        model = layout.parse_checkpoint_name(begun[0])
        plan.notes.append(f"all sets of chunks stay: the training of {model} has begun and hasn't ended")
        old = []
    files = [path for name in old for path in sets[name]]
    if files:
        what = f"{counted(len(old), 'set')} of chunks"
        plan.add(
            what, _sizes_of(files), f"training takes the newest complete set, {complete[-1]}", _removing(folder, files)
        )
    if stale:
        what = f"{counted(len(stale), 'file')} of priorities"
        why = f"{needed.name if needed else newest} has newer ones"
        plan.add(what, _sizes_of(stale), why, _removing(folder, stale))


def _newest_set_of_a_model(run: Run) -> str:
    """The set that the newest model was trained on; "" if unknown."""
    for path in run.newest_models():
        with suppress(FileError):
            return str(read_info(path).manifest.get("chunk_set") or "")
    return ""


def _removing(folder: Path, files: list[Path]) -> Callable[[], None]:
    def work() -> None:
        with atomic.file_lock(folder / "sets"):  # gather's lock: it may be completing a set
            atomic.remove(files)

    return work


def _sizes_of(files: Sequence[Path]) -> list[int]:
    found = []
    for path in files:
        with suppress(OSError):
            found.append(path.stat().st_size)
    return found


# Leftovers


def _plan_left_over(run: Run, plan: _Plan) -> None:
    saved_models = run.models
    newest, seen = newest_number(saved_models), look_at(run.folder, whole=False)
    for name in sorted(atomic.names_in(saved_models)):
        model = layout.parse_checkpoint_name(name)
        parsed = layout.parse_model_name(model) if model else None
        if model is None:
            continue
        if has_model(saved_models / model):
            why = f"the training of {model} has ended"
        elif parsed is not None and parsed.number <= newest:
            why = f"model {newest:06d} is newer; no training will resume {model}"
        else:
            continue
        checkpoint = saved_models / name
        if layout.lock_path(layout.SAVED_MODELS / name / CHECKPOINT_FILE) in (seen.held or ()):
            continue  # in use
        files = sorted(checkpoint.iterdir())
        plan.add(f"checkpoint of {model}", _sizes_of(files), why, _removing_checkpoint(checkpoint))
    dead = [run.folder / path for path in seen.temporaries if atomic.is_left_over(path.name)]
    if dead:
        files = [file for path in dead for file in ([path] if path.is_file() else path.rglob("*")) if file.is_file()]
        why = "the processes that wrote them were killed"
        plan.add(counted(len(dead), "temporary file"), _sizes_of(files), why, lambda: _remove_trees(dead))


def _removing_checkpoint(checkpoint: Path) -> Callable[[], None]:
    def work() -> None:
        with suppress(atomic.Busy), atomic.file_lock(checkpoint / CHECKPOINT_FILE, wait=False):
            _remove_trees([checkpoint])

    return work


def _remove_trees(paths: Sequence[Path]) -> None:
    for path in paths:
        with atomic.os_errors(path):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
