"""Ray clusters for tests: nodes of one CPU on this machine. Everything that Ray starts ends with the test module."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

OBJECT_STORE = 80 << 20  # bytes; the least that Ray allows


class Nodes:
    """A cluster whose head, with one CPU, stays, while other nodes come and go. At most two CPUs compute at a time."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        options = {"num_cpus": 1, "object_store_memory": OBJECT_STORE, "include_dashboard": False}
        quickly = {"health_check_period_ms": 500, "health_check_timeout_ms": 1000, "health_check_failure_threshold": 3}
        self._cluster = Cluster(initialize_head=True, head_node_args={**options, "_system_config": quickly})
        self.address = self._cluster.address

    def add(self, cpus: int = 1, gpus: int = 0) -> Any:
        """gpus: which the node only claims to have."""
        return self._cluster.add_node(num_cpus=cpus, num_gpus=gpus, object_store_memory=OBJECT_STORE)

    def kill(self, node: Any) -> None:
        """As in a power failure."""
        self._cluster.remove_node(node, allow_graceful=False)

    def kill_all(self) -> None:
        for node in list(self._cluster.worker_nodes):
            self.kill(node)

    def close(self) -> None:
        self._cluster.shutdown()


@pytest.fixture(scope="package")
def ray_cluster() -> Iterator[Nodes]:
    pytest.importorskip("ray", reason="Ray isn't installed: pip install '.[ray]'")
    import ray

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_AUTH_MODE"] = "disabled"  # also where this user has a token
    nodes = Nodes()
    try:
        ray.init(address=nodes.address, log_to_driver=False, logging_level="ERROR")
        yield nodes
    finally:
        ray.shutdown()
        nodes.close()


@pytest.fixture
def nodes(ray_cluster: Nodes, monkeypatch: pytest.MonkeyPatch) -> Iterator[Nodes]:
    """At first only the head. This process is connected already, which saves seconds; other processes find it too."""
    monkeypatch.setenv("RAY_ADDRESS", ray_cluster.address)
    yield ray_cluster
    ray_cluster.kill_all()
