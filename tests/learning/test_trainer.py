"""A trainer learns, counts what it says it counts, and can be made again from its state."""

import numpy as np
import pytest
import torch

from pipeline.config import TrainConfig
from pipeline.errors import MuGoError
from pipeline.games.registry import parse_game
from pipeline.learning.dataset import make_batch
from pipeline.learning.losses import METRICS, TERMS, Batch
from pipeline.learning.trainer import NotFinite, Trainer, mean_metrics, samples_per_second
from pipeline.networks.architecture import Architecture, random_weights
from tests.learning.chunk_sets import made_up_examples

GAME = parse_game("tictactoe")
ARCHITECTURE = Architecture.for_game("b2c16", GAME)
FLOAT32 = TrainConfig(precision="float32", warmup_steps=0)


def examples(count: int, seed: int = 0, symmetry: int = 0) -> Batch:
    columns = made_up_examples(GAME, count, seed)
    return make_batch(GAME, columns, np.arange(count), np.full(count, symmetry))


def trainer(config: TrainConfig = FLOAT32, **changes: object) -> Trainer:
    return Trainer(ARCHITECTURE, random_weights(ARCHITECTURE, 0), config.model_copy(update=changes))


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_tiny_set_is_learned_by_heart(precision: str) -> None:
    columns = made_up_examples(GAME, 16, 1)
    # distinct positions, and one sharp move each: what can be learned by heart
    columns["planes"] = np.random.default_rng(0).integers(0, 256, columns["planes"].shape).astype(np.uint8)
    columns["policy"] = np.eye(9)[np.arange(16) % 9].astype(np.float16)
    columns["policy_weight"][:] = 1
    columns["value"] = np.where(np.arange(16) % 3 == 0, 1, -1).astype(np.float32)
    batch = make_batch(GAME, columns, np.arange(16), np.zeros(16))
    subject = trainer(precision=precision, learning_rate=0.01)
    first = subject.evaluate([batch])
    for _ in range(80):
        result = subject.step(batch)
    assert result.metrics["policy_accuracy"] == result.metrics["value_sign_accuracy"] == 1
    assert result.metrics["policy"] < 0.05
    assert result.metrics["value"] < 0.05
    after = subject.evaluate([batch])
    assert after["total"] < 0.3 * first["total"]
    assert after["policy_accuracy"] == 1, "right in training, wrong in use: the norms' statistics are off"


@pytest.mark.parametrize("spec", ["go:5", "connect4"])
def test_other_heads_learn_too(spec: str) -> None:
    game = parse_game(spec)
    architecture = Architecture.for_game("b1c8", game)
    columns = made_up_examples(game, 32)
    batch = make_batch(game, columns, np.arange(32), np.zeros(32))
    subject = Trainer(architecture, random_weights(architecture, 0), FLOAT32.model_copy(update={"learning_rate": 0.01}))
    first = subject.step(batch).metrics
    for _ in range(40):
        last = subject.step(batch).metrics
    for name in ("policy", "value", "ownership", "score"):
        assert last[name] < first[name], name


def test_a_mirrored_set_costs_the_same() -> None:
    """A network with symmetric kernels can't tell an image from the original: planes and targets moved together."""
    weights = random_weights(ARCHITECTURE, 0)
    for name, array in weights.items():
        if array.ndim == 4:
            both = (array, array[:, :, :, ::-1])
            images = [np.rot90(kernel, turns, (2, 3)) for kernel in both for turns in range(4)]
            weights[name] = np.ascontiguousarray(np.mean(images, axis=0, dtype=np.float32))
    subject = Trainer(ARCHITECTURE, weights, FLOAT32)
    wanted = subject.evaluate([examples(50)])
    for symmetry in range(1, 8):
        found = subject.evaluate([examples(50, symmetry=symmetry)])
        for name in TERMS:
            assert found[name] == pytest.approx(wanted[name], abs=1e-4), (symmetry, name)
    moved = examples(50)._replace(policy=examples(50, symmetry=1).policy)
    assert subject.evaluate([moved])["policy"] != pytest.approx(wanted["policy"], abs=1e-4)


