"""Each loss against numbers computed by hand."""

import math

import pytest
import torch

from pipeline.methods.alphazero.losses import METRICS, TERMS, AlphaZeroObjective, Batch, soft_policy
from pipeline.networks.architecture import Architecture
from pipeline.networks.modules import Outputs, value_of
from pipeline.train.config import TrainConfig

ARCHITECTURE = Architecture(blocks=1, channels=4, planes=1, height=3, width=3, actions=9)
SIDE = 2**0.5  # of a board of two points
WEIGHTS = TrainConfig(value_weight=1.0, ownership_weight=0.3, score_weight=0.05)
ALL_WEIGHTS = WEIGHTS.model_copy(
    update={"value_weight": 1.5, "reply_weight": 0.15, "soft_policy_weight": 8.0, "soft_policy_temperature": 4.0}
)
OBJECTIVE = AlphaZeroObjective(ARCHITECTURE, WEIGHTS)
losses, accuracies = OBJECTIVE.losses, OBJECTIVE.accuracies


def batch(**changes: object) -> Batch:
    """Two examples, three actions, two points."""
    values = {
        "planes": torch.zeros(2, 1, 1, 2, dtype=torch.uint8),
        "policy": torch.tensor([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]),
        "policy_weight": torch.ones(2),
        "value": torch.tensor([1.0, -1.0]),
        "ownership": torch.tensor([[1.0, -1.0], [0.0, 0.0]]),
        "score": torch.tensor([SIDE, -2 * SIDE]),
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


def terms(given: Outputs, wanted: Batch, weights: TrainConfig = WEIGHTS) -> dict[str, float]:
    found = AlphaZeroObjective(ARCHITECTURE, weights).losses(given, wanted)
    assert tuple(found) == TERMS
    return {name: tensor.item() for name, tensor in found.items()}


def test_by_hand() -> None:
    found = terms(outputs(), batch())
    policy = (0.5 * math.log(2) + 0.5 * math.log(4) + math.log(2)) / 2
    value = (0.5**2 + 1.0**2) / 2
    ownership = math.log(2)  # logit 0 says one half, whoever owns the point
    # in units of SIDE points: wanted 1 and -2, said 0.5 and 0; Huber: 0.5²/2 and 2 − 1/2
    score = (0.125 + 1.5) / 2
    assert found["policy"] == pytest.approx(policy)
    assert found["value"] == pytest.approx(value)
    assert found["ownership"] == pytest.approx(ownership)
    assert found["score"] == pytest.approx(score)
    assert found["total"] == pytest.approx(policy + value + 0.3 * ownership + 0.05 * score)


def test_the_reply_by_hand() -> None:
    found = terms(outputs(), batch(), weights=ALL_WEIGHTS)
    first = 0.25 * math.log(4) + 0.75 * math.log(2)
    assert found["reply"] == pytest.approx((first + math.log(2)) / 2)
    # one row's reply is known: the mean is over it alone
    wanted = batch(reply_weight=torch.tensor([1.0, 0.0]), reply=torch.tensor([[0.25, 0.75, 0.0], [0.0, 0.0, 0.0]]))
    assert terms(outputs(), wanted, weights=ALL_WEIGHTS)["reply"] == pytest.approx(first)
    # it is not the policy's own target or weight that counts
    wanted = batch(policy_weight=torch.zeros(2))
    assert terms(outputs(), wanted, weights=ALL_WEIGHTS)["reply"] == pytest.approx((first + math.log(2)) / 2)


def test_the_soft_policy_by_hand() -> None:
    # Shares 81 : 16 : 0 of 97 and T = 4: fourth roots 3 : 2 : (97e-7)^(1/4).
    floor = 97e-7**0.25
    found = soft_policy(torch.tensor([[81 / 97, 16 / 97, 0.0]]), 4.0)
    torch.testing.assert_close(found, torch.tensor([[3.0, 2.0, floor]]) / (5 + floor), rtol=1e-5, atol=1e-7)
    assert soft_policy(torch.tensor([[0.7, 0.2, 0.1]]), 1.0).tolist()[0] == pytest.approx([0.7, 0.2, 0.1], abs=1e-6)
    # The head says one third each: the distance of log 3 − the target's entropy. Row 1's policy doesn't count.
    # The same without a weight of 0: a target of one move alone says nothing of second-best ones.
    given = outputs(soft_policy_logits=torch.tensor([[0.0, 0.0, 0.0], [9.0, 0.0, 0.0]]))
    assert terms(given, batch(), weights=ALL_WEIGHTS)["soft_policy"] == pytest.approx(
        terms(given, batch(policy_weight=torch.tensor([1.0, 0.0])), weights=ALL_WEIGHTS)["soft_policy"]
    )
    two_moves = torch.tensor([[0.5, 0.5, 0.0], [0.0, 0.1, 0.9]])
    wanted = batch(policy_weight=torch.tensor([1.0, 0.0]), policy=two_moves)
    target = soft_policy(wanted.policy, 4.0)[0]
    entropy = -sum(share * math.log(share) for share in target.tolist())
    assert terms(given, wanted, weights=ALL_WEIGHTS)["soft_policy"] == pytest.approx(math.log(3) - entropy)
    given = outputs(soft_policy_logits=torch.log(torch.tensor([[0.6, 0.3, 0.1], [1.0, 1.0, 1.0]])))
    cost = -(target * torch.log(torch.tensor([0.6, 0.3, 0.1]))).sum().item()
    assert terms(given, wanted, weights=ALL_WEIGHTS)["soft_policy"] == pytest.approx(cost - entropy)


def test_the_soft_policy_agrees_with_a_plain_loop() -> None:
    policy = torch.distributions.Dirichlet(torch.full((26,), 0.1)).sample((5,))
    found = soft_policy(policy, 3.0)
    for row in range(5):
        roots = [(p + 1e-7) ** (1 / 3) for p in policy[row].tolist()]
        assert found[row].tolist() == pytest.approx([root / sum(roots) for root in roots], rel=1e-4)


def test_the_total_is_the_weighted_sum() -> None:
    found = terms(outputs(), batch(), weights=ALL_WEIGHTS)
    assert all(found[name] > 0 for name in TERMS)
    total = (
        found["policy"]
        + 1.5 * found["value"]
        + 0.3 * found["ownership"]
        + 0.05 * found["score"]
        + 0.15 * found["reply"]
        + 8 * found["soft_policy"]
    )
    assert found["total"] == pytest.approx(total)
    assert AlphaZeroObjective(ARCHITECTURE, ALL_WEIGHTS).total(found) == pytest.approx(total)


@pytest.mark.parametrize("name", ["reply", "soft_policy"])
def test_a_head_without_weight_is_not_looked_at(name: str) -> None:
    """Not a NaN times 0, and no gradient."""
    given = outputs(**{f"{name}_logits": torch.full((2, 3), math.nan, requires_grad=True)})
    found = terms(given, batch(), weights=ALL_WEIGHTS.model_copy(update={f"{name}_weight": 0.0}))
    assert found[name] == 0 and math.isfinite(found["total"])
    assert math.isnan(terms(given, batch(), weights=ALL_WEIGHTS)["total"])


# The value as win, draw and loss


def with_chances(chances: list[list[float]]) -> Outputs:
    logits = torch.log(torch.tensor(chances)) + 1  # a shift changes nothing
    return outputs(value_logits=logits, value=value_of(logits))


def test_win_draw_and_loss_by_hand() -> None:
    given = with_chances([[0.5, 0.3, 0.2], [0.5, 0.3, 0.2]])
    # a win and a loss of the player to move
    assert terms(given, batch())["value"] == pytest.approx(-(math.log(0.5) + math.log(0.2)) / 2)
    assert terms(given, batch(value=torch.zeros(2)))["value"] == pytest.approx(-math.log(0.3))
    assert terms(given, batch(value=torch.ones(2)))["value"] == pytest.approx(-math.log(0.5))
    # three quarters of the way to a loss
    between = -(0.25 * math.log(0.3) + 0.75 * math.log(0.2))
    assert terms(given, batch(value=torch.full((2,), -0.75)))["value"] == pytest.approx(between)


def test_the_squared_error_is_told_for_either_head() -> None:
    given = with_chances([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]])  # values 0.3 and -0.7
    assert accuracies(given, batch())["value_mse"].item() == pytest.approx((0.7**2 + 0.3**2) / 2)
    assert accuracies(given, batch())["value_sign_accuracy"].item() == 1
    scalar = outputs()
    assert accuracies(scalar, batch())["value_mse"].item() == pytest.approx(terms(scalar, batch())["value"])


