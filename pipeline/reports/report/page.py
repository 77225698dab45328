"""The page: what each chart and table shows of the facts, and the HTML around them.

Everything that comes from files is escaped, and the page's policy forbids it to load or send anything.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any

from pipeline.phrases import counted, long_duration, percent
from pipeline.reports.report.charts import Chart, Level, Point, Series, table
from pipeline.reports.report.facts import STAGES, Facts, Games, Gate, Training
from pipeline.run import layout
from pipeline.run.ratings import RatedPlayer

FOLDER = Path(__file__).parent
# What methods track of their games, where they do: heading, text, name. See families/text/reinforce/tracking.py.
TRACKED = (
    ("Won by the model", "Share of the games of each source.", "won"),
    ("Well-formed answers", "Share of the model's answers in which an action could be read.", "well_formed"),
    ("Invalid moves", "Share of the model's answers that weren't a legal action.", "invalid"),
    ("Variety of words", "Different words in answers, as a share of all of their words.", "unigrams"),
    ("Variety of answers", "Different pairs of words, as a share of all pairs.", "bigrams"),
)
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
)
PLAYERS_SHOWN = 40
GATES_SHOWN = 30
MOST_LEVELS = 4  # lines of other players in the Elo curve
HOUR = 3600.0


def page(facts: Facts, replays: Sequence[dict[str, Any]]) -> str:
    """The whole page as HTML."""
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
    """JSON that can stand in a script element: nothing in it ends the element or begins a comment."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _section(name: str, heading: str, parts: Sequence[str]) -> tuple[str, str, str] | None:
    parts = [part for part in parts if part]
    if not parts:
        return None
    return (
        name,
        heading,
        f'<section id="{name}"><h2>{escape(heading)}</h2><div class="grid">{"".join(parts)}</div></section>',
    )


def _list(items: Sequence[str]) -> str:
    return '<ul class="wide">' + "".join(f"<li>{escape(item)}</li>" for item in items) + "</ul>"


def _facts(facts: Facts) -> str:
    """The numbers above everything else."""
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
    if facts.rated is not None:
        yield _elo_curve(facts)
    yield _match_results(facts.gates)
    if facts.rated is not None:
        yield _rating_table(facts.rated.ratings.players)


