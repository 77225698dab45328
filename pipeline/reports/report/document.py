"""The page: its charts, its tables, and the HTML around them.

All text from files is escaped, and the page's content security policy forbids loading or sending anything.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

from pipeline.errors import UsageError
from pipeline.methods.method import LearningChart
from pipeline.methods.named import method_named
from pipeline.phrases import counted, long_duration, percent, printable
from pipeline.reports.reading import ScoredMatch, metric, number_in
from pipeline.reports.report.charts import Chart, Point, table
from pipeline.reports.report.facts import ENDS, STAGES, WINNERS, Facts, Games
from pipeline.run.layout import number_of
from pipeline.run.models import ModelInfo
from pipeline.run.ratings import RatedPlayer, Ratings

FOLDER = Path(__file__).parent
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
)
PLAYERS_SHOWN = 40
MATCHES_SHOWN = 30
MODEL_LINES = 4  # in the Elo chart: numbers of readouts
MOST_LEVELS = 4  # in the Elo chart: other players
HOUR = 3600.0


def page(facts: Facts, replays: Sequence[dict[str, Any]]) -> str:
    """The complete HTML."""
    title = printable(f"{facts.reading.run.folder.resolve().name}: {facts.reading.game or 'a run'}")
    style, script = ((FOLDER / name).read_text(encoding="utf-8") for name in ("report.css", "replay.js"))
    warnings = "".join(f"<li>{escape(printable(warning))}</li>" for warning in facts.reading.warnings)
    sections = {
        ("strength", "Strength"): _strength(facts),
        ("learning", "Learning"): _learning(facts),
        ("games", "Self-play"): _self_play(facts),
        ("time", "Time"): _time(facts),
        ("replay", "Games to look at"): [_viewer(replays)] if replays else [],
        ("matches", "Matches for the championship"): _matches(facts.matches),
        ("warnings", "Warnings"): [f'<ul class="wide">{warnings}</ul>'] if warnings else [],
    }
    found = {name: content for name, parts in sections.items() if (content := "".join(parts))}
    links = "".join(f'<a href="#{name}">{escape(heading)}</a>' for name, heading in found)
    body = "".join(
        f'<section id="{name}"><h2>{escape(heading)}</h2><div class="grid">{content}</div></section>'
        for (name, heading), content in found.items()
    )
    body = body or "<p>Nothing to report yet: no games, no trained models.</p>"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<title>{escape(title)}</title>
<style>{style}</style>
</head>
<body>
<header><h1>{escape(title)}</h1><p>Report of {facts.time:%Y-%m-%d %H:%M} UTC, made from the run's files.</p></header>
<main>
{_facts(facts)}
<nav aria-label="Sections">{links}</nav>
{body}
</main>
<script type="application/json" id="replays">{_json(replays)}</script>
<script>{script}</script>
</body>
</html>
"""


