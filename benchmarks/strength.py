"""How strong does a preset become in a given time? Trains from an empty folder and measures the champions.

    python -m benchmarks.strength run RUN --preset go9 --minutes 120
    python -m benchmarks.strength handicap RUN … --games 200
    python -m benchmarks.strength komi RUN … --board 13
    python -m benchmarks.strength seeds RUN RUN RUN
    python -m benchmarks.strength meet RUN OTHER --games 200
    python -m benchmarks.strength plot RUN … --output curve.svg

run       Trains in RUN with ./rl_loop.sh until the loop has run --minutes on --cores, then measures, in an hour for
          two hours of go9. First the verdict: the last champion meets the strongest anchor with --readouts, with
          its raw policy and with 800 readouts. If the anchor is GNU Go, the measurement of "handicap" follows, with the
          verdict as the even game. Then every k-th champion meets anchors (Go: random, and levels 1, 5 and 10 of GNU Go
          if installed; else random and heuristic), earlier champions, and champions of earlier runs (--against).
          Nothing is measured while the loop runs. The same command continues after Ctrl-C; with more --minutes it
          extends a finished run, whose schedules by time continue from the share that is over then. Prints the curve,
          the verdict and where the time went.
handicap  Which handicap makes the game even between the champion of a run, or a model, and GNU Go's level 10 or another
          engine (--opponent NAME=gtp:COMMAND)? The engine has black in all games, first without stones, then with 2, 3
          and 4, which it places, until the player scores less than a tenth. Komi stays, and white gets no points for
          stones. Prints the handicap with its interval (benchmarks/handicap.py). 200 games with one number of stones
          take half an hour of a core.
komi      The same for models of go:any with points instead of stones, with both colours and komi shifted in favour of
          the engine. A match with komi shifted by 5 has the engine 5 points ahead as white and 5 points behind as
          black; both count as such. All komi have the same openings.
seeds     How much do runs that differ only in their seeds differ? Prints each figure of their verdicts and its spread.
meet      Which of two runs is stronger? Their last champions meet, each opening with both colours.
plot      Draws the curves of several runs.

    RUN/strength.json       the settings: preset, changes (--set), seed, cores, anchors
    RUN/preset.yaml         the preset with the changes; RUN/data and RUN/saved_models are the loop's
    RUN/clock.json          how long the loop ran and where the time went (benchmarks/loop_clock.py)
    RUN/measured/           matches; --games counts existing ones
    RUN/curve.json, .svg    Elo over minutes, games and evaluations; the verdict; the time by stage

Elo is Bradley-Terry over all games of RUN/measured, with the strongest anchor at 0; bars are the 95 % interval of the
distance to it. For a player that won or lost every game, distance and bar rest on the prior (a standard deviation of
1,500 Elo around the mean of all players); such points are marked as bounds. Core-minutes are minutes times cores.

Moves are greedy; games differ by their openings. Those of 9×9 and 13×13 Go, with any komi, come from files of neutral
openings (benchmarks/openings/), and each number of readouts starts 50 openings further on. With the 150 openings of
9×9, three verdicts of up to 100 games share none; with more games, or the 100 openings of 13×13, they share some, and
their luck.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import yaml

from benchmarks.handicap import Estimate, Level, Spread, amount_of, estimate
from benchmarks.loop_clock import CLOCK, Clock, run_loop, stopped_by_signals
from benchmarks.measuring import (
    EARLIER,
    MEASURED,
    SETTINGS,
    TERMS,
    Measurement,
    Result,
    anchors,
    champion,
    champions,
    has_champion,
    known_anchors,
    last_player,
    measurement_of,
    measurement_with,
    name_of,
    named,
    player,
    refuse_too_many,
)
from pipeline.commands import COMMANDS, SECTIONS
from pipeline.errors import MuGoError, UsageError
from pipeline.families.go.game import GoAnyBoard
from pipeline.families.go.handicap import most_handicap
from pipeline.games.specs import parse_game
from pipeline.loop.command import read_kept
from pipeline.machine import available_cores
from pipeline.matches.statistics import Score, wilson_interval
from pipeline.phrases import results as played_results
from pipeline.players.player_specs import parse_player
from pipeline.presets import make_config, read_preset
from pipeline.progress import Progress
from pipeline.ratings.command import match_result
from pipeline.ratings.strength import BradleyTerry, MatchResult, bradley_terry, total_scores
from pipeline.reports.progress_bars import ConsoleProgress
from pipeline.run import atomic, layout
from pipeline.run.models import game_as_seen, read_info, resolve_champion
from pipeline.run.shards import ShardMeta, newest_shards
from pipeline.train.config import InitConfig

LOOP = Path(__file__).resolve().parent.parent / "rl_loop.sh"
INTERRUPTED = 130  # the shell's exit code after Ctrl-C
ENGINE = "gtp:"  # what the spec of an engine begins with
VERDICT_READOUTS = (0, 800)  # in addition to --readouts
STONES = (0, 2, 3, 4)  # handicaps; 0 is the even game
LEAST_SHARE = 0.1  # of the points; below it, larger handicaps are not played
AXES = {  # key of a point: label and unit of the axis
    "minutes": ("core-minutes", 1.0),
    "games": ("games (thousands)", 1e3),
    "evaluations": ("evaluations (millions)", 1e6),
}
LABEL_HEIGHT = 0.035  # share of the panel's height


@dataclass(frozen=True)
class Settings:
    """The settings of a run, which must stay the same when it is resumed; anchors only once something is measured.

    changes: ``stage.line=value``; overlap: whether self-play runs beside all other stages.
    """

    preset: str
    changes: tuple[str, ...]
    seed: int
    cores: int
    anchors: tuple[str, ...]  # names, the strongest last, whose Elo is 0
    overlap: bool = False


@dataclass(frozen=True)
class Point:
    """A measured champion.

    minutes, games, positions, evaluations  what the loop had spent when it was promoted
    elo, error                              Elo above the strongest anchor, half the 95 % interval
    bound                                   "at least" if it won all its games, "at most" if it lost all, else ""
    """

    model: str
    minutes: float
    games: int
    positions: int
    evaluations: int
    elo: float
    error: float
    bound: str


# Training


def changed_preset(name: str, changes: Sequence[str], seed: int) -> dict[str, dict[str, Any]]:
    """A preset's sections with the seed and ``stage.line=value`` changes, whose values are YAML. Raises UsageError.

    Doesn't check values; write_preset does.
    """
    sections = {stage: dict(lines) for stage, lines in read_preset(name).items()}
    for change in changes:
        place, equals, text = change.partition("=")
        stage, dot, line = place.partition(".")
        if not equals or not dot or stage not in SECTIONS:
            raise UsageError(f"--set {change!r}: wanted STAGE.LINE=VALUE, e.g. selfplay.readouts=64")
        if line not in COMMANDS[stage].config.model_fields:
            raise UsageError(f"--set {change!r}: {stage} has no line {line!r}")
        if place == "init.seed":
            raise UsageError(f"--set {change!r}: wanted --seed instead, or the line seed of an arm in a plan")
        try:
            sections.setdefault(stage, {})[line] = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise UsageError(f"--set {change!r}: the value is not readable as YAML") from error
    sections.setdefault("init", {})["seed"] = seed
    return sections


def prepare(run: Path, settings: Settings) -> Path:
    """The path of the run's preset; writes it when the run begins. Raises UsageError if it has other settings."""
    atomic.make_folder(run)
    wanted, path = json.loads(json.dumps(asdict(settings))), run / SETTINGS
    if path.exists():
        found = atomic.read_json(path, "the settings of a run")
        keys = sorted((wanted.keys() | found.keys()) - {"anchors"})  # engines may have been installed since
        if different := ", ".join(f"{key} {found.get(key)!r}" for key in keys if found.get(key) != wanted.get(key)):
            raise UsageError(f"{run}: begun with {different}; continue with that, or choose another folder")
        if found != wanted and not (run / MEASURED).exists():  # else its matches were played with those it began with
            atomic.write_json(path, wanted, indent=1)
        return run / "preset.yaml"
    preset = run / "preset.yaml"
    write_preset(preset, changed_preset(settings.preset, settings.changes, settings.seed))
    atomic.write_json(path, wanted, indent=1)
    return preset


