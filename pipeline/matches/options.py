"""The options of all commands that play matches."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from pipeline.networks.options import Backend
from pipeline.options import Options
from pipeline.search.options import PlaySearchOptions
from pipeline.workers.options import Runner


class WorkerOptions(Options):
    """Who plays the games of a match: see parallel_games.py."""

    panel = "Threads, workers and engines"

    parallel_games: int = Field(256, ge=1, description="Games that are played at once and share batches.")
    threads: int = Field(
        0, ge=0, description="Threads that play; 0 = one per core. ray: threads and CPUs of each actor; 0 = 1."
    )
    runner: Runner = "local"
    workers: int = Field(
        0, ge=0, description="Processes that play; 0 = this one. A worker that dies or hangs loses only its own games."
    )
    hang_seconds: float = Field(120.0, gt=0, description="A worker that makes no progress for this long is replaced.")
    engine_seconds: float = Field(60.0, gt=0, description="An engine that thinks longer than this has failed.")
    allow_engines: bool = Field(
        False, description="Run engines (KIND:COMMAND) that files name: members of a pool, settings of a preset."
    )


class MatchOptions(WorkerOptions, PlaySearchOptions):
    """How games between players are played."""

    game: str | None = Field(None, description="Game spec, needed if no player is a model.")
    readouts: int = Field(800, ge=0, description="Simulations per move of each model given without @READOUTS.")
    opening_plies: int = Field(
        6,
        ge=0,
        description="Plies of each opening; some are random, the others sampled from the players' policies. Games with "
        "dice have no openings unless this is given.",
    )
    openings: Path | None = Field(
        None,
        description="Take openings from this file instead, e.g. benchmarks/openings/go9.json: those that models sample "
        "favour models over engines. Each --seed begins 50 openings further on.",
    )
    backend: Backend = "auto"
    seed: int = Field(0, ge=0, description="Seed of openings, random players and noise.")
