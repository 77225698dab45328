"""``Base``: a causal language model of transformers with its ``Tokenizer``; and the tiny one that init makes.

Reads and writes no files; see players.py.
"""

from __future__ import annotations

import copy
import os
import re
import warnings
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from pipeline.errors import MuGoError, UsageError

NOT_INSTALLED = "language models need the packages of the extra text: pip install 'mugo[text]'"
END, PAD = "<eos>", "<pad>"
BYTES = 256
NUMBERS = 90  # two-digit numbers
HEAD_WIDTH = 16  # of the tiny model's attention
# Some chat templates show today's date, but the same game must give the same prompts.
CHAT_DATE = "26 Jul 2024"
NO_CLOCK = f"{{%- macro strftime_now(format) -%}}{CHAT_DATE}{{%- endmacro -%}}"
MARK = "ANSWER"


def transformers_package() -> Any:
    """The package. Raises UsageError if it isn't installed."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        import transformers
    except ImportError as error:
        raise UsageError(f"{NOT_INSTALLED} ({error})") from error
    for old in ("past_key_values", "gradient_checkpointing_enable"):  # older versions lack the new names
        warnings.filterwarnings("ignore", f"`{old}` is deprecated", FutureWarning)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    return transformers


class Tokenizer:
    """A base model's tokenizer, by transformers: texts to tokens and back.

    end_tokens: an answer ends at any of them; the tokenizer's own is the first
    """

    def __init__(self, tokenizer: Any, end_tokens: Collection[int] = ()) -> None:
        """end_tokens: beside the tokenizer's own and that of its chat template. There may be none at all."""
        self._tokenizer = tokenizer
        begin = tokenizer.bos_token_id
        special = [re.escape(str(token)) for token in tokenizer.added_tokens_decoder.values() if token.special]
        self._special = re.compile("|".join(sorted(special, key=len, reverse=True)) or "(?!)")  # (?!) is found nowhere
        self._begin = [] if begin is None or list(tokenizer("a").input_ids)[:1] != [begin] else [begin]
        ends = (tokenizer.eos_token_id, *end_tokens, self._end_of_chat())
        self.end_tokens = tuple(dict.fromkeys(int(token) for token in ends if token is not None))

    def harmless(self, text: str) -> str:
        """The text without special tokens: a blank after the first character of each makes it ordinary text.

        What a player says is shown to the other, who must not take it for the end of the turn.
        """
        return self._special.sub(lambda found: f"{found[0][0]} {found[0][1:]}", text)

    def encode(self, text: str) -> list[int]:
        """A text's tokens, without special tokens."""
        return list(self._tokenizer.encode(text, add_special_tokens=False))

    def decode(self, tokens: list[int]) -> str:
        """The text of an answer, up to its end token."""
        end = next((at for at, token in enumerate(tokens) if token in self.end_tokens), len(tokens))
        return str(self._tokenizer.decode(tokens[:end], skip_special_tokens=True))

    def prompt(self, text: str, observation: str, most: int) -> list[int]:
        """At most `most` tokens of a prompt, beginning with the token for the beginning of a text if there is one.

        Leaves out the oldest tokens of the observation in it, so that what a template puts around it stays.
        """
        tokens, begin = self.encode(text), self._begin
        own = len(begin) if tokens[: len(begin)] == begin else 0  # a chat template may write it
        tokens, room = tokens[own:], most - len(begin)
        if len(tokens) > room:
            first, size = text.find(observation.strip()), len(observation.strip())
            spans: Any = ()
            if first >= 0 and self._tokenizer.is_fast:
                spans = self._tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
            inside = [at for at, (start, end) in enumerate(spans[own:]) if first <= start < end <= first + size]
            out = set(inside[: len(tokens) - room])
            tokens = [token for at, token in enumerate(tokens) if at not in out]
        return [*begin, *tokens[max(0, len(tokens) - room) :]]

    def chat(self, message: str) -> str:
        """A user's message in the chat template. Raises UsageError without one, MuGoError if it fails."""
        if not self._tokenizer.chat_template:
            raise UsageError(
                "--prompt-template chat: the base model's tokenizer has no chat template; wanted another template, "
                "such as default, or a base model with chat_template.jinja"
            )
        try:
            return self._render([{"role": "user", "content": message}], add_generation_prompt=True)
        except Exception as error:  # a template can raise anything
            raise MuGoError(f"the base model's chat template failed ({type(error).__name__}: {error})") from error

    def _render(self, messages: list[dict[str, str]], **options: Any) -> str:
        template = self._tokenizer.chat_template
        options |= {"chat_template": NO_CLOCK + template} if isinstance(template, str) else {}
        return str(self._tokenizer.apply_chat_template(messages, tokenize=False, date_string=CHAT_DATE, **options))

    def _end_of_chat(self) -> int | None:
        """The special token that the chat template writes after an answer, e.g. <|im_end|>; None if there is none."""
        if not self._tokenizer.chat_template:
            return None
        try:
            shown = self._render([{"role": "user", "content": "?"}, {"role": "assistant", "content": MARK}])
        except Exception:  # chat() reports it if the template is used
            return None
        after = self.encode(shown.rpartition(MARK)[2].lstrip())
        known = self._tokenizer.added_tokens_decoder
        return after[0] if after and after[0] in known and known[after[0]].special else None


@dataclass(frozen=True)
class Base:
    """A base model. model: a causal language model of transformers, frozen; float32, on a GPU as it is stored."""

    path: Path
    fingerprint: str
    model: Any
    tokenizer: Tokenizer


def with_same_weights(model: Any) -> Any:
    """A copy of a model that shares its weights, but neither hooks nor settings that are changed later."""
    return copy.deepcopy(model, {id(one): one for one in model.parameters()})


def without_dropout(config: Any) -> None:
    """Set every dropout of a transformers configuration and its parts to 0.

    With dropout, an adapter's log-probabilities and its divergence from the base would be random.
    """
    for name, value in list(vars(config).items()):
        if hasattr(value, "to_diff_dict"):
            without_dropout(value)
        elif ("dropout" in name or name.endswith("drop")) and isinstance(value, float):
            setattr(config, name, 0.0)


def byte_tokenizer() -> Any:
    """A tokenizer with a token for each byte, each number from 10 to 99, the end and padding.

    The numbers make each cell of a board, in an observation or an answer, one token.
    """
    transformers = transformers_package()
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())  # a printable stand-in for each byte
    vocabulary = {letter: number for number, letter in enumerate(letters)} | {END: BYTES, PAD: BYTES + 1}
    pairs = [(first, second) for first in "123456789" for second in "0123456789"]
    vocabulary |= {first + second: BYTES + 2 + number for number, (first, second) in enumerate(pairs)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=pairs))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END, pad_token=PAD)


def tiny_model(layers: int, width: int, longest: int, seed: int) -> Any:
    """A causal language model for byte_tokenizer() with random weights.

    width: a multiple of HEAD_WIDTH; longest: maximum tokens of a text.
    """
    transformers = transformers_package()
    config = transformers.LlamaConfig(
        vocab_size=BYTES + 2 + NUMBERS,
        hidden_size=width,
        intermediate_size=-(-width * 8 // 3 // 8) * 8,
        num_hidden_layers=layers,
        num_attention_heads=width // HEAD_WIDTH,
        num_key_value_heads=width // HEAD_WIDTH,
        max_position_embeddings=longest,
        initializer_range=0.1,  # the usual 0.02 suits wide models; a tiny one would learn nothing for hundreds of steps
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=BYTES,
        pad_token_id=BYTES + 1,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return transformers.LlamaForCausalLM(config)
