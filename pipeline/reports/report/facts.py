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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.games.specs import are_related
from pipeline.methods.named import method_named
from pipeline.methods.resignation import NEVER, RESIGN_THRESHOLD, calibrate, no_resign_games
from pipeline.progress import Progress
from pipeline.ratings.command import Rated, rate, read_matches
from pipeline.reports.reading import Reading, ScoredMatch, number_in, parse_time
from pipeline.reports.run_files import SizedShard, scan_run, spread
from pipeline.reports.tracked import Tracked, of_shards
from pipeline.run.layout import Run
from pipeline.run.models import ModelInfo
from pipeline.run.order import generation_of
from pipeline.run.pruned import Pruned, read_pruned
from pipeline.run.shards import POLICY_COUNTS, End, Shard, ShardMeta, read_shard

MOST_META = 4_000  # sidecars that are read; at least one of each generation
MOST_SHARDS = 400  # shards that are opened; at least one of each generation
PAUSE = timedelta(hours=1)  # a loop that writes nothing for this long wasn't running
STAGES = ("selfplay", "gather", "train", "evaluate")


WINNERS = ("first player wins", "drawn", "second player wins")
ENDS = {
    "by the rules": End.PLAYED_OUT,
    "nothing left to decide": End.SETTLED,
    "resignation": End.RESIGNED,
    "move limit": End.MOVE_LIMIT,
}


