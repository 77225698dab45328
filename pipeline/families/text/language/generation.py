"""``Speaker``: a base model with an adapter that answers many prompts at once.

Prompts that are alike are read once, whoever asks. Each row has a random stream of its own, so that an answer depends
on its prompt, its stream and the model, not on the other rows, as far as the arithmetic of a batch doesn't depend on
its size. The speakers of one thread share a base model and take turns with its slot.

Axes: n prompts, U different ones, L tokens of the longest, A tokens of the longest answer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pipeline.counter_rng import uniforms
from pipeline.errors import MuGoError
from pipeline.families.text.language.adapters import LoraShape, Slot, check_adapter, pairs, put_slot
from pipeline.families.text.language.base import Base
from pipeline.families.text.language.prompts import READINGS, TEMPLATES

NONE = -1  # instead of a token
MOST_PROMPTS = 128  # different ones that are read at once
VALUE_WEIGHT, VALUE_BIAS = "value_head.weight", "value_head.bias"


@dataclass(frozen=True)
class Answers:
    """tokens [n, A] int32, NONE after the end; values [n] float32, to move, NaN without a critic; texts [n]."""

    tokens: NDArray[np.int32]
    values: NDArray[np.float32]
    texts: list[str]


class Voice:
    """A base model in one thread, and the slot of its layers."""

    def __init__(self, base: Base, targets: Sequence[str]) -> None:
        self.base = base
        self.slot: Slot = put_slot(base.model, targets)
        self.device = next(base.model.parameters()).device


class Answering(ABC):
    """A model that answers prompts, wherever it runs."""

    def __init__(self, encode: Callable[[str], list[int]], template: str, reading: str) -> None:
        """encode: a text's tokens. Raises MuGoError for names that nobody knows."""
        for name, known in ((template, TEMPLATES), (reading, READINGS)):
            if name not in known:
                raise MuGoError(f"its architecture names {name!r}; known are {', '.join(known)}")
        self._encode = encode
        self.template, self.reading = TEMPLATES[template], READINGS[reading]
        self._prompts: OrderedDict[str, list[int]] = OrderedDict()

    def prompt_tokens(self, observation: str, most: int) -> list[int]:
        """Of an observation, in this model's template; the newest so many."""
        found = self._prompts.get(observation)
        if found is None:
            found = self._prompts[observation] = self._encode(self.template(observation))
            if len(self._prompts) > 20_000:
                self._prompts.popitem(last=False)
        return found[-most:]

    @abstractmethod
    def answer(
        self,
        prompts: Sequence[Sequence[int]],
        keys: NDArray[np.uint64],
        counters: NDArray[np.integer],
        temperature: float,
        most: int,
    ) -> Answers:
        """keys, counters [n]: the random stream of each row, and where in it the numbers of this answer begin.

        temperature: 0 takes the likeliest token. most: tokens of an answer, the one that ends it included.
        """


