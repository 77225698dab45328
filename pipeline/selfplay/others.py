"""What others play into the same folder: one process as each worker, one game, and how many are still missing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import takewhile
from pathlib import Path

from pipeline.config import SelfplayConfig
from pipeline.errors import FileError, NotYet, UsageError
from pipeline.games.registry import are_related
from pipeline.progress import Progress
from pipeline.storage import atomic, layout, packs
from pipeline.storage.shards import ShardMeta, newest_shards

LOOK_SECONDS = 0.5  # between two looks at what others have played
PATIENCE_SECONDS = 20.0  # that a process that was just started may need until it plays


@contextmanager
def alone(config: SelfplayConfig, patience: float = 0.0) -> Iterator[None]:
    """As the only one who plays under this worker's name. Raises NotYet if another process does for so many seconds,
    UsageError for the name whose lock is that of compact and prune.
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
    """Raises FileError if the newest shard there is of another game: its window would mix two.

    Sidecars that name games that this program doesn't know are passed over: gather names them. If all do, FileError.
    """
    unknown: FileError | None = None
    for newest in newest_shards(output_dir, lambda error: None):
        try:
            if are_related(newest.game, game_spec):
                return
        except UsageError as error:
            path = layout.meta_path(newest.path)
            unknown = unknown or FileError(path, f"{error}; wanted games that this program knows")
            continue
        raise FileError(
            output_dir,
            f"holds games of {newest.game} ({newest.id}), these would be of {game_spec}; "
            "wanted a folder for each game, e.g. another --output-dir",
        )
    if unknown is not None:
        raise unknown


def games_missing(config: SelfplayConfig, generation: int, on_damage: Callable[[FileError], None]) -> int:
    """How many of config.games nobody has played in this generation yet. Sidecars that can't be read count for
    nothing; on_damage is told.
    """
    return max(0, config.games - sum(meta.games for meta in _of_generation(config, generation, on_damage)))


def wait_for_games(
    config: SelfplayConfig, generation: int, on_damage: Callable[[FileError], None], progress: Progress
) -> None:
    """Return when none is missing. Raises NotYet if nobody plays as this worker for PATIENCE_SECONDS."""
    missing = games_missing(config, generation, on_damage)
    progress.start("waiting", missing, "games")
    last_seen = time.monotonic()
    try:
        while missing:
            time.sleep(LOOK_SECONDS)
            now = games_missing(config, generation, on_damage)
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


def check_lead(config: SelfplayConfig, generation: int, on_damage: Callable[[FileError], None]) -> None:
    """Raises NotYet if train is behind: more than max_lead positions were played since the newest model was made."""
    if not config.max_lead:
        return
    played = sum(meta.positions for meta in _of_generation(config, generation, on_damage))
    if played > config.max_lead:
        raise NotYet(
            f"{config.output_dir}: {played:,} positions since model {generation:06d} was made, wanted at most "
            f"{config.max_lead:,}; run `python main.py gather` and `train` first",
            missing=played - config.max_lead,
        )


def _of_generation(
    config: SelfplayConfig, generation: int, on_damage: Callable[[FileError], None]
) -> Iterator[ShardMeta]:
    """Whatever anybody has played in this generation or a later one."""

    def belongs(meta: ShardMeta) -> bool:
        return meta.generation is not None and meta.generation >= generation

    return takewhile(belongs, newest_shards(config.output_dir, on_damage))
