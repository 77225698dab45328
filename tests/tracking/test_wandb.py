"""wandb's offline files, read back."""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

WRITE = """
import numpy as np, sys
from pathlib import Path
from pipeline.progress import SILENT
from pipeline.tracking.options import TrackingOptions
from pipeline.tracking.tracker import Tracker

options = TrackingOptions(track="wandb,mlflow", logdir=Path(sys.argv[1]))
with Tracker(options, Path(), "selfplay/w00", "selfplay/games", SILENT) as one:
    one.add({"draw_share": 0.25, "plies": np.array([5, 9, 9, 7])}, 7)
with Tracker(options, Path(), "train/m", "train/step", SILENT) as one:
    one.add({"loss/total": 1.5}, 10, settled=False)
    one.settle()
    one.add({"loss/total": 1.0}, 20, settled=False)
"""


def read(file: Path) -> list[Any]:
    """The records of an offline run, parsed by wandb's own messages.

    The file is a log of LevelDB's after 7 bytes: blocks of 32 KiB with parts of records, each after a checksum of 4
    bytes, a length of 2 and a type, whole 1, first 2, middle 3, last 4. wandb has a reader in its service alone.
    """
    from wandb.proto.wandb_internal_pb2 import Record

    data, at, parts, records = file.read_bytes(), 7, b"", []
    assert data[:4] == b":W&B"
    while at < len(data):
        if (left := 2**15 - at % 2**15) < 7:
            at += left
            continue
        length, kind = struct.unpack_from("<HB", data, at + 4)
        parts += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):
            records.append(Record.FromString(parts))
            parts = b""
    return records


def test_a_loop_is_one_offline_run(tmp_path: Path) -> None:
    """In a process of its own: wandb starts a service that outlives a test."""
    pytest.importorskip("wandb")
    pytest.importorskip("mlflow")
    logdir = tmp_path / "go9/data/logs"
    with socket.create_server(("127.0.0.1", 0)) as proxy:  # everything that is sent goes through it
        address = f"http://127.0.0.1:{proxy.getsockname()[1]}"
        proxies = {name: address for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")}
        environment = {**os.environ, "WANDB_MODE": "online", "HOME": str(tmp_path), **proxies}
        for name in ("PYTEST_CURRENT_TEST", "CI", "NO_PROXY", "no_proxy"):
            environment.pop(name, None)
        done = subprocess.run(
            [sys.executable, "-c", WRITE, str(logdir)], env=environment, capture_output=True, text=True, timeout=120
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        proxy.setblocking(False)
        with pytest.raises(BlockingIOError):  # nothing was
            proxy.accept()
    (folder,) = (logdir / "wandb").glob("offline-run-*")
    records = read(next(folder.glob("*.wandb")))
    (run,) = [one.run for one in records if one.WhichOneof("record_type") == "run"]
    assert (run.project, run.run_group) == ("mugo", "go9")
    rows = [
        {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in one.history.item}
        for one in records
        if one.WhichOneof("record_type") == "history"
    ]
    played, trained = rows  # not what was never settled
    assert (played["selfplay/games"], played["selfplay/draw_share"]) == (7, 0.25)
    histogram = {name.rpartition("/")[2]: value for name, value in played.items() if name.startswith("selfplay/plies/")}
    assert histogram["_type"] == "histogram" and sum(histogram["values"]) == 4 and histogram["bins"][-1] == 9, played
    assert (trained["train/step"], trained["train/loss/total"]) == (10, 1.5)
    metrics = [one.metric for one in records if one.WhichOneof("record_type") == "metric"]
    axes = {one.glob_name: one.step_metric for one in metrics}
    assert axes["train/*"] == "train/step" and axes["selfplay/*"] == "selfplay/games"