class Speaker(Answering):
    """See the module docstring."""

    def __init__(
        self, voice: Voice, shape: LoraShape, weights: Mapping[str, NDArray[Any]], template: str, reading: str
    ) -> None:
        """Raises MuGoError if the weights are another base's."""
        super().__init__(voice.base.encode, template, reading)
        check_adapter(voice.base.model, shape, weights)
        self._voice, self._scale = voice, shape.scale
        tensors = {name: torch.from_numpy(np.array(array)).to(voice.device) for name, array in weights.items()}
        self._adapter = pairs(tensors)
        self._critic = (tensors[VALUE_WEIGHT], tensors[VALUE_BIAS]) if VALUE_WEIGHT in tensors else None

    @torch.inference_mode()
    def answer(
        self,
        prompts: Sequence[Sequence[int]],
        keys: NDArray[np.uint64],
        counters: NDArray[np.integer],
        temperature: float,
        most: int,
    ) -> Answers:
        slot, base = self._voice.slot, self._voice.base
        slot.adapter, slot.scale = self._adapter, self._scale
        different = list(dict.fromkeys(map(tuple, prompts)))
        number = {prompt: i for i, prompt in enumerate(different)}
        asked = np.array([number[tuple(prompt)] for prompt in prompts])
        tokens = np.full((len(prompts), most), NONE, np.int32)
        values = np.full(len(prompts), np.nan, np.float32)
        for start in range(0, len(different), MOST_PROMPTS):
            rows = np.flatnonzero((asked >= start) & (asked < start + MOST_PROMPTS))
            some = different[start : start + MOST_PROMPTS]
            which = asked[rows] - start
            tokens[rows], values[rows] = self._answer(some, which, keys[rows], counters[rows], temperature, most)
        texts = [base.decode(row[row != NONE].tolist()) for row in tokens]
        return Answers(tokens, values, texts)

    @torch.inference_mode()
    def logprobs(self, prompts: Sequence[Sequence[int]], answers: Sequence[str]) -> NDArray[np.float64]:
        """[n] of each answer, its end included, to the prompt beside it; at temperature 1."""
        slot, base = self._voice.slot, self._voice.base
        slot.adapter, slot.scale = self._adapter, self._scale
        found = []
        for start in range(0, len(prompts), MOST_PROMPTS):
            said = [[*base.encode(text), base.end_token] for text in answers[start : start + MOST_PROMPTS]]
            texts = [[*prompt, *tokens] for prompt, tokens in zip(prompts[start:], said, strict=False)]
            ids, mask = padded_left(texts, self._voice.device)
            longest = max(map(len, said))
            logits = base.model(
                input_ids=ids,
                attention_mask=mask,
                position_ids=positions_of(mask),
                use_cache=False,
                logits_to_keep=longest + 1,
            ).logits[:, :-1]
            log_all = torch.log_softmax(logits.double(), -1).gather(-1, ids[:, -longest:, None])[..., 0]
            found += [float(row[longest - len(tokens) :].sum()) for row, tokens in zip(log_all, said, strict=True)]
        return np.array(found)

    def _answer(
        self,
        prompts: Sequence[Sequence[int]],
        which: NDArray[np.int64],
        keys: NDArray[np.uint64],
        counters: NDArray[np.integer],
        temperature: float,
        most: int,
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        model, end = self._voice.base.model, self._voice.base.end_token
        ids, mask = padded_left(prompts, self._voice.device)
        said = model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions_of(mask),
            use_cache=True,
            logits_to_keep=1,
            output_hidden_states=self._critic is not None,
        )
        values = torch.full((len(prompts),), torch.nan)
        if self._critic is not None:
            values = (said.hidden_states[-1][:, -1].float() @ self._critic[0].T + self._critic[1])[:, 0].cpu()
        chosen = torch.from_numpy(which).to(ids.device)
        cache, logits, mask = said.past_key_values, said.logits[chosen, -1], mask[chosen]
        cache.reorder_cache(chosen)
        rows = np.arange(len(which))  # that aren't done
        found = np.full((len(which), most), NONE, np.int32)
        for step in range(most):
            points = uniforms(keys[rows], counters[rows] + step)
            token = drawn(logits.float(), points, temperature)
            found[rows, step] = token.cpu().numpy()
            going = (token != end).cpu().numpy()
            if step + 1 == most or not going.any():
                break
            if not going.all():
                kept = torch.from_numpy(np.flatnonzero(going)).to(ids.device)
                rows, token, mask = rows[going], token[kept], mask[kept]
                cache.reorder_cache(kept)
            mask = torch.cat([mask, mask.new_ones(len(mask), 1)], 1)
            said = model(
                input_ids=token[:, None],
                attention_mask=mask,
                position_ids=mask.sum(1, keepdim=True) - 1,
                past_key_values=cache,
                use_cache=True,
            )
            logits = said.logits[:, -1]
        return found, values[which].numpy()


def padded_left(prompts: Sequence[Sequence[int]], device: Any) -> tuple[Tensor, Tensor]:
    """(ids, mask) [n, L] int64: every prompt ends in the last column."""
    longest = max(map(len, prompts))
    ids = np.zeros((len(prompts), longest), np.int64)
    mask = np.zeros((len(prompts), longest), np.int64)
    for row, prompt in enumerate(prompts):
        ids[row, longest - len(prompt) :] = prompt
        mask[row, longest - len(prompt) :] = 1
    return torch.from_numpy(ids).to(device), torch.from_numpy(mask).to(device)


def positions_of(mask: Tensor) -> Tensor:
    """[n, L] the place of each token in its own text."""
    return (mask.cumsum(1) - 1).clamp(min=0)


def drawn(logits: Tensor, points: NDArray[np.float64], temperature: float) -> Tensor:
    """[n] int64 a token of each row, the one in whose part of [0, 1) its point lies; temperature 0: the likeliest."""
    if temperature == 0:
        return logits.argmax(1)
    ends = torch.softmax(logits.double() / temperature, 1).cumsum(1)
    at = torch.from_numpy(points).to(logits.device)[:, None] * ends[:, -1:]
    return torch.searchsorted(ends, at, right=True)[:, 0].clamp(max=logits.shape[1] - 1)
