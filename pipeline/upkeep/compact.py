"""``compact``: packs the shards of all generations but the newest. Nothing is lost or changed.

run/packs.py defines packs and what readers see in the meantime. Each shard is checked against its sidecar before it is
packed; damaged shards and shards without a sidecar stay where they are. A pack is committed before the files that it
replaces are removed. So a kill leaves at most shards in both places, which readers count once and the next run removes.

Generations are searched from the newest backwards, until several in a row are packed, and packed from the oldest of
them forwards. So after a kill only the newest generations are unpacked, and the cost depends only on what is new.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from pipeline.errors import FileError
from pipeline.interrupts import held_back
from pipeline.phrases import counted, duration
from pipeline.progress import SILENT, Progress
from pipeline.run import atomic, layout, order, packs
from pipeline.run.layout import Run
from pipeline.run.models import check_champion
from pipeline.run.shards import ShardMeta, parse_meta
from pipeline.run.store.base import current_store
from pipeline.upkeep.config import CompactConfig

PACK_BYTES = 64 << 20  # of a pack's shards, without their sidecars
PACK_SHARDS = 10_000
SETTLED = 8  # stop after this many finished generations in a row: games end within a few generations of their own

Stored = tuple[layout.ShardName, bytes, bytes]
"""A shard's name, content and sidecar."""


@dataclass(frozen=True)
class CompactSummary:
    """The result of one run. files_before, files_after: in the folders of the generations searched."""

    generations: int = 0
    packs: int = 0
    shards: int = 0
    games: int = 0
    positions: int = 0
    files_before: int = 0
    files_after: int = 0
    skipped: int = 0  # damaged shards, each named in a warning
    seconds: float = 0.0

    def lines(self) -> list[str]:
        """The short form."""
        if not self.generations:
            return ["nothing to pack: only generations before the newest are packed"]
        if not self.packs and not self.skipped:
            return ["nothing to pack: all shards before the newest generation are packed"]
        lines = [
            f"{counted(self.shards, 'shard')} packed into {counted(self.packs, 'file')} in {duration(self.seconds)}: "
            f"{counted(self.games, 'game')}, {counted(self.positions, 'position')}",
            f"files of the {counted(self.generations, 'generation')} before the newest: {self.files_before:,}, now "
            f"{self.files_after:,}",
        ]
        if self.skipped:
            lines.append(f"{counted(self.skipped, 'damaged shard')} left unpacked; see the warnings")
        return lines


Totals = Counter[str]
"""By the names of a summary's fields."""


def compact(config: CompactConfig, progress: Progress = SILENT) -> CompactSummary:
    """Pack all that can be packed. Raises NotYet if another process packs or prunes, FileError for a full disk."""
    start = time.monotonic()
    totals = Totals()
    run = Run.at(config.directory)
    check_champion(run.models)
    directory = run.games
    if atomic.is_folder(directory):
        with packs.packing(directory):
            generations = _until_packed(directory)
            totals["generations"] = len(generations)
            places = [place for folders in generations[::-1] for place in sorted(order.places_in(directory, folders))]
            for place in progress.each(places, "packing", "folders"):
                _pack(place, totals, progress)
    return CompactSummary(**totals, seconds=time.monotonic() - start)


def _until_packed(directory: Path) -> list[list[str]]:
    """The folders of the old generations, newest first, up to and including SETTLED packed ones in a row."""
    found: list[list[str]] = []
    in_a_row = 0
    for _, folders in islice(order.newest_generations(directory), 1, None):
        found.append(folders)
        is_packed = _is_packed(directory, folders)
        if is_packed is not None:
            in_a_row = in_a_row + 1 if is_packed else 0
        if in_a_row == SETTLED:
            break
    return found


def _is_packed(directory: Path, folders: list[str]) -> bool | None:
    """Whether no worker's folder has two unpacked shards or anything half-done.

    None if no worker has more than one shard: a single shard is never packed, so it doesn't tell whether older
    generations are.
    """
    any_pack = False
    for place in order.places_in(directory, folders):
        current_store().look_at_place(place)
        names = atomic.names_in(place)
        own = sum(layout.parse_shard_name(name) is not None for name in names)
        packed = [pack for name in names if (pack := layout.parse_pack_name(name))]
        half_done = any(map(layout.parse_temporary_name, names)) or any(pack.meta not in names for pack in packed)
        if half_done or own > 2:  # files; two of each shard
            return False
        any_pack |= bool(packed)
    return True if any_pack else None


