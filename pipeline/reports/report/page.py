"""The page: its charts, its tables, and the HTML around them.

All text from files is escaped, and the page's content security policy forbids loading or sending anything.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from pipeline.phrases import counted, long_duration, percent
from pipeline.reports.report.charts import Chart, Level, Point, Series, table
from pipeline.reports.report.facts import STAGES, Facts, Games, Gate, Training
from pipeline.run import layout
from pipeline.run.ratings import RatedPlayer, Ratings

FOLDER = Path(__file__).parent
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
)
PLAYERS_SHOWN = 40
GATES_SHOWN = 30
MOST_LEVELS = 4  # lines of other players in the Elo chart
HOUR = 3600.0


def page(facts: Facts, replays: Sequence[dict[str, Any]]) -> str:
    """The complete HTML."""
    title = f"{facts.run.folder.resolve().name}: {facts.game or 'a run'}"
    style, script = ((FOLDER / name).read_text(encoding="utf-8") for name in ("report.css", "replay.js"))
    sections = [
        _section("strength", "Strength", [*_strength(facts)]),
        _section("learning", "Learning", [*_learning(facts)]),
        _section("games", "Self-play", [*_self_play(facts)]),
        _section("time", "Time", [*_time(facts)]),
        _section("replay", "Games to look at", [_viewer(replays)] if replays else []),
        _section("matches", "Matches for the championship", [*_matches(facts)]),
        _section("warnings", "Warnings", [_list(facts.warnings)] if facts.warnings else []),
    ]
    found = [section for section in sections if section]
    links = "".join(f'<a href="#{name}">{escape(heading)}</a>' for name, heading, _ in found)
    body = "".join(html for _, _, html in found) or "<p>Nothing to report yet: no games, no trained models.</p>"
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


def _section(name: str, heading: str, parts: Sequence[str]) -> tuple[str, str, str] | None:
    content = "".join(parts)
    if not content:
        return None
    html = f'<section id="{name}"><h2>{escape(heading)}</h2><div class="grid">{content}</div></section>'
    return name, heading, html


def _list(items: Sequence[str]) -> str:
    return '<ul class="wide">' + "".join(f"<li>{escape(item)}</li>" for item in items) + "</ul>"


def _facts(facts: Facts) -> str:
    """The key numbers at the top of the page."""
    spent = Counter[str]()
    for of_one in facts.seconds.values():
        spent.update(of_one)
    worked = sum(spent.values()) - spent["pause"]
    about = "" if facts.share_read == 1 else "about "
    positions = sum(one.positions for one in facts.games)
    rows = [
        ("champion", facts.champion or "none"),
        ("generations", str(max((one.number for one in facts.trainings), default=0))),
        ("promotions", str(sum(line.get("previous") is not None for line in facts.journal))),
        ("games", f"{about}{sum(one.games for one in facts.games):,}"),
        ("positions", f"{about}{positions:,}"),
        ("time at work", long_duration(worked) if worked else "–"),
        ("positions/h", f"{about}{positions / worked * HOUR:,.0f}" if worked else "–"),
    ]
    return '<dl class="facts">' + "".join(f"<div><dt>{n}</dt><dd>{escape(v)}</dd></div>" for n, v in rows) + "</dl>"


# Strength


def _strength(facts: Facts) -> Iterator[str]:
    ratings = facts.rated.ratings if facts.rated is not None else None
    if ratings is not None:
        yield _elo_chart(ratings, facts.promoted)
    yield _match_results(facts.gates)
    if ratings is not None:
        yield _rating_table(ratings.players)


def _elo_chart(ratings: Ratings, promoted: set[str]) -> str:
    models: dict[str, list[tuple[int, RatedPlayer]]] = {}
    others = []
    for player in ratings.players:
        name, _, readouts = player.name.rpartition("@")
        parsed = layout.parse_model_name(name)
        if player.group:
            continue
        if parsed is not None and player.kind == "model":
            models.setdefault(readouts, []).append((parsed.number, player))
        else:
            others.append(player)
    series = [
        Series(
            f"{readouts} readouts per move",
            [
                Point(
                    number,
                    player.bradley_terry,
                    error=player.bradley_terry_error,
                    hollow=player.name.rpartition("@")[0] not in promoted,
                    note=f"{player.name}: {player.bradley_terry:.0f} ± {player.bradley_terry_error:.0f}",
                )
                for number, player in sorted(found, key=lambda one: one[0])
            ],
        )
        for readouts, found in sorted(models.items(), key=lambda item: (-len(item[1]), item[0]))[:4]
    ]
    levels = [Level(player.name, player.bradley_terry) for player in others[:MOST_LEVELS]]
    return Chart(
        "Elo",
        f"Bradley-Terry ratings from all matches, {ratings.anchor} at {ratings.anchor_elo:g}; bars are 95 % intervals. "
        "Hollow: not promoted. A chain of matches between neighbours overstates the total gain; a tournament with "
        "other players corrects that.",
        series,
        levels=levels,
        x_name="model",
        y_name="Elo",
        number=lambda y: f"{y:,.0f}",
    ).html()


def _match_results(gates: Sequence[Gate]) -> str:
    points = []
    for gate in gates:
        name = layout.parse_model_name(gate.match.header.challenger)
        if name is None or not gate.wins + gate.draws + gate.losses:
            continue
        points.append(
            Point(
                name.number,
                gate.share,
                low=gate.low,
                high=gate.high,
                hollow=not gate.promoted,
                note=f"{gate.match.folder.name}: {percent(gate.share)}, {percent(gate.low)} to {percent(gate.high)}",
            )
        )
    return Chart(
        "Matches against the champion",
        f"The challenger's share of the {_shared(gates)} with its 95 % interval. Hollow: not promoted.",
        [Series("challenger", sorted(points, key=lambda point: point.x))],
        levels=[Level("equal", 0.5)] if points else [],
        x_name="model",
        number=_percent,
    ).html()


def _shared(gates: Sequence[Gate]) -> str:
    """The unit of a gate's share. Points only if a win counts 1; otherwise shares count games won."""
    return "games" if any(gate.match.header.max_result > 1 for gate in gates) else "points"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _rating_table(players: Sequence[RatedPlayer]) -> str:
    rows = [
        (
            player.name,
            f"{player.bradley_terry:,.0f}",
            f"± {player.bradley_terry_error:,.0f}",
            f"{player.games:,}",
            f"{player.wins:,} / {player.draws:,} / {player.losses:,}",
            "" if not player.group else "not connected",
        )
        for player in players[:PLAYERS_SHOWN]
    ]
    header = ("player", "Elo", "95 %", "games", "won / drawn / lost", "")
    if not any(row[-1] for row in rows):
        header, rows = header[:-1], [row[:-1] for row in rows]  # type: ignore[assignment,misc]
    left = len(players) - len(rows)
    more = f"<p>… and {left} more: <code>python main.py ratings</code>.</p>" if left > 0 else ""
    return f'<div class="card wide"><h3>Ratings</h3>{table(header, rows)}{more}</div>'