def test_learning_wdl_moves_the_value_towards_the_result() -> None:
    for result in (-1.0, 0.0, 1.0):
        logits = torch.tensor([[0.3, 0.1, -0.2]] * 2, requires_grad=True)
        for _ in range(200):
            wanted = batch(value=torch.full((2,), result))
            losses(outputs(value_logits=logits, value=value_of(logits)), wanted)["value"].backward()
            with torch.no_grad():
                logits -= logits.grad
            logits.grad = None
        assert value_of(logits).tolist() == pytest.approx([result] * 2, abs=0.05)


# Sample weights


def test_sample_weights_multiply_every_term_and_not_its_count() -> None:
    """Row 1 weighs nothing and row 0 twice: each mean is row 0's own loss, since 2·x / 2 rows = x."""
    both = batch(policy=torch.tensor([[0.5, 0.5, 0.0], [0.0, 0.1, 0.9]]))  # of both the soft policy counts
    wanted = batch(sample_weight=torch.tensor([2.0, 0.0]), policy=both.policy)
    weighted = terms(outputs(), wanted, weights=ALL_WEIGHTS)
    row = slice(0, 1)
    given, wanted = Outputs(*(part[row] for part in outputs())), Batch(*(part[row] for part in both))
    alone = terms(given, wanted, weights=ALL_WEIGHTS)
    assert weighted == pytest.approx(alone)
    halved = terms(outputs(), batch(sample_weight=torch.full((2,), 0.5)), weights=ALL_WEIGHTS)
    whole = terms(outputs(), batch(), weights=ALL_WEIGHTS)
    assert halved == pytest.approx({name: value / 2 for name, value in whole.items()})


