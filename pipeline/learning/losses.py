"""What a batch of examples costs a network, term by term, and how often it is right.

Everything is seen by the player to move. B batch, A actions, P points. Terms, each a mean over the rows that count:

    policy      −Σ π·log p, over rows whose policy target counts
    value       (v − z)², over all rows
    ownership   cross-entropy between the owner, mapped from −1 … +1 to 0 … 1, and the sigmoid of twice the logit
                (tanh of the logit is then the expected owner), averaged over points; rows with a final position
    score       Huber loss (δ = 1) in units of ``Architecture.score_scale`` points; rows with a final position

    total = policy + value_weight·value + ownership_weight·ownership + score_weight·score

L2 isn't here: it is the optimiser's decoupled weight decay. Source of the terms: Silver et al. 2017 (policy, value);
Wu 2019, arXiv 1902.10565, section 4.1 (ownership, score).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from pipeline.networks.modules import Outputs


class Batch(NamedTuple):
    """B examples as tensors. The weights of targets are 0 or 1 and say whether the row's target is known.

    sample_weight says how much a row counts for in every term: 1, or what corrects for the share of the draws that
    prioritised replay gave it.
    """

    planes: Tensor  # [B, C, H, W] uint8
    policy: Tensor  # [B, A] float32, sums to 1
    policy_weight: Tensor  # [B] float32
    value: Tensor  # [B] float32
    ownership: Tensor  # [B, P] float32, -1, 0 or +1
    score: Tensor  # [B] float32, in the game's own points
    final_weight: Tensor  # [B] float32: ownership and score are known
    reply: Tensor  # [B, A] float32, the policy of the position after the move that was played; sums to 1
    reply_weight: Tensor  # [B] float32
    sample_weight: Tensor  # [B] float32


@dataclass(frozen=True)
class LossWeights:
    value: float
    ownership: float
    score: float


TERMS = ("total", "policy", "value", "ownership", "score")
METRICS = (*TERMS, "policy_accuracy", "value_sign_accuracy")


def losses(outputs: Outputs, batch: Batch, weights: LossWeights, score_scale: float) -> dict[str, Tensor]:
    """The TERMS as scalar float32 tensors. A term that no row counts for is 0 and has no gradient."""
    log_policy = F.log_softmax(outputs.policy_logits, dim=1)
    # An impossible move may have logit −inf and target 0, whose product must be 0 and not NaN.
    cross_entropy = -torch.where(batch.policy > 0, batch.policy * log_policy, 0.0).sum(1)
    owner = F.binary_cross_entropy_with_logits(
        2 * outputs.ownership_logits, (batch.ownership + 1) / 2, reduction="none"
    ).mean(1)
    score = F.huber_loss(outputs.score, batch.score / score_scale, reduction="none")
    terms = {
        "policy": _weighted_mean(cross_entropy, batch.policy_weight),
        "value": F.mse_loss(outputs.value, batch.value),
        "ownership": _weighted_mean(owner, batch.final_weight),
        "score": _weighted_mean(score, batch.final_weight),
    }
    total = (
        terms["policy"]
        + weights.value * terms["value"]
        + weights.ownership * terms["ownership"]
        + weights.score * terms["score"]
    )
    return {"total": total, **terms}


def accuracies(outputs: Outputs, batch: Batch) -> dict[str, Tensor]:
    """Shares, scalar float32; where no row counts, 0.

    policy_accuracy      the likeliest move is the target's most visited one, over rows whose target counts
    value_sign_accuracy  the value has the sign of the result, over rows that weren't drawn
    """
    hit = outputs.policy_logits.argmax(1) == batch.policy.argmax(1)
    same_sign = torch.sign(outputs.value) == torch.sign(batch.value)
    return {
        "policy_accuracy": _weighted_mean(hit.float(), batch.policy_weight),
        "value_sign_accuracy": _weighted_mean(same_sign.float(), (batch.value != 0).float()),
    }


def _weighted_mean(values: Tensor, weights: Tensor) -> Tensor:
    """Σ w·x / Σ w; 0 if nothing counts."""
    return (values * weights).sum() / weights.sum().clamp(min=torch.finfo(torch.float32).tiny)
