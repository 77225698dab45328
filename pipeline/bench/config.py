"""The config of ``bench``."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from pipeline.options import Options


class BenchConfig(Options):
    """Measure this machine: inference, self-play, gathering and training, with upper bounds.

    It measures methods that search a tree. Self-play is compared with the bare network on the same batches, training on
    chunks with training on one batch in memory. Gathering 200,000 positions and compiling take a minute or more,
    regardless of --seconds. `bench selfplay` and `bench train` measure one stage. `bench evaluate` compares a match
    played in batches with the same games played one after another.

    \b
    Reads:   --model, --preset
    Writes:  temporary files only
    Exit:    0 measured, 1 failed, 2 wrong usage
    Example: python main.py bench --game go:9 --network-size b2c32 --seconds 5
    """

    what: str = Field(
        "pipeline",
        pattern="^(pipeline|selfplay|train|evaluate)$",
        description="pipeline: selfplay, gather and train; selfplay or train: one of them; evaluate: a match in "
        "batches and one game after another.",
        json_schema_extra={"argument": True},
    )
    preset: str | None = Field(
        None, description="Play and train with this preset's settings; not with evaluate. [default: plain search]"
    )
    game: str | None = Field(None, description="Game spec, see init --help. [default: the preset's, else init's]")
    network_size: str | None = Field(
        None,
        description="Blocks and channels of the network, of random weights. [default: the preset's, else init's]",
    )
    model: Path | None = Field(
        None,
        description="Measure with this model, its game and its own games instead of --network-size and --game.",
    )
    boards: str | None = Field(
        None,
        description="For a model of all boards: play on these, see selfplay --boards. [default: the preset's]",
    )
    games: int | None = Field(
        None,
        ge=1,
        description="Games in parallel; with evaluate, games of the match. [default: 256; with evaluate 400]",
    )
    readouts: int | None = Field(None, ge=1, description="Simulations per move. [default: the preset's, else 64]")
    seconds: float = Field(
        10.0, gt=0, description="Seconds of each comparison, in alternating windows; not with evaluate."
    )
