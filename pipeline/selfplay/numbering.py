"""Which games a run of self-play plays: the lowest numbers that its worker hasn't played in this generation yet.

A worker numbers its games 0, 1, 2, … over all runs and generations in a folder of games. With one seed, the worker's
name and the number determine the game, so no game is played twice, and a run that was killed plays what is missing when
it is started again:

- A generation's first run begins where the worker's last run was to end, whether or not it got there.
- A later run of that generation plays the numbers that are missing from there on, then continues.
- A run of a generation that isn't the newest any more, because a model was deleted, plays new numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain, count, groupby, islice
from pathlib import Path

import numpy as np

from pipeline.errors import FileError
from pipeline.run.order import newest_files
from pipeline.run.shards import MOST_NUMBER, RunNumbers, ShardMeta, meta_of


@dataclass(frozen=True)
class Numbering:
    """The numbers of one run's games."""

    run: RunNumbers
    numbers: list[int]  # ascending
    continues: ShardMeta | None  # the newest shard of the run that this one continues; None if it continues none


def numbering(
    directory: Path, worker: str, generation: int, num_games: int, on_damage: Callable[[FileError], None]
) -> Numbering:
    """For a run of this many games that begins in this generation.

    Opens the worker's sidecars of the two newest generations that it played in. on_damage: as in newest_shards; the
    games of such a shard count as missing.
    Raises FileError if the numbers found exceed what any run can reach.
    """
    metas, newest = _newest(directory, worker, on_damage)
    end = max((meta.run.until for meta in metas), default=0)
    # Of an older generation than the newest, whose model was deleted, what is missing is left out.
    of_this = [meta for meta in metas if meta.run.since == generation >= newest]
    missing: list[range] = []  # before `next_new`
    first = next_new = end
    if of_this:
        first = min(meta.run.first for meta in of_this)
        played = np.unique(np.concatenate([[first - 1], *(meta.numbers for meta in metas)]))
        played = played[played >= first - 1]
        gaps = np.flatnonzero(np.diff(played) > 1).tolist()
        missing = [range(int(played[at]) + 1, int(played[at + 1])) for at in gaps]
        next_new = int(played[-1]) + 1
    until = max(end, next_new + num_games - sum(map(len, missing)))
    if until > MOST_NUMBER:
        raise FileError(metas[0].path, f"numbers of games up to {end}; wanted at most {MOST_NUMBER}; remove this shard")
    numbers = list(islice(chain(*missing, count(next_new)), num_games))
    return Numbering(RunNumbers(generation, first, until), numbers, of_this[0] if of_this else None)


def _newest(directory: Path, worker: str, on_damage: Callable[[FileError], None]) -> tuple[list[ShardMeta], int]:
    """The worker's shards of the two newest generations that have a readable one, newest first, and the newest of these
    generations; -1 without any. The one before is looked at, too: when a model was deleted, it may have been played on.
    """
    found: dict[int, list[ShardMeta]] = {}
    for number, files in groupby(newest_files(directory, worker), key=lambda file: file.generation):
        if metas := [meta for file in files if (meta := meta_of(file, directory, on_damage))]:
            found[number] = metas
        if len(found) == 2:
            break
    return [meta for metas in found.values() for meta in metas], max(found, default=-1)
