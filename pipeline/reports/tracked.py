"""A method's own measures of a run's newest games (Method.tracked): collected, and formatted as lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from pipeline.errors import FileError, UsageError
from pipeline.phrases import percent
from pipeline.run.shards import GameRecord, Shard, newest_shards, read_shard

Tracked = Mapping[str, Mapping[str, float]]
"""Measures by source and name. A source is a label that the method chooses."""

SHARES = ("won", "drawn", "lost", "well_formed", "invalid", "unigrams", "bigrams", "trigrams")


def of_newest_games(directory: Path, on_damage: Callable[[FileError], None]) -> Tracked:
    """Measures of the newest shards under a directory; {} without shards or if their method tracks nothing."""
    from pipeline.methods.named import method_named

    shards: list[Shard] = []
    games = 0
    for meta in newest_shards(directory, on_damage):
        try:
            if games >= method_named(meta.method).tracking_window:
                break
            shards.append(read_shard(meta.path, meta))
        except FileError as error:
            on_damage(error)
        except UsageError:  # unknown here: a method of another package
            break
        games += meta.games
    return of_shards(shards)


def of_shards(shards: list[Shard]) -> Tracked:
    """shards: of one game and method, newest first. {} if the game or method is unknown here."""
    from pipeline.games.specs import recorded_game
    from pipeline.methods.named import method_named

    if not shards:
        return {}
    try:
        method = method_named(shards[0].header["method"])
        if not method.tracking_window:
            return {}
        records = list(_newest(shards, method.tracking_window))
        return method.tracked(recorded_game(shards[0].game_spec), records)
    except UsageError:
        return {}


def _newest(shards: list[Shard], most: int) -> Iterator[GameRecord]:
    left = most
    for shard in shards:
        for number in range(shard.num_games)[-left:]:
            yield shard.game(number)
        left -= shard.num_games
        if left <= 0:
            return


def lines(tracked: Tracked) -> list[tuple[str, str]]:
    """(source, its measures as text)"""
    return [
        (source, ", ".join(f"{name} {_number(name, value)}" for name, value in found.items()))
        for source, found in tracked.items()
    ]


def _number(name: str, value: float) -> str:
    return percent(value) if name in SHARES else f"{value:,.0f}" if float(value).is_integer() else f"{value:.3g}"