def write_preset(path: Path, sections: Mapping[str, Mapping[str, Any]]) -> None:
    """Raises UsageError for a wrong line, before the stage or the measurement that would find it."""
    for name in TERMS:
        if isinstance(sections.get("evaluate", {}).get(name), list):
            raise UsageError(f"evaluate.{name}: found a schedule; wanted one value, as all matches are played alike")
    atomic.write_text(path, yaml.safe_dump(sections, sort_keys=False))
    for stage in sections:
        make_config(COMMANDS[stage].config, stage, str(path))


def train(run: Path, preset: Path, minutes: float, cores: int, overlap: bool) -> Clock:
    """Run the loop until its clock shows this many minutes. Raises MuGoError if it fails."""
    clock = Clock.read(run / CLOCK)
    command: list[str | Path] = [LOOP, "--preset", preset.resolve(), "--directory", run, "--minutes", str(minutes)]
    if overlap:
        command.append("--overlap")
    code = run_loop(command, clock, minutes * 60, cores)
    if code:
        raise MuGoError(f"{LOOP.name} ended with exit code {code} after {clock.seconds / 60:.1f} minutes; see above")
    return clock


# Measuring


@dataclass(frozen=True)
class Verdict:
    """The last champion's results. handicap: None if it wasn't measured."""

    results: tuple[Result, ...]
    handicap: Estimate | None


