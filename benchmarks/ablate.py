"""Which lines of a recipe pay? Trains many short runs that differ in half of all changes each, and lets them meet.

    python -m benchmarks.ablate benchmarks/plans/go7.yaml runs/go7

Takes an hour and more: runs × minutes / cores, then the matches. Prints the rating of each run and the effect of each
change in Bradley-Terry Elo, with 95 % bars.

Two runs of one recipe differ by luck, which would be in every comparison of one changed run with one unchanged run. So
each of the `factors` of a plan is changed in half of the runs (a Plackett-Burman design): its effect is the mean of
these runs minus that of the others, and every effect is known as precisely as if all runs had tested it alone. The
price: an effect is a mean over the other changes, and a third of an interaction of two changes (in designs of 12 and 24
runs) is spread over the effects of others. `arms` are runs for changes that can't be combined; arms with equal changes
and different seeds show the luck of a recipe. A plan is YAML, and every line is optional:

    preset: go9
    changes: {init: {game: "go:7,komi=9"}}  # of all runs
    minutes: 8                              # of one core, for each run
    readouts: 100                           # in the matches
    opponents: 6                            # how many other runs each run meets
    games: 40                               # of each match
    factors:
      no surprise: {gather: {surprise_weight: 0}}
      no symmetries: {train: {symmetries: false}}
    arms:
      base: {}
      Gumbel: {selfplay: {algorithm: gumbel}}
      Gumbel again: {seed: 1, selfplay: {algorithm: gumbel}}

With `start: RUN` all arms continue copies of that run's models and games, which shows what pays later on, with less
luck. Schedules then count from the run's state, those by time from zero; networks never shrink; init has no effect.

One run per core runs at a time. A core without a run left gets a throw-away run, so that all runs have equally busy
neighbours. The first minute is only throw-away runs, which compile the kernels. Then the last champions meet, each
opening with both colours.

The bars include the luck of the runs, estimated from what the changes don't explain; one effect in twenty lies outside
its bar by chance. The same command continues after Ctrl-C; more minutes extend the runs, and arms may be added.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray
from scipy import stats

from benchmarks.loop_clock import CLOCK, Clock, start, stop
from benchmarks.measuring import (
    MEASURED,
    Measurement,
    champion,
    champions,
    has_champion,
    last_player,
    measurement_of,
    name_of,
    refuse_too_many,
)
from benchmarks.strength import changed_preset, reported, shard_time, write_preset
from pipeline.errors import MuGoError, UsageError
from pipeline.progress import Progress
from pipeline.ratings.command import match_result
from pipeline.ratings.strength import bradley_terry
from pipeline.run import atomic, layout
from pipeline.run.models import read_info
from pipeline.run.shards import newest_shards
from pipeline.train.config import InitConfig

ROOT = Path(__file__).resolve().parent.parent
POLL_SECONDS = 1.0
WARM_UP_SECONDS = 60.0
FOREVER = 1e6  # minutes
THROW_AWAY = "throw-away-"
PRIMES = (7, 11, 19, 23, 31, 43, 47)  # 3 modulo 4; a design has one run more
SPARE = 3  # the fewest columns without a factor, which estimate the luck of the runs
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Arm:
    """One run. changes: to the preset, shared ones first; terms: the names of its own changes."""

    name: str
    folder: str
    changes: tuple[str, ...]
    seed: int
    terms: tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    """What is compared. start: a run to continue; minutes: of one core; readouts, opponents, games: of the matches."""

    preset: str
    start: Path | None
    minutes: float
    readouts: int
    opponents: int
    games: int
    arms: tuple[Arm, ...]


def read_plan(path: Path) -> Plan:
    """Raises UsageError for missing, unknown and conflicting lines and for wrong values."""
    try:
        raw = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"plan {path}: not readable: {' '.join(str(error).split())}") from error
    wanted = {"preset", "start", "changes", "minutes", "readouts", "opponents", "games", "factors", "arms"}
    if not isinstance(raw, dict) or set(raw) - wanted or not (raw.get("factors") or raw.get("arms")):
        raise UsageError(f"plan {path}: wanted the lines {', '.join(sorted(wanted))}, at least factors or arms")
    where = "changes"
    try:
        shared = changes_of(raw.get("changes") or {})
        where = "factors"
        arms = designed(shared, {str(name): changes_of(own) for name, own in (raw.get("factors") or {}).items()})
        for name, settings in (raw.get("arms") or {}).items():
            where = f"arm {name}"
            own = dict(settings)
            seed, changes = int(own.pop("seed", 0)), changes_of(own)
            same = next((arm.terms for arm in arms if arm.changes == (*shared, *changes)), (str(name),))
            arms.append(Arm(str(name), folder_name(str(name)), (*shared, *changes), seed, same if changes else ()))
        where = "numbers"
        numbers = float(raw.get("minutes", 20)), int(raw.get("readouts", 100))
        matches = int(raw.get("opponents", 6)), int(raw.get("games", 40))
    except (AttributeError, TypeError, ValueError) as error:
        raise UsageError(f"plan {path}, {where}: {error}; wanted e.g. {{STAGE: {{LINE: VALUE}}}}, numbers") from error
    names = [*(folder_name(str(name)) for name in raw.get("factors") or {}), *(arm.folder for arm in arms)]
    if len(set(names)) < len(names):
        raise UsageError(f"plan {path}: wanted different names for all factors and arms, none of them mixed-NUMBER")
    if spare_runs([arm.terms for arm in arms]) < 1:
        raise UsageError(f"plan {path}: no estimate of the luck of runs: repeat an arm with another seed")
    start = Path(str(raw["start"])) if raw.get("start") else None
    if start and not has_champion(start):
        raise UsageError(f"plan {path}, start: {start} is not a run with a champion")
    plan = Plan(str(raw.get("preset", "go9")), start, *numbers, *matches, tuple(arms))
    check(plan, path)
    return plan


def check(plan: Plan, path: Path) -> None:
    """Raises UsageError for what would otherwise fail after hours of training. path: the plan's."""
    for name, number, least in (("minutes", plan.minutes, 0.01), ("readouts", plan.readouts, 0),
                                ("opponents", plan.opponents, 1), ("games", plan.games, 2)):  # fmt: skip
        if not number >= least:
            raise UsageError(f"plan {path}, {name}: {number}; wanted at least {least}")
    if plan.games % 2:
        raise UsageError(
            f"plan {path}, games: {plan.games}; wanted an even number: every opening is played with both colours"
        )
    game = InitConfig().game
    with tempfile.TemporaryDirectory(prefix="mugo-ablate-") as folder:
        for arm in plan.arms:
            try:
                sections = changed_preset(plan.preset, arm.changes, arm.seed)
                write_preset(Path(folder) / "preset.yaml", sections)
            except UsageError as error:
                raise UsageError(f"plan {path}, arm {arm.name}: {error}") from error
            game = sections["init"].get("game", game)
    met = read_info(champion(plan.start)).game if plan.start else game
    refuse_too_many(f"plan {path}, games: {plan.games};", plan.games, met)


