"""How fast does a language model of Qwen3-0.6B's shape answer and learn, and with how much memory?

    python -m benchmarks.language [--games 64] [--prompt 512] [--reply 128] [--batch 64] [--micro-batch 8]

Makes the model with random weights: nothing is downloaded. Prints one line per measurement:

    generate    new tokens/s of transformers' generate, of as many different prompts as there are games
    self-play   the same of this pipeline's generator, which plays with an adapter
    train       tokens/s (prompts and answers) of training steps of REINFORCE: forward and backward pass, update

with the largest memory that was in use: of the GPU's by torch, otherwise of the process. Both generators sample at
temperature 1 and have the adapter. A random model hardly ever writes an end token, so answers have the full length. On
a GPU weights are bfloat16, as real ones are stored; on a processor float32. --tiny is a model of two layers, to see
that everything runs. Needs the extra `text`.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.strength import ending
from pipeline.families.text.language.adapters import LoraShape, last_part, layers_of, new_adapter
from pipeline.families.text.language.base_model import (
    Base,
    Tokenizer,
    byte_tokenizer,
    transformers_package,
    with_same_weights,
)
from pipeline.families.text.language.generation import NONE, Questions, SharedBase, TorchGenerator, padded_left
from pipeline.families.text.language.network import AdapterNetwork

# Source: config.json of Qwen/Qwen3-0.6B.
QWEN3_06B = {
    "vocab_size": 151_936, "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28,
    "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "tie_word_embeddings": True,
    "rms_norm_eps": 1e-6, "max_position_embeddings": 40_960,
}  # fmt: skip
TINY = {
    **QWEN3_06B, "vocab_size": 512, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
}  # fmt: skip
HEAD = f"{'measurement':<12} {'tokens/s':>12} {'seconds':>9} {'memory MiB':>11}"


@dataclass(frozen=True)
class Measured:
    """tokens: per call; seconds: of a call, the median; mebibytes: the most memory in use."""

    name: str
    tokens: float
    seconds: float
    mebibytes: float

    def __str__(self) -> str:
        return f"{self.name:<12} {self.tokens / self.seconds:>12,.1f} {self.seconds:>9.3f} {self.mebibytes:>11,.0f}"


def make_base(shape: dict[str, Any], device: str, seed: int) -> Base:
    """A model of this shape with random weights, and a tokenizer that it never needs."""
    package = transformers_package()
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    tokenizer = Tokenizer(byte_tokenizer())
    config = package.Qwen3Config(**shape, eos_token_id=tokenizer.end_tokens[0], pad_token_id=0)
    torch.manual_seed(seed)
    with torch.device(device):
        model = package.AutoModelForCausalLM.from_config(config, dtype=dtype)
    return Base(Path("random"), "", model.requires_grad_(False).eval(), tokenizer)


def measure(name: str, call: Callable[[], int], device: str, repeats: int) -> Measured:
    """call: does the work once and returns the number of tokens. The first call isn't measured."""
    call()
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    seconds, tokens = [], 0
    for _ in range(repeats):
        begun = time.perf_counter()
        tokens = call()
        if device == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begun)
    if device == "cuda":
        most = torch.cuda.max_memory_allocated() / 2**20
    else:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
    return Measured(name, tokens, float(np.median(seconds)), most)


