"""Which techniques earn their place: runs that differ in them, in equal core-time, and matches between the runs.

    python -m benchmarks.ablate benchmarks/plans/go7.yaml runs/go7

A plan is YAML: a preset, and what changes its lines. Each of the `factors` is changed in half of a set of runs, the
halves chosen so that all effects are known as well as if there were only one (benchmarks/factorial.py). Each of the
`arms` is a run of its own with what can't be combined so; `seed` is that of its first weights. Arms of the same changes
count as runs of one recipe, and tell its luck. Every line may be left out:

    preset: go9
    changes: {init: {game: "go:7,komi=9"}}  # of all runs
    minutes: 8                              # of one core each
    readouts: 100                           # in the matches
    opponents: 6                            # other runs that each meets ...
    games: 40                               # ... for so many games
    factors:
      no surprise: {gather: {surprise_weight: 0}}
      no symmetries: {train: {symmetries: false}}
    arms:
      base: {}
      Gumbel: {selfplay: {algorithm: gumbel}}
      Gumbel again: {seed: 1, selfplay: {algorithm: gumbel}}

With `start: RUN` all arms go on from copies of that run's models and games instead of from nothing: that tells what
pays later on, and they differ by less luck. Schedules count from where it stood, those by time from nothing, but no
network shrinks; lines of init mean nothing then.

As many runs go at a time as there are cores, a core each. All have neighbours as busy as they are: a core that has no
run left gets a throw-away one. A minute of those on every core comes first, which has the kernels compiled off the
clock. Then the last champions meet, each opening played both ways.

Printed is what each change brings in Bradley-Terry Elo. The bars (95 %) hold the luck of the runs, by how much runs
differ beyond their changes; one effect in twenty lies outside its bar for no reason. Stop it when you like: the same
command goes on where it stood; more minutes go on with the runs that are there, and arms may be added.
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

from benchmarks.factorial import effects, plackett_burman, spare_runs
from benchmarks.loop_clock import CLOCK, Clock, start, stop
from benchmarks.measuring import (
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
FOR_EVER = 1e6  # minutes
THROW_AWAY = "throw-away-"
LOOP = "data/rl_loop"  # of a run; ./rl_loop.sh holds its lock


@dataclass(frozen=True)
class Arm:
    """One run. folder: its name for files; changes: to the preset, all runs' first; terms: what its own are called."""

    name: str
    folder: str
    changes: tuple[str, ...]
    seed: int
    terms: tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    """What is compared. start: a run to go on from; minutes: of a core; readouts, opponents, games: of the matches."""

    preset: str
    start: Path | None
    minutes: float
    readouts: int
    opponents: int
    games: int
    arms: tuple[Arm, ...]


def read_plan(path: Path) -> Plan:
    """Raises UsageError that says what is missing, unknown, in conflict, no number or a wrong one."""
    try:
        raw = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"plan {path}: not readable: {' '.join(str(error).split())}") from error
    wanted = {"preset", "start", "changes", "minutes", "readouts", "opponents", "games", "factors", "arms"}
    if not isinstance(raw, dict) or set(raw) - wanted or not (raw.get("factors") or raw.get("arms")):
        raise UsageError(f"plan {path}: wanted the lines {', '.join(sorted(wanted))}; factors or arms must be there")
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
        raise UsageError(f"plan {path}: wanted factors and arms with names of their own, none of them mixed-NUMBER")
    if spare_runs([arm.terms for arm in arms]) < 1:
        raise UsageError(f"plan {path}: nothing says how much runs differ by luck: repeat an arm with another seed")
    start = Path(str(raw["start"])) if raw.get("start") else None
    if start and not has_champion(start):
        raise UsageError(f"plan {path}, start: {start} is no run with a champion")
    plan = Plan(str(raw.get("preset", "go9")), start, *numbers, *matches, tuple(arms))
    check(plan, path)
    return plan


def check(plan: Plan, path: Path) -> None:
    """Whatever would be found wrong after hours of training is said before. Raises UsageError. path: the plan's."""
    for name, number, least in (("minutes", plan.minutes, 0.01), ("readouts", plan.readouts, 0),
                                ("opponents", plan.opponents, 1), ("games", plan.games, 2)):  # fmt: skip
        if not number >= least:
            raise UsageError(f"plan {path}, {name}: {number}; wanted at least {least}")
    if plan.games % 2:
        raise UsageError(f"plan {path}, games: {plan.games}; wanted an even number: every opening is played both ways")
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
    """The runs of a design of these factors, each with first weights of its own. Raises ValueError if two conflict."""
    if not factors:
        return []
    lines = [change.partition("=")[0] for changes in factors.values() for change in changes]
    twice = sorted({line for line in lines if lines.count(line) > 1})
    if twice:
        raise ValueError(f"{', '.join(twice)} stands in two factors")
    arms = []
    for i, on in enumerate(plackett_burman(len(factors)).tolist(), start=1):
        terms = tuple(name for name, is_on in zip(factors, on, strict=True) if is_on)
        changes = (*shared, *(change for name in terms for change in factors[name]))
        arms.append(Arm(f"mixed {i:02d}", f"mixed-{i:02d}", changes, i, terms))
    return arms


