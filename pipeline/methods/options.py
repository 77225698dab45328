"""Options of several commands that methods read, whichever method it is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from pipeline.options import Options
from pipeline.run import layout

TimeShare = Annotated[
    float | None,
    Field(ge=0, le=1, description="Share of the run's time that has passed, 0 to 1, for schedules by until_share."),
]


class FirstModelOptions(Options):
    """What a first model is made from: see Method.first_model."""

    game: str = Field(
        "go:9",
        description="Game spec: go:9, go:9,komi=7, gomoku:15, gomoku:19,capture, connect4, tictactoe; docs/ lists all.",
    )
    network_size: str = Field(
        "b2c32",
        description="Blocks and channels of the network, e.g. b2c32, b4c64, b6c96; hidden units, e.g. h80t.",
    )
    new_model: Path = Field(
        layout.SAVED_MODELS / "000000-init", description="Directory to create; an existing one is never overwritten."
    )
    original_model: Path | None = Field(
        None,
        description="Begin with the weights of this model instead of random ones, e.g. of a smaller board; its method, "
        "size and value head are kept.",
    )
    method: str = Field(
        "alphazero",
        description="How it learns: alphazero; td, from later positions, for games with dice; reinforce, or a2c with a "
        "critic, for text games; or a method of an installed package.",
    )
    value_head: str = Field(
        "scalar",
        pattern="^(scalar|wdl|points)$",
        description="How the value is learned: scalar; wdl for win, draw, loss; scalar, or points for five chances "
        "of winning and losing 1, 2 or 3 points.",
    )
    seed: int = Field(0, ge=0, description="Seed of the random weights.")


class GrowthOptions(Options):
    """What a training starts with: see Method.grown."""

    network_size: str | None = Field(
        None,
        pattern=r"^b\d{1,4}c\d{1,6}$",
        description="Grow the network to this size first, e.g. b4c64, without changing its outputs "
        "[default: the original's size].",
        json_schema_extra={"scheduled": True},
    )
    seed: int = Field(0, ge=0, description="Seed of the order of examples and of their symmetries.")
    time_share: TimeShare = None


class GameOptions(Options):
    """How self-play's games are played, whichever method plays them."""

    readouts: int = Field(0, ge=0, description="Simulations per move; 0 plays the raw policy.")


class ResignationOptions(Options):
    """When self-play gives games up: see methods/resignation.py."""

    panel = "Resignation"

    resign_threshold: float = Field(
        -1.0, ge=-1, le=0, description="Resign when the mover's value is below this at two moves in a row; -1 = never."
    )
    resign_false_rate: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="Calibrate the threshold on games that never resign: with 95 % confidence, at most this share of "
        "resignations would have been wrong. If no threshold is that safe, nobody resigns. 0 = off.",
    )
    resign_lowest: float = Field(-0.99, ge=-1, le=0, description="Lower bound of the calibrated threshold.")
    resign_highest: float = Field(-0.8, ge=-1, le=0, description="Upper bound of the calibrated threshold.")
    no_resign_fraction: float = Field(
        0.1, ge=0, le=1, description="Share of games that never resign and measure false resignations."
    )


class DiscountOptions(Options):
    """How much later values count."""

    panel = "Learning targets"
    of_methods = True

    discount: float = Field(
        1.0, gt=0, le=1, description="Gamma, by which a later value or reward counts less (td, reinforce, a2c)."
    )
