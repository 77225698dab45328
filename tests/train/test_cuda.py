"""On a GPU a recorded pass trains as one that isn't recorded. Skipped without one."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from pipeline.families.backgammon.td import network as afterstates
from pipeline.families.backgammon.td.losses import AfterstateObjective
from pipeline.families.backgammon.td.losses import Batch as AfterstateBatch
from pipeline.games.specs import parse_game
from pipeline.methods.alphazero.batch import Batch, make_batch
from pipeline.methods.alphazero.losses import AlphaZeroObjective
from pipeline.networks.architecture import Architecture, random_weights
from pipeline.train.config import TrainConfig
from pipeline.train.cuda_graph_pass import RecordedPass
from pipeline.train.trainer import NotFinite, Trainer
from tests.train.chunk_sets import made_up_examples

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
GAME = parse_game("go:5")
ARCHITECTURE = Architecture.for_game("b2c16", GAME)


def examples(count: int, seed: int) -> Batch:
    return make_batch(GAME, made_up_examples(GAME, count, seed), np.arange(count), np.zeros(count, np.int64))


def trainer(config: TrainConfig, state: Any = None, weights: Any = None) -> Trainer:
    return Trainer(AlphaZeroObjective(ARCHITECTURE, config), weights or random_weights(ARCHITECTURE, 0), config, state)


@pytest.mark.parametrize("optimizer", ["adam", "muon"])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_recorded_pass_learns_like_any_other(optimizer: str, precision: str) -> None:
    config = TrainConfig(precision=precision, optimizer=optimizer, ema_decay=0.9, warmup_steps=3, learning_rate=0.002)
    recorded, eager = trainer(config), trainer(config)
    assert isinstance(recorded._pass, RecordedPass)
    eager._pass = eager._pass_eagerly
    for step in range(12):
        batch = examples(64 + step % 2, step)  # of two sizes, as in an epoch
        found, wanted = recorded.step(batch), eager.step(batch)
        tolerance = 2e-3 if precision == "float32" else 0.05
        for name, value in wanted.metrics.items():
            if name not in ("policy_accuracy", "value_sign_accuracy"):
                assert found.metrics[name] == pytest.approx(value, abs=tolerance, rel=tolerance), (step, name)
        assert found.gradient_norm == pytest.approx(wanted.gradient_norm, rel=10 * tolerance)
        assert np.abs(found.value_errors - wanted.value_errors).max() < 10 * tolerance
    assert len(recorded._pass._recorded) == 2
    held = examples(100, 99)
    assert recorded.evaluate([held])["total"] == pytest.approx(eager.evaluate([held])["total"], rel=0.05)
    again = trainer(config, recorded.optimizer_state, recorded.weights)
    assert again.evaluate([held]) == pytest.approx(recorded.evaluate([held]), rel=1e-5)
    assert again.step(held).metrics["total"] == pytest.approx(recorded.step(held).metrics["total"], rel=0.01)


@pytest.fixture
def usual_collector() -> Iterator[None]:
    usual = gc.get_threshold()
    yield
    gc.set_threshold(*usual)


@pytest.mark.usefixtures("usual_collector")
def test_recordings_that_nobody_uses_spoil_no_other() -> None:
    """Two trainings in one process, as benchmarks.learning has them. The first one's recordings are garbage, which the
    collector, always at work, finds while the second one records.
    """
    config, batch = TrainConfig(warmup_steps=0, precision="bfloat16"), examples(64, 0)
    gc.collect()
    gc.set_threshold(1_000_000_000)  # the collector is on, and waits
    subject = trainer(config)
    for _ in range(4):
        subject.step(batch)
    assert isinstance(subject._pass, RecordedPass) and subject._pass._recorded
    subject = trainer(config)
    assert isinstance(subject._pass, RecordedPass)
    usual = subject._pass._function

    def collecting(batch: Batch) -> tuple[torch.Tensor, ...]:
        if torch.cuda.is_current_stream_capturing():
            gc.set_threshold(1)
            assert len([[] for _ in range(10_000)]) == 10_000  # each new list is an occasion
        return usual(batch)

    subject._pass._function = collecting
    for _ in range(5):
        assert np.isfinite(subject.step(batch).metrics["total"])
    assert gc.get_threshold()[0] == 1 and subject._pass._recorded


def test_a_loss_that_is_not_finite_changes_nothing() -> None:
    config = TrainConfig(warmup_steps=0)
    subject = trainer(config)
    for step in range(6):
        subject.step(examples(64, step))
    before = subject.weights
    bad = examples(64, 7)
    with pytest.raises(NotFinite, match="not finite"):
        subject.step(bad._replace(value=torch.full_like(bad.value, float("nan"))))
    trained = [name for name in before if ".running_" not in name]
    assert all((subject.weights[name] == before[name]).all() for name in trained)


@pytest.mark.parametrize("capturable", [True, False])
def test_values_of_afterstates_are_learned_recorded_or_not(capturable: bool) -> None:
    config = TrainConfig(learning_rate=0.01, warmup_steps=0)
    objective = AfterstateObjective(10, 3.0, 5)
    objective.capturable = capturable
    weights = afterstates.random_weights(10, 8, 5, 0)
    found, wanted = (Trainer(one, weights, config) for one in (objective, AfterstateObjective(10, 3.0, 5)))
    assert isinstance(found._pass, RecordedPass) == capturable
    wanted._pass = wanted._pass_eagerly
    torch.manual_seed(0)
    for _ in range(6):
        parts = torch.rand(64, 10), torch.rand(64, 5), torch.rand(64), torch.ones(64)
        one, other = found.step(AfterstateBatch(*parts)), wanted.step(AfterstateBatch(*parts))
        assert one.metrics == pytest.approx(other.metrics, rel=1e-3)
        assert one.value_errors == pytest.approx(other.value_errors, abs=1e-3)
