"""``status --prometheus``: the status in Prometheus's text exposition format.

Names begin with mugo_; units are base units (seconds, bytes, ratios). Unknown values are omitted.
Source: Prometheus, "Exposition formats", version 0.0.4, and "Metric and label naming".
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from pipeline.reports.status import RUNNING, UNKNOWN, StatusSummary

STAGES = ("selfplay", "gather", "train", "evaluate", "watch", "tournament")
HOUR = 3600.0

Samples = list[tuple[dict[str, str], float | None]]
"""(labels, value) of one metric; None: unknown."""


def exposition(summary: StatusSummary) -> str:
    """The whole text, ending in a newline."""
    lines = []
    for name, kind, meaning, samples in _metrics(summary):
        known = [(labels, value) for labels, value in samples if value is not None]
        if known:
            lines += [f"# HELP mugo_{name} {_escaped(meaning)}", f"# TYPE mugo_{name} {kind}"]
            for labels, value in known:
                pairs = ",".join(f'{label}="{_escaped(text, quoted=True)}"' for label, text in labels.items())
                number = value if isinstance(value, int) else float(value)  # numpy's would be written otherwise
                lines.append(f"mugo_{name}{f'{{{pairs}}}' if pairs else ''} {number!r}")
    return "\n".join(lines) + "\n"


def _metrics(summary: StatusSummary) -> Iterator[tuple[str, str, str, Samples]]:
    """(name, type, help, samples)"""
    play, window, disk = summary.play, summary.window, summary.disk

    def gauge(name: str, meaning: str, value: float | None) -> tuple[str, str, str, Samples]:
        return name, "gauge", meaning, [({}, value)]

    about = {"directory": str(summary.directory), "game": summary.game or "", "champion": summary.champion or ""}
    yield "info", "gauge", "The run, its game and its champion; always 1.", [(about, 1)]
    yield gauge("generation", "Generation of the newest model.", summary.generation)
    running = None if summary.loop == UNKNOWN else int(summary.loop == RUNNING)
    yield gauge("loop_running", "1 if a process of this machine holds the loop's lock.", running)
    stages: Samples = [({"stage": name}, int(name in summary.stages)) for name in STAGES]
    known = stages if summary.stage != UNKNOWN else []
    yield "stage_running", "gauge", "1 for each running stage.", known
    since = _timestamp(summary.champion_since)
    yield gauge("champion_since_timestamp_seconds", "When the champion was promoted.", since)
    yield "promotions_total", "counter", "Promotions so far, without the first model.", [({}, summary.promotions)]
    yield gauge("positions", "Positions of all games so far; estimated if there are many new shards.", play.positions)
    yield gauge("shards", "Game shards on disk.", play.shards)
    yield gauge("newest_shard_timestamp_seconds", "When the newest shard was written.", _timestamp(play.newest_shard))
    for name, rate in (("games", play.games_per_hour), ("positions", play.positions_per_hour)):
        per_second = None if rate is None else rate / HOUR
        yield gauge(f"{name}_per_second", f"Rate of {name} over the last hour, all stages included.", per_second)
    evaluations = play.evaluations_per_second
    yield gauge("evaluations_per_second", "Rate of evaluations during self-play.", evaluations)
    if window is not None:
        yield gauge("window_positions", "Positions in the newest model's window.", window.positions)
        yield gauge("window_capacity_positions", "Capacity of that window.", window.capacity)
        yield gauge("window_max_positions", "Maximum capacity of the window.", window.max_positions)
    tracked: Samples = [
        ({"source": source, "name": name}, value)
        for source, found in summary.tracked.numbers.items()
        for name, value in found.items()
    ]
    yield "tracked", "gauge", "The method's measures of the newest games, by source.", tracked
    for one in summary.trainings[-1:]:
        losses: Samples = [
            ({"model": one.model, "term": term, "set": part}, getattr(measure, part))
            for term, measure in one.measures.items()
            for part in ("training", "holdout")
        ]
        yield "loss", "gauge", "Losses and other measures of the newest model at the end of its training.", losses
    if (match := summary.match) is not None:
        players = {"challenger": match.challenger, "champion": match.champion}
        counts = (("won", match.wins), ("drawn", match.draws), ("lost", match.losses))
        games: Samples = [({**players, "result": name}, count) for name, count in counts]
        yield "match_games", "gauge", "Games of the last match, by the challenger's result.", games
        for name, meaning, share in (
            ("ratio", "Share of the points, 1 for any win", match.points_share),
            ("low_ratio", "Lower end of its 95 % interval", match.points_share_low),
            ("high_ratio", "Upper end of its 95 % interval", match.points_share_high),
            ("needed_ratio", "Share that promotes", match.points_share_needed),
        ):
            text = f"{meaning}, of the challenger in the last match."
            yield f"match_points_{name}", "gauge", text, [(players, share)]
    ratings: Samples = [({"player": one.name}, one.bradley_terry) for one in summary.ratings]
    yield "rating_elo", "gauge", "Bradley-Terry ratings of the best players.", ratings
    used: Samples = [({"folder": folder}, size) for folder, size in disk.used_bytes.items()]
    yield "disk_used_bytes", "gauge", "Size of the run's files.", used
    yield gauge("disk_free_bytes", "Free space on the disk of the run.", disk.free_bytes)
    yield gauge("disk_growth_bytes_per_second", "Growth rate of games and models.", disk.bytes_per_second)
    yield gauge("disk_full_in_seconds", "Time until the disk is full at this rate.", disk.seconds_until_full)
    seen: Samples = [({"worker": one.worker}, _timestamp(one.newest_shard)) for one in summary.workers]
    yield "worker_newest_shard_timestamp_seconds", "gauge", "When each worker wrote its newest shard.", seen
    yield gauge("warnings", "Number of warnings on the status screen.", len(summary.warnings))


def _timestamp(time: datetime | None) -> float | None:
    return None if time is None else time.timestamp()


def _escaped(text: str, quoted: bool = False) -> str:
    """Escapes backslashes and line feeds, and in quoted label values also quotes."""
    text = text.replace("\\", r"\\").replace("\n", r"\n")
    return text.replace('"', r"\"") if quoted else text
