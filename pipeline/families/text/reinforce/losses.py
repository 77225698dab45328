"""The loss of REINFORCE and A2C, and a batch of answers.

B batch, L tokens of prompt and answer. a is an answer's advantage; sums are over its tokens:

    policy  mean over B of −a·Σ log π(token)                                  (Williams 1992; Sutton et al. 2000)
    kl      mean of Σ KL(π || base) in nats, exact over the whole vocabulary
    entropy mean of Σ H(π)
    value   mean of (value − target)² / 2, for the critic of A2C
    total   policy + kl_weight·kl − entropy_weight·entropy + value_weight·value

Each row is weighted by its sample_weight. The terms are sums over tokens, not means: a mean would reduce the penalty of
long answers (Liu et al. 2025, "Dr. GRPO", arXiv 2503.20783). Gradients are correct for answers sampled at temperature
1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from pipeline.errors import MuGoError
from pipeline.families.text.language.network import AdapterNetwork, TokenOutputs
from pipeline.families.text.options import TextTrainOptions
from pipeline.families.text.reinforce.columns import INVALID_MOVE, WELL_FORMED
from pipeline.methods.method import Objective, Weights
from pipeline.methods.options import ValueLossOptions
from pipeline.options import Options, taken


class Batch(NamedTuple):
    inputs: Tensor  # [B, 2, L] int64, see families/text/language/network.py
    advantage: Tensor  # [B] float32
    target: Tensor  # [B] float32, NaN without a critic
    reward: Tensor  # [B] float32, the answering player's reward of the game
    notes: Tensor  # [B] int64, see columns.py
    sample_weight: Tensor  # [B] float32

    @property
    def value(self) -> Tensor:
        return self.target


class ReinforceObjective(Objective):
    """See the module docstring. make: weights → the network."""

    capturable = False  # the forward pass depends on the inputs: equal rows, where answers begin
    shareable = False  # the forward pass removes and restores the adapter

    def __init__(self, make: Any, config: Options, has_critic: bool) -> None:
        self._make, self._has_critic = make, has_critic
        self._config, self._value_weight = taken(config, TextTrainOptions), taken(config, ValueLossOptions).value_weight
        self.terms = ("total", "policy", "kl", "entropy", *(("value",) if has_critic else ()))
        self.metrics = (*self.terms, "reward", "answer_tokens", "well_formed_share", "valid_share")

    def network(self, weights: Weights) -> AdapterNetwork:
        return self._make(weights)

    def weights(self, network: nn.Module) -> Weights:
        assert isinstance(network, AdapterNetwork)
        return network.weights()

    def check(self, batch: Batch) -> None:
        if self._has_critic and torch.isnan(batch.target).any():
            raise MuGoError("the steps were recorded without a critic; wanted games of a model of method a2c")

    def losses(self, outputs: TokenOutputs, batch: Batch) -> dict[str, Tensor]:
        config, weight = self._config, batch.sample_weight
        terms = {
            "policy": -(outputs.logprob.sum(1) * batch.advantage * weight).mean(),
            "kl": (outputs.kl.sum(1) * weight).mean(),
            "entropy": (outputs.entropy.sum(1) * weight).mean(),
        }
        if self._has_critic:
            terms["value"] = ((outputs.value - batch.target).square() * weight).mean() / 2
        terms["total"] = (
            terms["policy"]
            + config.kl_weight * terms["kl"]
            - config.entropy_weight * terms["entropy"]
            + (self._value_weight * terms["value"] if self._has_critic else 0.0)
        )
        return terms

    def accuracies(self, outputs: TokenOutputs, batch: Batch) -> dict[str, Tensor]:
        return {
            "reward": batch.reward.mean(),
            "answer_tokens": batch.inputs[:, 1].sum(1).float().mean(),
            "well_formed_share": (batch.notes & WELL_FORMED != 0).float().mean(),
            "valid_share": (batch.notes & INVALID_MOVE == 0).float().mean(),
        }

    def counting_rows(self, batch: Batch) -> dict[str, Tensor]:
        return dict.fromkeys(self.metrics, torch.ones_like(batch.advantage))

    def total(self, means: Mapping[str, float]) -> float:
        return means["total"]

    def errors(self, outputs: TokenOutputs, batch: Batch) -> Tensor:
        return (outputs.value - batch.target).abs().nan_to_num() if self._has_critic else torch.zeros_like(batch.reward)
