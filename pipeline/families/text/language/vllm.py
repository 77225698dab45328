"""``VllmGenerator``: answers by vLLM, with adapters in temporary folders.

vLLM samples tokens itself, seeded from each row's random stream. The same seed gives the same games on the same version
and machine, but other games than transformers. It doesn't support a critic, so a2c can't use it. Source: vLLM, "LoRA
adapters" and "Offline inference". Not yet tested on a GPU: the tests use a stand-in for the package.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.counter_rng import uniforms
from pipeline.errors import MuGoError, UsageError
from pipeline.families.text.language.adapters import LoraShape, peft_files
from pipeline.families.text.language.base_model import Tokenizer
from pipeline.families.text.language.generation import NONE, VALUE_WEIGHT, Answers, Questions, TextGenerator

NOT_INSTALLED = (
    "--backend vllm: vLLM isn't installed here; wanted `pip install vllm` on a machine with a GPU, or --backend auto"
)
MOST_RANKS = 8, 16, 32, 64, 128, 256, 320, 512  # values of max_lora_rank that vLLM's LoRAConfig accepts


class VllmBase:
    """A base model in vLLM. tokenizer: of the same folder; most_rank: of its adapters."""

    def __init__(self, path: Path, tokenizer: Tokenizer, rank: int, max_loras: int) -> None:
        """rank: of the first adapter; max_loras: adapters loaded at the same time.

        Raises UsageError if vLLM isn't installed or the rank is too large.
        """
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
        self.path, self.tokenizer = path, tokenizer
        self.llm = vllm.LLM(model=str(path), enable_lora=True, max_lora_rank=found, max_loras=max_loras)
        self.adapters = 0
        self._lock = threading.Lock()  # vllm.LLM isn't thread-safe

    def generate(self, asked: Questions, seeds: Sequence[int], adapter: Any) -> list[list[int]]:
        """The tokens of each answer, including the end token."""
        common = {
            "temperature": asked.temperature, "top_p": asked.top_p, "max_tokens": asked.most,
            "stop_token_ids": list(self.tokenizer.end_tokens),
        }  # fmt: skip
        params = [self._vllm.SamplingParams(seed=seed, **common) for seed in seeds]
        prompts = [{"prompt_token_ids": list(prompt)} for prompt in asked.prompts]
        with self._lock:
            found = self.llm.generate(prompts, params, use_tqdm=False, lora_request=adapter)
        return [list(one.outputs[0].token_ids)[: asked.most] for one in found]

    def adapter(self, folder: Path) -> Any:
        self.adapters += 1
        return self._request(f"adapter-{self.adapters}", self.adapters, str(folder))


class VllmGenerator(TextGenerator):
    """An adapter on a base model in vLLM."""

    def __init__(
        self, base: VllmBase, shape: LoraShape, weights: Mapping[str, NDArray[Any]], template: str, reading: str
    ) -> None:
        """Raises UsageError for a model with a critic, or with a higher rank than vLLM was started for."""
        super().__init__(base.tokenizer, template, reading)
        if VALUE_WEIGHT in weights:
            raise UsageError("--backend vllm: it has no critic, which method a2c needs; wanted --backend auto")
        if shape.rank > base.most_rank:
            raise UsageError(
                f"--backend vllm: an adapter of rank {shape.rank}, but the first model loaded limits the rank to "
                f"{base.most_rank}; wanted models of one rank, or --backend auto"
            )
        self._base, self._folder = base, tempfile.TemporaryDirectory(prefix="mugo-adapter-")
        for name, content in peft_files(shape, weights, str(base.path)).items():
            (Path(self._folder.name) / name).write_bytes(content)
        self._adapter = base.adapter(Path(self._folder.name))

    def answer(self, asked: Questions) -> Answers:
        seeds = (uniforms(asked.keys, asked.counters) * 2**31).astype(np.int64).tolist()
        answers = self._base.generate(asked, seeds, self._adapter)
        if len(answers) != len(asked.prompts):
            raise MuGoError(f"vLLM gave {len(answers)} answers to {len(asked.prompts)} prompts")
        tokens = np.full((len(asked.prompts), asked.most), NONE, np.int32)
        for row, answer in zip(tokens, answers, strict=True):
            row[: len(answer)] = answer
        texts = [self.tokenizer.decode(answer) for answer in answers]
        return Answers(tokens, np.full(len(asked.prompts), np.nan, np.float32), texts)
