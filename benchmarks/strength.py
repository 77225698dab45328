"""How strong a recipe becomes in a given time: runs it from an empty folder, measures its champions, draws the curve.

    python -m benchmarks.strength run RUN --preset go9 --minutes 120
    python -m benchmarks.strength meet RUN OTHER --games 200
    python -m benchmarks.strength plot RUN … --output curve.svg

run     Trains in RUN with ./rl_loop.sh until the loop has had so many minutes on so many cores. Then every k-th
        champion meets anchors (Go: random, and levels 1, 5 and 10 of GNU Go if it is there; else random and heuristic),
        champions before it and those of earlier runs (--against). Then the last one plays the verdict against the
        strongest anchor: with its raw policy, with --readouts and with 800. Nobody is measured while the loop runs.
        Stop it when you like: the same command goes on where it stood, and with more --minutes a finished run goes on.
meet    The last champions of two runs, each opening played both ways: which recipe is better.
plot    The curves of several runs in one picture.

    RUN/strength.json       what was asked for: preset, changes (--set), seed, cores
    RUN/preset.yaml         the preset with the changes; RUN/data, RUN/saved_models: the loop's own
    RUN/clock.json          how long the loop ran and where the time went (benchmarks/loop_clock.py)
    RUN/measured/           matches; --games counts what is there
    RUN/curve.json, .svg    Elo over minutes, games and evaluations; the verdict; the profile

Elo is Bradley-Terry's over all games of RUN/measured, with the strongest anchor at 0 and bars of 95 % for the distance
to it. Core-minutes are minutes times cores. Moves are greedy; games differ by their openings.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from benchmarks.loop_clock import Clock, run_loop
from benchmarks.strength_plot import draw
from pipeline.arena.ratings import bradley_terry
from pipeline.arena.statistics import Score, wilson_interval
from pipeline.arena.verdict import score_of
from pipeline.config import CONFIGS, SearchConfig, TournamentConfig, available_cores
from pipeline.errors import MuGoError, UsageError
from pipeline.progress import Progress
from pipeline.recipes import make_config, read_preset
from pipeline.records import atomic, layout
from pipeline.records.matches import Match
from pipeline.records.models import read_info, read_promotions, resolve_champion
from pipeline.records.shards import ShardMeta, newest_shards
from pipeline.reports.progress import ConsoleProgress
from pipeline.stages.ratings import encounter_of, read_matches
from pipeline.stages.tournament import tournament

LOOP = Path(__file__).resolve().parent.parent / "rl_loop.sh"
GNUGO_LEVELS = (1, 5, 10)
GNUGO = "gnugo-{level}=gtp:{program} --mode gtp --level {level} --chinese-rules --capture-all-dead --positional-superko"
MODELS = "saved_models"  # in a run
PLACING_PAIRS = 2  # pairs of games before it is asked again whom a player should meet
EARLIER = 3  # champions measured before that one meets
VERDICT_READOUTS = (0, 800)  # beside --readouts


@dataclass(frozen=True)
class Settings:
    """What a run was asked for; must stay the same when it is resumed. changes: ``stage.line=value``."""

    preset: str
    changes: tuple[str, ...]
    seed: int
    cores: int


@dataclass(frozen=True)
class Point:
    """A measured champion. minutes, games, evaluations: what the loop had spent when it was promoted.

    elo above the strongest anchor, error half of the 95 % interval of that.
    """

    model: str
    minutes: float
    games: int
    positions: int
    evaluations: int
    elo: float
    error: float


@dataclass(frozen=True)
class Result:
    """One player's games against another; share: its points per game, with the 95 % interval (Wilson)."""

    player: str
    opponent: str
    games: int
    wins: int
    draws: int
    losses: int
    share: float
    low: float
    high: float

    def __str__(self) -> str:
        counts = f"{self.wins} won, {self.draws} drawn, {self.losses} lost"
        return f"{self.player} against {self.opponent}: {counts}: {self.share:.1%} ({self.low:.1%} to {self.high:.1%})"


# Training


