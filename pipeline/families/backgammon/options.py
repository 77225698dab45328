"""The options of method ``td``."""

from __future__ import annotations

from pydantic import Field

from pipeline.options import Options


class TdPlayerOptions(Options):
    """How a model of td chooses moves."""

    panel = "Temporal differences (method td)"
    of_methods = True

    temperature: float = Field(
        0.0,
        ge=0,
        description="Moves are drawn in proportion to exp(value / temperature); 0 = the best one.",
    )
    static_weight: float = Field(0.0, ge=0, description="1 ply: weight of the network's own value in a move's score.")
    replies_weight: float = Field(1.0, ge=0, description="1 ply: weight of the replies' mean value in it.")
    replies_counted: int = Field(1, ge=1, description="1 ply: best replies to each throw in that mean; 1 = expectimax.")


class TdSelfplayOptions(Options):
    """What self-play records."""

    panel = "Temporal differences (method td)"
    of_methods = True

    value_plies: int = Field(
        0,
        ge=0,
        le=1,
        description="1 records what positions are worth on average over all throws, instead of after the throw "
        "that came: far less noise to learn from, twenty times the work.",
    )


class TdGatherOptions(Options):
    """Rewards beside the result."""

    panel = "Temporal differences (method td)"
    of_methods = True

    closeout_reward: float = Field(
        0.0,
        ge=0,
        description="Points for a player's first close-out in a game (six points made, the opponent on the bar).",
    )
    prime_reward: float = Field(0.0, ge=0, description="The same for the first prime of five points.")
