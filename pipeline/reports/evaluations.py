"""The result of ``evaluate --watch`` for one model as text: its opponents and the conclusion of each strategy."""

from __future__ import annotations

from pipeline.phrases import counted, percent
from pipeline.reports.tables import table
from pipeline.run.evaluations import Counts, Evaluation, Rates


def evaluation_text(found: Evaluation) -> str:
    """A table of opponents, a line per strategy, and a line per skipped match."""
    lines = [_title(found)]
    if found.results:
        in_points = any(one.points_per_game is not None for one in found.results)
        share, more = ("share of games", ["points a game"]) if in_points else ("points", [])
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
                *([f"{one.points_per_game:+.3f}"] if in_points else []),
            )
            for one in found.results
        ]
        header = ("opponent", "games", "won", "drawn", "lost", share, "first", "second", "plies", "Elo", *more)
        lines += [table(rows, header)]
        lines += [
            f"note: {one.opponent}: {', '.join(remarks)}"
            for one in found.results
            if (remarks := _remarks(one.duplicates, one.failed, one.ends.get("move_limit", 0)))
        ]
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


def _remarks(duplicates: int, failed: int, limited: int) -> list[str]:
    counts = ((duplicates, "repeated another"), (failed, "failed twice, not counted"), (limited, "hit the move limit"))
    return [f"{counted(number, 'game')} {what}" for number, what in counts if number]
