"""What ``prune`` removed from the games: ``pruned.json`` in their folder, so that no total ever changes.

For every pruned place (FOLDER/WORKER) it has the last shard up to which the place was pruned, the totals of all shards
up to that one, and the names of those that were kept as a sample for reports. A total is the sum of this file's and of
the later shards'. Shards up to the last pruned one count only in this file, whether they still exist or not, so an
interrupted prune changes no total. The file is replaced as a whole before anything is removed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, Field, field_validator

from pipeline.run import atomic, layout
from pipeline.run.order import MOST, Counted, ShardFile

Key = TypeVar("Key")


class PrunedPlace(BaseModel, frozen=True, extra="forbid"):
    """All shards of a place up to one of them. kept: those that stay, oldest first; the last of all is one of them."""

    kept: list[str] = Field(min_length=1, description="Names, without .gz.")
    number: int = Field(ge=0, lt=MOST, description="The largest number of a shard among them.")
    shards: int = Field(ge=1, lt=MOST)
    games: int = Field(ge=1, lt=MOST)
    positions: int = Field(ge=1, lt=MOST)

    @field_validator("kept")
    @classmethod
    def _are_shards(cls, kept: list[str]) -> list[str]:
        names = list(map(layout.shard_named, kept))
        if names != sorted(set(names)):
            raise ValueError("its shards are not in order")
        return kept

    @property
    def names(self) -> list[layout.ShardName]:
        return list(map(layout.shard_named, self.kept))

    @property
    def up_to(self) -> layout.ShardName:
        return layout.shard_named(self.kept[-1])


class Pruned(BaseModel, frozen=True, extra="forbid"):
    format: Literal["mugo-pruned"] = "mugo-pruned"
    version: Literal[1] = 1
    places: dict[str, PrunedPlace] = {}
    settled: int = Field(
        -1, ge=-1, le=layout.MAX_NUMBER, description="The generation up to which nothing is left to remove; -1: none."
    )

    def has(self, shard: ShardFile | Path) -> bool:
        """Whether this shard, or the one with this path, counts in the places' totals."""
        if isinstance(shard, Path):
            name, where = layout.parse_shard_name(shard.name), "/".join(shard.parts[-3:-1])
        else:
            name, where = shard.name, shard.place
        place = self.places.get(where)
        return place is not None and name is not None and name <= place.up_to

    @property
    def counted(self) -> Counted:
        """What has been counted if nothing else is known: the pruned shards. Old places that had too few shards to be
        pruned aren't counted.
        """
        if not self.places:
            return Counted()
        numbers = {name: place.number for name, place in self.places.items()}
        return Counted(sum(place.positions for place in self.places.values()), numbers, reach=0)

    def totals(self, key: Callable[[str], Key]) -> tuple[Counter[Key], Counter[Key]]:
        """(games, positions) of the places, by a key of their names: model_of, generation_of."""
        games: Counter[Key] = Counter()
        positions: Counter[Key] = Counter()
        for name, place in self.places.items():
            games[key(name)] += place.games
            positions[key(name)] += place.positions
        return games, positions


def read_pruned(directory: Path) -> Pruned:
    """directory: of all games. Raises FileError if the file is damaged."""
    path = directory / layout.PRUNED
    if not atomic.exists(path):
        return Pruned()
    return atomic.read_record(path, Pruned, "what prune removed; if you remove this file, totals count what is left")


def write_pruned(directory: Path, pruned: Pruned) -> None:
    """Raises FileError."""
    atomic.write_text(directory / layout.PRUNED, pruned.model_dump_json(indent=1) + "\n")