def changes_of(sections: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """As --set of benchmarks.strength wants them."""
    return [f"{stage}.{line}={json.dumps(value)}" for stage, lines in sections.items() for line, value in lines.items()]


def folder_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-.")


# Running


def train_all(plan: Plan, folder: Path, progress: Progress) -> None:
    """Run every arm for its minutes, a core each. Raises MuGoError if one fails; the others are stopped then."""
    for rest in folder.glob(f"{THROW_AWAY}*/"):  # of the last time; the plan may have got other arms since
        shutil.rmtree(rest)
    left = [arm for arm in plan.arms if Clock.read(folder / arm.folder / CLOCK).seconds < plan.minutes * 60]
    cores = sorted(os.sched_getaffinity(0))
    running: dict[int, tuple[Arm | None, subprocess.Popen[bytes]]] = {}  # by core; None: a throw-away arm
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
                    running[core] = None, begin(plan, neighbour(plan, core), FOR_EVER, folder, core)
            time.sleep(POLL_SECONDS)
    finally:
        for _, process in running.values():
            stop(process)


def neighbour(plan: Plan, core: int) -> Arm:
    """What keeps a core busy that has no arm."""
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
    """Begin a run in a folder where none has begun, as a copy of another: its models, games and pool, not its clock.

    Raises FileError while the other is going on.
    """
    if (folder / layout.SAVED_MODELS).exists():
        return
    copy = folder / "copy"
    for rest in (copy, folder / "data"):  # of a copy that was cut off
        shutil.rmtree(rest, ignore_errors=True)
    with atomic.file_lock(run / LOOP, wait=False):
        ignored = shutil.ignore_patterns("evaluate", "logs", "*.lock", ".rl_loop.*")
        for name in ("data", layout.SAVED_MODELS):
            shutil.copytree(run / name, copy / name, symlinks=True, ignore=ignored, copy_function=link_shards)
    for name in ("data", layout.SAVED_MODELS):  # with its models it has begun
        (copy / name).rename(folder / name)
    copy.rmdir()


def link_shards(source: str, target: str) -> None:
    """Shards are most of a run, and never change. Where they can't be linked, on another disk, they are copied."""
    if source.endswith((layout.SHARD_SUFFIX, layout.META_SUFFIX)):
        with suppress(OSError):
            os.link(source, target)
            return
    shutil.copy2(source, target)


# Measuring


def meetings(runs: int, opponents: int) -> list[tuple[int, int]]:
    """Who meets whom, by number: each so many others as nearly as an even number and the runs allow, near and far."""
    steps = np.linspace(1, max(1, (runs - 1) // 2), max(1, opponents // 2)).round().astype(int)
    pairs = {tuple(sorted((i, (i + step) % runs))) for step in steps.tolist() for i in range(runs)}
    return sorted((one, other) for one, other in pairs if one != other)


def play_all(plan: Plan, folder: Path, progress: Progress) -> Measurement:
    """Let the last champions meet."""
    measurement = measurement_of(folder / plan.arms[-1].folder, progress, folder / "measured")
    players = [last_player(folder / arm.folder, plan.readouts) for arm in plan.arms]
    for one, other in meetings(len(players), plan.opponents):
        progress.say(str(measurement.play(players[one], players[other], plan.games)))
    return measurement


def report(plan: Plan, folder: Path, measurement: Measurement) -> None:
    """Print and write what the runs are worth, and what that says of the changes."""
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
    print(f"* outside its bar; runs of one recipe differ by a standard deviation of {luck:.0f} Elo")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.ablate", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("plan", type=Path, metavar="PLAN", help="a YAML file")
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="for the runs; made if it isn't there")
    options = parser.parse_args(arguments)

    def work(progress: Progress) -> None:
        plan = read_plan(options.plan)
        atomic.make_folder(options.folder)
        train_all(plan, options.folder, progress)
        report(plan, options.folder, play_all(plan, options.folder, progress))

    return reported(work)


if __name__ == "__main__":
    sys.exit(main())
