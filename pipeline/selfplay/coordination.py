"""What other processes play into the same folder: one process per worker's name, one game, and how many are missing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple

from pipeline.errors import FileError, NotYet, UsageError
from pipeline.games.specs import are_related
from pipeline.progress import Progress
from pipeline.run import atomic, layout, packs
from pipeline.run.order import ShardFile, files_of, newest_generations
from pipeline.run.shards import meta_of, newest_shards
from pipeline.selfplay.config import SelfplayConfig

LOOK_SECONDS = 0.5  # between two looks at what others have played
PATIENCE_SECONDS = 20.0  # that a process that was just started may need until it plays


@contextmanager
def alone(config: SelfplayConfig, patience: float = 0.0) -> Iterator[None]:
    """Hold the lock of this worker's name. Raises NotYet if another process holds it for `patience` seconds.

    Raises UsageError for the name whose lock belongs to compact and prune.
    """
    if config.worker == packs.LOCK:
        raise UsageError(
            f"selfplay --worker {packs.LOCK}: its lock is that of compact and prune; choose another name, e.g. w03"
        )
    deadline = time.monotonic() + patience
    with ExitStack() as held:
        while True:
            try:
                held.enter_context(atomic.file_lock(config.output_dir / config.worker, wait=False))
                break
            except atomic.Busy as error:
                if time.monotonic() >= deadline:
                    raise NotYet(
                        f"{config.output_dir}: another process plays as worker {config.worker}; wait until it is done, "
                        "or choose another --worker",
                        missing=1,
                    ) from error
            time.sleep(LOOK_SECONDS / 5)
        yield


def check_same_game(output_dir: Path, game_spec: str) -> None:
    """Raises FileError if the newest shard is of another game, as a window would mix the two.

    Skips sidecars of games that this program doesn't know, which gather reports. If all are, raises FileError.
    """
    unknown: FileError | None = None
    for newest in newest_shards(output_dir, lambda error: None):
        try:
            if are_related(newest.game, game_spec):
                return
        except UsageError as error:
            path = layout.meta_path(newest.path)
            unknown = unknown or FileError(path, str(error))
            continue
        raise FileError(
            output_dir,
            f"holds games of {newest.game} ({newest.id}), these would be of {game_spec}; "
            "wanted a folder for each game, e.g. another --output-dir",
        )
    if unknown is not None:
        raise unknown


class Totals(NamedTuple):
    games: int
    positions: int


class PlayedGames:
    """Counts all games in a folder, again and again. Each look opens only the new sidecars.

    Damaged sidecars count for nothing; each is warned of once.
    """

    def __init__(self, directory: Path, progress: Progress) -> None:
        self._directory = directory
        self._warn = cache(progress.warn)  # each text once
        self._known: dict[ShardFile, Totals] = {}

    def since(self, generation: int) -> Totals:
        """In this generation and later ones."""
        found: dict[ShardFile, Totals] = {}
        for number, folders in newest_generations(self._directory):
            if number < generation:
                break
            for file in files_of(self._directory, number, folders):
                if (totals := self._known.get(file) or self._read(file)) is not None:
                    found[file] = totals
        self._known = found
        return Totals(sum(one.games for one in found.values()), sum(one.positions for one in found.values()))

    def missing(self, config: SelfplayConfig, generation: int) -> int:
        """How many of config.games nobody has played in this generation yet."""
        return max(0, config.games - self.since(generation).games)

    def check_lead(self, config: SelfplayConfig, generation: int) -> None:
        """Raises NotYet if more than max_lead positions were played since the newest model was made.

        generation: that model's number.
        """
        if not config.max_lead:
            return
        lead = self.since(generation).positions
        if lead > config.max_lead:
            raise NotYet(
                f"{config.output_dir}: {lead:,} positions since model {generation:06d} was made, wanted at most "
                f"{config.max_lead:,}; run `python main.py gather` and `train` first",
                missing=lead - config.max_lead,
            )

    def on_damage(self, error: FileError) -> None:
        self._warn(f"not counted: {error}")

    def _read(self, file: ShardFile) -> Totals | None:
        meta = meta_of(file, self._directory, self.on_damage)
        return Totals(meta.games, meta.positions) if meta else None


def wait_for_games(config: SelfplayConfig, generation: int, progress: Progress) -> None:
    """Return when no game is missing. Raises NotYet if nobody plays as this worker for PATIENCE_SECONDS."""
    played = PlayedGames(config.output_dir, progress)
    missing = played.missing(config, generation)
    progress.start("waiting", missing, "games", at_once=min(config.parallel_games, missing) // 2)
    last_seen = time.monotonic()
    try:
        while missing:
            time.sleep(LOOK_SECONDS)
            now = played.missing(config, generation)
            progress.advance(missing - now)
            missing = now
            try:
                with alone(config):
                    pass
            except NotYet:
                last_seen = time.monotonic()
            if missing and time.monotonic() - last_seen > PATIENCE_SECONDS:
                raise NotYet(
                    f"{config.output_dir}: nobody plays as worker {config.worker}, and {missing} games are missing; "
                    "start `python main.py selfplay --background`, or leave --wait out",
                    missing=missing,
                )
    finally:
        progress.finish()
