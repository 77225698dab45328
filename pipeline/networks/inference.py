"""Batched inference: positions in, policy logits and values out, on the fastest engine that is right.

``make_evaluators`` gives one ``Evaluator`` per thread; each is called by its own thread. Which engine runs them is
settled by measurement: with ``backend="auto"`` every engine this machine has is timed for a moment, and the fastest is
remembered in ``~/.cache/mugo/backends.json`` for that processor, architecture and library versions: whoever evaluates a
network of that architecture here does it alike, however many rows and threads there are. A lost or damaged cache only
costs the next measurement. Nothing is remembered where an engine was refused: the next model may suit it.

Nothing is used unchecked: at every start the engine about to be used answers a few positions, and is refused if it
differs from plain float32 numpy by more than its tolerance: exact ones in any softmax probability or value, int8 on
average. Exact engines answer made-up positions, int8 calibration ones that its scales don't come from. Where the
remembered
engine is refused for these weights, the others are tried.

B batch, K rows asked for (0 ≤ K ≤ max_batch), C planes, H×W board, A actions. Values are seen by the player to move.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.config import BACKENDS, available_cores
from pipeline.errors import MuGoError, UsageError
from pipeline.networks.architecture import Architecture, Weights
from pipeline.networks.backends import (
    Backend,
    Evaluate,
    Evaluation,
    OpenVinoBackend,
    Planes,
    has_fast_bfloat16,
    is_installed,
    largest_int8_kernel,
    processor_name,
)
from pipeline.networks.folding import fold
from pipeline.networks.reference import evaluate_plain
from pipeline.progress import SILENT, Progress
from pipeline.threads import run_together

POLICY_TOLERANCE = 0.03  # largest difference of any move's probability from float32
VALUE_TOLERANCE = 0.05  # largest difference of the value, which spans -1 to 1
# Of int8, on calibration positions, since others may be beyond its scales: means over positions, for what rounds to 255
# steps is now and then wrong in one, what is broken in all. Of the policy: the share of it that is misplaced.
INT8_POLICY_TOLERANCE, INT8_VALUE_TOLERANCE = 0.05, 0.05
WORTH_INT8 = 1.1  # how much faster than an exact engine it must be
CHECKED_POSITIONS = 8
MEASURED_SECONDS = 0.3  # per engine and window; the best of MEASURED_WINDOWS counts, so a busy moment doesn't decide
MEASURED_WINDOWS = 3
MEASURED_BATCH = 64  # of each thread, of which there is one for each core


@dataclass(frozen=True)
class Engine:
    """One way to run a network on this machine."""

    backend: str  # torch, compile or openvino
    device: str  # cpu, cuda, cuda:1 …
    precision: str  # float32, bfloat16, float16 or int8

    def __str__(self) -> str:
        return f"{self.backend} {self.device} {self.precision}"

    def build(
        self, architecture: Architecture, folded: Weights, num_threads: int, calibration: Planes | None = None
    ) -> Backend:
        if self.backend == "openvino":
            return OpenVinoBackend(architecture, folded, num_threads, self.precision, calibration)
        from pipeline.networks import torch_backends  # imports torch: over a second that OpenVINO needn't wait for

        if self.device != "cpu":
            return torch_backends.CudaBackend(architecture, folded, self.precision, self.device)
        kinds = {"torch": torch_backends.TorchBackend, "compile": torch_backends.CompiledBackend}
        return kinds[self.backend](architecture, folded, num_threads, self.precision)


class Evaluator:
    """One thread: ``evaluator(planes [K, C, H, W] uint8) -> (policy_logits [K, A], value_to_move [K])``, float32.

    A network that was made when its game had fewer planes sees the first ones: new ones always come after them.
    0 ≤ K ≤ max_batch. Batches are padded with empty boards to the next of a few fixed sizes, so a row's result doesn't
    depend on what the other rows hold. (How many there are may change its last bits: another size, another kernel;
    see backends.MIN_BATCH.)
    Only one thread may call it. The arrays it returns belong to the caller. Another shape or dtype: ValueError.
    """

    def __init__(self, architecture: Architecture, run: Evaluate, sizes: Sequence[int], engine: Engine) -> None:
        self.engine = engine
        self._run = run
        self._sizes = np.asarray(sizes)
        self._board = (architecture.planes, architecture.height, architecture.width)
        self._num_actions = architecture.actions
        self._padded: dict[int, Planes] = {}

    @property
    def max_batch(self) -> int:
        return int(self._sizes[-1])

    def __call__(self, planes: Planes) -> Evaluation:
        count = len(planes)
        seen = planes[:, : self._board[0]]
        if seen.shape[1:] != self._board or planes.dtype != np.uint8 or count > self.max_batch:
            least, height, width = self._board
            raise ValueError(
                f"planes are {planes.dtype}{list(planes.shape)}; "
                f"wanted uint8[at most {self.max_batch}, at least {least}, {height}, {width}]"
            )
        if count == 0:
            return np.zeros((0, self._num_actions), np.float32), np.zeros(0, np.float32)
        size = int(self._sizes[np.searchsorted(self._sizes, count)])
        if size == count:
            return self._run(np.ascontiguousarray(seen))
        if size not in self._padded:
            self._padded[size] = np.zeros((size, *self._board), np.uint8)
        padded = self._padded[size]
        padded[:count] = seen
        padded[count:] = 0
        policy_logits, value_to_move = self._run(padded)
        return policy_logits[:count], value_to_move[:count]


def make_evaluators(
    architecture: Architecture,
    weights: Weights,
    max_batch: int,
    num_threads: int,
    backend: str = "auto",
    device: str | None = None,
    progress: Progress = SILENT,
    calibration: Planes | None = None,
) -> list[Evaluator]:
    """One evaluator per thread for these weights, on the engine asked for or, with ``auto``, the fastest.

    max_batch: rows per call, per thread. device: None = a CUDA device if there is one, else the processor.
    calibration: positions [N, C, H, W] of the game; without them int8 is out of the question.
    Raises UsageError for a backend that is unknown or not installed, MuGoError for weights that don't fit or if no
    engine computes them correctly.
    """
    folded = fold(architecture, weights)
    engines = available_engines(backend, device)
    scaling = checked = None
    if calibration is None:
        engines = [engine for engine in engines if engine.precision != "int8"]
    else:
        seen = calibration[:, : architecture.planes]
        scaling, checked = seen[::2], seen[1::2]
    check = _Check(architecture, folded, checked)
    if backend == "auto" and len(engines) > 1:
        place = _CachedChoice(architecture, device, engines)
        choice = place.read()
        if choice not in engines:
            progress.say("measuring inference backends once for this machine…")
            rates = _measure_all(engines, architecture, folded, check, progress, scaling)
            choice = max(rates, key=lambda one: rates[one] / _worth(one), default=None)
            if choice is not None:
                if not check.has_refused:  # it may do well with the next model's weights
                    place.write(choice, rates)
                progress.say(f"fastest: {choice}, {rates[choice]:,.0f} evaluations/s")
        engines = sorted(engines, key=lambda engine: engine != choice)
    refused = []
    for engine in engines:
        try:
            evaluators = _build(engine, architecture, folded, max_batch, num_threads, scaling)
        except Exception as error:  # an engine that can't start is one that isn't there
            problem: str | None = f"can't be used: {' '.join(str(error).split())[:200]}"
        else:
            problem = check.problem(evaluators[0])
        if problem is None:
            return evaluators
        progress.warn(f"backend {engine} refused: {problem}")
        refused.append(f"{engine} ({problem})")
    raise MuGoError(
        f"inference backend {backend}: nothing computes this network as float32 does: "
        f"{'; '.join(refused) or 'int8 needs calibration positions'}; try --backend torch"
    )


def _worth(engine: Engine) -> float:
    """What its rate is divided by when the fastest is chosen."""
    return WORTH_INT8 if engine.precision == "int8" else 1.0


def measure_network(
    architecture: Architecture,
    weights: Weights,
    batch: int,
    threads: int,
    backend: str = "auto",
    seconds: float = 2.0,
    progress: Progress = SILENT,
    calibration: Planes | None = None,
) -> float:
    """Evaluations per second of the bare network, all threads running at once with full batches for this long."""
    evaluators = make_evaluators(
        architecture, weights, batch, threads, backend, progress=progress, calibration=calibration
    )
    return evaluation_rate(evaluators, _made_up_planes(architecture, batch), seconds)


def available_engines(backend: str, device: str | None = None) -> list[Engine]:
    """The engines that ``backend`` allows on this machine, those to prefer unmeasured first.

    ``auto`` leaves torch.compile out where OpenVINO is installed: it compiles for tens of seconds and again at each
    start, and was never faster than OpenVINO on the machines measured.
    Raises UsageError if the backend is unknown or isn't installed.
    """
    if backend not in BACKENDS:
        raise UsageError(f"inference backend {backend!r}: wanted one of {', '.join(BACKENDS)}")
    if backend in ("openvino", "int8") and not is_installed("openvino"):
        raise UsageError(f"inference backend {backend}: not installed; run pip install '.[fast]' or use --backend auto")
    compiler = any(shutil.which(name) for name in (os.environ.get("CXX", "c++"), "g++", "clang++"))
    if backend == "compile" and not compiler:
        raise UsageError("inference backend compile: no C++ compiler (c++, g++, clang++) found; use --backend auto")
    if device is None and backend in ("auto", "torch") and _may_have_cuda():
        import torch

        device = "cuda" if torch.cuda.is_available() else "cpu"
    device = device or "cpu"
    if device != "cpu":
        return [Engine("torch", device, precision) for precision in ("float16", "bfloat16", "float32")]
    if backend == "int8":
        if not largest_int8_kernel():
            raise UsageError("inference backend int8: this processor has nothing to gain by it; use --backend auto")
        return [Engine("openvino", "cpu", "int8")]
    precisions = ("bfloat16", "float32") if has_fast_bfloat16() else ("float32",)
    names = [backend]
    if backend == "auto":
        fastest_last = ["openvino"] if is_installed("openvino") else ["compile"] if compiler else []
        names = [*fastest_last, "torch"]
    exact = [Engine(name, "cpu", precision) for precision in precisions for name in names]
    int8 = backend == "auto" and is_installed("openvino") and largest_int8_kernel() > 0
    return [Engine("openvino", "cpu", "int8"), *exact] if int8 else exact


def _may_have_cuda() -> bool:
    """Cheap and without torch: is there an NVIDIA driver at all?"""
    return Path("/dev/nvidiactl").exists() or Path("/proc/driver/nvidia/version").exists() or os.name == "nt"


def _build(
    engine: Engine,
    architecture: Architecture,
    folded: Weights,
    max_batch: int,
    num_threads: int,
    calibration: Planes | None,
) -> list[Evaluator]:
    built = engine.build(architecture, folded, num_threads, calibration)
    sizes = built.batch_sizes(max_batch)
    return [Evaluator(architecture, built.thread(index), sizes, engine) for index in range(num_threads)]


def _made_up_planes(architecture: Architecture, count: int) -> Planes:
    """Noise as dense as a game's planes: each position fills each plane to its own share, from empty to full."""
    generator = np.random.default_rng(20)
    shares = generator.random((count, architecture.planes, 1, 1)) ** 2
    board = (count, architecture.planes, architecture.height, architecture.width)
    return (generator.random(board) < shares).astype(np.uint8)