def changed_preset(name: str, changes: Sequence[str], seed: int) -> dict[str, dict[str, Any]]:
    """A preset's sections with ``stage.line=value`` changes, value in YAML, and the seed. Raises UsageError."""
    sections = {stage: dict(lines) for stage, lines in read_preset(name).items()}
    for change in changes:
        place, equals, text = change.partition("=")
        stage, dot, line = place.partition(".")
        if not equals or not dot or stage not in CONFIGS:
            raise UsageError(f"--set {change!r}: wanted STAGE.LINE=VALUE, e.g. selfplay.readouts=64")
        try:
            sections.setdefault(stage, {})[line] = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise UsageError(f"--set {change!r}: the value is not readable as YAML") from error
    sections.setdefault("init", {})["seed"] = seed
    return sections


def prepare(run: Path, settings: Settings) -> Path:
    """The run's preset, written when the run begins. Raises UsageError if the run was begun with other settings."""
    atomic.make_folder(run)
    wanted, path = {**asdict(settings), "changes": list(settings.changes)}, run / "strength.json"
    if path.exists():
        found = atomic.read_json(path, "the settings of a run")
        if found != wanted:
            different = ", ".join(f"{key} {found.get(key)!r}" for key in wanted if found.get(key) != wanted[key])
            raise UsageError(f"{run}: begun with {different}; go on with that, or choose another folder")
        return run / "preset.yaml"
    preset = run / "preset.yaml"
    sections = changed_preset(settings.preset, settings.changes, settings.seed)
    atomic.write_text(preset, yaml.safe_dump(sections, sort_keys=False))
    for stage in sections:
        make_config(CONFIGS[stage], stage, str(preset))  # a wrong line is said now, not when its stage begins
    atomic.write_json(path, wanted, indent=1)
    return preset


def train(run: Path, preset: Path, minutes: float, cores: int) -> Clock:
    """Let the loop run until it has had so many minutes. Raises MuGoError if it ends by itself."""
    clock = Clock.read(run / "clock.json")
    command: list[str | Path] = [LOOP, "--preset", preset.resolve(), "--directory", run, "--generations", "0"]
    code = run_loop(command, list(CONFIGS), clock, minutes * 60, cores)
    if code is not None:
        raise MuGoError(f"{LOOP.name} ended with exit code {code} after {clock.seconds / 60:.1f} minutes; see above")
    return clock


# Measuring


@dataclass(frozen=True)
class Promotion:
    """A champion and when it became one, in seconds since 1970."""

    model: Path
    time: float


def champions(run: Path, every: int) -> list[Promotion]:
    """The initial model, every k-th champion after it, and the last."""
    folder = run / MODELS
    found = [
        Promotion(folder / line["champion"], datetime.fromisoformat(line["time"]).timestamp())
        for line in read_promotions(folder)
    ]
    return [one for i, one in enumerate(found) if i % every == 0 or i == len(found) - 1]


def anchors(game_spec: str) -> list[str]:
    """Players that don't change, the strongest last."""
    program = shutil.which("gnugo") or shutil.which("gnugo", path="/usr/games")
    if game_spec.startswith("go:") and program:
        return ["random", *(GNUGO.format(level=level, program=program) for level in GNUGO_LEVELS)]
    return ["random", "heuristic"]


def name_of(player: str) -> str:
    return player.partition("=")[0]