def _json(value: Any) -> str:
    """JSON that is safe inside a script element: it can't end the element or begin a comment."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _facts(facts: Facts) -> str:
    worked = sum(sum(of_one.values()) - of_one["pause"] for of_one in facts.seconds.values())
    about = "" if facts.share_read == 1 else "about "
    positions = sum(one.positions for one in facts.games)
    rows = [
        ("champion", facts.reading.champion or "none"),
        ("generations", str(facts.reading.generation or 0)),
        ("promotions", str(facts.reading.promotions)),
        ("games", f"{about}{sum(one.games for one in facts.games):,}"),
        ("positions", f"{about}{positions:,}"),
    ]
    if worked:
        rows.append(("time at work", long_duration(worked)))
        rows.append(("positions/h", f"{about}{positions / worked * HOUR:,.0f}"))
    return '<dl class="facts">' + "".join(f"<div><dt>{n}</dt><dd>{escape(v)}</dd></div>" for n, v in rows) + "</dl>"


# Numbers and series


_percent = partial(percent, digits=0)
_whole = "{:,.0f}".format


def _points(places: Iterable[tuple[int, float | None]]) -> list[Point]:
    """places: (x, y); unknown y are left out."""
    return [Point(x, y) for x, y in places if y is not None]


def _sampled(share: float, what: str = "From") -> str:
    """The note on a chart that is made from a sample of the shards."""
    return "" if share == 1 else f" {what} a sample of the shards, {percent(share)} of them."


# Strength


def _strength(facts: Facts) -> Iterator[str]:
    ratings = facts.rated.ratings if facts.rated is not None else None
    if ratings is not None:
        yield _elo_chart(ratings, {str(line.get("champion")) for line in facts.reading.journal})
    yield _match_results(facts.matches)
    if ratings is not None:
        yield _rating_table(ratings.players)


def _elo_chart(ratings: Ratings, promoted: set[str]) -> str:
    models: dict[str, list[Point]] = {}  # by readouts
    levels: dict[str, float] = {}
    rated = ratings.anchored
    for player in rated:
        name, _, readouts = player.name.rpartition("@")
        number, elo, error = number_of(name), player.bradley_terry, player.bradley_terry_error
        if number is None or player.kind != "model":
            if len(levels) < MOST_LEVELS:
                levels[player.name] = elo
            continue
        note = f"{player.name}: {elo:.0f} ± {error:.0f}"
        models.setdefault(readouts, []).append(Point(number, elo, error, hollow=name not in promoted, note=note))
    shown = sorted(models.items(), key=lambda item: (-len(item[1]), item[0]))[:MODEL_LINES]
    others = len(ratings.players) - len(rated)
    left_out = f" Left out: {counted(others, 'player')} that no matches connect with these." if others else ""
    return Chart(
        "Elo",
        f"Bradley-Terry ratings from all matches, {ratings.anchor} at {ratings.anchor_elo:g}; bars are 95 % intervals. "
        "Hollow: not promoted. A chain of matches between neighbours overstates the total gain; a tournament with "
        f"other players corrects that.{left_out}",
        {f"{readouts} readouts per move": sorted(found, key=lambda one: one.x) for readouts, found in shown},
        levels=levels,
        x_name="model",
        y_name="Elo",
        number=_whole,
    ).html()


def _match_results(matches: Sequence[ScoredMatch]) -> str:
    points = [
        Point(number, found.score.share, low=found.interval[0], high=found.interval[1],
              hollow=found.decision != "promoted", note=f"{found.match.folder.name}: {_share(found)}")
        for found in matches
        if found.score.games and (number := number_of(found.match.header.challenger)) is not None
    ]  # fmt: skip
    return Chart(
        "Matches against the champion",
        f"The challenger's share of the {_unit(matches)} with its 95 % interval. Hollow: not promoted.",
        {"challenger": sorted(points, key=lambda point: point.x)},
        levels={"equal": 0.5},
        x_name="model",
        number=_percent,
    ).html()


def _share(found: ScoredMatch) -> str:
    low, high = found.interval
    return f"{percent(found.score.share)} ({percent(low)} to {percent(high)})"


def _unit(matches: Sequence[ScoredMatch]) -> str:
    """The unit of a challenger's share. Points only if a win counts 1; otherwise shares count games won."""
    return "games" if any(found.match.header.max_result > 1 for found in matches) else "points"


def _rating_table(players: Sequence[RatedPlayer]) -> str:
    rows = [
        (
            player.name + (" (not connected)" if player.group else ""),
            f"{player.bradley_terry:,.0f}",
            f"± {player.bradley_terry_error:,.0f}",
            f"{player.games:,}",
            f"{player.wins:,} / {player.draws:,} / {player.losses:,}",
        )
        for player in players[:PLAYERS_SHOWN]
    ]
    shown = table(("player", "Elo", "95 %", "games", "won / drawn / lost"), rows)
    left = len(players) - len(rows)
    more = f"<p>… and {left} more: <code>python main.py ratings</code>.</p>" if left > 0 else ""
    return f'<div class="card wide"><h3>Ratings</h3>{shown}{more}</div>'


# Learning


def _learning(facts: Facts) -> Iterator[str]:
    infos = facts.reading.infos
    for chart in _charts_of(infos):
        yield Chart(
            chart.title,
            chart.about,
            _of_models(infos, chart.series),
            x_name="model",
            y_name=chart.unit,
            number=_percent if chart.share else "{:.3g}".format,
        ).html()
    yield Chart(
        "Policy entropy and surprise",
        "How undecided network and search are, and how many nats the search's policy differs from the network's: what "
        "is left to learn." + _sampled(facts.share_opened, "The search's numbers are from"),
        {
            **_of_models(infos, {"policy of the network": ("holdout_after", "policy_entropy")}),
            "policy of the search": _points((one.generation, one.policy_entropy) for one in facts.games),
            "surprise of the search": _points((one.generation, one.surprise) for one in facts.games),
        },
        y_name="nats",
        y_from=0.0,
    ).html()


def _charts_of(infos: Sequence[ModelInfo]) -> list[LearningChart]:
    """Of the methods of a run's models: one, or none that is known here."""
    found: dict[str, LearningChart] = {}
    for method in dict.fromkeys(info.method for info in infos):
        with suppress(UsageError):
            found |= {chart.title: chart for chart in method_named(method).charts}
    return list(found.values())


def _of_models(infos: Sequence[ModelInfo], wanted: Mapping[str, tuple[str, str]]) -> dict[str, list[Point]]:
    """wanted: (part, name) of a metric, by the name of its series."""
    return {
        series: [
            Point(info.number, value, note=f"{info.name}, {series}: {value:.4g}")
            for info in infos
            if (value := metric(info, part, name)) is not None
        ]
        for series, (part, name) in wanted.items()
    }


# Self-play


