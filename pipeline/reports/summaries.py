"""A command's summary as text: short by default, every field on request, exact as JSON.

A summary is a frozen dataclass. Its method ``lines()``, if it has one, returns the short form: sentences with units.
Other summaries are always shown in full, one line per field.
"""

from __future__ import annotations

import dataclasses
import json
from datetime import datetime
from typing import Any

import numpy as np
from pydantic import BaseModel

from pipeline.phrases import counted, percent
from pipeline.ratings.command import RatingsSummary
from pipeline.ratings.pool import PoolSummary
from pipeline.reports.tables import described, flattened, table
from pipeline.run.evaluations import Counts, Evaluation, Rates

EVICTION = (
    "when the pool is full, the lowest rated leaves, but never the newest member, a built-in player or the champion; "
    "unrated members count as the mean of all rated players; of equals the oldest member leaves; ratings are kept"
)


def summary_text(summary: Any, whole: bool = False) -> str:
    """whole: every field instead of the short form."""
    if isinstance(summary, RatingsSummary):
        return ratings_table(summary)
    if isinstance(summary, PoolSummary):
        return pool_table(summary)
    if isinstance(summary, Evaluation) and not whole:
        return evaluation_text(summary)
    if hasattr(summary, "lines") and not whole:
        return "\n".join(summary.lines())
    facts = flattened(_known(json.loads(summary_json(summary))))
    return described({name.replace("_", " "): text for name, text in facts if text})


def _known(value: Any) -> Any:
    """Without what is unknown or wasn't measured: null."""
    if not isinstance(value, dict):
        return value
    return {name: _known(one) for name, one in value.items() if one is not None}


def summary_json(summary: Any) -> str:
    def plain(value: Any) -> Any:
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return dataclasses.asdict(value)
        if isinstance(value, BaseModel):
            return value.model_dump(mode="json")
        if isinstance(value, datetime):
            return value.isoformat(timespec="seconds")
        return value.item() if isinstance(value, np.generic) else str(value)  # a path

    return json.dumps(summary, indent=2, default=plain)


def ratings_table(summary: RatingsSummary) -> str:
    """One block per group of players that games connect, then the scale, the source, and the warnings."""
    in_points = any(row.points_per_game is not None for row in summary.rows)
    header = ("rank", "player", "rating", "+-", "games", "won", "drawn", "lost", "average opponent", "points a game")
    digits = 1 if summary.system == "trueskill" else 0
    rows = [
        (
            str(row.rank),
            row.name,
            _number(row.rating, digits),
            "-" if row.error is None else _number(row.error, digits),
            str(row.games),
            *(f"{count / row.games:.1%}" for count in (row.wins, row.draws, row.losses)),
            _number(row.average_opponent, digits),
            ("-" if in_points else "") if row.points_per_game is None else f"{row.points_per_game:+.3f}",
        )
        for row in summary.rows
    ]
    first, *aligned = table(rows, header).splitlines()
    lines = [first]
    for i, (row, line) in enumerate(zip(summary.rows, aligned, strict=True)):
        lines += ["", line] if i and row.group != summary.rows[i - 1].group else [line]
    lines += ["", _scale(summary) + ("; from games won, however many points they count" if in_points else "")]
    played = f"{counted(summary.games, 'game')} of {counted(summary.matches, 'match', 'matches')}"
    kept = f"by all three systems: {summary.path}" if summary.path else "not written; --output FILE keeps these ratings"
    lines.append(f"{summary.game}, {played}; {kept}")
    if summary.left_out:
        lines.append(
            f"{counted(summary.left_out, 'other rated player')} left out here; in {summary.path} +- is relative to the "
            "mean of all"
        )
    if summary.matches_skipped:
        lines.append(f"{counted(summary.matches_skipped, 'damaged match', 'damaged matches')} skipped")
    return "\n".join([*lines, *(f"note: {warning}" for warning in summary.warnings)])


