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


class _Origins:
    """The games that the examples of one set come from, by side: True is the hold-out.

    numbers  of shards, by name
    games    as shard number · 2^32 + game
    ids      of games that are known
    """

    def __init__(self, known: KnownGames) -> None:
        self.known = known
        self.numbers: dict[str, int] = {}
        self.games: dict[bool, list[NDArray[np.uint64]]] = {True: [], False: []}
        self.ids: dict[bool, list[NDArray[np.uint64]]] = {True: [], False: []}

    def add(self, chunk: Chunk, is_holdout: bool) -> str:
        """Returns what is wrong with an origin; empty if nothing."""
        shard, game, ply = (chunk.columns[name] for name in ("shard", "game", "ply"))
        numbers = np.array([self.numbers.setdefault(name, len(self.numbers)) for name in chunk.shards], np.uint64)
        if len(shard):
            self.games[is_holdout].append(np.unique((numbers[shard] << np.uint64(32)) | game.astype(np.uint64)))
        for local, name in enumerate(chunk.shards):
            found = self.known.shards.get(name)
            if found is None:
                continue
            ids, lengths = found
            here = shard == local
            theirs = game[here]
            if len(theirs) and int(theirs.max()) >= len(ids):
                return f"an example of game {int(theirs.max())} of {name}, which has {counted(len(ids), 'game')}"
            late = ply[here] >= lengths[theirs]
            if late.any():
                return f"an example of game {int(theirs[late][0])} of {name} at a ply behind its end"
            self.ids[is_holdout].append(np.unique(ids[theirs]))
        return ""

    def on_both_sides(self) -> int:
        """The number of hold-out games that are also in chunks, by name or by id."""
        most = 0
        for side in (self.games, self.ids):
            held_out, trained = (np.concatenate([np.zeros(0, np.uint64), *side[key]]) for key in (True, False))
            most = max(most, len(np.intersect1d(held_out, trained)))
        return most


def _check_set(
    name: layout.SetName, files: list[Path], known: KnownGames, findings: Findings, progress: Progress
) -> None:
    origins = _Origins(known)
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
            problem = origins.add(chunk, parsed.index < 0)
            if problem:
                findings.problem(CHUNKS, path, f"{problem}; wanted the games it was made from; run gather again")
            findings.count(CHUNKS, "chunk")
            findings.count(CHUNKS, "example", chunk.num_examples)
        progress.advance()
    shared = origins.on_both_sides()
    if shared:
        findings.problem(
            CHUNKS,
            f"set {name}",
            f"{counted(shared, 'game')} of the hold-out {'is' if shared == 1 else 'are'} in its chunks, too; wanted "
            "games apart; remove the set's files and run gather again",
        )


def _kind(path: Path) -> tuple[str, ColumnTypes]:
    """The game of a chunk, and its method's columns. Raises FileError."""
    header = read_header(path)
    try:
        game = recorded_game(header.game)
        return game.spec, method_named(header.method).columns(game)
    except UsageError as error:
        raise FileError(path, f"{error}; wanted what this program knows") from error
