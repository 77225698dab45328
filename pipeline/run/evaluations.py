"""Evaluations by ``evaluate --watch``: ``data/evaluate/watch/000018-name.json``, one file per model.

The file is written twice. First with the *plan*: strategies, possible opponents and their ratings, numbers of games,
settings. So after a kill the evaluation continues as it was begun, even if the pool, the ratings or the options have
changed. Then with the results, which summarise the matches beside it. evaluate/watch.py knows what the fields mean.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, field_validator, model_validator

from pipeline.errors import UsageError
from pipeline.run import atomic, layout

FORMAT = "mugo-evaluation"
WANTED = "an evaluation; remove it and run `python main.py evaluate --watch` again: its matches are kept"

Number = Annotated[int, Field(ge=0, lt=2**31)]
StrategyName = Literal["single", "benchmark", "ladder", "tournament"]


class _Record(BaseModel, frozen=True, extra="forbid", allow_inf_nan=False):
    pass


class Opponent(_Record):
    """A possible opponent of the model, as known when the plan was made."""

    name: str = Field(min_length=1, description="As rated: a model's always with @READOUTS.")
    spec: str = Field(min_length=1, description="The player's spec string.")
    weights: str = Field("", description="SHA-256 of a model's weights.")
    games: int = Field(ge=2, lt=2**31, multiple_of=2, description="Of their match.")
    elo: float = Field(description="Updated after each match, from 1500 on, K 32.")
    rating: float | None = Field(description="Bradley-Terry's, in Elo; None: unrated.")


class Plan(_Record):
    """A strategy that was due. opponents: names in the order of play; of a ladder, by increasing rating."""

    strategy: StrategyName
    opponents: list[str]
    start: Number = Field(0, description="Index of the ladder's first opponent.")


class Counts(_Record):
    """Games that the model won, drew and lost."""

    wins: Number = 0
    draws: Number = 0
    losses: Number = 0

    @property
    def games(self) -> int:
        return self.wins + self.draws + self.losses


class Rates(Counts):
    """Counts and their share of points, a draw counting 1/2. low, high: its 95 % interval."""

    share: float = Field(ge=0, le=1)
    low: float = Field(ge=0, le=1)
    high: float = Field(ge=0, le=1)


class Result(Rates):
    """A match with one opponent. match: the name of its folder."""

    opponent: str
    match: str
    moving_first: Counts
    moving_second: Counts
    average_length: float = Field(ge=0, description="Plies, like the next two.")
    shortest: Number
    longest: Number
    ends: dict[str, Number] = Field(description="How the games ended: played_out, move_limit, resigned.")
    duplicates: Number = Field(description="Games with the moves and colours of an earlier one.")
    failed: Number = Field(description="Games that failed twice and count for neither side.")
    elo_before: float
    elo_after: float
    points_per_game: float | None = Field(None, description="If games may count more than 1.")

    @field_validator("match")
    @classmethod
    def _is_a_match(cls, match: str) -> str:
        if layout.parse_match_name(match) is None:
            raise ValueError(f"{match!r} is no match's name")
        return match


class Outcome(Rates):
    """The result of a strategy, over all its opponents."""

    strategy: StrategyName
    conclusion: str


class Skipped(_Record):
    """A planned match that wasn't played completely. again: whether another run tries again."""

    opponent: str
    reason: str
    again: bool
    strategies: list[StrategyName] = Field([], description="If the opponent isn't in the plan: the strategies for it.")


class Evaluation(_Record):
    """A model's file. finished: None as long as it has only the plan."""

    format: Literal["mugo-evaluation"] = "mugo-evaluation"
    version: Literal[1] = 1
    model: str = Field(min_length=1, description="Name of its directory.")
    rated_as: str = Field(min_length=1, description="The same with @READOUTS, as in matches and ratings.")
    weights: str = Field(description="SHA-256 of its weights.")
    generation: Number
    game: str = Field(description="Canonical game spec.")
    settings: dict[str, Any] = Field(description="All that the games depend on: readouts, search, openings, seed …")
    opponents: list[Opponent]
    strategies: list[Plan]
    elo_before: float
    rating_before: float | None = Field(description="Bradley-Terry's, in Elo; None: unrated.")
    created: str = Field(default_factory=atomic.utc_now)
    results: list[Result] = Field([], description="In the order of play.")
    outcomes: list[Outcome] = []
    skipped: list[Skipped] = []
    elo_after: float | None = None
    rating: float | None = Field(None, description="After the matches; its error is half of the 95 % interval.")
    rating_error: float | None = None
    finished: str | None = None

    @model_validator(mode="after")
    def _fits_together(self) -> Evaluation:
        try:
            layout.check_model_name(self.model)
        except UsageError as error:
            raise ValueError(str(error)) from error
        names = [one.name for one in self.opponents]
        if len(set(names)) < len(names):
            raise ValueError("an opponent appears twice")
        if unknown := {name for plan in self.strategies for name in plan.opponents} - set(names):
            raise ValueError(f"{min(unknown)!r} is in a strategy, but not one of the opponents")
        return self

    @property
    def is_whole(self) -> bool:
        """Whether another run has nothing left to try."""
        return self.finished is not None and not any(one.again for one in self.skipped)

    @property
    def planned(self) -> dict[str, Opponent]:
        return {one.name: one for one in self.opponents}


def list_evaluations(directory: Path, since: int = -1) -> list[Path]:
    """The files of evaluations in a folder, oldest model first; none if it is missing. since: lowest model number."""
    names = sorted(filter(layout.parse_evaluation_name, atomic.names_in(directory)))
    return [directory / name for name in names if int(name.partition("-")[0]) >= since]


def read_evaluation(path: Path) -> Evaluation:
    """Raises FileError if it is missing, damaged or of another version."""
    return atomic.read_record(path, Evaluation, WANTED)


def write_evaluation(directory: Path, evaluation: Evaluation) -> None:
    """Replace a model's file. Raises FileError."""
    path = directory / layout.evaluation_name(evaluation.model)
    atomic.write_json(path, evaluation.model_dump(mode="json"), indent=2)
