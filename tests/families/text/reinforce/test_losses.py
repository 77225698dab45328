"""The loss: its gradient by hand, KL and entropy by hand; and what is measured of a network in a trainer."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("transformers", reason="language models need the extra text")

from pipeline.errors import MuGoError
from pipeline.families.text.language.adapters import LoraShape, new_adapter
from pipeline.families.text.language.base_model import tiny_model
from pipeline.families.text.language.network import AdapterNetwork, TokenOutputs
from pipeline.families.text.language.players import load_base, write_base
from pipeline.families.text.reinforce.losses import Batch, ReinforceObjective
from pipeline.methods.method import Weights
from pipeline.train.config import TrainConfig
from pipeline.train.trainer import Trainer

TWO = torch.tensor([0.3, -0.2])  # the logits of a toy that says one of two tokens, whatever stood before


def toy(
    logits: torch.Tensor, base: torch.Tensor, tokens: list[list[int]], start: torch.Tensor = TWO
) -> TokenOutputs:
    """What such a toy says of answers of these tokens, each at the same distribution; start: logits before training."""
    log_all, log_base = torch.log_softmax(logits, 0), torch.log_softmax(base, 0)
    chance = log_all.exp()
    length = max(map(len, tokens))
    there = torch.tensor([[float(i < len(row)) for i in range(length)] for row in tokens])
    spoken = torch.tensor([row + [0] * (length - len(row)) for row in tokens])
    kl, entropy = (chance * (log_all - log_base)).sum(), -(chance * log_all).sum()
    said = log_all[spoken] * there, torch.log_softmax(start, 0)[spoken] * there
    return TokenOutputs(*said, entropy * there, kl * there, torch.zeros(len(tokens)))


def batch_of(advantages: list[float], lengths: list[int], **changed: torch.Tensor) -> Batch:
    size = len(advantages)
    inputs = torch.zeros(size, 2, max(lengths), dtype=torch.int64)
    inputs[:, 1] = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    nan, ones = torch.full((size,), torch.nan), torch.ones(size)
    found = Batch(inputs, torch.tensor(advantages), nan, torch.zeros(size), torch.ones(size, dtype=torch.int64), ones)
    return found._replace(**changed)


def objective(has_critic: bool = False, **config: float) -> ReinforceObjective:
    return ReinforceObjective(None, TrainConfig(**config), has_critic)


def test_the_gradient_of_two_tokens_equals_the_one_by_hand() -> None:
    """−a·Σ log π has the gradient −a·Σ (one-hot − π) by the logits; the mean is over the batch's two answers."""
    logits = TWO.clone().requires_grad_()
    tokens, advantages = [[0], [1, 1]], [2.0, -0.5]
    terms = objective().losses(toy(logits, TWO, tokens), batch_of(advantages, [1, 2]))
    terms["total"].backward()
    chance = np.exp([0.3, -0.2]) / np.exp([0.3, -0.2]).sum()
    by_hand = -(2.0 * (np.array([1, 0]) - chance) - 0.5 * 2 * (np.array([0, 1]) - chance)) / 2
    assert logits.grad is not None and logits.grad.numpy() == pytest.approx(by_hand, abs=1e-6)
    assert terms["policy"].item() == pytest.approx(
        -(2.0 * np.log(chance[0]) - 0.5 * 2 * np.log(chance[1])) / 2, abs=1e-6
    )


def test_kl_and_entropy_by_hand_and_their_weights() -> None:
    base = torch.tensor([0.0, 1.0])
    said = toy(TWO, base, [[0], [1, 0]])
    p, q = (np.exp(x) / np.exp(x).sum() for x in ([0.3, -0.2], [0.0, 1.0]))
    terms = objective(kl_weight=0.5, entropy_weight=0.1).losses(said, batch_of([0.0, 0.0], [1, 2]))
    assert terms["kl"].item() == pytest.approx(1.5 * (p * np.log(p / q)).sum(), abs=1e-6)
    assert terms["entropy"].item() == pytest.approx(-1.5 * (p * np.log(p)).sum(), abs=1e-6)
    assert terms["total"].item() == pytest.approx(0.5 * terms["kl"].item() - 0.1 * terms["entropy"].item(), abs=1e-6)


