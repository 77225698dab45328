"""The trainer: a network, its optimiser, and one update per step. Doesn't read or write files.

Optimiser: Adam with decoupled weight decay (Loshchilov & Hutter 2019, arXiv 1711.05101), not of biases and norms; or
Muon (``muon.py``) for the matrices in the blocks, and Adam for the rest. The learning rate rises linearly over the
optimiser's first warmup_steps, which count over all runs, then stays.

Precision: forward and backward pass in bfloat16 where the processor is fast at it, convolutions channels-last. Weights,
norms' statistics, losses and the optimiser are float32.

Replicas: on a CPU, replicas of the network, which share its weights, share a batch's rows, each in its own thread,
since a network's operations are too small for two threads (docs/log). The loss is that of the whole batch; gradients
are always summed in the same order. Norms see the rows of their replica; their statistics are the replicas' means.

Processes (``process_group.py``): each gets the whole batch and runs some of the replicas, on its GPU or its cores. All
gather the outputs, compute the loss of the whole batch, sum their gradients and make the same update. N processes of
one replica equal one process of N replicas to the last bit.

Averaging: with ema_decay d > 0 the trainer returns a moving average of the weights it trains, the *raw* weights:

    a_0 = θ_0      a_t = d_t·a_{t−1} + (1 − d_t)·θ_t      d_t = min(d, (1 + t) / (10 + t))

t counts the averaged steps over all runs; θ_t are the weights after step t. The smaller d_t of the first steps is the
usual warm-up (TensorFlow's ExponentialMovingAverage). Norms' running means and variances are averaged alike (Tarvainen
& Valpola 2017). evaluate() measures the average. A run that continues without ema_decay goes on from the raw weights.

``weights`` and ``optimizer_state`` are a trainer's whole state: a trainer made from them continues with the same bits
on the same CPU with as many threads. On a GPU, kernels are chosen by timing, so the last bits may differ.
"""

from __future__ import annotations

import ctypes
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import compress
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import Module

from pipeline.errors import MuGoError, UsageError
from pipeline.games.contract import FloatArray
from pipeline.machine import available_cores
from pipeline.methods.method import Objective, Weights
from pipeline.networks.gpu import gpu_fault
from pipeline.networks.openvino_backend import has_fast_bfloat16
from pipeline.networks.torch_backends import without_garbage_collection
from pipeline.train.config import TrainConfig
from pipeline.train.muon import Muon

if TYPE_CHECKING:
    from pipeline.train.process_group import ProcessGroup

Arrays = dict[str, NDArray[Any]]

MOMENTS: dict[type, tuple[str, ...]] = {torch.optim.AdamW: ("exp_avg", "exp_avg_sq"), Muon: ("exp_avg",)}
STEP = "step"  # the optimiser's steps over all runs
UPDATES = "updates"  # prefix of a parameter's own count, if it is not STEP
RAW = "raw"  # prefix of the trained weights' names if the model's weights are their average
AVERAGED = "averaged_steps"
MOST_STEPS = 2**53  # optimisers count in float64, which has every integer up to here
Pass = Callable[[Any], tuple[torch.Tensor, ...]]
UNMEASURED = -(2.0**100)  # in place of a metric that no row of a batch counts for; not NaN, which is a fault
MOST_NUMBERS = 100_000  # of a histogram
EAGER_CALLS = 2  # of a pass with each shape before its capture: libraries choose their kernels meanwhile
MAX_SHAPES = 4  # that are captured; an epoch has batches of two sizes, a run on several boards more shapes
REPLICA_ROWS = 64  # fewest rows per replica: with fewer, its norms' statistics would be too noisy
# By default glibc returns the memory that each step frees and gets it back zeroed: 11 % of a step's CPU time (docs/log,
# 2026-11-25).
MALLOC_SETTINGS = {
    -3: 1 << 30,  # M_MMAP_THRESHOLD, bytes: larger blocks are mapped separately and unmapped when freed
    -1: (1 << 31) - 1,  # M_TRIM_THRESHOLD, bytes: more free space at the heap's end is returned
    -2: 64 << 20,  # M_TOP_PAD: bytes by which the heap grows
}