def test_a_term_for_which_no_row_counts_has_no_gradient() -> None:
    """Even with a weight of 8: 8 / the smallest float32 is infinite, and 0 times that isn't a number."""
    logits = torch.zeros(2, 3, requires_grad=True)
    wanted = batch(policy=torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]))
    found = AlphaZeroObjective(ARCHITECTURE, ALL_WEIGHTS).losses(outputs(soft_policy_logits=logits), wanted)
    found["total"].backward()
    assert found["soft_policy"].item() == 0 and (logits.grad == 0).all()


def test_sample_weights_undo_uneven_draws() -> None:
    """Drawing row i with chance p_i and weighting it with 1 / (n·p_i) gives the mean over all rows, on average."""
    generator = torch.Generator().manual_seed(0)
    errors, chances = torch.tensor([0.1, 0.4, 0.9, 1.6]), torch.tensor([0.1, 0.2, 0.3, 0.4])
    drawn = torch.multinomial(chances, 20_000, replacement=True, generator=generator)
    rows = len(drawn)
    wanted = Batch(
        planes=torch.zeros(rows, 1, 1, 1, dtype=torch.uint8),
        policy=torch.ones(rows, 1),
        policy_weight=torch.ones(rows),
        value=torch.zeros(rows),
        ownership=torch.zeros(rows, 1),
        score=torch.zeros(rows),
        final_weight=torch.ones(rows),
        reply=torch.ones(rows, 1),
        reply_weight=torch.ones(rows),
        sample_weight=1 / (4 * chances[drawn]),
    )
    said = errors[drawn].sqrt()
    one = torch.zeros(rows, 1)
    given = Outputs(one, said, one, torch.zeros(rows), one, one, torch.atanh(said.clamp(max=0.99))[:, None])
    assert losses(given, wanted)["value"].item() == pytest.approx(0.75, abs=0.02)
    assert accuracies(given, wanted)["value_mse"].item() == pytest.approx(0.75, abs=0.02)


def test_accuracies_stay_shares_whatever_the_sample_weights_add_up_to() -> None:
    wrong = outputs(policy_logits=torch.tensor([[0.0, 0.0, 1.0], [0.0, 0.0, 1.0]]))  # row 0 wrong, row 1 right
    found = accuracies(wrong, batch(sample_weight=torch.tensor([0.1, 0.3])))
    assert found["policy_accuracy"].item() == pytest.approx(0.75)


def test_every_metric_says_which_rows_count() -> None:
    rows = batch(policy_weight=torch.tensor([1.0, 0.0]), reply_weight=torch.tensor([0.0, 1.0]))
    every_term = WEIGHTS.model_copy(update={"reply_weight": 0.5, "soft_policy_weight": 0.5})
    counting = AlphaZeroObjective(ARCHITECTURE, every_term).counting_rows(rows)
    assert set(counting) == set(METRICS)
    assert counting["soft_policy"].tolist() == counting["policy"].tolist() == [1, 0]
    assert counting["reply"].tolist() == [0, 1] and counting["value"].tolist() == [1, 1]
    not_computed = OBJECTIVE.counting_rows(rows)
    assert not not_computed["reply"].any() and not not_computed["soft_policy"].any()


def test_rows_whose_policy_does_not_count_change_nothing() -> None:
    wanted = batch(policy_weight=torch.tensor([1.0, 0.0]))
    assert terms(outputs(), wanted)["policy"] == pytest.approx(0.5 * math.log(2) + 0.5 * math.log(4))
    given = outputs(policy_logits=torch.zeros(2, 3, requires_grad=True))
    losses(given, wanted)["policy"].backward()
    assert given.policy_logits.grad[0].abs().sum() > 0
    assert given.policy_logits.grad[1].tolist() == [0, 0, 0]


def test_rows_without_a_final_position_change_nothing() -> None:
    wanted = batch(final_weight=torch.tensor([1.0, 0.0]), ownership=torch.tensor([[1.0, -1.0], [9.0, 9.0]]))
    found = terms(outputs(), wanted)
    assert found["ownership"] == pytest.approx(math.log(2))
    assert found["score"] == pytest.approx(0.125)


def test_a_term_that_no_row_counts_for_is_zero() -> None:
    given = outputs(policy_logits=torch.zeros(2, 3, requires_grad=True))
    found = losses(given, batch(policy_weight=torch.zeros(2), final_weight=torch.zeros(2)))
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
    unsure = outputs(value=torch.tensor([0.5, 0.25]))
    assert accuracies(unsure, ignored)["value_sign_accuracy"].item() == 1  # the drawn row doesn't count
