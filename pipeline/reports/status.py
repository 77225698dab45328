"""``status``: the state of a run, from its files alone. The run may be active, finished, or a copy from elsewhere.

Terms: *the last hour* is the hour up to the newest shard, in generations that were scanned completely. Rates of games
and positions are per hour of wall-clock time; evaluations per second count only while self-play runs.

The cost doesn't grow with the run: the scan is partial (run_files.py), shards are counted by name, and sidecars are
opened only in the last hour and after the newest model's window, which counts what came before. An evenly spread sample
represents more than MOST_READ of them. Games are read only if their method tracks them, the newest few.

Unknown values are None. Takes no lock and writes nothing. Damaged and half-written files become warnings.
"""

from __future__ import annotations

import math
import shutil
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from pathlib import Path

from pipeline.phrases import counted, long_duration
from pipeline.progress import SILENT, Progress
from pipeline.reports.config import StatusConfig
from pipeline.reports.reading import (
    Reading,
    ScoredMatch,
    metric,
    number_in,
    parse_time,
    promotion_conditions,
    share_needed,
    tabled,
)
from pipeline.reports.run_files import LOOP_LOCK, RunFiles, SizedShard, scan_run, spread
from pipeline.reports.tracked import Tracked, of_newest_games
from pipeline.run import atomic, layout, packs
from pipeline.run.evaluations import Evaluation, list_evaluations, read_evaluation
from pipeline.run.layout import Run
from pipeline.run.matches import begin_lines, newest_matches
from pipeline.run.models import ModelInfo
from pipeline.run.order import Counted, generation_of
from pipeline.run.pruned import Pruned, read_pruned
from pipeline.run.ratings import RatedPlayer, read_ratings
from pipeline.run.shards import ShardMeta

RATES_OVER = timedelta(hours=1)
MOST_READ = 250  # sidecars of the last hour; sidecars since the newest window; matches searched for the last of models
MODELS_SHOWN = 8
PLAYERS_SHOWN = 5
PLAYING_SECONDS = 60  # a shard younger than this shows that self-play is running
QUIET_SECONDS = 900  # warn about a loop that commits no shard for this long and for three times its longest break
FULL_SOON_SECONDS = 86_400
LEAST_SECONDS, LEAST_GROWTH_SECONDS = 60.0, 600.0  # over shorter times, rates and the growth of the run are unknown
HOUR = 3600.0

RUNNING, NOT_SEEN, UNKNOWN, FINISHED = "running", "not seen here", "unknown", "finished"


@dataclass(frozen=True)
class Play:
    """Self-play. Rates are None if fewer than two shards are known, or hourly ones if these span too short a time."""

    shards: int
    shards_exact: bool  # False: estimated, as sizes on disk are, because the scan was partial
    positions: int  # of all games so far
    positions_exact: bool  # False: the newest games' positions are estimated from a sample
    newest_shard: datetime | None
    games_per_hour: float | None
    positions_per_hour: float | None
    evaluations_per_second: float | None
    cut_short: float | None = None  # share of the last hour's games ended by the move limit; None: no games


@dataclass(frozen=True)
class WindowFill:
    """The window that the newest model was trained on."""

    positions: int
    capacity: int  # the window's size at that time
    max_positions: int
    games: int | None  # in it
    max_games: int | None  # the most that it holds; None: only positions limit it


@dataclass(frozen=True)
class Trained:
    """One of the measures of a training that its method tables. None: not measured on that part."""

    heading: str
    share: bool
    training: float | None
    holdout: float | None
    holdout_before: float | None  # when the training began
    is_error: bool  # see Measure

    @property
    def rose_when_held_out(self) -> bool:
        """Whether it is an error that the training made larger."""
        before, after = self.holdout_before, self.holdout
        return self.is_error and before is not None and after is not None and after > before


@dataclass(frozen=True)
class Training:
    """What was measured at the end of a model's training, by metric. None: not measured, or an untrained model."""

    model: str
    created: datetime | None
    measures: Mapping[str, Trained]  # in the method's order; without those that weren't measured at all