# Learning


def _learning(facts: Facts) -> Iterator[str]:
    trained = [one for one in facts.trainings if one.metrics]
    losses = (("in training", "train"), ("held out, after", "holdout_after"), ("held out, before", "holdout_before"))
    yield Chart(
        "Policy loss",
        "Cross-entropy with the searches' policy, in nats. Held-out games are never trained on; before: at the start "
        "of the training.",
        _of_metrics(trained, [(name, part, "policy") for name, part in losses]),
        x_name="model",
        y_name="nats",
    ).html()
    yield Chart(
        "Value error",
        "Mean squared error, from 0 to 4. A growing gap between held-out and training error means overfitting. If "
        "td_lambda is below 1, training labels are smoother than results; held-out games keep the results.",
        _of_metrics(trained, [(name, part, "value_mse") for name, part in losses]),
        x_name="model",
    ).html()
    yield Chart(
        "Agreement of policy and search",
        "How often the network's most likely move is the search's best move, and how often its value predicts the "
        "winner, on held-out games.",
        _of_metrics(
            trained,
            [
                ("same best move", "holdout_after", "policy_accuracy"),
                ("winner", "holdout_after", "value_sign_accuracy"),
            ],
        ),
        x_name="model",
        number=_percent,
    ).html()
    entropies = _of_metrics(trained, [("policy of the network", "holdout_after", "policy_entropy")])
    of_searches = {"policy of the search": "policy_entropy", "surprise of the search": "surprise"}
    entropies += _of_games(facts.games, of_searches)
    yield Chart(
        "Policy entropy and surprise",
        "How undecided network and search are, and how many nats the search's policy differs from the network's: what "
        "is left to learn." + _sampled(facts.share_opened, "The search's numbers are from"),
        entropies,
        y_name="nats",
        y_from=0.0,
    ).html()


def _of_metrics(trained: Sequence[Training], wanted: Sequence[tuple[str, str, str]]) -> list[Series]:
    found = []
    for name, part, metric in wanted:
        values = [(one, one.metric(part, metric)) for one in trained]
        points = [
            Point(one.number, value, note=f"{one.model} ({one.size}), {name}: {value:.4g}")
            for one, value in values
            if value is not None
        ]
        found.append(Series(name, points))
    return [one for one in found if one.points]


def _of_games(games: Sequence[Games], wanted: Mapping[str, str]) -> list[Series]:
    """wanted: name of a series → attribute of Games."""
    found = [
        Series(name, [Point(one.generation, value) for one in games if (value := getattr(one, attribute)) is not None])
        for name, attribute in wanted.items()
    ]
    return [one for one in found if one.points]


# Self-play


