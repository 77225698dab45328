"""How many requests does a run in object storage make, and how much slower is it than a run in a folder?

    python -m benchmarks.object_storage --generations 3 --milliseconds 20 --games 200

Runs the loop's four stages for some generations in this process, once in a folder and once on a bucket of moto's server
on this machine, which answers after a delay. Prints one line per command: seconds in the folder and on the bucket,
requests, and bytes. Takes a minute. Needs the extra `test`. The server uses some milliseconds of the same cores per
request, which a real one doesn't.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipeline.errors import NotYet
from pipeline.evaluate.command import evaluate
from pipeline.evaluate.config import EvaluateConfig
from pipeline.gather.command import gather
from pipeline.gather.config import GatherConfig
from pipeline.run.store import working_copy
from pipeline.run.store.bucket import BucketStore
from pipeline.selfplay.command import selfplay
from pipeline.selfplay.config import SelfplayConfig
from pipeline.train.command import train
from pipeline.train.config import InitConfig, TrainConfig
from pipeline.train.init import init

SERVER = """
import sys, time
from moto.server import ThreadedMotoServer
import moto.moto_server.werkzeug_app as app
delay, dispatch = float(sys.argv[1]), app.DomainDispatcherApplication.__call__
def late(self, environ, start_response):
    time.sleep(delay)
    return dispatch(self, environ, start_response)
app.DomainDispatcherApplication.__call__ = late
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
import logging
logging.getLogger("werkzeug").setLevel(logging.ERROR)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""


def stages(games: int) -> dict[str, Callable[[], Any]]:
    playing: dict[str, Any] = {"backend": "torch", "threads": 1, "parallel_games": 32}
    return {
        "selfplay": lambda: selfplay(SelfplayConfig(games=games, readouts=16, **playing)),
        "gather": lambda: gather(GatherConfig(positions_per_chunk=256, as_many_as_possible=True)),
        "train": lambda: train(TrainConfig(epochs=1, batch_size=64)),
        "evaluate": lambda: evaluate(EvaluateConfig(games=40, threshold=0.01, readouts=16, **playing)),
    }


def run(folder: Path, generations: int, games: int) -> list[tuple[str, float, int, int, int]]:
    """(command, seconds, requests, bytes sent, bytes fetched) of each command, run as main.py does."""
    rows = []
    os.chdir(folder)
    first: dict[str, Callable[[], Any]] = {"init": lambda: init(InitConfig(game="connect4", network_size="b2c16"))}
    for generation in range(generations):
        for name, stage in {**(first if generation == 0 else {}), **stages(games)}.items():
            start = time.monotonic()
            with working_copy.opened(Path()) as here:
                try:
                    stage()
                except NotYet as error:
                    print(error, file=sys.stderr)
            seconds = time.monotonic() - start
            objects = here.store.objects if isinstance(here.store, BucketStore) else None
            requests = objects.requests if objects else 0
            sent, fetched = (objects.bytes_sent, objects.bytes_fetched) if objects else (0, 0)
            rows.append((f"{generation} {name}", seconds, requests, sent, fetched))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--generations", type=int, default=3, help="how often the stages run")
    parser.add_argument("--milliseconds", type=float, default=20.0, help="delay of each of the store's answers")
    parser.add_argument("--games", type=int, default=200, help="self-play games per generation")
    options = parser.parse_args()
    if importlib.util.find_spec("moto") is None:
        parser.error("needs the package moto: pip install '.[test]'")
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(options.milliseconds / 1000)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert server.stdout is not None
    port = next(int(line) for line in server.stdout if line.strip().isdigit())
    os.environ |= {
        "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
    }  # fmt: skip
    import boto3

    boto3.client("s3").create_bucket(Bucket="bucket")
    with tempfile.TemporaryDirectory() as there:
        local = Path(there) / "local"
        local.mkdir()
        # A first run, not counted, compiles the kernels and measures the engines.
        run(working_copy.make("s3://bucket/warm", Path(there) / "warm"), 1, 8)
        here = run(local, options.generations, options.games)
        remote = run(working_copy.make("s3://bucket/run", Path(there) / "copy"), options.generations, options.games)
    os.chdir("/")
    print(f"{'command':12} {'folder s':>9} {'bucket s':>9} {'requests':>9} {'sent MB':>8} {'fetched':>8}")
    for (name, seconds, *_), (_, slow, requests, sent, fetched) in zip(here, remote, strict=True):
        moved = f"{sent / 1e6:8.2f} {fetched / 1e6:8.2f}"
        print(f"{name:12} {seconds:9.2f} {slow:9.2f} {requests:9} {moved}")
    assert server.stdin is not None
    server.stdin.close()
    server.wait(10)


if __name__ == "__main__":
    main()
