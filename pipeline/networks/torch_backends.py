"""The torch backends: plain, torch.compile, and CUDA. See ``openvino_backend.py``."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pipeline.games.contract import Evaluate, Evaluation, Planes
from pipeline.machine import available_cores
from pipeline.networks.architecture import Architecture, Weights
from pipeline.networks.modules import per_point_logits, pooled, split_planes, value_of
from pipeline.networks.openvino_backend import Backend

HALVES_PER_COMPLEX128 = 8  # 16-bit numbers in a complex128
WARM_UPS = 3  # before capturing a graph: libraries choose kernels and allocate memory
_LOCKS: dict[tuple[torch.device, int], threading.Lock] = {}  # by stream


class FoldedNetwork(nn.Module):
    """A folded network in one precision, channels-last. Plain twin: ``folding.evaluate_plain``."""

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
        local_planes, global_planes = split_planes(self.architecture, x)
        added = None if global_planes is None else self._linear(global_planes, "stem_globals")
        x = self._rectified(local_planes, "stem", added)
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
        """ReLU(convolution + added); added is [B, C, H, W], or [B, C] for the same at all points."""
        weight, bias = self._layer(name)
        padding = weight.shape[-1] // 2
        if x.is_cuda and self.dtype != torch.float32:  # one cuDNN kernel, which reads and writes the board once
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
    if values.shape[1] % HALVES_PER_COMPLEX128 == 0:  # torch copies eight at a time in a quarter of the time
        wide = values.contiguous().view(torch.complex128)
        found = wide[:, None, None].expand(*size[:3], -1).contiguous().view(values.dtype)
    else:
        found = values[:, None, None].expand(size).contiguous()
    return found.permute(0, 3, 1, 2)


class TorchBackend(Backend):
    """Torch on the CPU, each thread on its share of the cores."""

    def __init__(self, architecture: Architecture, folded: Weights, num_threads: int, precision: str) -> None:
        self._network: Any = FoldedNetwork(architecture, folded, precision).eval()
        self._num_threads = max(1, available_cores() // num_threads)

    def for_thread(self, index: int) -> Evaluate:
        limited = -1

        def run(planes: Planes) -> Evaluation:
            nonlocal limited
            # Torch's number of threads is a setting of the calling thread.
            if limited != threading.get_ident():
                torch.set_num_threads(self._num_threads)
                limited = threading.get_ident()
            with torch.inference_mode():
                return _split(self._forward(torch.from_numpy(planes)))

        return run

    def _forward(self, planes: Tensor) -> Tensor:
        return self._network(planes)


class CompiledBackend(TorchBackend):
    """torch.compile with frozen weights. Needs a C++ compiler; takes seconds for each batch size."""

    fractions = (1, 0.5, 0.25, 0.125)  # few, because torch stops compiling after eight sizes

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


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Pauses garbage collection while a CUDA graph is captured: destroying another one, often in a reference cycle,
    would make the capture fail. Not thread-safe.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class _Pass:
    """Copy to the device, forward pass and copy back, for one batch size and one thread; on a GPU a CUDA graph.

    Must be created and destroyed in the capture thread: destroying buffers or a graph puts work on their stream, which
    would become part of a graph being captured there.
    """

    def __init__(
        self, network: FoldedNetwork, size: int, stream: torch.cuda.Stream | None, device: torch.device
    ) -> None:
        """stream: for capture and replay; None: no graph."""
        shape, pinned = network.architecture, stream is not None
        planes = size, shape.planes, shape.height, shape.width
        self._planes = torch.zeros(planes, dtype=torch.uint8, pin_memory=pinned)
        self._outputs = torch.empty((size, shape.actions + 1), dtype=torch.float32, pin_memory=pinned)
        self._network, self._stream, self._device = network, stream, device
        self._graph: torch.cuda.CUDAGraph | None = None
        if stream is not None:
            # PyTorch has 32 streams and reuses them, so threads may share one. Work that a thread starts on a stream
            # while another captures on it would end up in the graph.
            self._lock = _LOCKS.setdefault((stream.device, stream.cuda_stream), threading.Lock())
            with self._lock, torch.inference_mode(), torch.cuda.device(device), torch.cuda.stream(stream):
                for _ in range(WARM_UPS):
                    self._run()
                stream.synchronize()
                graph = torch.cuda.CUDAGraph()
                with without_garbage_collection():
                    graph.capture_begin(capture_error_mode="thread_local")  # other threads may work meanwhile
                    try:
                        self._run()
                    finally:
                        graph.capture_end()
                self._graph = graph

    def __call__(self, planes: Planes) -> Evaluation:
        self._planes.numpy()[...] = planes
        if self._graph is None or self._stream is None:
            with torch.inference_mode():
                self._run()
        else:
            with self._lock:
                with torch.cuda.device(self._device), torch.cuda.stream(self._stream):
                    self._graph.replay()
                self._stream.synchronize()
        return _split(self._outputs)

    def _run(self) -> None:
        self._outputs.copy_(self._network(self._planes.to(self._device, non_blocking=True)), non_blocking=True)


class CudaBackend(Backend):
    """Torch on a CUDA device: each thread has a stream, and buffers and a CUDA graph for each batch size.

    device: "cpu" does the same without streams, pinned memory and graphs, for tests.
    """

    fractions = tuple(1 / 2**halvings for halvings in range(12))  # few, because each size has a graph

    def __init__(self, architecture: Architecture, folded: Weights, precision: str, device: str) -> None:
        self._device = torch.device(device)
        self._network = FoldedNetwork(architecture, folded, precision).eval().to(self._device)

    def for_thread(self, index: int) -> Evaluate:
        stream = torch.cuda.Stream(self._device) if self._device.type == "cuda" else None
        passes: dict[int, _Pass] = {}

        def run(planes: Planes) -> Evaluation:
            size = len(planes)
            if size not in passes:
                passes[size] = _capture_thread().submit(_Pass, self._network, size, stream, self._device).result()
            return passes[size](planes)

        weakref.finalize(run, _destroy, passes).atexit = False
        return run


@cache
def _capture_thread() -> ThreadPoolExecutor:
    """One thread for all captures, because cuDNN searches for its fastest kernels once per thread, for seconds."""
    return ThreadPoolExecutor(1, "capture", lambda: setattr(torch.backends.cudnn, "benchmark", True))


def _destroy(passes: dict[int, _Pass]) -> None:
    with suppress(RuntimeError):  # the interpreter is shutting down
        _capture_thread().submit(_free, passes)


def _free(passes: dict[int, _Pass]) -> None:
    """Every graph has memory of its own, which torch keeps until it is asked to give back what nobody uses."""
    passes.clear()
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def _split(outputs: Tensor) -> Evaluation:
    array = outputs.numpy()
    return array[:, :-1].copy(), array[:, -1].copy()
