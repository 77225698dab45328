"""Self-play's games and the sets of chunks made from them.

Every sidecar has its shard, every game is legal and ended as recorded, no game occurs twice. Each shard is read once,
several at a time. Twelve bytes per game (id and length) and a name per shard stay in memory. Axes: G games of all
shards.

Chunks are intact and belong to their set, examples come from existing games, hold-outs are apart. An incomplete set is
no problem: gather was stopped and will finish it. If the shards that a set was made from are gone, games are compared
by name only. One set is in memory at a time, eight bytes per example.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import FileError, UsageError
from pipeline.games.capabilities import family_of
from pipeline.games.specs import largest, recorded_game
from pipeline.gather.extraction import POSITIONS_PER_GROUP, in_threads, read_intact
from pipeline.methods.method import Positions
from pipeline.methods.named import method_named
from pipeline.phrases import counted
from pipeline.progress import Progress
from pipeline.run import layout
from pipeline.run.chunks import Chunk, ColumnTypes, check_holdout, complete_set, list_sets, read_chunk, read_header
from pipeline.run.order import generation_of
from pipeline.run.packs import is_gone
from pipeline.run.priorities import list_priorities, read_priorities
from pipeline.run.shards import Shard, ShardMeta, newest_shards
from pipeline.upkeep.verify.problems import CHUNKS, GAMES, OTHERS, Findings


@dataclass
class KnownGames:
    """The games of all shards that were read.

    shards    (ids, plies) of its games, by shard
    oldest    the oldest generation; None without games
    is_whole  False if there are older games, which weren't asked for
    """

    shards: dict[str, tuple[NDArray[np.uint64], NDArray[np.int32]]] = field(default_factory=dict)
    oldest: int | None = None
    is_whole: bool = True

    def add(self, shard: Shard) -> None:
        # Copies, since views would keep the whole shard in memory.
        self.shards[shard.id] = (shard.game_ids.copy(), shard.lengths.copy())
        generation = generation_of(shard.path.parts[-3])
        self.oldest = generation if self.oldest is None else min(self.oldest, generation)

    def repeated(self) -> Iterator[tuple[str, int, str]]:
        """(shard, number of its games that occur in an earlier shard or twice in it, one such shard)."""
        names = list(self.shards)
        ids = np.concatenate([np.zeros(0, np.uint64), *(ids for ids, _ in self.shards.values())])  # [G]
        starts = np.cumsum([0, *(len(ids) for ids, _ in self.shards.values())])
        order = np.argsort(ids, kind="stable")
        again = np.flatnonzero(ids[order][1:] == ids[order][:-1])
        shards, others = (np.searchsorted(starts, order[one], side="right") - 1 for one in (again + 1, again))
        for number in np.unique(shards).tolist():
            here = np.flatnonzero(shards == number)
            yield names[number], len(here), names[int(others[here[0]])]


def check_games(
    directory: Path, num_shards: int, findings: Findings, progress: Progress, newest: int | None = None
) -> KnownGames:
    """directory: of the games; num_shards: estimate for the progress; newest: number of positions, None for all."""
    known = KnownGames()
    games: set[str] = set()

    def damaged(error: FileError) -> None:
        findings.problem(GAMES, error.path, error.problem)

    def checked(group: list[ShardMeta]) -> tuple[list[ShardMeta], list[Shard], list[FileError]]:
        return group, *_check_group(group)

    metas = _newest(newest_shards(directory, damaged), newest, known)
    progress.start("checking games", num_shards, "shards")
    for group, shards, errors in in_threads(checked, _groups(metas)):
        progress.advance(len(group))
        for error in errors:
            if not is_gone(layout.meta_path(error.path)):
                findings.problem(GAMES, error.path, error.problem)
        for shard in shards:
            known.add(shard)
            games.add(_family(shard.game_spec))
            findings.count(GAMES, "shard")
            findings.count(GAMES, "game", shard.num_games)
            findings.count(GAMES, "position", shard.num_positions)
    progress.finish()
    for name, count, other in known.repeated():
        findings.problem(
            GAMES,
            directory / name,
            f"{counted(count, 'game')} of it {'is' if count == 1 else 'are'} in {other} as well; wanted each once; was "
            "a folder copied, or self-play run twice with the same --seed? remove one of the two and its .meta",
        )
    if len(games) > 1:
        findings.problem(GAMES, directory, f"games of {' and '.join(sorted(games))}; wanted a folder for each game")
    return known


def _family(spec: str) -> str:
    """The family of a game; for an unknown game, its spec."""
    try:
        return family_of(recorded_game(spec))
    except UsageError:
        return spec


def _newest(metas: Iterator[ShardMeta], positions: int | None, known: KnownGames) -> Iterator[ShardMeta]:
    """The first ones, up to a number of positions; None: all. Sets known.is_whole to False if others are left."""
    before = 0
    for meta in metas:
        if positions is not None and before >= positions:
            known.is_whole = False
            return
        before += meta.positions
        yield meta


def _groups(metas: Iterator[ShardMeta]) -> Iterator[list[ShardMeta]]:
    """Shards of related games and one method, up to POSITIONS_PER_GROUP positions per group."""
    group: list[ShardMeta] = []
    positions = 0
    for meta in metas:
        is_other = bool(group) and ((_family(meta.game), meta.method) != (_family(group[0].game), group[0].method))
        if group and (is_other or positions + meta.positions > POSITIONS_PER_GROUP):
            yield group
            group, positions = [], 0
        group.append(meta)
        positions += meta.positions
    if group:
        yield group


def _check_group(group: list[ShardMeta]) -> tuple[list[Shard], list[FileError]]:
    """(intact shards, the others' errors). Reads and replays them and extracts examples as gather does."""

    def extract(found: dict[int, Shard]) -> None:
        shards = list(found.values())
        try:
            game, method = largest(meta.game for meta in group), method_named(group[0].method)
        except UsageError as error:  # unknown here
            raise FileError(shards[0].path, str(error)) from error
        for wanted in _batches(shards):
            method.examples(game, shards, wanted)

    shards, errors = read_intact(dict(enumerate(group)), extract)
    return list(shards.values()), list(errors.values())


def _batches(shards: list[Shard]) -> Iterator[Positions]:
    """All positions, game after game, about POSITIONS_PER_GROUP at a time, since a shard may be large."""
    lengths = np.concatenate([shard.lengths for shard in shards]).astype(np.int64)
    game = np.concatenate([np.arange(shard.num_games) for shard in shards])
    shard = np.repeat(np.arange(len(shards)), [one.num_games for one in shards])
    batch = (np.cumsum(lengths) - lengths) // POSITIONS_PER_GROUP  # [games]
    for number in np.unique(batch).tolist():
        here = np.flatnonzero(batch == number)
        plies = lengths[here]
        ply = np.arange(plies.sum()) - np.repeat(np.cumsum(plies) - plies, plies)
        yield Positions(np.repeat(shard[here], plies), np.repeat(game[here], plies), ply)


# Chunks


def check_chunks(directory: Path, known: KnownGames, findings: Findings, progress: Progress) -> None:
    """directory: of the chunks and priorities; known: the games of self-play."""
    sets = list_sets(directory)
    progress.start("checking chunks", sum(map(len, sets.values())), "chunks")
    for name, files in sets.items():
        findings.count(CHUNKS, "set")
        complete = complete_set(name, files)
        if complete is None:
            numbered = sum(path.name != layout.holdout_name(name) for path in files)
            findings.remark(f"set {name} is incomplete: {counted(numbered, 'chunk')}; gather was stopped in it")
        _check_set(name, files, known, findings, progress)
        if complete is not None:
            first = complete.chunks[0]
            with findings.checking(CHUNKS, first):
                check_holdout(complete, read_header(first))
    progress.finish()
    for _, path in list_priorities(directory):
        with findings.checking(OTHERS, path):
            read_priorities(path)
            findings.count(OTHERS, "priority list")


def _check_set(
    name: layout.SetName, files: list[Path], known: KnownGames, findings: Findings, progress: Progress
) -> None:
    numbers: dict[str, int] = {}  # of unknown shards
    origins: dict[bool, list[NDArray[np.uint64]]] = {True: [], False: []}  # True: of the hold-out
    kind: tuple[str, ColumnTypes] | None = None  # of the first readable file; all others must have the same
    for path in files:
        with findings.checking(CHUNKS, path):
            kind = kind or _kind(path)
            chunk = read_chunk(path, *kind)
            parsed, header = layout.parse_chunk_name(path.name), chunk.header
            assert parsed is not None
            found = (header.set_id, header.index, header.num_chunks if parsed.count else 0)
            if found != (str(name), parsed.index, parsed.count):
                text = f"it says that it is chunk {header.index} of {header.num_chunks} of set {header.set_id}"
                findings.problem(CHUNKS, path, f"{text}; wanted what its name says; was it renamed? rename it back")
            origins[parsed.index < 0].append(_origins(path, chunk, known, numbers))
            findings.count(CHUNKS, "chunk")
            findings.count(CHUNKS, "example", chunk.num_examples)
        progress.advance()
    held_out, trained = (np.concatenate([np.zeros(0, np.uint64), *origins[side]]) for side in (True, False))
    if shared := len(np.intersect1d(held_out, trained)):
        text = f"{counted(shared, 'game')} of the hold-out {'is' if shared == 1 else 'are'} in its chunks, too"
        findings.problem(
            CHUNKS, f"set {name}", f"{text}; wanted games apart; remove the set's files and run gather again"
        )


def _origins(path: Path, chunk: Chunk, known: KnownGames, numbers: dict[str, int]) -> NDArray[np.uint64]:
    """The ids of the games that a chunk's examples come from; instead of an unknown id, shard number · 2^32 + game.

    numbers: of unknown shards by name; new ones are added.
    Raises FileError for an example that its shard can't have given.
    """
    shard, game, ply = (chunk.columns[name] for name in ("shard", "game", "ply"))
    origins = np.zeros(len(shard), np.uint64)
    for local, name in enumerate(chunk.shards):
        here = shard == local
        games, plies = game[here], ply[here]
        if name not in known.shards:
            number = np.uint64(numbers.setdefault(name, len(numbers)))
            origins[here] = (number << np.uint64(32)) | games.astype(np.uint64)
            continue
        ids, lengths = known.shards[name]
        wanted = "wanted the games it was made from; run gather again"
        if len(games) and int(games.max()) >= len(ids):
            found = f"an example of game {int(games.max())} of {name}, which has {counted(len(ids), 'game')}"
            raise FileError(path, f"{found}; {wanted}")
        if (late := plies >= lengths[games]).any():
            found = f"an example of game {int(games[late][0])} of {name} at a ply behind its end"
            raise FileError(path, f"{found}; {wanted}")
        origins[here] = ids[games]
    return np.unique(origins)


def _kind(path: Path) -> tuple[str, ColumnTypes]:
    """The game of a chunk, and its method's columns. Raises FileError."""
    header = read_header(path)
    try:
        game = recorded_game(header.game)
        return game.spec, method_named(header.method).columns(game)
    except UsageError as error:
        raise FileError(path, f"{error}; wanted what this program knows") from error
