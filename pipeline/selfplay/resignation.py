"""The games by which self-play finds its threshold for resigning; methods/resignation.py finds it."""

from __future__ import annotations

from pathlib import Path

from pipeline.errors import FileError, UsageError
from pipeline.games.specs import are_related
from pipeline.methods.resignation import Watched, watched
from pipeline.run.shards import newest_shards, read_shard

LEAST_GAMES = 50  # fewer say nothing about a rate of a few per cent
MOST_GAMES = 1000  # the newest so many are looked at
MOST_MODELS = 5  # of the newest so many models: older ones play too differently


def newest_games(directory: Path, game: str, most: int = MOST_GAMES) -> list[Watched]:
    """The newest games under directory that never resigned, whole shards until there are `most`; of few models.

    game: its spec; older shards than the newest of another game are not looked at. Shards that can't be read, and
    those of games that this program doesn't know, are passed over: gather names them.
    """
    games: list[Watched] = []
    models: set[str] = set()
    for meta in newest_shards(directory, on_damage=lambda error: None):
        try:
            is_related = are_related(meta.game, game)
        except UsageError:
            continue
        models.add(meta.model)
        if len(models) > MOST_MODELS or len(games) >= most or not is_related:
            break
        try:
            shard = read_shard(meta.path, meta)
        except FileError:
            continue
        games += watched(shard)
    return games