def measurements(given: argparse.Namespace) -> Sequence[Callable[[], Measured]]:
    """The three measurements, with one model."""
    device = given.device
    base = make_base(TINY if given.tiny else QWEN3_06B, device, given.seed)
    shape = LoraShape(given.rank, 2.0 * given.rank, sorted({last_part(name) for name in layers_of(base.model)}))
    weights = new_adapter(base.model, shape, given.seed)
    generator = np.random.default_rng(given.seed)
    # Prompts are of different lengths, as in games: the shortest half as long as the longest.
    lengths = generator.integers(given.prompt // 2, given.prompt + 1, given.games)
    prompts = [generator.integers(300, size=length).tolist() for length in lengths]

    def copy_of_base() -> Base:
        return Base(base.path, base.fingerprint, with_same_weights(base.model), base.tokenizer)

    def generate() -> Measured:
        shared = SharedBase(copy_of_base(), shape.targets)
        TorchGenerator(shared, shape, weights, "plain", "whole").answer(  # puts its adapter into the slot
            Questions(prompts[:1], np.zeros(1, np.uint64), np.zeros(1, np.int64), 1.0, 1)
        )
        ids, mask = padded_left(prompts, device)

        def call() -> int:
            with torch.inference_mode():
                found = shared.base.model.generate(
                    ids, attention_mask=mask, do_sample=True, temperature=1.0, top_k=0, max_new_tokens=given.reply
                )
            ends = (found[:, ids.shape[1] :] == base.tokenizer.end_tokens[0]).int().cumsum(1)
            return int((ends == 0).sum())

        return measure("generate", call, device, given.repeats)

    def selfplay() -> Measured:
        speaker = TorchGenerator(SharedBase(copy_of_base(), shape.targets), shape, weights, "plain", "whole")
        keys, counters = np.arange(given.games, dtype=np.uint64), np.zeros(given.games, np.int64)

        def call() -> int:
            said = speaker.answer(Questions(prompts, keys, counters, 1.0, given.reply))
            return int((said.tokens != NONE).sum())

        return measure("self-play", call, device, given.repeats)

    def train() -> Measured:
        network = AdapterNetwork(
            copy_of_base(), shape, weights, given.activation_checkpointing, given.micro_batch
        ).to(device)  # fmt: skip
        network.train()
        learned = [one for one in network.parameters() if one.requires_grad]
        optimizer = torch.optim.AdamW(learned, lr=1e-5)
        width = given.prompt + given.reply
        inputs = torch.full((given.batch, 2, width), NONE)
        inputs[:, 1] = 0
        for row in range(given.batch):
            prompt = torch.tensor(prompts[row % given.games])
            inputs[row, 0, given.prompt - len(prompt) : given.prompt] = prompt
            inputs[row, 0, given.prompt :] = torch.from_numpy(generator.integers(300, size=given.reply))
            inputs[row, 1, given.prompt :] = 1
        inputs = inputs.to(device)
        advantages = torch.where(torch.arange(given.batch, device=device) % 2 == 0, 1.0, -1.0)
        tokens = int((inputs[:, 0] != NONE).sum())

        def call() -> int:
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
                said = network(inputs)
            (-(said.logprob.sum(1) * advantages).mean()).backward()
            optimizer.step()
            return tokens

        return measure("train", call, device, given.repeats)

    return generate, selfplay, train


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", type=int, default=64, help="prompts that are answered together")
    parser.add_argument("--prompt", type=int, default=512, help="tokens of the longest prompt")
    parser.add_argument("--reply", type=int, default=128, help="tokens of an answer")
    parser.add_argument("--batch", type=int, default=64, help="answers of a training step")
    parser.add_argument("--micro-batch", type=int, default=8, help="of them in a forward pass; 0 = all")
    parser.add_argument("--activation-checkpointing", action="store_true")
    parser.add_argument("--rank", type=int, default=32, help="of the adapter, on all linear layers")
    parser.add_argument("--repeats", type=int, default=3, help="of each measurement; the median counts")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--tiny", action="store_true", help="a model of two layers, on the processor")
    given = parser.parse_args(arguments)
    if given.tiny:
        given.device = "cpu"
    where = "the processor"
    if given.device == "cuda":
        if not torch.cuda.is_available():
            raise SystemExit("benchmarks.language: torch finds no CUDA device; --device cpu measures the processor")
        where = torch.cuda.get_device_name()
    with ending(parser):
        show(given, where)


def show(given: argparse.Namespace, where: str) -> None:
    every = measurements(given)
    print(f"# {where}, torch {torch.__version__}, transformers {transformers_package().__version__}")
    print(
        f"# {given.games} prompts of up to {given.prompt} tokens, answers of {given.reply}; training steps of "
        f"{given.batch} answers, {given.micro_batch or given.batch} at a time; adapters of rank {given.rank}"
    )
    print(HEAD, flush=True)
    for one in every:
        print(one(), flush=True)


if __name__ == "__main__":
    main()
