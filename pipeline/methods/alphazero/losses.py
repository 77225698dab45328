"""The loss of a batch of examples, term by term, and accuracies.

Everything is seen by the player to move, except replies, which are the opponent's moves on the same board. B batch, A
actions, P points; π target, p the network's policy, v its value, z the value target. Each term is a mean over the rows
that count:

    policy       −Σ π·log p; rows whose policy target counts
    value        scalar head: (v − z)²; wdl head: −Σ q·log p over win, draw and loss with
                 q = max(z, 0), 1 − |z|, max(−z, 0); all rows
    ownership    cross-entropy between the owner, mapped from −1 … +1 to 0 … 1, and the sigmoid of twice the logit
                 (tanh of the logit is then the expected owner), averaged over points; rows with a final position
    score        Huber loss (δ = 1) in units of ``side_of`` points; rows with a final position
    reply        −Σ π·log p of the position after the move that was played; rows whose reply is known
    soft_policy  Σ s·log(s/p), s = (π + 1e-7)^(1/T) / Σ (π + 1e-7)^(1/T) over all A actions; rows whose policy counts

    total = policy + value_weight·value + … + soft_policy_weight·soft_policy

Each row's loss is multiplied by its sample_weight, but a mean divides by the number of rows that count: the expected
gradient equals that of uniform sampling. A reply or soft policy term of weight 0 isn't computed and is 0.

Source of the terms: Silver et al. 2017 (policy, value); Wu 2019, arXiv 1902.10565, sections 4.1 (ownership, score) and
3.4 (reply); KataGo, docs/KataGoMethods.md, "Auxiliary Soft Policy Target", whose training code adds the 1e-7 and takes
every action of the board, legal or not. There it is the cross-entropy, with the same gradient; that is mostly the
entropy of s, which is large (4 nats on 82 actions) and would hide all other terms in the total.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F

from pipeline.methods.alphazero.options import LossOptions
from pipeline.methods.alphazero.training_batch import Batch
from pipeline.methods.method import Objective
from pipeline.networks.architecture import OF_SIDE, Architecture, Weights, side_of
from pipeline.networks.modules import Network, Outputs, load_network, measure_statistics, network_weights

TERMS = ("total", "policy", "value", "ownership", "score", "reply", "soft_policy")
METRICS = (*TERMS, "value_mse", "policy_accuracy", "value_sign_accuracy", "policy_entropy")
SOFT_POLICY_FLOOR = 1e-7
NOTHING = 1e-12  # less than any sum of weights; its inverse times any loss weight is finite
N = TypeVar("N", float, Tensor)


class AlphaZeroObjective(Objective):
    """The network of an architecture, and these losses with the config's weights."""

    terms = TERMS
    metrics = METRICS

    def __init__(self, architecture: Architecture, config: LossOptions) -> None:
        self._architecture = architecture
        self._config = config

    def network(self, weights: Weights) -> Network:
        return load_network(self._architecture, weights)

    def weights(self, network: torch.nn.Module) -> Weights:
        assert isinstance(network, Network)
        return network_weights(network)

    def finish(
        self, network: torch.nn.Module, inputs: Iterable[Tensor], evaluate: Callable[[torch.nn.Module, Tensor], Any]
    ) -> None:
        """Network for all boards: measure its norms' statistics on each."""
        assert isinstance(network, Network)
        if self._architecture.any_board:
            measure_statistics(network, inputs, evaluate)

    def trained(self, weights: Weights) -> Weights:
        return {name: array for name, array in weights.items() if not OF_SIDE.fullmatch(name)}

    def losses(self, outputs: Outputs, batch: Batch) -> dict[str, Tensor]:
        """The TERMS as scalar float32 tensors. A term without counting rows is 0 and has no gradient."""
        owner = F.binary_cross_entropy_with_logits(
            2 * outputs.ownership_logits, (batch.ownership + 1) / 2, reduction="none"
        ).mean(1)
        scale = side_of(batch.ownership.shape[1])
        score = F.huber_loss(outputs.score, batch.score / scale, reduction="none")
        rows = {
            "policy": _cross_entropy(outputs.policy_logits, batch.policy),
            "value": _value_loss(outputs, batch.value),
            "ownership": owner,
            "score": score,
        }
        if self._config.reply_weight:
            rows["reply"] = _cross_entropy(outputs.reply_logits, batch.reply)
        if self._config.soft_policy_weight:
            target = soft_policy(batch.policy, self._config.soft_policy_temperature)
            entropy = _cross_entropy(target.log(), target)
            rows["soft_policy"] = _cross_entropy(outputs.soft_policy_logits, target) - entropy
        counting = self.counting_rows(batch)
        zero = torch.zeros((), device=batch.value.device)
        terms = {
            name: _mean(rows[name] * batch.sample_weight, counting[name]) if name in rows else zero
            for name in TERMS
            if name != "total"
        }
        return {"total": self.total(terms), **terms}

    def total(self, means: Mapping[str, N]) -> N:
        config = self._config
        return (
            means["policy"]
            + config.value_weight * means["value"]
            + config.ownership_weight * means["ownership"]
            + config.score_weight * means["score"]
            + config.reply_weight * means["reply"]
            + config.soft_policy_weight * means["soft_policy"]
        )

    def accuracies(self, outputs: Outputs, batch: Batch) -> dict[str, Tensor]:
        """The METRICS that aren't TERMS, scalar float32: means weighted by sample_weight; 0 without counting rows.

        value_mse            (v − z)², for either value head
        policy_accuracy      share of rows, among those whose target counts, whose likeliest move is the target's
        value_sign_accuracy  share of rows, among those that weren't drawn, whose value has the target's sign
        policy_entropy       −Σ p·log p in nats, over rows whose target counts
        """
        rows = {
            "value_mse": (outputs.value - batch.value).square(),
            "policy_accuracy": (outputs.policy_logits.argmax(1) == batch.policy.argmax(1)).float(),
            "value_sign_accuracy": (torch.sign(outputs.value) == torch.sign(batch.value)).float(),
            "policy_entropy": _cross_entropy(outputs.policy_logits, outputs.policy_logits.softmax(1)),
        }
        counting = self.counting_rows(batch)
        return {name: _mean(values, counting[name] * batch.sample_weight) for name, values in rows.items()}

    def counting_rows(self, batch: Batch) -> dict[str, Tensor]:
        """For each of the METRICS [B] 0 or 1: which rows count; none for a term that isn't computed."""
        every, config = torch.ones_like(batch.value), self._config
        return {
            "total": every,
            "policy": batch.policy_weight,
            "value": every,
            "ownership": batch.final_weight,
            "score": batch.final_weight,
            "reply": batch.reply_weight * bool(config.reply_weight),
            # A target that is one move alone, as of an opponent that teaches, says nothing of second-best ones.
            "soft_policy": batch.policy_weight * (batch.policy.amax(1) < 1) * bool(config.soft_policy_weight),
            "value_mse": every,
            "policy_accuracy": batch.policy_weight,
            "value_sign_accuracy": (batch.value != 0).float(),
            "policy_entropy": batch.policy_weight,
        }

    def errors(self, outputs: Outputs, batch: Batch) -> Tensor:
        """|v − z|"""
        return (outputs.value - batch.value).abs()


def soft_policy(policy: Tensor, temperature: float) -> Tensor:
    """[B, A] the policy target, flattened so that it also distinguishes rarely visited moves."""
    softened = (policy + SOFT_POLICY_FLOOR) ** (1 / temperature)
    return softened / softened.sum(1, keepdim=True)


def _cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    """[B]: −Σ target·log softmax(logits)."""
    # An illegal move may have logit −inf and target 0, whose product would be NaN.
    return -torch.where(target > 0, target * F.log_softmax(logits, dim=1), 0.0).sum(1)


def _value_loss(outputs: Outputs, value: Tensor) -> Tensor:
    """[B] the loss of the scalar or wdl value head."""
    if outputs.value_logits.shape[1] == 1:
        return (outputs.value - value).square()
    win_draw_loss = torch.stack([value.clamp(min=0), 1 - value.abs(), (-value).clamp(min=0)], dim=1)
    return _cross_entropy(outputs.value_logits, win_draw_loss)


def _mean(values: Tensor, weights: Tensor) -> Tensor:
    """Σ w·x / Σ w; 0 if nothing counts, also its gradient, even if the term has a large weight in the loss."""
    return (values * weights).sum() / weights.sum().clamp(min=NOTHING)
