"""What a report says, as numbers: generations of games, trainings, matches, ratings, time.

Terms: a *generation* is that of the games, the number of the newest model when they were begun. Of runs with more
shards than MOST_META, shards spread evenly over each generation stand for it, and of more than MOST_SHARDS so for what
only the games themselves say: `share_read` and `share_opened`.
What no file says is None or left out. Damaged files become warnings.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
from pipeline.methods.resignation import EFFECTIVE, NEVER, calibrate, watched
from pipeline.progress import Progress
from pipeline.ratings.command import Rated, rate, read_matches
from pipeline.reports.run_files import SizedShard, look_at, time_in
from pipeline.reports.show_match import counted_games
from pipeline.reports.tracked import Tracked, of_shards
from pipeline.run.match_results import MatchResults
from pipeline.run.models import ModelInfo, list_models, read_info, read_journal
from pipeline.run.order import generation_of
from pipeline.run.pruned import Pruned, read_pruned
from pipeline.run.run import Run
from pipeline.run.shards import POLICY_COUNTS, End, Shard, ShardMeta, meta_of, read_shard

MOST_META = 4_000  # sidecars that are read, and one of each generation at least
MOST_SHARDS = 400  # shards that are opened, and one of each generation at least
PAUSE = timedelta(hours=1)  # a loop that writes nothing for this long was not running
STAGES = ("selfplay", "gather", "train", "evaluate")

T = TypeVar("T")


@dataclass(frozen=True)
class Games:
    """The self-play of one generation; lengths are of the shards read, what stands behind them of those opened.

    lengths           plies, at the 10th, 50th and 90th percentile
    first, drawn      shares of games that the first player won, and that were drawn
    resigned, settled, at_limit  shares of games that ended so; the rest ended by the rules
    wrong             (resignations that would have been wrong, all that would have been made), among the games that
                      were played to their end to find out
    policy_entropy    of the policies of searches that the network learns from, in nats
    surprise          mean KL divergence of their policy target from the network's, in nats
    tracked           what the method says of them, by source and name
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
    tracked: Tracked = field(default_factory=dict)


