"""How fast does gather write positions, and does a long history slow its scan?

    python -m benchmarks.gather [--positions 400000] [--chunks 190]

Prints the median positions per second of five whole runs (scan, replay, features, HDF5, syncs), and how long the scan
of one window takes with 100 and with 100,000 older shards behind it. Takes a minute.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from pathlib import Path

from pipeline.bench.command import write_random_games
from pipeline.games.specs import parse_game
from pipeline.gather.command import gather
from pipeline.gather.config import GatherConfig
from pipeline.gather.window import scan_window
from pipeline.run import layout
from pipeline.run.order import Counted

RUNS = 5  # the median is printed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--game", default="go:9")
    parser.add_argument("--positions", type=int, default=400_000, help="positions of random games to gather from")
    parser.add_argument("--chunks", type=int, default=190)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=".") as name:
        folder = Path(name)
        print(f"playing {options.positions:,} positions of {options.game} ...", flush=True)
        write_random_games(parse_game(options.game), folder / "selfplay", options.positions)
        measure_gather(folder, options.chunks)
        measure_scan(folder)


def measure_gather(folder: Path, num_chunks: int) -> None:
    speeds = []
    for run in range(RUNS + 1):  # the first one loads the kernels and isn't counted
        output = folder / "chunks"
        shutil.rmtree(output, ignore_errors=True)
        summary = gather(
            GatherConfig(
                directory=folder / "selfplay",
                output_directory=output,
                chunks_to_make=num_chunks,
                as_many_as_possible=True,
                seed=run,
            )
        )
        speeds.append(summary.positions_per_second)
    print(
        f"{summary.positions:,} of {summary.window_positions:,} positions: {statistics.median(speeds[1:]):,.0f}/s "
        f"({min(speeds[1:]):,.0f} to {max(speeds[1:]):,.0f}; first run {speeds[0]:,.0f})"
    )


def measure_scan(folder: Path) -> None:
    window = scan_window(GatherConfig(directory=folder / "selfplay", max_positions=10**9), Counted(), print)
    full = GatherConfig(directory=folder / "selfplay", max_positions=window.num_positions)
    old = folder / "selfplay" / "000000-old" / "w00"
    old.mkdir(parents=True)
    meta = layout.meta_path(window.metas[0].path).read_bytes()
    made = 0
    for num_older in (100, 100_000):
        for made in range(made, num_older):  # noqa: B020
            (old / f"20260101T000000.{made:06d}-000001.meta").write_bytes(meta)
        seconds = []
        for _ in range(RUNS):
            start = time.perf_counter()
            scan_window(full, window.counted, print)
            seconds.append(time.perf_counter() - start)
        print(f"scan with {num_older:,} older shards behind the window: {statistics.median(seconds) * 1000:.1f} ms")


if __name__ == "__main__":
    main()
