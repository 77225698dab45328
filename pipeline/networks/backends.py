"""The engines that can run a folded network, behind one small interface.

A backend holds one network. Its *threads* run at the same time, each called by one thread only; a thread takes
batches of
exactly one of the sizes that ``batch_sizes`` lists, so nothing is compiled twice. Threads don't pad:
``inference.Evaluator`` does.

Here: the interface, what the processor can do, and OpenVINO, which needs no torch (starting torch costs over a second).
The torch engines are in ``torch_backends.py``.

Precision names: ``float32``, ``bfloat16``, ``float16``, ``int8``. The last means that kernels and inputs of
convolutions are whole numbers: kernels from -127 to 127 (or -64 to 64, see ``largest_int8_kernel``) times a scale for
each output channel; inputs, which a ReLU leaves at 0 or more, from 0 to 255 times a scale for each convolution, such
that MARGIN times the largest of calibration positions is 255. Everything else is computed as in bfloat16, or in float32
where the processor has no bfloat16.
"""

from __future__ import annotations

import importlib.util
import platform
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.config import available_cores
from pipeline.networks.architecture import Architecture, Weights

Planes = NDArray[np.uint8]
Evaluation = tuple[NDArray[np.float32], NDArray[np.float32]]  # policy_logits [B, A], value_to_move [B]
Evaluate = Callable[
    [Planes], Evaluation
]  # planes [B, C, H, W], C-contiguous; the arrays it returns are the caller's own

# Below this, engines switch to other kernels for the small layers, which round differently: with it, a row's result had
# the same bits at every size measured, so it doesn't matter how many others are evaluated beside it.
MIN_BATCH = 16
LEAST_SCALED = 1e-6  # a scale of 0 would divide by it
MARGIN = 1.25  # for what goes beyond calibration positions: what is cut off hurts far more than coarser steps (LOG.md)


class Backend(ABC):
    """One folded network on one engine, ready to run in num_threads threads."""

    # Every batch is padded to the largest size times one of these, rounded up, but not to less than MIN_BATCH.
    fractions: tuple[float, ...] = tuple(part / 2**halvings for halvings in range(12) for part in (1, 0.75))

    @abstractmethod
    def thread(self, index: int) -> Evaluate:
        """The function that runs thread index; only one thread may call it."""

    def batch_sizes(self, max_batch: int) -> list[int]:
        """Ascending sizes that threads will be called with; the last is max_batch."""
        least = min(MIN_BATCH, max_batch)
        return sorted({max(least, int(np.ceil(max_batch * fraction))) for fraction in self.fractions})


@cache
def _processor() -> dict[str, str]:
    """First entry of each name in /proc/cpuinfo; empty where there is none."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return {}
    entries: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        entries.setdefault(name.strip(), value.strip())
    return entries


def processor_name() -> str:
    """Enough of the processor's name to tell machines of different speed apart."""
    entries = _processor()
    parts = [entries.get(name, "") for name in ("vendor_id", "cpu family", "model", "model name")]
    return " ".join(part for part in parts if part) or platform.processor() or platform.machine()


def has_fast_bfloat16() -> bool:
    """Whether the processor multiplies bfloat16 in hardware (AVX-512 BF16, AMX, or Arm's BF16)."""
    return bool(_flags() & {"avx512_bf16", "amx_bf16", "bf16"})


def largest_int8_kernel() -> int:
    """The largest whole number that kernels are rounded to for int8; 0: the processor has nothing that int8 gains by.

    127 where products of 8-bit numbers are summed in 32 bits (AVX VNNI, AMX, or Arm's dot products). Older x86
    processors with AVX2 sum them by pairs in 16 bits, which saturate silently: at most 64 keeps 2 * 255 * 64 within
    them. Source: OpenVINO's documentation, "Saturation (overflow) issue workaround".
    """
    if _flags() & {"avx512_vnni", "avx_vnni", "amx_int8", "asimddp"}:
        return 127
    return 64 if "avx2" in _flags() else 0