@dataclass(frozen=True)
class LastMatch:
    """The newest match of a challenger with the champion; wins and points are the challenger's."""

    challenger: str
    champion: str
    games: int  # to be played at most
    games_played: int
    wins: int
    draws: int
    losses: int
    points_share: float
    points_share_low: float  # of the 95 % interval
    points_share_high: float
    points_share_needed: float | None  # None: no threshold, or not known yet
    decision: str  # see ScoredMatch.decision
    conditions: Mapping[str, str] = field(default_factory=dict)  # outcome of each promotion condition


@dataclass(frozen=True)
class Disk:
    """bytes_per_second: growth of games and models; None if unknown."""

    used_bytes: dict[str, int]  # by folder
    free_bytes: int
    bytes_per_second: float | None
    seconds_until_full: float | None


@dataclass(frozen=True)
class WorkerSeen:
    """A self-play worker that committed shards in the last hour."""

    worker: str
    shards: int  # in that hour
    newest_shard: datetime


@dataclass(frozen=True)
class StatusSummary:
    """The state of a run at one time. Times are UTC.

    generation  of the newest model
    loop        running, if a process of this machine holds the loop's lock; finished, if the last loop did all that it
                was asked for and nothing has happened since; not seen here; unknown
    stages      running now, known by their locks; self-play on other machines is known by its newest games
    is_guess    self-play is in stages only because of its newest games; without a loop it may have just ended
    stage       stages as text; "none" or "unknown" if there are none
    begun       models whose training has begun and hasn't ended
    promotions  number so far, without the first model
    trainings   of the newest models, oldest first
    evaluation  by evaluate --watch, of the newest model that it has started or finished
    ratings     of the best players
    """

    directory: Path
    time: datetime
    game: str | None
    generation: int | None
    loop: str
    stages: tuple[str, ...]
    is_guess: bool
    stage: str
    begun: tuple[str, ...]
    champion: str | None
    champion_since: datetime | None
    promotions: int
    play: Play
    window: WindowFill | None
    trainings: tuple[Training, ...]
    match: LastMatch | None
    evaluation: Evaluation | None
    ratings: tuple[RatedPlayer, ...]
    disk: Disk
    workers: tuple[WorkerSeen, ...]
    warnings: tuple[str, ...]
    tracked: Tracked = field(default_factory=Tracked)


def status(config: StatusConfig, progress: Progress = SILENT, now: datetime | None = None) -> StatusSummary:
    """Raises FileError if the folder is not that of a run. now: replaces the clock."""
    return _Collector(Run.at(config.directory), now or datetime.now(UTC)).summary()