@dataclass(frozen=True)
class Games:
    """The self-play of one generation. Lengths come from the sidecars read, the fields after it from the shards opened.

    lengths           plies, at the 10th, 50th and 90th percentile
    winners, ends     shares of games, by the names in WINNERS and ENDS; empty if no shard was opened
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
    winners: Mapping[str, float] = field(default_factory=dict)
    ends: Mapping[str, float] = field(default_factory=dict)
    wrong: tuple[int, int] | None = None
    policy_entropy: float | None = None
    surprise: float | None = None
    tracked: Tracked = field(default_factory=Tracked)


@dataclass
class Facts:
    """All numbers of a report.

    share_read    share of shards whose sidecars were read, for numbers of games, positions and lengths
    share_opened  share of shards that were opened, for everything else about games
    matches       of models, oldest first: those that may promote
    seconds       by generation: seconds of each stage, of "other" and of "pause"
    metas         sidecars read, by generation
    """

    reading: Reading
    time: datetime
    share_read: float = 1.0
    share_opened: float = 1.0
    games: list[Games] = field(default_factory=list)
    matches: list[ScoredMatch] = field(default_factory=list)
    rated: Rated | None = None
    seconds: dict[int, dict[str, float]] = field(default_factory=dict)
    metas: dict[int, list[ShardMeta]] = field(default_factory=dict)


def collect(run: Run, progress: Progress, now: datetime) -> Facts:
    """The facts of a run. Damaged files become warnings, not errors."""
    facts = Facts(Reading.of(run), now)
    files, reading = scan_run(run.folder), facts.reading
    for error in files.unreadable:
        reading.warn(error)
    _read_games(facts, files.shards, progress)
    matches = read_matches(run.match_folders, reading.warn)
    matches = [match for match in matches if reading.game is None or match.header.game == reading.game]
    facts.rated = reading.readable(rate, matches) if matches else None
    of_models = [one for one in matches if one.folder.parent == run.matches and one.header.is_of_models]
    facts.matches = [found for match in of_models if (found := reading.readable(ScoredMatch.of, match))]
    facts.seconds = time_spent(facts.reading.infos, facts.matches, sorted(shard.time for shard in files.shards))
    return facts


# Games


def _read_games(facts: Facts, shards: Sequence[SizedShard], progress: Progress) -> None:
    reading = facts.reading
    groups: dict[int, list[SizedShard]] = defaultdict(list)
    for shard in shards:
        groups[shard.generation].append(shard)
    step = math.ceil(len(shards) / MOST_META)
    samples = {generation: spread(of_one, math.ceil(len(of_one) / step)) for generation, of_one in groups.items()}
    shares = {generation: len(sample) / len(groups[generation]) for generation, sample in samples.items()}
    chosen = [shard for sample in samples.values() for shard in sample]
    metas: dict[int, list[ShardMeta]] = defaultdict(list)
    for shard in progress.each(chosen, "reading sidecars", "shards"):
        meta = reading.meta(shard)
        if meta and (reading.game is None or reading.readable(are_related, meta.game, reading.game)):
            metas[meta.generation].append(meta)
    facts.metas = dict(sorted(metas.items()))
    pruned = reading.readable(read_pruned, reading.run.games) or Pruned()
    facts.share_read = len(chosen) / len(shards) if shards else 1.0
    per_generation = max(1, MOST_SHARDS // max(len(facts.metas), 1))
    opened = {generation: spread(of_one, per_generation) for generation, of_one in facts.metas.items()}
    num_read, num_opened = (sum(map(len, of_all.values())) for of_all in (facts.metas, opened))
    facts.share_opened = facts.share_read * num_opened / num_read if num_read else 1.0
    # Those that prune removed and the sample that it kept.
    games_before, positions_before = pruned.totals(generation_of)
    progress.start("reading games", total=num_opened, unit="shards")
    for generation, of_one in facts.metas.items():
        read = []
        for meta in opened[generation]:
            if (found := reading.readable(read_shard, meta.path, meta)) is not None:
                read.append(found)
            progress.advance()
        low, median, high = np.percentile(np.concatenate([meta.lengths for meta in of_one]), (10, 50, 90)).tolist()
        others = [(meta, shares[generation_of(meta.path.parts[-3])]) for meta in of_one if not pruned.has(meta.path)]
        games = games_before.get(generation, 0) + round(sum(meta.games / share for meta, share in others))
        positions = positions_before.get(generation, 0) + round(sum(meta.positions / share for meta, share in others))
        opened_facts = _of_shards(reading, read) if read else {}
        facts.games.append(Games(generation, games, positions, (low, median, high), **opened_facts))
    progress.finish()


def _of_shards(reading: Reading, shards: Sequence[Shard]) -> dict[str, Any]:
    """The fields of Games that come from opened shards."""
    results, ends = (np.concatenate([getattr(shard, name) for shard in shards]) for name in ("results", "ends"))
    entropy, surprise = _of_searches(reading, shards)
    winners = (float((np.sign(results) == sign).mean()) for sign in (1, 0, -1))
    return {
        "winners": dict(zip(WINNERS, winners, strict=True)),
        "ends": {name: float((ends == end).mean()) for name, end in ENDS.items()},
        "wrong": wrong_resignations(shards),
        "policy_entropy": entropy,
        "surprise": surprise,
        "tracked": of_shards(shards[::-1]),
    }


def _of_searches(reading: Reading, shards: Sequence[Shard]) -> tuple[float | None, float | None]:
    """Means of (policy entropy, surprise); None if no search was recorded, as by methods that record only steps."""
    entropies, surprises = [np.zeros(0)], [np.zeros(0)]
    for shard in shards:
        method = reading.readable(method_named, shard.header["method"])
        if method is not None and not method.steps_only:
            chosen = (shard.flags & POLICY_COUNTS != 0) & ~shard.of_opponents()  # who may teach, without searching
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


# Time


def time_spent(
    models: Sequence[ModelInfo], matches: Sequence[ScoredMatch], times: Sequence[datetime]
) -> dict[int, dict[str, float]]:
    """Seconds of each stage by generation. A generation lasts from the end of its model's training to the next one's.

    times: of all shards, ascending.
    Assumes the order of a single loop: the model's match, self-play up to the last shard, gather, the next training.
    If stages run concurrently, the later one gets the time. Breaks longer than PAUSE are "pause", except during
    training and matches. If a manifest lacks the duration of the training, gather and training are "other".
    """
    decided: dict[str, tuple[datetime, datetime]] = {}  # end and begin of each model's first match, for its promotion
    for found in matches:
        if time := found.decided:
            header = found.match.header
            times_of = time, parse_time(header.created) or time
            decided[header.challenger] = min(times_of, decided.get(header.challenger, times_of))
    # A branch's models may be newer than those with higher numbers.
    created = sorted(((one, time) for one in models if (time := parse_time(one.created))), key=lambda one: one[1])
    spent: dict[int, dict[str, float]] = {}
    for (model, begin), (after, end) in zip(created, [*created[1:], (None, None)], strict=False):
        shards = times[bisect_right(times, begin) : None if end is None else bisect_right(times, end)]
        match_end, match_begin = decided.get(model.name, (None, None)) if model.number else (None, None)
        finish = end or (shards[-1] if shards else match_end)
        if finish is None:
            continue
        seconds = number_in(after.manifest, "seconds") if after else None
        trains_from = finish - timedelta(seconds=seconds or 0)
        played_from = min(max(match_end or begin, begin), trains_from)
        played_to = max(min(shards[-1], trains_from), played_from) if shards else played_from
        in_play = _pauses([played_from, *(time for time in shards if played_from < time < played_to), played_to])
        behind = _pauses([played_to, trains_from])
        before = _pauses([begin, min(max(match_begin or begin, begin), played_from)])  # a match may take hours
        gathered = max((trains_from - played_to).total_seconds() - behind, 0.0)
        stages = {
            "evaluate": (played_from - begin).total_seconds() - before,
            "selfplay": max((played_to - played_from).total_seconds() - in_play, 0.0),
            "gather": 0.0 if seconds is None else gathered,
            "train": seconds or 0.0,
            "other": gathered if seconds is None else 0.0,
            "pause": before + in_play + behind,
        }
        others = spent.get(model.number, {})
        spent[model.number] = {name: seconds + others.get(name, 0.0) for name, seconds in stages.items()}
    return dict(sorted(spent.items()))


def _pauses(times: Sequence[datetime]) -> float:
    gaps = ((later - earlier) for earlier, later in pairwise(times))
    return sum(gap.total_seconds() for gap in gaps if gap > PAUSE)
