"""``train``: trains the next model from the newest model and the newest set of chunks.

Checkpoint: a file in a hidden folder beside the new model, rewritten every checkpoint_seconds and on an interrupt. Its
key covers the original model, the set and the settings. A run with the same key resumes and ends with the same weights
as an uninterrupted one; any other run starts over.

The new model appears whole: weights, the optimiser's state, and calibration positions for int8.

priority_exponent > 0: examples are sampled by priorities (``prioritised_replay.py``), which change after every batch.
The checkpoint stores them; a finished training writes them beside the chunks just before its model appears. A training
starts from its checkpoint's priorities, else from those stored for its set or an earlier one.

network_size above the original's: the network grows first, from the weights that the original plays with; the optimiser
and its step count start anew.

With torchrun, several processes train one model together (``trainer.py``). The first one chooses what to train, and
only it writes files and prints. A signal to any of them stops all after the same step.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import signal
import time
from collections.abc import Generator, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import TypeAdapter

from pipeline.errors import FileError, NotYet, UsageError, naming
from pipeline.games.specs import are_related, parse_game
from pipeline.interrupts import Held, held_back
from pipeline.methods.method import IndexArray, Objective
from pipeline.methods.named import method_named
from pipeline.networks.gpu import gpu_fault
from pipeline.phrases import counted, duration, measured, percent, words
from pipeline.progress import SILENT, Progress
from pipeline.run import atomic, layout
from pipeline.run.chunks import ChunkSet, check_holdout, complete_set, list_sets, newest_complete_set, read_header
from pipeline.run.models import (
    Model,
    ModelInfo,
    check_champion,
    has_model,
    newest_model,
    newest_models,
    next_model_path,
    read_model,
    read_optimizer,
    resolve_champion,
    write_model,
)
from pipeline.run.order import TOTAL
from pipeline.run.priorities import (
    Priorities,
    newest_priorities,
    read_priorities,
    remove_stale_priorities,
    write_priorities,
)
from pipeline.run.provenance import library_versions, source_commit
from pipeline.run.store.base import current_store
from pipeline.run.store.requests import Conflict
from pipeline.tracking.options import check_packages
from pipeline.tracking.tracker import Tracker, place_of, step_of
from pipeline.train.checkpoint import Checkpoint, State, remove_finished
from pipeline.train.config import TrainConfig
from pipeline.train.prioritised_replay import Replay, starting_priorities
from pipeline.train.rank import ALONE, processes_here

if TYPE_CHECKING:
    from pipeline.train.process_group import ProcessGroup
    from pipeline.train.trainer import StepResult

MAX_MEASURED = 4_096  # examples measured of the hold-out, and as many of the set; of each kind to complete a model
CHOSEN = "chosen"  # store key: what the first process chose to train
SHOWN_EVERY = 10  # steps between two points that are tracked
VALUE_ERROR = "value_mse"  # (v − z)², a metric of every value head
# Settings that don't change what a run computes, so a checkpoint may be resumed with other values.
NOT_IN_KEY = {"directory", "original_model", "new_model", "logdir", "track", "checkpoint_seconds", "time_share"}

Metrics = dict[str, dict[str, float]]  # "train" (the last epoch), "holdout" and "set" "_before" and "_after" → by name


@dataclass(frozen=True)
class TrainSummary:
    """What one training did.

    loss       the total training loss: its mean over the last epoch's steps
    value_gap  the new model's (v − z)² on the hold-out minus that on about as many examples of the set, sampled as
               uniformly as the hold-out; well above 0: it has memorised results. None if the set's values aren't pure
               results (td_lambda), or nothing is held out
    metrics    "train", "holdout_before" and "holdout_after", by the objective's names; only what was measured
    kinds      the new model's metrics on the hold-out's examples of each kind, e.g. board, with "examples", their
               number, if there are several kinds
    """

    model: Path
    original_model: Path
    chunk_set: str
    examples: int
    steps: int
    steps_cut: int  # left out because of max_samples_per_position
    total_samples: int  # seen by the model and its ancestors in training
    resumed_from_step: int
    loss: float  # the total: its mean over the last epoch's steps
    holdout_examples: int
    value_gap: float | None
    seconds: float  # of this process's training steps
    samples_per_second: float  # 0: all steps had been made before
    method: str
    metrics: Metrics  # "train", "holdout_before" and "holdout_after", by the objective's names
    kinds: Metrics

    def lines(self) -> list[str]:
        """The short form."""
        resumed = f", resumed at step {self.resumed_from_step:,}" if self.resumed_from_step else ""
        speed = f", {self.samples_per_second:,.0f} samples/s" if self.samples_per_second else ""
        lines = [
            f"{self.model.name} from {self.original_model.name}: {counted(self.steps, 'step')} on "
            f"{counted(self.examples, 'example')} in {duration(self.seconds)}"
            f"{speed}{resumed}",
            self._training(),
        ]
        if self.holdout_examples:
            lines += [self._held_out(), *self._held_out_by_kind()]
        if self.steps_cut:
            lines.append(f"{counted(self.steps_cut, 'step')} left out because of --max-samples-per-position")
        return lines

    def _training(self) -> str:
        found, method = self.metrics["train"], method_named(self.method)
        terms = ", ".join(f"{words(name)} {measured(found[name])}" for name in method.shown_terms if name in found)
        shares = ", ".join(f"{percent(found[name])} {of}" for name, of in method.shown_shares.items() if name in found)
        terms, shares = f" in all; {terms}" if terms else "", f"; {shares}" if shares else ""
        return f"training: loss {measured(self.loss)}{terms}{shares}"

    def _held_out(self) -> str:
        before, after, method = self.metrics["holdout_before"], self.metrics["holdout_after"], method_named(self.method)
        loss, shares = f"loss {measured(before['total'])} before, {measured(after['total'])} after", ""
        if (name := method.held_out_share) in before:
            shares = f"; {percent(before[name])} and {percent(after[name])} {method.shown_shares[name]}"
        return f"held out: {loss}{shares} ({counted(self.holdout_examples, 'example')})"

    def _held_out_by_kind(self) -> list[str]:
        method = method_named(self.method)
        return [
            f"held out, {kind}: "
            + ", ".join(f"{percent(found[name])} {of}" for name, of in method.shown_shares.items() if name in found)
            + f" ({counted(int(found['examples']), 'example')})"
            for kind, found in self.kinds.items()
        ]


@dataclass
class _RunProgress:
    """How far a run is, apart from the trainer's state; a checkpoint stores it as JSON."""

    step: int = 0
    holdout_before: dict[str, float] = field(default_factory=dict)
    set_before: dict[str, float] = field(default_factory=dict)
    epoch_sums: dict[str, float] = field(default_factory=dict)  # metrics summed over the last epoch's steps so far
    epoch_steps: dict[str, int] = field(default_factory=dict)  # how many of these steps measured each
    seconds: float = 0.0  # in all processes that worked on this run one after the other, up to the checkpoint