class _Check:
    """Compares an evaluator with float32 numpy on a few positions: made-up ones, for int8 calibration ones."""

    def __init__(self, architecture: Architecture, folded: Weights, calibration: Planes | None) -> None:
        self.has_refused = False  # an engine that answered wrongly
        self._made_up = _made_up_planes(architecture, CHECKED_POSITIONS)
        self._typical = None
        if calibration is not None:  # from the first to the last: a game's beginning, middle and end
            self._typical = calibration[np.linspace(0, len(calibration) - 1, 4 * CHECKED_POSITIONS).astype(int)]
        self._plain = cache(lambda is_calibration: evaluate_plain(architecture, folded, self._planes(is_calibration)))

    def _planes(self, is_calibration: bool) -> Planes:
        planes = self._typical if is_calibration else self._made_up
        assert planes is not None
        return planes

    def problem(self, evaluator: Evaluator) -> str | None:
        """One line on how it differs too much or fails; None if it is right."""
        int8 = evaluator.engine.precision == "int8"
        planes, wanted = self._planes(int8), self._plain(int8)
        found: list[Evaluation] = []
        size = evaluator.max_batch
        for start in range(0, len(planes), size):
            batch = planes[start : start + size]
            try:
                # In a thread of its own: threads set their thread's share of the cores, and this one isn't a thread.
                run_together([partial(lambda rows: found.append(evaluator(rows)), batch)])
            except Exception as error:  # an engine may fail in its own ways; any means: not this one
                return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        logits, values = (np.concatenate(parts) for parts in zip(*found, strict=True))
        policy_differences = np.abs(softmax(logits) - softmax(wanted[0]))
        value_differences = np.abs(values - wanted[1])
        if int8:
            of_policy, of_value, mean = INT8_POLICY_TOLERANCE, INT8_VALUE_TOLERANCE, "on average "
            policy_difference, value_difference = policy_differences.sum(axis=1).mean() / 2, value_differences.mean()
        else:
            of_policy, of_value, mean = POLICY_TOLERANCE, VALUE_TOLERANCE, ""
            policy_difference, value_difference = policy_differences.max(), value_differences.max()
        if policy_difference <= of_policy and value_difference <= of_value:
            return None
        self.has_refused = True
        return (
            f"differs from float32 {mean}by {policy_difference:.3g} in policy and {value_difference:.3g} in value; "
            f"allowed {of_policy} and {of_value}"
        )


