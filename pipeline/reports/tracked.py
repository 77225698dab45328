"""A method's own measures of a run's newest games (Method.tracked): collected, and formatted as lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.errors import FileError, UsageError
from pipeline.phrases import percent
from pipeline.run.shards import GameRecord, Shard, newest_shards, read_shard

if TYPE_CHECKING:
    from pipeline.methods.method import Measure  # whose imports are slow


@dataclass(frozen=True)
class Tracked:
    """numbers: by source, e.g. selfplay/mirror, and name. measures: what the method says of those names."""

    numbers: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    measures: Mapping[str, Measure] = field(default_factory=dict)


def of_newest_games(directory: Path, on_damage: Callable[[FileError], None]) -> Tracked:
    """Of the shards under a directory; nothing where there are none, or their method tracks none. Reads few of them."""
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
    """shards: of one game and method, newest first. Nothing also where that game or method isn't known here."""
    from pipeline.games.specs import recorded_game
    from pipeline.methods.named import method_named

    if not shards:
        return Tracked()
    try:
        method = method_named(shards[0].header["method"])
        if not method.tracking_window:
            return Tracked()
        records = list(_newest(shards, method.tracking_window))
        return Tracked(method.tracked(recorded_game(shards[0].game_spec), records), dict(method.measures))
    except UsageError:  # its game or method needs packages that aren't here
        return Tracked()


def _newest(shards: list[Shard], most: int) -> Iterator[GameRecord]:
    left = most
    for shard in shards:
        for number in range(shard.num_games)[-left:]:
            yield shard.game(number)
        left -= shard.num_games
        if left <= 0:
            return


def lines(tracked: Tracked) -> list[tuple[str, str]]:
    """(source, its measures in words)"""

    def number(name: str, value: float) -> str:
        return f"{name} {_number(value, name in tracked.measures and tracked.measures[name].share)}"

    return [(source, ", ".join(number(*one) for one in found.items())) for source, found in tracked.numbers.items()]


def _number(value: float, is_share: bool) -> str:
    return percent(value) if is_share else f"{value:,.0f}" if float(value).is_integer() else f"{value:.3g}"