def _self_play(facts: Facts) -> Iterator[str]:
    games = facts.games
    sampled = _sampled(facts.share_opened)
    lengths = [Point(one.generation, one.lengths[1], low=one.lengths[0], high=one.lengths[2]) for one in games]
    yield Chart(
        "Game length",
        f"Plies: the median and the band of the middle four fifths of games.{_sampled(facts.share_read)}",
        {"median": lengths},
        y_name="plies",
        number=_whole,
    ).html()
    ends = {name: _points((one.generation, one.ends.get(name)) for one in games) for name in ENDS}
    yield Chart("How games end", f"Share of the games.{sampled}", stacks=ends, number=_percent).html()
    yield Chart(
        "Who wins",
        f"Far from even: the game favours a side, or the players are still weak.{sampled}",
        stacks={name: _points((one.generation, one.winners.get(name)) for one in games) for name in WINNERS},
        number=_percent,
    ).html()
    wrong = [
        Point(one.generation, bad / made, note=f"generation {one.generation}: {bad} of {made}")
        for one in games
        for bad, made in [one.wrong or (0, 0)]
        if made
    ]
    yield Chart(
        "Wrong resignations",
        "In some games nobody may resign. Of the players who would have resigned in these games, the share who didn't "
        f"lose.{sampled}",
        {"wrong": wrong},
        number=percent,
        y_from=0.0,
    ).html()
    yield from _measures(games, sampled)


def _measures(games: Sequence[Games], sampled: str) -> Iterator[str]:
    sources = sorted({source for one in games for source in one.tracked.numbers})
    measures = {name: measure for one in games for name, measure in one.tracked.measures.items() if measure.heading}
    for name, measure in measures.items():
        series = {
            source: _points((one.generation, one.tracked.numbers.get(source, {}).get(name)) for one in games)
            for source in sources
        }
        number = _percent if measure.share else "{:.3g}".format
        yield Chart(measure.heading, measure.about + sampled, series, number=number, y_from=0.0).html()


# Time


def _time(facts: Facts) -> Iterator[str]:
    labels = {name: name for name in STAGES} | {"other": "gather and training", "pause": "not running"}
    spent = facts.seconds
    yield Chart(
        "Where the time went",
        "Minutes per generation, from the times in the run's files. If stages run concurrently, the later one gets the "
        "time.",
        stacks={
            label: _points((number, of_one[name] / 60) for number, of_one in spent.items())
            for name, label in labels.items()
        },
        y_name="minutes",
    ).html()
    speeds = [(info.number, number_in(info.manifest, "samples_per_second")) for info in facts.reading.infos]
    yield Chart(
        "Speed of training",
        "Samples per second. A larger network and self-play on the same cores slow it down; if it stays low "
        "without either, something is wrong.",
        {"training": _points(speeds)},
        x_name="model",
        y_name="samples/s",
        number=_whole,
        y_from=0.0,
    ).html()
    total = {label: sum(of_one[name] for of_one in spent.values()) for name, label in labels.items()}
    if whole := sum(total.values()):
        rows = [(label, long_duration(one), percent(one / whole)) for label, one in total.items() if one > 0]
        rows.append(("total", long_duration(whole), ""))
        yield f'<div class="card"><h3>Total</h3>{table(("stage", "time", "share"), rows)}</div>'


# Games and matches


def _viewer(replays: Sequence[dict[str, Any]]) -> str:
    options = "".join(f'<option value="{number}">{escape(one["title"])}</option>' for number, one in enumerate(replays))
    return f"""<div class="card wide" id="viewer" tabindex="-1" hidden>
<label>Game <select id="choose">{options}</select></label>
<p id="about"></p>
<div id="stage"><div id="position"></div><div id="side">
<p id="move" aria-live="polite"></p>
<svg id="rates" viewBox="0 0 320 96" preserveAspectRatio="none" role="img"></svg>
<p id="rate"></p>
<div class="buttons"><button id="first" aria-label="First position">«</button>
<button id="back" aria-label="Back">‹</button>
<button id="play">Play</button><button id="forth" aria-label="Forward">›</button>
<button id="last" aria-label="Last position">»</button></div>
<input id="ply" type="range" min="0" value="0" aria-label="Move">
<table id="policy"><thead><tr><th>next move</th><th>policy of the search</th></tr></thead><tbody></tbody></table>
</div></div></div><noscript><p>Stepping through games needs JavaScript, which is part of this page.</p></noscript>"""


def _matches(matches: Sequence[ScoredMatch]) -> Iterator[str]:
    rows = [
        (
            found.match.header.challenger,
            found.match.header.champion,
            f"{found.score.wins} / {found.score.draws} / {found.score.losses}",
            _share(found) if found.score.games else "–",
            found.decision,
            f"{found.decided:%Y-%m-%d %H:%M}" if found.decided else "–",
        )
        for found in matches[: -MATCHES_SHOWN - 1 : -1]  # newest first
    ]
    left = len(matches) - len(rows)
    more = f"<p>… and {counted(left, 'earlier match', 'earlier matches')}.</p>" if left else ""
    header = ("challenger", "champion", "won / drawn / lost", f"{_unit(matches)}, 95 %", "decision", "decided (UTC)")
    if rows:
        yield f'<div class="card wide">{table(header, rows)}{more}</div>'
