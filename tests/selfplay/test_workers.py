"""Self-play in worker processes: the same files as in threads, although processes die and models are promoted."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from typing import Any

import pytest

from pipeline.machine import available_cores
from pipeline.run.models import set_champion
from pipeline.run.shards import newest_shards, read_shard
from pipeline.selfplay import in_workers as remote
from pipeline.selfplay.command import selfplay
from pipeline.workers.processes import ProcessPool, on_shares_of_the_machine
from tests.helpers import make_champion, make_model
from tests.workers.fake_executor import AGAIN, job_of
from tests.workers.selfplay_runs import Acting, numbers, selfplay_config, shards


@pytest.fixture
def pools(monkeypatch: pytest.MonkeyPatch) -> list[ProcessPool[Any]]:
    """The pools that the test makes."""
    made: list[ProcessPool[Any]] = []
    init = ProcessPool.__init__

    def watched(self: ProcessPool[Any], *arguments: Any) -> None:
        init(self, *arguments)
        made.append(self)

    monkeypatch.setattr(ProcessPool, "__init__", watched)
    return made


def all_ended(pool: ProcessPool[Any]) -> bool:
    return all(worker.process.poll() is not None for worker in pool.workers)


def test_workers_write_the_same_shards_though_one_is_killed(pools, tmp_path):
    """Bit by bit, which depends on the sizes of batches: see selfplay_config."""
    for number in (0, 1):
        make_champion(tmp_path / "saved_models", number=number, spec="connect4", seed=number)
    here = selfplay(selfplay_config(tmp_path, "here"))

    def kill() -> bool:
        busiest = max(pools[-1].workers, key=lambda one: len(one.games))
        os.kill(busiest.process.pid, signal.SIGKILL)
        return True

    progress = Acting(8, kill)
    there = selfplay(selfplay_config(tmp_path, "there", workers=2, threads=2), progress)
    assert progress.done and progress.warnings == []
    assert there.games == 60 and numbers(tmp_path / "there") == list(range(60))
    assert shards(tmp_path / "there") == shards(tmp_path / "here")
    assert there.opponents == here.opponents and len(there.opponents) == 3
    assert there.evaluations > here.evaluations / 2  # but for the last second of the one that was killed
    assert sum(meta.evaluations for meta in newest_shards(tmp_path / "there")) <= there.evaluations
    assert all_ended(pools[0])
    header = read_shard(next(newest_shards(tmp_path / "there")).path).header
    assert "workers" not in header["provenance"]["config"]


def test_a_promotion_reaches_the_workers_new_games(monkeypatch, tmp_path):
    monkeypatch.setattr(remote, "UPDATE_SECONDS", 0.05)
    models = tmp_path / "saved_models"
    make_champion(models, number=0, spec="connect4")
    second = make_model(models, number=1, spec="connect4", seed=9)

    def promote() -> bool:
        set_champion(models, second, {"reason": "test"})
        return True

    config = selfplay_config(
        tmp_path, "games", workers=2, games=400, parallel_games=8, opponents="mirror=1", readouts=8
    )
    summary = selfplay(config, Acting(10, promote))
    by: Counter[str] = Counter()
    for meta in newest_shards(tmp_path / "games"):
        by[meta.model] += meta.games
    assert summary.model == "000001-test" and by["000000-test"] >= 10 and by["000001-test"] > 0
    assert by.total() == 400


def test_what_was_finished_counts_when_it_is_interrupted(pools, tmp_path):
    make_champion(tmp_path / "saved_models", number=0, spec="connect4")

    def interrupt() -> bool:
        raise KeyboardInterrupt

    config = selfplay_config(tmp_path, "games", workers=2, opponents="mirror=1", top_up=True, readouts=32)
    with pytest.raises(KeyboardInterrupt):
        selfplay(config, Acting(10, interrupt))
    assert all_ended(pools[0])
    assert 10 <= len(numbers(tmp_path / "games")) < 60
    selfplay(config)
    assert numbers(tmp_path / "games") == list(range(60))


def test_each_worker_keeps_to_its_share_of_the_cores(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {1, 3, 4, 7, 8}, raising=False)
    job = {"executor": "e"}
    assert [one["cores"] for one in on_shares_of_the_machine(job, 2)] == [[1, 3], [4, 7, 8]]
    assert [one["cores"] for one in on_shares_of_the_machine(job, 5)] == [[1], [3], [4], [7], [8]]
    assert on_shares_of_the_machine(job, 6) == [job] * 6


def test_workers_spread_over_the_gpus(monkeypatch):
    monkeypatch.setattr("pipeline.networks.gpu.may_have_gpu", lambda: True)
    for visible, wanted in (("2,GPU-7", ["2", "GPU-7", "2"]), ("1", None), ("0,-1,2", None), ("", None)):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        found = [one.get("gpu") for one in on_shares_of_the_machine({"executor": "e"}, 3)]
        assert found == (wanted or [None] * 3)


def test_a_child_gets_updates_passes_warnings_on_and_keeps_to_its_cores():
    warnings: list[str] = []
    cores = sorted(os.sched_getaffinity(0))[:1] if hasattr(os, "sched_getaffinity") else []
    jobs = [job_of(update="old", beat_seconds=0.05, cores=cores, warnings=["both", name]) for name in ("one", "two")]
    pool = ProcessPool(AGAIN, jobs, 3, 60.0, warnings.append)
    told: list[dict[str, Any]] = []
    try:
        pool.give(range(4))
        told += played(pool, 4)
        pool.update("new")
        pool.give(range(4, 8))
        told += played(pool, 4)
        deadline = time.monotonic() + 20
        while len(warnings) < 3 and time.monotonic() < deadline:
            assert pool.outcomes(0.1) == []
    finally:
        pool.close()
        assert pool.outcomes(0.0) == []
    assert [one["update"] for one in told] == ["old"] * 4 + ["new"] * 4
    assert {one["cores"] for one in told} == {1 if cores else available_cores()}
    assert pool.counts().totals == {"played": 8}
    assert len(warnings) == 3 and {"worker 0: one", "worker 1: two"} < set(warnings)  # the equal ones once


def played(pool: ProcessPool[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    deadline = time.monotonic() + 60
    while len(found) < count and time.monotonic() < deadline:
        found += pool.outcomes(1.0)
    return found