def _flags() -> set[str]:
    entries = _processor()
    return set((entries.get("flags") or entries.get("Features") or "").split())


def is_installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


class OpenVinoBackend(Backend):
    """OpenVINO on the processor. Models are compiled per batch size when first needed.

    With a thread for every core, each thread has compiled models of its own that run in its own thread (NUM_STREAMS
    0): the
    thread's core and caches go on with the same game's work, which a stream of OpenVINO's on another core would not.
    Measured in self-play at b2c32, two threads of 128: 4.6 ms a batch instead of 5.3 to 6.1. With fewer threads than
    cores,
    streams spread each batch over all cores.
    """

    def __init__(
        self,
        architecture: Architecture,
        folded: Weights,
        num_threads: int,
        precision: str,
        calibration: Planes | None = None,
    ) -> None:
        """calibration: positions [N, C, H, W] that int8 takes its scales from; it can't do without."""
        openvino = load_openvino()
        self._architecture, self._folded = architecture, folded
        self._core = openvino.Core()
        self._in_callers_thread = num_threads >= available_cores()
        exact = "bf16" if precision == "bfloat16" or (precision == "int8" and has_fast_bfloat16()) else "f32"
        self._properties = {
            "INFERENCE_PRECISION_HINT": exact,
            "NUM_STREAMS": 0 if self._in_callers_thread else num_threads,
            "INFERENCE_NUM_THREADS": 1 if self._in_callers_thread else available_cores(),
        }
        self._maxima: dict[str, float] | None = None
        if precision == "int8":
            if calibration is None or not len(calibration):
                raise ValueError("int8 needs calibration positions to take its scales from")
            self._maxima = input_maxima(architecture, folded, calibration)
        self._compiled: dict[tuple[int, int], Any] = {}
        self._lock = threading.Lock()

    def thread(self, index: int) -> Evaluate:
        requests: dict[int, Any] = {}

        def run(planes: Planes) -> Evaluation:
            size = len(planes)
            if size not in requests:
                requests[size] = self._model(size, index if self._in_callers_thread else 0).create_infer_request()
            # The input may be shared because infer() returns only when done; outputs are copied out of the
            # request, which the next call overwrites.
            outputs = requests[size].infer([planes], share_inputs=True, share_outputs=False)
            return outputs[0], outputs[1]

        return run

    def _model(self, size: int, thread: int) -> Any:
        with self._lock:
            if (size, thread) not in self._compiled:
                model = openvino_model(self._architecture, self._folded, size, self._maxima)
                self._compiled[size, thread] = self._core.compile_model(model, "CPU", self._properties)
            return self._compiled[size, thread]


def load_openvino() -> Any:
    """The library, without its telemetry: that would send a usage event over the network, from a forked process, at
    every import. Where the telemetry package can't be imported the library uses a stub of its own.
    """
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]  # None: importing it fails
    import openvino

    return openvino


def input_maxima(architecture: Architecture, folded: Weights, positions: Planes) -> dict[str, float]:
    """The largest input of every convolution but the first, by name, over these positions [N, C, H, W], N > 0."""
    names: dict[str, Any] = {}
    model = openvino_model(architecture, folded, len(positions), watched=names)
    compiled = load_openvino().Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    results = compiled([np.ascontiguousarray(positions)])
    return {name: float(results[2 + i]) for i, name in enumerate(names)}