class _Collector:
    def __init__(self, run: Run, now: datetime) -> None:
        self.run, self.now = run, now
        self.reading = Reading.of(run, MODELS_SHOWN)
        self.readable = self.reading.readable
        self.files: RunFiles = scan_run(run.folder, whole=False)
        by_time = sorted(self.files.shards, key=lambda shard: shard.time)
        self.ahead = [shard for shard in by_time if shard.time > now + timedelta(seconds=PLAYING_SECONDS)]
        in_time = by_time[: len(by_time) - len(self.ahead)]
        self.newest_shard = newest = in_time[-1].time if in_time else None
        self.last_hour = [
            shard
            for shard in in_time
            if newest and shard.time >= newest - RATES_OVER and shard.generation >= self.files.whole_from
        ]

    def summary(self) -> StatusSummary:
        reading = self.reading
        last = reading.journal[-1] if reading.journal else {}
        is_last = reading.champion is not None and str(last.get("champion")) == reading.champion
        trainings = tuple(map(_training, reading.infos))
        loop, stages, is_guess = self.at_work()
        disk = self.disk(trainings, grows=loop != FINISHED)
        is_over = loop == FINISHED or (loop == NOT_SEEN and self.age() > QUIET_SECONDS)
        stage = ", ".join(stages) or ("none" if is_over else UNKNOWN)
        play, match = self.play(), self.last_match()
        evaluations = self.readable(list_evaluations, self.run.watch)
        evaluation = self.readable(read_evaluation, evaluations[-1]) if evaluations else None
        ratings = self.readable(read_ratings, self.run.ratings) if atomic.exists(self.run.ratings) else None
        tracked = self.readable(of_newest_games, self.run.games, reading.warn) or Tracked()
        self.warn(loop, stage, trainings, disk)
        return StatusSummary(
            directory=self.run.folder.resolve(),
            time=self.now,
            game=reading.game,
            generation=reading.generation,
            loop=loop,
            stages=stages,
            is_guess=is_guess,
            stage=stage,
            begun=tuple(sorted(self.files.checkpoints)),
            champion=reading.champion,
            champion_since=parse_time(last.get("time")) if is_last else None,
            promotions=reading.promotions,
            play=play,
            window=next(filter(None, map(_window, reversed(reading.infos))), None),
            trainings=trainings,
            match=match,
            evaluation=evaluation,
            ratings=tuple(ratings.anchored[:PLAYERS_SHOWN]) if ratings else (),
            disk=disk,
            workers=self.workers(),
            warnings=tuple(reading.warnings),
            tracked=tracked,
        )

    def play(self) -> Play:
        shards = self.files.shards
        before = next(filter(None, map(_counted, reversed(self.reading.infos))), None)
        if before is None:  # read only if needed: the file has an entry for every folder that was ever pruned
            before = (self.readable(read_pruned, self.run.games) or Pruned()).counted
        newest = {shard.place: shard for shard in shards}  # they are sorted
        before = before.without([place for place, shard in newest.items() if before.has_restarted(shard)])
        new = [shard for shard in shards if not before.has(shard)]
        uncounted = len(new)
        if not before.numbers:  # nothing was counted, so shards outside the partial scan are new too
            uncounted = max(uncounted, self.files.num_shards - (len(shards) - len(new)))
        sampled, of_hour = spread(new, MOST_READ), spread(self.last_hour, MOST_READ)
        metas = {shard: meta for shard in {*of_hour, *sampled} if (meta := self.reading.meta(shard))}
        metas_of_hour = [metas[shard] for shard in of_hour if shard in metas]
        games = sum(meta.games for meta in metas_of_hour)
        of_new = sum(metas[shard].positions for shard in sampled if shard in metas)
        return Play(
            shards=self.files.num_shards,
            shards_exact=self.files.is_whole,
            positions=before.total + (round(of_new / len(sampled) * uncounted) if sampled else 0),
            positions_exact=len(sampled) == uncounted,
            newest_shard=self.newest_shard,
            games_per_hour=_rate(self.last_hour, metas, lambda meta: meta.games, HOUR, LEAST_SECONDS),
            positions_per_hour=_rate(self.last_hour, metas, lambda meta: meta.positions, HOUR, LEAST_SECONDS),
            evaluations_per_second=self.evaluations_per_second(metas),
            cut_short=sum(meta.cut_short for meta in metas_of_hour) / games if games else None,
        )

    def evaluations_per_second(self, metas: dict[SizedShard, ShardMeta]) -> float | None:
        """Of the newest model's games, over workers; each one's in its newest generation with two shards."""
        groups: dict[tuple[str, int], list[SizedShard]] = defaultdict(list)
        for shard in self.last_hour:
            if shard.model == self.last_hour[-1].model:
                groups[shard.worker, shard.generation].append(shard)
        rates: dict[str, float] = {}
        for (worker, _), shards in sorted(groups.items()):
            if rate := _rate(_since_break(shards), metas, lambda meta: meta.evaluations):
                rates[worker] = rate
        return sum(rates.values()) if rates else None

    def last_match(self) -> LastMatch | None:
        for folder in islice(self.readable(newest_matches, self.run.matches) or (), MOST_READ):
            if self.readable(_is_of_models, folder):
                return self.readable(_last_match, folder)
        return None

    def disk(self, trainings: Sequence[Training], grows: bool) -> Disk:
        """Games grow at the last hour's rate, models by the newest one's size per generation, unless nothing grows."""
        games = self.run.games
        free = shutil.disk_usage(games if games.is_dir() else self.run.folder).free
        growth = []
        seconds = (self.last_hour[-1].time - self.last_hour[0].time).total_seconds() if self.last_hour else 0.0
        if seconds >= LEAST_GROWTH_SECONDS:
            growth.append(sum(shard.num_bytes for shard in self.last_hour[1:]) / seconds)
        times = [(one.model, one.created) for one in trainings[-2:] if one.created]
        if len(times) == 2 and (seconds := (times[1][1] - times[0][1]).total_seconds()) >= LEAST_GROWTH_SECONDS:
            growth.append(self.files.model_bytes[times[1][0]] / seconds)
        rate = sum(growth) if growth and grows else None
        used = dict(sorted(self.files.num_bytes.items()))
        return Disk(used, free, rate, free / rate if rate else None)

    def workers(self) -> tuple[WorkerSeen, ...]:
        seen: dict[str, list[SizedShard]] = defaultdict(list)
        for shard in self.last_hour:
            seen[shard.worker].append(shard)
        return tuple(WorkerSeen(name, len(shards), shards[-1].time) for name, shards in sorted(seen.items()))

    def age(self) -> float:
        return (self.now - self.newest_shard).total_seconds() if self.newest_shard else math.inf

    def at_work(self) -> tuple[str, tuple[str, ...], bool]:
        """(loop, stages, is_guess) of StatusSummary.

        Locks of other machines aren't visible. There, self-play counts as running if its newest shard is young, or if
        the loop has begun it in this generation and no other stage runs.
        """
        held = self.files.held
        loop = UNKNOWN if held is None else RUNNING if LOOP_LOCK in held else NOT_SEEN
        packing = layout.lock_path(layout.GAMES / packs.LOCK)  # held by compact and prune, not by self-play
        own = {layout.lock_path(folder): folder for folder in (layout.TOURNAMENT_MATCHES, layout.WATCH_MATCHES)}
        folders = {own.get(path, path.parent) for path in held or () if path != packing}
        at_work = [
            ("selfplay", layout.GAMES in folders),
            ("gather", layout.CHUNKS in folders),
            ("train", any(layout.parse_checkpoint_name(folder.name) for folder in folders)),
            ("evaluate", bool({layout.MATCHES, layout.REQUIRED_MATCHES, layout.MEASURED_MATCHES} & folders)),
            ("tournament", layout.TOURNAMENT_MATCHES in folders),
        ]
        stages = [name for name, is_at_work in at_work if is_at_work]
        watches = layout.WATCH_MATCHES in folders
        if loop != RUNNING and not stages and not watches and self.is_finished():
            return FINISHED, (), False
        generation = self.reading.generation or 0
        begun = {shard.generation for shard in self.files.shards} | set(map(generation_of, self.files.waiting))
        is_young = abs(self.age()) < PLAYING_SECONDS
        plays = (is_young or generation in begun) and not stages if loop == RUNNING else is_young
        is_guess = plays and "selfplay" not in stages
        if is_guess:
            stages.insert(0, "selfplay")
        if watches:  # may run beside other stages
            stages.append("watch")
        return loop, tuple(stages), is_guess

    def loops_time(self, name: str) -> datetime | None:
        """When the newest loop `began` or `ended`; None if that isn't known."""
        path = self.run.folder / layout.LOOP_FILE
        kept = self.readable(atomic.read_json, path, "the loop's time") if path.exists() else None
        return parse_time((kept or {}).get(name))

    def is_finished(self) -> bool:
        ended = self.loops_time("ended")
        return ended is not None and (self.newest_shard is None or self.newest_shard <= ended + timedelta(seconds=1))

    def warn(self, loop: str, stage: str, trainings: Sequence[Training], disk: Disk) -> None:
        warn = self.reading.warn
        for error in self.files.unreadable:
            warn(error)
        breaks = [
            (later.time - earlier.time).total_seconds()
            for earlier, later in pairwise(sorted(self.files.shards, key=lambda shard: shard.time))
            if later.generation <= earlier.generation + 1  # generations in between were not scanned
        ]
        if loop == RUNNING and self.newest_shard:
            since = max(self.newest_shard, self.loops_time("began") or self.newest_shard)
            quiet = (self.now - since).total_seconds()
            if quiet > max(QUIET_SECONDS, 3 * max(breaks, default=0.0)):
                told = f"no new games for {long_duration(quiet)}, though the loop is running (stage: {stage})"
                warn(f"{told}; see its log")
        if self.ahead:
            furthest = (self.ahead[-1].time - self.now).total_seconds()
            warn(
                f"{counted(len(self.ahead), 'shard')} up to {long_duration(furthest)} ahead of this machine's clock, "
                f"the last one of worker {self.ahead[-1].worker}; shards of a generation sort by time: synchronise the "
                "clocks of all machines"
            )
        for name, last in trainings[-1].measures.items() if len(trainings) > 1 else ():
            before = trainings[-2].measures.get(name)
            if last.rose_when_held_out and before and before.rose_when_held_out:
                warn(
                    f"the {last.heading} on held-out games rose in the last two trainings, from "
                    f"{last.holdout_before:.4g} to {last.holdout:.4g} in {trainings[-1].model}: the network overfits; "
                    "a larger window, fewer epochs or a lower learning rate help"
                )
        if disk.seconds_until_full is not None and disk.seconds_until_full < FULL_SOON_SECONDS:
            warn(f"the disk is full in {long_duration(disk.seconds_until_full)} at this rate")
        left = [path for path in self.files.temporaries if atomic.is_left_over(path.name)]
        if left:
            warn(
                f"{counted(len(left), 'temporary file')} of killed processes, e.g. {left[0]}; nothing reads them, and "
                "the command that wrote them removes them on its next run"
            )
        old = f"{self.now - timedelta(seconds=QUIET_SECONDS):{layout.TIME_FORMAT}}"
        lost = [path for path in self.files.uncommitted if path.name < old]
        if lost:
            warn(
                f"{counted(len(lost), 'shard')} without a .meta file, e.g. {lost[0]}; nothing reads them: remove them, "
                "or copy the .meta files as well"
            )


