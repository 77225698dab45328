"""The interface of inference backends, the CPU's capabilities, and the OpenVINO backend.

A backend holds one folded network and gives each thread its own function, for batches of the sizes in ``batch_sizes``;
``inference.Evaluator`` pads to them. The torch backends are in ``torch_backends.py``, as torch is imported slowly.

Precisions: ``float32``, ``bfloat16``, ``float16``, ``int8``. In int8 the kernels and inputs of convolutions are
integers: kernels from -127 to 127 (or -64 to 64, see ``largest_int8_kernel``) times a scale per output channel; inputs,
which follow a ReLU, from 0 to 255 times a scale per convolution, with 255 standing for MARGIN times the largest input
in the calibration positions. Everything else is bfloat16, or float32 if the CPU has no bfloat16.
"""

from __future__ import annotations

import importlib.util
import platform
import sys
import threading
from abc import ABC, abstractmethod
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.games.contract import Evaluate, Evaluation, Planes
from pipeline.interrupts import held_back
from pipeline.machine import available_cores
from pipeline.networks.architecture import Architecture, Weights

# From this size on, a row's result had the same bits at every size measured, whatever the number of other rows. Smaller
# batches use other kernels for the small layers, which round differently.
MIN_BATCH = 16
MIN_SCALED = 1e-6  # avoids a scale of 0
MARGIN = 1.25  # for inputs beyond the calibration positions': clipping hurts far more than coarser steps (docs/log)


class Backend(ABC):
    """One folded network on one backend."""

    # Batches are padded to the largest size times one of these, rounded up, and at least to the least size.
    fractions: tuple[float, ...] = tuple(part / 2**halvings for halvings in range(12) for part in (1, 0.75))

    @abstractmethod
    def for_thread(self, index: int) -> Evaluate:
        """The evaluation function of thread number index; no other thread may call it."""

    def batch_sizes(self, max_batch: int, least: int = MIN_BATCH) -> list[int]:
        """The sizes that batches must have, ascending; the last is max_batch."""
        least = min(least, max_batch)
        return sorted({max(least, int(np.ceil(max_batch * fraction))) for fraction in self.fractions})


@cache
def _processor() -> dict[str, str]:
    """The first entry of each name in /proc/cpuinfo; empty if it doesn't exist."""
    entries: dict[str, str] = {}
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            name, _, value = line.partition(":")
            entries.setdefault(name.strip(), value.strip())
    return entries


def processor_name() -> str:
    """The CPU's name, in enough detail to distinguish machines of different speed."""
    entries = _processor()
    parts = [entries.get(name, "") for name in ("vendor_id", "cpu family", "model", "model name")]
    return " ".join(part for part in parts if part) or platform.processor() or platform.machine()


def has_bfloat16() -> bool:
    """Whether the CPU multiplies bfloat16 in hardware (AVX-512 BF16, AMX, or Arm's BF16)."""
    return bool(_flags() & {"avx512_bf16", "amx_bf16", "bf16"})


def has_fast_bfloat16() -> bool:
    """Whether the CPU computes faster in bfloat16 than in float32.

    An Intel Xeon whose AMX was hidden by a virtual machine was a third slower with AVX-512 BF16 (docs/log, 2026-11-29).
    """
    return has_bfloat16() and ("amx_bf16" in _flags() or _processor().get("vendor_id") != "GenuineIntel")


