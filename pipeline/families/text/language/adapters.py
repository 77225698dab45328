"""LoRA: a low-rank update of a linear layer. y = W·x + (α/r)·B·(A·x), with W frozen.

Source: Hu et al. 2021, arXiv 2106.09685, section 4.1. Arrays have peft's names:
``base_model.model.LAYER.lora_A.weight`` [r, inputs] and ``….lora_B.weight`` [outputs, r].

A *slot* holds the adapter that a model's layers apply. Swapping it is free, so one base model can serve any number of
adapters in turn. Axes: r rank.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import safetensors.numpy
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pipeline.errors import MuGoError

Weights = dict[str, NDArray[np.float32]]
PREFIX, A, B = "base_model.model.", ".lora_A.weight", ".lora_B.weight"
MOST_LAYERS = 1 << 20
ALL_LINEAR = "all-linear"  # targets: every linear layer except the output layer, as in peft


@dataclass(frozen=True)
class LoraShape:
    """rank r, alpha α; targets: the last parts of the layers' names, e.g. q_proj."""

    rank: int
    alpha: float
    targets: Sequence[str]

    @property
    def scale(self) -> float:
        return self.alpha / self.rank


@dataclass
class Slot:
    """The adapter in use: layer → (A, B); empty for the base model alone.

    dropout: the chance with which each input of A is left out; key: decides which ones, together with the layer
    """

    adapter: Mapping[str, tuple[Tensor, Tensor]] = field(default_factory=dict)
    scale: float = 1.0
    dropout: float = 0.0
    key: int = 0


class _AdapterHook:
    """Adds the adapter to a layer's output. An object, not a closure, so that a copied model gets its own slot.

    number: the layer's, for the random numbers of its dropout. They don't come from torch's global generator: replicas
    in threads would share it, and activations that are recomputed need the same numbers again.
    """

    def __init__(self, slot: Slot, layer: str, number: int) -> None:
        self.slot, self.layer, self.number = slot, layer, number

    def __call__(self, module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        pair = self.slot.adapter.get(self.layer)
        if pair is None:
            return output
        a, b = pair
        x = inputs[0].to(a.dtype)
        if self.slot.dropout and module.training:
            generator = torch.Generator(x.device).manual_seed(self.slot.key * MOST_LAYERS + self.number)
            kept = torch.empty_like(x).bernoulli_(1 - self.slot.dropout, generator=generator)
            x = x * kept / (1 - self.slot.dropout)
        return output + ((x @ a.T @ b.T) * self.slot.scale).to(output.dtype)


def layers_of(model: nn.Module, targets: Sequence[str] | None = None) -> dict[str, nn.Linear]:
    """The linear layers with these targets; None: all except the output layer."""
    output = model.get_output_embeddings()  # type: ignore[operator]
    found = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear)
        and (module is not output if targets is None else last_part(name) in targets)
    }
    missing = set(targets or ()) - {last_part(name) for name in found}
    if missing or not found:
        linear = {last_part(name) for name, module in model.named_modules() if isinstance(module, nn.Linear)}
        raise MuGoError(
            f"the base model has no linear layer named {min(missing, default='…')}; its linear layers are "
            f"{', '.join(sorted(linear)) or 'none'}"
        )
    return found


def last_part(name: str) -> str:
    return name.rsplit(".", 1)[-1]


def layers_without(model: nn.Module) -> list[str]:
    """The matrices that can't have adapters because they aren't linear layers, by the last parts of their names.

    For example experts in one array (experts.gate_up_proj), or layers of another kind (c_attn.weight). Embeddings don't
    count.
    """
    linear = (nn.Linear, nn.Embedding)
    return sorted(
        {
            f"{last_part(name)}.{own}"
            for name, module in model.named_modules()
            if not isinstance(module, linear)
            for own, parameter in module.named_parameters(recurse=False)
            if parameter.ndim > 1
        }
    )


def put_slot(model: nn.Module, targets: Sequence[str]) -> Slot:
    """Make these layers apply the adapter in the returned slot."""
    slot = Slot()
    for number, (name, layer) in enumerate(layers_of(model, targets).items()):
        layer.register_forward_hook(_AdapterHook(slot, name, number))
    return slot


def new_adapter(model: nn.Module, shape: LoraShape, seed: int) -> Weights:
    """A random, B zero: the model starts equal to the base. Source: the paper; A as in peft."""
    generator = np.random.default_rng([seed, 0x10AA])
    weights: Weights = {}
    for name, layer in layers_of(model, shape.targets).items():
        bound = 1 / math.sqrt(layer.in_features)
        weights[f"{PREFIX}{name}{A}"] = generator.uniform(-bound, bound, (shape.rank, layer.in_features)).astype("f4")
        weights[f"{PREFIX}{name}{B}"] = np.zeros((layer.out_features, shape.rank), np.float32)
    return weights


def check_adapter(model: nn.Module, shape: LoraShape, weights: Mapping[str, NDArray[Any]]) -> None:
    """Raises MuGoError with the first array that is missing, unexpected or of another shape."""
    wanted: dict[str, tuple[int, int]] = {}
    for name, layer in layers_of(model, shape.targets).items():
        wanted[f"{PREFIX}{name}{A}"] = (shape.rank, layer.in_features)
        wanted[f"{PREFIX}{name}{B}"] = (layer.out_features, shape.rank)
    for name, size in wanted.items():
        found = weights.get(name)
        if found is None or found.shape != size:
            shown = "missing" if found is None else f"of shape {list(found.shape)}"
            raise MuGoError(f"adapter: {name} is {shown}; wanted {list(size)}; was it trained on another base model?")
    for name in weights:
        if name.startswith(PREFIX) and name not in wanted:
            raise MuGoError(f"adapter: {name} is unexpected; the base model has no such layer")


def pairs(tensors: Mapping[str, Tensor]) -> dict[str, tuple[Tensor, Tensor]]:
    """The adapter for a slot, from tensors by the arrays' names."""
    ends = [name for name in tensors if name.startswith(PREFIX) and name.endswith(A)]
    return {
        name.removeprefix(PREFIX).removesuffix(A): (tensors[name], tensors[name.removesuffix(A) + B]) for name in ends
    }


def peft_files(shape: LoraShape, weights: Mapping[str, NDArray[Any]], base: str) -> dict[str, bytes]:
    """The files of an adapter, by name, as peft writes and vLLM reads them. base: the base model's folder.

    Sources: peft's LoraConfig; vLLM's PEFTHelper, which needs r, lora_alpha and target_modules.
    """
    arrays = {name: np.ascontiguousarray(array) for name, array in weights.items() if name.startswith(PREFIX)}
    described = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "inference_mode": True,
        "base_model_name_or_path": base,
        "r": shape.rank,
        "lora_alpha": int(shape.alpha) if shape.alpha == int(shape.alpha) else shape.alpha,
        "lora_dropout": 0.0,
        "target_modules": list(shape.targets),
        "bias": "none",
        "modules_to_save": None,
        "use_dora": False,
        "use_rslora": False,
    }
    return {
        "adapter_model.safetensors": safetensors.numpy.save(arrays, {"format": "pt"}),
        "adapter_config.json": json.dumps(described, indent=2).encode() + b"\n",
    }