def test_bfloat16_costs_about_the_same_as_float32() -> None:
    batch = examples(64)
    first, second = trainer().step(batch).metrics, trainer(precision="bfloat16").step(batch).metrics
    for name in ("policy", "value", "ownership", "score"):
        assert second[name] == pytest.approx(first[name], rel=0.02)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_trainer_made_from_another_s_state_goes_on_equally(precision: str) -> None:
    config = FLOAT32.model_copy(update={"precision": precision, "warmup_steps": 6})
    whole = trainer(config)
    for seed in range(4):
        whole.step(examples(32, seed))
    again = Trainer(ARCHITECTURE, whole.weights, config, whole.optimizer_state)
    for seed in range(4, 8):
        first, second = whole.step(examples(32, seed)), again.step(examples(32, seed))
        assert first == second
    for one, other in ((whole.weights, again.weights), (whole.optimizer_state, again.optimizer_state)):
        assert all(np.array_equal(one[name], other[name]) for name in one)
    assert again.total_steps == 8


def test_an_optimiser_that_does_not_fit_is_refused() -> None:
    state = trainer().optimizer_state
    name = "exp_avg.stem.conv.weight"
    for damaged in ({**state, name: state[name][:1]}, {key: state[key] for key in state if key != name}, {}):
        with pytest.raises(MuGoError, match=r"optimiser state: (exp_avg\.stem\.conv\.weight|step)"):
            Trainer(ARCHITECTURE, random_weights(ARCHITECTURE, 0), FLOAT32, damaged)


def test_the_rate_warms_up_once() -> None:
    subject = trainer(warmup_steps=4, learning_rate=0.01)
    rates = [subject.step(examples(8)).learning_rate for _ in range(6)]
    assert rates == pytest.approx([0.0025, 0.005, 0.0075, 0.01, 0.01, 0.01])
    config = FLOAT32.model_copy(update={"warmup_steps": 4})
    again = Trainer(ARCHITECTURE, subject.weights, config, subject.optimizer_state)
    assert again.step(examples(8)).learning_rate == 0.002


def test_weight_decay_spares_biases_and_norms() -> None:
    """With a gradient of 0, only what decays changes."""
    batch = examples(16)._replace(policy_weight=torch.zeros(16), final_weight=torch.zeros(16))
    subject = trainer(weight_decay=0.5, learning_rate=0.1, value_weight=0.0)
    before = subject.weights
    subject.step(batch)
    after = subject.weights
    for name, array in before.items():
        if "running" in name:
            continue
        factor = 0.95 if array.ndim > 1 else 1.0
        np.testing.assert_allclose(after[name], factor * array, rtol=1e-5, err_msg=name)


def test_gradients_are_clipped() -> None:
    batch = examples(16)._replace(value=torch.full((16,), 1e4))
    steps = [trainer(gradient_clip=clip, learning_rate=0.1).step(batch).gradient_norm for clip in (1e-3, 5.0)]
    assert steps[0] == steps[1] > 1e3  # what is reported is the norm before clipping
    small, large = trainer(gradient_clip=1e-9), trainer(gradient_clip=1e9)
    for subject in (small, large):
        subject.step(batch)
    # Adam divides by the gradient's own size, unless clipping made that tiny beside its epsilon
    changed = [
        np.abs(subject.weights["stem.conv.weight"] - random_weights(ARCHITECTURE, 0)["stem.conv.weight"]).max()
        for subject in (small, large)
    ]
    assert changed[0] < 0.1 * changed[1]


def test_a_loss_that_is_not_finite_stops_before_any_weight_changes() -> None:
    subject = trainer()
    before = subject.weights
    with pytest.raises(NotFinite, match=r"training step 1: the loss is not finite .*value nan.*--learning-rate"):
        subject.step(examples(8)._replace(value=torch.full((8,), torch.nan)))
    after = subject.weights
    assert all(np.array_equal(before[name], after[name]) for name in before if "running" not in name)


def test_evaluating_weighs_batches_by_the_rows_that_count() -> None:
    subject = trainer()
    whole = examples(30)
    parts = [Batch(*(part[rows] for part in whole)) for rows in (slice(0, 4), slice(4, 5), slice(5, 30))]
    one, many = subject.evaluate([whole]), subject.evaluate(parts)
    for name in METRICS:
        assert many[name] == pytest.approx(one[name], abs=1e-5), name
    assert subject.evaluate([]) == {}


def test_mean_metrics_and_speed() -> None:
    subject = trainer()
    results = [subject.step(examples(8, seed)) for seed in range(2)]
    assert mean_metrics(results)["total"] == pytest.approx(np.mean([result.metrics["total"] for result in results]))
    assert mean_metrics([]) == {}
    assert samples_per_second(subject, [examples(8)] * 3, 0.0) > 0
