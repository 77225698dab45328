"""The configs of ``verify``, ``compact`` and ``prune``."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from pipeline.options import Options
from pipeline.reports.config import RUN_FOLDER


class VerifyConfig(Options):
    """Check the integrity of a run's files.

    Every sidecar has its shard, every game is legal and ended as recorded, no game occurs twice, counts and checksums
    are right, no game of a hold-out is in its chunks, models are readable, best_model is the last promotion, the games
    of each promotion's match justify it, and killed processes left nothing behind. Reads every file once, which takes
    long for old runs: --newest 2500000 checks only the newest positions and what belongs to them. --repair removes
    leftovers, and nothing that counts. It also restores a link best_model that a copy tool lost.

    \b
    Reads:   data/ and saved_models/ of the run
    Writes:  nothing; with --repair it removes what killed processes left behind and restores best_model
    Exit:    0 no problems, 1 problems, one per line, or no run in this folder, 2 wrong usage
    Example: python main.py verify runs/go9
    """

    directory: Path = RUN_FOLDER
    repair: bool = Field(
        False,
        description="Remove leftovers of killed processes, and nothing that counts: temporary files, checkpoints of "
        "finished trainings, uncommitted shards older than a day, unreadable ratings. Point best_model to the last "
        "promotion again, if it was lost or isn't a link.",
    )
    newest: int | None = Field(
        None,
        ge=1,
        description="Check only the newest games with this many positions, and the models and matches of their "
        "generations. The time needed then doesn't grow with the run. [default: all]",
    )


class CompactConfig(Options):
    """Pack the games of old generations into a few large files.

    Shards of all generations but the newest go into packs of 64 MiB, separately for each worker. Every shard keeps its
    name, its bytes and its place in the order, so windows, chunks, counts and reports don't change, and each shard can
    still be shown by its name. Runs beside all other commands, also on other machines; they see every game exactly
    once. A kill loses nothing; run the same command again to continue.

    \b
    Reads:   data/selfplay/*/*/*.gz with their .meta files
    Writes:  packs there, and removes the files that they replace
    Exit:    0 packed, or nothing to pack, 1 failed, 2 wrong usage, 75 another process packs or prunes these games
    Example: python main.py compact runs/go9
    """

    directory: Path = RUN_FOLDER


class PruneConfig(Options):
    """List files that no window, training or report can need any more; with --apply, remove them.

    Games: the newest positions stay, as many as the largest window of any set of chunks or of the newest 100 models
    may hold, and at least 2,500,000. The two newest generations and games that no gather has counted also stay. Of
    each older generation, a sample stays for reports; all totals stay the same. If you plan a preset with a larger
    window, or one that grows by a schedule, set --keep-positions. Chunks: the newest complete set stays; all sets stay
    while a training is unfinished. Other files: checkpoints of trainings that have ended or that a newer model has
    superseded, and temporary files of killed processes.

    Models, matches, ratings, the pool and promotions are never removed. Runs beside all other commands. After a kill,
    run the same command again to continue.

    \b
    Reads:   data/ and saved_models/ of the run
    Writes:  nothing; with --apply data/selfplay/pruned.json and packs of the games that stay
    Exit:    0 done, 1 failed, 2 wrong usage, 75 another process packs or prunes these games
    Example: python main.py prune runs/go9
    """

    directory: Path = RUN_FOLDER
    apply: bool = Field(False, description="Remove the files instead of only listing them.")
    keep_positions: int | None = Field(
        None,
        ge=0,
        description="Number of newest self-play positions that stay. [default: as many as the largest window of any "
        "set of chunks or of the newest models may hold, and at least as many as gather's default window]",
    )
