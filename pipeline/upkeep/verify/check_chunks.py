"""Sets of chunks: files are intact and belong to their set, examples come from existing games, hold-outs are apart.

An incomplete set is no problem: gather was stopped and will finish it. If the shards that a set was made from are gone,
games are compared by name only. One set is in memory at a time, eight bytes per example.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import FileError, UsageError
from pipeline.games.specs import recorded_game
from pipeline.methods.named import method_named
from pipeline.phrases import counted
from pipeline.progress import Progress
from pipeline.run import layout
from pipeline.run.chunks import Chunk, ColumnTypes, check_holdout, complete_set, list_sets, read_chunk, read_header
from pipeline.run.priorities import list_priorities, read_priorities
from pipeline.upkeep.verify.check_games import KnownGames
from pipeline.upkeep.verify.findings import CHUNKS, OTHERS, Findings


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