def test_a_fixed_number_divides_the_sums_over_tokens_whatever_their_lengths() -> None:
    said, batch = toy(TWO, torch.tensor([0.0, 1.0]), [[0], [1, 0]]), batch_of([2.0, -0.5], [1, 2])
    plain = objective(kl_weight=0.5, entropy_weight=0.1).losses(said, batch)
    divided = objective(kl_weight=0.5, entropy_weight=0.1, token_denominator=8.0).losses(said, batch)
    assert set(plain) == {"policy", "kl", "entropy", "total"}
    assert all(abs(term.item()) > 0.01 for term in plain.values())
    assert divided["total"].item() == pytest.approx(plain["total"].item() / 8)
    assert all(divided[name] == plain[name] for name in ("policy", "kl", "entropy")), "as they are reported"


def test_the_value_loss_has_no_tokens_to_divide() -> None:
    batch = batch_of([1.0], [1], target=torch.tensor([2.0]))
    terms = objective(has_critic=True, token_denominator=8.0).losses(toy(TWO, TWO, [[0]]), batch)
    assert terms["value"].item() == pytest.approx(2.0)


def test_clipped_ratios_equal_those_by_hand() -> None:
    """Token 0 had the probability 1/2 before training and now has 0.6225: r = 1.245, and 0.755 of token 1."""
    tokens, advantages = [[0], [0], [1], [1], [0, 1]], [2.0, -2.0, 2.0, -2.0, 1.0]
    logits, start = torch.tensor([0.5, 0.0], requires_grad=True), torch.tensor([0.0, 0.0])
    batch = batch_of(advantages, [1, 1, 1, 1, 2])
    said, clipping = toy(logits, TWO, tokens, start), objective(ratio_clip=0.2)
    more, less = 2 / (1 + np.exp(-0.5)), 2 / (1 + np.exp(0.5))
    terms = clipping.losses(said, batch)
    gains = [2 * 1.2, -2 * more, 2 * less, -2 * 0.8, 1.2 + less]
    assert terms["policy"].item() == pytest.approx(-sum(gains) / 5, abs=1e-6)
    assert clipping.accuracies(said, batch)["clipped_share"].item() == pytest.approx(3 / 6)
    terms["policy"].backward()
    p, q = more / 2, less / 2  # d r / d logits = r·(one-hot − π), of the tokens that aren't clipped
    by_hand = -(-2 * more * np.array([q, -q]) + (2 + 1) * less * np.array([-p, p])) / 5
    assert logits.grad is not None and logits.grad.numpy() == pytest.approx(by_hand, abs=1e-6)


def test_a_token_that_became_likelier_does_not_outweigh_the_batch() -> None:
    """Probability 0.01 before, 0.9 now: r = 90, of which a negative advantage counts 3, without a gradient."""
    logits, start = torch.tensor([math.log(9), 0.0], requires_grad=True), torch.tensor([-math.log(99), 0.0])
    clipping = objective(ratio_clip=0.2)
    said, batch = toy(logits, TWO, [[0], [0]], start), batch_of([-1.0, -1e-30], [1, 1])
    terms = clipping.losses(said, batch)
    assert terms["policy"].item() == pytest.approx(3 / 2)
    terms["policy"].backward()
    assert logits.grad is not None and logits.grad.abs().max() < 1e-6
    assert clipping.accuracies(said, batch)["clipped_share"].item() == 1


def test_before_the_first_step_clipping_changes_no_gradient() -> None:
    gradients = []
    for clip in (0.0, 0.2):
        logits = TWO.clone().requires_grad_()
        batch = batch_of([2.0, -0.5], [1, 2])
        objective(ratio_clip=clip).losses(toy(logits, TWO, [[0], [1, 1]]), batch)["total"].backward()
        assert logits.grad is not None
        gradients.append(logits.grad.numpy())
    assert np.abs(gradients[0]).max() > 0.1 and gradients[1] == pytest.approx(gradients[0], abs=1e-6)


