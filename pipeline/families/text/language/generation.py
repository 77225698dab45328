"""``TorchGenerator``: a base model with an adapter, which answers many prompts in one batch.

Equal prompts are processed once, and so are the equal beginnings of their answers. Each row has its own random stream,
so an answer depends on its prompt, its stream and the model, not on the other rows, except that a batch's size may
affect rounding. The generators of one thread share a base model and take turns with its slot.

Axes: n prompts, L tokens of the longest, A maximum tokens of an answer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pipeline.counter_rng import uniforms
from pipeline.errors import MuGoError
from pipeline.families.text.language.adapters import LoraShape, Slot, check_adapter, pairs, put_slot
from pipeline.families.text.language.base_model import Base, Tokenizer
from pipeline.families.text.language.prompts import READINGS, template_named

NONE = -1  # no token
MOST_KEPT = 1 << 22  # characters and tokens of the prompts that a generator remembers: some 75 MB
MOST_PROMPTS = 128  # different prompts in a batch
MOST_TOKENS = 1 << 18  # of a batch's prompts and answers: 30 GB of cache in a model of 2 B parameters
VALUE_WEIGHT, VALUE_BIAS = "value_head.weight", "value_head.bias"


class Questions(NamedTuple):
    """prompts      n lists of tokens
    keys, counters  [n] each row's random stream and its answer's first position in it
    temperature     0 takes the likeliest token
    most            maximum tokens of an answer, including the end token
    top_p           sample only from the likeliest tokens that together have this probability
    """

    prompts: Sequence[Sequence[int]]
    keys: NDArray[np.uint64]
    counters: NDArray[np.integer]
    temperature: float
    most: int
    top_p: float = 1.0


@dataclass(frozen=True)
class Answers:
    """tokens [n, A] int32, NONE after the end; values [n] float32, for the player to move, NaN without a critic."""

    tokens: NDArray[np.int32]
    values: NDArray[np.float32]
    texts: list[str]


class SharedBase:
    """A base model with a slot, shared by the generators of one thread."""

    def __init__(self, base: Base, targets: Sequence[str]) -> None:
        self.base = base
        self.slot: Slot = put_slot(base.model, targets)
        self.device = next(base.model.parameters()).device


class TextGenerator(ABC):
    """A model that answers prompts, on any backend."""

    def __init__(self, tokenizer: Tokenizer, template: str, reading: str) -> None:
        """Raises MuGoError for an unknown template or reading."""
        if reading not in READINGS:
            raise MuGoError(f"its architecture names {reading!r}; known are {', '.join(READINGS)}")
        self.tokenizer = tokenizer
        self.template, self.reading = template_named(template, reading, tokenizer.chat), READINGS[reading]
        self._prompts: OrderedDict[tuple[str, int], list[int]] = OrderedDict()
        self._kept = 0  # characters and tokens in it

    def prompt_tokens(self, observation: str, most: int) -> list[int]:
        """An observation in this model's template, at most `most` tokens: see Tokenizer.prompt."""
        found = self._prompts.get((observation, most))
        if found is None:
            shown = self.tokenizer.harmless(observation)
            found = self.tokenizer.prompt(self.template(shown), shown, most)
            self._prompts[observation, most] = found
            self._kept += len(observation) + len(found)
            while self._kept > MOST_KEPT:
                (oldest, _), tokens = self._prompts.popitem(last=False)
                self._kept -= len(oldest) + len(tokens)
        return found

    @abstractmethod
    def answer(self, asked: Questions) -> Answers:
        """An answer to each prompt."""


