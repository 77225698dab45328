"""``RecordedPass``: the way of a batch through a network and back, recorded as a CUDA graph.

A GPU takes a small network's step in a third of the time that Python needs to ask for its thousand operations, one by
one. Recorded, they are asked for at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from pipeline.networks.cuda_graphs import without_garbage_collection

EAGER_CALLS = 2  # with batches of a shape, before it is recorded: libraries choose their kernels meanwhile
MOST_SHAPES = 4  # that are recorded; an epoch has batches of two sizes, a run on several boards more shapes

Pass = Callable[[Any], tuple[Tensor, ...]]


class RecordedPass:
    """Calls a function that leaves gradients in parameters, for batches of tensors of this machine's memory."""

    def __init__(self, function: Pass, parameters: Sequence[Tensor], device: torch.device) -> None:
        """function: brings a batch to the device; may depend on nothing else but on what stays in its place."""
        self._function, self._parameters, self._device = function, parameters, device
        self._calls: dict[Any, int] = {}
        self._recorded: dict[Any, _Recording] = {}

    def __call__(self, batch: Any) -> tuple[Tensor, ...]:
        """What the function returns. Those tensors, and the gradients, hold until the next call."""
        shapes = tuple((part.shape, part.dtype) for part in batch)
        if (recording := self._recorded.get(shapes)) is None:
            calls = self._calls[shapes] = self._calls.get(shapes, 0) + 1
            if calls <= EAGER_CALLS or len(self._recorded) == MOST_SHAPES:
                return self._function(batch)
            pool = next((one.graph.pool() for one in self._recorded.values()), None)
            recording = self._recorded[shapes] = _Recording(self._function, self._parameters, batch, self._device, pool)
        return recording.replay(batch)


class _Recording:
    def __init__(
        self, function: Pass, parameters: Sequence[Tensor], batch: Any, device: torch.device, pool: Any
    ) -> None:
        """pool: memory of another recording, to share; the two never run at the same time."""
        self._parameters = parameters
        self._batch = batch._make(torch.empty_like(part, device=device) for part in batch)
        self.graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize(device)
        with without_garbage_collection(), torch.cuda.graph(self.graph, pool=pool):  # which computes nothing
            self._found = function(self._batch)
        self._gradients = [parameter.grad for parameter in parameters]

    def replay(self, batch: Any) -> tuple[Tensor, ...]:
        for held, part in zip(self._batch, batch, strict=True):
            held.copy_(part, non_blocking=True)
        self.graph.replay()
        for parameter, gradient in zip(self._parameters, self._gradients, strict=True):
            parameter.grad = gradient
        return self._found