def _elo_curve(facts: Facts) -> str:
    assert facts.rated is not None
    models: dict[str, list[tuple[int, RatedPlayer]]] = {}
    others = []
    for player in facts.rated.ratings.players:
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
                    hollow=player.name.rpartition("@")[0] not in facts.promoted,
                    note=f"{player.name}: {player.bradley_terry:.0f} ± {player.bradley_terry_error:.0f}",
                )
                for number, player in sorted(found, key=lambda one: one[0])
            ],
        )
        for readouts, found in sorted(models.items(), key=lambda item: (-len(item[1]), item[0]))[:4]
    ]
    levels = [Level(player.name, player.bradley_terry) for player in others[:MOST_LEVELS]]
    anchor = facts.rated.ratings.anchor
    return Chart(
        "Elo",
        f"Bradley-Terry ratings from all matches, {anchor} at {facts.rated.ratings.anchor_elo:g}; bars are 95 % "
        "intervals. Hollow: not promoted. A chain of matches between neighbours overstates the whole distance; "
        "a tournament with other players mends that.",
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
    """What a gate's share is of: it says who won, however many points that counted."""
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
        "Cross-entropy with the searches' policy, in nats. Held-out games are never trained on; before: the model that "
        "the training began with.",
        _of_metrics(trained, [(name, part, "policy") for name, part in losses]),
        x_name="model",
        y_name="nats",
    ).html()
    yield Chart(
        "Value error",
        "Mean square of value minus label, from 0 to 4. Held out above training by more and more: games are "
        "learned by heart. Where td_lambda is below 1, training's labels are smoother than the results, which held-out "
        "games keep.",
        _of_metrics(trained, [(name, part, "value_mse") for name, part in losses]),
        x_name="model",
    ).html()
    yield Chart(
        "Agreement of policy and search",
        "How often the network's likeliest move is the one that the search likes best, and how often its value "
        "predicts the winner, on held-out games.",
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
    entropies += _of_games(
        facts.games,
        [
            ("policy of the search", lambda one: one.policy_entropy),
            ("surprise of the search", lambda one: one.surprise),
        ],
    )
    yield Chart(
        "Policy entropy and surprise",
        "How undecided network and search are; and by how many nats the search changes the network's policy: what is "
        "left to learn from it." + _sampled(facts.share_opened, "The search's numbers are from"),
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


def _of_games(games: Sequence[Games], wanted: Sequence[tuple[str, Callable[[Games], float | None]]]) -> list[Series]:
    found = [
        Series(name, [Point(one.generation, value) for one in games if (value := read(one)) is not None])
        for name, read in wanted
    ]
    return [one for one in found if one.points]


# Self-play


def _self_play(facts: Facts) -> Iterator[str]:
    games = facts.games
    sampled = _sampled(facts.share_opened)
    yield Chart(
        "Game length",
        f"Plies: the median, and the band in which four of five games lie.{_sampled(facts.share_read)}",
        [
            Series(
                "median",
                [Point(one.generation, one.lengths[1], low=one.lengths[0], high=one.lengths[2]) for one in games],
            )
        ]
        if games
        else [],
        y_name="plies",
        number=lambda y: f"{y:,.0f}",
    ).html()
    ends: list[tuple[str, Callable[[Games], float | None]]] = [
        (
            "by the rules",
            lambda one: (
                None
                if one.resigned is None or one.at_limit is None
                else 1 - one.resigned - (one.settled or 0) - one.at_limit
            ),
        ),
        ("nothing left to decide", lambda one: one.settled),
        ("resignation", lambda one: one.resigned),
        ("limit of moves", lambda one: one.at_limit),
    ]
    yield Chart("How games end", f"Share of the games.{sampled}", stacks=_stacks(games, ends), number=_percent).html()
    balance: list[tuple[str, Callable[[Games], float | None]]] = [
        ("first player wins", lambda one: one.first),
        ("drawn", lambda one: one.drawn),
        ("second player wins", lambda one: None if one.first is None else 1 - one.first - (one.drawn or 0)),
    ]
    yield Chart(
        "Colour balance",
        f"Far from even: the game or its komi favours a side, or the players don't know it yet.{sampled}",
        stacks=_stacks(games, balance),
        number=_percent,
    ).html()
    wrong = [(one.generation, *one.wrong) for one in games if one.wrong and one.wrong[1]]
    yield Chart(
        "Wrong resignations",
        "Some games are played on whatever the values say. Of the players who would have resigned in them, so many "
        f"didn't lose.{sampled}",
        [
            Series(
                "wrong",
                [Point(x, bad / made, note=f"generation {x}: {bad} of {made}") for x, bad, made in wrong],
            )
        ],
        number=lambda y: f"{100 * y:.1f} %",
        y_from=0.0,
    ).html()
    for heading, about, name in TRACKED:
        series = [
            Series(
                source,
                [
                    Point(one.generation, one.tracked[source][name])
                    for one in games
                    if name in one.tracked.get(source, {})
                ],
            )
            for source in sorted({source for one in games for source in one.tracked})
        ]
        if any(one.points for one in series):
            yield Chart(heading, about + sampled, series, number=_percent, y_from=0.0).html()


def _sampled(share: float, what: str = "From") -> str:
    """What a chart says behind everything else where only a share of the shards was looked at."""
    return "" if share == 1 else f" {what} a sample of the shards, {percent(share)} of them."


def _stacks(games: Sequence[Games], wanted: Sequence[tuple[str, Callable[[Games], float | None]]]) -> list[Series]:
    """Without parts that are 0 everywhere."""
    return [one for one in _of_games(games, wanted) if any(point.y > 0 for point in one.points)]


# Time


def _time(facts: Facts) -> Iterator[str]:
    spent = facts.seconds
    names = [*STAGES, "other", "pause"]
    said = {"other": "gather and training", "pause": "not running"}
    series = [
        Series(said.get(name, name), [Point(number, of_one[name] / 60) for number, of_one in spent.items()])
        for name in names
        if any(of_one[name] > 0 for of_one in spent.values())
    ]
    yield Chart(
        "Where the time went",
        "Minutes per generation, from the times in the run's files. Where stages run side by side, the later one gets "
        "the time.",
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
            "Samples per second. It falls where the network grows, and beside self-play on the same cores; where it "
            "falls for long without either, something is wrong.",
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
            (said.get(name, name), long_duration(seconds), percent(seconds / whole))
            for name, seconds in total.items()
            if seconds > 0
        ]
        rows.append(("in all", long_duration(whole), ""))
        yield f'<div class="card"><h3>In all</h3>{table(("stage", "time", "share"), rows)}</div>'


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
</div></div></div><noscript><p>The games need JavaScript, which is part of this page.</p></noscript>"""


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
