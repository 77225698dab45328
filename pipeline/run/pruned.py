"""What ``prune`` took away from the games: ``pruned.json`` in their folder. Nothing that was ever counted gets lost.

For every place (FOLDER/WORKER) that was pruned it says up to which shard that was, what all shards up to there came to,
and which of them are left, as a sample for reports. So a total is that of this file and of the shards behind it; shards
up to there count in it whether they are still there or not, and a prune that was cut off changes no total. It is
replaced whole, before anything is removed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field, field_validator

from pipeline.run import atomic, layout
from pipeline.run.order import MOST, Counted, ShardFile, place_generation

FILE = layout.PRUNED


def _name(stem: str) -> layout.ShardName:
    name = layout.parse_shard_name(stem + layout.SHARD_SUFFIX)
    if name is None:
        raise ValueError(f"a shard {stem[:40]!r}")
    return name


class PrunedPlace(BaseModel, frozen=True, extra="forbid"):
    """Of all shards of a place up to one of them. kept: those that stay, oldest first; the last is that one."""

    kept: list[str] = Field(min_length=1, description="Names, without .gz.")
    number: int = Field(ge=0, lt=MOST, description="The largest number of a shard among them.")
    shards: int = Field(ge=1, lt=MOST)
    games: int = Field(ge=1, lt=MOST)
    positions: int = Field(ge=1, lt=MOST)

    @field_validator("kept")
    @classmethod
    def _are_shards(cls, kept: list[str]) -> list[str]:
        names = [_name(stem) for stem in kept]
        if names != sorted(set(names)):
            raise ValueError("its shards are not in order")
        return kept

    @property
    def names(self) -> list[layout.ShardName]:
        return [_name(stem) for stem in self.kept]

    @property
    def up_to(self) -> layout.ShardName:
        return _name(self.kept[-1])


class Pruned(BaseModel, frozen=True, extra="forbid"):
    format: Literal["mugo-pruned"] = "mugo-pruned"
    version: Literal[1] = 1
    places: dict[str, PrunedPlace] = {}
    settled: int = Field(
        -1, ge=-1, le=layout.MAX_NUMBER, description="The generation up to which nothing was left to remove; -1: none."
    )

    def has(self, shard: ShardFile | Path) -> bool:
        """Whether this shard, or that of this path, counts in the places' totals already."""
        if isinstance(shard, Path):
            name, where = layout.parse_shard_name(shard.name), "/".join(shard.parts[-3:-1])
        else:
            name, where = shard.name, shard.place
        place = self.places.get(where)
        return place is not None and name is not None and name <= place.up_to

    @property
    def counted(self) -> Counted:
        """What has been counted if nothing else is known: each place that was pruned, up to there. Places that weren't,
        because they had few shards, are not, however old.
        """
        if not self.places:
            return Counted()
        numbers = {name: place.number for name, place in self.places.items()}
        return Counted(sum(place.positions for place in self.places.values()), numbers, reach=0)

    def by_model(self) -> tuple[Mapping[str, int], Mapping[str, int]]:
        """(games, positions) in the places' totals, by the model that played."""
        games: Counter[str] = Counter()
        positions: Counter[str] = Counter()
        for name, place in self.places.items():
            folder = layout.parse_games_folder(name.partition("/")[0])
            model = folder.model if folder else name
            games[model] += place.games
            positions[model] += place.positions
        return games, positions

    def by_generation(self) -> tuple[Mapping[int, int], Mapping[int, int]]:
        """(games, positions) in the places' totals, by the generation of their folder."""
        games: Counter[int] = Counter()
        positions: Counter[int] = Counter()
        for name, place in self.places.items():
            games[place_generation(name)] += place.games
            positions[place_generation(name)] += place.positions
        return games, positions


def read_pruned(directory: Path) -> Pruned:
    """directory: of all games. Raises FileError if the file is damaged."""
    path = directory / FILE
    if not atomic.exists(path):
        return Pruned()
    return atomic.read_record(path, Pruned, "what prune took away; remove it, and totals are those of what is left")


def write_pruned(directory: Path, pruned: Pruned) -> None:
    """Raises FileError."""
    atomic.write_text(directory / FILE, pruned.model_dump_json(indent=1) + "\n")
