"""How busy do self-play and training keep a GPU?

    python -m benchmarks.gpu [--boards 9 19] [--sizes b6c96 b10c128] [--batches 1024 2048] [--threads 16]

Prints one line per board, network and batch: evaluations/s of the bare network with self-play's batches and threads;
evaluations/s of self-play and their share of the former (goal: 0.80); training samples/s from chunks and their share of
training on one batch in memory (goal: 0.90). The measurements are those of `main.py bench`, in alternating windows.
The default settings take a quarter of an hour. --device cpu prints the same table for processors.

Each thread has one batch of games; while it is on the GPU, other threads walk their trees. One thread per core, the
default, was fastest on the one GPU that was tried (docs/machines.md). To compare with Pgx and mctx on the same GPU, run
`python benchmarks/pgx_mctx.py` and `main.py bench --network-size b4c64 --readouts 32`.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
from collections.abc import Sequence

from pipeline.bench.command import BenchSummary, bench
from pipeline.bench.config import BenchConfig
from pipeline.machine import available_cores

SELFPLAY_GOAL, TRAIN_GOAL = 0.80, 0.90
HEAD = f"{'board':>6} {'network':>8} {'batch':>6} {'network/s':>12} {'self-play/s':>12} {'share':>6} {'train/s':>10} "


def line(board: int, size: str, batch: int, found: BenchSummary) -> str:
    """A row of the table; ! marks a share below its goal."""
    selfplay, train = (
        f"{share:.2f}{'!' if share < goal else ' '}"
        for share, goal in ((found.selfplay_share, SELFPLAY_GOAL), (found.train_share, TRAIN_GOAL))
    )
    return (
        f"{f'{board}x{board}':>6} {size:>8} {batch:>6,} {found.network_evaluations_per_second:>12,.0f} "
        f"{found.selfplay_evaluations_per_second:>12,.0f} {selfplay:>6} "
        f"{found.train_samples_per_second:>10,.0f} {train:>6}"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--boards", type=int, nargs="+", default=[9, 19], help="Go board sizes")
    parser.add_argument("--sizes", nargs="+", default=["b6c96", "b10c128"])
    parser.add_argument("--batches", type=int, nargs="+", default=[1024, 2048], help="games per thread")
    parser.add_argument("--threads", type=int, default=available_cores())
    parser.add_argument("--readouts", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each measurement")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    given = parser.parse_args(arguments)
    if given.device == "cuda":
        import torch

        if not torch.cuda.is_available():
            raise SystemExit("benchmarks.gpu: torch finds no CUDA device; --device cpu measures the processor")
        print(f"# {torch.cuda.get_device_name()}, torch {torch.__version__}, {given.threads} threads")
    threads = min(given.threads, available_cores())
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    print(HEAD + f"{'share':>6}", flush=True)
    try:
        if cores:
            os.sched_setaffinity(0, set(sorted(cores)[:threads]))  # bench starts a thread for each core
        for board, size, batch in itertools.product(given.boards, given.sizes, given.batches):
            config = BenchConfig(
                game=f"go:{board}", network_size=size, games=batch * threads, readouts=given.readouts,
                seconds=given.seconds,
            )  # fmt: skip
            found = bench(config)
            if given.device == "cuda" and "cuda" not in found.backend:
                sys.exit(f"benchmarks.gpu: {size} ran on {found.backend}; the warnings above say why CUDA failed")
            assert isinstance(found, BenchSummary)
            print(line(board, size, batch, found), flush=True)
    finally:
        if cores:
            os.sched_setaffinity(0, cores)


if __name__ == "__main__":
    main()
