"""How much faster self-play is on two nodes of a Ray cluster than on one, each node being one core of this machine.

    python -m benchmarks.ray_nodes FOLDER [--game connect4] [--size b2c32] [--readouts 64] [--seconds 40] [--repeats 2]

Makes a model, then lets `main.py selfplay --runner ray` play on a cluster with one node, with two, with two, with one,
…, each for so many seconds from SETTLED seconds after its first shard on, and counts the games of the shards written in
that time. A node's processes are pinned to its core. The driver isn't: it is a process of its own on whatever is free.

Where others compute on the machine as well, games/s says more about them. So a second figure leaves out what a node's
playing thread waited for its core while it could have run, as the kernel counts it: games / (time − waiting). What it
waited for games, or for the driver, stays in. A line for each run, then medians of both.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pipeline.run.shards import newest_shards
from pipeline.train.config import InitConfig
from pipeline.train.init import init

ROOT = Path(__file__).parent.parent
SETTLED = 8.0  # seconds after the first shard: all actors play, and games don't begin all at once any more
OBJECT_STORE = 80 << 20  # bytes, the least that Ray allows


def add_node(cluster: Any, core: int) -> None:
    """A node of one CPU, all of whose processes run on that core: they inherit it."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        cluster.add_node(num_cpus=1, object_store_memory=OBJECT_STORE)
    finally:
        os.sched_setaffinity(0, before)


def games_per_second(
    run: Path, name: str, address: str, options: list[str], seconds: float, nodes: int
) -> tuple[float, float, float]:
    """(games/s of the command, the same without waiting for cores, seconds of a core that the driver took for each)."""
    games = run / "games" / name
    command = [sys.executable, str(ROOT / "main.py"), "selfplay", "--runner", "ray", "--output-dir", str(games)]
    child = subprocess.Popen(
        [*command, "--games", "1000000", "--verbose", "0", *options],
        cwd=run, env={**os.environ, "RAY_ADDRESS": address, "PYTHONPATH": str(ROOT)}, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        while not any(games.rglob("*.meta")):
            if child.poll() is not None:
                raise SystemExit(f"selfplay ended with {child.returncode} before its first shard")
            time.sleep(0.2)
        time.sleep(SETTLED)
        start, used, before = (
            datetime.now(UTC),
            _processor_seconds(child.pid),
            [_threads(core) for core in range(nodes)],
        )
        time.sleep(seconds)
        stop, used = datetime.now(UTC), _processor_seconds(child.pid) - used
        waited = [_waited(one, _threads(core)) for core, one in enumerate(before)]
    finally:
        if child.poll() is None:
            child.send_signal(signal.SIGINT)
            child.wait(60)
    written = [meta for meta in newest_shards(games) if start < shard_time(meta.path) <= stop]
    took = (stop - start) / timedelta(seconds=1)
    games_played = sum(meta.games for meta in written)
    return games_played / took, games_played / (took - statistics.mean(waited)), used / took


def _threads(core: int) -> dict[str, tuple[float, float]]:
    """Of the actors on a core: each thread's seconds of running and of waiting to run."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError):
            if b"PlayingActor" in (process / "cmdline").read_bytes() and os.sched_getaffinity(int(process.name)) == {
                core
            }:
                for task in (process / "task").iterdir():
                    ran, waited, _ = (task / "schedstat").read_text().split()
                    found[task.name] = int(ran) / 1e9, int(waited) / 1e9
    return found


def _waited(before: dict[str, tuple[float, float]], after: dict[str, tuple[float, float]]) -> float:
    """Seconds that the busiest thread waited to run."""
    both = [(after[name][0] - ran, after[name][1] - waited) for name, (ran, waited) in before.items() if name in after]
    return max(both)[1]


def shard_time(path: Path) -> datetime:
    return datetime.strptime(path.name[:22], "%Y%m%dT%H%M%S.%f").replace(tzinfo=UTC)


def _processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--game", default="connect4")
    parser.add_argument("--size", default="b2c32")
    parser.add_argument("--readouts", type=int, default=64)
    parser.add_argument("--parallel-games", type=int, default=64)
    parser.add_argument("--backend", default="openvino")
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("--repeats", type=int, default=2)
    given = parser.parse_args()
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    try:
        from ray.cluster_utils import Cluster
    except ModuleNotFoundError:
        parser.error("Ray isn't installed: python -m pip install -c constraints.txt -e '.[ray]'")

    run = given.folder.resolve()
    model = run / "saved_models" / "000000-init"
    if not model.exists():
        init(InitConfig(game=given.game, network_size=given.size, new_model=model))
    options = ["--readouts", str(given.readouts), "--parallel-games", str(given.parallel_games)]
    options += ["--backend", given.backend, "--threads", "1", "--network", str(model)]
    found: dict[int, list[tuple[float, float]]] = {1: [], 2: []}
    for repeat in range(given.repeats):
        for nodes in (1, 2) if repeat % 2 == 0 else (2, 1):
            head = {"num_cpus": 0, "object_store_memory": OBJECT_STORE, "include_dashboard": False}
            head["_system_config"] = {"worker_niceness": 0}  # 15 otherwise, and whoever else computes here comes first
            cluster = Cluster(initialize_head=True, head_node_args=head)
            try:
                for core in range(nodes):
                    add_node(cluster, core)
                rate, alone, driver = games_per_second(
                    run, f"{time.time_ns()}", cluster.address, options, given.seconds, nodes
                )
            finally:
                cluster.shutdown()
            found[nodes].append((rate, alone))
            print(
                f"{nodes} node(s): {rate:7.2f} games/s, {alone:7.2f} without waiting for cores; "
                f"the driver took {driver:.2f} of a core",
                flush=True,
            )
    for index, what in enumerate(("games/s", "games/s without waiting for cores")):
        one, two = (statistics.median(pair[index] for pair in found[nodes]) for nodes in (1, 2))
        print(f"one {one:.2f}, two {two:.2f} {what}: {two / one:.2f} times")


if __name__ == "__main__":
    main()
