"""The CUDA backend on the CPU: the same copies between the same buffers. These tests use no GPU."""

from __future__ import annotations

import queue
import threading

import numpy as np
import pytest

from pipeline.networks import torch_backends
from pipeline.networks.architecture import Architecture
from pipeline.networks.folding import evaluate_plain, fold
from pipeline.networks.inference import POLICY_TOLERANCE, VALUE_TOLERANCE, softmax
from pipeline.networks.torch_backends import CudaBackend
from tests.networks.conftest import lively_weights, random_planes


def test_buffers_go_where_they_came_from(architecture: Architecture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Passes are made and destroyed in the capture thread, so that none of their work gets into a graph."""
    gone: queue.SimpleQueue[str] = queue.SimpleQueue()

    class Watched(torch_backends._Pass):
        def __del__(self) -> None:
            gone.put(threading.current_thread().name)

    monkeypatch.setattr(torch_backends, "_Pass", Watched)
    run = CudaBackend(architecture, fold(architecture, lively_weights(architecture)), "float32", "cpu").for_thread(0)
    for count in (16, 5):
        run(random_planes(architecture, count, 0))
    assert gone.empty()
    del run
    assert all(gone.get(timeout=60).startswith("capture") for _ in range(2))


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_the_way_to_a_device_and_back(architecture: Architecture, precision: str) -> None:
    folded = fold(architecture, lively_weights(architecture))
    backend = CudaBackend(architecture, folded, precision, "cpu")
    run = backend.for_thread(0)
    kept = []
    for count in (16, 5, 16):  # buffers of each size are used again
        planes = random_planes(architecture, count, len(kept))
        logits, value = run(planes)
        wanted_logits, wanted_value = evaluate_plain(architecture, folded, planes)
        assert np.abs(softmax(logits) - softmax(wanted_logits)).max() < POLICY_TOLERANCE
        assert np.abs(value - wanted_value).max() < VALUE_TOLERANCE
        kept.append((logits, logits.copy()))
    assert all((found == before).all() for found, before in kept)  # outputs belong to the caller
