"""``Base``: a causal language model of transformers with its tokenizer; and the tiny one that init makes.

Reads and writes no files; see players.py.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from pipeline.errors import UsageError

NOT_INSTALLED = "language models need the packages of the extra text: pip install 'mugo[text]'"
END, PAD = "<eos>", "<pad>"
BYTES = 256
NUMBERS = 90  # two-digit numbers
HEAD_WIDTH = 16  # of the tiny model's attention


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


@dataclass(frozen=True)
class Base:
    """A base model. model: a causal language model of transformers, float32, frozen."""

    path: Path
    fingerprint: str
    model: Any
    tokenizer: Any
    end_token: int  # the last token of an answer

    def encode(self, text: str) -> list[int]:
        """A text's tokens, without special tokens."""
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    def decode(self, tokens: list[int]) -> str:
        return str(self.tokenizer.decode(tokens, skip_special_tokens=True))


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
