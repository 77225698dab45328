"""What a batch costs, its gradient by hand, and what training would do about it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pipeline.errors import MuGoError
from pipeline.families.backgammon.td.losses import AfterstateObjective, Batch
from pipeline.families.backgammon.td.network import random_weights
from pipeline.train.config import TrainConfig
from pipeline.train.trainer import Trainer
from tests.reference import afterstates as twin


def batch_of(features: np.ndarray, target: np.ndarray, value: np.ndarray, weight: np.ndarray | None = None) -> Batch:
    padded = np.full((len(target), 5), np.nan, np.float32)
    padded[:, : target.shape[1]] = target
    weight = np.ones(len(target), np.float32) if weight is None else weight
    return Batch(*(torch.from_numpy(np.asarray(part, np.float32)) for part in (features, padded, value, weight)))


@pytest.mark.parametrize("outputs", [1, 5])
def test_outputs_equal_the_plain_twin(outputs: int) -> None:
    weights = {name: 5 * array for name, array in random_weights(6, 4, outputs, 1).items()}
    features = np.random.default_rng(0).random((8, 6), np.float32)
    module = AfterstateObjective(6, 3.0, outputs).network(weights)
    with torch.autocast("cpu", torch.bfloat16):  # never rounds them
        found = module(torch.from_numpy(features)).chances
    assert found.dtype == torch.float32
    wanted = [twin.outputs(weights, row) for row in features.tolist()]
    assert found.detach().numpy() == pytest.approx(np.array(wanted), abs=1e-6)


def test_the_gradient_of_one_hidden_unit_by_hand() -> None:
    """y = σ(v·h + c), h = σ(w·x + b), (y - t)². With d = 2 (y - t) y (1 - y): dL/dv = d·h, dL/dw = d·v·h (1 - h)·x."""
    weights = {
        "hidden.weight": np.array([[0.5, -1.0]], np.float32),
        "hidden.bias": np.array([0.25], np.float32),
        "output.weight": np.array([[2.0]], np.float32),
        "output.bias": np.array([-0.5], np.float32),
    }
    x, target = np.array([1.0, 0.5]), 0.8
    h = twin.sigmoid(0.5 * 1.0 - 1.0 * 0.5 + 0.25)
    y = twin.sigmoid(2.0 * h - 0.5)
    at_output = 2 * (y - target) * y * (1 - y)
    at_hidden = at_output * 2.0 * h * (1 - h)
    objective = AfterstateObjective(2, 3.0, 1)
    network = objective.network(weights)
    batch = batch_of(x[None], np.array([[target]]), np.array([3 * (2 * target - 1)]))
    terms = objective.losses(network(batch.features), batch)
    terms["total"].backward()
    found = {name: parameter.grad.numpy() for name, parameter in network.named_parameters()}
    assert float(terms["total"].detach()) == pytest.approx((y - target) ** 2, rel=1e-5)
    assert found["output.weight"][0, 0] == pytest.approx(at_output * h, rel=1e-5)
    assert found["output.bias"][0] == pytest.approx(at_output, rel=1e-5)
    assert found["hidden.weight"][0] == pytest.approx(at_hidden * x, rel=1e-5)
    assert found["hidden.bias"][0] == pytest.approx(at_hidden, rel=1e-5)
    assert float(objective.errors(network(batch.features), batch)[0].detach()) == pytest.approx(
        6 * abs(y - target), rel=1e-4
    )


def test_terms_are_means_and_sample_weights_count() -> None:
    objective = AfterstateObjective(3, 3.0, 5)
    network = objective.network(random_weights(3, 2, 5, 0))
    rng = np.random.default_rng(1)
    features, target, weight = rng.random((4, 3)), rng.random((4, 5)), np.array([2.0, 0.0, 1.0, 1.0])
    value = np.array([twin.equity(row, 3.0) for row in target.tolist()])
    batch = batch_of(features, target, value, weight)
    outputs = network(batch.features)
    chances = outputs.chances.detach().numpy()
    rows = ((chances - target) ** 2).sum(axis=1)
    assert float(objective.losses(outputs, batch)["total"].detach()) == pytest.approx((rows * weight).mean(), rel=1e-5)
    wrong = np.array([twin.equity(row, 3.0) for row in chances.tolist()]) - value
    found = float(objective.accuracies(outputs, batch)["value_mse"].detach())
    assert found == pytest.approx((wrong**2 * weight).sum() / weight.sum(), rel=1e-4)
    assert set(objective.metrics) == {*objective.terms, *objective.accuracies(outputs, batch)}


def test_what_is_measured_is_in_points_and_sample_weights_count() -> None:
    weights = {"hidden.weight": np.zeros((1, 2), np.float32), "hidden.bias": np.zeros(1, np.float32),
               "output.weight": np.zeros((1, 1), np.float32), "output.bias": np.zeros(1, np.float32)}  # fmt: skip
    objective = AfterstateObjective(2, 3.0, 1)
    network = objective.network(weights)  # says 0.5, which is worth 0 points
    targets = np.array([[1.0], [0.5], [0.25]])
    batch = batch_of(np.zeros((3, 2)), targets, 6 * targets[:, 0] - 3, np.array([1.0, 1.0, 2.0]))
    found = objective.accuracies(network(batch.features), batch)
    assert {name: float(one) for name, one in found.items()} == pytest.approx(
        {"target_error": (3 + 2 * 1.5) / 4, "value_mse": (9 + 2 * 2.25) / 4, "predicted_value": 0, "target_value": 0}
    )
    assert set(objective.metrics) == {"total", *found}


@pytest.mark.parametrize("outputs", [1, 5])
def test_training_reaches_its_targets(outputs: int) -> None:
    objective, weights = AfterstateObjective(10, 3.0, outputs), random_weights(10, 8, outputs, 0)
    rng = np.random.default_rng(0)
    features, target = rng.random((16, 10)), rng.uniform(0.2, 0.8, (16, outputs))
    value = np.array([twin.equity(row, 3.0) for row in target.tolist()])
    trainer = Trainer(objective, weights, TrainConfig(learning_rate=0.01, weight_decay=0, warmup_steps=1))
    losses = [trainer.step(batch_of(features, target, value)).metrics["total"] for _ in range(400)]
    assert losses[-1] < 0.6 * losses[0]
    assert {name: array.shape for name, array in trainer.weights.items()} == {k: v.shape for k, v in weights.items()}


@pytest.mark.parametrize(("recorded", "outputs"), [(5, 1), (1, 5)])
def test_targets_of_another_number_of_outputs_are_refused(recorded: int, outputs: int) -> None:
    """Chances of winning are no values, and one value is no five chances."""
    trainer = Trainer(AfterstateObjective(3, 3.0, outputs), random_weights(3, 2, outputs, 0), TrainConfig())
    batch = batch_of(np.zeros((4, 3)), np.full((4, recorded), 0.5), np.zeros(4))
    for use in (trainer.step, lambda one: trainer.evaluate([one])):
        with pytest.raises(MuGoError, match=f"with {recorded} outputs, this one has {outputs}; wanted games of a mod"):
            use(batch)
    assert trainer.total_steps == 0


def test_other_weights_are_refused() -> None:
    with pytest.raises(MuGoError, match="its weights have 5 outputs; its architecture says 1"):
        AfterstateObjective(10, 3.0, 1).network(random_weights(10, 8, 5, 0))
