"""Batched inference: positions in, policy logits and values out, on the fastest correct backend.

``make_evaluators`` returns one ``Evaluator`` per thread. With ``backend="auto"`` it times the machine's backends and
caches the fastest in ``~/.cache/mugo/backends.json``, by processor, architecture and library versions, so that a
network of that architecture runs on the same backend, with any number of rows and threads. Other work on the machine
slows backends unequally. So they are timed in turn, window by window, and compared by the median of the quotients; a
choice made beside other work prefers the order of available_backends and is soon made again, any choice after a month.
A lost or damaged cache only costs another measurement. If a backend was refused, the choice isn't cached, since it may
suit the next model. The cache also holds the difference of int8 from float32 for each model, by a name such as its
weights' SHA-256.

At every start, the backend is compared with plain float32 numpy: an exact one on random planes, int8 on calibration
positions that its scales don't come from. One that differs too much is refused, and the others are tried.

B batch, K rows of a call (0 ≤ K ≤ max_batch), C planes, H×W board, A actions. Values are seen by the player to move.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib import metadata
from typing import Any

import numpy as np

from pipeline.caches import cache_folder
from pipeline.errors import MuGoError, UsageError
from pipeline.games.contract import Evaluate, Evaluation, FloatArray, Planes
from pipeline.games.margins import MarginNetwork
from pipeline.machine import CONTROL_GROUPS, MEMBERSHIP, available_cores, time_of_group
from pipeline.networks.architecture import Architecture, Weights
from pipeline.networks.folding import evaluate_plain, fold
from pipeline.networks.gpu import gpu_fault, in_a_line, visible_gpus
from pipeline.networks.openvino_backend import (
    MIN_BATCH,
    Backend,
    OpenVinoBackend,
    has_fast_bfloat16,
    is_installed,
    largest_int8_kernel,
    processor_name,
)
from pipeline.networks.options import BACKENDS, NETWORK_BACKENDS
from pipeline.progress import SILENT, Progress

POLICY_TOLERANCE = 0.03  # largest difference of any move's probability from float32
VALUE_TOLERANCE = 0.05  # largest difference of the value, which spans -1 to 1
# int8 is checked by means over positions, because rounding to 255 steps may be wrong in a single position, whereas a
# broken backend is wrong in all. The policy's difference is the total variation distance.
INT8_POLICY_TOLERANCE, INT8_VALUE_TOLERANCE = 0.05, 0.05
MIN_INT8_SPEEDUP = 1.1  # over the fastest exact backend
CLEARLY_SLOWER = 1.1  # beside other work a preferred backend is left out only if another is so much faster
CHECKED_POSITIONS = 8
CACHED_MODELS = 32  # per architecture: models whose int8 difference is kept
MEASURED_SECONDS = 0.2  # per window
MEASURED_WINDOWS = 5  # of each backend, in turn
QUIET_SHARE = 0.85  # of the time that its threads ran, they had a core: less means that other work had it
BUSY_HOURS, QUIET_HOURS = 1, 30 * 24  # how long a choice holds that was made beside other work, or on a quiet machine
MEASURED_BATCH = 64  # rows per thread, with a thread for each core


@dataclass(frozen=True)
class BackendSpec:
    """One way to run a network on this machine."""

    name: str  # torch, compile or openvino
    device: str  # cpu, cuda, cuda:1 …
    precision: str  # float32, bfloat16, float16 or int8

    def __str__(self) -> str:
        return f"{self.name} {self.device} {self.precision}"

    def build(
        self, architecture: Architecture, folded: Weights, num_threads: int, calibration: Planes | None = None
    ) -> Backend:
        if self.name == "openvino":
            return OpenVinoBackend(architecture, folded, num_threads, self.precision, calibration)
        from pipeline.networks import torch_backends  # imports torch, which takes over a second

        if self.device != "cpu":
            return torch_backends.CudaBackend(architecture, folded, self.precision, self.device)
        kinds = {"torch": torch_backends.TorchBackend, "compile": torch_backends.CompiledBackend}
        return kinds[self.name](architecture, folded, num_threads, self.precision)


class Evaluator:
    """Evaluates for one thread: planes [K, C, H, W] uint8 → (policy_logits [K, A], value_to_move [K]), float32.

    Pads batches with empty boards to one of a few fixed sizes. A row's result doesn't depend on the content of other
    rows; the size may change its last bits, see openvino_backend.MIN_BATCH. Planes that the game gained after the
    network was made come last and are ignored. The caller owns the returned arrays.
    Raises ValueError for another shape or dtype, and for K > max_batch.

    margins  the same network's, set by who loads it; None: not asked for
    """

    margins: MarginNetwork | None = None

    def __init__(self, architecture: Architecture, run: Evaluate, sizes: Sequence[int], backend: BackendSpec) -> None:
        self.backend = backend
        self._run = run
        self._sizes = np.asarray(sizes)
        self._board = (architecture.planes, architecture.height, architecture.width)
        self._num_actions = architecture.actions
        self.max_batch = int(sizes[-1])
        self._padded = np.zeros((self.max_batch, *self._board), np.uint8)

    def warm_up(self) -> None:
        """Run every batch size once, so that nothing has to be compiled later."""
        for size in self._sizes.tolist():
            self._run(self._padded[:size])

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
        padded = self._padded[:size]
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
    progress: Progress = SILENT,
    calibration: Planes | None = None,
    name: str = "",
    least_batch: int = MIN_BATCH,
    afresh: bool = False,
) -> list[Evaluator]:
    """One evaluator per thread for these weights, on the backend asked for or, with ``auto``, the fastest.

    max_batch    most rows per call and thread
    calibration  positions [N, C, H, W] of the game, without which int8 isn't used
    name         of the model in the cache of int8 differences; "": not cached
    least_batch  smaller batches are padded to this; see openvino_backend.MIN_BATCH
    afresh       measure again in any case
    Raises UsageError for a backend that is unknown or not installed; MuGoError if the weights don't fit or no backend
    computes them correctly.
    """
    starter = _Starter(architecture, fold(architecture, weights), calibration, progress)

    def fitting(on_gpu: bool) -> list[BackendSpec]:
        found = available_backends(backend, on_gpu)
        return [one for one in found if one.precision != "int8" or calibration is not None]

    usable = fitting(on_gpu=True)
    cached = _CachedChoice(architecture, usable)
    if backend == "auto" and len(usable) > 1:
        choice = cached.read(name)
        if afresh and choice is not None:
            progress.say(f"remembered for this machine and architecture: {cached.remembered()}")
        if choice not in usable or afresh:
            choice = _measured_fastest(usable, starter, cached, name, progress)
        usable.sort(key=lambda one: one != choice)
    if backend in ("auto", "torch") and (fault := gpu_fault()):
        progress.warn(f"the GPU can't be used ({fault}): the CPU computes instead")
    instead: list[BackendSpec] = []
    if any(one.device != "cpu" for one in usable):  # it may get full
        instead = sorted(fitting(on_gpu=False), key=lambda one: one.precision == "int8")  # exact ones: not measured
    for one in [*usable, *instead]:
        if one in starter.refused:
            continue
        evaluators = starter.start(one, max_batch, num_threads, least_batch)
        if evaluators is not None:
            if one in instead:
                progress.warn(f"the GPU can't be used (see above): {one} computes instead")
            if name and one in starter.differences:
                cached.write_difference(name, starter.differences[one])
            return evaluators
    refused = "; ".join(f"{backend} ({problem})" for backend, problem in starter.refused.items())
    raise MuGoError(
        f"inference backend {backend}: nothing computes this network as float32 does: "
        f"{refused or 'int8 needs calibration positions'}{'' if backend == 'torch' else '; try --backend torch'}"
    )


def _measured_fastest(
    backends: Sequence[BackendSpec], starter: _Starter, cached: _CachedChoice, name: str, progress: Progress
) -> BackendSpec | None:
    """The fastest correct backend, which is cached; None if no backend is correct. backends: the preferred ones first.

    If another one than the first is chosen, after one was refused, this is cached for the model of this name alone: the
    refused one may be correct with the next model's weights.

    Once one of an exact precision is correct, lower-ranked exact precisions aren't tried.
    """
    progress.say("measuring inference backends for this machine…")
    planes = starter.random_planes(MEASURED_BATCH)
    started: dict[BackendSpec, list[Evaluator]] = {}
    for backend in backends:
        if any(other.precision not in ("int8", backend.precision) for other in started):
            break
        evaluators = starter.start(backend, MEASURED_BATCH, available_cores())
        if evaluators is not None:
            started[backend] = evaluators
    windows: dict[BackendSpec, list[float]] = {backend: [] for backend in started}
    limit = time_of_group(CONTROL_GROUPS, MEMBERSHIP)
    shares = []
    for _ in range(MEASURED_WINDOWS):
        for backend, evaluators in list(started.items()):
            begun, busy = time.perf_counter(), time.process_time()
            try:
                windows[backend].append(evaluation_rate(evaluators, planes, MEASURED_SECONDS))
            except Exception as error:  # e.g. a GPU without memory for the evaluators of all threads
                starter.refuse(backend, in_a_line(error))
                del started[backend], windows[backend]
                continue
            took = time.perf_counter() - begun
            if took > MEASURED_SECONDS / 2 and backend.device == "cpu":
                shares.append((time.process_time() - busy) / took / min(len(evaluators), limit))
    if not started:
        return None
    is_quiet = not shares or statistics.median(shares) >= QUIET_SHARE
    rates = {backend: statistics.median(found) for backend, found in windows.items()}
    for backend, rate in rates.items():
        progress.say(f"  {backend}: {rate:,.0f} evaluations/s")

    def speedup(one: BackendSpec, other: BackendSpec) -> float:
        return statistics.median(a / b for a, b in zip(windows[one], windows[other], strict=True))

    choice, *others = rates
    for other in others:
        if is_quiet:
            needed = 1 / MIN_INT8_SPEEDUP if choice.precision == "int8" else 1.0
        else:
            needed = CLEARLY_SLOWER
        if speedup(other, choice) > needed:
            choice = other
    for_all = choice == backends[0] or not starter.has_differed
    if for_all or name:
        cached.write_choice(choice, rates, is_quiet, "" if for_all else name)
    fastest = max(rates, key=lambda backend: rates[backend])
    progress.say(f"fastest: {fastest}, {rates[fastest]:,.0f} evaluations/s")
    if choice != fastest and is_quiet:
        faster = rates[fastest] / rates[choice]
        progress.say(
            f"using {choice}, which is exact: {fastest} is {faster:.2f} times as fast, wanted {MIN_INT8_SPEEDUP}"
        )
    elif not is_quiet:
        progress.say(f"using {choice}; other work was running, so this is measured again in an hour")
    return choice


def available_backends(backend: str, on_gpu: bool = True) -> list[BackendSpec]:
    """The backends that the option ``backend`` allows on this machine, in the order of preference without measurement.

    ``auto`` leaves out torch.compile, which starts slowly, if OpenVINO is installed. on_gpu: use the GPU alone if
    torch finds one that works.
    Raises UsageError if the backend is unknown, serves other methods only or isn't installed.
    """
    if backend not in NETWORK_BACKENDS:
        found = f"{backend} runs other methods' models only" if backend in BACKENDS else f"{backend!r} is unknown"
        raise UsageError(f"inference backend: {found}; wanted one of {', '.join(NETWORK_BACKENDS)}")
    if backend in ("openvino", "int8") and not is_installed("openvino"):
        raise UsageError(f"inference backend {backend}: not installed; run pip install '.[fast]' or use --backend auto")
    compiler = any(shutil.which(name) for name in (os.environ.get("CXX", "c++"), "g++", "clang++"))
    if backend == "compile" and not compiler:
        raise UsageError("inference backend compile: no C++ compiler (c++, g++, clang++) found; use --backend auto")
    if on_gpu and backend in ("auto", "torch") and gpu_fault() == "":
        return [BackendSpec("torch", "cuda", precision) for precision in ("float16", "bfloat16", "float32")]
    if backend == "int8":
        if not largest_int8_kernel():
            raise UsageError("inference backend int8: this processor has nothing to gain by it; use --backend auto")
        return [BackendSpec("openvino", "cpu", "int8")]
    precisions = ("bfloat16", "float32") if has_fast_bfloat16() else ("float32",)
    names = [backend]
    if backend == "auto":
        names = ["openvino", "torch"] if is_installed("openvino") else ["compile", "torch"] if compiler else ["torch"]
    exact = [BackendSpec(name, "cpu", precision) for precision in precisions for name in names]
    if backend == "auto" and "openvino" in names and largest_int8_kernel():
        return [BackendSpec("openvino", "cpu", "int8"), *exact]
    return exact


class _Starter:
    """Starts backends for one network and checks each against float32 numpy on a few positions."""

    def __init__(
        self, architecture: Architecture, folded: Weights, calibration: Planes | None, progress: Progress
    ) -> None:
        self.refused: dict[BackendSpec, str] = {}  # backend → reason
        self.has_differed = False  # whether a backend ran but computed something else
        self.differences: dict[BackendSpec, dict[str, float]] = {}  # of int8 from float32, means over positions
        self._architecture, self._folded, self._progress = architecture, folded, progress
        self._calibration = None if calibration is None else calibration[:, : architecture.planes]
        self._expected: dict[bool, Evaluation] = {}  # is int8 → float32 evaluation of its positions

    def start(
        self, backend: BackendSpec, max_batch: int, num_threads: int, least_batch: int = MIN_BATCH
    ) -> list[Evaluator] | None:
        """One evaluator per thread; None and a warning if the backend fails or differs too much."""
        scaling = None if self._calibration is None else self._calibration[::2]
        try:
            built = backend.build(self._architecture, self._folded, num_threads, scaling)
            sizes = built.batch_sizes(max_batch, least_batch)
            evaluators = [
                Evaluator(self._architecture, built.for_thread(index), sizes, backend) for index in range(num_threads)
            ]
            problem = self._difference(evaluators[0])
        except Exception as error:  # backends fail in their own ways
            problem = in_a_line(error)
        if not problem:
            return evaluators
        self.refuse(backend, problem)
        return None

    def refuse(self, backend: BackendSpec, problem: str) -> None:
        self._progress.warn(f"backend {backend} refused: {problem}")
        self.refused[backend] = problem

    def random_planes(self, count: int) -> Planes:
        """Noise; like a game's planes, each plane of each position has a density of its own, from empty to full."""
        generator = np.random.default_rng(20)
        board = (self._architecture.planes, self._architecture.height, self._architecture.width)
        shares = generator.random((count, board[0], 1, 1)) ** 2
        return (generator.random((count, *board)) < shares).astype(np.uint8)

    def _difference(self, evaluator: Evaluator) -> str:
        """One line if the evaluator differs too much from float32; "" if it is correct. Raises what it raises."""
        int8 = evaluator.backend.precision == "int8"
        planes = self.random_planes(CHECKED_POSITIONS)
        if int8 and self._calibration is not None:  # evenly spaced, to cover a game's beginning, middle and end
            not_scaling = self._calibration[1::2]
            planes = not_scaling[np.linspace(0, len(not_scaling) - 1, 4 * CHECKED_POSITIONS).astype(int)]
        if int8 not in self._expected:
            self._expected[int8] = evaluate_plain(self._architecture, self._folded, planes)
        expected_logits, expected_values = self._expected[int8]
        batches = [planes[start : start + evaluator.max_batch] for start in range(0, len(planes), evaluator.max_batch)]
        found: list[Evaluation] = []
        # In another thread, because an evaluator limits its thread to a share of the cores.
        run_together([lambda: found.extend(map(evaluator, batches))])
        logits, values = (np.concatenate(parts) for parts in zip(*found, strict=True))
        policies, values = np.abs(softmax(logits) - softmax(expected_logits)), np.abs(values - expected_values)
        if int8:
            allowed, mean = (INT8_POLICY_TOLERANCE, INT8_VALUE_TOLERANCE), "on average "
            policy, value = policies.sum(axis=1).mean() / 2, values.mean()
            shown = {"policy": float(f"{policy:.3g}"), "value": float(f"{value:.3g}")}
            self.differences[evaluator.backend] = {"positions": len(planes), **shown}
        else:
            allowed, mean = (POLICY_TOLERANCE, VALUE_TOLERANCE), ""
            policy, value = policies.max(), values.max()
        if policy <= allowed[0] and value <= allowed[1]:
            return ""
        self.has_differed = True
        differs = f"differs from float32 {mean}by {policy:.3g} in policy and {value:.3g} in value"
        return f"{differs}; allowed {allowed[0]} and {allowed[1]}"


