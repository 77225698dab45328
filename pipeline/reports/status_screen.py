"""The screen of ``status``: its facts as rich panels for a terminal. Reads no files."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rich.box import ROUNDED
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.panel import Panel
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from pipeline.phrases import counted, long_duration, measured, percent, printable, results, size, sparkline
from pipeline.reports.status import RUNNING, LastMatch, StatusSummary, Training
from pipeline.reports.tracked import lines
from pipeline.run.evaluations import Evaluation

BAR_WIDTH, WINDOW_WIDTH = 40, 12
NARROW = 60  # columns: below, panels don't stand side by side
WORKERS_SHOWN = 4
PAIRED = 2  # measures of a training shown for both training and held-out games
TITLE, GOOD, BAD, DIM = "bold cyan", "green", "yellow", "dim"

Rows = list[tuple[str, str | Text]]
"""(name, value) of each fact."""


def screen(summary: StatusSummary) -> RenderableType:
    """Warnings, two columns of panels, then the trainings, the last match and evaluation, and ratings.

    A low terminal cuts off the end.
    """
    parts: list[RenderableType] = [_title(summary), _TwoPanels(_now(summary), _play(summary))]
    if summary.warnings:
        parts.insert(1, _panel("warnings", Group(*map(Text, summary.warnings)), f"bold {BAD}", BAD))
    if summary.tracked.numbers:
        parts.append(_panel("newest games", _facts(lines(summary.tracked))))
    if any(one.measures for one in summary.trainings):
        parts.append(_panel("training", _trainings(summary.trainings, summary.champion)))
    if summary.match is not None:
        played = f"{summary.match.games_played} of {counted(summary.match.games, 'game')}"
        parts.append(_panel(f"last match: {played}", _match(summary.match)))
    if summary.evaluation is not None:
        parts.append(_panel("last evaluation beside training", _evaluation(summary.evaluation)))
    if summary.ratings:
        rated = [(one.name, f"{one.bradley_terry:.0f} ± {one.bradley_terry_error:.0f}") for one in summary.ratings]
        parts.append(_panel("ratings (Bradley–Terry, Elo)", _facts(rated)))
    if not summary.warnings:
        parts.append(Padding(Text("no warnings", DIM), (0, 2)))
    return _Printable(Group(*parts))


class _TwoPanels:
    """What happens now, and self-play and disk: side by side, or one below the other on a narrow terminal."""

    def __init__(self, now: Rows, play: Rows) -> None:
        self._now, self._play = now, play

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        is_narrow = options.max_width < NARROW
        height = 0 if is_narrow else max(len(self._now), len(self._play))
        filled = [[*rows, *[("", "")] * (height - len(rows))] for rows in (self._now, self._play)]
        titles = ("now", "self-play and disk")
        panels = [_panel(title, _facts(rows)) for title, rows in zip(titles, filled, strict=True)]
        if is_narrow:
            yield from panels
            return
        grid = Table.grid(expand=True, padding=(0, 0))
        for _ in panels:
            grid.add_column(ratio=1)
        grid.add_row(*panels)
        yield grid


class _Printable:
    """Strips escape sequences from names: rich would pass them to the terminal."""

    def __init__(self, shown: RenderableType) -> None:
        self._shown = shown

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self._shown, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)


def _title(summary: StatusSummary) -> RenderableType:
    text = Text.assemble((str(summary.directory), "bold"), (f"  {summary.game or ''}", DIM))
    return Padding(text.append(f"  {summary.time:%Y-%m-%d %H:%M:%S} UTC", DIM), (0, 2))


def _panel(title: str, content: RenderableType, style: str = TITLE, border: str = DIM) -> Panel:
    return Panel(content, title=Text(title, style), title_align="left", box=ROUNDED, border_style=border)


def _facts(rows: Sequence[tuple[str, str | Text]]) -> Table:
    table = Table.grid(padding=(0, 2))
    for name, value in rows:
        table.add_row(Text(name, DIM), Text(value) if isinstance(value, str) else value)
    return table


def _now(summary: StatusSummary) -> Rows:
    may_have_ended = summary.is_guess and summary.loop != RUNNING
    running = f"{summary.stage}, or has just ended" if may_have_ended else summary.stage
    rows: Rows = [
        ("generation", "unknown" if summary.generation is None else f"{summary.generation:,}"),
        ("running now", Text(running, GOOD if summary.stages else DIM)),
        ("loop", summary.loop),
        ("champion", summary.champion or ("none yet" if summary.generation is None else "lost")),
        ("  since", _ago(summary.champion_since, summary.time)),
        ("promotions", f"{summary.promotions:,}"),
    ]
    if summary.begun:
        rows.append(("unfinished", ", ".join(summary.begun)))
    newest_first = sorted(summary.workers, key=lambda worker: worker.newest_shard, reverse=True)
    for worker in newest_first[:WORKERS_SHOWN]:
        rows.append((f"worker {worker.worker}", f"games {_ago(worker.newest_shard, summary.time)}"))
    if len(newest_first) > WORKERS_SHOWN:
        rows.append(("", f"and {len(newest_first) - WORKERS_SHOWN} more"))
    return rows


def _play(summary: StatusSummary) -> Rows:
    play, window, disk = summary.play, summary.window, summary.disk
    rows: Rows = [("positions", f"{'' if play.positions_exact else 'about '}{play.positions:,}")]
    rates = {
        "games/h": play.games_per_hour,
        "positions/h": play.positions_per_hour,
        "evaluations/s": play.evaluations_per_second,
    }
    rows += [(name, f"{rate:,.0f}") for name, rate in rates.items() if rate is not None]
    if play.cut_short:
        rows.append(("at move limit", percent(play.cut_short, 0)))
    if window is not None:
        in_games = window.games is not None and window.max_games is not None
        if not in_games and window.capacity < window.max_positions:
            rows.append(("window", f"{window.positions:,} positions"))
            rows.append(("", Text(f"it grows to at most {window.max_positions:,}", DIM)))
        else:
            size_now, most = (window.games, window.max_games) if in_games else (window.positions, window.max_positions)
            share = (size_now or 0) / max(1, most or 0)
            filled = round(min(max(share, 0.0), 1.0) * WINDOW_WIDTH)
            bar = ("█" * filled, "cyan"), ("░" * (WINDOW_WIDTH - filled), DIM)
            rows.append(("window", Text.assemble(*bar, f" {percent(share, 0)}")))
            rows.append(("", Text(f"{size_now:,} of {most:,}{' games' if in_games else ''}", DIM)))
    rows.append(("disk", f"{size(sum(disk.used_bytes.values()))}, {size(disk.free_bytes)} free"))
    if disk.bytes_per_second and disk.seconds_until_full is not None:
        rows.append(
            ("  full in", f"{long_duration(disk.seconds_until_full)} (+{size(3600 * disk.bytes_per_second)}/h)")
        )
    return rows


def _trainings(trainings: Sequence[Training], champion: str | None) -> RenderableType:
    """A row per model; columns for what was measured of any of them, and below the course of the first measure.

    Of more than PAIRED measures, those of held-out games alone, if there are any: two columns each wouldn't fit.
    """
    known = {name: measure for one in trainings for name, measure in one.measures.items()}
    many = len(known) > PAIRED
    table = Table(box=None, padding=(0, 2 if many else 3, 0, 0), pad_edge=False, header_style=DIM)
    table.add_column("model")
    columns: dict[tuple[str, str], list[float | None]] = {}  # (metric, part) → its numbers, of each training
    for name, measure in known.items():
        of_parts = {
            part: [getattr(one.measures.get(name), part, None) for one in trainings] for part in ("training", "holdout")
        }
        parts = [part for part, found in of_parts.items() if any(number is not None for number in found)]
        for part in parts[-1:] if many else parts:
            columns[name, part] = of_parts[part]
            title = measure.heading if many or part == "training" else "held out"
            if not many and parts == ["holdout"]:
                title = f"{measure.heading}, held out"
            table.add_column(title, justify="right")
    for i, one in enumerate(trainings):
        mark = Text.assemble(one.model, (" *", GOOD) if one.model == champion else "")
        table.add_row(mark, *(_measured(found[i], known[name].share) for (name, _), found in columns.items()))
    first = next(iter(known))
    part = "holdout" if (first, "holdout") in columns else "training"
    course = [number for number in columns[first, part] if number is not None]
    if len(course) < 2:
        return table
    what = f"{known[first].heading}{' held out' if part == 'holdout' else ''}  "
    note = "; numbers of held-out games, if there are any" if many else ""
    return Group(table, Text.assemble((what, DIM), sparkline(course), (f"   * the champion{note}", DIM)))


def _measured(number: float | None, is_share: bool) -> str:
    return "" if number is None else measured(number, is_share)


def _match(match: LastMatch) -> RenderableType:
    title = Text.assemble((match.challenger, "bold"), " against ", (match.champion, "bold"), ": ")
    title.append(f"{results(match.wins, match.draws, match.losses)}; ")
    title.append(match.decision, GOOD if match.decision == "promoted" else DIM)
    needed = f", needed {percent(match.points_share_needed)}" if match.points_share_needed is not None else ""
    low, high = 100 * match.points_share_low, 100 * match.points_share_high
    said = f" {percent(match.points_share)} ({low:.0f}–{high:.0f}){needed}"
    yet = " yet" if match.decision == "not decided" else ""
    played = Text.assemble(interval_bar(match), said) if match.games_played else Text(f"no game played{yet}")
    return Group(title, played, *(Text(f"{text} {found}") for text, found in match.conditions.items()))


def _evaluation(found: Evaluation) -> RenderableType:
    title = Text.assemble((found.model, "bold"), ": ")
    if found.finished is None:
        return title.append("being evaluated", DIM)
    num_games = sum(one.games for one in found.results)
    games = f"{counted(num_games, 'game')} against {counted(len(found.results), 'player')}"
    title.append(f"{games}; Elo {found.elo_before:.0f} → {found.elo_after or found.elo_before:.0f}")
    if found.skipped:
        title.append(f"; {counted(len(found.skipped), 'match', 'matches')} skipped", DIM)
    return Group(title, *(Text(f"{one.strategy}: {one.conclusion}") for one in found.outcomes))


def interval_bar(match: LastMatch) -> Text:
    """The scale from 0 to 100 % of the points: the interval shaded, ● the score, | the promotion threshold."""

    def column(share: float) -> int:
        return min(BAR_WIDTH - 1, int(share * BAR_WIDTH))

    cells = [("─", DIM)] * BAR_WIDTH
    for i in range(column(match.points_share_low), column(match.points_share_high) + 1):
        cells[i] = ("━", "cyan")
    if match.points_share_needed is not None:
        cells[column(match.points_share_needed)] = ("|", "bold")
    cells[column(match.points_share)] = ("●", "bold cyan")
    return Text.assemble(*cells)


def _ago(time: datetime | None, now: datetime) -> str:
    if time is None:
        return "unknown"
    return f"{long_duration(max(0.0, (now - time).total_seconds()))} ago"
