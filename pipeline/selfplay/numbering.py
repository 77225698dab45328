"""Which games a run of self-play plays: the lowest numbers that its worker hasn't played in this generation yet.

A worker numbers its games: 0, 1, 2, … in the folder of all games, over all runs and generations. With one seed, number
and worker make a game, so no game is played twice, and a run that is killed and started again plays what is missing:

- A generation's first run begins where the worker's last run was to end, whether it came so far or not.
- A later one of that generation plays the numbers that are missing from there on, then goes on.

Doesn't look at other workers: their games are others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, count, groupby, islice
from pathlib import Path

import numpy as np

from pipeline.errors import FileError
from pipeline.run.order import newest_files
from pipeline.run.shards import MOST_NUMBER, RunNumbers, ShardMeta, meta_of


@dataclass(frozen=True)
class Numbering:
    """The numbers of one run.

    holes      those that are missing before `behind`, from which on all are
    continues  the newest shard of the run that this one goes on with; None: it goes on with none
    """

    run: RunNumbers
    wanted: int
    holes: tuple[range, ...]
    behind: int
    continues: ShardMeta | None

    def of_thread(self, thread: int, num_threads: int) -> Iterator[int]:
        """Every num_threads-th number, in order."""
        return islice(chain(*self.holes, count(self.behind)), thread, self.wanted, num_threads)


def numbering(
    directory: Path, worker: str, generation: int, wanted: int, on_damage: Callable[[FileError], None]
) -> Numbering:
    """For a run that begins in this generation and is to play so many games.

    Opens the sidecars that the worker has in the newest generation that it played in. on_damage: as in newest_shards;
    the games of such a shard are taken for missing.
    Raises FileError if numbers are so large that a run can't go on behind them: nobody plays so many games.
    """
    metas = _newest(directory, worker, on_damage)
    end = max((meta.run.until for meta in metas), default=0)
    of_this = [meta for meta in metas if meta.run.since == generation]
    holes: tuple[range, ...] = ()
    first = behind = end
    if of_this:
        first = min(meta.run.first for meta in of_this)
        played = np.unique(np.concatenate([[first - 1], *(meta.numbers for meta in of_this)]))
        ends = np.flatnonzero(np.diff(played) > 1).tolist()
        holes = tuple(range(int(played[at]) + 1, int(played[at + 1])) for at in ends)
        behind = int(played[-1]) + 1
    until = max(end, behind + wanted - sum(map(len, holes)))
    if until > MOST_NUMBER:
        raise FileError(metas[0].path, f"numbers of games up to {end}; wanted at most {MOST_NUMBER}; remove this shard")
    return Numbering(RunNumbers(generation, first, until), wanted, holes, behind, of_this[0] if of_this else None)


def _newest(directory: Path, worker: str, on_damage: Callable[[FileError], None]) -> list[ShardMeta]:
    for _, files in groupby(newest_files(directory, worker), key=lambda file: file.generation):
        metas = [meta for file in files if (meta := meta_of(file, directory, on_damage))]
        if metas:
            return metas
    return []