def softmax(logits: FloatArray) -> FloatArray:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def evaluation_rate(evaluators: Sequence[Evaluator], planes: Planes, seconds: float) -> float:
    """Evaluations per second of all threads together, after one warm-up call of each."""
    ready = threading.Barrier(len(evaluators))
    runs: list[tuple[int, float, float]] = []  # batches, started, ended

    def work(evaluator: Evaluator) -> None:
        try:
            evaluator(planes)
        finally:  # after a failure too, or the others would wait forever
            ready.wait()
        started = now = time.perf_counter()
        batches = 0
        while now < started + seconds:
            evaluator(planes)
            batches += 1
            now = time.perf_counter()
        runs.append((batches, started, now))

    run_together([partial(work, evaluator) for evaluator in evaluators], ready.abort)
    batches, started, ended = zip(*runs, strict=True)
    return sum(batches) * len(planes) / (max(ended) - min(started))


def run_together(works: Sequence[Callable[[], object]], give_up: Callable[[], object] = lambda: None) -> None:
    """Run all at the same time, each in a thread, and wait for all. Raises the first one's exception.

    give_up: called if the system gives no more threads; releases those that wait for the others
    """
    with ThreadPoolExecutor(len(works)) as threads:
        try:
            running = [threads.submit(work) for work in works]
        except RuntimeError:
            give_up()
            raise
        for one in running:
            one.result()