_STORED_PROGRESS = TypeAdapter(_RunProgress)


def train(config: TrainConfig, progress: Progress = SILENT) -> TrainSummary:
    """Train one model, together with the other processes if torchrun started several.

    Raises NotYet if there is no complete set, the newest model was trained on it already, another process is training
    the same model, or max_samples_per_position allows no step yet; FileError for files that are missing, damaged or of
    another game; MuGoError if the loss stops being finite (nothing is written then).
    """
    check_packages("train", config.track)
    processes = processes_here("train")
    if processes == ALONE:
        return _train(config, progress)
    from pipeline.train.process_group import process_group

    settings = {f"--{name.replace('_', '-')}": value for name, value in config.stored().items()}
    with process_group(processes, settings) as group:
        return _train(config, progress, group) if processes.first else _train_chosen(config, group)


def _train(config: TrainConfig, progress: Progress, group: ProcessGroup | None = None) -> TrainSummary:
    """Choose what to train, and train it. group: this process is its first."""
    saved_models = config.new_model.parent if config.new_model else layout.SAVED_MODELS
    if config.new_model is None:
        check_champion(saved_models)
    remove_finished(saved_models)
    for folder in (saved_models, config.directory):
        atomic.sweep(folder)
    chunks = newest_complete_set(config.directory)
    if chunks is None:
        raise NotYet(f"{config.directory}: no complete set of chunks yet; run `python main.py gather`", missing=1)
    if config.original_model:
        original = resolve_champion(config.original_model)
    else:
        try:
            original = newest_model(saved_models)
        except FileError as error:
            raise FileError(saved_models, f"{error.problem}, --original-model names one elsewhere") from error
    model = read_model(original)
    if config.original_model is None and model.info.manifest.get("chunk_set") == chunks.id:
        raise NotYet(f"no new chunks since {model.info.name}: run `python main.py selfplay` and `gather`", missing=1)
    run = _Training(config, chunks, model, progress, group)
    new_model = config.new_model or next_model_path(saved_models, run.network_size)
    layout.check_model_name(new_model.name)
    if os.path.lexists(new_model):
        raise FileError(new_model, "it exists already, and is never overwritten; choose another --new-model")
    overtaken = "another {} has trained a model meanwhile; run the command again"
    from pipeline.train.trainer import NotFinite

    with Checkpoint(layout.checkpoint_path(new_model), run.key) as checkpoint:
        # Another process may have trained a model since the models were listed. From here on the lock prevents that.
        if os.path.lexists(new_model) or (config.original_model is None and newest_model(saved_models) != original):
            raise NotYet(f"{new_model}: {overtaken.format('process')}")
        if group:
            group.publish(CHOSEN, [chunks.id, str(original), str(new_model), run.key])
        try:
            summary = run.train(new_model, checkpoint)
        except NotFinite:
            checkpoint.remove()  # resuming from it would fail again
            raise
        except Conflict as error:
            raise NotYet(f"{new_model}: {overtaken.format('machine')}") from error
        checkpoint.remove()
    return summary