def _since_break(shards: Sequence[SizedShard]) -> Sequence[SizedShard]:
    """Those after the last stop of a worker: a break of QUIET_SECONDS that is three times as long as any before."""
    gaps = [(after.time - shard.time).total_seconds() for shard, after in pairwise(shards)]
    for number, gap in reversed(list(enumerate(gaps))):
        if gap > QUIET_SECONDS and gap > 3 * max(gaps[:number], default=0.0):
            return shards[number + 1 :]
    return shards


def _rate(
    shards: Sequence[SizedShard],
    metas: Mapping[SizedShard, ShardMeta],
    count: Callable[[ShardMeta], int],
    per: float = 1.0,
    least: float = 0.0,
) -> float | None:
    """The rate between the first and the last shard, per this many seconds; None if unknown.

    The first shard's games were played before its time, so they don't count. metas: of the shards, or of a sample.
    least: seconds that they must span.
    """
    known = [count(metas[shard]) for shard in shards[1:] if shard in metas]
    seconds = (shards[-1].time - shards[0].time).total_seconds() if shards else 0.0
    if not known or seconds <= 0 or seconds < least:
        return None
    return per * sum(known) / len(known) * len(shards[1:]) / seconds


def _training(info: ModelInfo) -> Training:
    return Training(
        model=info.name,
        created=parse_time(info.created),
        measures=_measures(info),
    )


