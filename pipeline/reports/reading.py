"""What ``show``, ``status`` and ``report`` read of a run in the same way: its models, champion, journal and matches.

Unknown values are None. Damaged and half-written files become warnings. Takes no lock and writes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from pipeline.errors import MuGoError, UsageError, explain
from pipeline.matches.statistics import (
    Played,
    Record,
    Score,
    measured_games,
    score_of,
    wilson_interval,
    without_repeated,
)
from pipeline.phrases import counted, results
from pipeline.run import layout
from pipeline.run.layout import Run
from pipeline.run.matches import Match, MatchResults, read_results
from pipeline.run.models import ModelInfo, newest_models, read_info, read_journal, resolve_champion
from pipeline.run.order import ShardFile
from pipeline.run.shards import ShardMeta, meta_of

if TYPE_CHECKING:
    from pipeline.methods.method import Measure  # whose imports are slow

MEASURED = "measured"  # a match that can't promote

P = ParamSpec("P")
T = TypeVar("T")


@dataclass
class Reading:
    """A run as far as it can be read.

    infos     of models, oldest first
    champion  its name
    journal   of promotions, oldest first
    """

    run: Run
    infos: list[ModelInfo] = field(default_factory=list)
    generation: int | None = None
    champion: str | None = None
    journal: list[dict[str, Any]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, run: Run, num_models: int | None = None) -> Reading:
        """num_models: how many of the newest models to read; None: all."""
        reading = cls(run)
        models = reading.readable(lambda: list(islice(newest_models(run.models), num_models))) or []
        reading.infos = [info for path in models[::-1] if (info := reading.readable(read_info, path))]
        if models:
            reading.generation = layout.number_of(models[0].name)
            reading.champion = reading.readable(lambda: resolve_champion(run.champion).name)
        reading.journal = reading.readable(read_journal, run.models) or []
        return reading

    @property
    def game(self) -> str | None:
        return self.infos[-1].game if self.infos else None

    @property
    def promotions(self) -> int:
        """Number so far, without the first model."""
        return sum(line.get("previous") is not None for line in self.journal)

    def warn(self, problem: object) -> None:
        if str(problem) not in self.warnings:
            self.warnings.append(str(problem))

    def readable(self, read: Callable[P, T], *args: P.args, **changes: P.kwargs) -> T | None:
        """The result of read(); None and a warning if the file is damaged or unreadable."""
        try:
            return read(*args, **changes)
        except MuGoError as error:
            self.warn(error)
        except OSError as error:
            self.warn(explain(error.filename or self.run.folder, error))
        return None

    def meta(self, shard: ShardFile) -> ShardMeta | None:
        """The shard's sidecar; None if it is damaged or gone."""
        return meta_of(shard, self.run.games, self.warn)


def parse_time(text: object) -> datetime | None:
    """A time in the format of the run's files, in UTC; None if the text isn't one."""
    try:
        return datetime.fromisoformat(str(text)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def number_in(values: object, *names: str) -> float | None:
    """A finite number in nested JSON objects; None if there is none."""
    for name in names:
        values = values.get(name) if isinstance(values, dict) else None
    is_number = isinstance(values, int | float) and not isinstance(values, bool) and math.isfinite(values)
    return float(values) if is_number else None  # type: ignore[arg-type]


def metric(info: ModelInfo, part: str, name: str) -> float | None:
    """A mean over a model's training. part: train, holdout_before or holdout_after."""
    return number_in(info.manifest, "metrics", part, name)


def tabled(info: ModelInfo) -> Mapping[str, Measure]:
    """What tables of models show of this model's training, by metric; {} if its method isn't known here."""
    from pipeline.methods.named import method_named

    with suppress(UsageError):
        return method_named(info.method).tabled
    return {}


# Matches


def countable_games(match: Record) -> Sequence[Played]:
    """The measured games of a decided match, otherwise all."""
    return match.games if match.summary is None else measured_games(match)


def counted_games(match: Record) -> Sequence[Played]:
    """The countable games without those that the match excludes as duplicates."""
    return without_repeated(match, countable_games(match))


@dataclass(frozen=True)
class ScoredMatch:
    """A match with its summary. score: the challenger's, in the games that count."""

    match: MatchResults
    score: Score

    @classmethod
    def of(cls, match: MatchResults) -> ScoredMatch:
        """Raises FileError for a damaged summary."""
        match = match.with_summary()
        return cls(match, score_of(counted_games(match)))

    @classmethod
    def read(cls, folder: Path) -> ScoredMatch:
        """Raises FileError for damaged games or a damaged summary."""
        return cls.of(read_results(folder))

    @property
    def interval(self) -> tuple[float, float]:
        """95 %, of the challenger's share."""
        return wilson_interval(self.score)

    @property
    def decision(self) -> str:
        """As decision_of()."""
        return decision_of(self.match)

    @property
    def decided(self) -> datetime | None:
        return parse_time((self.match.summary or {}).get("decided"))


def decision_of(match: Match | MatchResults) -> str:
    """not decided, promoted, not promoted, or passed; of a promotion condition's match passed or not passed; of the
    loop's measurements, and any other match with a player that is no model, MEASURED, since it can promote no one.
    """
    summary = match.summary
    if summary is None:
        return "not decided"
    if summary.get("promoted"):
        return "promoted"
    kind = match.folder.parent.name
    is_condition = kind == layout.REQUIRED
    if kind == layout.MEASURED or not (is_condition or match.header.is_of_models):
        return MEASURED
    return "passed" if summary.get("passed") else "not passed" if is_condition else "not promoted"


def share_needed(summary: Mapping[str, Any]) -> float | None:
    """The share of the points that promotes; None: no threshold, or not known."""
    points, most = number_in(summary, "points_needed"), number_in(summary, "games_that_count")
    return min(max(points / most, 0.0), 1.0) if points is not None and most else None


def promotion_conditions(summary: Mapping[str, Any], folder: Path | None = None) -> dict[str, str]:
    """The outcome of each promotion condition beside the match itself, by condition. Each has a match of its own.

    folder: of these matches; None: they are named as from the run's folder.
    """
    conditions = summary.get("conditions")
    outcomes: dict[str, str] = {}
    for text, result in (conditions if isinstance(conditions, dict) else {}).items():
        if isinstance(result, dict) and {"wins", "draws", "losses", "match"} <= result.keys():
            counts = [result[name] if isinstance(result[name], int) else 0 for name in ("wins", "draws", "losses")]
            played = f"{results(*counts)} of {counted(sum(counts), 'game')}"
            where = folder / Path(str(result["match"])).name if folder else result["match"]
            outcomes[text] = f"{'met' if result.get('passed') else 'not met'}: {played}, in {where}"
    return outcomes