class TorchGenerator(TextGenerator):
    """See the module docstring."""

    def __init__(
        self, shared: SharedBase, shape: LoraShape, weights: Mapping[str, NDArray[Any]], template: str, reading: str
    ) -> None:
        """Raises MuGoError if the weights don't fit the base model."""
        super().__init__(shared.base.tokenizer, template, reading)
        check_adapter(shared.base.model, shape, weights)
        self._shared, self._scale = shared, shape.scale
        tensors = {name: torch.from_numpy(np.array(array)).to(shared.device) for name, array in weights.items()}
        self._adapter = pairs(tensors)
        self._critic = (tensors[VALUE_WEIGHT], tensors[VALUE_BIAS]) if VALUE_WEIGHT in tensors else None

    @torch.inference_mode()
    def answer(self, asked: Questions) -> Answers:
        slot = self._shared.slot
        slot.adapter, slot.scale = self._adapter, self._scale
        different = list(dict.fromkeys(map(tuple, asked.prompts)))
        number = {prompt: i for i, prompt in enumerate(different)}
        numbers = np.array([number[tuple(prompt)] for prompt in asked.prompts])
        tokens = np.full((len(asked.prompts), asked.most), NONE, np.int32)
        values = np.full(len(asked.prompts), np.nan, np.float32)
        for start in range(0, len(different), MOST_PROMPTS):
            some = different[start : start + MOST_PROMPTS]
            rows = np.flatnonzero((numbers >= start) & (numbers < start + MOST_PROMPTS))
            together = max(1, MOST_TOKENS // (max(map(len, some)) + asked.most))
            for part in np.array_split(rows, -(-len(rows) // together)):
                own, which = np.unique(numbers[part], return_inverse=True)
                prompts = [different[number] for number in own.tolist()]
                tokens[part], values[part] = self._answer(prompts, which, part, asked)
        texts = [self.tokenizer.decode(row[row != NONE].tolist()) for row in tokens]
        return Answers(tokens, values, texts)

    @torch.inference_mode()
    def logprobs(self, prompts: Sequence[Sequence[int]], answers: Sequence[str]) -> NDArray[np.float64]:
        """[n] the log-probability of each answer to its prompt, and of any end token after it, at temperature 1."""
        slot, model, ends = self._shared.slot, self._shared.base.model, self.tokenizer.end_tokens
        slot.adapter, slot.scale = self._adapter, self._scale
        found = []
        for start in range(0, len(prompts), MOST_PROMPTS):
            encoded = [[*self.tokenizer.encode(text), ends[0]] for text in answers[start : start + MOST_PROMPTS]]
            texts = [[*prompt, *tokens] for prompt, tokens in zip(prompts[start:], encoded, strict=False)]
            ids, mask = padded_left(texts, self._shared.device)
            longest = max(map(len, encoded))
            logits = model(
                input_ids=ids,
                attention_mask=mask,
                position_ids=positions_of(mask),
                use_cache=False,
                logits_to_keep=longest + 1,
            ).logits[:, :-1]
            log_each = torch.log_softmax(logits.double(), -1)
            log_all = log_each.gather(-1, ids[:, -longest:, None])[..., 0]
            log_all[:, -1] = log_each[:, -1, list(ends)].logsumexp(-1)
            found += [float(row[longest - len(tokens) :].sum()) for row, tokens in zip(log_all, encoded, strict=True)]
        return np.array(found)

    def _answer(
        self, prompts: Sequence[Sequence[int]], which: NDArray[np.int64], of: NDArray[np.int64], asked: Questions
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Tokens and values for rows `of` [m] of asked, whose prompts are prompts[which[m]]."""
        model = self._shared.base.model
        ends = np.array(self.tokenizer.end_tokens)
        keys, counters, most = asked.keys[of], asked.counters[of], asked.most
        ids, mask = padded_left(prompts, self._shared.device)
        output = model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions_of(mask),
            use_cache=True,
            logits_to_keep=1,
            output_hidden_states=self._critic is not None,
        )
        values = torch.full((len(prompts),), torch.nan)
        if self._critic is not None:
            values = (output.hidden_states[-1][:, -1].float() @ self._critic[0].T + self._critic[1])[:, 0].cpu()
        cache, logits = output.past_key_values, output.logits[:, -1]
        rows, text = np.arange(len(which)), which  # unfinished answers, and each one's text in the batch
        found = np.full((len(which), most), NONE, np.int32)
        for step in range(most):
            points = uniforms(keys[rows], counters[rows] + step)
            own = logits.float()[torch.from_numpy(text).to(ids.device)]
            token = sample_tokens(own, points, asked.temperature, asked.top_p).cpu().numpy()
            found[rows, step] = token
            going = ~np.isin(token, ends)
            if step + 1 == most or not going.any():
                break
            # Answers to one prompt that have the same tokens so far continue as one text.
            rows, pairs = rows[going], np.stack([text[going], token[going]])
            branches, text = np.unique(pairs, axis=1, return_inverse=True)
            text = text.reshape(-1)
            before, tokens = torch.from_numpy(branches).to(ids.device)
            if not torch.equal(before, torch.arange(len(mask), device=ids.device)):
                cache.reorder_cache(before)
                mask = mask[before]
            mask = torch.cat([mask, mask.new_ones(len(mask), 1)], 1)
            output = model(
                input_ids=tokens[:, None],
                attention_mask=mask,
                position_ids=mask.sum(1, keepdim=True) - 1,
                past_key_values=cache,
                use_cache=True,
            )
            logits = output.logits[:, -1]
        return found, values[which].numpy()


def padded_left(prompts: Sequence[Sequence[int]], device: Any) -> tuple[Tensor, Tensor]:
    """(ids, mask) [n, L] int64, with right-aligned prompts."""
    longest = max(map(len, prompts))
    ids = np.zeros((len(prompts), longest), np.int64)
    mask = np.zeros((len(prompts), longest), np.int64)
    for row, prompt in enumerate(prompts):
        ids[row, longest - len(prompt) :] = prompt
        mask[row, longest - len(prompt) :] = 1
    return torch.from_numpy(ids).to(device), torch.from_numpy(mask).to(device)


def positions_of(mask: Tensor) -> Tensor:
    """[n, L] the position of each token in its own text."""
    return (mask.cumsum(1) - 1).clamp(min=0)


def sample_tokens(logits: Tensor, points: NDArray[np.float64], temperature: float, top_p: float = 1.0) -> Tensor:
    """[n] int64 a token for each row, sampled with points [n] in [0, 1); the likeliest for temperature 0.

    top_p: as in Questions. Source: Holtzman et al. 2020, "The Curious Case of Neural Text Degeneration", section 3.1.
    """
    if temperature == 0:
        return logits.argmax(1)
    chances = torch.softmax(logits.double() / temperature, 1)
    if top_p < 1:
        falling, order = chances.sort(dim=1, descending=True, stable=True)
        falling[falling.cumsum(1) - falling >= top_p] = 0
        chances = chances.scatter(1, order, falling)
    ends = chances.cumsum(1)
    at = torch.from_numpy(points).to(logits.device)[:, None] * ends[:, -1:]
    return torch.searchsorted(ends, at, right=True)[:, 0].clamp(max=logits.shape[1] - 1)
