"""The configs of ``verify``, ``compact`` and ``prune``."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from pipeline.options import Options


class VerifyConfig(Options):
    """Check everything that is promised of a run's files.

    Every sidecar has its shard, every game is legal and ended as recorded, none stands twice; counts and checksums are
    right; no game of a hold-out is in its chunks; models are readable; best_model is the last promotion, and every
    promotion is decided again from the games of its match; nothing of killed processes is left over. Reads every file
    once, which takes long after months: --newest 2500000 checks the newest positions and what belongs to them. --repair
    removes what is left over, and nothing that counts.

    \b
    Reads:   data/ and saved_models/ of the run
    Writes:  nothing; with --repair it removes what killed processes left behind
    Exit:    0 all is well, 1 problems, each in a line, or no run in this folder, 2 wrong usage
    Example: python main.py verify runs/go9
    """

    directory: Path = Field(
        Path("."), description="Folder of the run, with data/ and saved_models/.", json_schema_extra={"argument": True}
    )
    repair: bool = Field(
        False,
        description="Remove what killed processes left behind, and nothing that counts: temporary files, checkpoints "
        "of finished trainings, shards a day old that were never committed, unreadable ratings.",
    )
    newest: int | None = Field(
        None,
        ge=1,
        description="Check no more games than have this many positions, the newest, and the models and matches of "
        "their generations: as long as a window stays the same, so does what it takes [default: all].",
    )


class CompactConfig(Options):
    """Pack the games of old generations: a few large files instead of very many small ones.

    Shards of all generations but the newest go into packs of 64 MiB, a worker's in each, in order. Every shard keeps
    its name, its bytes and its place in the order, so windows, chunks, counts and reports stay exactly as they are, and
    each can still be shown by its name. Runs beside self-play, gather and all other commands, also on other machines;
    they see every game once. A kill at any moment loses nothing, and the same command goes on.

    \b
    Reads:   data/selfplay/*/*/*.gz with their .meta files
    Writes:  packs there, and removes the files that they replace
    Exit:    0 packed, or nothing to pack, 1 failed, 2 wrong usage, 75 another process packs or prunes these games
    Example: python main.py compact runs/go9
    """

    directory: Path = Field(
        Path("."), description="Folder of the run, with data/ and saved_models/.", json_schema_extra={"argument": True}
    )


class PruneConfig(Options):
    """List what no window, training or report can need any more; with --apply, remove it.

    Games: the newest positions stay, as many as the largest window of any set of chunks or of the newest 100 models may
    hold, and at least 2,500,000; so do the two newest generations and what no gather has counted. Of each older
    generation a sample stays for reports, and every total stays what it was. A preset with a larger window, or one that
    grows by a schedule, may want games that are gone: --keep-positions. Chunks: the newest complete set stays, and all
    as long as a training has begun. Further: checkpoints of trainings that have ended or that a newer model has
    overtaken, temporary files of killed processes.

    Models, matches, ratings, the pool and promotions are never removed. Runs beside all other commands; a kill at any
    moment leaves a run that the same command goes on to prune.

    \b
    Reads:   data/ and saved_models/ of the run
    Writes:  nothing; with --apply data/selfplay/pruned.json, packs of the games that stay, and it removes what it lists
    Exit:    0 done, 1 failed, 2 wrong usage, 75 another process packs or prunes these games
    Example: python main.py prune runs/go9
    """

    directory: Path = Field(
        Path("."), description="Folder of the run, with data/ and saved_models/.", json_schema_extra={"argument": True}
    )
    apply: bool = Field(False, description="Remove it; without this nothing is removed, only listed.")
    keep_positions: int | None = Field(
        None,
        ge=0,
        description="Newest positions of self-play that stay [default: as many as the largest window of any set of "
        "chunks here or of the newest models may hold, and at least as many as gather's].",
    )
