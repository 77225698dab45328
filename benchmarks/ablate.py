"""Which techniques earn their place: runs that differ in one thing each, in equal core-time, and matches between them.

    python -m benchmarks.ablate benchmarks/plans/go7.yaml runs/go7

A plan is YAML: a preset, minutes and readouts, and arms, each with the lines of the preset that it changes; `seed` is
that of the first weights:

    preset: go9
    changes: {init: {game: "go:7,komi=9"}}  # of all arms
    minutes: 20                             # of one core each
    readouts: 100
    games: 200                              # of each arm against each reference
    references: [base, base again]          # arms that all others meet
    arms:
      base: {}
      base again: {seed: 1}
      no forced playouts: {selfplay: {forced_playouts: 0}}

As many arms run at a time as there are cores, a core each. All have neighbours as busy as they are: a core that has no
arm left runs a throw-away one. A minute of those on every core comes first, which has the kernels compiled off the
clock. Then the last champions meet: each arm every reference, each opening played both ways.

Printed are Bradley-Terry ratings with the references' mean at 0. Their bars (95 %, of the distance to that mean) say
how well the players are known, not how much two runs of one recipe differ: that is what the references are for, and
arms no further from 0 than they are can't be told from them. The best of many arms is partly luck: run it again with
another seed. Stop it when you like; the same command goes on where it stood, and arms may be added.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from benchmarks.loop_clock import CLOCK, Clock, start, stop
from benchmarks.measuring import Measurement, champions, last_player, measurement_of, name_of
from benchmarks.strength import changed_preset, reported
from pipeline.arena.ratings import BradleyTerry, bradley_terry
from pipeline.arena.statistics import Z_95
from pipeline.errors import MuGoError, UsageError
from pipeline.progress import Progress
from pipeline.records import atomic
from pipeline.records.shards import newest_shards
from pipeline.stages.ratings import encounter_of

ROOT = Path(__file__).resolve().parent.parent
POLL_SECONDS = 1.0
WARM_UP_SECONDS = 60.0
FOR_EVER = 1e6  # minutes


@dataclass(frozen=True)
class Arm:
    """One run. name: as in the plan; folder: its name for files; changes: to the preset, those of all arms first."""

    name: str
    folder: str
    changes: tuple[str, ...]
    seed: int


@dataclass(frozen=True)
class Plan:
    """What is compared. minutes: of one core; readouts, games: of the matches; references: folders of arms."""

    preset: str
    minutes: float
    readouts: int
    games: int
    references: tuple[str, ...]
    arms: tuple[Arm, ...]


def read_plan(path: Path) -> Plan:
    """Raises UsageError that says what is missing, unknown or no number."""
    try:
        raw = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"plan {path}: not readable: {' '.join(str(error).split())}") from error
    wanted = {"preset", "changes", "minutes", "readouts", "games", "references", "arms"}
    if not isinstance(raw, dict) or set(raw) - wanted or not isinstance(raw.get("arms"), dict):
        raise UsageError(f"plan {path}: wanted the lines {', '.join(sorted(wanted))}")
    where = "changes"
    try:
        shared, arms = changes_of(raw.get("changes") or {}), []
        for name, settings in raw["arms"].items():
            where = f"arm {name}"
            own = dict(settings)
            seed = int(own.pop("seed", 0))
            arms.append(Arm(str(name), folder_name(str(name)), (*shared, *changes_of(own)), seed))
        where = "numbers"
        numbers = float(raw.get("minutes", 20)), int(raw.get("readouts", 100)), int(raw.get("games", 200))
        references = tuple(folder_name(str(name)) for name in raw.get("references") or [])
    except (AttributeError, TypeError, ValueError) as error:
        raise UsageError(f"plan {path}, {where}: {error}; wanted e.g. {{STAGE: {{LINE: VALUE}}}}, numbers") from error
    folders = [arm.folder for arm in arms]
    if len(set(folders)) < len(folders) or not references or not set(references) <= set(folders):
        raise UsageError(f"plan {path}: wanted arms with names of their own, and references among them")
    plan = Plan(str(raw.get("preset", "go9")), *numbers, references, tuple(arms))
    for arm in plan.arms:
        changed_preset(plan.preset, arm.changes, arm.seed)
    return plan


def changes_of(sections: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """As --set of benchmarks.strength wants them."""
    return [f"{stage}.{line}={json.dumps(value)}" for stage, lines in sections.items() for line, value in lines.items()]


def folder_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-.")


# Running


def train_all(plan: Plan, folder: Path, progress: Progress) -> None:
    """Run every arm for its minutes, a core each. Raises MuGoError if one fails; the others are stopped then."""
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
    reference = next(arm for arm in plan.arms if arm.folder == plan.references[0])
    return replace(reference, name="throw-away", folder=f"throw-away-{core}")


def begin(plan: Plan, arm: Arm, minutes: float, folder: Path, core: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "benchmarks.strength", "run", str((folder / arm.folder).resolve()), "--train-only"]
    command += ["--preset", plan.preset, "--minutes", str(minutes), "--cores", "1", "--seed", str(arm.seed)]
    command += [word for change in arm.changes for word in ("--set", change)]
    environment = {**os.environ, "MUGO_PYTHON": sys.executable}
    with (folder / f"{arm.folder}.log").open("ab") as output:
        return start(command, [core], cwd=ROOT, stdout=output, stderr=output, env=environment)


# Measuring


def play_all(plan: Plan, folder: Path, progress: Progress) -> Measurement:
    """Let the champion of every arm meet those of the references."""
    measurement = measurement_of(folder / plan.references[0], progress, folder / "measured")
    for arm in plan.arms:
        for reference in plan.references:
            if arm.folder == reference or (arm.folder in plan.references and arm.folder > reference):
                continue
            one, other = (last_player(folder / run, plan.readouts) for run in (arm.folder, reference))
            progress.say(str(measurement.play(one, other, plan.games)))
    return measurement


def report(plan: Plan, folder: Path, measurement: Measurement) -> None:
    """Print and write what the arms are worth."""
    fit = bradley_terry([encounter_of(match) for match in measurement.matches()])
    names = {arm.folder: name_of(last_player(folder / arm.folder, plan.readouts)) for arm in plan.arms}
    references = [names[reference] for reference in plan.references]
    rows = [row(folder, arm, fit, names[arm.folder], references) for arm in plan.arms]
    spread = max(abs(one["elo"]) for one in rows if names[folder_name(one["arm"])] in references)
    atomic.write_json(folder / "ablation.json", {"rows": rows, "references_apart": 2 * spread}, indent=1)
    print(f"{'arm':<34}{'Elo':>6}{'+-':>5}{'last champion':>24}{'at minute':>10}{'games':>9}{'evaluations':>14}")
    for one in sorted(rows, key=lambda one: -one["elo"]):
        print(
            f"{one['arm']:<34}{one['elo']:>6.0f}{one['error']:>5.0f}{one['champion']:>24}{one['at_minute']:>10.1f}"
            f"{one['games']:>9,}{one['evaluations']:>14,}"
        )
    print(f"the references, runs of one recipe, are up to {2 * spread:.0f} Elo apart: smaller differences mean little")


def row(folder: Path, arm: Arm, fit: BradleyTerry, name: str, references: Sequence[str]) -> dict[str, Any]:
    """An arm's line: Elo above the references' mean, and half the 95 % interval of that."""
    weights = np.zeros(len(fit.names))
    weights[fit.index[name]] += 1
    for reference in references:
        weights[fit.index[reference]] -= 1 / len(references)
    run = folder / arm.folder
    clock, last = Clock.read(run / CLOCK), champions(run, 1)[-1]
    metas = list(newest_shards(run / "data" / "selfplay"))
    return {
        "arm": arm.name,
        "changes": list(arm.changes),
        "elo": float(weights @ fit.elo),
        "error": Z_95 * float(np.sqrt(weights @ fit.covariance @ weights)),
        "champion": last.model.name,
        "at_minute": clock.seconds_at(last.time) / 60,
        "minutes": clock.seconds / 60,
        "games": sum(meta.games for meta in metas),
        "evaluations": sum(meta.evaluations for meta in metas),
    }


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
