"""The options of learning from tree searches."""

from __future__ import annotations

from pydantic import Field

from pipeline.methods.options import GameOptions, ResignationOptions, ValueLossOptions
from pipeline.options import Options
from pipeline.search.options import SearchOptions


class TreeSelfplayOptions(Options):
    """How self-play with a tree search opens games, spends readouts and ends games."""

    panel = "Openings, cheap searches and ends"
    of_methods = True

    temperature_plies: int = Field(16, ge=0, description="Opening plies played with temperature 1; greedy afterwards.")
    random_plies: int = Field(
        0,
        ge=0,
        description="Each game begins with up to this many uniformly random moves, which are no policy targets.",
    )
    full_search_fraction: float = Field(
        1.0, gt=0, le=1, description="Share of moves searched in full; only these are policy targets (KataGo: 0.25)."
    )
    cheap_readouts: int = Field(0, ge=0, description="Simulations of the other moves, which have no noise.")
    decided_value: float = Field(
        1.0,
        gt=0,
        le=1,
        description="A game is decided while one side's value has been at least this at the last two moves of each "
        "player; moves then get few readouts and are no policy targets (KataGo: 0.9). 1 = never.",
    )
    decided_readouts: int = Field(4, ge=1, description="Simulations per move in a decided game.")
    end_settled: bool = Field(
        False, description="End games in which nothing can change any more, where the rules can tell."
    )
    pass_after: float = Field(
        0.0,
        ge=0,
        le=2,
        description="Moves per point of the board before the learner may pass, also within the search, e.g. 0.75; "
        "0 = no limit.",
    )
    opponents_teach: bool = Field(
        False,
        description="Moves of opponents that don't learn, such as heuristic, are policy targets, except those of "
        "random; if the model sees its opponent, all always are.",
        json_schema_extra={"scheduled": True},
    )


class TreeActorOptions(TreeSelfplayOptions, ResignationOptions, SearchOptions, GameOptions):
    """All options of an actor with a tree search."""

    def readouts_of_searches(self) -> list[int]:
        """The readouts of every kind of search that its games have."""
        cheap = [self.cheap_readouts] if self.full_search_fraction < 1 and self.cheap_readouts else []
        return [self.readouts, *cheap, *([self.decided_readouts] if self.decided_value < 1 else [])]


class SearchTargetOptions(Options):
    """What is learned from recorded searches."""

    panel = "Learning targets"
    of_methods = True

    surprise_weight: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Share of the samples distributed by how much the search surprised the network (KataGo: 0.5). "
        "Needs a method that searches.",
    )
    searched_only: bool = Field(
        False,
        description="Sample only positions searched in full, the policy targets (as KataGo). Needs a method that "
        "searches.",
    )


class LossOptions(ValueLossOptions):
    """The weights of the loss's terms."""

    panel = "Loss"
    of_methods = True

    ownership_weight: float = Field(0.3, ge=0, description="Weight of the ownership loss.")
    score_weight: float = Field(0.05, ge=0, description="Weight of the score loss.")
    reply_weight: float = Field(0.0, ge=0, description="Weight of the loss for the opponent's reply (KataGo: 0.15).")
    soft_policy_weight: float = Field(0.0, ge=0, description="Weight of the loss for the softened policy (KataGo: 8).")
    soft_policy_temperature: float = Field(4.0, ge=1, description="Temperature of the softened policy.")
