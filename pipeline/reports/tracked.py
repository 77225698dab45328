"""A method's own measures of a run's newest games (Method.tracked): collected, and formatted as lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.errors import FileError, UsageError
from pipeline.phrases import percent, words
from pipeline.run.shards import GameRecord, Shard, newest_shards, read_shard

if TYPE_CHECKING:
    from pipeline.methods.method import Measure  # whose imports are slow


@dataclass(frozen=True)
class Tracked:
    """numbers: by source, e.g. selfplay/mirror, and name. measures: what the method says of those names."""

    numbers: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    measures: Mapping[str, Measure] = field(default_factory=dict)


def of_newest_games(directory: Path, on_damage: Callable[[FileError], None]) -> Tracked:
    """Of the newest games under a directory; reads as few shards as the method's window needs."""
    return of_shards(_newest_shards(directory, on_damage))


def _newest_shards(directory: Path, on_damage: Callable[[FileError], None]) -> Iterator[Shard]:
    from pipeline.methods.named import method_named

    method = None
    for meta in newest_shards(directory, on_damage):
        method = method or meta.method
        if meta.method != method or not method_named(method).tracking_window:
            return
        try:
            yield read_shard(meta.path, meta)
        except FileError as error:
            on_damage(error)


def of_shards(shards: Iterable[Shard]) -> Tracked:
    """shards: of one game and method, newest first. Empty if their method tracks nothing or isn't known here."""
    from pipeline.games.specs import recorded_game
    from pipeline.methods.named import method_named

    records: list[GameRecord] = []
    try:
        for shard in shards:
            method, game = method_named(shard.header["method"]), recorded_game(shard.game_spec)
            left = method.tracking_window - len(records)
            if left > 0:
                records += [shard.game(number) for number in range(shard.num_games)[-left:]]
            if left <= shard.num_games:
                break
        return Tracked(method.tracked(game, records), dict(method.measures)) if records else Tracked()
    except UsageError:  # its game or method needs packages that aren't here
        return Tracked()


def lines(tracked: Tracked) -> list[tuple[str, str]]:
    """(source, its measures in words)"""

    def number(name: str, value: float) -> str:
        return f"{words(name)} {_number(value, name in tracked.measures and tracked.measures[name].share)}"

    return [(source, ", ".join(number(*one) for one in found.items())) for source, found in tracked.numbers.items()]


def _number(value: float, is_share: bool) -> str:
    return percent(value) if is_share else f"{value:,.0f}" if float(value).is_integer() else f"{value:.3g}"