def designed(shared: list[str], factors: Mapping[str, list[str]]) -> list[Arm]:
    """The runs of a design of these factors, with different seeds. Raises ValueError if two factors conflict."""
    if not factors:
        return []
    lines = [change.partition("=")[0] for changes in factors.values() for change in changes]
    twice = sorted({line for line in lines if lines.count(line) > 1})
    if twice:
        raise ValueError(f"two factors change {', '.join(twice)}")
    arms = []
    for i, on in enumerate(plackett_burman(len(factors)).tolist(), start=1):
        terms = tuple(name for name, is_on in zip(factors, on, strict=True) if is_on)
        changes = (*shared, *(change for name in terms for change in factors[name]))
        arms.append(Arm(f"mixed {i:02d}", f"mixed-{i:02d}", changes, i, terms))
    return arms


def changes_of(sections: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """In the format of --set of benchmarks.strength."""
    return [f"{stage}.{line}={json.dumps(value)}" for stage, lines in sections.items() for line, value in lines.items()]


def folder_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-.")


# Designs. Source: Plackett and Burman 1946; rows from quadratic residues by Paley's construction.


@dataclass(frozen=True)
class Effect:
    """The effect of one term, in the unit of the results. error: half the 95 % interval."""

    name: str
    value: float
    error: float


def plackett_burman(factors: int) -> NDArray[np.bool_]:
    """[runs, factors] whether a run has a factor. The last run has none.

    Every pair of factors comes in all four combinations equally often. Raises UsageError for more than 44 factors.
    """
    prime = next((prime for prime in PRIMES if prime >= factors + SPARE), None)
    if prime is None:
        raise UsageError(f"found {factors} factors; wanted at most {PRIMES[-1] - SPARE}")
    residues = {i * i % prime for i in range(prime)}  # 0 among them
    first = np.array([i in residues for i in range(prime)])
    runs = np.vstack([*(np.roll(first, i) for i in range(prime)), np.zeros(prime, dtype=np.bool_)])
    return runs[:, :factors]


def model_matrix(runs: Sequence[Sequence[str]]) -> tuple[list[str], NDArray[np.float64]]:
    """(terms in order of appearance, [runs, 1 + terms]: 1 for the intercept and for each term of a run)."""
    terms = list(dict.fromkeys(term for run in runs for term in run))
    return terms, np.array([[1.0, *(float(term in run) for term in terms)] for run in runs])


def spare_runs(runs: Sequence[Sequence[str]]) -> int:
    """The degrees of freedom of the errors; 0 if the effects can't be estimated."""
    matrix = model_matrix(runs)[1]
    return len(runs) - matrix.shape[1] if np.linalg.matrix_rank(matrix) == matrix.shape[1] else 0


def effects(runs: Sequence[Sequence[str]], results: Sequence[float]) -> tuple[list[Effect], float]:
    """(the effects by least squares, the standard deviation of runs with equal terms).

    The errors come from the residuals, so they include the luck of the runs and of the matches.
    """
    terms, matrix = model_matrix(runs)
    free = spare_runs(runs)
    found, *_ = np.linalg.lstsq(matrix, np.asarray(results, dtype=np.float64), rcond=None)
    left = np.asarray(results) - matrix @ found
    variance = float(left @ left) / free
    errors = stats.t.ppf((1 + CONFIDENCE) / 2, free) * np.sqrt(variance * np.diag(np.linalg.inv(matrix.T @ matrix)))
    return [Effect(*one) for one in zip(terms, found[1:].tolist(), errors[1:].tolist(), strict=True)], variance**0.5


# Running


def train_all(plan: Plan, folder: Path, progress: Progress) -> None:
    """Run every arm for its minutes, one per core. Stops all and raises MuGoError if one fails."""
    for rest in folder.glob(f"{THROW_AWAY}*/"):  # left by an earlier call, perhaps of another plan
        shutil.rmtree(rest)
    left = [arm for arm in plan.arms if Clock.read(folder / arm.folder / CLOCK).seconds < plan.minutes * 60]
    cores = sorted(os.sched_getaffinity(0))
    running: dict[int, tuple[Arm | None, subprocess.Popen[bytes]]] = {}  # by core; None is a throw-away arm
    warm = time.monotonic() + (WARM_UP_SECONDS if left else 0)
    try:
        while left or any(arm for arm, _ in running.values()):
            for core in cores:
                arm, process = running.get(core, (None, None))
                if process is not None and process.poll() is not None:
                    if process.returncode:
                        name = arm.name if arm else "a throw-away arm"
                        raise MuGoError(f"{name} failed with exit code {process.returncode}; see {folder}/*.log")
                    arm = process = None
                    del running[core]
                if left and arm is None and time.monotonic() >= warm:
                    if process is not None:
                        stop(process)
                    arm = left.pop(0)
                    progress.say(f"{arm.name}: {plan.minutes:g} minutes on core {core}")
                    running[core] = arm, begin(plan, arm, plan.minutes, folder, core)
                elif process is None:
                    running[core] = None, begin(plan, neighbour(plan, core), FOREVER, folder, core)
            time.sleep(POLL_SECONDS)
    finally:
        for _, process in running.values():
            stop(process)


def neighbour(plan: Plan, core: int) -> Arm:
    """The throw-away arm that keeps a core busy."""
    return replace(plan.arms[-1], name="throw-away", folder=f"{THROW_AWAY}{core}")


def begin(plan: Plan, arm: Arm, minutes: float, folder: Path, core: int) -> subprocess.Popen[bytes]:
    if plan.start:
        branch(plan.start, folder / arm.folder)
    command = [sys.executable, "-m", "benchmarks.strength", "run", str((folder / arm.folder).resolve()), "--train-only"]
    command += ["--preset", plan.preset, "--minutes", str(minutes), "--cores", "1", "--seed", str(arm.seed)]
    command += [word for change in arm.changes for word in ("--set", change)]
    environment = {**os.environ, "MUGO_PYTHON": sys.executable}
    with (folder / f"{arm.folder}.log").open("ab") as output:
        return start(command, [core], cwd=ROOT, stdout=output, stderr=output, env=environment)


def branch(run: Path, folder: Path) -> None:
    """Begin a run as a copy of another's models, games and pool, without its clock, unless the folder has a run.

    Raises Busy while the other run's loop is running.
    """
    if (folder / layout.SAVED_MODELS).exists():
        return
    copy = folder / "copy"
    for rest in (copy, folder / "data"):  # left by an interrupted copy
        shutil.rmtree(rest, ignore_errors=True)
    with atomic.file_lock(run / layout.LOOP, wait=False):
        ignored = shutil.ignore_patterns("evaluate", "logs", "*.lock", layout.LOOP_FILE.name)
        for name in ("data", layout.SAVED_MODELS):
            shutil.copytree(run / name, copy / name, symlinks=True, ignore=ignored, copy_function=link_shards)
    for name in ("data", layout.SAVED_MODELS):  # models last: they mark a complete copy
        (copy / name).rename(folder / name)
    copy.rmdir()


def link_shards(source: str, target: str) -> None:
    """Shards are most of a run and never change, so link them, or copy them to another disk."""
    if source.endswith((layout.SHARD_SUFFIX, layout.META_SUFFIX)):
        with suppress(OSError):
            os.link(source, target)
            return
    shutil.copy2(source, target)


# Measuring


def meetings(runs: int, opponents: int) -> list[tuple[int, int]]:
    """Pairs of run numbers: each run meets about `opponents` others, near and far."""
    steps = np.linspace(1, max(1, (runs - 1) // 2), max(1, opponents // 2)).round().astype(int)
    pairs = {tuple(sorted((i, (i + step) % runs))) for step in steps.tolist() for i in range(runs)}
    return sorted((one, other) for one, other in pairs if one != other)


def play_all(plan: Plan, folder: Path, progress: Progress) -> Measurement:
    """Play the matches between the last champions."""
    measurement = measurement_of(folder / plan.arms[-1].folder, progress, folder / MEASURED)
    players = [last_player(folder / arm.folder, plan.readouts) for arm in plan.arms]
    for one, other in meetings(len(players), plan.opponents):
        progress.say(str(measurement.play(players[one], players[other], plan.games)))
    return measurement


def report(plan: Plan, folder: Path, measurement: Measurement) -> None:
    """Print and write the ratings of the runs and the effects of the changes."""
    fit = bradley_terry([match_result(match) for match in measurement.matches()])
    errors = fit.errors()
    rows: list[dict[str, Any]] = []
    for arm in plan.arms:
        run, name = folder / arm.folder, name_of(last_player(folder / arm.folder, plan.readouts))
        clock, last = Clock.read(run / CLOCK), champions(run, 1)[-1]
        began = clock.stretches[0][0]
        metas = [meta for meta in newest_shards(run / "data/selfplay") if shard_time(meta) >= began]
        spent = {"games": sum(meta.games for meta in metas), "evaluations": sum(meta.evaluations for meta in metas)}
        times = {"at_minute": clock.seconds_at(last.time) / 60, "minutes": clock.seconds / 60}
        rating = {"elo": fit.ratings[name], "error": errors[name]}
        rows.append({"arm": arm.name, "terms": arm.terms, **rating, "champion": last.model.name, **times, **spent})
    found, luck = effects([arm.terms for arm in plan.arms], [row["elo"] for row in rows])
    atomic.write_json(
        folder / "ablation.json", {"effects": [vars(one) for one in found], "luck": luck, "runs": rows}, indent=1
    )
    print(f"{'run':<34}{'Elo':>6}{'+-':>5}{'last champion':>24}{'at minute':>10}{'games':>9}{'evaluations':>14}")
    for row in sorted(rows, key=lambda row: -row["elo"]):
        print(
            f"{row['arm']:<34}{row['elo']:>6.0f}{row['error']:>5.0f}{row['champion']:>24}{row['at_minute']:>10.1f}"
            f"{row['games']:>9,}{row['evaluations']:>14,}"
        )
    print(f"\n{'change':<34}{'Elo':>6}{'+-':>5}")
    for one in sorted(found, key=lambda one: -one.value):
        print(f"{one.name:<34}{one.value:>+6.0f}{one.error:>5.0f}{' *' if abs(one.value) > one.error else ''}")
    print(f"* outside its bar; the standard deviation between runs of one recipe is {luck:.0f} Elo")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.ablate", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("plan", type=Path, metavar="PLAN", help="the plan, a YAML file")
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="folder for the runs, made if missing")
    options = parser.parse_args(arguments)

    def work(progress: Progress) -> None:
        plan = read_plan(options.plan)
        atomic.make_folder(options.folder)
        train_all(plan, options.folder, progress)
        report(plan, options.folder, play_all(plan, options.folder, progress))

    return reported(work)


if __name__ == "__main__":
    sys.exit(main())
