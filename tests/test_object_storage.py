"""The loop's four stages on a bucket: requests that fail, time out and arrive twice, commands that are killed.

Whatever happens, the same command again ends with what an undisturbed run in a folder has, in the bucket too.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pipeline.run.matches import list_matches, read_match
from pipeline.run.models import list_models, read_promotions
from pipeline.run.shards import newest_shards, read_shard
from pipeline.run.store import requests, working_copy
from pipeline.upkeep.config import VerifyConfig
from pipeline.upkeep.verify.command import verify
from tests.chaos.faults import Fault
from tests.chaos.workshop import ROOT, Workshop
from tests.run.store.buckets import Bucket, Request, environment, open_bucket
from tests.runs import make_run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel for processes as Linux has them")
PLAYING = "--backend torch --threads 1 --parallel-games 8 --seed 1"
STAGES = {  # as tests/runs.py has them
    "init": "--game tictactoe --network-size b1c8",
    "selfplay": f"--games 24 --top-up --readouts 4 --temperature-plies 9 --commit-seconds 0 {PLAYING}",
    "gather": "--positions-per-chunk 32 --as-many-as-possible --holdout-fraction 0.3",
    "train": "--epochs 1 --batch-size 32 --priority-exponent 0.6",
    "evaluate": f"--games 8 --threshold 0.01 --readouts 2 --opening-plies 2 {PLAYING}",
}
REQUESTS = {"init": 12, "selfplay": 55, "gather": 20, "train": 14, "evaluate": 26}  # about
CALLS = 120  # of the file system, about, in each
DONE = {"init": 1, "train": 75, "evaluate": 75}  # exit codes when nothing is left to do; 0 for the others


@pytest.fixture(scope="module")
def bucket() -> Iterator[Bucket]:
    with open_bucket() as found:
        yield found


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a run in a folder comes to."""
    folder = tmp_path_factory.mktemp("undisturbed")
    make_run(folder)
    return outcome(folder)


def outcome(folder: Path) -> dict[str, Any]:
    """Of a whole run: what is the same however often it was cut off, and at whatever time it was made. Weights aren't:
    the names of shards, which have a time, decide which positions are sampled.
    """
    games = {}
    for meta in newest_shards(folder / "data/selfplay", pytest.fail):
        shard = read_shard(meta.path, meta)
        for index in range(shard.num_games):
            assert int(shard.game_ids[index]) not in games, "a game that stands twice"
            games[int(shard.game_ids[index])] = (meta.generation, shard.game(index).moves.tolist())
    models = [path.name for path in list_models(folder / "saved_models")]
    matches = {path.name: read_match(path).summary is not None for path in list_matches(folder / "data/evaluate")}
    sets = sorted(path.name.partition("-")[2][8:] for path in (folder / "data/training_data").glob("*.h5"))
    return {"games": games, "models": models, "matches": matches, "chunks": sets}


def whole_copy(address: str, folder: Path) -> Path:
    """As another machine finds the run; all that verify asks is true of it."""
    working_copy.attach(address, folder, whole=True)
    found = verify(VerifyConfig(directory=folder))
    assert found.clean, "\n".join(found.lines(whole=True))
    return folder