def _self_play(facts: Facts) -> Iterator[str]:
    games = facts.games
    sampled = _sampled(facts.share_opened)
    lengths = [Point(one.generation, one.lengths[1], low=one.lengths[0], high=one.lengths[2]) for one in games]
    yield Chart(
        "Game length",
        f"Plies: the median and the band of the middle four fifths of games.{_sampled(facts.share_read)}",
        [Series("median", lengths)],
        y_name="plies",
        number=lambda y: f"{y:,.0f}",
    ).html()
    ends = {
        "by the rules": "by_the_rules",
        "nothing left to decide": "settled",
        "resignation": "resigned",
        "move limit": "at_limit",
    }
    yield Chart("How games end", f"Share of the games.{sampled}", stacks=_stacks(games, ends), number=_percent).html()
    balance = {"first player wins": "first", "drawn": "drawn", "second player wins": "second"}
    yield Chart(
        "Colour balance",
        f"Far from even: the game or its komi favours a side, or the players are still weak.{sampled}",
        stacks=_stacks(games, balance),
        number=_percent,
    ).html()
    wrong = [(one.generation, *one.wrong) for one in games if one.wrong and one.wrong[1]]
    wrong_points = [Point(x, bad / made, note=f"generation {x}: {bad} of {made}") for x, bad, made in wrong]
    yield Chart(
        "Wrong resignations",
        "In some games nobody may resign. Of the players who would have resigned in these games, the share who didn't "
        f"lose.{sampled}",
        [Series("wrong", wrong_points)],
        number=lambda y: f"{100 * y:.1f} %",
        y_from=0.0,
    ).html()
    measures = {name: measure for one in games for name, measure in one.tracked.measures.items() if measure.heading}
    for name, measure in measures.items():
        series = [
            Series(
                source,
                [
                    Point(one.generation, one.tracked.numbers[source][name])
                    for one in games
                    if name in one.tracked.numbers.get(source, {})
                ],
            )
            for source in sorted({source for one in games for source in one.tracked.numbers})
        ]
        if any(one.points for one in series):
            number = _percent if measure.share else "{:.3g}".format
            yield Chart(measure.heading, measure.about + sampled, series, number=number, y_from=0.0).html()


def _sampled(share: float, what: str = "From") -> str:
    """The note on a chart that is made from a sample of the shards."""
    return "" if share == 1 else f" {what} a sample of the shards, {percent(share)} of them."


def _stacks(games: Sequence[Games], wanted: Mapping[str, str]) -> list[Series]:
    """As _of_games, without series that are 0 everywhere."""
    return [one for one in _of_games(games, wanted) if any(point.y > 0 for point in one.points)]


# Time


def _time(facts: Facts) -> Iterator[str]:
    spent = facts.seconds
    names = [*STAGES, "other", "pause"]
    labels = {"other": "gather and training", "pause": "not running"}
    series = [
        Series(labels.get(name, name), [Point(number, of_one[name] / 60) for number, of_one in spent.items()])
        for name in names
        if any(of_one[name] > 0 for of_one in spent.values())
    ]
    yield Chart(
        "Where the time went",
        "Minutes per generation, from the times in the run's files. If stages run concurrently, the later one gets the "
        "time.",
        stacks=series,
        y_name="minutes",
        number=lambda y: f"{y:.3g}",
    ).html()
    speeds = [
        Point(one.number, one.samples_per_second, note=f"{one.model}: {one.samples_per_second:,.0f} samples/s")
        for one in facts.trainings
        if one.samples_per_second is not None
    ]
    if speeds:
        yield Chart(
            "Speed of training",
            "Samples per second. A larger network and self-play on the same cores slow it down; if it stays low "
            "without either, something is wrong.",
            [Series("training", speeds)],
            x_name="model",
            y_name="samples/s",
            number=lambda y: f"{y:,.0f}",
            y_from=0.0,
        ).html()
    total = {name: sum(of_one[name] for of_one in spent.values()) for name in names}
    whole = sum(total.values())
    if whole:
        rows = [
            (labels.get(name, name), long_duration(seconds), percent(seconds / whole))
            for name, seconds in total.items()
            if seconds > 0
        ]
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


def _matches(facts: Facts) -> Iterator[str]:
    gates = facts.gates[::-1]
    if not gates:
        return
    rows = []
    for gate in gates[:GATES_SHOWN]:
        played = gate.wins + gate.draws + gate.losses
        decision = {True: "promoted", False: "not promoted", None: "not decided"}[gate.promoted]
        share = f"{percent(gate.share)} ({percent(gate.low)} to {percent(gate.high)})" if played else "–"
        when = f"{gate.decided:%Y-%m-%d %H:%M}" if gate.decided else "–"
        header = gate.match.header
        rows.append(
            (header.challenger, header.champion, f"{gate.wins} / {gate.draws} / {gate.losses}", share, decision, when)
        )
    left = len(gates) - len(rows)
    more = f"<p>… and {counted(left, 'earlier match', 'earlier matches')}.</p>" if left else ""
    of_what = f"{_shared(gates)}, 95 %"
    header_row = ("challenger", "champion", "won / drawn / lost", of_what, "decision", "decided (UTC)")
    yield f'<div class="card wide">{table(header_row, rows)}{more}</div>'
