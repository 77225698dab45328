"""Pools of Ray actors: nodes that die and join, a slow driver, updates, and messages about unusable clusters.

The actors play made-up games (fake_executor.py); tests/workers/test_on_ray.py plays real ones.
"""

from __future__ import annotations

import collections
import importlib.util
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
import types
from pathlib import Path

import pytest

from pipeline.errors import FileError, MuGoError
from pipeline.workers import cluster as module
from pipeline.workers.worker_pool import OutcomeReader
from tests.helpers import Heard, make_model
from tests.workers.fake_executor import AGAIN, TOLD, job_of

ROOT = Path(__file__).parent.parent.parent


def played(pool, numbers, act=lambda found: None, seconds=60.0):
    """All outcomes of a pool that plays to the end. act: called after each look with what was found so far."""
    found = []
    deadline = time.monotonic() + seconds
    try:
        pool.give(numbers)
        while len(found) < len(numbers):
            assert time.monotonic() < deadline, (pool.workers, found)
            found += pool.outcomes(0.2)
            act(found)
    finally:
        pool.close()
    return found


def pool_of(cluster, job, reader: OutcomeReader = AGAIN, capacity=4, hang_seconds=60.0, **options) -> module.RayPool:
    return module.RayPool(cluster, reader, job, [], capacity, hang_seconds, **options)


def test_a_token_is_used_where_there_is_one(tmp_path, monkeypatch):
    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "RAY_AUTH_MODE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert not module._has_token()
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray/auth_token").write_text("token")
    assert module._has_token()
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "elsewhere"))
    assert not module._has_token()
    monkeypatch.setenv("RAY_AUTH_TOKEN", "token")
    assert module._has_token()


def test_a_cluster_that_refuses_the_token_says_which_variable_helps():
    def refuse(**options):
        raise RuntimeError("Failed to connect to GCS: Unauthenticated: InvalidAuthToken")

    ray = types.SimpleNamespace(init=refuse)
    with pytest.raises(MuGoError, match=r"authentication token.* RAY_AUTH_MODE=token .*RAY_AUTH_TOKEN_PATH"):
        module._connect(ray, "auto", threading.Event())


def test_every_game_is_played_once_and_actors_are_used_again(nodes):
    with module.Cluster(Heard()) as cluster:
        assert cluster.progress.said == ["Ray cluster: 1 node with 1 CPU"]
        first = played(pool_of(cluster, job_of(), capacity=7), range(50))
        assert sorted(one["number"] for one in first) == list(range(50))
        second = played(pool_of(cluster, job_of(), capacity=50), range(10))
        assert sorted(one["number"] for one in second) == list(range(10))
        assert {one["pid"] for one in first} == {one["pid"] for one in second}
        assert played(pool_of(cluster, job_of()), []) == []


def test_of_a_lost_worker_and_a_message_at_once_neither_is_forgotten():
    pool = object.__new__(module.RayPool)
    pool._arrived, pool._closed = collections.deque(), False
    pool._recruit = lambda: None
    pool._read = lambda worker, data: [data]

    def wait(seconds):
        pool._arrived.append(("a worker", "an outcome"))
        return ["a lost game"]

    pool._wait = wait
    assert pool._receive(1.0) == ["a lost game"] and pool._receive(1.0) == ["an outcome"]


def test_a_node_that_joins_gets_games_and_one_that_dies_loses_none(nodes):
    """The busiest node dies, and another plays its games under the same numbers."""
    told = Heard()
    with module.Cluster(told) as cluster:
        pool = pool_of(cluster, job_of("never"), capacity=8, most=20)
        pool.give(range(20))
        while not pool.workers or not pool.workers[0].ready:
            pool.outcomes(0.2)
        first = pool.workers[0]
        assert len(first.games) == 8  # its capacity
        node = nodes.add()
        while len(pool.workers) < 2 or not pool.workers[1].games:
            pool.outcomes(0.2)
        assert len({worker.actor.node.id for worker in pool.workers}) == 2
        theirs = set(pool.workers[1].games)
        assert len(theirs) == 8 and not theirs & first.games
        nodes.kill(node)
        killed = time.monotonic()
        while len(pool.workers) > 1 or first not in pool.workers:
            assert time.monotonic() - killed < 30
            pool.outcomes(0.2)
        assert len(told.warned) == 1 and "its node" in told.warned[0]
        assert "others play its 8 games" in told.warned[0]
        assert theirs <= set(pool._waiting)
        pool.close()


