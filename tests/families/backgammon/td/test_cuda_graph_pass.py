"""This method's pass as a CUDA graph, see tests/train/test_cuda_graph_pass.py."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch

from pipeline.families.backgammon.td import network as afterstates
from pipeline.families.backgammon.td.losses import AfterstateObjective
from pipeline.families.backgammon.td.losses import Batch as AfterstateBatch
from tests.train.test_cuda_graph_pass import ROWS, passed


@pytest.mark.parametrize("outputs", [1, 5])
def test_td(outputs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: nullcontext())  # which knows no "meta"
    batch = AfterstateBatch(torch.rand(ROWS, 10), torch.rand(ROWS, 5), torch.rand(ROWS), torch.ones(ROWS))
    objective = AfterstateObjective(10, 3.0, outputs)
    passed(objective, afterstates.random_weights(10, 8, outputs, 0), batch)