class NotFinite(MuGoError):
    """The loss or its gradient is infinite or NaN: training can't go on."""


@dataclass(frozen=True)
class StepResult:
    """One step of B samples, measured before its update.

    metrics: by the objective's names, without those that no row of the batch counts for
    """

    metrics: dict[str, float]
    gradient_norm: float  # before clipping
    learning_rate: float
    value_errors: FloatArray = field(compare=False)  # [B] |v − z|: value head v, result z

    @property
    def num_samples(self) -> int:
        return len(self.value_errors)


class Trainer:
    """A network in training; see the module docstring."""

    def __init__(
        self,
        objective: Objective,
        weights: Weights,
        config: TrainConfig,
        optimizer: Arrays | None = None,
        group: ProcessGroup | None = None,
    ) -> None:
        """optimizer: optimizer_state of the run to continue. group: the processes that train together, if several.

        Raises MuGoError if weights or optimiser don't fit the objective's network.
        """
        self._objective = objective
        self._config = config
        self._group, self._rank, self._processes = group, *((group.rank, group.count) if group else (0, 1))
        self._device = group.device if group else torch.device("cuda" if gpu_fault() == "" else "cpu")
        if self._device.type == "cpu":
            keep_freed_memory()
        trained = objective.trained(weights)
        raw = trained if optimizer is None else _raw_weights(trained, optimizer) or trained
        if not config.ema_decay:
            raw = {**weights, **raw}  # the network that is returned is first measured with what finish() added before
        self._network = objective.network(raw).to(self._device)
        # The network that is returned and measured: the average, or the trained network itself.
        self._averaged = objective.network(weights).to(self._device) if config.ema_decay else self._network
        self._averages, self._raw = _tensors(self._averaged), _tensors(self._network)
        self._averaged_steps = 0
        self._replicas = [self._network, *self._make_replicas()]
        self._statistics = [
            [tensor for tensor in replica.buffers() if tensor.is_floating_point()] for replica in self._replicas
        ]
        self._each: Callable[..., Iterable[Any]] = map
        if len(self._replicas) > 1:
            self._each = ThreadPoolExecutor(len(self._replicas), "replica").map
        on_cpu = self._device.type == "cpu"  # GPUs made before 2020 only emulate it
        fast = has_fast_bfloat16() if on_cpu else torch.cuda.is_bf16_supported(including_emulation=False)
        self._bfloat16 = config.precision == "bfloat16" or (config.precision == "auto" and fast)
        named = self._network.named_parameters()
        self._parameters = {name: parameter for name, parameter in named if parameter.requires_grad}
        self._optimizers = _make_optimizers(self._parameters, config)
        self._pass: Pass = self._pass_eagerly
        if self._device.type == "cuda":
            torch.backends.cudnn.benchmark = True  # searches for the fastest kernels of each shape
            if group is None and objective.capturable:
                self._pass = CudaGraphPass(self._pass_eagerly, list(self._parameters.values()), self._device)
        self.learning_rate = config.learning_rate  # after the warm-up; may be changed between steps
        self.total_steps = 0
        if optimizer is not None:
            self._load_optimizer(optimizer)

    def _make_replicas(self) -> list[Module]:
        """This process's replicas other than the network itself. Also divides the cores among the replicas."""
        cores = self._group.cores if self._group else available_cores()
        wanted = self._processes * (cores if self._device.type == "cpu" else 1)
        self._num_replicas = max(1, min(wanted, self._config.batch_size // REPLICA_ROWS))  # in all processes
        count = max(1, len(range(self._rank, self._num_replicas, self._processes)))
        torch.set_num_threads(max(1, cores // count))  # holds for every thread started from now on
        replicas = [deepcopy(self._network) for _ in range(count - 1)]
        for replica in replicas:
            for own, shared in zip(replica.parameters(), self._network.parameters(), strict=True):
                own.data = shared.data
        return replicas

    @property
    def weights(self) -> Weights:
        """A copy, by the names of weight_shapes: the average if there is one."""
        return self._objective.weights(self._averaged)

    @property
    def optimizer_state(self) -> Arrays:
        """A copy: the moments ``exp_avg.NAME`` and ``exp_avg_sq.NAME``, float32, and ``step``, int64 [1].

        Adam's parameters that the loss hasn't always depended on, such as a head's, have a count of their own,
        ``updates.NAME``, int64 [1]; that of the others is ``step``.

        With ema_decay also the raw weights ``raw.NAME``, and ``averaged_steps``, int64 [1].
        """
        arrays: Arrays = {STEP: np.array([self.total_steps], np.int64)}
        for name, parameter in self._parameters.items():
            optimizer = self._optimizers[name]
            state = optimizer.state.get(parameter, {})
            for moment in MOMENTS[type(optimizer)]:
                found = state.get(moment)
                arrays[f"{moment}.{name}"] = (
                    np.zeros(parameter.shape, np.float32)
                    if found is None
                    else np.array(found.cpu().contiguous().numpy(), np.float32, order="C")
                )
            count = int(state.get(STEP, 0))
            if count != self.total_steps and not isinstance(optimizer, Muon):  # which counts nothing
                arrays[f"{UPDATES}.{name}"] = np.array([count], np.int64)
        if self._config.ema_decay:
            arrays[AVERAGED] = np.array([self._averaged_steps], np.int64)
            arrays.update({f"{RAW}.{name}": array for name, array in self._objective.weights(self._network).items()})
        return arrays

    def _load_optimizer(self, arrays: Arrays) -> None:
        self.total_steps = _stored_steps(arrays, STEP)
        if self._config.ema_decay and AVERAGED in arrays:
            self._averaged_steps = _stored_steps(arrays, AVERAGED)
        for name, parameter in self._parameters.items():
            moments = {
                moment: _stored(arrays, f"{moment}.{name}", tuple(parameter.shape))
                for moment in MOMENTS[type(self._optimizers[name])]
            }
            state: dict[str, Any] = {}
            if not isinstance(self._optimizers[name], Muon):
                count = _stored_steps(arrays, own) if (own := f"{UPDATES}.{name}") in arrays else self.total_steps
                # Fused updates need the counter on their device.
                state[STEP] = torch.tensor(float(count), device=self._device)
            for moment, found in moments.items():
                # In the parameter's memory format, so that the update uses the same kernel as before.
                state[moment] = torch.empty_like(parameter, requires_grad=False).copy_(torch.from_numpy(found))
            self._optimizers[name].state[parameter] = state

    def step(self, batch: Any) -> StepResult:
        """Make one update. Raises, before changing any weight, NotFinite, and MuGoError as Objective.check."""
        objective = self._objective
        objective.check(batch)
        found, errors = self._pass(batch)
        *values, gradient_norm = found.tolist()
        value_errors = errors.cpu().numpy()
        metrics = {name: one for name, one in zip(objective.metrics, values, strict=True) if one != UNMEASURED}
        if not math.isfinite(metrics["total"]) or not math.isfinite(gradient_norm):
            listed = ", ".join(f"{name} {metrics[name]:.4g}" for name in objective.terms if name in metrics)
            raise NotFinite(
                f"training step {self.total_steps + 1}: the loss is not finite ({listed}; gradient "
                f"{gradient_norm:.4g}); nothing was written; try a smaller --learning-rate than "
                f"{self.learning_rate:g}"
            )
        rate = self.learning_rate * min(1.0, (self.total_steps + 1) / max(1, self._config.warmup_steps))
        with _without_denormals():
            for optimizer in set(self._optimizers.values()):
                for group in optimizer.param_groups:
                    group["lr"] = rate
                optimizer.step()
            self.total_steps += 1
            if self._config.ema_decay:
                self._average()
        return StepResult(metrics, gradient_norm, rate, value_errors)

    def _pass_eagerly(self, batch: Any) -> tuple[torch.Tensor, ...]:
        """Forward and backward pass: leaves the clipped gradients of a batch in the parameters.

        Returns the M metrics and the gradient's norm, [M + 1], and the value errors, [B].
        """
        batch = batch._make(part.to(self._device, non_blocking=True) for part in batch)
        inputs, objective = batch[0], self._objective
        shares = inputs.tensor_split(max(1, min(self._num_replicas, len(inputs) // REPLICA_ROWS)))
        mine = slice(self._rank, None, self._processes)  # share i belongs to process i mod processes
        replicas = self._replicas[: len(shares[mine])]
        parts: list[Any] = list(self._each(self._forward, replicas, shares[mine]))
        sizes = [len(share) for share in shares]
        whole = self._gather_outputs(parts, inputs, sizes)
        outputs = whole._make(field.requires_grad_() for field in whole)
        terms = objective.losses(outputs, batch)
        terms["total"].backward()
        # Of each replica's outputs; None for outputs that the loss doesn't depend on.
        split = [[None] * len(sizes) if field.grad is None else field.grad.split(sizes) for field in outputs]
        list(self._each(_backward, parts, list(zip(*split, strict=True))[mine]))
        self._combine_replicas(replicas, len(shares))
        norm = torch.nn.utils.clip_grad_norm_(self._parameters.values(), self._config.gradient_clip)
        with torch.no_grad():
            rows = objective.counting_rows(batch)
            # Divided by the rows' mean weight, which prioritised replay lowers, the terms are means like the others.
            weights = {name: (batch.sample_weight * rows[name]).sum() / rows[name].sum() for name in terms}
            found = {name: term / weights[name] for name, term in terms.items()} | objective.accuracies(outputs, batch)
            measured = [torch.where(rows[name].any(), found[name].detach(), UNMEASURED) for name in objective.metrics]
            return (
                torch.stack([*measured, norm]),
                objective.errors(outputs, batch),
            )

    def _forward(self, replica: Module, inputs: torch.Tensor) -> Any:
        replica.train()
        replica.zero_grad(set_to_none=True)
        return self._outputs(replica, inputs)

    def _outputs(self, network: Module, inputs: torch.Tensor) -> Any:
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._bfloat16):
            return network(inputs)

    @torch.no_grad()
    def _gather_outputs(self, parts: list[Any], inputs: torch.Tensor, sizes: list[int]) -> Any:
        """The outputs for the whole batch. parts: of this process's replicas; sizes: rows of every replica."""
        if self._group is None:
            return parts[0]._make(torch.cat(field) for field in zip(*parts, strict=True))
        if parts:
            like = parts[0]
        else:  # this process has no rows of the batch, and needs the shapes
            self._network.eval()  # leaves norms' statistics alone
            like = self._outputs(self._network, inputs[:1])
        widths = [one[0].numel() for one in like]
        mine = [torch.cat([field.flatten().float() for field in part]) for part in parts]
        found = self._group.gather(mine, [size * sum(widths) for size in sizes])
        shares = [one.split([size * width for width in widths]) for one, size in zip(found, sizes, strict=True)]
        return like._make(
            torch.cat(fields).view(-1, *one.shape[1:]).to(one.dtype)
            for fields, one in zip(zip(*shares, strict=True), like, strict=True)
        )

    @torch.no_grad()
    def _combine_replicas(self, replicas: list[Module], count: int) -> None:
        """Sum the gradients in the network's parameters, and set all norms' statistics to the replicas' means.

        replicas: those of this process that had rows; count: how many had rows in all processes.
        """
        for parameter, *others in zip(*(replica.parameters() for replica in replicas), strict=True):
            for other in others:
                if parameter.grad is not None and other.grad is not None:
                    parameter.grad += other.grad
        if self._group is not None:
            self._add_gradients(self._group, bool(replicas))
        if self._num_replicas > 1 and self._statistics[0]:
            for tensors, found in zip(zip(*self._statistics, strict=True), self._all_statistics(count), strict=True):
                mean = torch.stack(found).mean(0)
                for tensor in tensors:
                    tensor.copy_(mean)

    def _add_gradients(self, group: ProcessGroup, had_rows: bool) -> None:
        """Add the other processes' gradients. had_rows: whether this process computed any."""
        if not had_rows:
            self._network.zero_grad(set_to_none=True)
        parameters = list(self._parameters.values())
        known = torch.tensor([parameter.grad is not None for parameter in parameters], device=self._device)
        flat = [torch.zeros_like(one) if one.grad is None else one.grad for one in parameters]
        total = group.summed(torch.cat([*(one.flatten() for one in flat), known.float()]))
        *sums, known = total.split([*(one.numel() for one in parameters), len(parameters)])
        for parameter, found, num_known in zip(parameters, sums, known.tolist(), strict=True):
            if num_known:  # otherwise the loss doesn't depend on it
                parameter.grad = torch.empty_like(parameter) if parameter.grad is None else parameter.grad
                parameter.grad.copy_(found.view(parameter.shape))

    def _all_statistics(self, count: int) -> list[list[torch.Tensor]]:
        """For each of the norms' statistics, its values in the `count` replicas that had rows, of all processes."""
        if self._group is None:
            return [list(tensors[:count]) for tensors in zip(*self._statistics, strict=True)]
        had_rows = self._statistics[: len(range(self._rank, count, self._processes))]
        mine = [torch.cat([tensor.flatten() for tensor in of_replica]) for of_replica in had_rows]
        sizes = [tensor.numel() for tensor in self._statistics[0]]
        split = zip(*(one.split(sizes) for one in self._group.gather(mine, [sum(sizes)] * count)), strict=True)
        return [
            [one.view(tensor.shape) for one in ones] for ones, tensor in zip(split, self._statistics[0], strict=True)
        ]

    def _average(self) -> None:
        self._averaged_steps += 1
        decay = min(self._config.ema_decay, (1 + self._averaged_steps) / (10 + self._averaged_steps))
        with torch.no_grad():
            torch._foreach_lerp_(self._averages, self._raw, 1 - decay)

    def finish(self, batches: Iterable[Any]) -> None:
        """Complete the network that is returned, once its last step is made; batches: Dataset.some."""
        inputs = (batch[0].to(self._device) for batch in batches)
        self._objective.finish(self._averaged, inputs, self._outputs)

    def evaluate(self, batches: Iterable[Any]) -> dict[str, float]:
        """The objective's metrics over batches, without training: in float32, with norms' running statistics.

        Each metric is the mean over the rows that count for it; without any it is left out. {} if there are no rows.
        """
        return self.evaluate_parts([list(batches)])[0]

    def evaluate_parts(self, parts: Sequence[Sequence[Any]]) -> list[dict[str, float]]:
        """The same of all batches together, then of each part's."""
        self._averaged.eval()
        measured = list(self._measured([batch for part in parts for batch in part]))
        of_parts = [measured]
        for part in parts:
            of_parts.append(measured[: len(part)])
            measured = measured[len(part) :]
        return [self._means(one) for one in of_parts]

    def _means(self, of_batches: Iterable[dict[str, Sequence[float]]]) -> dict[str, float]:
        """Of _measure's results."""
        sums = dict.fromkeys(self._objective.metrics, 0.0)
        counts = dict.fromkeys(self._objective.metrics, 0.0)
        for measured in of_batches:
            for name, (mean, count) in measured.items():
                sums[name] += mean * count
                counts[name] += count
        if not counts["total"]:
            return {}
        means = {name: sums[name] / counts[name] if counts[name] else 0.0 for name in self._objective.metrics}
        # The total of the means, not the mean of the totals: different rows count for different terms.
        means["total"] = self._objective.total(means)
        return {name: mean for name, mean in means.items() if counts[name]}

    def histograms(self) -> dict[str, FloatArray]:
        """The trained weights and the last step's clipped gradients, at most MOST_NUMBERS of each part of the network.

        By weights/PART and gradients/PART; a part is the first word of its weights' names.
        """
        parts: dict[str, list[torch.Tensor]] = {}
        for name, parameter in self._parameters.items():
            part = name.partition(".")[0]
            for what, tensor in (("weights", parameter.detach()), ("gradients", parameter.grad)):
                if tensor is not None:
                    parts.setdefault(f"{what}/{part}", []).append(tensor.flatten())
        found = {}
        for name, tensors in parts.items():
            step = -(-sum(map(len, tensors)) // MOST_NUMBERS)
            found[name] = np.concatenate([tensor[::step].float().cpu().numpy() for tensor in tensors])
        return found

    def _measured(self, batches: list[Any]) -> Iterable[dict[str, Sequence[float]]]:
        """_measure of each batch, divided among processes, and among threads if the network allows it."""
        each = self._each if self._objective.shareable else map
        if self._group is None or not batches:
            return each(self._measure, batches)
        names = self._objective.metrics
        measured = each(self._measure, batches[self._rank :: self._processes])
        mine = [torch.tensor([found[name] for name in names], dtype=torch.float64) for found in measured]
        gathered = self._group.gather(mine, [2 * len(names)] * len(batches), torch.float64)
        return [dict(zip(names, one.view(-1, 2).tolist(), strict=True)) for one in gathered]

    def _measure(self, given: Any) -> dict[str, Sequence[float]]:
        """Mean and count of each metric over one batch."""
        self._objective.check(given)
        with torch.inference_mode():
            objective, batch = self._objective, given._make(part.to(self._device) for part in given)
            outputs = self._averaged(batch[0])
            found = {**objective.losses(outputs, batch), **objective.accuracies(outputs, batch)}
            rows = objective.counting_rows(batch)
            return {name: (found[name].item(), rows[name].sum().item()) for name in objective.metrics}


def keep_freed_memory() -> bool:
    """Let malloc keep memory for the rest of the process. Without glibc: change nothing and return False."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform.startswith("linux") else None
    return mallopt is not None and all(mallopt(name, value) == 1 for name, value in MALLOC_SETTINGS.items())


@contextmanager
def _without_denormals() -> Iterator[None]:
    """Round numbers below 1e-38 to 0: an idle unit's moments become so small, and slow updates down (docs/log)."""
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


def _backward(outputs: Any, gradients: Sequence[torch.Tensor | None]) -> None:
    """Propagate the gradients of a replica's outputs to its weights."""
    known = [gradient is not None for gradient in gradients]
    torch.autograd.backward(tuple(compress(outputs, known)), tuple(compress(gradients, known)))


def _make_optimizers(
    parameters: dict[str, torch.nn.Parameter], config: TrainConfig
) -> dict[str, torch.optim.Optimizer]:
    """The optimiser of each parameter, by the parameter's name. Raises UsageError if Muon would have none."""
    matrices = {name: parameter for name, parameter in parameters.items() if parameter.ndim > 1}
    in_blocks = [name for name in matrices if config.optimizer == "muon" and name.startswith("blocks.")]
    if config.optimizer == "muon" and not in_blocks:
        raise UsageError(
            "train --optimizer muon: it is for the matrices of residual blocks, and this network has none; wanted adam"
        )
    inner = {name: matrices.pop(name) for name in in_blocks}
    groups = [
        {"params": list(matrices.values()), "weight_decay": config.weight_decay},
        {"params": [parameter for parameter in parameters.values() if parameter.ndim <= 1], "weight_decay": 0.0},
    ]
    adam = torch.optim.AdamW(groups, lr=config.learning_rate, fused=True)
    muon = Muon(inner.values(), config.learning_rate, config.weight_decay) if inner else adam
    return {name: muon if name in inner else adam for name in parameters}


def has_moments(arrays: Arrays, config: TrainConfig) -> bool:
    """Whether an optimiser's state has the moments that this training needs: Adam's two, or only the first for Muon."""
    first, second = MOMENTS[torch.optim.AdamW]
    names = [name.removeprefix(f"{first}.") for name in arrays if name.startswith(f"{first}.")]
    return config.optimizer == "muon" or all(f"{second}.{name}" in arrays for name in names)


def without_moments(arrays: Arrays) -> Arrays:
    """The state of a fresh optimiser, with zero moments and steps; raw weights and their averaging are kept."""
    first, second = MOMENTS[torch.optim.AdamW]
    kept = {name: array for name, array in arrays.items() if name == AVERAGED or name.startswith(f"{RAW}.")}
    starting = {name: np.zeros_like(array) for name, array in arrays.items() if name.startswith(f"{first}.")}
    squares = {name.replace(first, second, 1): array for name, array in starting.items()}
    return {STEP: np.zeros(1, np.int64), **kept, **starting, **squares}


def with_own_counts(arrays: Arrays) -> Arrays:
    """The state of an optimiser with which a new training begins: parameters whose moments are 0 count from 0.

    By its count Adam corrects the bias of moments that began at 0: otherwise the steps of a head that is switched on
    would be up to 6.5 times too long.
    """
    first, second = MOMENTS[torch.optim.AdamW]
    names = [name.removeprefix(f"{first}.") for name in arrays if name.startswith(f"{first}.")]
    nothing = np.zeros(0)  # of parameters that Muon moves
    empty = [name for name in names if not any(arrays.get(f"{m}.{name}", nothing).any() for m in (first, second))]
    return {**arrays, **{f"{UPDATES}.{name}": np.zeros(1, np.int64) for name in empty}}


def _stored(arrays: Arrays, name: str, shape: tuple[int, ...], dtype: Any = np.float32) -> NDArray[Any]:
    """An array of an optimiser's state. Raises MuGoError if it is missing or has another shape or type."""
    found = arrays.get(name)
    if found is None or found.shape != shape or found.dtype != dtype:
        shown = "missing" if found is None else f"{found.dtype} of shape {list(found.shape)}"
        raise MuGoError(
            f"optimiser state: {name} is {shown}; wanted {np.dtype(dtype)} of shape {list(shape)}; "
            "choose another --original-model"
        )
    return found


def _stored_steps(arrays: Arrays, name: str) -> int:
    """A number of steps in an optimiser's state. Raises MuGoError like _stored."""
    steps = int(_stored(arrays, name, (1,), np.int64).item())
    if not 0 <= steps < MOST_STEPS:
        raise MuGoError(f"optimiser state: {name} is {steps}; wanted a number of steps")
    return steps


def _tensors(network: Module) -> list[torch.Tensor]:
    """Weights and norms' statistics in a fixed order, without the unused counters of batches."""
    return [tensor for tensor in network.state_dict().values() if tensor.is_floating_point()]


def _raw_weights(weights: Weights, arrays: Arrays) -> Weights | None:
    """The trained weights if the model's are their average, else None."""
    if not any(name.startswith(f"{RAW}.") for name in arrays):
        return None
    return {name: _stored(arrays, f"{RAW}.{name}", array.shape) for name, array in weights.items()}


class CudaGraphPass:
    """Calls a function that leaves gradients in parameters; captures it as a graph for each shape of batch.

    Launching a small network's thousand operations from Python takes three times as long as the GPU needs for them.
    """

    def __init__(self, function: Pass, parameters: Sequence[torch.Tensor], device: torch.device) -> None:
        """function: copies a batch to the device itself; all other tensors that it uses must stay in place."""
        self._function, self._parameters, self._device = function, parameters, device
        self._calls: dict[Any, int] = {}
        self._graphs: dict[Any, _Graph] = {}

    def __call__(self, batch: Any) -> tuple[torch.Tensor, ...]:
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
        self, function: Pass, parameters: Sequence[torch.Tensor], batch: Any, device: torch.device, pool: Any
    ) -> None:
        """pool: memory shared with the other graphs, which never run at the same time."""
        self._parameters = parameters
        self._batch = batch._make(torch.empty_like(part, device=device) for part in batch)
        self.graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize(device)
        capture = torch.cuda.graph(self.graph, pool=pool, capture_error_mode="thread_local")  # other threads may play
        with without_garbage_collection(), capture:  # computes nothing
            self._found = function(self._batch)
        self._gradients = [parameter.grad for parameter in parameters]

    def replay(self, batch: Any) -> tuple[torch.Tensor, ...]:
        for held, part in zip(self._batch, batch, strict=True):
            held.copy_(part, non_blocking=True)
        self.graph.replay()
        for parameter, gradient in zip(self._parameters, self._gradients, strict=True):
            parameter.grad = gradient
        return self._found


def samples_per_second(trainer: Trainer, batches: Iterable[Any], seconds: float) -> float:
    """Training speed on these batches after one to warm up; stops after `seconds` or the last batch."""
    source = iter(batches)
    trainer.step(next(source))
    samples, started = 0, time.perf_counter()
    for batch in source:
        samples += trainer.step(batch).num_samples
        if time.perf_counter() - started >= seconds:
            break
    return samples / (time.perf_counter() - started)