def test_actors_of_other_threads_make_room_on_their_node(monkeypatch):
    here, there = module._Node("a", "a", 4.0), module._Node("b", "b", 4.0)
    cluster = object.__new__(module.Cluster)
    cluster.idle = idle = [module._Actor(object(), node, 2) for node in (here, there, here)]
    kept = [idle[1]]
    killed: list[object] = []
    handle, started = object(), []

    class Ray:
        kill = killed.append

        def remote(self, kind):
            return self

        def options(self, **options):
            assert len(killed) == 2
            started.append(options["num_cpus"])
            return types.SimpleNamespace(remote=lambda: handle)

    cluster.ray = Ray()
    monkeypatch.setattr(module.Cluster, "_on", lambda self, node: {})
    assert cluster.actor(here, 2).threads == 2 and not killed and not started
    idle.insert(0, module._Actor(object(), here, 2))
    assert cluster.actor(here, 1).handle is handle
    assert started == [1] and cluster.idle == kept


def test_actors_share_the_gpus_of_their_node(nodes):
    node = nodes.add(cpus=4, gpus=2)
    with module.Cluster(Heard()) as cluster:
        (there,) = [one for one in cluster.nodes() if one.id == node.node_id]
        assert [there.gpus_of(cpus) for cpus in (1, 2, 3, 4, 8)] == [0.5, 1.0, 1.0, 2.0, 2.0]
        seen: dict[int, str] = {}

        def look(found) -> None:
            seen.update({one["pid"]: one["gpus"] for one in found})

        found = played(pool_of(cluster, job_of()), range(200), look)
    assert len(found) == 200
    assert set(seen.values()) <= {"0", "1", "", None}
    assert {"0", "1"} <= set(seen.values()), seen


def test_a_slow_driver_slows_the_actors(nodes):
    with module.Cluster(Heard()) as cluster:
        pool = pool_of(cluster, job_of(), capacity=5)
        most = 0

        def look(found):
            nonlocal most
            time.sleep(0.2)
            counted = pool.counts()
            most = max(most, counted.totals.get("played", 0) - len(found), sum(counted.live))

        found = played(pool, range(30), look)
        assert len(found) == 30 and 0 < most <= 5


def test_updates_and_their_models_reach_actors_whether_they_are_there_or_come_later(nodes, tmp_path):
    models = [make_model(tmp_path, number) for number in (0, 1, 2)]
    with module.Cluster(Heard()) as cluster:
        pool = module.RayPool(cluster, AGAIN, job_of(update=0), models[:1], 3, 60.0)
        told = []

        def act(found):
            if found and not told:
                told.append(time.monotonic())
                pool.update(1, models[1:])

        found = played(pool, range(150), act)
        assert {one["update"] for one in found} == {0, 1}
        assert found[0]["models"] == [str(models[0])]
        assert found[-1]["update"] == 1 and set(map(str, models[1:])) <= set(found[-1]["models"])
        assert len(cluster._put) == 2  # the first one isn't kept
        assert cluster.put(models[1:]) == cluster.put(models[1:])  # a version travels once
        with pytest.raises(FileError):
            cluster.put([tmp_path / "nobody"])


@pytest.mark.parametrize(
    ("mode", "problem"),
    [
        ("die", r"its process ended"),
        ("stop", r"it hasn't answered for 2 seconds"),
        ("stuck", r"it made no step for \d+ seconds"),
    ],
)
def test_an_actor_that_fails_once_costs_nothing_in_the_end(nodes, tmp_path, monkeypatch, mode, problem):
    monkeypatch.setattr(module, "SILENT_SECONDS", 2.0)
    monkeypatch.setattr(module, "SUSPECT_SECONDS", 0.0)
    told = Heard()
    with module.Cluster(told) as cluster:
        job = job_of(mode, [7], tmp_path / "marker")
        hang_seconds = 2.0 if mode == "stuck" else 60.0
        found = played(pool_of(cluster, job, TOLD, hang_seconds=hang_seconds), range(12))
        lost = [one for one in found if "problem" in one]
        if mode == "stop":  # whatever kept it from answering, no game is to blame
            assert not lost and problem in told.warned[0]
        else:
            assert 7 in [one["number"] for one in lost] and len(lost) <= 4
            assert all(re.search(problem, one["problem"]) for one in lost)
        assert sorted(one["number"] for one in found) == list(range(12))


