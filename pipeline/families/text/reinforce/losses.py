"""The loss of REINFORCE and A2C, and a batch of answers.

B batch, L tokens of prompt and answer. a is an answer's advantage; sums are over its tokens, divided by D:

    policy  mean over B of −Σ a·log π(token)                                  (Williams 1992; Sutton et al. 2000)
            with ε > 0 of −Σ min(r·a, clip(r, 1 − ε, 1 + ε)·a), r = π / π of the model that training started from
                                                                              (Schulman et al. 2017, arXiv 1707.06347)
            where a < 0, at least 3 a: one token that became likelier would else outweigh the batch
                                                                              (Ye et al. 2020, arXiv 1912.09729)
    kl      mean of Σ KL(π || base) in nats, exact over the whole vocabulary
    entropy mean of Σ H(π)
    value   mean of (value − target)² / 2, for the critic of A2C
    total   policy + kl_weight·kl − entropy_weight·entropy + value_weight·value

Each row is weighted by its sample_weight. ε is --ratio-clip, D --token-denominator. D is the same for all answers:
dividing by each answer's own length would reduce the penalty of long answers (Liu et al. 2025, "Dr. GRPO", arXiv
2503.20783). Gradients are correct for answers sampled at temperature 1. At r = 1 those of both policy terms are equal.

π before training isn't recorded with an answer but computed again, with the adapter that training started from. So r
compares with the model that answered if the window has only its games; in older games, with a later model.
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

MOST_RATIO = 3.0  # with which a token of a negative advantage counts
MOST_LOG_RATIO = 20.0  # far beyond it, but finite as a ratio


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
    """See the module docstring. make: (weights, those that training started from or None) → the network."""

    capturable = False  # the forward pass depends on the inputs: equal rows, where answers begin
    shareable = False  # the forward pass removes and restores the adapter

    def __init__(self, make: Any, config: Options, has_critic: bool) -> None:
        self._make, self._has_critic = make, has_critic
        self._config, self._value_weight = taken(config, TextTrainOptions), taken(config, ValueLossOptions).value_weight
        self.terms = ("total", "policy", "kl", "entropy", *(("value",) if has_critic else ()))
        clipped = ("clipped_share",) if self._config.ratio_clip else ()
        self._start: Weights | None = None
        self.metrics = (*self.terms, *clipped, "reward", "answer_tokens", "well_formed_share", "valid_share")

    def network(self, weights: Weights) -> AdapterNetwork:
        return self._make(weights, (self._start or weights) if self._config.ratio_clip else None)

    def start_from(self, weights: Weights) -> None:
        self._start = weights

    def weights(self, network: nn.Module) -> Weights:
        assert isinstance(network, AdapterNetwork)
        return network.weights()

    def check(self, batch: Batch) -> None:
        if self._has_critic and torch.isnan(batch.target).any():
            raise MuGoError("the steps were recorded without a critic; wanted games of a model of method a2c")

    def losses(self, outputs: TokenOutputs, batch: Batch) -> dict[str, Tensor]:
        config, weight = self._config, batch.sample_weight
        of_tokens = {"policy": -self._gain(outputs, batch)[0], "kl": outputs.kl, "entropy": outputs.entropy}
        terms = {name: (tokens.sum(1) * weight).mean() for name, tokens in of_tokens.items()}
        if self._has_critic:
            terms["value"] = ((outputs.value - batch.target).square() * weight).mean() / 2
        of_answers = terms["policy"] + config.kl_weight * terms["kl"] - config.entropy_weight * terms["entropy"]
        of_values = self._value_weight * terms["value"] if self._has_critic else 0.0
        terms["total"] = of_answers / config.token_denominator + of_values
        return terms

    def _gain(self, outputs: TokenOutputs, batch: Batch) -> tuple[Tensor, Tensor]:
        """Of each token [B, L]: what the policy term maximises, and whether it is clipped, without a gradient."""
        advantage, clip = batch.advantage[:, None], self._config.ratio_clip
        if not clip:
            return outputs.logprob * advantage, torch.zeros_like(outputs.logprob)
        ratio = (outputs.logprob - outputs.start_logprob.detach()).clamp(max=MOST_LOG_RATIO).exp()
        free, bounded = ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage
        gain = torch.min(free, bounded)
        gain = torch.where(advantage < 0, torch.max(gain, MOST_RATIO * advantage), gain)
        is_answer = batch.inputs[:, 1]
        return gain * is_answer, (gain != free) * is_answer

    def accuracies(self, outputs: TokenOutputs, batch: Batch) -> dict[str, Tensor]:
        num_tokens = batch.inputs[:, 1].sum()
        clipped = {"clipped_share": self._gain(outputs, batch)[1].sum() / num_tokens} if self._config.ratio_clip else {}
        return {
            **clipped,
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
