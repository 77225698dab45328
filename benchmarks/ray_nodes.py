"""How much faster is self-play on two nodes of a Ray cluster than on one? Each node is one core of this machine.

    python -m benchmarks.ray_nodes FOLDER [--game connect4] [--size b2c32] [--readouts 64] [--seconds 40] [--repeats 2]

Makes a model in the folder, then runs `main.py selfplay --runner ray` on clusters of one, two, two, one, … nodes and
counts the games of the shards written during --seconds, which begin SETTLED seconds after the first shard. The
processes of a node are pinned to its core; the driver is a process of its own and isn't. Prints one line per run, then
medians and their ratio. Takes some minutes on two idle cores. Needs the extra `ray`.

If other programs use the machine, games/s measures them too. A second figure therefore subtracts the time that a
node's playing thread could have run but waited for its core, as the kernel counts it: games / (time − waiting). Time
spent waiting for games or for the driver stays in.
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
SETTLED = 8.0  # seconds after the first shard until all actors play and games begin at different times
OBJECT_STORE = 80 << 20  # bytes; the least that Ray allows


def add_node(cluster: Any, core: int) -> None:
    """Add a node of one CPU. Its processes inherit the core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        cluster.add_node(num_cpus=1, object_store_memory=OBJECT_STORE)
    finally:
        os.sched_setaffinity(0, before)


def games_per_second(
    run: Path, name: str, address: str, options: list[str], seconds: float, nodes: int
) -> tuple[float, float, float]:
    """(games/s, games/s without waiting for cores, the driver's CPU seconds per second)."""
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
    """(seconds of running, seconds of waiting to run) of each actor thread on a core."""
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
    """How many seconds the busiest thread waited to run."""
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
            head["_system_config"] = {"worker_niceness": 0}  # the default of 15 lets other programs run first
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
                f"driver: {driver:.2f} of a core",
                flush=True,
            )
    for index, what in enumerate(("games/s", "games/s without waiting for cores")):
        one, two = (statistics.median(pair[index] for pair in found[nodes]) for nodes in (1, 2))
        print(f"one {one:.2f}, two {two:.2f} {what}: {two / one:.2f} times")


if __name__ == "__main__":
    main()
