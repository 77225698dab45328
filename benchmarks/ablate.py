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

As many arms run at a time as there are cores, a core each, so that all have the same neighbours. Then the last
champions meet: each arm every reference, each opening played both ways. Printed are Bradley-Terry ratings with the
references' mean at 0. Their bars say how well the players are known, not how much two runs of one arm differ: for that
there are two references. Stop it when you like; the same command goes on where it stood, and arms may be added.
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from benchmarks.loop_clock import Clock
from benchmarks.strength import Measurement, last_player, measurement_of, name_of
from pipeline.arena.ratings import BradleyTerry, bradley_terry
from pipeline.errors import MuGoError, UsageError
from pipeline.progress import Progress
from pipeline.records import atomic
from pipeline.records.shards import newest_shards
from pipeline.reports.progress import ConsoleProgress
from pipeline.stages.ratings import encounter_of

ROOT = Path(__file__).resolve().parent.parent
POLL_SECONDS = 1.0


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
    """Raises UsageError that says what is missing or unknown."""
    try:
        raw = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"plan {path}: not readable: {' '.join(str(error).split())}") from error
    wanted = {"preset", "changes", "minutes", "readouts", "games", "references", "arms"}
    if not isinstance(raw, dict) or set(raw) - wanted or not isinstance(raw.get("arms"), dict):
        raise UsageError(f"plan {path}: wanted the lines {', '.join(sorted(wanted))}")
    arms = []
    for name, settings in raw["arms"].items():
        try:
            settings = dict(settings)
            seed = int(settings.pop("seed", 0))
            changes = (*changes_of(raw.get("changes", {})), *changes_of(settings))
        except (AttributeError, TypeError, ValueError) as error:
            raise UsageError(f"plan {path}, arm {name}: found {settings!r}; wanted STAGE: {{LINE: VALUE}}") from error
        arms.append(Arm(str(name), folder_name(str(name)), changes, seed))
    folders = [arm.folder for arm in arms]
    references = tuple(folder_name(str(name)) for name in raw.get("references", []))
    if len(set(folders)) < len(folders) or not references or not set(references) <= set(folders):
        raise UsageError(f"plan {path}: wanted arms with names of their own, and references among them")
    return Plan(
        str(raw.get("preset", "go9")), float(raw.get("minutes", 20)), int(raw.get("readouts", 100)),
        int(raw.get("games", 200)), references, tuple(arms),
    )  # fmt: skip


def changes_of(sections: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """As --set of benchmarks.strength wants them."""
    return [f"{stage}.{line}={json.dumps(value)}" for stage, lines in sections.items() for line, value in lines.items()]


def folder_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-.")


# Running


def train_all(plan: Plan, folder: Path, progress: Progress) -> None:
    """Run every arm for its minutes, a core each. Raises MuGoError if one fails; the others are stopped then."""
    waiting, cores = list(plan.arms), sorted(os.sched_getaffinity(0))
    running: dict[int, tuple[Arm, subprocess.Popen[bytes]]] = {}
    try:
        while waiting or running:
            for core in cores:
                if core not in running and waiting:
                    arm = waiting.pop(0)
                    progress.say(f"{arm.name}: {plan.minutes:g} minutes on core {core}")
                    running[core] = arm, start(plan, arm, folder, core)
            time.sleep(POLL_SECONDS)
            for core, (arm, process) in list(running.items()):
                if process.poll() is not None:
                    del running[core]
                    if process.returncode:
                        raise MuGoError(
                            f"{arm.name} failed with exit code {process.returncode}; see {log(folder, arm)}"
                        )
    finally:
        for _, process in running.values():
            process.terminate()
        for _, process in running.values():
            process.wait()


def log(folder: Path, arm: Arm) -> Path:
    return folder / f"{arm.folder}.log"


def start(plan: Plan, arm: Arm, folder: Path, core: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "benchmarks.strength", "run", str((folder / arm.folder).resolve()), "--train-only"]
    command += ["--preset", plan.preset, "--minutes", str(plan.minutes), "--cores", "1", "--seed", str(arm.seed)]
    command += [word for change in arm.changes for word in ("--set", change)]
    with log(folder, arm).open("ab") as output:
        return subprocess.Popen(
            ["taskset", "--cpu-list", str(core), *command], cwd=ROOT, stdout=output, stderr=output,
            env={**os.environ, "MUGO_PYTHON": sys.executable},
        )  # fmt: skip


# Measuring


def play_all(plan: Plan, folder: Path, progress: Progress) -> Measurement:
    """Let the champion of every arm meet those of the references."""
    measurement = measurement_of(folder / plan.references[0], progress)
    measurement = Measurement(folder / "measured", measurement.game, measurement.search, progress)
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
    rows = [row(plan, folder, arm, fit, names, references) for arm in plan.arms]
    atomic.write_json(folder / "ablation.json", {"rows": rows}, indent=1)
    print(f"{'arm':<34}{'Elo':>6}{'+-':>5}{'generations':>13}{'games':>9}{'evaluations':>14}")
    for one in sorted(rows, key=lambda one: -one["elo"]):
        print(
            f"{one['arm']:<34}{one['elo']:>6.0f}{one['error']:>5.0f}{one['champion'][:6]:>13}{one['games']:>9,}"
            f"{one['evaluations']:>14,}"
        )


def row(
    plan: Plan, folder: Path, arm: Arm, fit: BradleyTerry, names: Mapping[str, str], references: Sequence[str]
) -> dict[str, Any]:
    """An arm's line: Elo above the references' mean, and half the 95 % interval of the distance to the first."""
    zero = sum(fit.ratings[reference] for reference in references) / len(references)
    name = names[arm.folder]
    other = next(reference for reference in references if reference != name)
    metas = list(newest_shards(folder / arm.folder / "data" / "selfplay"))
    return {
        "arm": arm.name,
        "changes": list(arm.changes),
        "elo": fit.ratings[name] - zero,
        "error": fit.difference(name, other)[1],
        "champion": name.removeprefix(f"{arm.folder}-"),
        "minutes": Clock.read(folder / arm.folder / "clock.json").seconds / 60,
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
    with ConsoleProgress() as progress:
        try:
            plan = read_plan(options.plan)
            atomic.make_folder(options.folder)
            train_all(plan, options.folder, progress)
            report(plan, options.folder, play_all(plan, options.folder, progress))
        except MuGoError as error:
            progress.warn(str(error))
            return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
