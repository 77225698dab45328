"""The long mode: as many faults as asked for, in every stage, and a table of what came of them.

    python -m tests.chaos --kills 500                        all stages; go on with the same command
    python -m tests.chaos --stages train --seed 17           one trial again, and keep its folder
    python -m tests.chaos --table                            what the trials so far have shown

Each trial is a line of JSON in the file of results, with the seed by which it can be repeated.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
import traceback
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path

from tests.chaos.faults import SIGNALS
from tests.chaos.stages import STAGES
from tests.chaos.trials import LOOP, Bench, Trial
from tests.chaos.workshop import Workshop

FAULTS_A_TRIAL = 4


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=500, help="Kills of each stage [default: 500].")
    parser.add_argument("--stages", default=",".join([*STAGES, LOOP]), help="Which ones [default: all].")
    parser.add_argument("--results", type=Path, default=Path("chaos.jsonl"), help="The file of results.")
    parser.add_argument("--minutes", type=float, default=1e9, help="Stop after so long; run again to go on.")
    parser.add_argument("--seed", type=int, help="Only the trial of this seed.")
    parser.add_argument("--table", action="store_true", help="Only print the table.")
    asked = parser.parse_args()
    if asked.table:
        print(table(read(asked.results)))
        return
    stages = asked.stages.split(",")
    stop = time.monotonic() + 60 * asked.minutes
    with tempfile.TemporaryDirectory(prefix="chaos-") as made, Workshop(Path(made) / "workshop") as workshop:
        bench = Bench(workshop, Path(made))
        if asked.seed is not None:
            for stage in stages:
                trial = run(bench, stage, asked.seed)
                print(json.dumps(asdict(trial), indent=2))
            return
        while time.monotonic() < stop:
            known = read(asked.results)
            kills = {stage: sum(map(num_kills, trials_of(known, stage))) for stage in stages}
            stage = min(stages, key=lambda one: kills[one])
            if kills[stage] >= asked.kills:
                break
            seed = 1 + max((trial.seed for trial in trials_of(known, stage)), default=0)
            trial = run(bench, stage, seed)
            with asked.results.open("a") as file:
                file.write(json.dumps(asdict(trial)) + "\n")
            if trial.failures:
                print(f"{stage}, seed {seed}: {trial.faults}", *trial.failures, sep="\n  ", flush=True)
    print(table(read(asked.results)))
    sys.exit(any(trial.failures for trial in read(asked.results)))


def run(bench: Bench, stage: str, seed: int) -> Trial:
    try:
        return bench.disturb_loop(seed, FAULTS_A_TRIAL) if stage == LOOP else bench.disturb(stage, seed, FAULTS_A_TRIAL)
    except Exception:  # a hang, or what the harness itself can't read any more
        trial = Trial(stage, seed)
        trial.fail(traceback.format_exc())
        return trial


def read(path: Path) -> list[Trial]:
    return [Trial(**json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []


def trials_of(trials: list[Trial], stage: str) -> list[Trial]:
    return [trial for trial in trials if trial.stage == stage]


def num_kills(trial: Trial) -> int:
    return sum(fault.split()[0] in SIGNALS for fault in trial.faults)


def table(trials: list[Trial]) -> str:
    """Faults by stage, in Markdown."""
    stages = [stage for stage in (*STAGES, LOOP) if trials_of(trials, stage)]
    counts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for trial in trials:
        for fault in trial.faults:
            counts[fault.removesuffix(" that stays")][trial.stage] += 1
    rows = [[fault, *(str(counts[fault][stage] or "–") for stage in stages)] for fault in sorted(counts)]

    def total(name: str, value: str) -> None:
        values = [sum(getattr(trial, value) for trial in trials_of(trials, stage)) for stage in stages]
        rows.append([name, *map(str, values)])

    rows.append(["kills in all", *(str(sum(map(num_kills, trials_of(trials, stage)))) for stage in stages)])
    rows.append(["runs to the end", *(str(len(trials_of(trials, stage))) for stage in stages)])
    total("files or lines lost", "lost")
    total("games played twice", "twice")
    total("wrong promotions", "wrong")
    failed = [sum(bool(trial.failures) for trial in trials_of(trials, stage)) for stage in stages]
    rows.append(["trials that failed in any way", *map(str, failed)])
    seconds = [sorted(trial.recovery for trial in trials_of(trials, stage)) for stage in stages]
    rows.append(["seconds to recover, median", *(f"{statistics.median(one):.1f}" for one in seconds)])
    rows.append(["seconds to recover, longest", *(f"{one[-1]:.1f}" for one in seconds)])
    header = ["fault", *stages]
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


if __name__ == "__main__":
    main()