def _measures(info: ModelInfo) -> dict[str, Trained]:
    found = {
        name: Trained(
            heading=one.heading,
            share=one.share,
            training=metric(info, "train", name),
            holdout=metric(info, "holdout_after", name),
            holdout_before=metric(info, "holdout_before", name),
            is_error=one.is_error,
        )
        for name, one in tabled(info).items()
    }
    return {name: one for name, one in found.items() if (one.training, one.holdout) != (None, None)}


def _counted(info: ModelInfo) -> Counted | None:
    try:
        return Counted.in_window(info.manifest.get("window", {}))
    except ValueError:
        return None


def _window(info: ModelInfo) -> WindowFill | None:
    numbers = [number_in(info.manifest, "window", name) for name in ("positions", "capacity", "max_positions")]
    positions, capacity, most = (None if one is None else int(one) for one in numbers)
    if positions is None or most is None:
        return None
    games, most_games = (number_in(info.manifest, "window", name) for name in ("games", "max_games"))
    of_games = None if games is None else int(games), None if most_games is None else int(most_games)
    return WindowFill(positions, most if capacity is None else capacity, most, *of_games)


def _is_of_models(folder: Path) -> bool:
    """Whether a match is between two models. Raises FileError."""
    found, *_ = begin_lines(folder)
    return found.header.is_of_models


def _last_match(folder: Path) -> LastMatch:
    """Raises FileError."""
    found = ScoredMatch.read(folder)
    match, score, summary = found.match, found.score, found.match.summary or {}
    header = match.header
    needed = header.threshold if header.max_result == 1 else None  # points aren't shares of games
    if summary:
        needed = share_needed(summary)
    return LastMatch(
        header.challenger, header.champion, match.num_games, score.games, score.wins, score.draws, score.losses,
        score.share, *found.interval, needed, found.decision, promotion_conditions(summary),
    )  # fmt: skip