class Measurement:
    """Matches of a run's players in RUN/measured."""

    def __init__(self, folder: Path, game: str, search: dict[str, Any], progress: Progress) -> None:
        """search: lines of SearchConfig that models play with."""
        self._folder = folder
        self.search = search
        self.game = game
        self._progress = progress

    def place(self, player: str, others: Sequence[str], games: int) -> None:
        """Let a player meet others where its rating gains most, until it has so many games against them."""
        self._play(games, player=[*others], place=player, pairs_per_round=PLACING_PAIRS)

    def play(self, one: str, other: str, games: int) -> Result:
        """So many games in all, and the first one's result."""
        self._play(games, player=[one, other], pairs_per_round=-(-games // 2))
        return self.result(name_of(one), name_of(other))

    def _play(self, games: int, **players: Any) -> None:
        config = TournamentConfig(**self.search, **players, game=self.game, games=games, output_dir=self._folder)
        tournament(config, self._progress)

    def matches(self) -> list[Match]:
        return read_matches([self._folder], self._progress)[0]

    def result(self, one: str, other: str) -> Result:
        """What one made against the other. Raises MuGoError if they haven't met."""
        for match in self.matches():
            names = [info.rated_as for info in match.header.players]
            if set(names) != {one, other}:
                continue
            score = score_of(match.games)
            if names[0] != one:
                score = Score(score.losses, score.draws, score.wins)
            low, high = wilson_interval(score)
            return Result(one, other, score.games, score.wins, score.draws, score.losses, score.share, low, high)
        raise MuGoError(f"{self._folder}: no games of {one} and {other}")


def player(model: Path, readouts: int, run: str = "") -> str:
    """The spec of a model that plays under a name of its own. run: a prefix that tells it from those of other runs."""
    return f"{run}{model.name}@{readouts}={model.resolve()}@{readouts}"


def measure(run: Path, options: argparse.Namespace, progress: Progress) -> tuple[Measurement, list[Result]]:
    """Play what is missing of the curve and of the verdict."""
    promoted = champions(run, options.every)
    measurement = measurement_of(run, progress)
    fixed = anchors(measurement.game)
    earlier = [last_player(other, options.readouts) for other in options.against]
    models = [player(one.model, options.readouts) for one in promoted]
    for i, model in enumerate(models):
        progress.say(f"champion {i + 1} of {len(models)}: {name_of(model)}")
        measurement.place(model, [*fixed, *earlier, *models[max(0, i - EARLIER) : i]], options.games)
    last = promoted[-1].model
    results = []
    for opponent in [fixed[-1], *earlier]:
        for readouts in (options.readouts, *VERDICT_READOUTS):
            if opponent == fixed[-1] or readouts == options.readouts:
                results.append(measurement.play(player(last, readouts), opponent, options.verdict_games))
                progress.say(str(results[-1]))
    return measurement, results


def measurement_of(run: Path, progress: Progress) -> Measurement:
    """Of a run's game, with the search settings of its evaluate stage."""
    preset = run / "preset.yaml"
    lines = read_preset(str(preset)).get("evaluate", {})
    search = {name: lines[name] for name in SearchConfig.model_fields if name in lines}
    game = read_info(resolve_champion(run / MODELS / layout.CHAMPION)).game
    return Measurement(run / "measured", game, search, progress)


def last_player(run: Path, readouts: int) -> str:
    """The champion of a run, under a name that says the run."""
    model = resolve_champion(run / MODELS / layout.CHAMPION)
    return player(model, readouts, f"{run.resolve().name}-")


def shard_time(meta: ShardMeta) -> float:
    """When it was committed, in seconds since 1970."""
    name = layout.parse_shard_name(meta.path.name)
    return name.time.timestamp() if name else 0.0


def curve(run: Path, clock: Clock, measurement: Measurement, readouts: int) -> list[Point]:
    """Every measured champion, in order of time."""
    zero = name_of(anchors(measurement.game)[-1])
    fit = bradley_terry([encounter_of(match) for match in measurement.matches()])
    metas = list(newest_shards(run / "data" / "selfplay"))
    points = []
    for one in champions(run, 1):
        name = name_of(player(one.model, readouts))
        if name not in fit.index:
            continue
        elo, error = fit.difference(name, zero)
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
            )
        )
    return points


def anchor_ratings(measurement: Measurement) -> dict[str, float]:
    """Elo of the anchors that were met above the strongest of them."""
    names = [name_of(one) for one in anchors(measurement.game)]
    fit = bradley_terry([encounter_of(match) for match in measurement.matches()])
    return {name: fit.difference(name, names[-1])[0] for name in names if name in fit.index}


