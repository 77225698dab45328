"""The options of learning from tree searches."""

from __future__ import annotations

from pydantic import Field

from pipeline.methods.options import GameOptions, ResignationOptions
from pipeline.options import Options
from pipeline.search.options import SearchOptions


class TreeSelfplayOptions(Options):
    """How self-play with a tree search varies and spends its searches."""

    panel = "Openings, cheap searches and ends"

    temperature_plies: int = Field(16, ge=0, description="Opening plies played with temperature 1; greedy afterwards.")
    random_plies: int = Field(
        0,
        ge=0,
        description="Each game begins with up to this many uniformly random moves, none of them a policy target.",
    )
    full_search_fraction: float = Field(
        1.0, gt=0, le=1, description="Share of moves searched in full; only those are policy targets (KataGo: 0.25)."
    )
    cheap_readouts: int = Field(0, ge=0, description="Simulations of the other moves, which have no noise.")
    decided_value: float = Field(
        1.0,
        gt=0,
        le=1,
        description="A game is decided as long as one side has been this sure of winning at the last two moves of "
        "each: then moves get few readouts and are no policy targets (KataGo: 0.9); 1 = never.",
    )
    decided_readouts: int = Field(4, ge=1, description="Simulations per move in a decided game.")
    end_settled: bool = Field(
        False, description="End games in which nothing can change any more, where the rules can tell."
    )
    pass_after: float = Field(
        0.0,
        ge=0,
        le=2,
        description="Moves per point of the board before the learner may pass, searching too, e.g. 0.75; 0 = no limit.",
    )


class TreeActorOptions(ResignationOptions, SearchOptions, TreeSelfplayOptions, GameOptions):
    """All that an actor with a tree search reads."""


class SearchTargetOptions(Options):
    """What is learned from recorded searches; for methods whose records keep them."""

    panel = "Learning targets"
    of_methods = True

    surprise_weight: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Share of the samples that goes to positions whose search surprised the network (KataGo: 0.5). "
        "Needs a method that searches.",
    )
    searched_only: bool = Field(
        False,
        description="Sample only positions whose search was a full one, the policy's targets (KataGo does); the others "
        "carried games on. Needs a method that searches.",
    )
    td_lambda: float = Field(
        1.0,
        ge=0,
        le=1,
        description="The value target is this times the next position's target, plus the rest times the search's own "
        "value; 1 = the game's result alone.",
    )


class LossOptions(Options):
    """The weights of the loss's parts."""

    panel = "Loss"

    value_weight: float = Field(1.0, ge=0, description="Weight of the value loss.")
    ownership_weight: float = Field(0.3, ge=0, description="Weight of the ownership loss.")
    score_weight: float = Field(0.05, ge=0, description="Weight of the score loss.")
    reply_weight: float = Field(0.0, ge=0, description="Weight of the loss for the opponent's reply (KataGo: 0.15).")
    soft_policy_weight: float = Field(0.0, ge=0, description="Weight of the loss for the softened policy (KataGo: 8).")
    soft_policy_temperature: float = Field(4.0, ge=1, description="Temperature of the softened policy.")
