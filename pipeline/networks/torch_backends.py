"""The folded network on torch: plain, through torch.compile, or on a CUDA device. See ``backends.py``."""

from __future__ import annotations

import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pipeline.games.contract import Evaluate, Evaluation, Planes
from pipeline.machine import available_cores
from pipeline.networks.architecture import Architecture, Weights
from pipeline.networks.backends import Backend
from pipeline.networks.cuda_graphs import without_garbage_collection
from pipeline.networks.modules import per_point_logits, pooled, split_planes, value_of

EIGHT = 8  # numbers of 16 bits are a complex128
WARM_UPS = 3  # before a pass is recorded: libraries choose their kernels and take their memory


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
        x = self._rectified(local, "stem", None if told is None else self._linear(told, "stem_globals"))
        for block in range(self.architecture.blocks):
            board = self._linear(pooled(x), f"blocks_{block}_pooling") if self.architecture.has_pooling(block) else None
            y = self._rectified(x, f"blocks_{block}_first", board)
            x = self._rectified(y, f"blocks_{block}_second", x)
        policy, value = self._rectified(x, "heads").chunk(2, dim=1)
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

    def _rectified(self, x: Tensor, name: str, added: Tensor | None = None) -> Tensor:
        """The positive part of a convolution plus added, [B, C, H, W] or, the same at all points, [B, C]."""
        weight, bias = self._layer(name)
        padding = weight.shape[-1] // 2
        if x.is_cuda and self.dtype != torch.float32:  # in one kernel of cuDNN's, which reads and writes the board once
            shape: tuple[Any, ...] = ((1, 1), (padding, padding), (1, 1), 1)
            if added is None:
                return torch.cudnn_convolution_relu(x, weight, bias, *shape)
            everywhere = added if added.ndim == 4 else _at_all_points(added, x)
            return torch.cudnn_convolution_add_relu(x, weight, everywhere, 1.0, bias, *shape)
        y = F.conv2d(x, weight, bias, padding=padding)
        if added is not None:
            y += added if added.ndim == 4 else added[:, :, None, None]
        return y.relu_()

    def _linear(self, x: Tensor, name: str) -> Tensor:
        return F.linear(x, *self._layer(name))


def _at_all_points(values: Tensor, board: Tensor) -> Tensor:
    """[B, C, H, W] channels-last: values [B, C] of a 16-bit type at each point of board [B, …, H, W]."""
    size = *values.shape[:1], *board.shape[2:], values.shape[1]
    if values.shape[1] % EIGHT == 0:  # copied as one: a kernel of torch's for single ones takes four times as long
        wide = values.contiguous().view(torch.complex128)
        found = wide[:, None, None].expand(*size[:3], -1).contiguous().view(values.dtype)
    else:
        found = values[:, None, None].expand(size).contiguous()
    return found.permute(0, 3, 1, 2)


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


class _Pass:
    """The way of one batch size to the device, through the network and back, for one thread.

    On a GPU it is recorded once as a CUDA graph: starting it takes one call instead of some fifty, each of which needs
    Python's lock, which the other threads want too.

    It has to be made and let go of by the recorder: its buffers and its graph leave marks on their stream when they go,
    which would become part of what is being recorded there.
    """

    def __init__(
        self, network: FoldedNetwork, size: int, stream: torch.cuda.Stream | None, device: torch.device
    ) -> None:
        """stream: on which it is recorded and runs; None where nothing is recorded."""
        shape, pinned = network.architecture, stream is not None
        planes = size, shape.planes, shape.height, shape.width
        self._given = torch.zeros(planes, dtype=torch.uint8, pin_memory=pinned)
        self._found = torch.empty((size, shape.actions + 1), dtype=torch.float32, pin_memory=pinned)
        self._network, self._stream, self._device = network, stream, device
        self._graph: torch.cuda.CUDAGraph | None = None
        if stream is not None:
            self._alone = _only_one_on(stream)
            with self._alone, torch.inference_mode(), torch.cuda.device(device), torch.cuda.stream(stream):
                for _ in range(WARM_UPS):
                    self._run()
                stream.synchronize()
                graph = torch.cuda.CUDAGraph()
                with without_garbage_collection():
                    graph.capture_begin(capture_error_mode="thread_local")  # others' work goes on meanwhile
                    try:
                        self._run()
                    finally:
                        graph.capture_end()
                self._graph = graph

    def __call__(self, planes: Planes) -> Evaluation:
        self._given.numpy()[...] = planes
        if self._graph is None or self._stream is None:
            with torch.inference_mode():
                self._run()
        else:
            with self._alone:
                with torch.cuda.device(self._device), torch.cuda.stream(self._stream):
                    self._graph.replay()
                self._stream.synchronize()
        return _split(self._found)

    def _run(self) -> None:
        self._found.copy_(self._network(self._given.to(self._device, non_blocking=True)), non_blocking=True)


class CudaBackend(Backend):
    """Torch on a CUDA device: each thread has a stream, and buffers and a recorded pass for each batch size.

    device: "cpu" takes the same way without streams, pinned memory and recording, for tests.
    """

    fractions = tuple(1 / 2**halvings for halvings in range(12))  # few sizes: each is recorded

    def __init__(self, architecture: Architecture, folded: Weights, precision: str, device: str) -> None:
        self._device = torch.device(device)
        self._network = FoldedNetwork(architecture, folded, precision).eval().to(self._device)

    def for_thread(self, index: int) -> Evaluate:
        stream = torch.cuda.Stream(self._device) if self._device.type == "cuda" else None
        passes: dict[int, _Pass] = {}

        def run(planes: Planes) -> Evaluation:
            size = len(planes)
            if size not in passes:
                passes[size] = _recorder().submit(_Pass, self._network, size, stream, self._device).result()
            return passes[size](planes)

        weakref.finalize(run, _let_go, passes).atexit = False
        return run


@cache
def _recorder() -> ThreadPoolExecutor:
    """The one thread that records: cuDNN looks for its fastest kernels once for each thread, which takes seconds."""
    return ThreadPoolExecutor(1, "recorder", lambda: setattr(torch.backends.cudnn, "benchmark", True))


def _let_go(passes: dict[int, _Pass]) -> None:
    with suppress(RuntimeError):  # the program ends, and nothing is recorded any more
        _recorder().submit(passes.clear)


_LOCKS: dict[tuple[torch.device, int], threading.Lock] = {}


def _only_one_on(stream: torch.cuda.Stream) -> threading.Lock:
    """PyTorch has 32 streams, which it hands out again and again, so threads share them. What one of them runs on a
    stream while it is being recorded for another one would spoil the recording.
    """
    return _LOCKS.setdefault((stream.device, stream.cuda_stream), threading.Lock())


def _split(outputs: Tensor) -> Evaluation:
    array = outputs.numpy()
    return array[:, :-1].copy(), array[:, -1].copy()
