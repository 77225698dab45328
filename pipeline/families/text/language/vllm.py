"""``VllmGenerator``: answers by vLLM, with adapters in temporary folders.

vLLM samples tokens itself, seeded from each row's random stream. The same seed gives the same games on the same version
and machine, but other games than transformers. It doesn't support a critic, so a2c can't use it. Source: vLLM, "LoRA
adapters" and "Offline inference". Not yet tested on a GPU: the tests use a stand-in for the package.
"""

from __future__ import annotations

import json
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

from pipeline.counter_rng import uniforms
from pipeline.errors import MuGoError, UsageError
from pipeline.families.text.language.adapters import PREFIX, LoraShape
from pipeline.families.text.language.generation import NONE, VALUE_WEIGHT, Answers, Questions, TextGenerator

NOT_INSTALLED = (
    "--backend vllm: vLLM isn't installed here; wanted `pip install vllm` on a machine with a GPU, or --backend auto"
)
ADAPTERS_LOADED = 4  # at the same time
MOST_RANKS = 8, 16, 32, 64, 128, 256, 320, 512  # values of max_lora_rank that vLLM's LoRAConfig accepts


class VllmBase:
    """A base model in vLLM. tokenizer: from transformers, of the same folder; most_rank: of its adapters."""

    def __init__(self, path: Path, tokenizer: Any, rank: int) -> None:
        """rank: of the first adapter. Raises UsageError if vLLM isn't installed or the rank is too large."""
        try:
            import vllm
            from vllm.lora.request import LoRARequest
        except ImportError as error:
            raise UsageError(f"{NOT_INSTALLED} ({error})") from error
        found = next((most for most in MOST_RANKS if most >= rank), None)
        if found is None:
            raise UsageError(
                f"--backend vllm: an adapter of rank {rank}; wanted at most {MOST_RANKS[-1]}, or --backend auto"
            )
        self.most_rank = found
        self._vllm, self._request = vllm, LoRARequest
        self.path, self.tokenizer, self.end_token = path, tokenizer, int(tokenizer.eos_token_id)
        self.llm = vllm.LLM(model=str(path), enable_lora=True, max_lora_rank=found, max_loras=ADAPTERS_LOADED)
        self.adapters = 0
        self._lock = threading.Lock()  # vllm.LLM isn't thread-safe

    def generate(
        self, prompts: Sequence[Sequence[int]], seeds: Sequence[int], temperature: float, most: int, adapter: Any
    ) -> list[list[int]]:
        """The tokens of each answer, including the end token."""
        common = {"temperature": temperature, "max_tokens": most, "stop_token_ids": [self.end_token]}
        params = [self._vllm.SamplingParams(seed=seed, **common) for seed in seeds]
        asked = [{"prompt_token_ids": list(prompt)} for prompt in prompts]
        with self._lock:
            found = self.llm.generate(asked, params, use_tqdm=False, lora_request=adapter)
        return [list(one.outputs[0].token_ids)[:most] for one in found]

    def adapter(self, folder: Path) -> Any:
        self.adapters += 1
        return self._request(f"adapter-{self.adapters}", self.adapters, str(folder))


class VllmGenerator(TextGenerator):
    """An adapter on a base model in vLLM."""

    def __init__(
        self, base: VllmBase, shape: LoraShape, weights: Mapping[str, NDArray[Any]], template: str, reading: str
    ) -> None:
        """Raises UsageError for a model with a critic, or with a higher rank than vLLM was started for."""
        super().__init__(lambda text: list(base.tokenizer.encode(text, add_special_tokens=False)), template, reading)
        if VALUE_WEIGHT in weights:
            raise UsageError("--backend vllm: it has no critic, which method a2c needs; wanted --backend auto")
        if shape.rank > base.most_rank:
            raise UsageError(
                f"--backend vllm: an adapter of rank {shape.rank}, but the first model loaded limits the rank to "
                f"{base.most_rank}; wanted models of one rank, or --backend auto"
            )
        self._base, self._folder = base, tempfile.TemporaryDirectory(prefix="mugo-adapter-")
        write_adapter(Path(self._folder.name), base.path, shape, weights)
        self._adapter = base.adapter(Path(self._folder.name))

    def answer(self, asked: Questions) -> Answers:
        seeds = (uniforms(asked.keys, asked.counters) * 2**31).astype(np.int64).tolist()
        answers = self._base.generate(asked.prompts, seeds, asked.temperature, asked.most, self._adapter)
        if len(answers) != len(asked.prompts):
            raise MuGoError(f"vLLM gave {len(answers)} answers to {len(asked.prompts)} prompts")
        tokens = np.full((len(asked.prompts), asked.most), NONE, np.int32)
        for row, answer in zip(tokens, answers, strict=True):
            row[: len(answer)] = answer
        texts = [str(self._base.tokenizer.decode(answer, skip_special_tokens=True)) for answer in answers]
        return Answers(tokens, np.full(len(asked.prompts), np.nan, np.float32), texts)


def write_adapter(folder: Path, base: Path, shape: LoraShape, weights: Mapping[str, NDArray[Any]]) -> None:
    """Write an adapter in the format of the package peft."""
    arrays = {name: np.ascontiguousarray(array) for name, array in weights.items() if name.startswith(PREFIX)}
    safetensors.numpy.save_file(arrays, folder / "adapter_model.safetensors")
    described = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "r": shape.rank,
        "lora_alpha": shape.alpha,
        "target_modules": list(shape.targets),
        "base_model_name_or_path": str(base),
    }
    (folder / "adapter_config.json").write_text(json.dumps(described))