def measure(run: Path, options: argparse.Namespace, progress: Progress) -> tuple[Measurement, Verdict]:
    """Play the missing games of the verdict, then those of the curve."""
    promoted = champions(run, options.every)
    measurement = measurement_of(run, progress)
    fixed = known_anchors(run, measurement.game)
    earlier = [last_player(other, options.readouts) for other in options.against]
    last, results = promoted[-1].model, []
    for opponent in [fixed[-1], *earlier]:
        for seed, readouts in enumerate(dict.fromkeys((options.readouts, *VERDICT_READOUTS))):
            if opponent == fixed[-1] or readouts == options.readouts:
                results.append(measurement.play(player(last, readouts), opponent, options.verdict_games, seed))
                progress.say(str(results[-1]))
    found = None
    most = most_handicap(parse_game(measurement.game).board_shape[0]) if ENGINE in fixed[-1] else 0
    if options.handicap_games and most:
        games = {one: options.handicap_games if one else options.verdict_games for one in STONES if one <= most}
        found = handicap(measurement, player(last, options.readouts), fixed[-1], games, progress)
    models = [player(one.model, options.readouts) for one in promoted]
    for i, model in enumerate(models):
        progress.say(f"champion {i + 1} of {len(models)}: {name_of(model)}")
        # Otherwise the last champion, whose games of the verdict count, would never meet earlier champions.
        judges = [fixed[-1], *earlier] if i == len(models) - 1 else []
        others = [*fixed, *earlier, *models[max(0, i - EARLIER) : i]]
        measurement.place(model, [one for one in others if one not in judges], options.games)
    return measurement, Verdict(tuple(results), found)


def handicap(measurement: Measurement, one: str, other: str, games: Mapping[int, int], progress: Progress) -> Estimate:
    """The other player's handicap at which one scores half. games: by number of stones, ascending."""
    levels = []
    for stones, count in games.items():
        score = measurement.with_stones(one, other, stones, count)
        levels.append(Level(amount_of(stones), score))
        low, high = wilson_interval(score)
        progress.say(
            f"{name_of(one)} with white against {name_of(other)} with {stones or 'no'} stones: "
            f"{played_results(score.wins, score.draws, score.losses)}: {score.share:.1%} ({low:.1%} to {high:.1%})"
        )
        if score.share < LEAST_SHARE:
            break
    return estimate(levels)


def points_of_komi(
    measure: Callable[[float], Measurement], one: str, other: str, points: Sequence[float], games: int
) -> Estimate:
    """How many points of komi in the other's favour make one score half. measure: a measurement by shift of komi."""
    levels: dict[float, Score] = {}
    for moved in points:
        measurement = measure(moved)
        measurement.play(one, other, games)
        for ahead, colour in ((moved, 0), (-moved, 1)):  # how far the other is ahead when one is black, and white
            levels[ahead] = levels.get(ahead, Score()) + measurement.score_as(colour, one, other)
    return estimate([Level(ahead, score) for ahead, score in levels.items()], "points of komi")


def shard_time(meta: ShardMeta) -> float:
    """When the shard was committed, in seconds since 1970."""
    name = layout.parse_shard_name(meta.path.name)
    return name.time.timestamp() if name else 0.0