@dataclass(frozen=True)
class Training:
    """metrics: "train", "holdout_before", "holdout_after" → name → mean, as the manifest has them."""

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
    """A match of a challenger with the champion; counts and points are the challenger's."""

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
    """seconds: by generation, of each stage and of "pause" and "other".

    share_read    of the shards: those whose sidecars were read; games, positions and lengths rest on them
    share_opened  of the shards: those whose games were read; all else that is said of games rests on them
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
    """Raises nothing for damaged files: see Facts.warnings."""
    facts = Facts(run, now)
    models = _readable(facts, lambda: list_models(run.models)) or []
    infos = [info for path in models if (info := _readable(facts, partial(read_info, path)))]
    facts.game = infos[-1].game if infos else None
    facts.trainings = [_training(info) for info in infos]
    facts.journal = _readable(facts, lambda: read_journal(run.models)) or []
    if models:
        facts.champion = _readable(facts, lambda: run.resolve_champion().name)
    files = look_at(run.folder)
    facts.shards = files.shards
    facts.warnings += map(str, files.unreadable)
    _read_games(facts, progress)
    _read_matches(facts, progress)
    facts.seconds = time_spent(facts)
    facts.warnings = list(dict.fromkeys(facts.warnings))
    return facts


def _readable(facts: Facts, read: Callable[[], T]) -> T | None:
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
        created=time_in(info.created),
        seconds=float(seconds) if isinstance(seconds, int | float) else None,
        samples_per_second=float(speed) if isinstance(speed, int | float) and speed > 0 else None,
        size=size,
        metrics={k: v for k, v in metrics.items() if isinstance(v, dict)} if isinstance(metrics, dict) else {},
    )


# Games


def spread(items: Sequence[T], most: int) -> list[T]:
    """At most that many of them, spread evenly, the last among them."""
    return list(items[:: -max(1, math.ceil(len(items) / max(most, 1)))])[::-1]


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
    pruned = _readable(facts, partial(read_pruned, facts.run.games)) or Pruned()
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
            if (found := _readable(facts, partial(read_shard, meta.path, meta))) is not None:
                read.append(found)
            progress.advance()
        facts.games.append(_games(facts, number, of_one, read, shares, pruned, before))
    progress.finish()


def _is_of_run(facts: Facts, meta: ShardMeta) -> bool:
    return facts.game is None or bool(_readable(facts, partial(are_related, meta.game, facts.game)))


def _games(
    facts: Facts,
    number: int,
    metas: Sequence[ShardMeta],
    shards: Sequence[Shard],
    shares: Mapping[int, float],
    pruned: Pruned,
    before: tuple[Mapping[int, int], Mapping[int, int]],
) -> Games:
    """shares: of the shards that metas were sampled from, by the generation of their folder.
    before: of Pruned.by_generation(), what prune took away and the sample that it left.
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
    return Games(
        **{name: getattr(found, name) for name in ("generation", "games", "positions", "lengths")},
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
    """(entropy of their policies, surprise), means; None where no search was recorded, as by methods of steps alone."""
    entropies, surprises = [np.zeros(0)], [np.zeros(0)]
    for shard in shards:
        method = _readable(facts, partial(method_named, shard.header["method"]))
        if method is not None and not method.steps_only:
            chosen = (shard.flags & POLICY_COUNTS) != 0
            entropies.append(policy_entropies(shard)[chosen])
            surprises.append(shard.surprises[chosen])
    entropy, surprise = np.concatenate(entropies), np.concatenate(surprises)
    return float(entropy.mean()) if entropy.size else None, float(surprise.mean()) if surprise.any() else None


def policy_entropies(shard: Shard) -> NDArray[np.float64]:
    """[M] of the visits at each root, in nats; 0 where nothing was visited."""
    counts = shard.visit_counts.astype(np.float64)
    logs = np.log(counts, where=counts > 0, out=np.zeros_like(counts))
    sums, weighted = (np.concatenate([[0.0], np.cumsum(one)]) for one in (counts, counts * logs))
    total = sums[shard.visit_offsets[1:]] - sums[shard.visit_offsets[:-1]]
    of_logs = weighted[shard.visit_offsets[1:]] - weighted[shard.visit_offsets[:-1]]
    safe = np.maximum(total, 1)
    return np.where(total > 0, np.maximum(np.log(safe) - of_logs / safe, 0), 0.0)


def wrong_resignations(shards: Sequence[Shard]) -> tuple[int, int] | None:
    """Each shard's games by the threshold of that shard; None where nobody could resign or none was held back."""
    wrong = made = games = 0
    for shard in shards:
        threshold = shard.header["provenance"].get(EFFECTIVE)
        if not isinstance(threshold, int | float) or threshold <= NEVER:
            continue
        found = calibrate(watched(shard), 1.0, float(threshold), float(threshold))
        wrong, made, games = wrong + found.wrong, made + found.resignations, games + found.games
    return (wrong, made) if games else None


# Matches


def _read_matches(facts: Facts, progress: Progress) -> None:
    matches, _ = read_matches(facts.run.match_folders, _Collecting(facts.warnings))
    matches = [match for match in matches if facts.game is None or match.header.game == facts.game]
    if matches:
        facts.rated = _readable(facts, lambda: rate(matches))
    promoted = {str(line.get("match", "")).rpartition("/")[2]: time_in(line.get("time")) for line in facts.journal}
    for match in matches:
        if match.folder.parent == facts.run.matches and match.header.is_of_models:
            gate = _readable(facts, partial(_gate, match, promoted))
            if gate is not None:
                facts.gates.append(gate)


class _Collecting(Progress):
    """Keeps warnings, shows nothing."""

    def __init__(self, warnings: list[str]) -> None:
        self._warnings = warnings

    def warn(self, text: str) -> None:
        self._warnings.append(text)


def _gate(match: MatchResults, promoted: Mapping[str, datetime | None]) -> Gate:
    """promoted: when the matches of these names were won, for those whose summary doesn't say it."""
    match = match.with_summary()
    score = score_of(counted_games(match))
    low, high = wilson_interval(score)
    summary = match.summary
    return Gate(
        match,
        score.wins,
        score.draws,
        score.losses,
        score.share,
        low,
        high,
        None if summary is None else time_in(summary.get("decided")) or promoted.get(match.folder.name),
        None if summary is None else bool(summary.get("promoted")),
    )


# Time


def time_spent(facts: Facts) -> dict[int, dict[str, float]]:
    """Seconds by the generation of the games: from one model's end of training to the next one's.

    After a model come its match, then self-play up to the last shard, then gather, then the next training. That is how
    one loop works; where stages run side by side, the later one gets the time. Breaks of more than PAUSE, but for
    training, are "pause". Where a manifest doesn't say how long training took, gather and training are "other".
    """
    models = [one for one in facts.trainings if one.created is not None]
    decided: dict[str, datetime] = {}  # a model's first match is the one for its promotion
    for gate in facts.gates:
        if gate.decided:
            challenger = gate.match.header.challenger
            decided[challenger] = min(gate.decided, decided.get(challenger, gate.decided))
    spent = {}
    times = sorted(shard.time for shard in facts.shards)
    for model, after in _with_next(models):
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


def _with_next(models: Sequence[Training]) -> Iterator[tuple[Training, Training | None]]:
    yield from pairwise([*models, None])  # type: ignore[misc]


def _pauses(times: Sequence[datetime]) -> float:
    gaps = ((later - earlier) for earlier, later in pairwise(times))
    return sum(gap.total_seconds() for gap in gaps if gap > PAUSE)