def test_a_job_that_is_impossible(nodes):
    with module.Cluster(Heard()) as cluster, pytest.raises(MuGoError, match=r"node .*: the weights are gone"):
        played(pool_of(cluster, job_of("error")), range(3))


def test_nodes_with_another_version_are_refused_before_any_work(nodes, monkeypatch):
    nodes.add()
    with monkeypatch.context() as patch:
        patch.setattr("pipeline.run.provenance.source_digest", lambda: "0123456789ab")
        with pytest.raises(MuGoError) as caught:
            module.Cluster(Heard())
    text = str(caught.value)
    assert text.startswith("Ray cluster: node ") and "this machine 0123456789ab" in text
    assert "ray job submit" in text
    with monkeypatch.context() as patch:
        patch.setattr("platform.python_version_tuple", lambda: ("3", "99", "0"))
        with pytest.raises(MuGoError, match=r"has Python 3\.\d+, this machine 3\.99"):
            module.Cluster(Heard())


def test_a_node_without_the_program(nodes, monkeypatch, tmp_path):
    (tmp_path / "elsewhere.py").write_text("def identity():\n    return b''\n")
    spec = importlib.util.spec_from_file_location("elsewhere", tmp_path / "elsewhere.py")
    elsewhere = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(elsewhere)
    monkeypatch.setitem(sys.modules, "elsewhere", elsewhere)
    monkeypatch.setattr(module.json, "loads", lambda text: {} if text == b"" else json.JSONDecoder().decode(text))
    monkeypatch.setattr(module, "identity", elsewhere.identity)
    with pytest.raises(
        MuGoError, match=r"can't run this program \(.*No module named 'elsewhere'.*\); install it there"
    ):
        module.Cluster(Heard())


def test_a_node_that_joins_with_another_version_is_left_out(nodes, monkeypatch):
    told = Heard()
    with module.Cluster(told) as cluster:
        nodes.add()
        monkeypatch.setitem(cluster._wanted, "version", "0123456789ab")
        deadline = time.monotonic() + 30
        while not told.warned and time.monotonic() < deadline:
            assert len(cluster.nodes()) == 1
            time.sleep(0.2)
        assert "this machine 0123456789ab" in told.warned[0] and told.warned[0].endswith("this node isn't used")


# No cluster


def test_without_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MuGoError, match=r"--runner ray: Ray isn't installed here; run pip install '\.\[ray\]'"):
        module.Cluster(Heard())


@pytest.mark.parametrize("address", ["ray://head:10001", "http://127.0.0.1:8265", "head", ":6379", "head:port"])
def test_an_address_that_is_none(address):
    with pytest.raises(MuGoError, match=rf"RAY_ADDRESS={address}: wanted HOST:PORT"):
        module._connect(pytest.importorskip("ray"), address, threading.Event())


def test_an_address_where_nobody_is():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    begun = time.monotonic()
    with pytest.raises(MuGoError, match=rf"Ray cluster {address}: no answer within 10 seconds \(Connection refused\)"):
        module._connect(pytest.importorskip("ray"), address, threading.Event())
    assert time.monotonic() - begun < 15


def test_an_address_where_no_cluster_answers(tmp_path):
    """The listener there is silent. When the command ends, nothing has been written."""
    pytest.importorskip("ray")
    from tests.helpers import make_champion

    make_champion(tmp_path / "saved_models")
    code = (
        "from pipeline.workers import cluster; cluster.CONNECT_SECONDS = 2.0\n"
        "from pipeline import main; main.run_program(['selfplay', '--runner', 'ray'])"
    )
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        environment = {
            **os.environ, "RAY_ADDRESS": f"127.0.0.1:{silent.getsockname()[1]}", "PYTHONPATH": str(ROOT)
        }  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=50
        )
    lines = done.stderr.strip().splitlines()
    assert done.returncode == 1 and lines[-1].startswith("mugo selfplay: Ray cluster 127.0.0.1:")
    assert "no answer within 2 seconds" in lines[-1] and not (tmp_path / "data" / "selfplay" / "000000-test").exists()