def curve(
    run: Path, clock: Clock, played: Sequence[MatchResult], fit: BradleyTerry, zero: str, readouts: int
) -> list[Point]:
    """Every measured champion, by time. fit: ratings from the matches played; zero: the strongest anchor."""
    scores = total_scores(played)
    metas = list(newest_shards(run / "data" / "selfplay"))
    points = []
    for one in champions(run, 1):
        name = name_of(player(one.model, readouts))
        if name not in fit.index:
            continue
        elo, error = fit.difference(name, zero)
        score = scores[name]
        made = [meta for meta in metas if shard_time(meta) <= one.time]
        points.append(
            Point(
                model=one.model.name,
                minutes=clock.seconds_at(one.time) / 60,
                games=sum(meta.games for meta in made),
                positions=sum(meta.positions for meta in made),
                evaluations=sum(meta.evaluations for meta in made),
                elo=elo,
                error=error,
                bound="at least" if score.wins == score.games else "at most" if score.losses == score.games else "",
            )
        )
    return points


def report(run: Path, clock: Clock, measurement: Measurement, verdict: Verdict, readouts: int) -> None:
    """Print the results; write curve.json and curve.svg."""
    settings = atomic.read_json(run / SETTINGS, "the settings of a run")
    names = [name_of(one) for one in known_anchors(run, measurement.game)]
    played = [match_result(match) for match in measurement.matches()]
    fit = bradley_terry(played)
    points = curve(run, clock, played, fit, names[-1], readouts)
    profile = read_kept(run / layout.LOOP_FILE).commands
    distances = {name: fit.difference(name, names[-1]) for name in names if name in fit.index}
    written: dict[str, Any] = {
        "run": run.resolve().name,
        "settings": settings,
        "game": measurement.game,
        "readouts": readouts,
        "minutes": clock.seconds / 60,
        "anchors": {name: {"elo": elo, "error": error} for name, (elo, error) in distances.items()},
        "points": [asdict(point) for point in points],
        "verdict": [asdict(result) for result in verdict.results],
        "handicap": verdict.handicap and {"opponent": names[-1], **verdict.handicap.as_json()},
        "profile": {name: times.model_dump() for name, times in profile.items()},
    }
    atomic.write_json(run / "curve.json", written, indent=1)
    draw([written], run / "curve.svg")
    print(f"{'champion':<20}{'minutes':>8}{'games':>9}{'evaluations':>13}{'Elo':>7}{'+-':>5}")
    for point in points:
        print(
            f"{point.model:<20}{point.minutes:>8.1f}{point.games:>9,}{point.evaluations:>13,}"
            f"{point.elo:>7.0f}{point.error:>5.0f} {point.bound}"
        )
    anchored = (f"{name} {one['elo']:.0f} +- {one['error']:.0f}" for name, one in written["anchors"].items())
    print("anchors: " + ", ".join(anchored))
    for result in verdict.results:
        print(result)
    if verdict.handicap is not None:
        print(half_of_the_points(verdict.results[0].player, names[-1], verdict.handicap))
    print(f"{'command':<24}{'share of time':>14}{'cores busy':>11}")
    for name, times in sorted(profile.items(), key=lambda item: -item[1].seconds):
        busy = f"{times.cpu_seconds / times.seconds:.2f}" if times.seconds else "-"
        print(f"{name:<24}{times.seconds / clock.seconds:>14.1%}{busy:>11}")
    all_busy = sum(times.cpu_seconds for times in profile.values()) / clock.seconds
    print(f"{'all':<24}{'':>14}{all_busy:>11.2f} of {written['settings']['cores']}")


# The picture


def label_groups(anchors: Mapping[str, Mapping[str, float]], height: float) -> list[tuple[str, float]]:
    """(names, Elo) of each label: anchors closer together than a label's height share one, below the lowest."""
    groups: list[tuple[str, float]] = []
    for name, one in sorted(anchors.items(), key=lambda item: -item[1]["elo"]):
        if groups and groups[-1][1] - one["elo"] < height:
            groups[-1] = (f"{groups[-1][0]}, {name}", one["elo"])
        else:
            groups.append((name, one["elo"]))
    return groups