def _pack(place: Path, totals: Totals, progress: Progress) -> None:
    atomic.sweep(place)
    totals["files_before"] += len(atomic.names_in(place))
    in_packs = finish(place, progress)
    waiting: list[tuple[Stored, ShardMeta]] = []
    size = 0
    for name in sorted(name for name, pack in packs.shards_in(place).items() if pack is None and name not in in_packs):
        try:
            stored, meta = read_checked(place, name)
            sidecar = stored[2]
            if sidecar.find(b"\n") != len(sidecar) - 1:
                raise FileError(place / name.meta, "it isn't one line; wanted a sidecar as self-play writes it")
        except FileError as error:
            totals["skipped"] += 1
            progress.warn(f"left as it is: {error}")
            continue
        if meta.num_bytes > PACK_BYTES:
            continue  # large enough already
        if waiting and (size + meta.num_bytes > PACK_BYTES or len(waiting) == PACK_SHARDS):
            _write(place, waiting, totals)
            waiting, size = [], 0
        waiting.append((stored, meta))
        size += meta.num_bytes
    _write(place, waiting, totals)
    totals["files_after"] += len(atomic.names_in(place))


def finish(place: Path, progress: Progress) -> set[layout.ShardName]:
    """Remove leftovers of a kill: uncommitted packs, and files of packed shards. Returns the names of packed shards.

    A file that differs from its copy in the pack stays, with a warning: one of the two is damaged.
    """
    names = set(atomic.names_in(place))
    named = {name: parsed for name in names if (parsed := layout.parse_pack_name(name))}
    # The listing may be a minute old on a network disk: a pack that has been committed since isn't left over.
    alone = [(name, parsed) for name, parsed in named.items() if name == parsed.shard and parsed.meta not in names]
    atomic.remove(place / name for name, parsed in alone if not atomic.exists(place / parsed.meta))
    found: set[layout.ShardName] = set()
    for pack in packs.intact_packs(place).values():
        found.update(pack.names)
        left = [name for name in pack.names if name.meta in names or name.shard in names]
        same = [name for name in left if _is_same(place, name, pack)]
        packs.remove_files(place, same)
        for name in set(left) - set(same):
            progress.warn(f"left as it is: {place / name.shard}: it differs from its copy in {pack.path.name}")
    return found


def _is_same(place: Path, name: layout.ShardName, pack: packs.Pack) -> bool:
    """Whether the shard's own files, as far as they exist, equal their copies in the pack."""
    try:
        for path in (place / name.meta, place / name.shard):
            packed = pack.read(name, path.suffix)
            if path.exists() and atomic.read_bytes(path, "a game shard") != packed:
                return False
    except FileError:
        return False
    return True


def read_checked(place: Path, name: layout.ShardName, pack: packs.Pack | None = None) -> tuple[Stored, ShardMeta]:
    """A shard to be packed. pack: where it was listed; None: in files of its own. Raises FileError if it is damaged."""
    sidecar, _ = packs.read_stored(place / name.meta, pack, "the sidecar of a game shard")
    meta = parse_meta(place / name.meta, sidecar)
    data, _ = packs.read_stored(place / name.shard, pack, "a game shard")
    atomic.check_content(place / name.shard, data, meta.num_bytes, meta.sha256, "its sidecar")
    return (name, data, sidecar), meta


def _write(place: Path, shards: list[tuple[Stored, ShardMeta]], totals: Totals) -> None:
    if len(shards) < 2:
        return  # a pack needs two files too
    with held_back():
        packs.write_pack(place, [stored for stored, _ in shards])
        packs.remove_files(place, [name for (name, _, _), _ in shards])
    totals["packs"] += 1
    totals["shards"] += len(shards)
    totals["games"] += sum(meta.games for _, meta in shards)
    totals["positions"] += sum(meta.positions for _, meta in shards)