def softmax(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def _measure_all(
    engines: Sequence[Engine],
    architecture: Architecture,
    folded: Weights,
    check: _Check,
    progress: Progress,
    calibration: Planes | None,
) -> dict[Engine, float]:
    """Evaluations per second of each engine that is right.

    Of the exact precisions a slower one is tried only if no faster one is right; int8 is always compared with one.
    """
    planes = _made_up_planes(architecture, MEASURED_BATCH)
    rates: dict[Engine, float] = {}
    for engine in engines:
        if any(other.precision not in ("int8", engine.precision) for other in rates):
            break
        try:
            evaluators = _build(engine, architecture, folded, MEASURED_BATCH, available_cores(), calibration)
        except Exception as error:  # an engine that can't start is one that isn't there
            progress.warn(f"backend {engine} can't be used: {' '.join(str(error).split())[:200]}")
            continue
        problem = check.problem(evaluators[0])
        if problem is not None:
            progress.warn(f"backend {engine} refused: {problem}")
            continue
        rates[engine] = max(evaluation_rate(evaluators, planes, MEASURED_SECONDS) for _ in range(MEASURED_WINDOWS))
        progress.say(f"  {engine}: {rates[engine]:,.0f} evaluations/s")
    return rates


def evaluation_rate(evaluators: Sequence[Evaluator], planes: Planes, seconds: float) -> float:
    """Evaluations per second of all threads together, each after one call to warm up."""
    batches = [0] * len(evaluators)
    started = [0.0] * len(evaluators)
    ended = [0.0] * len(evaluators)
    ready = threading.Barrier(len(evaluators))

    def work(thread: int) -> None:
        evaluators[thread](planes)
        ready.wait()
        started[thread] = now = time.perf_counter()
        stop = now + seconds
        while now < stop:
            evaluators[thread](planes)
            batches[thread] += 1
            now = time.perf_counter()
        ended[thread] = now

    run_together([partial(work, thread) for thread in range(len(evaluators))])
    return sum(batches) * len(planes) / (max(ended) - min(started))


class _CachedChoice:
    """The engine measured fastest before, in a small JSON file of the user's. Never an error: worst case no choice."""

    def __init__(self, architecture: Architecture, device: str | None, engines: Sequence[Engine]) -> None:
        """engines: those that were measured."""
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        self.path = folder / "mugo" / "backends.json"
        versions = []
        for library in ("torch", "openvino"):
            try:
                versions.append(f"{library} {metadata.version(library)}")
            except metadata.PackageNotFoundError:
                versions.append(f"no {library}")
        cuda = f"cuda {_may_have_cuda()} {os.environ.get('CUDA_VISIBLE_DEVICES', '')} {device or ''}".strip()
        machine = [processor_name(), f"{available_cores()} cores", cuda, *versions]
        shape = [f"{name} {number}" for name, number in architecture.to_dict().items()]
        known = "engines " + ", ".join(map(str, engines))
        self._key = "; ".join([*machine, *shape, known])

    def read(self) -> Engine | None:
        entry = self._entries().get(self._key)
        try:
            return Engine(**{name: str(entry["engine"][name]) for name in ("backend", "device", "precision")})  # type: ignore[index]
        except (TypeError, KeyError):
            return None

    def write(self, engine: Engine, rates: dict[Engine, float]) -> None:
        entries = self._entries()
        entries[self._key] = {
            "engine": {"backend": engine.backend, "device": engine.device, "precision": engine.precision},
            "evaluations_per_second": {str(measured): round(rate) for measured, rate in rates.items()},
        }
        temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}.{threading.get_ident()}")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_text(json.dumps(entries, indent=1))
            os.replace(temporary, self.path)
        except OSError:
            with suppress(OSError):  # a home that can't be written: measure again next time
                temporary.unlink()

    def _entries(self) -> dict[str, Any]:
        try:
            entries = json.loads(self.path.read_text())
        except (OSError, ValueError):
            return {}
        return entries if isinstance(entries, dict) else {}
