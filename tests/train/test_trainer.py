"""A trainer learns, measures correctly, and can be made again from its state."""

import numpy as np
import pytest
import torch

from pipeline.errors import MuGoError
from pipeline.games.specs import parse_game
from pipeline.methods.alphazero.losses import METRICS, TERMS, AlphaZeroObjective
from pipeline.methods.alphazero.training_batch import Batch, make_batch
from pipeline.networks.architecture import Architecture, random_weights
from pipeline.networks.modules import Outputs, load_network, network_weights
from pipeline.train.config import TrainConfig
from pipeline.train.trainer import NotFinite, Trainer, samples_per_second, with_own_counts, without_moments
from tests.train.chunk_sets import made_up_examples

GAME = parse_game("tictactoe")
ARCHITECTURE = Architecture.for_game("b2c16", GAME)
FLOAT32 = TrainConfig(precision="float32", warmup_steps=0)
EVERY_TERM = FLOAT32.model_copy(update={"reply_weight": 0.5, "soft_policy_weight": 0.5})


def trainer_of(architecture, weights, config, optimizer=None) -> Trainer:
    return Trainer(AlphaZeroObjective(architecture, config), weights, config, optimizer)


def examples(count: int, seed: int = 0, symmetry: int = 0) -> Batch:
    columns = made_up_examples(GAME, count, seed)
    return make_batch(GAME, columns, np.arange(count), np.full(count, symmetry))


def trainer(config: TrainConfig = FLOAT32, **changes: object) -> Trainer:
    return trainer_of(ARCHITECTURE, random_weights(ARCHITECTURE, 0), config.model_copy(update=changes))


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
    subject = trainer_of(
        architecture, random_weights(architecture, 0), FLOAT32.model_copy(update={"learning_rate": 0.01})
    )
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
    subject = trainer_of(ARCHITECTURE, weights, EVERY_TERM)
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


@pytest.mark.parametrize("ema_decay", [0.0, 0.5])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_trainer_made_from_another_s_state_continues_equally(precision: str, ema_decay: float) -> None:
    config = FLOAT32.model_copy(update={"precision": precision, "warmup_steps": 6, "ema_decay": ema_decay})
    whole = trainer(config)
    for seed in range(4):
        whole.step(examples(32, seed))
    again = trainer_of(ARCHITECTURE, whole.weights, config, whole.optimizer_state)
    for seed in range(4, 8):
        first, second = whole.step(examples(32, seed)), again.step(examples(32, seed))
        assert first == second
        assert np.array_equal(first.value_errors, second.value_errors)
    for one, other in ((whole.weights, again.weights), (whole.optimizer_state, again.optimizer_state)):
        assert all(np.array_equal(one[name], other[name]) for name in one)
    assert again.total_steps == 8


def test_an_optimiser_that_does_not_fit_is_refused() -> None:
    state = trainer().optimizer_state
    name = "exp_avg.stem.conv.weight"
    for damaged in (
        {**state, name: state[name][:1]},
        {**state, name: state[name].astype(np.complex64)},
        {key: state[key] for key in state if key != name},
        {**state, "step": np.array([np.inf])},
        {**state, "step": np.array([-1])},
        {**state, "step": np.array([2**62])},
        {},
    ):
        with pytest.raises(MuGoError, match=r"optimiser state: (exp_avg\.stem\.conv\.weight|step)"):
            trainer_of(ARCHITECTURE, random_weights(ARCHITECTURE, 0), FLOAT32, damaged)


def test_the_rate_warms_up_once() -> None:
    subject = trainer(warmup_steps=4, learning_rate=0.01)
    rates = [subject.step(examples(8)).learning_rate for _ in range(6)]
    assert rates == pytest.approx([0.0025, 0.005, 0.0075, 0.01, 0.01, 0.01])
    config = FLOAT32.model_copy(update={"warmup_steps": 4})
    again = trainer_of(ARCHITECTURE, subject.weights, config, subject.optimizer_state)
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


@pytest.mark.parametrize("optimizer", ["adam", "muon"])
def test_moments_of_a_unit_that_no_gradient_reaches_end_at_0(optimizer: str) -> None:
    """And not below 1e-38, where processors take a hundred times as long for a number."""
    weights = random_weights(ARCHITECTURE, 0)
    weights["value_hidden.bias"][3] = -1e4
    weights["blocks.0.first.norm.weight"][5] = 0
    weights["blocks.0.first.norm.bias"][5] = -1e4
    dead = {"value_hidden.weight": 3, "value_hidden.bias": 3, "blocks.0.first.conv.weight": 5}
    batch, config = examples(128), FLOAT32.model_copy(update={"optimizer": optimizer})
    first = trainer_of(ARCHITECTURE, weights, config)
    first.step(batch)
    state = first.optimizer_state
    for name, unit in dead.items():
        assert not state[f"exp_avg.{name}"][unit].any()
        state[f"exp_avg.{name}"][unit] = 1e-38
    subject = trainer_of(ARCHITECTURE, first.weights, config, state)
    for _ in range(2):
        subject.step(batch)
    for name, unit in dead.items():
        assert not subject.optimizer_state[f"exp_avg.{name}"][unit].any(), name
    assert np.float32(1e-39) * np.float32(0.5) != 0  # nothing else is changed in this thread


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


