"""Each loss against numbers worked out by hand."""

import math

import pytest
import torch

from pipeline.learning.losses import TERMS, Batch, LossWeights, accuracies, losses
from pipeline.networks.modules import Outputs

WEIGHTS = LossWeights(value=1.0, ownership=0.3, score=0.05)


def batch(**changes: object) -> Batch:
    """Two examples, three actions, two points."""
    values = {
        "planes": torch.zeros(2, 1, 1, 2, dtype=torch.uint8),
        "policy": torch.tensor([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]),
        "policy_weight": torch.ones(2),
        "value": torch.tensor([1.0, -1.0]),
        "ownership": torch.tensor([[1.0, -1.0], [0.0, 0.0]]),
        "score": torch.tensor([3.0, -6.0]),
        "final_weight": torch.ones(2),
        "reply": torch.tensor([[0.25, 0.75, 0.0], [0.0, 1.0, 0.0]]),
        "reply_weight": torch.ones(2),
        "sample_weight": torch.ones(2),
    }
    return Batch(**{**values, **changes})


def outputs(**changes: object) -> Outputs:
    values = {
        "policy_logits": torch.log(torch.tensor([[0.5, 0.25, 0.25], [0.25, 0.25, 0.5]])),
        "value": torch.tensor([0.5, 0.0]),
        "ownership_logits": torch.zeros(2, 2),
        "score": torch.tensor([0.5, 0.0]),
        "reply_logits": torch.log(torch.tensor([[0.25, 0.5, 0.25], [0.25, 0.5, 0.25]])),
        "soft_policy_logits": torch.zeros(2, 3),
        "value_logits": torch.atanh(torch.tensor([[0.5], [0.0]])),
    }
    return Outputs(**{**values, **changes})


def terms(given: Outputs, wanted: Batch, score_scale: float = 3.0) -> dict[str, float]:
    found = losses(given, wanted, WEIGHTS, score_scale)
    assert tuple(found) == TERMS
    return {name: tensor.item() for name, tensor in found.items()}


def test_by_hand() -> None:
    found = terms(outputs(), batch())
    policy = (0.5 * math.log(2) + 0.5 * math.log(4) + math.log(2)) / 2
    value = (0.5**2 + 1.0**2) / 2
    ownership = math.log(2)  # logit 0 says one half, whoever owns the point
    # in units of 3 points: wanted 1 and -2, said 0.5 and 0; Huber: 0.5²/2 and 2 − 1/2
    score = (0.125 + 1.5) / 2
    assert found["policy"] == pytest.approx(policy)
    assert found["value"] == pytest.approx(value)
    assert found["ownership"] == pytest.approx(ownership)
    assert found["score"] == pytest.approx(score)
    assert found["total"] == pytest.approx(policy + value + 0.3 * ownership + 0.05 * score)


def test_rows_whose_policy_does_not_count_change_nothing() -> None:
    wanted = batch(policy_weight=torch.tensor([1.0, 0.0]))
    assert terms(outputs(), wanted)["policy"] == pytest.approx(0.5 * math.log(2) + 0.5 * math.log(4))
    given = outputs(policy_logits=torch.zeros(2, 3, requires_grad=True))
    losses(given, wanted, WEIGHTS, 1.0)["policy"].backward()
    assert given.policy_logits.grad[0].abs().sum() > 0
    assert given.policy_logits.grad[1].tolist() == [0, 0, 0]


def test_rows_without_a_final_position_change_nothing() -> None:
    wanted = batch(final_weight=torch.tensor([1.0, 0.0]), ownership=torch.tensor([[1.0, -1.0], [9.0, 9.0]]))
    found = terms(outputs(), wanted)
    assert found["ownership"] == pytest.approx(math.log(2))
    assert found["score"] == pytest.approx(0.125)


def test_a_term_that_no_row_counts_for_is_zero() -> None:
    given = outputs(policy_logits=torch.zeros(2, 3, requires_grad=True))
    found = losses(given, batch(policy_weight=torch.zeros(2), final_weight=torch.zeros(2)), WEIGHTS, 1.0)
    assert [found[name].item() for name in ("policy", "ownership", "score")] == [0, 0, 0]
    found["total"].backward()
    assert given.policy_logits.grad.abs().sum() == 0


def test_impossible_moves_may_have_minus_infinity() -> None:
    logits = torch.tensor([[0.0, 0.0, -math.inf], [0.0, 0.0, 0.0]])
    assert terms(outputs(policy_logits=logits), batch())["policy"] == pytest.approx((math.log(2) + math.log(3)) / 2)


@pytest.mark.parametrize("owner", [-1.0, 0.0, 0.5, 1.0])
def test_ownership_is_cheapest_where_tanh_says_the_owner(owner: float) -> None:
    logits = torch.linspace(-4, 4, 161)
    wanted = batch(ownership=torch.full((2, 2), owner))
    costs = [
        terms(outputs(ownership_logits=torch.full((2, 2), logit)), wanted)["ownership"] for logit in logits.tolist()
    ]
    best = logits[int(torch.tensor(costs).argmin())]
    assert torch.tanh(best).item() == pytest.approx(owner, abs=0.03)


def test_accuracies() -> None:
    found = accuracies(outputs(), batch())
    assert found["policy_accuracy"].item() == 1  # both: the first of equal visits, and the only one
    assert found["value_sign_accuracy"].item() == 0.5  # +0.5 for a win; 0 for a loss is no sign
    wrong = outputs(policy_logits=torch.tensor([[0.0, 0.0, 1.0], [0.0, 0.0, 1.0]]))
    assert accuracies(wrong, batch())["policy_accuracy"].item() == 0.5
    ignored = batch(policy_weight=torch.tensor([0.0, 1.0]), value=torch.tensor([1.0, 0.0]))
    assert accuracies(wrong, ignored)["policy_accuracy"].item() == 1
    assert accuracies(wrong, ignored)["value_sign_accuracy"].item() == 1  # the drawn row doesn't count