def _train_chosen(config: TrainConfig, group: ProcessGroup) -> TrainSummary:
    """Train what the first process chose; only that one writes and prints."""
    set_id, original, new_model, key = group.receive(CHOSEN)
    sets = {str(name): complete_set(name, files) for name, files in list_sets(config.directory).items()}
    if (chunks := sets.get(set_id)) is None:
        raise FileError(
            config.directory,
            f"no complete set {set_id}; wanted the first process's folder; do the machines share a disk?",
        )
    run = _Training(config, chunks, read_model(Path(original)), SILENT, group)
    if run.key != key:
        raise FileError(Path(original), "differs from the first process's model; do the machines share a disk?")
    return run.train(Path(new_model), Checkpoint(layout.checkpoint_path(Path(new_model)), key))


def _total_samples(model: ModelInfo) -> int:
    """Samples that the model and its ancestors were trained on."""
    return int(model.manifest.get("total_samples", 0))


class _Training:
    """One training, from the original model or a checkpoint to the new model.

    key           runs with equal keys compute the same weights
    network_size  of the new model, as a part of its name
    """

    def __init__(
        self, config: TrainConfig, chunks: ChunkSet, model: Model, progress: Progress, group: ProcessGroup | None = None
    ) -> None:
        """Raises FileError if chunks and model don't fit each other."""
        self._config, self._chunks, self._model, self._progress = config, chunks, model, progress
        self._group, self._writes = group, group is None or group.first
        self._method = method = method_named(model.info.method)
        method.check_options("train", config)
        current_store().fetch(chunks.files)
        header = read_header(chunks.chunks[0])
        if not are_related(model.info.game, header.game):
            raise FileError(model.path, f"it plays {model.info.game}; wanted a model that plays {header.game}")
        check_holdout(chunks, header)
        self._game = parse_game(header.game)
        if header.method != method.name:
            raise FileError(
                chunks.chunks[0],
                f"examples of method {header.method}, but {model.info.name} learns by {method.name}; "
                "wanted a folder for each method",
            )
        with naming(model.path):
            self._grown = method.grown(self._game, model, config)
        self.network_size = method.size(self._grown.architecture)
        files = {name: stamp.sha256 for name, stamp in model.info.files.items()}
        identity = {"model": files, "chunk_set": chunks.id, "config": config.stored(NOT_IN_KEY)}
        self.key = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()

    def train(self, new_model: Path, checkpoint: Checkpoint) -> TrainSummary:
        """Train to the end and write the model. An interrupt leaves a checkpoint of the steps made."""
        self._prepare(checkpoint)
        options = self._config if self._writes else None
        beside = self._config.directory
        track = place_of(f"train/{new_model.name}" if self._is_branch else "train")
        with Tracker(options, beside, track, "train/step", self._progress, self._total_steps + 1) as self._tracker:
            return self._train(new_model)

    @property
    def _is_branch(self) -> bool:
        """Whether the new model was named, and either stands elsewhere or doesn't go on from the run's newest one."""
        if (named := self._config.new_model) is None:
            return False
        models = layout.Run.of_games(self._config.directory).models
        newest = next(newest_models(models), None)
        goes_on = newest is not None and os.path.realpath(newest) == os.path.realpath(self._model.path)
        return not goes_on or os.path.realpath(named.parent) != os.path.realpath(models)

    def _train(self, new_model: Path) -> TrainSummary:
        self._started = time.perf_counter()
        try:
            if not self._resumed_from:
                first = self._total_steps + 1
                self._track_measured(self._done.holdout_before, self._done.set_before, first)
            samples = self._train_steps()
            seconds = time.perf_counter() - self._started
            speed = samples / seconds
            if self._replay:
                self._save()  # so that a kill between the files below doesn't count these steps twice
            self._trainer.finish(self._dataset.some(MAX_MEASURED))
            metrics, kinds = self._measure()
            info = self._model_info(new_model, metrics, kinds, speed)
            if self._writes:
                if self._replay:
                    path = self._config.directory / layout.priorities_name(self._chunks.id)
                    write_priorities(path, self._replay.priorities)
                optimizer = self._trainer.optimizer_state
                write_model(new_model, info, self._trainer.weights, optimizer, self._calibration)
                remove_stale_priorities(self._config.directory, self._chunks.id)
            # Only now, so that a run killed before its model appears adds no second point.
            self._track_measured(metrics["holdout_after"], metrics["set_after"], self._total_steps)
            self._track_kinds(kinds)
            self._tracker.add(self._trainer.histograms(), self._total_steps, settled=False)
            self._tracker.settle()
        except KeyboardInterrupt:
            if has_model(new_model):  # written, but for what is tracked
                self._tracker.settle()
                raise
            self._save()
            self._progress.say(f"interrupted after step {self._done.step} of {self._steps}; run it again to continue")
            raise
        in_manifest = "chunk_set", "examples", "steps", "steps_cut", "total_samples"
        return TrainSummary(
            **{name: info.manifest[name] for name in in_manifest},
            model=new_model,
            original_model=self._model.path,
            resumed_from_step=self._resumed_from,
            loss=metrics["train"]["total"],
            holdout_examples=self._num_held_out,
            value_gap=_value_gap(metrics["holdout_after"], metrics["set_after"]),
            seconds=seconds,
            samples_per_second=speed,
            method=self._method.name,
            metrics={name: metrics[name] for name in ("train", "holdout_before", "holdout_after")},
            kinds=kinds,
        )

    def _prepare(self, checkpoint: Checkpoint) -> None:
        """Read the examples, and make the trainer from the checkpoint or the original model."""
        from pipeline.train.dataset import MEMORY_BYTES, Dataset, calibration_positions, holdout_batches
        from pipeline.train.trainer import Trainer, has_moments, with_own_counts, without_moments

        config, method, game, chunks = self._config, self._method, self._game, self._chunks
        self._checkpoint = checkpoint
        memory = math.inf if config.priority_exponent else MEMORY_BYTES
        self._dataset = Dataset(method, game, chunks, config.batch_size, config.seed, memory, config.symmetries)
        planned = self._dataset.batch_sizes(config.epochs)
        self._sizes = self._allowed(planned)
        self._steps, self._steps_cut = len(self._sizes), len(planned) - len(self._sizes)
        self._last_epoch_from = self._steps - len(self._dataset.batch_sizes(1))
        # The original and the new model are measured on the hold-out and on as many examples of the set. The set is
        # left out if its values aren't pure results, as the hold-out's always are: the two wouldn't compare.
        path = chunks.holdout
        self._holdout = holdout_batches(method, game, path, config.batch_size, MAX_MEASURED) if path else {}
        self._num_held_out = sum(map(_num_examples, self._holdout.values()))
        pure_results = self._dataset.window["td_lambda"] == 1
        self._of_set = self._dataset.uniform(self._num_held_out) if self._holdout and pure_results else []
        self._calibration = calibration_positions(method, game, chunks)  # now: the chunks may be gone at the end
        with naming(self._model.path):
            weights = self._grown.weights
            optimizer = None if self._grown.fresh_optimizer else read_optimizer(self._model.path)
            notes = [self._grown.note] if self._grown.note else []
            if optimizer is not None and not has_moments(optimizer, config):
                optimizer = without_moments(optimizer)
                by_muon = f"{self._model.info.name} was trained by Muon, which has no moments for Adam"
                notes.append(f"the optimiser starts anew: {by_muon}")
            if optimizer is not None:
                optimizer = with_own_counts(optimizer)
            objective = method.objective(self._grown.architecture, config)
            objective.start_from(self._grown.weights)
            found = checkpoint.read(self._progress, partial(self._check, objective))
            if found is None:
                for note in notes:
                    self._progress.say(note)
            else:
                self._done = _STORED_PROGRESS.validate_python(found.progress)
                weights, optimizer = found.weights, found.optimizer
                self._progress.say(f"resuming at step {self._done.step} of {self._steps}")
            if self._group:
                self._group.agree("resume", {"the step to resume from": self._done.step if found else 0})
            self._terms = objective.terms
            if self._group is None and (fault := gpu_fault()):
                self._progress.warn(f"the GPU can't be used ({fault}): the CPU trains instead")
            self._trainer = Trainer(objective, weights, config, optimizer, self._group)
        if found is None:
            holdout, of_set = self._measure_holdout()[0], self._trainer.evaluate(self._of_set)
            self._done = _RunProgress(holdout_before=holdout, set_before=of_set)
        self._resumed_from = self._done.step
        self._replay = self._make_replay(found) if config.priority_exponent else None

    @property
    def _total_steps(self) -> int:
        """Steps so far of all trainings of the model and its ancestors: x of what is tracked.

        The optimiser's own count is of those since it last began anew, as it does when the network grows.
        """
        return step_of(self._model.info.manifest) + self._done.step

    def _allowed(self, planned: IndexArray) -> IndexArray:
        """The planned batch sizes [steps] that max_samples_per_position allows; ancestors' samples count too."""
        cap, positions = self._config.max_samples_per_position, self._dataset.window[TOTAL]
        if not cap:
            return planned
        before = _total_samples(self._model.info)
        allowed = planned[before + planned.cumsum() <= cap * positions]
        if not len(allowed):
            missing = max(1, math.ceil((before + int(planned[0])) / cap) - positions)
            raise NotYet(
                f"{self._model.info.name} was trained on {before} samples and self-play has made {positions} "
                f"positions: {missing} more are missing for a step at {cap:g} samples per position; "
                "run `python main.py selfplay` and `gather`",
                missing,
            )
        return allowed

    def _check(self, objective: Objective, found: State) -> None:
        """Guards against a hand-edited checkpoint. Raises ValueError or KeyError if it can't be of this run."""
        done = _STORED_PROGRESS.validate_python(found.progress)
        if not 0 <= done.step <= self._steps:
            raise ValueError(f"step {done.step} of {self._steps}")
        shapes, wanted = (
            {name: array.shape for name, array in objective.trained(weights).items()}
            for weights in (found.weights, self._grown.weights)
        )
        if shapes != wanted:
            raise ValueError("its weights are those of another network")
        if self._config.priority_exponent:
            values = found.replay["priorities"]
            if values.dtype != np.float32 or values.shape != self._dataset.examples.shape:
                raise ValueError("its priorities are those of another set")
            if not (np.isfinite(values) & (values > 0)).all():
                raise ValueError("a priority isn't above 0")

    def _make_replay(self, checkpoint: State | None) -> Replay:
        config, dataset = self._config, self._dataset
        if len(dataset.kinds) > 1:
            raise UsageError(
                f"train --priority-exponent: set {dataset.id} has {len(dataset.kinds)} kinds of examples (board "
                "sizes), which can't share a batch; wanted one kind, or 0"
            )
        if checkpoint is not None:
            priorities = Priorities(dataset.examples, checkpoint.replay["priorities"])
        else:
            path, stored = newest_priorities(config.directory, dataset.id), None
            try:
                stored = read_priorities(path) if path else None
            except FileError as error:
                self._progress.warn(f"{error}: all priorities start anew")
            priorities = starting_priorities(dataset.examples, stored)
        seeds = [config.seed, *dataset.id.encode()]
        return Replay(priorities, config.priority_exponent, config.priority_correction, config.priority_floor, seeds)

    def _train_steps(self) -> int:
        """Make the remaining steps; returns how many samples this process trained on."""
        done, samples, saved = self._done, 0, time.monotonic()
        tracked = 0, time.perf_counter()  # samples and time at the last point
        self._progress.start("training", total=self._steps, unit="steps", done=done.step)
        with held_back() as held, closing(self._batches()) as batches:
            for rows, batch in batches:
                result = self._trainer.step(batch)
                if self._replay and rows is not None:
                    self._replay.update(rows, result.value_errors)
                done.step += 1
                if done.step > self._last_epoch_from:
                    for name, value in result.metrics.items():
                        done.epoch_sums[name] = done.epoch_sums.get(name, 0.0) + value
                        done.epoch_steps[name] = done.epoch_steps.get(name, 0) + 1
                samples += result.num_samples
                if done.step % SHOWN_EVERY == 0 or done.step == self._steps:
                    now = time.perf_counter()
                    self._show(result, (samples - tracked[0]) / (now - tracked[1]))
                    tracked = samples, now
                if time.monotonic() - saved >= self._config.checkpoint_seconds and done.step < self._steps:
                    self._save()
                    saved = time.monotonic()
                self._progress.advance()
                self._deliver_interrupts(held)
        self._progress.finish()
        return samples

    def _deliver_interrupts(self, held: Held) -> None:
        """Deliver the interrupts held back during a step: those of one process in all of them."""
        if self._group is None:
            held()
        elif number := self._group.largest(held.number):  # 0: a signal that arrives only now waits for the next step
            if not held.number:
                signal.raise_signal(number)
            held()

    def _batches(self) -> Generator[tuple[IndexArray | None, Any], None, None]:
        """The remaining batches; with priorities each is sampled only when requested, and comes with its rows [B]."""
        from pipeline.train.dataset import prefetched

        start = self._done.step
        if self._replay:
            for step in range(start, self._steps):
                sample = self._replay.sample(step, int(self._sizes[step]), self._dataset.num_symmetries)
                yield sample.rows, self._dataset.batch(sample.rows, sample.symmetries, sample.weights)
            return
        with prefetched(islice(self._dataset.batches(self._config.epochs, start), self._steps - start)) as batches:
            for batch in batches:
                yield None, batch

    def _seconds(self) -> float:
        return self._done.seconds + time.perf_counter() - self._started

    def _save(self) -> None:
        if not self._writes:
            return
        arrays = {"priorities": self._replay.priorities.values} if self._replay else {}
        progress = {**vars(self._done), "seconds": self._seconds()}
        self._checkpoint.write(State(progress, self._trainer.weights, self._trainer.optimizer_state, arrays))
        self._tracker.settle()

    def _show(self, result: StepResult, speed: float) -> None:
        """speed: samples/s since the last call."""
        of_step = {name: getattr(result, name) for name in ("gradient_norm", "learning_rate")}
        values = {**self._named(result.metrics), **of_step, "samples_per_second": speed}
        self._tracker.add(values, self._total_steps, settled=False)
        terms = {"total": "loss"} | {name: words(name) for name in self._method.shown_terms if name in result.metrics}
        self._progress.describe(" ".join(f"{word} {measured(result.metrics[name])}" for name, word in terms.items()))

    def _measure_holdout(self) -> tuple[dict[str, float], Metrics]:
        """The metrics of the hold-out, and those of its examples of each kind; see TrainSummary."""
        together, *each = self._trainer.evaluate_parts(list(self._holdout.values()))
        if len(each) < 2:
            return together, {}
        found = zip(self._holdout.items(), each, strict=True)
        return together, {
            self._method.kind_name(kind): {"examples": _num_examples(batches), **metrics}
            for (kind, batches), metrics in found
        }

    def _measure(self) -> tuple[Metrics, Metrics]:
        """What the manifest says of the training and of the new model, and of the kinds of examples."""
        done = self._done
        holdout, kinds = self._measure_holdout()
        metrics = {
            "train": {name: total / done.epoch_steps[name] for name, total in done.epoch_sums.items()},
            "holdout_before": done.holdout_before,
            "set_before": done.set_before,
            "holdout_after": holdout,
            "set_after": self._trainer.evaluate(self._of_set),
        }
        return metrics, kinds

    def _named(self, metrics: Mapping[str, float], suffix: str = "") -> dict[str, float]:
        """The objective's metrics by the names under which they are tracked: only its terms are losses."""
        return {f"{'loss/' * (name in self._terms)}{name}{suffix}": value for name, value in metrics.items()}

    def _track_measured(self, of_holdout: Mapping[str, float], of_set: Mapping[str, float], step: int) -> None:
        """Metrics of the saved weights, without symmetries, on about as many examples of the hold-out and of the set.

        step: the last one made; before training the next one, since a point of the last belongs to another training.

        Of the set's, those are left out that were sampled for their surprise: the hold-out is sampled uniformly.
        """
        values = self._named(of_holdout, "_holdout")
        if (gap := _value_gap(of_holdout, of_set)) is not None:
            values |= {f"{VALUE_ERROR}_set": of_set[VALUE_ERROR], "value_gap": gap}
        if values:
            self._tracker.add(values, step, settled=False)

    def _track_kinds(self, kinds: Metrics) -> None:
        """The shares of each kind's examples, by names without characters that a sink refuses."""
        values = {
            f"{name}_holdout_{kind.replace('×', 'x')}": found[name]
            for kind, found in kinds.items()
            for name in self._method.shown_shares
            if name in found
        }
        if values:
            self._tracker.add(values, self._total_steps, settled=False)

    def _model_info(self, path: Path, metrics: Metrics, kinds: Metrics, speed: float) -> ModelInfo:
        """speed: samples/s in this process's steps."""
        gap = _value_gap(metrics["holdout_after"], metrics["set_after"])
        number = layout.number_of(path.name)
        return ModelInfo(
            name=path.name,
            number=self._model.info.number + 1 if number is None else number,
            game=self._model.info.game,
            architecture=self._method.stored(self._grown.architecture, path.parent),
            method=self._model.info.method,
            parents=[self._model.info.name],
            manifest={
                "stage": "train",
                "config": self._config.stored(self._method.unread(self._config)),
                "chunk_set": self._chunks.id,
                "window": self._dataset.window,
                "examples": self._dataset.num_examples,
                "steps": self._steps,
                "steps_cut": self._steps_cut,
                "total_steps": self._total_steps,
                "seconds": round(self._seconds(), 1),
                **({"samples_per_second": round(speed, 1)} if speed else {}),
                "total_samples": _total_samples(self._model.info) + int(self._sizes.sum()),
                "metrics": metrics,
                **({"holdout_kinds": kinds} if kinds else {}),
                **({} if gap is None else {"value_gap": gap}),
                "commit": source_commit(),
                "versions": library_versions(),
            },
        )


def _num_examples(batches: Iterable[Any]) -> int:
    return sum(len(batch.value) for batch in batches)


def _value_gap(of_holdout: Mapping[str, float], of_set: Mapping[str, float]) -> float | None:
    return of_holdout[VALUE_ERROR] - of_set[VALUE_ERROR] if VALUE_ERROR in of_holdout and of_set else None