def test_what_is_measured_does_not_depend_on_what_sample_weights_add_up_to() -> None:
    """Prioritised replay's are 1 at most; the gradient is smaller with them."""
    batch = examples(48)
    weighted = batch._replace(sample_weight=torch.full_like(batch.sample_weight, 0.25))
    plain, found = trainer().step(batch), trainer().step(weighted)
    assert found.metrics == pytest.approx(plain.metrics, rel=1e-5)
    assert found.gradient_norm == pytest.approx(plain.gradient_norm / 4, rel=1e-4)


def test_evaluating_weighs_batches_by_the_rows_that_count() -> None:
    subject = trainer(EVERY_TERM)
    whole = examples(30)
    parts = [Batch(*(part[rows] for part in whole)) for rows in (slice(0, 4), slice(4, 5), slice(5, 30))]
    one, many = subject.evaluate([whole]), subject.evaluate(parts)
    for name in METRICS:
        assert many[name] == pytest.approx(one[name], abs=1e-5), name
    assert subject.evaluate([]) == {}


def test_speed() -> None:
    assert samples_per_second(trainer(), [examples(8)] * 3, 0.0) > 0


@pytest.mark.parametrize("value_head", ["scalar", "wdl"])
def test_errors_of_the_value_are_those_before_the_update(value_head: str) -> None:
    architecture = Architecture.for_game("b1c8", GAME, value_head)
    weights = random_weights(architecture, 3)
    batch = examples(20, 4)
    network = load_network(architecture, weights).train()
    wanted = (network(batch.planes).value - batch.value).abs().detach().numpy()
    result = trainer_of(architecture, weights, FLOAT32).step(batch)
    np.testing.assert_allclose(result.value_errors, wanted, atol=1e-6)
    assert result.num_samples == 20
    assert result.metrics["value_mse"] == pytest.approx(float((wanted**2).mean()), rel=1e-5)