def report(run: Path, clock: Clock, measurement: Measurement, results: Sequence[Result], readouts: int) -> None:
    """Print what was measured; write curve.json and curve.svg."""
    settings = atomic.read_json(run / "strength.json", "the settings of a run")
    points = curve(run, clock, measurement, readouts)
    written: dict[str, Any] = {
        "run": run.resolve().name,
        "settings": settings,
        "game": measurement.game,
        "readouts": readouts,
        "minutes": clock.seconds / 60,
        "anchors": anchor_ratings(measurement),
        "points": [asdict(point) for point in points],
        "verdict": [asdict(result) for result in results],
        "profile": {name: vars(times) for name, times in clock.stages.items()},
    }
    atomic.write_json(run / "curve.json", written, indent=1)
    draw([written], run / "curve.svg")
    print(f"{'champion':<20}{'minutes':>8}{'games':>9}{'evaluations':>13}{'Elo':>7}{'+-':>5}")
    for point in points:
        print(
            f"{point.model:<20}{point.minutes:>8.1f}{point.games:>9,}{point.evaluations:>13,}"
            f"{point.elo:>7.0f}{point.error:>5.0f}"
        )
    print("anchors: " + ", ".join(f"{name} {elo:.0f}" for name, elo in written["anchors"].items()))
    for result in results:
        print(result)
    print(f"{'stage':<16}{'share of time':>14}{'cores busy':>11}")
    for name, times in sorted(clock.stages.items(), key=lambda item: -item[1].seconds):
        busy = times.cpu_seconds / max(times.seconds, 1e-9)
        print(f"{name:<16}{times.seconds / clock.seconds:>14.1%}{busy:>11.2f}")


# Commands


def run_command(options: argparse.Namespace, progress: Progress) -> None:
    settings = Settings(options.preset, tuple(options.set), options.seed, options.cores)
    preset = prepare(options.run, settings)
    clock = train(options.run, preset, options.minutes, options.cores)
    if options.train_only:
        return
    measurement, results = measure(options.run, options, progress)
    report(options.run, clock, measurement, results, options.readouts)


def meet_command(options: argparse.Namespace, progress: Progress) -> None:
    measurement = measurement_of(options.run, progress)
    one, other = (last_player(run, options.readouts) for run in (options.run, options.other))
    print(measurement.play(one, other, options.games))


def plot_command(options: argparse.Namespace, progress: Progress) -> None:
    draw([atomic.read_json(run / "curve.json", "the curve of a run") for run in options.run], options.output)
    progress.say(f"made {options.output}")


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.strength",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="run | meet | plot")

    run = commands.add_parser("run", help="train for a given time, then measure")
    run.add_argument("run", type=Path, metavar="RUN", help="a folder; made if it isn't there")
    run.add_argument("--preset", default="go9")
    run.add_argument("--set", action="append", default=[], metavar="STAGE.LINE=VALUE", help="change the preset")
    run.add_argument("--seed", type=int, default=0, help="of the first weights; the games differ in any case")
    run.add_argument("--minutes", type=float, default=120, help="that the loop runs, in all")
    run.add_argument("--cores", type=int, default=available_cores(), help="that the loop has")
    run.add_argument("--train-only", action="store_true", help="measure nothing yet: the same command without it does")
    run.add_argument("--every", type=int, default=4, help="measure every k-th champion")
    run.add_argument("--games", type=int, default=40, help="of every measured champion")
    run.add_argument("--readouts", type=int, default=200, help="simulations per move in matches")
    run.add_argument("--verdict-games", type=int, default=100, help="against the strongest anchor")
    run.add_argument("--against", type=Path, action="append", default=[], metavar="RUN", help="an earlier run to meet")
    run.set_defaults(command=run_command)

    meet = commands.add_parser("meet", help="let the last champions of two runs meet")
    meet.add_argument("run", type=Path, metavar="RUN")
    meet.add_argument("other", type=Path, metavar="OTHER")
    meet.add_argument("--games", type=int, default=200)
    meet.add_argument("--readouts", type=int, default=200)
    meet.set_defaults(command=meet_command)

    plot = commands.add_parser("plot", help="curves of several runs in one picture")
    plot.add_argument("run", type=Path, metavar="RUN", nargs="+")
    plot.add_argument("--output", type=Path, default=Path("strength.svg"))
    plot.set_defaults(command=plot_command)

    options = parser.parse_args(arguments)
    if getattr(options, "cores", 1) not in range(1, available_cores() + 1):
        parser.error(f"--cores {options.cores}: this process may use {available_cores()}")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    with ConsoleProgress() as progress:
        try:
            options.command(options, progress)
        except MuGoError as error:
            progress.warn(str(error))
            return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
