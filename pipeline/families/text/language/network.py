"""``AdapterNetwork``: a base model with an adapter as a network; only the adapter is trained.

Input [B, 2, L] int64: tokens (prompt, then answer, contiguous; NONE elsewhere), and 1 for tokens of the answer. Outputs
are float32 [B, L], 0 outside of answers, unless stated otherwise.
"""

from __future__ import annotations

import zlib
from copy import deepcopy
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from pipeline.families.text.language.adapters import LoraShape, Slot, check_adapter, pairs, put_slot
from pipeline.families.text.language.base_model import Base
from pipeline.families.text.language.generation import VALUE_BIAS, VALUE_WEIGHT, positions_of

Weights = dict[str, NDArray[np.float32]]


class TokenOutputs(NamedTuple):
    """logprob: of each token of the answer; start_logprob: the same of the adapter that training started from, if it is
    known, else 0; entropy: of the token's distribution, in nats; kl: KL(this || base) of it; value [B]: the critic's,
    seen by the player to move before the answer; 0 without a critic.
    """

    logprob: Tensor
    start_logprob: Tensor
    entropy: Tensor
    kl: Tensor
    value: Tensor


class AdapterNetwork(nn.Module):
    """See the module docstring. Modifies the given base model, except its weights. Copies share those."""

    def __init__(
        self,
        base: Base,
        shape: LoraShape,
        weights: Weights,
        checkpointing: bool = False,
        micro_batch: int = 0,
        dropout: float = 0.0,
        start: Weights | None = None,
    ) -> None:
        """checkpointing: recompute activations for the gradient instead of storing them.

        dropout: of the adapters' inputs, in training. It depends on the rows' contents alone, so that a training that
        is continued after a kill leaves out the same inputs.

        micro_batch: rows per forward pass, in training and evaluation; 0 for all at once. Each part's activations are
        recomputed in the backward pass, so the loss is still that of the whole batch.

        start: the weights that training started from, for start_logprob.

        Raises MuGoError if the weights don't fit the base model.
        """
        super().__init__()
        check_adapter(base.model, shape, weights)
        self.base = base.model
        if checkpointing:
            self.base.gradient_checkpointing_enable({"use_reentrant": False})
        self.adapter = _parameters(weights)
        self.start = _parameters(start or {}).requires_grad_(False)
        self.slot: Slot = put_slot(self.base, shape.targets)
        self.slot.scale, self.slot.dropout = shape.scale, dropout
        self._has_critic = VALUE_WEIGHT in weights
        self._micro_batch = micro_batch

    def __deepcopy__(self, memo: dict[int, Any]) -> AdapterNetwork:
        """A replica: with an adapter of its own, and the base model's weights shared."""
        memo |= {id(one): one for one in self.base.parameters()}
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        made.__dict__.update(deepcopy(self.__dict__, memo))
        return made

    def weights(self) -> Weights:
        """A copy of the weights, by the arrays' names."""
        return {
            name.replace("/", "."): tensor.detach().cpu().float().numpy().copy()
            for name, tensor in self.adapter.items()
        }

    def forward(self, inputs: Tensor) -> TokenOutputs:
        # Short games repeat the same prompts and answers: compute equal rows once.
        rows, which = np.unique(inputs.cpu().numpy().reshape(len(inputs), -1), axis=0, return_inverse=True)
        if len(rows) == len(inputs):
            return self._in_parts(inputs)
        different = torch.from_numpy(rows.reshape(-1, *inputs.shape[1:])).to(inputs.device)
        back = torch.from_numpy(which.reshape(-1)).to(inputs.device)
        return TokenOutputs(*(part[back] for part in self._in_parts(different)))

    def _in_parts(self, inputs: Tensor) -> TokenOutputs:
        if not 0 < self._micro_batch < len(inputs):
            return self._forward(inputs)
        learns = torch.is_grad_enabled()
        each = partial(checkpoint, self._forward, use_reentrant=False) if learns else self._forward
        parts = [each(rows) for rows in inputs.split(self._micro_batch)]
        return TokenOutputs(*map(torch.cat, zip(*parts, strict=True)))

    def _forward(self, inputs: Tensor) -> TokenOutputs:
        if self.training and self.slot.dropout:
            self.slot.key = zlib.crc32(inputs.cpu().numpy().tobytes())
        tokens, is_answer = inputs[:, 0], inputs[:, 1].bool()
        there = tokens >= 0
        first = int(there.any(0).int().argmax())
        last = int(there.shape[1] - there.any(0).flip(0).int().argmax())
        kept = int(last - is_answer.any(0).int().argmax()) + 1  # the answers' columns, and the one before
        ids, mask = tokens[:, first:last].clamp(min=0), there[:, first:last].long()
        with torch.no_grad():
            self.slot.adapter = {}
            base = torch.log_softmax(self._logits(ids, mask, kept, False)[0], -1)
            self.slot.adapter = _adapter(self.start)
            start = torch.log_softmax(self._logits(ids, mask, kept, False)[0], -1) if len(self.start) else 0 * base
        # The adapter stays in the slot, because checkpointing recomputes activations in the backward pass.
        self.slot.adapter = _adapter(self.adapter)
        logits, hidden = self._logits(ids, mask, kept, self._has_critic)
        here = is_answer[:, last - kept + 1 : last].float()
        targets = ids[:, ids.shape[1] - kept + 1 :]
        log_all = torch.log_softmax(logits, -1)
        chance = log_all.exp()
        logprob, start_logprob = (one.gather(-1, targets[..., None])[..., 0] * here for one in (log_all, start))
        entropy = -(chance * log_all).sum(-1) * here
        kl = (chance * (log_all - base)).sum(-1) * here
        width, behind = tokens.shape[1], tokens.shape[1] - last

        def spread(part: Tensor) -> Tensor:
            return nn.functional.pad(part, (width - behind - part.shape[1], behind))

        value = torch.zeros(len(tokens), device=tokens.device)
        if hidden is not None:
            before = is_answer[:, first:last].int().argmax(1) - 1
            at = hidden[torch.arange(len(tokens)), before].float()
            value = (at @ self.adapter[_flat(VALUE_WEIGHT)].T + self.adapter[_flat(VALUE_BIAS)])[:, 0]
        return TokenOutputs(spread(logprob), spread(start_logprob), spread(entropy), spread(kl), value)

    def _logits(self, ids: Tensor, mask: Tensor, kept: int, with_hidden: bool) -> tuple[Tensor, Tensor | None]:
        """(float32 logits [B, kept - 1, V] before each of the last kept - 1 tokens, hidden states [B, l, H])."""
        output = self.base(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions_of(mask),
            use_cache=False,
            logits_to_keep=kept,
            output_hidden_states=with_hidden,
        )
        return output.logits[:, :-1].float(), output.hidden_states[-1] if with_hidden else None


def critic_weights(width: int) -> Weights:
    """A value head that outputs 0."""
    return {VALUE_WEIGHT: np.zeros((1, width), np.float32), VALUE_BIAS: np.zeros(1, np.float32)}


def hidden_size(base: Base) -> int:
    return int(base.model.get_input_embeddings().weight.shape[1])


def _parameters(weights: Weights) -> nn.ParameterDict:
    tensors = {_flat(name): torch.from_numpy(np.array(array)) for name, array in weights.items()}
    return nn.ParameterDict({name: nn.Parameter(tensor) for name, tensor in tensors.items()})


def _adapter(parameters: nn.ParameterDict) -> dict[str, tuple[Tensor, Tensor]]:
    """The adapter for a slot."""
    return pairs({name.replace("/", "."): tensor for name, tensor in parameters.items()})


def _flat(name: str) -> str:
    """Parameter names must not contain dots."""
    return name.replace(".", "/")
