"""Does a command's memory stay flat? Runs self-play or training for some minutes and watches its resident memory.

    python -m benchmarks.memory selfplay --minutes 30
    python -m benchmarks.memory train --minutes 30

The command is a process of its own, in a folder that is removed afterwards. The time begins with its first result, a
shard or a point of the curves: how long a command takes to load, on a busy machine for minutes, says nothing about its
memory. *Warm-up* is the first fifth of the time: kernels are loaded, every batch has been seen, the window of Python's
allocator is full. Growth is from the mean of the fifth after it to the mean of the last fifth.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

ROOT = Path(__file__).parent.parent
SAMPLES = 300  # readings in all
FIRST_RESULTS = {"selfplay": "data/selfplay/**/*.meta", "train": "data/logs/*/train/*"}  # the first files of a command
MB = 2**20


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=["selfplay", "train"])
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--game", default="connect4")
    parser.add_argument("--network-size", default="b2c32")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="memory-") as made:
        folder = Path(made)
        run(folder, "init", "--game", asked.game, "--network-size", asked.network_size)
        play = ("selfplay", "--readouts", "8", "--temperature-plies", "40")
        if asked.what == "train":
            run(folder, *play, "--games", "200")
            run(folder, "gather", "--as-many-as-possible", "--positions-per-chunk", "512")
            arguments = ("train", "--epochs", "200000", "--batch-size", "256")
        else:
            arguments = (*play, "--games", "100000000")
        readings = watch(folder, arguments, asked.minutes)
    print(summary(asked.what, readings))


def run(folder: Path, *arguments: str) -> None:
    subprocess.run([sys.executable, str(ROOT / "main.py"), *arguments, "--verbose", "0"], cwd=folder, check=True)


def watch(folder: Path, arguments: tuple[str, ...], minutes: float) -> list[tuple[float, float]]:
    """(seconds, resident MB) of the command, read SAMPLES times over so many minutes; then it is stopped.

    The seconds are counted from its first result on.
    """
    command = [sys.executable, str(ROOT / "main.py"), *arguments, "--verbose", "0"]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
    watched, readings = psutil.Process(process.pid), []
    before = set(folder.glob(FIRST_RESULTS[arguments[0]]))
    try:
        while process.poll() is None and before == set(folder.glob(FIRST_RESULTS[arguments[0]])):
            time.sleep(1)
        begun = time.monotonic()
        for number in range(SAMPLES):
            time.sleep(max(0.0, begun + (number + 1) * 60 * minutes / SAMPLES - time.monotonic()))
            if process.poll() is not None:
                raise SystemExit(f"{arguments[0]} ended after {time.monotonic() - begun:.0f} s")
            readings.append((time.monotonic() - begun, watched.memory_info().rss / MB))
    finally:
        if process.poll() is None:
            os.kill(process.pid, signal.SIGTERM)
        process.wait(timeout=300)
    return readings


def summary(what: str, readings: list[tuple[float, float]]) -> str:
    fifth = len(readings) // 5
    megabytes = [used for _, used in readings]
    warm, last = statistics.mean(megabytes[fifth : 2 * fifth]), statistics.mean(megabytes[-fifth:])
    shown = ", ".join(f"{used:.0f}" for used in megabytes[:: max(1, len(readings) // 10)])
    return (
        f"{what}: {readings[-1][0] / 60:.0f} min; {warm:.1f} MB after warm-up, {last:.1f} MB at the end, growth "
        f"{100 * (last / warm - 1):+.2f} %; highest {max(megabytes):.1f} MB\nMB on the way: {shown}"
    )


if __name__ == "__main__":
    main()