def largest_int8_kernel() -> int:
    """The largest integer that kernels are rounded to in int8; 0 if int8 isn't faster on this CPU.

    127 if it sums products of 8-bit numbers in 32 bits (AVX VNNI, AMX, or Arm's dot products). Older x86 CPUs with AVX2
    sum pairs in 16 bits, which saturate silently; 64 keeps 2 * 255 * 64 within range. Source: OpenVINO's documentation,
    "Saturation (overflow) issue workaround".
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
    """OpenVINO on the CPU. Models are compiled for each batch size when first needed.

    With a thread for every core, each thread compiles and runs its own models (NUM_STREAMS 0), because an OpenVINO
    stream may run on another core, whose caches don't hold the thread's data; else streams spread batches over all.
    """

    def __init__(
        self,
        architecture: Architecture,
        folded: Weights,
        num_threads: int,
        precision: str,
        calibration: Planes | None = None,
    ) -> None:
        """calibration: positions [N, C, H, W] that determine the scales of int8; required for it."""
        self._architecture, self._folded = architecture, folded
        self._core = load_openvino().Core()
        self._in_callers_thread = num_threads >= available_cores()
        exact = "bf16" if precision == "bfloat16" or (precision == "int8" and has_bfloat16()) else "f32"
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

    def for_thread(self, index: int) -> Evaluate:
        requests: dict[int, Any] = {}

        def run(planes: Planes) -> Evaluation:
            size = len(planes)
            if size not in requests:
                requests[size] = self._model(size, index if self._in_callers_thread else 0).create_infer_request()
            # Inputs may be shared because infer() is synchronous; outputs are copied because the next call overwrites
            # them.
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
    """The library without its telemetry, which would send a usage event from a forked process at every import.

    Interrupts wait until it is imported: its extension turns one into an ImportError, and the command would go on.
    """
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]  # None: importing it fails
    with held_back():
        import openvino

    return openvino


def input_maxima(architecture: Architecture, folded: Weights, positions: Planes) -> dict[str, float]:
    """By name the largest input of every convolution but the first, over positions [N, C, H, W], N > 0."""
    outputs: dict[str, Any] = {}
    model = openvino_model(architecture, folded, len(positions), max_outputs=outputs)
    compiled = load_openvino().Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    results = compiled([np.ascontiguousarray(positions)])
    return {name: float(results[2 + i]) for i, name in enumerate(outputs)}


class _Layers:
    """The layers of a folded network as nodes of an OpenVINO graph. Parameters as in openvino_model."""

    def __init__(self, folded: Weights, maxima: dict[str, float] | None, max_outputs: dict[str, Any] | None) -> None:
        load_openvino()
        from openvino import opset13

        self.ops = opset13
        self._folded, self._maxima, self._max_outputs = folded, maxima, max_outputs

    def convolution(self, x: Any, name: str) -> Any:
        ops, weight = self.ops, self._folded[f"{name}.weight"]
        kernel, margin = self._constant(f"{name}.weight", weight.shape), [weight.shape[-1] // 2] * 2
        if self._max_outputs is not None and name != "stem":
            self._max_outputs[name] = ops.reduce_max(x, np.array([0, 1, 2, 3]), False)
        if self._maxima is not None and name != "stem":
            largest = np.maximum(np.abs(weight).max(axis=(1, 2, 3), keepdims=True), MIN_SCALED)
            end = largest * 127 / largest_int8_kernel()  # 127 steps, of which kernels use largest_int8_kernel()
            kernel = self._quantized(kernel, -end, end, 255)
            x = self._quantized(x, 0.0, max(MARGIN * self._maxima[name], MIN_SCALED), 256)
        y = ops.convolution(x, kernel, [1, 1], margin, margin, [1, 1])
        return ops.add(y, self._constant(f"{name}.bias", (1, -1, 1, 1)))

    def linear(self, x: Any, name: str) -> Any:
        weight = self._constant(f"{name}.weight", self._folded[f"{name}.weight"].shape)
        return self.ops.add(self.ops.matmul(x, weight, False, True), self._constant(f"{name}.bias", (1, -1)))

    def linear_at_points(self, x: Any, name: str) -> Any:
        """[B, N·P]: a linear layer with N outputs at every point of x [B, C, H, W], as a 1×1 convolution."""
        kernel = self._constant(f"{name}.weight", (-1, x.shape[1], 1, 1))
        y = self.ops.convolution(x, kernel, [1, 1], [0, 0], [0, 0], [1, 1])
        return self.flat(self.ops.add(y, self._constant(f"{name}.bias", (1, -1, 1, 1))))

    def pooled(self, x: Any) -> Any:
        """[B, 2C] means and maxima, by pooling layers, which take a third of the time of reductions."""
        board, ones, nothing = [int(side) for side in x.shape][2:], [1, 1], [0, 0]
        mean = self.ops.avg_pool(x, ones, nothing, nothing, board, True)
        maximum = self.ops.max_pool(x, ones, ones, nothing, nothing, board, "floor", "explicit").output(0)
        return self.flat(self.ops.concat([mean, maximum], 1))

    def flat(self, x: Any) -> Any:
        return self.ops.reshape(x, np.array([x.shape[0], -1]), False)

    def _constant(self, name: str, shape: tuple[int, ...]) -> Any:
        return self.ops.constant(np.ascontiguousarray(self._folded[name].reshape(shape)))

    def _quantized(self, x: Any, low: Any, high: Any, levels: int) -> Any:
        """x rounded to one of this many values from low to high, which OpenVINO turns into integers."""
        bounds = [self.ops.constant(np.asarray(bound, np.float32)) for bound in (low, high)]
        return self.ops.fake_quantize(x, *bounds, *bounds, levels)


def openvino_model(
    architecture: Architecture,
    folded: Weights,
    size: int,
    maxima: dict[str, float] | None = None,
    max_outputs: dict[str, Any] | None = None,
) -> Any:
    """The folded network as an OpenVINO graph for batches of exactly `size` rows: uint8 planes in, two outputs.

    maxima: from input_maxima(), to compute convolutions in int8. max_outputs: an empty dict, which is filled with
    nodes that compute these maxima; they become further outputs, in its order.
    Converting the torch module would load torch, which is slow. Plain twin: ``folding.evaluate_plain``.
    """
    layers = _Layers(folded, maxima, max_outputs)
    ops = layers.ops
    planes = ops.parameter([size, architecture.planes, architecture.height, architecture.width], np.uint8, "planes")
    if not architecture.global_planes:
        x = layers.convolution(ops.convert(planes, "f32"), "stem")
    else:
        split = [architecture.local_planes, architecture.global_planes]
        local_planes, global_planes = ops.variadic_split(planes, 1, split).outputs()
        at_first_point = ops.slice(global_planes, *(np.array(one) for one in ([0, 0], [1, 1], [1, 1], [2, 3])))
        everywhere = ops.convert(ops.squeeze(at_first_point, np.array([2, 3])), "f32")
        added = layers.linear(everywhere, "stem_globals")
        x = layers.convolution(ops.convert(local_planes, "f32"), "stem")
        x = ops.add(x, ops.unsqueeze(added, np.array([2, 3])))
    x = ops.relu(x)
    for block in range(architecture.blocks):
        y = layers.convolution(x, f"blocks.{block}.first")
        if architecture.has_pooling(block):
            pooling = layers.linear(layers.pooled(x), f"blocks.{block}.pooling")
            y = ops.add(y, ops.unsqueeze(pooling, np.array([2, 3])))
        x = ops.relu(ops.add(layers.convolution(ops.relu(y), f"blocks.{block}.second"), x))
    policy, value = ops.split(ops.relu(layers.convolution(x, "heads")), 1, 2).outputs()
    if not architecture.point_policy:
        logits = layers.linear(layers.flat(policy), "policy_dense")
    else:
        logits = layers.linear_at_points(policy, "policy_points")
        if architecture.extra_actions:
            logits = ops.concat([logits, layers.linear(layers.pooled(policy), "policy_extra")], 1)
    hidden = ops.relu(layers.linear(layers.pooled(value), "value_hidden"))
    value = layers.linear(hidden, "value_output")
    if architecture.value_head == "scalar":
        value = ops.tanh(value)
    else:
        win, _, loss = ops.split(ops.softmax(value, 1), 1, 3).outputs()
        value = ops.subtract(win, loss)
    value_to_move = ops.reshape(value, np.array([size]), False)
    return load_openvino().Model([logits, value_to_move, *(max_outputs or {}).values()], [planes], architecture.size)
