"""What a GPU is to record asks for the same operations whatever a batch's numbers are, all on the batch's device.

Tried without a GPU: on PyTorch's device "meta" tensors have shapes and no numbers, so that whoever looks at one fails;
and whoever uses a tensor of another device is found.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from pipeline.families.backgammon.td import network as afterstates
from pipeline.families.backgammon.td.losses import AfterstateObjective
from pipeline.families.backgammon.td.losses import Batch as AfterstateBatch
from pipeline.families.text.reinforce.losses import ReinforceObjective
from pipeline.games.specs import parse_game
from pipeline.methods.alphazero.batch import make_batch
from pipeline.methods.alphazero.losses import AlphaZeroObjective
from pipeline.methods.method import Objective
from pipeline.networks.architecture import Architecture, random_weights
from pipeline.train.config import TrainConfig
from tests.train.chunk_sets import made_up_examples

ROWS = 6
COPIES = torch.ops.aten._to_copy, torch.ops.aten.copy_


class OnMeta(TorchDispatchMode):
    """Raises AssertionError for a tensor of another device among an operation's arguments. A single number may be: it
    travels with the operation, unless that copies it.
    """

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for one in tree_leaves((args, kwargs or {})):
            if isinstance(one, torch.Tensor) and not one.is_meta:
                assert one.ndim == 0 and function.overloadpacket not in COPIES, f"{function} of {one.device}"
        return function(*args, **(kwargs or {}))


def passed(objective: Objective, weights: Any, batch: Any) -> None:
    """What a recorded pass asks of an objective, on the device "meta"."""
    network = objective.network(weights).to("meta").train()
    batch = batch._make(part.to("meta") for part in batch)
    with OnMeta():
        outputs = network(batch[0])
        terms = objective.losses(outputs, batch)
        terms["total"].backward()
        found = {**terms, **objective.accuracies(outputs, batch)}
        numbers = [*(found[name] for name in objective.metrics), objective.errors(outputs, batch)]
    assert all(one.is_meta for one in numbers)
    assert all(parameter.grad is not None for parameter in network.parameters())


@pytest.mark.parametrize("spec", ["go:5", "go:any,size=6,komi=7", "gomoku:9", "shogi:5"])
def test_alphazero(spec: str) -> None:
    game = parse_game(spec)
    architecture = Architecture.for_game("b2c16", game, "wdl")
    config = TrainConfig(reply_weight=0.1, soft_policy_weight=8.0)
    batch = make_batch(game, made_up_examples(game, ROWS, 0), np.arange(ROWS), np.zeros(ROWS, np.int64))
    passed(AlphaZeroObjective(architecture, config), random_weights(architecture, 0), batch)


@pytest.mark.parametrize("outputs", [1, 5])
def test_td(outputs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: nullcontext())  # which knows no "meta"
    batch = AfterstateBatch(torch.rand(ROWS, 10), torch.rand(ROWS, 5), torch.rand(ROWS), torch.ones(ROWS))
    objective = AfterstateObjective(10, 3.0, outputs)
    passed(objective, afterstates.random_weights(10, 8, outputs, 0), batch)


def test_reinforce_is_not_recorded() -> None:
    """Its network looks at its inputs."""
    assert not ReinforceObjective.capturable