def pool_table(summary: PoolSummary) -> str:
    """What the command did, and the members of the pool."""
    lines = [f"already a member: {', '.join(summary.already)}"] if summary.already else []
    lines += [
        f"{what}: {', '.join(names)}"
        for what, names in (("added", summary.added), ("removed", summary.removed), ("evicted", summary.evicted))
        if names
    ]
    if summary.evicted:
        lines.append(f"  ({EVICTION})")
    rows = [
        (
            row.name,
            row.rated_as or "unrated",
            "-" if row.rating is None else _number(row.rating, 0),
            "-" if row.error is None else _number(row.error, 0),
            str(row.games),
            row.spec,
        )
        for row in summary.members
    ]
    header = ("member", "rated as", "rating", "+-", "games", "player")
    lines.append(table(rows, header) if rows else "nobody is in the pool")
    lines.append(f"{len(rows)} of at most {summary.capacity}: {summary.path}")
    return "\n".join(lines)


def _scale(summary: RatingsSummary) -> str:
    if summary.system == "elo":
        return "Elo, updated after each match: everybody starts at 1500, K 32; a match moves a rating by at most 32"
    if summary.system == "trueskill":
        return "TrueSkill, updated after each game: mu, +- 95 %; starts at 25 +- 16, a model at its parent's rating"
    return f"Bradley-Terry in Elo, {summary.anchor}; +- 95 %, relative to the mean of the players listed together"


def _number(value: float, digits: int) -> str:
    """Rounded; never "-0"."""
    return f"{round(value, digits) + 0.0:.{digits}f}"


def evaluation_text(found: Evaluation) -> str:
    """A table of opponents, a line per strategy, and a line per skipped match."""
    lines = [_title(found)]
    if found.results:
        in_points = any(one.points_per_game is not None for one in found.results)
        share = "share of games" if in_points else "points"
        rows = [
            (
                one.opponent,
                str(one.games),
                *map(str, (one.wins, one.draws, one.losses)),
                _share(one),
                _points(one.moving_first),
                _points(one.moving_second),
                f"{one.average_length:.1f} ({one.shortest}–{one.longest})",
                f"{one.elo_before:.0f} → {one.elo_after:.0f}",
                "" if one.points_per_game is None else f"{one.points_per_game:+.3f}",
            )
            for one in found.results
        ]
        columns = ("opponent", "games", "won", "drawn", "lost", share, "first", "second", "plies", "Elo")
        lines += [table(rows, (*columns, "points a game"))]
        for one in found.results:
            counts = one.duplicates, one.failed, one.ends.get("move_limit", 0)
            odd = zip(counts, ("repeated another", "failed twice, not counted", "hit the move limit"), strict=True)
            if remarks := [f"{counted(number, 'game')} {what}" for number, what in odd if number]:
                lines.append(f"note: {one.opponent}: {', '.join(remarks)}")
    for outcome in found.outcomes:
        shown = f", {_share(outcome)} of {counted(outcome.games, 'game')}" if outcome.games else ""
        lines.append(f"{outcome.strategy}: {outcome.conclusion}{shown}")
    lines += [
        f"skipped: {one.opponent}: {one.reason}{'; the next run tries again' if one.again else ''}"
        for one in found.skipped
    ]
    return "\n".join(lines)


def _title(found: Evaluation) -> str:
    title = f"{found.model} (generation {found.generation}, {found.game})"
    if found.finished is None:
        return f"{title}: being evaluated by {', '.join(plan.strategy for plan in found.strategies)}"
    elo = f"Elo {found.elo_before:.0f} → {found.elo_before if found.elo_after is None else found.elo_after:.0f}"
    if found.rating is None:
        return f"{title}: {elo}"
    error = "" if found.rating_error is None else f" +- {found.rating_error:.0f}"
    return f"{title}: {elo}; rated {found.rating:+.0f}{error}"


def _share(rates: Rates) -> str:
    return f"{percent(rates.share)} ({100 * rates.low:.0f}–{100 * rates.high:.0f})"


def _points(counts: Counts) -> str:
    return percent((counts.wins + counts.draws / 2) / counts.games, 0) if counts.games else "-"
