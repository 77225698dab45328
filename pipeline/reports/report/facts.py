"""The numbers of a report: generations of games, trainings, matches, ratings, time.

Terms: the *generation* of a game is the number of the newest model when the game began. A run with more than MOST_META
shards is represented by an evenly spread sample of each generation, whose sidecars are read. Of these, at most about
MOST_SHARDS are opened, for facts that only the games hold. `share_read` and `share_opened` tell the sampled shares.
Unknown values are None or left out. Damaged files become warnings.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import MuGoError
from pipeline.games.specs import are_related
from pipeline.matches.statistics import score_of, wilson_interval
from pipeline.methods.named import method_named
from pipeline.methods.resignation import NEVER, RESIGN_THRESHOLD, calibrate, no_resign_games
from pipeline.progress import Progress
from pipeline.ratings.command import Rated, rate, read_matches
from pipeline.reports.run_files import SizedShard, look_at, parse_time, spread
from pipeline.reports.show_match import counted_games
from pipeline.reports.tracked import Tracked, of_shards
from pipeline.run.matches import MatchResults
from pipeline.run.models import ModelInfo, list_models, read_info, read_journal
from pipeline.run.order import generation_of
from pipeline.run.pruned import Pruned, read_pruned
from pipeline.run.run import Run
from pipeline.run.shards import POLICY_COUNTS, End, Shard, ShardMeta, meta_of, read_shard

MOST_META = 4_000  # sidecars that are read; at least one of each generation
MOST_SHARDS = 400  # shards that are opened; at least one of each generation
PAUSE = timedelta(hours=1)  # a loop that writes nothing for this long wasn't running
STAGES = ("selfplay", "gather", "train", "evaluate")

T = TypeVar("T")


@dataclass(frozen=True)
class Games:
    """The self-play of one generation. Lengths come from the sidecars read, the fields after it from the shards opened.

    lengths           plies, at the 10th, 50th and 90th percentile
    first, drawn      shares of games won by the first player, and drawn
    resigned, settled, at_limit  shares of games that ended so; the others ended by the rules
    wrong             (wrong resignations, all resignations) that would have happened in the games that were played on
                      to check the threshold
    policy_entropy    mean over searches that are policy targets, in nats
    surprise          mean KL divergence of the policy target from the network's policy, in nats
    tracked           the method's own measures, by source and name
    """

    generation: int
    games: int
    positions: int
    lengths: tuple[float, float, float]
    first: float | None = None
    drawn: float | None = None
    resigned: float | None = None
    settled: float | None = None
    at_limit: float | None = None
    wrong: tuple[int, int] | None = None
    policy_entropy: float | None = None
    surprise: float | None = None
    tracked: Tracked = field(default_factory=Tracked)

    @property
    def by_the_rules(self) -> float | None:
        if self.resigned is None or self.at_limit is None:
            return None
        return 1 - self.resigned - (self.settled or 0) - self.at_limit

    @property
    def second(self) -> float | None:
        return None if self.first is None else 1 - self.first - (self.drawn or 0)


@dataclass(frozen=True)
class Training:
    """metrics: "train", "holdout_before", "holdout_after" → name → mean, as in the manifest."""

    model: str
    number: int
    created: datetime | None
    seconds: float | None
    samples_per_second: float | None
    size: str
    metrics: dict[str, dict[str, float]]

    def metric(self, part: str, name: str) -> float | None:
        value = (self.metrics.get(part) or {}).get(name)
        return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


@dataclass(frozen=True)
class Gate:
    """A match of a challenger with the champion. Counts and shares are the challenger's."""

    match: MatchResults
    wins: int
    draws: int
    losses: int
    share: float
    low: float
    high: float
    decided: datetime | None
    promoted: bool | None  # None: not decided yet


