"""Two files about the strength of players and the pool of opponents. ratings/ knows what they mean.

    data/ratings.json  ratings of every player that ever played a match. A copy for readers: it can always be made again
                       from the match records
    data/pool.json     the members of the pool of opponents and its capacity. Ratings are in the other file, so that
                       they outlive a member's eviction

Both are replaced as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field, model_validator

from pipeline.run import atomic

RATINGS_FORMAT, POOL_FORMAT = "mugo-ratings", "mugo-pool"
WANTED_RATINGS = "ratings; `python main.py ratings` makes it again from the match records"
WANTED_POOL = "a pool; repair it, or remove it and add its members again: `python main.py pool add SPEC`"
DEFAULT_CAPACITY = 5


class RatedPlayer(BaseModel, frozen=True, extra="forbid", allow_inf_nan=False):
    """A player's ratings by all three rating systems."""

    name: str = Field(description="The name it is rated as: a model's always with @READOUTS.")
    kind: str = Field("model", description="model, random, heuristic or another kind of player.")
    games: int = Field(0, ge=0)
    wins: int = Field(0, ge=0)
    draws: int = Field(0, ge=0)
    losses: int = Field(0, ge=0)
    bradley_terry: float = Field(0.0, description="Elo, relative to the anchor.")
    bradley_terry_error: float = Field(0.0, ge=0, description="Elo; half of the 95 % interval around the group's mean.")
    group: int = Field(0, ge=0, description="No chain of matches connects players of different groups.")
    elo: float = Field(1500.0, description="Start 1500, K 32, match after match.")
    trueskill_mu: float = 25.0
    trueskill_sigma: float = Field(25 / 3, gt=0)


class Ratings(BaseModel, frozen=True, extra="forbid", allow_inf_nan=False):
    """ratings.json."""

    format: Literal["mugo-ratings"] = "mugo-ratings"
    version: Literal[1] = 1
    game: str = Field(description="Canonical game spec.")
    anchor: str = Field(description="The player whose Bradley-Terry rating is fixed.")
    anchor_elo: float
    matches: int = Field(ge=0)
    games: int = Field(ge=0)
    players: list[RatedPlayer] = Field(description="Best Bradley-Terry rating first.")
    created: str = Field(default_factory=atomic.utc_now)

    @property
    def by_name(self) -> dict[str, RatedPlayer]:
        return {player.name: player for player in self.players}

    @property
    def anchored(self) -> list[RatedPlayer]:
        """The players with a chain of matches to the anchor, best first. Others can't be compared with them."""
        group = next((player.group for player in self.players if player.name == self.anchor), 0)
        return [player for player in self.players if player.group == group]


class Member(BaseModel, frozen=True, extra="forbid"):
    """A member of the pool."""

    name: str = Field(min_length=1, description="Unique in the pool.")
    spec: str = Field(min_length=1, description="The player, as a spec string.")


class Pool(BaseModel, frozen=True, extra="forbid"):
    """pool.json. members: oldest first."""

    format: Literal["mugo-pool"] = "mugo-pool"
    version: Literal[1] = 1
    capacity: int = Field(DEFAULT_CAPACITY, ge=1)
    members: tuple[Member, ...] = ()

    @model_validator(mode="after")
    def _names_are_unique(self) -> Pool:
        if len(set(self.names)) < len(self.members):
            raise ValueError("a name appears twice")
        return self

    @property
    def names(self) -> list[str]:
        return [member.name for member in self.members]


def read_ratings(path: Path) -> Ratings:
    """Raises FileError that says how to make it again if it is missing, damaged or of another version."""
    return atomic.read_record(path, Ratings, WANTED_RATINGS)


def write_record(path: Path, record: Ratings | Pool) -> None:
    """Replace the file; call it for a pool under pool_lock. Raises FileError."""
    atomic.make_folder(path.parent)
    atomic.write_text(path, record.model_dump_json(indent=2) + "\n")


def read_pool(path: Path) -> Pool:
    """An empty pool if there is no file. Raises FileError if it is damaged or of another version."""
    return atomic.read_record(path, Pool, WANTED_POOL) if atomic.exists(path) else Pool()


@contextmanager
def pool_lock(path: Path) -> Iterator[None]:
    """Keep other processes from changing the pool between reading and writing it. Raises FileError."""
    with atomic.file_lock(path):
        atomic.sweep(path.parent)
        yield
