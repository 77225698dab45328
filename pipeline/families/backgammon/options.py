"""The options of method ``td``."""

from __future__ import annotations

from pydantic import Field

from pipeline.options import Options


class TdPlayerOptions(Options):
    """How a td model chooses moves."""

    panel = "Temporal differences (method td)"
    of_methods = True

    temperature: float = Field(
        0.0,
        ge=0,
        description="Sample moves with probability proportional to exp(value / temperature); 0 = play the best one.",
    )
    static_weight: float = Field(
        0.0, ge=0, description="Matches at 1 ply: weight of the network's own value in a move's score."
    )
    replies_weight: float = Field(
        1.0, ge=0, description="Matches at 1 ply: weight of the replies' mean value in a move's score."
    )
    replies_counted: int = Field(
        1, ge=1, description="Matches at 1 ply: number of best replies to each throw in that mean; 1 = expectimax."
    )


class TdSelfplayOptions(Options):
    """What self-play records."""

    panel = "Temporal differences (method td)"
    of_methods = True

    value_plies: int = Field(
        0,
        ge=0,
        le=1,
        description="0 records a position's value after the throw that came, 1 its mean value over all throws: "
        "far less noise in the targets, twenty times the work.",
    )


class TdGatherOptions(Options):
    """Rewards in addition to the result."""

    panel = "Temporal differences (method td)"
    of_methods = True

    closeout_reward: float = Field(
        0.0,
        ge=0,
        description="Points for a player's first close-out in a game (all six home points made, an opposing checker "
        "on the bar).",
    )
    prime_reward: float = Field(0.0, ge=0, description="Points for a player's first prime of five points in a game.")