def openvino_model(
    architecture: Architecture,
    folded: Weights,
    size: int,
    maxima: dict[str, float] | None = None,
    watched: dict[str, Any] | None = None,
) -> Any:
    """The folded network as an OpenVINO graph for batches of exactly size rows: uint8 planes in, two outputs.

    maxima: what input_maxima() gave: convolutions are computed in int8. watched: becomes what those maxima are computed
    by; they are outputs of the graph, too, in this order.

    Written out by hand, because converting the torch module would load torch and takes longer than everything else
    at the start of a game. The tests hold it to the plain twin in ``reference.py``.
    """
    openvino = load_openvino()
    from openvino import opset13 as ops

    def constant(name: str, shape: tuple[int, ...] | None = None) -> Any:
        return ops.constant(np.ascontiguousarray(folded[name] if shape is None else folded[name].reshape(shape)))

    def scaled(x: Any, low: Any, high: Any, levels: int) -> Any:
        """x as one of so many values from low to high; OpenVINO makes whole numbers of that."""
        bounds = [ops.constant(np.asarray(bound, np.float32)) for bound in (low, high)]
        return ops.fake_quantize(x, *bounds, *bounds, levels)

    def convolution(x: Any, name: str) -> Any:
        weight, kernel = folded[f"{name}.weight"], constant(f"{name}.weight")
        margin = [weight.shape[-1] // 2] * 2
        if watched is not None and name != "stem":
            watched[name] = ops.reduce_max(x, np.array([0, 1, 2, 3]), False)
        if maxima is not None and name != "stem":
            largest = np.maximum(np.abs(weight).max(axis=(1, 2, 3), keepdims=True), LEAST_SCALED)
            end = largest * 127 / largest_int8_kernel()  # 127 steps from 0, of which kernels use so many
            kernel = scaled(kernel, -end, end, 255)
            x = scaled(x, 0.0, max(MARGIN * maxima[name], LEAST_SCALED), 256)
        y = ops.convolution(x, kernel, [1, 1], margin, margin, [1, 1])
        return ops.add(y, constant(f"{name}.bias", (1, -1, 1, 1)))

    def linear(x: Any, name: str) -> Any:
        return ops.add(ops.matmul(x, constant(f"{name}.weight"), False, True), constant(f"{name}.bias", (1, -1)))

    def pooled(x: Any) -> Any:
        board = np.array([2, 3])
        return ops.concat([ops.reduce_mean(x, board, False), ops.reduce_max(x, board, False)], 1)

    def flat(x: Any) -> Any:
        return ops.reshape(x, np.array([size, -1]), False)

    planes = ops.parameter([size, architecture.planes, architecture.height, architecture.width], np.uint8, "planes")
    x = ops.relu(convolution(ops.convert(planes, "f32"), "stem"))
    for block in range(architecture.blocks):
        y = convolution(x, f"blocks.{block}.first")
        if architecture.has_pooling(block):
            y = ops.add(y, ops.unsqueeze(linear(pooled(x), f"blocks.{block}.pooling"), np.array([2, 3])))
        x = ops.relu(ops.add(convolution(ops.relu(y), f"blocks.{block}.second"), x))
    policy, value = ops.split(ops.relu(convolution(x, "heads")), 1, 2).outputs()
    if architecture.point_policy:
        # A linear layer at every point is a 1×1 convolution.
        kernel = constant("policy_points.weight", (1, architecture.head_channels, 1, 1))
        by_point = ops.convolution(policy, kernel, [1, 1], [0, 0], [0, 0], [1, 1])
        logits = flat(ops.add(by_point, constant("policy_points.bias", (1, 1, 1, 1))))
        if architecture.extra_actions:
            logits = ops.concat([logits, linear(pooled(policy), "policy_extra")], 1)
    else:
        logits = linear(flat(policy), "policy_dense")
    hidden = ops.relu(linear(pooled(value), "value_hidden"))
    value = linear(hidden, "value_output")
    if architecture.value_head == "scalar":
        value = ops.tanh(value)
    else:
        win, _, loss = ops.split(ops.softmax(value, 1), 1, 3).outputs()
        value = ops.subtract(win, loss)
    value_to_move = ops.reshape(value, np.array([size]), False)
    outputs = [logits, value_to_move, *(watched or {}).values()]
    return openvino.Model(outputs, [planes], architecture.size)
