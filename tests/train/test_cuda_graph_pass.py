"""A pass that is captured as a CUDA graph runs the same operations for every batch, all on the batch's device.

Needs no GPU: on PyTorch's device "meta", tensors have shapes but no numbers, so reading a number fails. Using a tensor
of another device is detected.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from pipeline.games.specs import parse_game
from pipeline.methods.alphazero.losses import AlphaZeroObjective
from pipeline.methods.alphazero.training_batch import make_batch
from pipeline.methods.method import Objective
from pipeline.networks.architecture import Architecture, random_weights
from pipeline.train.config import TrainConfig
from tests.families import having
from tests.train.chunk_sets import made_up_examples

ROWS = 6
COPIES = torch.ops.aten._to_copy, torch.ops.aten.copy_


class OnMeta(TorchDispatchMode):
    """Raises AssertionError if an operation gets a tensor of another device.

    A single number is allowed, because it is sent with the operation, unless the operation copies it.
    """

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for one in tree_leaves((args, kwargs or {})):
            if isinstance(one, torch.Tensor) and not one.is_meta:
                assert one.ndim == 0 and function.overloadpacket not in COPIES, f"{function} of {one.device}"
        return function(*args, **(kwargs or {}))


def passed(objective: Objective, weights: Any, batch: Any) -> None:
    """The operations of a captured pass, on the device "meta"."""
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


@pytest.mark.parametrize("spec", ["go:5", "go:any,size=6,komi=7", "gomoku:9", *having("shogi", "shogi:5")])
def test_alphazero(spec: str) -> None:
    game = parse_game(spec)
    architecture = Architecture.for_game("b2c16", game, "wdl")
    config = TrainConfig(reply_weight=0.1, soft_policy_weight=8.0)
    batch = make_batch(game, made_up_examples(game, ROWS, 0), np.arange(ROWS), np.zeros(ROWS, np.int64))
    passed(AlphaZeroObjective(architecture, config), random_weights(architecture, 0), batch)
