"""The config of ``selfplay``."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from pipeline.matches.options import Runner
from pipeline.methods.alphazero.options import TreeActorOptions
from pipeline.methods.options import TimeShare
from pipeline.networks.options import Backend
from pipeline.options import Options, composed
from pipeline.run import layout
from pipeline.run.layout import DEFAULT_WORKER
from pipeline.tracking.options import TrackingOptions


class OpponentOptions(Options):
    """The model's opponents: see opponents.py."""

    panel = "Opponents"

    opponents: str = Field(
        "mirror=1",
        description="The model's opponents and their weights, e.g. 'random=5,previous=30,mirror=65'. mirror: the model "
        "itself; previous: the champion before it; random, heuristic; pool:MODE with MODE uniform, champion, "
        "lagged=FROM-TO, mirror, fixed=NAME, top-k=K, nearest[=ELO], match-quality[=TEMPERATURE], ts-dist[=POINTS] or "
        "exploration; in some games KIND:ARGUMENT, a player behind an API. An opponent's moves are recorded; "
        "whether they are learned is up to the method.",
        json_schema_extra={"scheduled": True},
    )
    pool: Path = Field(layout.POOL_FILE, description="The pool of opponents that pool:MODE chooses from.")


class VarietyOptions(Options):
    """The boards of models that play all boards: see variety.py."""

    panel = "Boards"

    boards: str = Field(
        "",
        description="For a model of all boards: sizes and their shares of the games, e.g. '7=1,9=4,13=2'; empty: only "
        "its own board.",
        json_schema_extra={"scheduled": True},
    )
    komi_spread: float = Field(
        0.0,
        ge=0,
        le=15,
        description="For a model that sees komi: each game's komi differs from the usual one at random, with this "
        "standard deviation in points, by at most 15.",
    )
    fair_komi_fraction: float = Field(
        0.0,
        ge=0,
        le=1,
        description="For a model that sees komi: the share of games that have, instead of the usual komi, about what "
        "would have made the newest games on their board even, at most 30 points from the usual one.",
    )


class ThreadOptions(Options):
    """How this machine plays the games."""

    panel = "Threads and workers"

    threads: int = Field(
        0, ge=0, description="Threads that play; 0 = one per core. ray: threads and CPUs of each actor; 0 = 1."
    )
    workers: int = Field(
        0,
        ge=0,
        description="Processes among which the threads are divided; 0 = this one. Python runs one thread of a process "
        "at a time, so one process keeps some six cores busy.",
    )
    runner: Runner = "local"
    parallel_games: int = Field(
        256, ge=1, description="Games that are played at once and share batches; ray: in each actor."
    )
    backend: Backend = "auto"


class SharingOptions(Options):
    """Self-play beside other commands and workers: see background.py and coordination.py."""

    panel = "Beside other commands and workers"

    worker: str = Field(
        DEFAULT_WORKER,
        pattern=r"^[A-Za-z0-9_-]+$",
        description="Name of this worker, and of its folder; with one --seed each plays other games.",
    )
    background: bool = Field(
        False,
        description="Play until stopped, with each generation's settings, at the lowest priority, so that other "
        "commands aren't slowed. Ends with the process that started it.",
    )
    wait: bool = Field(
        False,
        description="Play nothing: wait until another process with this worker's name has played the missing games.",
    )
    max_lead: int = Field(
        0,
        ge=0,
        description="Play nothing, and exit with 75, while more positions than this were played since the newest model "
        "was trained; 0 = no limit.",
    )
    commit_seconds: float = Field(1.0, ge=0, description="Seconds between commits of finished games; 0 = commit each.")


@composed("selfplay")
class SelfplayConfig(
    ThreadOptions, SharingOptions, OpponentOptions, VarietyOptions, TreeActorOptions, TrackingOptions
):
    """Let a model play games against itself and record them.

    Finished games are written about once a second, so a kill loses only the games still being played.

    \b
    Reads:   a model directory (--network)
    Writes:  data/selfplay/MODEL/WORKER/*.gz, each with a .meta file beside it that commits it; tracked numbers in
             data/logs/
    Exit:    0 played, or nothing left to play with --top-up, 1 failed, 2 wrong usage,
             75 another process plays as this worker, --max-lead is reached, or with --wait nobody plays
    Example: python main.py selfplay --games 100 --readouts 32
    """

    leading = ("network", "games", "readouts")

    network: Path = Field(layout.CHAMPION_LINK, description="Directory of the model that plays.")
    games: int = Field(1, ge=1, description="Games to play.")
    top_up: bool = Field(
        False, description="Play only the missing games: those played since the newest model was trained count."
    )
    output_dir: Path = Field(layout.GAMES, description="Where games are written: $MODEL/$WORKER/*.gz, .meta.")
    seed: int | None = Field(None, ge=0, description="Seed of all randomness. [default: a fresh one]")
    time_share: TimeShare = None
    verbose: int = Field(
        1,
        ge=0,
        description="0 warnings and a short summary, 1 progress too, 2 also a line per game and the whole summary, "
        "3 also boards.",
    )
