"""Options of commands that methods of every kind read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from pipeline.extensions import GAMES, METHODS, bundled
from pipeline.options import Options
from pipeline.run import layout

TimeShare = Annotated[
    float | None,
    Field(ge=0, le=1, description="Elapsed share of the run's time, 0 to 1, for schedules by until_share."),
]


class FirstModelOptions(Options):
    """Options of a first model: see Method.first_model."""

    game: str = Field(
        "go:9",
        description="Game spec, e.g. go:9 or go:9,komi=7; docs/games.md lists all. Games: "
        + ", ".join(sorted(bundled(GAMES)))
        + ".",
    )
    method: str = Field(
        "alphazero",
        description=f"How it learns: {', '.join(sorted(bundled(METHODS)))}, or a method of an installed package; "
        "docs/games.md says which is for which games.",
    )
    network_size: str = Field(
        "b2c32",
        description="As the method has it: blocks and channels, e.g. b2c32; hidden units, e.g. h80, or h80t with "
        "tactical features; an adapter's rank, e.g. r32, or l2d64r16 with a new tiny base model.",
    )
    value_head: str = Field(
        "scalar",
        pattern="^(scalar|wdl|points)$",
        description="What the value head predicts: scalar; wdl: chances of win, draw and loss; points (td): "
        "five chances of winning and losing 1, 2 or 3 points.",
    )
    original_model: Path | None = Field(
        None,
        description="Start from this model's weights, e.g. of a smaller board; keeps its method, size and value head.",
    )
    new_model: Path = Field(
        layout.SAVED_MODELS / "000000-init", description="Directory to create; an existing one is never overwritten."
    )
    seed: int = Field(0, ge=0, description="Seed of the random weights.")


class GrowthOptions(Options):
    """Options of the network that training starts with: see Method.grown."""

    network_size: str | None = Field(
        None,
        pattern=r"^b\d{1,4}c\d{1,6}$",
        description="Grow the network to this size first, e.g. b4c64, without changing its outputs. "
        "[default: the original's size]",
        json_schema_extra={"scheduled": True},
    )
    seed: int = Field(0, ge=0, description="Seed of the order of examples and of their symmetries.")
    time_share: TimeShare = None


class GameOptions(Options):
    """How self-play games are played, by any method."""

    readouts: int = Field(0, ge=0, description="Simulations per move; 0 plays the raw policy.")


class ResignationOptions(Options):
    """When self-play resigns games: see methods/resignation.py."""

    panel = "Resignation"
    of_methods = True

    resign_threshold: float = Field(
        -1.0, ge=-1, le=0, description="Resign when a player's value is below this at two moves in a row; -1 = never."
    )
    resign_false_rate: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="Calibrate the threshold on games that never resign so that, with 95 % confidence, at most this "
        "share of resignations is wrong. If no threshold is that safe, nobody resigns. 0 = off.",
    )
    resign_lowest: float = Field(-0.99, ge=-1, le=0, description="Lower bound of the calibrated threshold.")
    resign_highest: float = Field(-0.8, ge=-1, le=0, description="Upper bound of the calibrated threshold.")
    no_resign_fraction: float = Field(
        0.1, ge=0, le=1, description="Share of games that never resign, which measure wrong resignations."
    )


class DiscountOptions(Options):
    """How much later values and rewards count."""

    panel = "Learning targets"
    of_methods = True

    discount: float = Field(
        1.0,
        gt=0,
        le=1,
        description="Gamma, by which a later value or reward counts less, for methods that learn from them.",
    )


class LambdaOptions(Options):
    """How much later positions count in the value target."""

    panel = "Learning targets"
    of_methods = True

    td_lambda: float = Field(
        1.0,
        ge=0,
        le=1,
        description="TD(lambda): the value target is lambda times the next position's target plus 1 - lambda times the "
        "search's value; 1 = the game's result alone. Of all boards, on the home board; nearer to 1 on larger ones.",
    )


class ValueLossOptions(Options):
    """The weight of the value loss, for methods without the other terms of AlphaZero's."""

    panel = "Loss"
    of_methods = True

    value_weight: float = Field(1.0, ge=0, description="Weight of the value loss.")
