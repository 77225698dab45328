"""The loss: its gradient by hand, KL and entropy by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

pytest.importorskip("transformers", reason="language models need the extra text")

from pipeline.config import TrainConfig
from pipeline.errors import MuGoError
from pipeline.methods.reinforce.losses import Batch, ReinforceObjective
from pipeline.networks.language.network import Said

TWO = torch.tensor([0.3, -0.2])  # the logits of a toy that says one of two tokens, whatever stood before


def toy(logits: torch.Tensor, base: torch.Tensor, tokens: list[list[int]]) -> Said:
    """What such a toy says of answers of these tokens, each at the same distribution."""
    log_all, log_base = torch.log_softmax(logits, 0), torch.log_softmax(base, 0)
    chance = log_all.exp()
    length = max(map(len, tokens))
    there = torch.tensor([[float(i < len(row)) for i in range(length)] for row in tokens])
    spoken = torch.tensor([row + [0] * (length - len(row)) for row in tokens])
    kl, entropy = (chance * (log_all - log_base)).sum(), -(chance * log_all).sum()
    return Said(log_all[spoken] * there, entropy * there, kl * there, torch.zeros(len(tokens)))


def batch_of(advantages: list[float], lengths: list[int], **changed: torch.Tensor) -> Batch:
    size = len(advantages)
    inputs = torch.zeros(size, 2, max(lengths), dtype=torch.int64)
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
