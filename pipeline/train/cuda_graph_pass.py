"""``CudaGraphPass``: a forward and backward pass captured as a CUDA graph.

Launching the thousand operations of a small network's step one by one from Python takes three times as long as the GPU
needs to run them. A captured graph launches them all at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from pipeline.networks.torch_backends import without_garbage_collection

EAGER_CALLS = 2  # with each shape before its capture: libraries choose their kernels meanwhile
MAX_SHAPES = 4  # that are captured; an epoch has batches of two sizes, a run on several boards more shapes

Pass = Callable[[Any], tuple[Tensor, ...]]


class CudaGraphPass:
    """Calls a function that leaves gradients in parameters; captures it as a graph for each shape of batch."""

    def __init__(self, function: Pass, parameters: Sequence[Tensor], device: torch.device) -> None:
        """function: copies a batch to the device itself; all other tensors that it uses must stay in place."""
        self._function, self._parameters, self._device = function, parameters, device
        self._calls: dict[Any, int] = {}
        self._graphs: dict[Any, _Graph] = {}

    def __call__(self, batch: Any) -> tuple[Tensor, ...]:
        """What the function returns. The returned tensors and the gradients are overwritten by the next call."""
        shapes = tuple((part.shape, part.dtype) for part in batch)
        if (graph := self._graphs.get(shapes)) is None:
            calls = self._calls[shapes] = self._calls.get(shapes, 0) + 1
            if calls <= EAGER_CALLS or len(self._graphs) == MAX_SHAPES:
                return self._function(batch)
            pool = next((one.graph.pool() for one in self._graphs.values()), None)
            graph = self._graphs[shapes] = _Graph(self._function, self._parameters, batch, self._device, pool)
        return graph.replay(batch)


class _Graph:
    def __init__(
        self, function: Pass, parameters: Sequence[Tensor], batch: Any, device: torch.device, pool: Any
    ) -> None:
        """pool: memory shared with the other graphs, which never run at the same time."""
        self._parameters = parameters
        self._batch = batch._make(torch.empty_like(part, device=device) for part in batch)
        self.graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize(device)
        with without_garbage_collection(), torch.cuda.graph(self.graph, pool=pool):  # captures, computes nothing
            self._found = function(self._batch)
        self._gradients = [parameter.grad for parameter in parameters]

    def replay(self, batch: Any) -> tuple[Tensor, ...]:
        for held, part in zip(self._batch, batch, strict=True):
            held.copy_(part, non_blocking=True)
        self.graph.replay()
        for parameter, gradient in zip(self._parameters, self._gradients, strict=True):
            parameter.grad = gradient
        return self._found