def test_requests_that_fail_time_out_and_arrive_twice(
    bucket: Bucket, undisturbed: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sixth of all requests go wrong; the run doesn't notice."""
    monkeypatch.setattr(requests, "ANSWER_SECONDS", 1.0)
    folder = working_copy.make("s3://bucket/faults", tmp_path / "copy")
    with faulty(bucket), working_copy.opened(folder):
        make_run(folder)
    assert outcome(folder) == undisturbed
    assert outcome(whole_copy("s3://bucket/faults", tmp_path / "other")) == undisturbed


@contextmanager
def faulty(bucket: Bucket, least: int = 20) -> Iterator[None]:
    """A sixth of all requests go wrong while the block runs."""
    rng, actions = random.Random(5), ["drop", "lose", "twice", "again", "late", "slow", 500, 503]
    bucket.late = 1.2
    struck: list[str | int] = []

    def plan(request: Request) -> str | int | None:
        if rng.random() > 1 / 6:
            return None
        action = rng.choice(actions) if rng.random() < 0.3 else rng.choice(["drop", "lose", "twice", 503])
        struck.append(action)
        return action

    bucket.plan = plan
    yield
    bucket.plan = lambda request: None
    assert len(struck) > least


class Killing:
    """Kills the process of a command at one of its requests, before the bucket has it or after."""

    def __init__(self, bucket: Bucket, pid: int, point: int) -> None:
        self._start, self._pid, self._point = len(bucket.requests), pid, point
        self.struck = False

    def __call__(self, request: Request) -> str | None:
        number = request.number - self._start
        if self.struck or number != self._point // 2:
            return "drop" if self.struck else None
        self.struck = True
        os.kill(self._pid, signal.SIGKILL)
        return "lose" if self._point % 2 else "drop"


def run(workshop: Workshop, folder: Path, stage: str) -> tuple[int, str]:
    done = workshop.run([stage, *STAGES[stage].split()], folder)
    return done.code, done.said


def test_commands_that_are_killed_at_any_request(
    bucket: Bucket, undisturbed: dict[str, Any], workshop: Workshop, tmp_path: Path
) -> None:
    """Killed again and again at chance requests and changes of files; then each stage ends as if undisturbed."""
    rng, kills = random.Random(11), 0
    folder = working_copy.make("s3://bucket/kills", tmp_path / "ein Ordner, größer")
    for stage in STAGES:
        for point in sorted(rng.sample(range(2 * REQUESTS[stage]), 3)):
            running = workshop.start([stage, *STAGES[stage].split()], folder)
            bucket.plan = killing = Killing(bucket, running.pid, point)
            running.wait()
            bucket.plan = lambda request: None
            kills += killing.struck
        fault = Fault("kill", rng.randrange(3 * CALLS))
        kills += workshop.run([stage, *STAGES[stage].split()], folder, fault).code == -signal.SIGKILL
        code, said = run(workshop, folder, stage)
        assert code in (0, DONE.get(stage, 0)), said
        assert "Traceback" not in said
    assert kills > 10
    other = whole_copy("s3://bucket/kills", tmp_path / "other")
    assert outcome(other) == undisturbed
    assert [line["champion"] for line in read_promotions(other / "saved_models")] == ["000000-init", "000001-b1c8"]
    found = verify(VerifyConfig(directory=folder))
    assert found.clean, "\n".join(found.lines(whole=True))


def test_two_machines_share_the_work(bucket: Bucket, workshop: Workshop, tmp_path: Path) -> None:
    """One plays, the other gathers, trains and evaluates; the model that it promotes plays on."""
    one, two = (working_copy.make("s3://bucket/shared", tmp_path / name) for name in ("one", "two"))
    for folder, stage in ((one, "init"), (one, "selfplay"), (two, "gather"), (two, "train"), (two, "evaluate")):
        code, said = run(workshop, folder, stage)
        assert code == 0, said
    code, said = run(workshop, one, "selfplay")
    assert code == 0 and "000001-b1c8 played 24 games" in said
    shutil.rmtree(one)  # a working copy is a cache
    one = working_copy.make("s3://bucket/shared", tmp_path / "one")
    code, said = run(workshop, one, "selfplay")
    assert code == 0 and "has its 24 games" in said
    assert [
        path.name for path in list_models(whole_copy("s3://bucket/shared", tmp_path / "whole") / "saved_models")
    ] == [
        "000000-init",
        "000001-b1c8",
    ]


@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        ("evaluate --watch --once --single-games 0 --benchmark random --benchmark-games 2", "000001-b1c8"),
        (f"selfplay --workers 1 --worker w07 --games 2 --readouts 4 {PLAYING}", "played 2 games"),
        ("loop --preset tictactoe --generations 1", "1 of 1 generations are made; nothing to do"),
    ],
)
def test_a_new_working_copy_knows_the_run(
    command: str, wanted: str, bucket: Bucket, workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Started as a shell does: not as the leader of a session, where some commands continue in a child."""
    import subprocess

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    address = f"s3://bucket/{command.split()[0]}"
    first = working_copy.make(address, tmp_path / "first")
    for stage in ("init", "selfplay", "gather", "train", "evaluate"):
        code, said = run(workshop, first, stage)
        assert code == 0, said
    copy = working_copy.make(address, tmp_path / "copy")
    done = subprocess.run(
        [sys.executable, str(ROOT / "main.py"), *command.split()], cwd=copy, env=workshop.loop_environment(),
        capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0 and wanted in done.stdout + done.stderr, done.stdout + done.stderr


def test_the_loop_and_addresses_as_options(
    bucket: Bucket, workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    preset = tmp_path / "tiny.yaml"
    preset.write_text(
        "init: {game: tictactoe, network_size: b1c8}\n"
        "selfplay: {games: 24, readouts: 4, temperature_plies: 9, backend: torch, threads: 1, parallel_games: 8}\n"
        "gather: {positions_per_chunk: 32, as_many_as_possible: true}\n"
        "train: {epochs: 1, batch_size: 32}\n"
        "evaluate: {games: 4, readouts: 2, opening_plies: 1, backend: torch, threads: 1, parallel_games: 2}\n"
    )
    import subprocess

    command = [str(ROOT / "rl_loop.sh"), "--preset", str(preset), "--generations", "1", "--tidy"]
    done = subprocess.run(
        [*command, "--directory", "s3://bucket/loop"], cwd=tmp_path, env=workshop.loop_environment(),
        capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "the working copy of s3://bucket/loop is" in done.stderr and "--directory s3://bucket/loop" in done.stdout
    address = "s3://bucket/loop"
    options = f"--output-dir {address}/data/selfplay --network {address}/saved_models/best_model --worker w01"
    code = workshop.run(["selfplay", *options.split(), "--games", "2", "--backend", "torch"], tmp_path)
    assert code.code == 0, code.said
    assert not (tmp_path / "data").exists()
    assert sum(meta.games for meta in newest_shards(whole_copy(address, tmp_path / "whole") / "data/selfplay")) == 26


def test_show_and_pool_take_addresses(
    bucket: Bucket, workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    address = "s3://bucket/pool-of"
    done = workshop.run(["pool", "add", "random", "--path", f"{address}/data/pool.json"], tmp_path)
    assert done.code == 0 and bucket.all_keys("pool-of/") == ["pool-of/data/pool.json"], done.said
    bucket.write("pool-of/data/selfplay/000000-a/w00/x", b"")
    for shown in (f"{address}/data/pool.json", address):
        done = workshop.run(["show", shown], tmp_path)
        assert done.code == 0, done.said
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]


@pytest.mark.parametrize("stage", STAGES)
def test_bad_addresses_and_credentials_are_one_line_before_any_work(
    bucket: Bucket, workshop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    option = {"init": "--new-model", "selfplay": "--output-dir", "gather": "--directory", "train": "--directory"}
    part = "saved_models/000000-a" if stage == "init" else "data/x"
    wrong = {
        "hf://bucket/run": (2, "hf://bucket/run: wanted s3://BUCKET/FOLDER"),
        "s3://nobody/run": (1, "no bucket 'nobody'"),
        "s3://bucket/denied": (1, "wanted credentials that may read, write and list here"),
    }
    bucket.plan = lambda request: 403 if "denied" in request.key + request.query else None
    if stage == "gather":  # an option that takes a whole run's address, and one that takes a folder's
        for words in (["loop", "--preset", "tictactoe", "--directory"], ["gather", "--directory"]):
            done = workshop.run([*words, "s3://"], tmp_path)
            assert done.code == 2 and "s3://: wanted a " in done.said and done.said.count("\n") == 1, done.said
    for address, (code, text) in wrong.items():
        done = workshop.run([stage, option.get(stage, "--output-dir"), f"{address}/{part}"], tmp_path)
        assert done.code == code and text in done.said and done.said.count("\n") == 1, done.said
    bucket.plan = lambda request: None
    assert not (tmp_path / "cache/mugo/runs").exists() and not (tmp_path / "data").exists()
    assert environment(bucket)["AWS_ENDPOINT_URL"] == bucket.url
