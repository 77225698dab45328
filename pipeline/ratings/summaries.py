"""What `ratings`, `tournament` and `pool` tell of: the table of strengths, and who is in the pool."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class RatingRow:
    """A player in the table, rated by the method asked for.

    rating, average_opponent  in the method's points: Elo, or TrueSkill's
    error                     half of the 95 % interval; None where the method has none
    group                     0 for the largest group of players that games connect; ranks count within a group
    """

    rank: int
    name: str
    kind: str
    rating: float
    error: float | None
    games: int
    wins: int
    draws: int
    losses: int
    average_opponent: float
    group: int


@dataclass(frozen=True)
class RatingsSummary:
    """What `ratings` found. rows: group after group, best first; warnings: what to mind when reading them."""

    game: str
    method: str
    anchor: str  # NAME=ELO
    matches: int
    matches_skipped: int  # damaged, each named in a warning on the way
    games: int
    path: str | None  # of ratings.json; None: not written
    rows: list[RatingRow]
    warnings: list[str] = field(default_factory=list)
    left_out: int = 0  # rated players who aren't in rows


@dataclass(frozen=True)
class PoolRow:
    """A member. rated_as: the rated player it counts as, a model with its readouts; rating, error: Bradley-Terry.

    These three are None while it is unrated.
    """

    name: str
    spec: str
    rating: float | None
    error: float | None
    games: int
    rated_as: str | None = None


@dataclass(frozen=True)
class PoolSummary:
    """The pool after the command. members: best first, the unrated last.

    added, removed, evicted, already (was to be added, but is there): names.
    """

    path: str
    capacity: int
    members: list[PoolRow]
    added: list[str]
    removed: list[str]
    evicted: list[str]
    already: list[str] = field(default_factory=list)
