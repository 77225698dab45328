"""What does evaluation beside training cost it? Training and self-play alone, and with a watcher on the same cores.

    taskset -c 0 python -m benchmarks.beside --rounds 4

Each round measures all *ways* once, in turn, so that whatever else happens on the machine hits all alike:

    alone     nothing beside it
    watched   beside `evaluate --watch`, as it is
    niced     beside the same with niceness 19 alone, as it was before: where the kernel groups processes by session,
              that counts inside a session only

Everything that is measured runs as a command in a session of its own, as in a terminal of its own. The watcher has one
match that never ends. *share* is what it got of the cores meanwhile, by the kernel's count of its processor time;
*loss* what training or self-play lost of its speed, against the same round's alone. A loss that isn't larger than the
share means that the watcher costs nothing beyond what it was given. Rounds of a kept folder (--run) add up.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from pipeline.config import available_cores

MAIN = str(Path(__file__).parent.parent / "main.py")
NICED = "import pipeline.priority as p; p.groups_by_session = lambda: False; import main; main.run_program()"
ALONE, WATCHED, NICED_ONLY = WAYS = ("alone", "watched", "niced")
WORK = ("train", "selfplay")
START_SECONDS = 300.0
Measured = tuple[float, float]
"""Samples or positions a second, and the watcher's share of the cores meanwhile."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.beside", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--game", default="go:7")
    parser.add_argument("--network-size", default="b2c32")
    parser.add_argument("--epochs", type=int, default=3, help="Of a training: how long it takes.")
    parser.add_argument("--games", type=int, default=256, help="Of self-play, with 8 readouts.")
    parser.add_argument("--run", type=Path, help="Folder to measure in; kept, and used again [default: a new one].")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        run = asked.run or Path(made) / "run"
        if not run.exists():
            prepare(run, asked)
        results = run / "beside.jsonl"
        for _ in range(asked.rounds):
            number = len(results.read_text().splitlines()) if results.exists() else 0
            found: dict[str, dict[str, Measured]] = {what: {} for what in WORK}
            for way in (*WAYS[number % 3 :], *WAYS[: number % 3]):
                with beside(run, way) as watcher:
                    for what in WORK:
                        speed, share = found[what][way] = measured(run, what, asked, watcher)
                        print(f"round {number + 1}: {what} {way}: {speed:,.0f}/s, watcher {share:.1%}", flush=True)
            with results.open("a") as file:
                file.write(json.dumps(found) + "\n")
        print(table([json.loads(line) for line in results.read_text().splitlines()]))


def prepare(run: Path, asked: argparse.Namespace) -> None:
    """Games and chunks to train on, two models for the watcher."""
    run.mkdir(parents=True)
    call(run, "init", "--game", asked.game, "--network-size", asked.network_size)
    call(run, "selfplay", "--games", "256", "--readouts", "8")
    call(run, "gather", "--as-many-as-possible", "--positions-per-chunk", "1024")
    call(run, "train", "--epochs", "1", "--batch-size", "256")


def call(run: Path, *words: str) -> dict[str, Any]:
    """What a command prints as JSON. Raises CalledProcessError if it fails."""
    done = subprocess.run(
        [sys.executable, MAIN, *words, "--json", "--verbose", "0"],
        cwd=run, check=True, stdout=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@contextmanager
def beside(run: Path, way: str) -> Iterator[psutil.Process | None]:
    """A watcher that plays, or none."""
    if way == ALONE:
        yield None
        return
    shutil.rmtree(run / "data/evaluate", ignore_errors=True)
    start = [MAIN] if way == WATCHED else ["-c", NICED]
    words = ["evaluate", "--watch", "--single", "random", "--single-games", "20000", "--benchmark-games", "0",
             "--ladder-games", "0", "--tournament-games", "0", "--readouts", "32", "--verbose", "0"]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(Path(MAIN).parent)}
    process = subprocess.Popen([sys.executable, *start, *words], cwd=run, start_new_session=True, env=environment)
    try:
        deadline = time.monotonic() + START_SECONDS
        while not any((run / "data/evaluate/watch").glob("*-vs-*/games.jsonl")):
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit("the watcher didn't begin to play")
            time.sleep(0.2)
        time.sleep(3)  # players and kernels are loaded
        yield psutil.Process(process.pid)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def measured(run: Path, what: str, asked: argparse.Namespace, watcher: psutil.Process | None) -> Measured:
    used, began = cpu_seconds(watcher), time.monotonic()
    if what == "train":
        original = f"saved_models/000001-{asked.network_size}"
        trained = call(run, "train", "--epochs", str(asked.epochs), "--batch-size", "256",
                       "--original-model", original, "--new-model", "measured/000002-x")  # fmt: skip
        speed = float(trained["samples_per_second"])
        shutil.rmtree(run / "measured")
    else:
        played = call(run, "selfplay", "--games", str(asked.games), "--readouts", "8", "--output-dir", "measured")
        speed = played["positions"] / played["seconds"]
        shutil.rmtree(run / "measured")
    seconds = time.monotonic() - began
    return speed, (cpu_seconds(watcher) - used) / seconds / available_cores()


def cpu_seconds(process: psutil.Process | None) -> float:
    """Of a process and all that it started."""
    if process is None:
        return 0.0
    family = [process, *process.children(recursive=True)]
    return float(sum(one.cpu_times().user + one.cpu_times().system for one in family))


def table(rounds: Sequence[dict[str, dict[str, Measured]]]) -> str:
    """Medians over rounds, and the losses of single ones."""
    lines = ["| | speed alone | way | loss, median (least to most) | watcher's share |", "|---|---|---|---|---|"]
    for what in WORK:
        alone = [one[what][ALONE][0] for one in rounds]
        for way in (WATCHED, NICED_ONLY):
            losses = sorted(1 - one[what][way][0] / base for one, base in zip(rounds, alone, strict=True))
            share = statistics.median(one[what][way][1] for one in rounds)
            spread = f"{statistics.median(losses):.1%} ({losses[0]:.1%} to {losses[-1]:.1%})"
            lines.append(f"| {what} | {statistics.median(alone):,.0f}/s | {way} | {spread} | {share:.1%} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