class _CachedChoice:
    """The cached choice among some backends, in a small JSON file in the user's cache. Never raises an error."""

    def __init__(self, architecture: Architecture, backends: Sequence[BackendSpec]) -> None:
        self.path = cache_folder() / "backends.json"
        versions = []
        for library in ("torch", "openvino"):
            try:
                versions.append(f"{library} {metadata.version(library)}")
            except metadata.PackageNotFoundError:
                versions.append(f"no {library}")
        cuda = f"cuda {bool(visible_gpus())}"
        machine = [processor_name(), f"{available_cores()} cores", cuda, *versions]
        shape = [f"{name} {number}" for name, number in architecture.to_dict().items()]
        self._key = "; ".join([*machine, *shape, "backends " + ", ".join(map(str, backends))])

    def read(self, model: str) -> BackendSpec | None:
        """The choice for this model, unless it is too old; see BUSY_HOURS."""
        entry = self._entry()
        try:
            if entry["model"] not in ("", model):
                return None
            age = datetime.now(UTC) - datetime.fromisoformat(entry["measured"])
            hours = QUIET_HOURS if entry["quiet"] else BUSY_HOURS
            return BackendSpec(**entry["backend"]) if timedelta() <= age < timedelta(hours=hours) else None
        except (TypeError, KeyError, ValueError):
            return None

    def remembered(self) -> str:
        """The choice that read() returns, for people."""
        entry = self._entry()
        found = entry.get("evaluations_per_second")
        rates = ", ".join(f"{name} {rate}" for name, rate in (found if isinstance(found, dict) else {}).items())
        beside = "" if entry["quiet"] else ", beside other work"
        return f"{BackendSpec(**entry['backend'])}, measured {entry['measured']}{beside} ({rates} evaluations/s)"

    def write_choice(self, backend: BackendSpec, rates: dict[BackendSpec, float], is_quiet: bool, model: str) -> None:
        """model: the only one for which it holds; "": it holds for all."""
        shown = {str(measured): round(rate) for measured, rate in rates.items()}
        now = datetime.now(UTC).isoformat(timespec="seconds")
        self._put(
            {"backend": asdict(backend), "evaluations_per_second": shown, "measured": now, "quiet": is_quiet,
             "model": model}
        )  # fmt: skip

    def write_difference(self, name: str, difference: dict[str, float]) -> None:
        known = self._entry().get("int8")
        known = dict(known) if isinstance(known, dict) else {}
        if known.pop(name, None) != difference:  # otherwise each start would write
            self._put({"int8": dict([*known.items(), (name, difference)][-CACHED_MODELS:])})

    def _entry(self) -> dict[str, Any]:
        entry = self._entries().get(self._key)
        return entry if isinstance(entry, dict) else {}

    def _put(self, facts: dict[str, Any]) -> None:
        entries = self._entries()
        entries[self._key] = {**self._entry(), **facts}
        temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}.{threading.get_ident()}")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_text(json.dumps(entries, indent=1))
            os.replace(temporary, self.path)
        except OSError:
            with suppress(OSError):
                temporary.unlink()

    def _entries(self) -> dict[str, Any]:
        try:
            entries = json.loads(self.path.read_text())
        except (OSError, ValueError, RecursionError):
            return {}
        return entries if isinstance(entries, dict) else {}