@dataclass
class Facts:
    """All numbers of a report.

    share_read    share of shards whose sidecars were read, for numbers of games, positions and lengths
    share_opened  share of shards that were opened, for everything else about games
    seconds       by generation: seconds of each stage, of "other" and of "pause"
    metas         sidecars read, by generation
    """

    run: Run
    time: datetime
    game: str | None = None
    champion: str | None = None
    shards: list[SizedShard] = field(default_factory=list)
    share_read: float = 1.0
    share_opened: float = 1.0
    games: list[Games] = field(default_factory=list)
    trainings: list[Training] = field(default_factory=list)
    gates: list[Gate] = field(default_factory=list)
    journal: list[dict[str, Any]] = field(default_factory=list)
    rated: Rated | None = None
    seconds: dict[int, dict[str, float]] = field(default_factory=dict)
    metas: dict[int, list[ShardMeta]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    @property
    def promoted(self) -> set[str]:
        return {str(line.get("champion")) for line in self.journal}


def collect(run: Run, progress: Progress, now: datetime) -> Facts:
    """The facts of a run. Damaged files become warnings, not errors."""
    facts = Facts(run, now)
    models = readable(facts, lambda: list_models(run.models)) or []
    infos = [info for path in models if (info := readable(facts, partial(read_info, path)))]
    facts.game = infos[-1].game if infos else None
    facts.trainings = [_training(info) for info in infos]
    facts.journal = readable(facts, lambda: read_journal(run.models)) or []
    if models:
        facts.champion = readable(facts, lambda: run.resolve_champion().name)
    files = look_at(run.folder)
    facts.shards = files.shards
    facts.warnings += map(str, files.unreadable)
    _read_games(facts, progress)
    _read_matches(facts, progress)
    facts.seconds = time_spent(facts)
    facts.warnings = list(dict.fromkeys(facts.warnings))
    return facts


def readable(facts: Facts, read: Callable[[], T]) -> T | None:
    """The result of read(); None and a warning if the file is damaged or unreadable."""
    try:
        return read()
    except (MuGoError, OSError) as error:
        facts.warnings.append(str(error))
        return None


def _training(info: ModelInfo) -> Training:
    metrics = info.manifest.get("metrics")
    seconds, speed = (info.manifest.get(name) for name in ("seconds", "samples_per_second"))
    size = "b{blocks}c{channels}".format_map({"blocks": "?", "channels": "?", **info.architecture})
    return Training(
        model=info.name,
        number=info.number,
        created=parse_time(info.created),
        seconds=float(seconds) if isinstance(seconds, int | float) else None,
        samples_per_second=float(speed) if isinstance(speed, int | float) and speed > 0 else None,
        size=size,
        metrics={k: v for k, v in metrics.items() if isinstance(v, dict)} if isinstance(metrics, dict) else {},
    )


# Games


def _read_games(facts: Facts, progress: Progress) -> None:
    groups: dict[int, list[SizedShard]] = defaultdict(list)
    for shard in facts.shards:
        groups[shard.generation].append(shard)
    step = math.ceil(len(facts.shards) / MOST_META)
    samples = {number: spread(of_one, math.ceil(len(of_one) / step)) for number, of_one in groups.items()}
    shares = {number: len(sample) / len(groups[number]) for number, sample in samples.items()}
    chosen = [shard for sample in samples.values() for shard in sample]
    progress.start("reading sidecars", total=len(chosen), unit="shards")
    metas: dict[int, list[ShardMeta]] = defaultdict(list)
    for shard in chosen:
        meta = meta_of(shard, facts.run.games, lambda error: facts.warnings.append(str(error)))
        if meta is not None and _is_of_run(facts, meta):
            metas[meta.generation].append(meta)
        progress.advance()
    progress.finish()
    facts.metas = dict(sorted(metas.items()))
    pruned = readable(facts, partial(read_pruned, facts.run.games)) or Pruned()
    facts.share_read = len(chosen) / len(facts.shards) if facts.shards else 1.0
    per_generation = max(1, MOST_SHARDS // max(len(facts.metas), 1))
    opened = {number: spread(of_one, per_generation) for number, of_one in facts.metas.items()}
    num_read, num_opened = (sum(map(len, of_all.values())) for of_all in (facts.metas, opened))
    facts.share_opened = facts.share_read * num_opened / num_read if num_read else 1.0
    before = pruned.by_generation()
    progress.start("reading games", total=num_opened, unit="shards")
    for number, of_one in facts.metas.items():
        read = []
        for meta in opened[number]:
            if (found := readable(facts, partial(read_shard, meta.path, meta))) is not None:
                read.append(found)
            progress.advance()
        facts.games.append(_games(facts, number, of_one, read, shares, pruned, before))
    progress.finish()


def _is_of_run(facts: Facts, meta: ShardMeta) -> bool:
    return facts.game is None or bool(readable(facts, partial(are_related, meta.game, facts.game)))


def _games(
    facts: Facts,
    number: int,
    metas: Sequence[ShardMeta],
    shards: Sequence[Shard],
    shares: Mapping[int, float],
    pruned: Pruned,
    before: tuple[Mapping[int, int], Mapping[int, int]],
) -> Games:
    """metas, shards: this generation's sample. shares: the sampled share of shards, by the generation of their folder.

    before: (games, positions) from Pruned.by_generation(): those that prune removed and the sample that it kept.
    """
    lengths = np.concatenate([meta.lengths for meta in metas])
    low, median, high = (float(one) for one in np.percentile(lengths, (10, 50, 90)))
    games, positions = (counts.get(number, 0) for counts in before)
    others = [(meta, shares[generation_of(meta.path.parts[-3])]) for meta in metas if not pruned.has(meta.path)]
    games += round(sum(meta.games / share for meta, share in others))
    positions += round(sum(meta.positions / share for meta, share in others))
    found = Games(number, games, positions, (low, median, high))
    if not shards:
        return found
    results, ends = (np.concatenate([getattr(shard, name) for shard in shards]) for name in ("results", "ends"))
    entropy, surprise = _of_searches(facts, shards)
    return replace(
        found,
        first=float((results > 0).mean()),
        drawn=float((results == 0).mean()),
        resigned=float((ends == End.RESIGNED).mean()),
        settled=float((ends == End.SETTLED).mean()),
        at_limit=float((ends == End.MOVE_LIMIT).mean()),
        wrong=wrong_resignations(shards),
        policy_entropy=entropy,
        surprise=surprise,
        tracked=of_shards(list(shards)[::-1]),
    )


def _of_searches(facts: Facts, shards: Sequence[Shard]) -> tuple[float | None, float | None]:
    """Means of (policy entropy, surprise); None if no search was recorded, as by methods that record only steps."""
    entropies, surprises = [np.zeros(0)], [np.zeros(0)]
    for shard in shards:
        method = readable(facts, partial(method_named, shard.header["method"]))
        if method is not None and not method.steps_only:
            chosen = (shard.flags & POLICY_COUNTS) != 0
            entropies.append(policy_entropies(shard)[chosen])
            surprises.append(shard.surprises[chosen])
    entropy, surprise = np.concatenate(entropies), np.concatenate(surprises)
    return float(entropy.mean()) if entropy.size else None, float(surprise.mean()) if surprise.any() else None


def policy_entropies(shard: Shard) -> NDArray[np.float64]:
    """[M] entropy of the visits at each root, in nats; 0 without visits."""
    counts = shard.visit_counts.astype(np.float64)
    logs = np.log(counts, where=counts > 0, out=np.zeros_like(counts))
    sums, weighted = (np.concatenate([[0.0], np.cumsum(one)]) for one in (counts, counts * logs))
    total = sums[shard.visit_offsets[1:]] - sums[shard.visit_offsets[:-1]]
    of_logs = weighted[shard.visit_offsets[1:]] - weighted[shard.visit_offsets[:-1]]
    safe = np.maximum(total, 1)
    return np.where(total > 0, np.maximum(np.log(safe) - of_logs / safe, 0), 0.0)


def wrong_resignations(shards: Sequence[Shard]) -> tuple[int, int] | None:
    """(wrong, all) by each shard's own threshold; None without a threshold or without games played on."""
    wrong = made = games = 0
    for shard in shards:
        threshold = shard.header["provenance"].get(RESIGN_THRESHOLD)
        if not isinstance(threshold, int | float) or threshold <= NEVER:
            continue
        found = calibrate(no_resign_games(shard), 1.0, float(threshold), float(threshold))
        wrong, made, games = wrong + found.wrong_resignations, made + found.resignations, games + found.games
    return (wrong, made) if games else None


# Matches


def _read_matches(facts: Facts, progress: Progress) -> None:
    matches, _ = read_matches(facts.run.match_folders, _Collecting(facts.warnings))
    matches = [match for match in matches if facts.game is None or match.header.game == facts.game]
    if matches:
        facts.rated = readable(facts, lambda: rate(matches))
    promoted = {str(line.get("match", "")).rpartition("/")[2]: parse_time(line.get("time")) for line in facts.journal}
    for match in matches:
        if match.folder.parent == facts.run.matches and match.header.is_of_models:
            gate = readable(facts, partial(_gate, match, promoted))
            if gate is not None:
                facts.gates.append(gate)


class _Collecting(Progress):
    """Collects warnings and shows nothing."""

    def __init__(self, warnings: list[str]) -> None:
        self._warnings = warnings

    def warn(self, text: str) -> None:
        self._warnings.append(text)


def _gate(match: MatchResults, promoted: Mapping[str, datetime | None]) -> Gate:
    """promoted: promotion times by match name, for summaries without a time."""
    match = match.with_summary()
    score = score_of(counted_games(match))
    low, high = wilson_interval(score)
    summary = match.summary
    decided = None if summary is None else parse_time(summary.get("decided")) or promoted.get(match.folder.name)
    is_promoted = None if summary is None else bool(summary.get("promoted"))
    return Gate(match, score.wins, score.draws, score.losses, score.share, low, high, decided, is_promoted)


# Time


def time_spent(facts: Facts) -> dict[int, dict[str, float]]:
    """Seconds of each stage by generation. A generation lasts from the end of its model's training to the next one's.

    Assumes the order of a single loop: the model's match, self-play up to the last shard, gather, the next training.
    If stages run concurrently, the later one gets the time. Breaks longer than PAUSE are "pause", except during
    training. If a manifest doesn't tell the duration of training, gather and training are "other".
    """
    models = [one for one in facts.trainings if one.created is not None]
    decided: dict[str, datetime] = {}  # of each model's first match, the one for its promotion
    for gate in facts.gates:
        if gate.decided:
            challenger = gate.match.header.challenger
            decided[challenger] = min(gate.decided, decided.get(challenger, gate.decided))
    spent = {}
    times = sorted(shard.time for shard in facts.shards)
    for model, after in zip(models, [*models[1:], None], strict=False):
        begin = model.created
        assert begin is not None
        end = after.created if after else None
        shards = times[bisect_right(times, begin) : None if end is None else bisect_right(times, end)]
        if end is None and not shards:
            continue
        finish = end or shards[-1]
        known = after is not None and after.seconds is not None
        trains_from = finish - timedelta(seconds=after.seconds or 0) if after else finish
        match_end = decided.get(model.model) if model.number else None
        played_from = min(max(match_end or begin, begin), trains_from)
        played_to = max(min(shards[-1], trains_from), played_from) if shards else played_from
        in_play = _pauses([played_from, *(time for time in shards if played_from < time < played_to), played_to])
        behind = _pauses([played_to, trains_from])
        gathered = max((trains_from - played_to).total_seconds() - behind, 0.0)
        spent[model.number] = {
            "evaluate": (played_from - begin).total_seconds(),
            "selfplay": max((played_to - played_from).total_seconds() - in_play, 0.0),
            "gather": gathered if known else 0.0,
            "train": (finish - trains_from).total_seconds() if known else 0.0,
            "other": 0.0 if known else gathered,
            "pause": in_play + behind,
        }
    return spent


def _pauses(times: Sequence[datetime]) -> float:
    gaps = ((later - earlier) for earlier, later in pairwise(times))
    return sum(gap.total_seconds() for gap in gaps if gap > PAUSE)
