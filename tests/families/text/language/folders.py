"""Folders of small models as Hugging Face writes them: real classes, random weights, tokenizers trained on a few lines.

Weights are bfloat16, in several shards; each kind has several end tokens in generation_config.json.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer as Trained
from tokenizers import models, pre_tokenizers, trainers

from pipeline.families.text.language.base_model import transformers_package

LINES = (
    "[GAME] You are Player 0 in a 3 round game of Kuhn Poker.",
    "- Kuhn Poker is a 2-player poker game with a 3 card deck (J, Q, K; J lowest to K highest).",
    "### Starting round 1 out of 3 rounds. Your card is: 'K'",
    "Your available actions are: '[check]', '[bet]'. Your opponent folds, calls: '[fold]', '[call]'",
) * 3
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
LLAMA = (  # with the day, like Llama 3.1's
    "{{ bos_token }}<|start_header_id|>system<|end_header_id|>\n\nToday Date: "
    "{{ date_string if date_string is defined else strftime_now('%d %b %Y') }}<|eot_id|>"
    "{% for m in messages %}<|start_header_id|>{{ m['role'] }}<|end_header_id|>\n\n{{ m['content'] | trim }}<|eot_id|>"
    "{% endfor %}{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)
GEMMA = (
    "{{ bos_token }}{% for m in messages %}<start_of_turn>{{ 'model' if m['role'] == 'assistant' else m['role'] }}\n"
    "{{ m['content'] | trim }}<end_of_turn>\n{% endfor %}"
    "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)


def _trained(tokenizer: Trained, special: list[str], alphabet: list[str]) -> dict[str, Any]:
    """vocab and merges of a byte-pair encoding of LINES."""
    trainer = trainers.BpeTrainer(
        vocab_size=len(special) + len(alphabet) + 120, special_tokens=special, initial_alphabet=alphabet,
        show_progress=False,
    )  # fmt: skip
    tokenizer.train_from_iterator(LINES, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    return {"vocab": model["vocab"], "merges": [tuple(pair) for pair in model["merges"]]}


def _with_byte_fallback(kind: Any, special: list[str], more: list[str], template: str, **settings: Any) -> Any:
    """A tokenizer in the manner of SentencePiece, whose unknown characters become bytes."""
    plain = kind().backend_tokenizer
    trained = Trained(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    if plain.normalizer is not None:
        trained.normalizer = plain.normalizer
    trained.pre_tokenizer = plain.pre_tokenizer
    parts = _trained(trained, [*special, *(f"<0x{byte:02X}>" for byte in range(256))], [])
    made = kind(**parts, add_bos_token=True, **settings)
    made.add_special_tokens({"additional_special_tokens": more})
    made.chat_template = template
    return made


def qwen_tokenizer() -> Any:
    kind = transformers_package().Qwen2Tokenizer
    parts = _trained(kind().backend_tokenizer, ["<|endoftext|>"], pre_tokenizers.ByteLevel.alphabet())
    made = kind(**parts, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    made.add_special_tokens({"additional_special_tokens": ["<|im_start|>"]})
    made.chat_template = CHATML
    return made


def llama_tokenizer() -> Any:
    more = ["<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>", "<|eot_id|>"]
    return _with_byte_fallback(transformers_package().LlamaTokenizer, ["<unk>", "<s>", "</s>"], more, LLAMA)


def gemma_tokenizer() -> Any:
    special = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>"]
    more = ["<start_of_turn>", "<end_of_turn>"]
    return _with_byte_fallback(transformers_package().GemmaTokenizer, special, more, GEMMA)


SHAPE = {
    "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 512, "initializer_range": 0.2,
}  # fmt: skip
SLIDING = {"sliding_window": 16, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}


def qwen3(tokens: int) -> Any:
    """Its embeddings have room for tokens that the tokenizer lacks, as in Qwen's own folders."""
    package = transformers_package()
    return package.Qwen3ForCausalLM(package.Qwen3Config(vocab_size=tokens + 9, tie_word_embeddings=True, **SHAPE))


def llama(tokens: int) -> Any:
    package = transformers_package()
    return package.LlamaForCausalLM(package.LlamaConfig(vocab_size=tokens, tie_word_embeddings=False, **SHAPE))


def gemma2(tokens: int) -> Any:
    package = transformers_package()
    return package.Gemma2ForCausalLM(package.Gemma2Config(vocab_size=tokens, **SHAPE, **SLIDING))


def gemma3(tokens: int) -> Any:
    package = transformers_package()
    return package.Gemma3ForCausalLM(package.Gemma3TextConfig(vocab_size=tokens, **SHAPE, **SLIDING))


# tokenizer, model, the tokens that end an answer
KINDS: dict[str, tuple[Callable[[], Any], Callable[[int], Any], list[str]]] = {
    "qwen3": (qwen_tokenizer, qwen3, ["<|im_end|>", "<|endoftext|>"]),
    "llama": (llama_tokenizer, llama, ["</s>", "<|eom_id|>", "<|eot_id|>"]),
    "gemma2": (gemma_tokenizer, gemma2, ["<eos>", "<end_of_turn>"]),
    "gemma3": (gemma_tokenizer, gemma3, ["<eos>", "<end_of_turn>"]),
}


def write_folder(path: Path, kind: str, shard_size: str = "80KB") -> Path:
    """A folder of this kind; its shards have up to shard_size."""
    make_tokenizer, make_model, ends = KINDS[kind]
    tokenizer = make_tokenizer()
    with torch.random.fork_rng():
        torch.manual_seed(7)
        model = make_model(len(tokenizer)).to(torch.bfloat16)
    model.generation_config.eos_token_id = tokenizer.convert_tokens_to_ids(ends)
    model.generation_config.pad_token_id = 0
    model.config.eos_token_id = tokenizer.eos_token_id
    model.save_pretrained(path, max_shard_size=shard_size)
    tokenizer.save_pretrained(path)
    if kind == "llama":  # older folders have the template here
        (path / "chat_template.jinja").unlink()
        file = path / "tokenizer_config.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), "chat_template": LLAMA}))
    return path