def draw(curves: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Draw curves, the contents of curve.json. Hollow points are bounds; anchors are lines with an error band.

    Raises UsageError unless all have the same game, readouts and strongest anchor. Anchors come from the first curve.
    """
    for curve in curves[1:]:
        for what in ("game", "readouts"):
            if curve[what] != curves[0][what]:
                raise UsageError(
                    f"{curve['run']} has {what} {curve[what]}, {curves[0]['run']} {curves[0][what]}: they don't compare"
                )
        if list(curve["anchors"])[-1:] != list(curves[0]["anchors"])[-1:]:
            raise UsageError(f"{curve['run']} and {curves[0]['run']} count Elo from different anchors")
    from matplotlib.figure import Figure  # the other tools import this module, and draw nothing

    figure = Figure(figsize=(11, 4.2), layout="constrained")
    panels = figure.subplots(1, len(AXES), sharey=True)
    for panel, (key, (label, unit)) in zip(panels, AXES.items(), strict=True):
        for curve in curves:
            factor = curve["settings"]["cores"] if key == "minutes" else 1
            points = curve["points"]
            x, elo = [point[key] * factor / unit for point in points], [point["elo"] for point in points]
            drawn = panel.errorbar(
                x,
                elo,
                [point["error"] for point in points],
                marker="o",
                markersize=3,
                capsize=2,
                linewidth=1.2,
                label=curve["run"],
            )
            bounds = [i for i, point in enumerate(points) if point["bound"]]
            colour = drawn.lines[0].get_color()
            panel.plot([x[i] for i in bounds], [elo[i] for i in bounds], "o", mfc="white", mec=colour, markersize=4)
        for one in curves[0]["anchors"].values():
            panel.axhline(one["elo"], color="grey", linewidth=0.7, linestyle="--")
            panel.axhspan(one["elo"] - one["error"], one["elo"] + one["error"], color="grey", alpha=0.06)
        bottom, top = panel.get_ylim()
        for names, elo in label_groups(curves[0]["anchors"], LABEL_HEIGHT * (top - bottom)):
            where = {"xycoords": ("axes fraction", "data"), "ha": "right", "va": "top", "fontsize": 7}
            panel.annotate(names, (1, elo), **where)
        panel.set_xlabel(label)
        panel.set_xlim(left=0)
        panel.grid(alpha=0.3)
    panels[0].set_ylabel(f"Elo at {curves[0]['readouts']} readouts")
    panels[0].legend(loc="lower right", fontsize=7)
    figure.suptitle(f"{curves[0]['game']}: strength of the champions, bars of 95 %", fontsize=10)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


# Commands


def run_command(options: argparse.Namespace, progress: Progress) -> None:
    game = changed_preset(options.preset, options.set, options.seed)["init"].get("game", InitConfig().game)
    refuse_too_many(f"--verdict-games {options.verdict_games}:", options.verdict_games, game)
    for other in options.against:
        info = read_info(champion(other))
        if game_as_seen(info, parse_game(game)) is None:
            raise UsageError(f"--against {other}: a run of {info.game}; wanted one whose champion plays {game}")
    names = tuple(name_of(one) for one in anchors(parse_game(game).spec))
    settings = Settings(options.preset, tuple(options.set), options.seed, options.cores, names, options.overlap)
    atomic.make_folder(options.run)
    with atomic.file_lock(options.run / SETTINGS, wait=False):
        preset = prepare(options.run, settings)
        if not options.train_only:
            known_anchors(options.run, parse_game(game).spec)
        clock = train(options.run, preset, options.minutes, options.cores, options.overlap)
        if options.train_only:
            return
        measurement, verdict = measure(options.run, options, progress)
        report(options.run, clock, measurement, verdict, options.readouts)


def half_of_the_points(one: str, other: str, found: Estimate) -> str:
    return f"handicap at which {one} scores half against {other}, in {found.unit}: {found}"


def engine_asked(options: argparse.Namespace, command: str) -> str:
    """The opponent, by default GNU Go. Raises UsageError if it is a model or isn't installed."""
    if options.opponent and parse_player(options.opponent).kind == "model":
        raise UsageError(f"{command} --opponent {options.opponent}: a model; wanted an engine: NAME=gtp:COMMAND")
    opponent = named(options.opponent or anchors("go:9")[-1])
    if options.opponent is None and ENGINE not in opponent:
        raise UsageError(f"{command} --opponent: not given, and GNU Go isn't installed (Debian: apt-get install gnugo)")
    return opponent


def handicap_command(options: argparse.Namespace, progress: Progress) -> None:
    opponent = engine_asked(options, "handicap")
    found = []
    for one in options.player:
        if has_champion(one):
            model, named_after_run = champion(one), last_player(one, options.readouts)
            # In the run's own folder by its own name, so that the games that `run` has played there count.
            asked = named_after_run if options.output else player(model, options.readouts)
            shown, measurement = name_of(named_after_run), measurement_of(one, progress, options.output)
        elif options.output is None:
            raise UsageError(f"handicap {one}: a model, not a run; wanted --output FOLDER for its matches")
        else:
            model = resolve_champion(one)
            asked = player(model, options.readouts)
            shown = name_of(asked)
            measurement = measurement_with({}, model, options.output, progress)
        games = dict.fromkeys(sorted(set(options.stones)), options.games)
        found.append(handicap(measurement, asked, opponent, games, progress))
        print(half_of_the_points(shown, name_of(opponent), found[-1]))
    if len(found) > 1:
        print(spread_of_handicaps(found))


def komi_command(options: argparse.Namespace, progress: Progress) -> None:
    opponent = engine_asked(options, "komi")
    found = []
    for one in options.player:
        is_run = has_champion(one)
        model = champion(one) if is_run else resolve_champion(one)
        folder = options.output or (one / MEASURED if is_run else None)
        if folder is None:
            raise UsageError(f"komi {one}: a model, not a run; wanted --output FOLDER for its matches")
        home = parse_game(read_info(model).game)
        if not isinstance(home, GoAnyBoard):
            raise UsageError(f"{home.spec} is played on one board; wanted a game of all boards")
        usual = home.on_board(options.board).komi

        def measure(moved: float, model: Path = model, folder: Path = folder, usual: float = usual) -> Measurement:
            game = parse_game(f"go:{options.board},komi={usual + moved:g}").spec
            return measurement_with({}, model, folder / f"komi{moved:+g}-{options.board}", progress, game)

        asked = last_player(one, options.readouts) if is_run else player(model, options.readouts)
        estimated = points_of_komi(measure, asked, opponent, sorted(set(options.points)), options.games)
        found.append(estimated)
        for level in estimated.levels:
            low, high = wilson_interval(level.score)
            progress.say(f"{level.amount:+g} points: {level.score.share:.1%} ({low:.1%} to {high:.1%})")
        print(half_of_the_points(name_of(asked), name_of(opponent), estimated))
    if len(found) > 1:
        print(spread_of_handicaps(found))


def spread_of_handicaps(found: Sequence[Estimate]) -> str:
    halves = [one.half for one in found]
    if None in halves:
        return f"half at {'; '.join(map(str, found))}: no mean, since not all are numbers"
    return f"half at {Spread(tuple(half for half in halves if half is not None)).text('.2f')}"


def seeds_command(options: argparse.Namespace, progress: Progress) -> None:
    curves = [atomic.read_json(run / "curve.json", "the curve of a run") for run in options.run]
    for run, curve in zip(options.run, curves, strict=True):
        for what in ("game", "readouts"):
            if curve[what] != curves[0][what]:
                raise UsageError(f"{run} has {what} {curve[what]}, {options.run[0]} {curves[0][what]}")
        ours, first = ({**one["settings"], "seed": None} for one in (curve, curves[0]))
        different = sorted(name for name in first | ours if ours.get(name) != first.get(name))
        if different:
            raise UsageError(f"{run} and {options.run[0]} differ in {', '.join(different)}, not only in the seed")
    seeds = [curve["settings"]["seed"] for curve in curves]
    if len(set(seeds)) < len(seeds):
        raise UsageError(f"seeds {', '.join(map(str, seeds))}: wanted runs of different ones")
    print(f"{curves[0]['game']}, seeds {', '.join(map(str, seeds))}, {len(curves)} runs")
    minutes = Spread(tuple(curve["minutes"] for curve in curves))
    print(f"minutes on {curves[0]['settings']['cores']} cores: {minutes.text('.1f')}")
    for index, opponent in enumerate(shared_verdict(curves)):
        shares = Spread(tuple(curve["verdict"][index]["share"] for curve in curves))
        print(f"against {opponent}: {', '.join(f'{share:.1%}' for share in shares.values)}; {shares.text('.1%')}")
    handicaps = [curve.get("handicap") for curve in curves]
    if all(handicaps) and len({one["opponent"] for one in handicaps}) == 1:
        found = [Estimate.from_json(one) for one in handicaps]
        print(f"against {handicaps[0]['opponent']}: {'; '.join(map(str, found))}; {spread_of_handicaps(found)}")


def shared_verdict(curves: Sequence[Mapping[str, Any]]) -> list[str]:
    """The opponents and readouts that the verdicts of all runs share."""
    lines = [
        [f"{one['opponent']} with {one['player'].rpartition('@')[2]} readouts" for one in curve["verdict"]]
        for curve in curves
    ]
    return [here[0] for here in takewhile(lambda here: len(set(here)) == 1, zip(*lines, strict=False))]


def meet_command(options: argparse.Namespace, progress: Progress) -> None:
    measurement = measurement_of(options.run, progress)
    one, other = player(champion(options.run), options.readouts), last_player(options.other, options.readouts)
    print(measurement.play(one, other, options.games))


def plot_command(options: argparse.Namespace, progress: Progress) -> None:
    draw([atomic.read_json(run / "curve.json", "the curve of a run") for run in options.run], options.output)
    progress.say(f"made {options.output}")


class HelpFormatter(argparse.RawDescriptionHelpFormatter, argparse.ArgumentDefaultsHelpFormatter):
    """Keeps the lines of the description and shows each option's default, if there is one."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        return action.help if action.default in (None, "") else super()._get_help_string(action)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.strength",
        description=__doc__,
        formatter_class=HelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="run | handicap | komi | seeds | meet | plot")

    run = commands.add_parser("run", help="train for a given time, then measure", formatter_class=HelpFormatter)
    run.add_argument("run", type=Path, metavar="RUN", help="the run's folder, made if missing")
    run.add_argument("--preset", default="go9", help="the loop's preset: a name or a .yaml file")
    run.add_argument(
        "--set", action="append", default=[], metavar="STAGE.LINE=VALUE", help="change a line of the preset"
    )
    run.add_argument("--seed", type=int, default=0, help="seed of the first weights; games differ anyway")
    run.add_argument("--minutes", type=float, default=120, help="how long the loop runs in all")
    run.add_argument("--cores", type=int, default=available_cores(), help="cores that the loop may use")
    run.add_argument("--overlap", action="store_true", help="run self-play beside all other stages")
    run.add_argument(
        "--train-only", action="store_true", help="don't measure; the same command without this option does"
    )
    run.add_argument("--every", type=int, default=4, help="measure every k-th champion")
    run.add_argument("--games", type=int, default=40, help="games of each measured champion")
    run.add_argument("--readouts", type=int, default=200, help="simulations per move in matches")
    run.add_argument("--verdict-games", type=int, default=100, help="games of the verdict against each opponent")
    text = "games of the verdict per number of stones, if GNU Go is installed; 0: none"
    run.add_argument("--handicap-games", type=int, default=200, help=text)
    run.add_argument(
        "--against", type=Path, action="append", default=[], metavar="RUN", help="an earlier run whose champion to meet"
    )
    run.set_defaults(command=run_command)

    text = "the handicap at which players score half"
    stones = commands.add_parser("handicap", help=text, formatter_class=HelpFormatter)
    stones.add_argument("player", type=Path, metavar="RUN", nargs="+", help="a run, whose champion plays, or a model")
    stones.add_argument(
        "--opponent", metavar="PLAYER", help="NAME=gtp:COMMAND, takes the stones [default: GNU Go, level 10]"
    )
    stones.add_argument("--stones", type=int, nargs="+", default=list(STONES), help="handicaps; 0 is the even game")
    stones.add_argument("--games", type=int, default=200, help="games per number of stones; existing ones count")
    stones.add_argument("--readouts", type=int, default=200, help="simulations per move")
    stones.add_argument("--output", type=Path, help="folder of the matches [default: RUN/measured]")
    stones.set_defaults(command=handicap_command)

    text = "the points of komi at which players score half"
    komi = commands.add_parser("komi", help=text, formatter_class=HelpFormatter)
    komi.add_argument(
        "player", type=Path, metavar="RUN", nargs="+", help="a run of go:any, whose champion plays, or a model"
    )
    komi.add_argument(
        "--opponent", metavar="PLAYER", help="NAME=gtp:COMMAND, gets the points [default: GNU Go, level 10]"
    )
    komi.add_argument("--board", type=int, default=9, help="board size")
    komi.add_argument("--points", type=float, nargs="+", default=[0, 5, 10, 15], help="shifts of komi")
    komi.add_argument(
        "--games", type=int, default=200, help="games per komi, half with each colour; existing ones count"
    )
    komi.add_argument("--readouts", type=int, default=200, help="simulations per move")
    komi.add_argument("--output", type=Path, help="folder of the matches [default: RUN/measured]")
    komi.set_defaults(command=komi_command)

    seeds = commands.add_parser("seeds", help="figures of runs with different seeds", formatter_class=HelpFormatter)
    seeds.add_argument("run", type=Path, metavar="RUN", nargs="+", help="measured runs")
    seeds.set_defaults(command=seeds_command)

    meet = commands.add_parser("meet", help="let the last champions of two runs meet", formatter_class=HelpFormatter)
    meet.add_argument("run", type=Path, metavar="RUN", help="the run whose champion's score is printed")
    meet.add_argument("other", type=Path, metavar="OTHER", help="the run whose champion it meets")
    meet.add_argument("--games", type=int, default=200, help="games, each opening with both colours")
    meet.add_argument("--readouts", type=int, default=200, help="simulations per move")
    meet.set_defaults(command=meet_command)

    plot = commands.add_parser("plot", help="curves of several runs in one picture", formatter_class=HelpFormatter)
    plot.add_argument("run", type=Path, metavar="RUN", nargs="+", help="measured runs")
    plot.add_argument("--output", type=Path, default=Path("strength.svg"), help="the picture: .svg or .png")
    plot.set_defaults(command=plot_command)

    options = parser.parse_args(arguments)
    check(parser, options)
    return options


def check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Refuse here what would otherwise fail after hours of training."""
    given = vars(options)
    if given.get("cores", 1) not in range(1, available_cores() + 1):
        parser.error(f"--cores {options.cores}: this process may use {available_cores()}")
    if given.get("readouts", 0) < 0:
        parser.error(f"--readouts {options.readouts}: wanted at least 0, which is the raw policy")
    if given.get("every", 1) < 1:
        parser.error(f"--every {options.every}: wanted at least 1")
    if any(points < 0 or 2 * points % 1 for points in given.get("points", [])):
        parser.error(f"--points {' '.join(map(str, options.points))}: wanted multiples of 0.5 from 0 on")
    if any(stones < 0 or stones == 1 for stones in given.get("stones", [])):
        parser.error(f"--stones {' '.join(map(str, options.stones))}: wanted 0, which is the even game, or at least 2")
    for name in ("games", "verdict_games", "handicap_games"):
        if name == "handicap_games" and given.get(name) == 0:
            continue
        if given.get(name, 2) < 2 or given.get(name, 2) % 2:
            wanted = "wanted an even number of at least 2: every opening is played with both colours"
            parser.error(f"--{name.replace('_', '-')} {given[name]}: {wanted}")
    for run in [*given.get("against", []), *([options.other] if "other" in given else [])]:
        if not has_champion(run):
            parser.error(f"{run}: not a run with a champion")


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    return reported(lambda progress: options.command(options, progress))


@contextmanager
def ending(parser: argparse.ArgumentParser) -> Iterator[None]:
    """End a benchmark that prints as it goes: UsageError by the parser, MuGoError and Ctrl-C by a line and a code."""
    try:
        yield
    except UsageError as error:
        parser.error(str(error))
    except MuGoError as error:
        parser.exit(error.exit_code, f"{parser.prog}: {error}\n")
    except KeyboardInterrupt:
        parser.exit(INTERRUPTED, "stopped; the printed results are valid\n")


def reported(work: Callable[[Progress], None]) -> int:
    """Do the work, print errors as one line, and return the exit code: 0, that of a MuGoError, or 130 if stopped."""
    with ConsoleProgress() as progress, stopped_by_signals():
        try:
            work(progress)
        except KeyboardInterrupt:
            progress.warn("stopped; the same command continues")
            return INTERRUPTED
        except MuGoError as error:
            progress.warn(str(error))
            return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
