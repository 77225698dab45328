"""LoRA: a low-rank update of a linear layer. y = W·x + (α/r)·B·(A·x), with W frozen.

Source: Hu et al. 2021, arXiv 2106.09685, section 4.1. Arrays have peft's names:
``base_model.model.LAYER.lora_A.weight`` [r, inputs] and ``….lora_B.weight`` [outputs, r].

A *slot* holds the adapter that a model's layers apply. Swapping it is free, so one base model can serve any number of
adapters in turn. Axes: r rank.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from pipeline.errors import MuGoError

Weights = dict[str, NDArray[np.float32]]
PREFIX, A, B = "base_model.model.", ".lora_A.weight", ".lora_B.weight"


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
    """The adapter in use: layer → (A, B); empty for the base model alone."""

    adapter: Mapping[str, tuple[Tensor, Tensor]] = field(default_factory=dict)
    scale: float = 1.0


class _AdapterHook:
    """Adds the adapter to a layer's output. An object, not a closure, so that a copied model gets its own slot."""

    def __init__(self, slot: Slot, layer: str) -> None:
        self.slot, self.layer = slot, layer

    def __call__(self, module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        pair = self.slot.adapter.get(self.layer)
        if pair is None:
            return output
        a, b = pair
        return output + (inputs[0].to(a.dtype) @ a.T @ b.T) * self.slot.scale


def layers_of(model: nn.Module, targets: Sequence[str] | None = None) -> dict[str, nn.Linear]:
    """The linear layers with these targets; None: all except the output layer."""
    output = model.get_output_embeddings()  # type: ignore[operator]
    found = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear)
        and (module is not output if targets is None else name.rsplit(".", 1)[-1] in targets)
    }
    if not found:
        raise MuGoError(f"the base model has no linear layers named {', '.join(targets or ['…'])}")
    return found


def put_slot(model: nn.Module, targets: Sequence[str]) -> Slot:
    """Make these layers apply the adapter in the returned slot."""
    slot = Slot()
    for name, layer in layers_of(model, targets).items():
        layer.register_forward_hook(_AdapterHook(slot, name))
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
