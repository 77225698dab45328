"""On a GPU, a pass captured as a CUDA graph trains like an eager one. Skipped without a GPU."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from pipeline.games.specs import parse_game
from pipeline.methods.alphazero.losses import AlphaZeroObjective
from pipeline.methods.alphazero.training_batch import Batch, make_batch
from pipeline.networks.architecture import Architecture, random_weights
from pipeline.train.config import TrainConfig
from pipeline.train.trainer import CudaGraphPass, NotFinite, Trainer
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
def test_a_captured_pass_learns_like_an_eager_one(optimizer: str, precision: str) -> None:
    config = TrainConfig(precision=precision, optimizer=optimizer, ema_decay=0.9, warmup_steps=3, learning_rate=0.002)
    captured, eager = trainer(config), trainer(config)
    assert isinstance(captured._pass, CudaGraphPass)
    eager._pass = eager._pass_eagerly
    for step in range(12):
        batch = examples(64 + step % 2, step)  # of two sizes, as in an epoch
        found, wanted = captured.step(batch), eager.step(batch)
        tolerance = 2e-3 if precision == "float32" else 0.05
        for name, value in wanted.metrics.items():
            if name not in ("policy_accuracy", "value_sign_accuracy"):
                assert found.metrics[name] == pytest.approx(value, abs=tolerance, rel=tolerance), (step, name)
        assert found.gradient_norm == pytest.approx(wanted.gradient_norm, rel=10 * tolerance)
        assert np.abs(found.value_errors - wanted.value_errors).max() < 10 * tolerance
    assert len(captured._pass._graphs) == 2
    held = examples(100, 99)
    assert captured.evaluate([held])["total"] == pytest.approx(eager.evaluate([held])["total"], rel=0.05)
    again = trainer(config, captured.optimizer_state, captured.weights)
    assert again.evaluate([held]) == pytest.approx(captured.evaluate([held]), rel=1e-5)
    assert again.step(held).metrics["total"] == pytest.approx(captured.step(held).metrics["total"], rel=0.01)


@pytest.fixture
def usual_collector() -> Iterator[None]:
    usual = gc.get_threshold()
    yield
    gc.set_threshold(*usual)


@pytest.mark.usefixtures("usual_collector")
def test_unused_graphs_spoil_no_other() -> None:
    """Two trainings in one process, as in benchmarks.learning. The first one's graphs are garbage, which the collector
    finds while the second one captures.
    """
    config, batch = TrainConfig(warmup_steps=0, precision="bfloat16"), examples(64, 0)
    gc.collect()
    gc.set_threshold(1_000_000_000)  # the collector is on, but waits
    subject = trainer(config)
    for _ in range(4):
        subject.step(batch)
    assert isinstance(subject._pass, CudaGraphPass) and subject._pass._graphs
    subject = trainer(config)
    assert isinstance(subject._pass, CudaGraphPass)
    usual = subject._pass._function

    def collecting(batch: Batch) -> tuple[torch.Tensor, ...]:
        if torch.cuda.is_current_stream_capturing():
            gc.set_threshold(1)
            assert len([[] for _ in range(10_000)]) == 10_000  # each new list may start the collector
        return usual(batch)

    subject._pass._function = collecting
    for _ in range(5):
        assert np.isfinite(subject.step(batch).metrics["total"])
    assert gc.get_threshold()[0] == 1 and subject._pass._graphs


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