def test_ratios_compare_with_the_adapter_that_training_started_from(tmp_path: Path) -> None:
    """Also if the network is made with other weights, such as those of a checkpoint."""
    write_base(tmp_path / "base", tiny_model(1, 32, 16, 1))
    shape = LoraShape(4, 8.0, ["q_proj", "v_proj"])
    start = {name: array + 0.3 for name, array in new_adapter(load_base(tmp_path / "base").model, shape, 1).items()}
    later = {name: array * 1.5 for name, array in start.items()}

    def make(weights: Weights, started: Weights | None) -> AdapterNetwork:
        return AdapterNetwork(load_base(tmp_path / "base"), shape, weights, start=started)

    inputs = torch.full((1, 2, 4), 60)
    inputs[:, 1] = torch.tensor([0, 0, 1, 1])
    before = make(start, None)(inputs)
    assert before.start_logprob.count_nonzero() == 0
    clipping = ReinforceObjective(make, TrainConfig(ratio_clip=0.2), False)
    clipping.start_from(start)
    said = clipping.network(later)(inputs)
    assert torch.equal(said.start_logprob, before.logprob) and not torch.allclose(said.logprob, before.logprob)
    assert {name for name, one in clipping.network(later).named_parameters() if one.requires_grad} == {
        f"adapter.{name.replace('.', '/')}" for name in start
    }
    assert sorted(clipping.weights(clipping.network(later))) == sorted(later)


def test_rows_count_their_weight_and_a_critic_learns_its_target() -> None:
    said = toy(TWO, TWO, [[0], [1]])._replace(value=torch.tensor([0.5, -1.0]))
    weights, targets = torch.tensor([1.0, 0.0]), torch.tensor([1.0, 7.0])
    batch = batch_of([1.0, 5.0], [1, 1], sample_weight=weights, target=targets)
    critic = objective(has_critic=True, value_weight=2.0)
    terms = critic.losses(said, batch)
    assert terms["value"].item() == pytest.approx(0.25 / 2 / 2)
    assert terms["policy"].item() == pytest.approx(-said.logprob[0, 0].item() / 2)
    assert terms["total"].item() == pytest.approx(terms["policy"].item() + 2 * terms["value"].item())
    assert critic.errors(said, batch).tolist() == [0.5, 8.0]


def test_a_critic_needs_targets() -> None:
    objective().check(batch_of([1.0], [1]))
    with pytest.raises(MuGoError, match="recorded without a critic; wanted games of a model of method a2c"):
        objective(has_critic=True).check(batch_of([1.0], [1]))


def test_batches_are_measured_one_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many replicas are trained: the network that is measured takes its adapter off and puts it on again."""
    monkeypatch.setattr("pipeline.train.trainer.available_cores", lambda: 2)
    write_base(tmp_path / "base", tiny_model(1, 32, 16, 1))
    shape = LoraShape(4, 8.0, ["q_proj", "v_proj"])
    weights = {name: array + 0.3 for name, array in new_adapter(load_base(tmp_path / "base").model, shape, 1).items()}
    config = TrainConfig(batch_size=128)
    network = lambda given, start: AdapterNetwork(load_base(tmp_path / "base"), shape, given)  # noqa: E731
    make = ReinforceObjective(network, config, False)
    trainer = Trainer(make, weights, config)
    assert len(trainer._replicas) == 2
    logits = AdapterNetwork._logits

    def slowly(self: AdapterNetwork, *given: Any) -> Any:
        time.sleep(0.02)
        return logits(self, *given)

    monkeypatch.setattr(AdapterNetwork, "_logits", slowly)
    batches = []
    for token in range(6):
        inputs = torch.full((2, 2, 4), 60 + token)
        inputs[:, 1] = torch.tensor([0, 0, 1, 1])
        batches.append(batch_of([1.0, 2.0], [4, 4], inputs=inputs))
    alone = [trainer.evaluate([batch])["kl"] for batch in batches]
    assert min(alone) > 0.001 and trainer.evaluate(batches)["kl"] == pytest.approx(np.mean(alone), rel=1e-4)
