"""Options of all commands that play matches."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from pipeline.networks.options import Backend
from pipeline.options import Options
from pipeline.search.options import PlaySearchOptions

Runner = Annotated[
    str,
    Field(
        pattern="^(local|ray)$",
        description="Where games are played: local, on this machine; ray, on the whole Ray cluster that RAY_ADDRESS "
        "names or that runs here; see docs/machines.md.",
    ),
]


class OpeningOptions(Options):
    """How games begin, and whether a model resigns."""

    panel = "Openings and resignation"

    opening_plies: int = Field(
        6,
        ge=0,
        description="Plies of each opening; some are random, the others sampled from the players' policies. Games with "
        "dice have no openings unless this is given.",
    )
    openings: Path | None = Field(
        None,
        description="Take openings from this file, e.g. benchmarks/openings/go9.json. Use one against engines, as "
        "openings sampled from models favour models. Each --seed begins 50 openings further on.",
    )
    resign_threshold: float = Field(
        -1.0,
        ge=-1,
        le=0,
        description="A model whose value is below this at two of its moves in a row resigns, which makes matches "
        "shorter; -1 = never.",
    )


class WorkerOptions(Options):
    """How this machine plays the games of a match."""

    panel = "Threads, workers and engines"

    threads: int = Field(
        0, ge=0, description="Threads that play; 0 = one per core. ray: threads and CPUs of each actor; 0 = 1."
    )
    workers: int = Field(
        0, ge=0, description="Processes that play; 0 = this one. A worker that dies or hangs loses only its own games."
    )
    runner: Runner = "local"
    parallel_games: int = Field(256, ge=1, description="Games played at once; they share batches.")
    backend: Backend = "auto"
    hang_seconds: float = Field(120.0, gt=0, description="Replace a worker that makes no progress for this long.")
    engine_seconds: float = Field(60.0, gt=0, description="Time limit for each move of an engine.")
    allow_engines: bool = Field(
        False, description="Run engines (KIND:COMMAND) that are named in files: in a pool or a preset."
    )


# Added to the seed, so that games differ from those that evaluate plays between the same players.
SEED_OF_WATCH, SEED_OF_TOURNAMENTS = 1_000_003, 2_000_003


class MatchOptions(OpeningOptions, WorkerOptions, PlaySearchOptions):
    """How games between players are played."""

    game: str | None = Field(None, description="Game spec; needed if no player is a model.")
    readouts: int = Field(
        800,
        ge=0,
        description="Simulations per move of each model given without @READOUTS; plies if its method searches no tree.",
    )
    seed: int = Field(0, ge=0, description="Seed of openings, random players and noise.")
