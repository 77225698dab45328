"""The folded network on torch: plain, through torch.compile, or on a CUDA device. See ``backends.py``."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pipeline.config import available_cores
from pipeline.games.base import Evaluate, Evaluation, Planes
from pipeline.networks.architecture import Architecture, Weights
from pipeline.networks.backends import Backend
from pipeline.networks.modules import per_point_logits, pooled, split_planes, value_of


class FoldedNetwork(nn.Module):
    """A network as ``folding.fold`` leaves it, in one precision, channels-last. Twin of ``folding.evaluate_plain``."""

    def __init__(self, architecture: Architecture, folded: Weights, precision: str) -> None:
        super().__init__()
        self.architecture = architecture
        self.dtype: torch.dtype = getattr(torch, precision)
        for name, array in folded.items():
            tensor = torch.from_numpy(np.array(array, np.float32)).to(self.dtype)
            if tensor.ndim == 4:
                tensor = tensor.contiguous(memory_format=torch.channels_last)
            self.register_parameter(name.replace(".", "_"), nn.Parameter(tensor, requires_grad=False))

    def forward(self, planes: Tensor) -> Tensor:
        """[B, A + 1] float32, policy logits and value_to_move side by side, of planes [B, C, H, W] uint8."""
        x = planes.to(self.dtype, memory_format=torch.channels_last)
        local, told = split_planes(self.architecture, x)
        x = self._convolution(local, "stem")
        if told is not None:
            x = x + self._linear(told, "stem_globals")[:, :, None, None]
        x = F.relu(x)
        for block in range(self.architecture.blocks):
            y = self._convolution(x, f"blocks_{block}_first")
            if self.architecture.has_pooling(block):
                y = y + self._linear(pooled(x), f"blocks_{block}_pooling")[:, :, None, None]
            x = F.relu(x + self._convolution(F.relu(y), f"blocks_{block}_second"))
        policy, value = F.relu(self._convolution(x, "heads")).chunk(2, dim=1)
        if not self.architecture.point_policy:
            logits = self._linear(policy.flatten(1), "policy_dense")
        else:
            logits = per_point_logits(policy, *self._layer("policy_points"))
            if self.architecture.extra_actions:
                logits = torch.cat([logits, self._linear(pooled(policy), "policy_extra")], dim=1)
        hidden = F.relu(self._linear(pooled(value), "value_hidden"))
        value_to_move = value_of(self._linear(hidden, "value_output").float())
        return torch.cat([logits.float(), value_to_move[:, None]], dim=1)

    def _layer(self, name: str) -> tuple[Tensor, Tensor]:
        return getattr(self, f"{name}_weight"), getattr(self, f"{name}_bias")

    def _convolution(self, x: Tensor, name: str) -> Tensor:
        weight, bias = self._layer(name)
        return F.conv2d(x, weight, bias, padding=weight.shape[-1] // 2)

    def _linear(self, x: Tensor, name: str) -> Tensor:
        return F.linear(x, *self._layer(name))


class TorchBackend(Backend):
    """Torch on the processor, each thread on its share of the cores."""

    def __init__(self, architecture: Architecture, folded: Weights, num_threads: int, precision: str) -> None:
        self._network: Any = FoldedNetwork(architecture, folded, precision).eval()
        self._num_threads = max(1, available_cores() // num_threads)

    def for_thread(self, index: int) -> Evaluate:
        limited = -1

        def run(planes: Planes) -> Evaluation:
            nonlocal limited
            # Torch keeps its number of threads per calling thread, so each has to set its own.
            if limited != threading.get_ident():
                torch.set_num_threads(self._num_threads)
                limited = threading.get_ident()
            with torch.inference_mode():
                return _split(self._forward(torch.from_numpy(planes)))

        return run

    def _forward(self, planes: Tensor) -> Tensor:
        return self._network(planes)


class CompiledBackend(TorchBackend):
    """The same through torch.compile with frozen weights. Needs a C++ compiler; takes seconds for each batch size."""

    fractions = (1, 0.5, 0.25, 0.125)  # few sizes: each is compiled, and torch gives up after eight

    def __init__(self, architecture: Architecture, folded: Weights, num_threads: int, precision: str) -> None:
        super().__init__(architecture, folded, num_threads, precision)
        import torch._inductor.config

        torch._inductor.config.freezing = True
        self._network = torch.compile(self._network, dynamic=False)
        self._compiled_sizes: set[int] = set()
        self._lock = threading.Lock()

    def _forward(self, planes: Tensor) -> Tensor:
        if len(planes) not in self._compiled_sizes:
            with self._lock:
                self._network(planes)
                self._compiled_sizes.add(len(planes))
        return self._network(planes)


class CudaBackend(Backend):
    """Torch on a CUDA device: one stream and one pair of pinned buffers per thread, so that threads overlap.

    device: "cpu" takes the same way without streams and pinned memory, for tests; no GPU has run it yet.
    """

    def __init__(self, architecture: Architecture, folded: Weights, precision: str, device: str) -> None:
        self._device = torch.device(device)
        self._network = FoldedNetwork(architecture, folded, precision).eval().to(self._device)

    def for_thread(self, index: int) -> Evaluate:
        stream = torch.cuda.Stream(self._device) if self._device.type == "cuda" else None
        buffers: dict[int, tuple[Tensor, Tensor]] = {}

        def run(planes: Planes) -> Evaluation:
            with ExitStack() as held:
                held.enter_context(torch.inference_mode())
                if stream is not None:
                    held.enter_context(torch.cuda.device(self._device))
                    held.enter_context(torch.cuda.stream(stream))
                if len(planes) not in buffers:
                    outputs, pinned = self._network.architecture.actions + 1, stream is not None
                    buffers[len(planes)] = (
                        torch.empty(planes.shape, dtype=torch.uint8, pin_memory=pinned),
                        torch.empty((len(planes), outputs), dtype=torch.float32, pin_memory=pinned),
                    )
                given, found = buffers[len(planes)]
                given.numpy()[...] = planes
                found.copy_(self._network(given.to(self._device, non_blocking=True)), non_blocking=True)
                if stream is not None:
                    stream.synchronize()
                return _split(found.clone())

        return run


def _split(outputs: Tensor) -> Evaluation:
    array = outputs.numpy()
    return np.ascontiguousarray(array[:, :-1]), np.ascontiguousarray(array[:, -1])