class TestReplicas:
    """Two replicas on any machine."""

    @pytest.fixture(autouse=True)
    def two(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("pipeline.train.trainer.available_cores", lambda: 2)

    def test_a_step_is_that_of_one_network_on_two_halves(self) -> None:
        """The plain twin: one network sees half after half; one loss over both, one gradient, torch's own optimiser."""
        weights, batch = random_weights(ARCHITECTURE, 0), examples(131)
        subject = trainer(weight_decay=0.0, gradient_clip=1e9)
        plain = load_network(ARCHITECTURE, weights).train()
        optimizer = torch.optim.AdamW(plain.parameters(), lr=FLOAT32.learning_rate, weight_decay=0.0)
        for _ in range(3):
            statistics: list[list[torch.Tensor]] = []
            before = [buffer.clone() for buffer in plain.buffers()]
            halves = []
            for planes in (batch.planes[:66], batch.planes[66:]):
                for buffer, old in zip(plain.buffers(), before, strict=True):
                    buffer.data = old.clone()
                halves.append(plain(planes))
                statistics.append([buffer.clone() for buffer in plain.buffers()])
            for buffer, *both in zip(plain.buffers(), *statistics, strict=True):
                buffer.data = torch.stack(both).float().mean(0).to(buffer.dtype)
            outputs = Outputs(*map(torch.cat, zip(*halves, strict=True)))
            terms = AlphaZeroObjective(ARCHITECTURE, FLOAT32).losses(outputs, batch)
            optimizer.zero_grad()
            terms["total"].backward()
            result = subject.step(batch)
            assert result.metrics["total"] == pytest.approx(terms["total"].item(), rel=1e-5)
            norm = torch.nn.utils.get_total_norm(p.grad for p in plain.parameters() if p.grad is not None)
            assert result.gradient_norm == pytest.approx(norm.item(), rel=1e-4)
            optimizer.step()
            for name, array in network_weights(plain).items():
                if name.endswith("_points.bias"):
                    continue  # equal for all moves: only rounding gives it a gradient, of which Adam makes a full step
                np.testing.assert_allclose(subject.weights[name], array, rtol=1e-3, atol=2e-5, err_msg=name)

    def test_few_rows_are_not_divided(self) -> None:
        batch = examples(127)
        alone = trainer(batch_size=64).step(batch)  # of a batch of 64 there is but one replica
        np.testing.assert_allclose(trainer().step(batch).value_errors, alone.value_errors, atol=1e-5)
        divided = trainer().step(examples(128)), trainer(batch_size=64).step(examples(128))
        assert np.abs(divided[0].value_errors - divided[1].value_errors).max() > 1e-3  # norms saw other rows

    @pytest.mark.parametrize("optimizer", ["adam", "muon"])
    @pytest.mark.parametrize("ema_decay", [0.0, 0.5])
    def test_a_trainer_made_from_another_s_state_continues_equally(self, ema_decay: float, optimizer: str) -> None:
        config = FLOAT32.model_copy(update={"ema_decay": ema_decay, "optimizer": optimizer})
        whole = trainer(config)
        for seed, rows in enumerate((128, 129, 20)):
            whole.step(examples(rows, seed))
        again = trainer_of(ARCHITECTURE, whole.weights, config, whole.optimizer_state)
        for seed, rows in enumerate((128, 20, 129)):
            first, second = whole.step(examples(rows, seed)), again.step(examples(rows, seed))
            assert first == second and np.array_equal(first.value_errors, second.value_errors)
        for one, other in ((whole.weights, again.weights), (whole.optimizer_state, again.optimizer_state)):
            assert list(one) == list(other) and all(np.array_equal(one[name], other[name]) for name in one)


class TestHeadsThatAreSwitchedOn:
    """Adam corrects the bias of moments by the number of updates: a head's own, not the optimiser's."""

    def trained_without(self, steps: int) -> Trainer:
        subject = trainer(soft_policy_weight=0.0, ownership_weight=0.0, learning_rate=0.01, weight_decay=0.0)
        for seed in range(steps):
            subject.step(examples(16, seed))
        return subject

    @pytest.mark.parametrize("head", ["soft_policy", "ownership"])
    def test_the_first_step_is_no_longer_than_the_rate(self, head: str) -> None:
        before = self.trained_without(20)
        config = FLOAT32.model_copy(update={f"{head}_weight": 1.0, "learning_rate": 0.01, "weight_decay": 0.0})
        after = trainer_of(ARCHITECTURE, before.weights, config, with_own_counts(before.optimizer_state))
        after.step(examples(16, 99))
        moved = [
            np.abs(array - before.weights[name]).max()
            for name, array in after.weights.items()
            if name.startswith(head) and "running" not in name
        ]
        assert moved and 0.005 < max(moved) < 0.0101

    def test_the_count_is_kept(self) -> None:
        before = self.trained_without(7)
        config = FLOAT32.model_copy(update={"soft_policy_weight": 1.0})
        whole = trainer_of(ARCHITECTURE, before.weights, config, with_own_counts(before.optimizer_state))
        for seed in range(2):
            whole.step(examples(16, seed))
        state = whole.optimizer_state
        own = {name: array.tolist() for name, array in state.items() if name.startswith("updates.soft_policy")}
        assert own and all(count == [2] for count in own.values()) and state["step"].tolist() == [9]
        again = trainer_of(ARCHITECTURE, whole.weights, config, state)
        whole.step(examples(16, 5)), again.step(examples(16, 5))
        for name, array in whole.weights.items():
            np.testing.assert_array_equal(array, again.weights[name])


class TestMuon:
    def test_moves_what_is_within_blocks_and_adam_the_rest(self) -> None:
        batch = examples(32)
        adam, muon = trainer(), trainer(optimizer="muon")
        adam.step(batch), muon.step(batch)
        for name, array in adam.weights.items():
            within = name.startswith("blocks.") and array.ndim > 1
            assert np.array_equal(array, muon.weights[name]) != within, name
            squares = [f"exp_avg_sq.{name}" in subject.optimizer_state for subject in (adam, muon)]
            assert squares == ["running" not in name, "running" not in name and not within]

    def test_learns(self) -> None:
        batch, subject = examples(64), trainer(optimizer="muon")
        first = subject.step(batch).metrics["total"]
        for _ in range(60):
            last = subject.step(batch).metrics["total"]
        assert last < 0.8 * first

    def test_adam_does_not_continue_from_its_state(self) -> None:
        subject = trainer(optimizer="muon")
        subject.step(examples(32))
        with pytest.raises(MuGoError, match=r"exp_avg_sq\.blocks\.0\.first\.conv\.weight is missing"):
            trainer_of(ARCHITECTURE, subject.weights, FLOAT32, subject.optimizer_state)

    def test_without_its_moments_adam_starts_as_if_anew(self) -> None:
        subject = trainer(optimizer="muon")
        subject.step(examples(32))
        state = without_moments(subject.optimizer_state)
        anew, again = (trainer_of(ARCHITECTURE, subject.weights, FLOAT32, one) for one in (None, state))
        for seed in range(2):
            assert anew.step(examples(32, seed)) == again.step(examples(32, seed))
        assert all(np.array_equal(array, again.weights[name]) for name, array in anew.weights.items())


class TestAverage:
    """ema_decay: what is given is the average, what is trained are the raw weights."""

    def test_is_the_formula_s(self) -> None:
        """Against the formula, number by number; d_t = 2/11, 3/12, 4/13 and then the 0.3 that was asked for."""
        raw, averaged = trainer(), trainer(ema_decay=0.3)
        wanted = {name: array.astype(np.float64) for name, array in raw.weights.items()}
        for seed, decay in enumerate((2 / 11, 3 / 12, 0.3, 0.3, 0.3)):
            raw.step(examples(16, seed))
            averaged.step(examples(16, seed))
            now = raw.weights
            wanted = {name: decay * wanted[name] + (1 - decay) * now[name] for name in wanted}
        found, state = averaged.weights, averaged.optimizer_state
        for name, array in raw.weights.items():
            np.testing.assert_allclose(found[name], wanted[name], rtol=1e-5, atol=1e-6, err_msg=name)
            assert np.array_equal(state[f"raw.{name}"], array), f"{name}: training itself changed"
        assert state["averaged_steps"].tolist() == [5]
        assert not np.allclose(found["stem.conv.weight"], raw.weights["stem.conv.weight"], atol=1e-5)
        assert any("running_mean" in name for name in wanted)

    def test_agrees_with_torch_after_the_warm_up(self) -> None:
        """AveragedModel with buffers, the same decay, from a state that is past its warm-up."""
        subject = trainer(ema_decay=0.9)
        late = {**subject.optimizer_state, "averaged_steps": np.array([10_000])}
        subject = trainer_of(ARCHITECTURE, subject.weights, FLOAT32.model_copy(update={"ema_decay": 0.9}), late)
        model = torch.optim.swa_utils.AveragedModel(
            subject._network, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9), use_buffers=True
        )
        model.n_averaged += 1  # its first update would copy
        for seed in range(6):
            subject.step(examples(16, seed))
            model.update_parameters(subject._network)
        for name, array in network_weights(model.module).items():
            np.testing.assert_allclose(subject.weights[name], array, rtol=1e-5, atol=1e-6, err_msg=name)

    def test_is_what_is_measured(self) -> None:
        subject = trainer(ema_decay=0.99, learning_rate=0.01)
        for seed in range(5):
            subject.step(examples(32, seed))
        alone = trainer_of(ARCHITECTURE, subject.weights, FLOAT32)
        batch = examples(40, 9)
        assert subject.evaluate([batch]) == alone.evaluate([batch])
        raw = {name: subject.optimizer_state[f"raw.{name}"] for name in subject.weights}
        assert subject.evaluate([batch]) != trainer_of(ARCHITECTURE, raw, FLOAT32).evaluate([batch])

    def test_is_steadier_than_the_raw_weights(self) -> None:
        """With a rate that makes the raw weights jump about, the average is nearer to what is learned."""
        columns = made_up_examples(GAME, 256, 1)
        generator = np.random.default_rng(1)
        subject = trainer(ema_decay=0.95, learning_rate=0.02)
        for _ in range(150):
            rows = generator.integers(0, 256, 24)
            subject.step(make_batch(GAME, columns, rows, np.zeros(24)))
        raw = {name: subject.optimizer_state[f"raw.{name}"] for name in subject.weights}
        whole = [make_batch(GAME, columns, np.arange(256), np.zeros(256))]
        assert subject.evaluate(whole)["total"] < trainer_of(ARCHITECTURE, raw, FLOAT32).evaluate(whole)["total"]

    def test_a_run_without_it_continues_from_the_raw_weights(self) -> None:
        first = trainer(ema_decay=0.9)
        for seed in range(3):
            first.step(examples(16, seed))
        state = first.optimizer_state
        second = trainer_of(ARCHITECTURE, first.weights, FLOAT32, state)
        assert all(np.array_equal(array, state[f"raw.{name}"]) for name, array in second.weights.items())
        assert not any(name.startswith(("raw.", "averaged")) for name in second.optimizer_state)

    def test_a_run_that_turns_it_on_starts_an_average(self) -> None:
        first = trainer()
        first.step(examples(16))
        config = FLOAT32.model_copy(update={"ema_decay": 0.9})
        second = trainer_of(ARCHITECTURE, first.weights, config, first.optimizer_state)
        second.step(examples(16, 1))
        assert second.optimizer_state["averaged_steps"].tolist() == [1]
        assert second.total_steps == 2

    def test_raw_weights_that_are_missing_are_refused(self) -> None:
        state = trainer(ema_decay=0.9).optimizer_state
        del state["raw.stem.conv.weight"]
        with pytest.raises(MuGoError, match=r"optimiser state: raw\.stem\.conv\.weight is missing"):
            trainer_of(ARCHITECTURE, random_weights(ARCHITECTURE, 0), FLOAT32, state)
