"""``train``: the newest set of chunks and the newest model in, the next model out.

The run keeps a checkpoint in a hidden folder beside the model that it will become, renewed every checkpoint_seconds and
when it is interrupted. It is keyed by the original model, the set and the settings: the same command again goes on from
it and ends with the same weights as a run that was never interrupted; any other run starts over. The new model appears
whole, with its optimiser's state, which the next training continues, and positions of the window for int8
(``calibration.py``).

With priority_exponent > 0 examples are sampled by priorities (``replay.py``), which change after every batch. The
checkpoint has them, and a training that ends keeps them beside the chunks, just before its model appears. A training
starts from the priorities stored for its set or, for positions that were in an earlier set, for that one; an
interrupted run takes them from its checkpoint. Such a set is held in memory whole. With max_samples_per_position > 0
the run ends before the model and its ancestors have been trained on more samples per position made by self-play than
that. With a network_size larger than the original's the network grows first, from the weights that the original plays
with; its optimiser starts anew and counts its steps from 0.

Where torchrun starts several processes, all of them train the same model together (``trainer.py``): the first one
chooses what is trained and alone writes files and prints; a signal to one of them stops all after the same step.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import TypeAdapter

from pipeline.errors import FileError, NotYet, UsageError, naming
from pipeline.games.contract import AnyGame
from pipeline.games.specs import are_related, parse_game
from pipeline.interrupts import Held, held_back
from pipeline.methods.method import Grown, IndexArray
from pipeline.methods.named import method_named
from pipeline.phrases import counted, duration, percent
from pipeline.progress import SILENT, Progress
from pipeline.run import atomic, layout
from pipeline.run.chunks import ChunkSet, check_holdout, complete_set, list_sets, newest_complete_set, read_header
from pipeline.run.models import (
    Model,
    ModelInfo,
    newest_model,
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
from pipeline.run.store.objects import Conflict
from pipeline.train.calibration import calibration_positions
from pipeline.train.checkpoint import Checkpoint, State, finished_checkpoints
from pipeline.train.config import TrainConfig
from pipeline.train.curves import VALUE_ERROR, Curves, overfitting, tagged
from pipeline.train.prioritised_replay import Replay, starting_priorities
from pipeline.train.processes import ALONE, processes_here

if TYPE_CHECKING:
    from pipeline.train.dataset import Dataset
    from pipeline.train.process_group import ProcessGroup
    from pipeline.train.trainer import StepResult, Trainer

MOST_MEASURED = 4_096  # examples of the hold-out that are measured, and as many of the set
CHOSEN = "chosen"  # what the first of several processes tells the others
SHOWN_EVERY = 10  # steps between two points of the curves
# Settings that don't change what a run computes: a checkpoint of a run with others is as good.
NOT_IN_KEY = {"directory", "original_model", "new_model", "logdir", "checkpoint_seconds", "time_share"}

AddPoints = Callable[[dict[str, float], int], None]
"""One point on each curve, by tag, at a step."""

Metrics = dict[str, dict[str, float]]
"""Of the training's last epoch, the hold-out and the set, each before and after: by name."""


@dataclass(frozen=True)
class TrainSummary:
    """What one training did; 0 where nothing was measured.

    Losses of training are means over the last epoch's steps. Policy, value and their accuracies are AlphaZero's: 0 for
    methods whose objective measures no such thing; metrics has what it does measure. value_gap: by how much the new
    model's (v − z)² is larger on the hold-out than on as many examples of the set; well above 0 it has learned results
    by heart. Not measured where the set's values are not results alone (gather's td_lambda).
    metrics: in training and on the hold-out before and after it, by the names of the method's objective.
    """

    model: Path
    original_model: Path
    chunk_set: str
    examples: int
    steps: int
    steps_cut: int  # not made because of max_samples_per_position
    total_samples: int  # that the model and its ancestors were trained on
    resumed_from_step: int
    loss: float
    policy_loss: float
    value_loss: float
    policy_accuracy: float
    value_sign_accuracy: float
    holdout_examples: int
    holdout_loss_before: float
    holdout_loss_after: float
    holdout_policy_accuracy_before: float
    holdout_policy_accuracy_after: float
    value_gap: float
    seconds: float  # of training steps, this process's only
    samples_per_second: float
    method: str
    metrics: Metrics

    def lines(self) -> list[str]:
        """The short form."""
        resumed = f", resumed at step {self.resumed_from_step:,}" if self.resumed_from_step else ""
        lines = [
            f"{self.model.name} from {self.original_model.name}: {counted(self.steps, 'step')} on "
            f"{counted(self.examples, 'example')} in {duration(self.seconds)}, "
            f"{self.samples_per_second:,.0f} samples/s{resumed}",
            self._training(),
        ]
        if self.holdout_examples:
            lines.append(
                f"held out: loss {self.holdout_loss_before:.3f} before, {self.holdout_loss_after:.3f} after"
                f"{self._held_out_share()} ({counted(self.holdout_examples, 'example')})"
            )
        if self.steps_cut:
            lines.append(f"{counted(self.steps_cut, 'step')} left out because of --max-samples-per-position")
        return lines

    def _training(self) -> str:
        found, method = self.metrics["train"], method_named(self.method)
        terms = ", ".join(f"{name} {found[name]:.3f}" for name in method.shown_terms)
        shares = ", ".join(f"{percent(found[name])} {of}" for name, of in method.shown_shares.items())
        return f"training: loss {self.loss:.3f}{f' in all; {terms}' if terms else ''}{f'; {shares}' if shares else ''}"

    def _held_out_share(self) -> str:
        method = method_named(self.method)
        if not (name := method.held_out_share):
            return ""
        before, after = (self.metrics[f"holdout_{when}"][name] for when in ("before", "after"))
        return f"; {percent(before)} and {percent(after)} {method.shown_shares[name]}"


@dataclass
class _Progress:
    """How far a run is, beside the trainer's own state; what a checkpoint carries as JSON."""

    step: int = 0
    holdout_before: dict[str, float] = field(default_factory=dict)
    set_before: dict[str, float] = field(default_factory=dict)  # the same on examples of the set
    epoch_sums: dict[str, float] = field(default_factory=dict)  # of the steps of the last epoch so far
    epoch_steps: int = 0
    seconds: float = 0.0  # of all processes that trained it, up to the checkpoint


def _progress_of(found: State) -> _Progress:
    """Raises ValueError if it isn't the progress of a run."""
    return TypeAdapter(_Progress).validate_python(found.progress)


def train(config: TrainConfig, progress: Progress = SILENT) -> TrainSummary:
    """Train one model; together with other processes, if torchrun has started several.

    Raises NotYet if there is no complete set, the newest model has been trained on it already, another process is
    training the same model, or not one step may be made with the positions there are; FileError for files that are
    missing, damaged or of another game; MuGoError if the loss stops being finite (then nothing is written).
    """
    processes = processes_here("train")
    if processes == ALONE:
        return _train(config, progress)
    from pipeline.train.process_group import process_group

    settings = {f"--{name.replace('_', '-')}": value for name, value in config.stored().items()}
    with process_group(processes, settings) as group:
        return _train(config, progress, group) if processes.first else _follow(config, group)


def _train(config: TrainConfig, progress: Progress, group: ProcessGroup | None = None) -> TrainSummary:
    """Choose what is trained, and train. group: in which this process is the first."""
    saved_models = config.new_model.parent if config.new_model else layout.SAVED_MODELS
    for finished in finished_checkpoints(saved_models):
        shutil.rmtree(finished, ignore_errors=True)
    for folder in (saved_models, config.directory):
        atomic.sweep(folder)
    chunks = newest_complete_set(config.directory)
    if chunks is None:
        raise NotYet(f"{config.directory}: no complete set of chunks yet; run `python main.py gather`", missing=1)
    original = resolve_champion(config.original_model) if config.original_model else _newest(saved_models)
    model = read_model(original)
    if config.original_model is None and model.info.manifest.get("chunk_set") == chunks.id:
        raise NotYet(f"no new chunks since {model.info.name}: run `python main.py selfplay` and `gather`", missing=1)
    game, grown = _checked(config, chunks, model)
    new_model = config.new_model or next_model_path(
        saved_models, method_named(model.info.method).size(grown.architecture)
    )
    layout.check_model_name(new_model.name)
    if os.path.lexists(new_model):
        raise FileError(new_model, "it exists already, and is never overwritten; choose another --new-model")
    from pipeline.train.trainer import NotFinite

    key = _key(config, model, chunks)
    with Checkpoint(layout.checkpoint_path(new_model), key) as checkpoint:
        # Another process may have begun and ended since the models were looked at. From here on none can.
        overtaken = config.original_model is None and newest_model(saved_models) != original
        if overtaken or os.path.lexists(new_model):
            raise NotYet(f"{new_model}: another process has trained a model meanwhile; run the command again")
        if group:
            group.say(CHOSEN, [chunks.id, str(original), str(new_model), key])
        try:
            summary = _Run(config, game, chunks, model, grown, checkpoint, progress, group).train(new_model)
        except NotFinite:
            checkpoint.remove()  # it leads here again
            raise
        except Conflict as error:
            raise NotYet(
                f"{new_model}: another machine has trained a model meanwhile; run the command again"
            ) from error
        checkpoint.remove()
    return summary


def _newest(saved_models: Path) -> Path:
    """The newest model there. Raises FileError if there is none."""
    try:
        return newest_model(saved_models)
    except FileError as error:
        raise FileError(saved_models, f"{error.problem}, --original-model names one elsewhere") from error


def _follow(config: TrainConfig, group: ProcessGroup) -> TrainSummary:
    """Train what the first process chose, and leave writing and printing to it."""
    set_id, original, path, key = group.hear(CHOSEN)
    found = [complete_set(name, files) for name, files in list_sets(config.directory).items() if str(name) == set_id]
    if not found or (chunks := found[0]) is None:
        raise FileError(
            config.directory, f"no complete set {set_id}; wanted the folder of the first process; do they share a disk?"
        )
    model, new_model = read_model(Path(original)), Path(path)
    game, grown = _checked(config, chunks, model)
    if _key(config, model, chunks) != key:
        raise FileError(
            original, "another model than that of the first process; wanted the same; do they share a disk?"
        )
    checkpoint = Checkpoint(layout.checkpoint_path(new_model), key)
    return _Run(config, game, chunks, model, grown, checkpoint, SILENT, group).train(new_model)


def _checked(config: TrainConfig, chunks: ChunkSet, model: Model) -> tuple[AnyGame, Grown]:
    """The game of the chunks, and what training starts from. Raises FileError if chunks and model don't fit."""
    atomic.bring_all(chunks.files)
    header, method = read_header(chunks.chunks[0]), method_named(model.info.method)
    if not are_related(model.info.game, header.game):
        raise FileError(model.path, f"it plays {model.info.game}; wanted a model that plays {header.game}")
    check_holdout(chunks, header)
    game = parse_game(header.game)
    if header.method != method.name:
        raise FileError(
            chunks.chunks[0],
            f"examples of method {header.method}; {model.info.name} learns by {method.name}; "
            "wanted a folder for each method",
        )
    with naming(model.path):
        return game, method.grown(game, model, config)


def _key(config: TrainConfig, model: Model, chunks: ChunkSet) -> str:
    """Equal keys: equal runs."""
    identity = {
        "model": {name: stamp.sha256 for name, stamp in model.info.files.items()},
        "chunk_set": chunks.id,
        "config": config.stored(NOT_IN_KEY),
    }
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()


def _allowed(config: TrainConfig, original: ModelInfo, dataset: Dataset, progress: Progress) -> tuple[IndexArray, int]:
    """(the batch sizes [steps] that max_samples_per_position allows, how many more were planned).

    Raises NotYet if it allows none.
    """
    planned = dataset.batch_sizes(config.epochs)
    cap, positions = config.max_samples_per_position, dataset.window[TOTAL]
    if not cap:
        return planned, 0
    before = _samples(original)
    steps = int((before + planned.cumsum() <= cap * positions).sum())
    if not steps:
        missing = max(1, math.ceil((before + int(planned[0])) / cap) - positions)
        raise NotYet(
            f"{original.name} was trained on {before} samples and self-play has made "
            f"{positions} positions: {missing} more are missing for a step at {cap:g} samples per position; "
            "run `python main.py selfplay` and `gather`",
            missing,
        )
    return planned[:steps], len(planned) - steps


def _samples(model: ModelInfo) -> int:
    """That the model and its ancestors were trained on."""
    return int(model.manifest.get("total_samples", 0))


def _make_replay(config: TrainConfig, dataset: Dataset, found: State | None, progress: Progress) -> Replay | None:
    """Samples by the priorities of the checkpoint, else by those stored beside the chunks, else by equal ones."""
    if not config.priority_exponent:
        return None
    if len(dataset.kinds) > 1:
        raise UsageError(
            f"train --priority-exponent: set {dataset.id} has {len(dataset.kinds)} kinds of examples (sizes of "
            "boards), which can't share a batch; wanted one kind, or 0"
        )
    if found is not None:
        priorities = Priorities(dataset.examples, found.replay["priorities"])
    else:
        path, stored = newest_priorities(config.directory, dataset.id), None
        try:
            stored = read_priorities(path) if path else None
        except FileError as error:
            progress.warn(f"{error}: all priorities start anew")
        priorities = starting_priorities(dataset.examples, stored)
    seeds = [config.seed, *dataset.id.encode()]
    return Replay(priorities, config.priority_exponent, config.priority_correction, config.priority_floor, seeds)


class _Run:
    """One training, from the original model or a checkpoint to the new model."""

    def __init__(
        self,
        config: TrainConfig,
        game: AnyGame,
        chunks: ChunkSet,
        model: Model,
        grown: Grown,
        checkpoint: Checkpoint,
        progress: Progress,
        group: ProcessGroup | None = None,
    ) -> None:
        """game: of the chunks. group: of the processes that train together; only the first one writes."""
        from pipeline.train.dataset import MEMORY_BYTES, Dataset, holdout_batches
        from pipeline.train.trainer import Trainer, has_moments, without_moments

        self._config, self._model, self._grown = config, model, grown
        self._checkpoint, self._progress = checkpoint, progress
        self._group, self._writes = group, group is None or group.first
        method = method_named(model.info.method)
        memory = math.inf if config.priority_exponent else MEMORY_BYTES
        dataset = Dataset(method, game, chunks, config.batch_size, config.seed, memory, config.symmetries)
        self._dataset, self._method = dataset, method
        self._sizes, self._steps_cut = _allowed(config, model.info, dataset, progress)
        self._steps = len(self._sizes)
        self._last_epoch_from = self._steps - len(dataset.batch_sizes(1))
        # What the original and the new model are measured on: the hold-out, and as many examples of the set. Those of
        # the set are left out where its values are not results alone, as the hold-out's always are.
        path = chunks.holdout
        self._holdout = holdout_batches(method, game, path, config.batch_size, MOST_MEASURED) if path else []
        self._num_held_out = sum(len(batch.value) for batch in self._holdout)
        results_alone = dataset.window["td_lambda"] == 1
        self._of_set = dataset.first(self._num_held_out) if self._holdout and results_alone else []
        self._calibration = calibration_positions(method, game, chunks)  # now: the chunks may be gone at the end
        with naming(model.path):
            weights = grown.weights
            optimizer = None if grown.fresh_optimizer else read_optimizer(model.path)
            if optimizer is not None and not has_moments(optimizer, config):
                optimizer = without_moments(optimizer)
                progress.say(
                    f"the optimiser starts anew: {model.info.name} was trained by Muon, which has no moments for Adam"
                )
            if grown.note:
                progress.say(grown.note)
            found = checkpoint.read(progress, self._check)
            if found is not None:
                self._done, weights, optimizer = _progress_of(found), found.weights, found.optimizer
                progress.say(f"resuming at step {self._done.step} of {self._steps}")
            if group:
                group.same("the step to go on from", self._done.step if found else 0)
            objective = method.objective(grown.architecture, config)
            self._trainer: Trainer = Trainer(objective, weights, config, optimizer, group)
        if found is None:
            holdout, of_set = self._trainer.evaluate(self._holdout), self._trainer.evaluate(self._of_set)
            self._done = _Progress(holdout_before=holdout, set_before=of_set)
        self._resumed_from = self._done.step
        self._replay = _make_replay(config, dataset, found, progress)

    def _check(self, found: State) -> None:
        """Raises ValueError or KeyError for the checkpoint of no such run, as only somebody who means it can write."""
        done, wanted = _progress_of(found), self._grown.weights
        if not 0 <= done.step <= self._steps:
            raise ValueError(f"step {done.step} of {self._steps}")
        if {name: array.shape for name, array in found.weights.items()} != {n: a.shape for n, a in wanted.items()}:
            raise ValueError("its weights are those of another network")
        if self._config.priority_exponent:
            values = found.replay["priorities"]
            if values.dtype != np.float32 or values.shape != self._dataset.examples.shape:
                raise ValueError("its priorities are those of another set")
            if not (np.isfinite(values) & (values > 0)).all():
                raise ValueError("a priority that isn't above 0")

    def train(self, new_model: Path) -> TrainSummary:
        """Train to the end and write the model. An interrupt leaves a checkpoint of all that was done."""
        self._started = time.perf_counter()
        try:
            logs = self._config.logdir / new_model.name
            # The hold-out's points all come at the end; those of steps go on after the steps that were made.
            go_on = self._trainer.total_steps + 1 if self._resumed_from else 0
            with self._curves(logs / "train", go_on) as curves, self._curves(logs / "holdout", 0) as holdout_curves:
                samples = self._steps_to_go(curves)
                seconds = time.perf_counter() - self._started
                speed = samples / seconds
                if self._replay:
                    self._save()  # so that a kill between the files below doesn't count these steps twice
                metrics = self._metrics()
                self._show_measured(metrics, curves, holdout_curves)
            info = self._info(new_model, metrics, speed)
            if self._writes:
                if self._replay:
                    path = self._config.directory / layout.priorities_name(self._dataset.id)
                    write_priorities(path, self._replay.priorities)
                optimizer = self._trainer.optimizer_state
                write_model(new_model, info, self._trainer.weights, optimizer, self._calibration)
                remove_stale_priorities(self._config.directory, self._dataset.id)
        except KeyboardInterrupt:
            self._save()
            self._progress.say(f"interrupted after step {self._done.step} of {self._steps}; run it again to go on")
            raise
        trained, before, after = (metrics[name] for name in ("train", "holdout_before", "holdout_after"))
        recorded = "chunk_set", "examples", "steps", "steps_cut", "total_samples", "value_gap"
        return TrainSummary(
            **{name: info.manifest[name] for name in recorded},
            model=new_model,
            original_model=self._model.path,
            resumed_from_step=self._resumed_from,
            loss=trained["total"],
            policy_loss=trained.get("policy", 0.0),
            value_loss=trained.get("value", 0.0),
            policy_accuracy=trained.get("policy_accuracy", 0.0),
            value_sign_accuracy=trained.get("value_sign_accuracy", 0.0),
            holdout_examples=self._num_held_out,
            holdout_loss_before=before.get("total", 0.0),
            holdout_loss_after=after.get("total", 0.0),
            holdout_policy_accuracy_before=before.get("policy_accuracy", 0.0),
            holdout_policy_accuracy_after=after.get("policy_accuracy", 0.0),
            seconds=seconds,
            samples_per_second=speed,
            method=self._method.name,
            metrics={"train": trained, "holdout_before": before, "holdout_after": after},
        )

    @contextmanager
    def _curves(self, folder: Path, first_step: int) -> Iterator[AddPoints]:
        """What adds points to the curves in this folder; those there from first_step on no longer count."""
        if not self._writes:
            yield lambda values, step: None
            return
        with closing(Curves(folder, first_step)) as curves:
            yield curves.add

    def _steps_to_go(self, curves: AddPoints) -> int:
        """Train to the end; how many samples this process trained on."""
        done, samples, saved = self._done, 0, time.monotonic()
        self._progress.start("training", total=self._steps, unit="steps", done=done.step)
        with held_back() as held, self._batches() as batches:
            for rows, batch in batches:
                result = self._trainer.step(batch)
                if self._replay and rows is not None:
                    self._replay.update(rows, result.value_errors)
                self._count(result)
                samples += result.num_samples
                if done.step % SHOWN_EVERY == 0 or done.step == self._steps:
                    self._show(result, curves)
                if time.monotonic() - saved >= self._config.checkpoint_seconds and done.step < self._steps:
                    self._save()
                    saved = time.monotonic()
                self._progress.advance()
                self._interrupt(held)
        self._progress.finish()
        return samples

    def _interrupt(self, held: Held) -> None:
        """Deliver the interrupts held back during a step; all processes take one that came to any of them."""
        if self._group is None:
            held()
        elif number := self._group.largest(held.number):  # 0: one that comes only now waits for the next step
            if not held.number:
                signal.raise_signal(number)
            held()

    @contextmanager
    def _batches(self) -> Iterator[Iterator[tuple[IndexArray | None, Any]]]:
        """The batches of the steps to go; with priorities, each is sampled when it is asked for, with its rows [B]."""
        from pipeline.train.dataset import prefetched

        start = self._done.step
        if self._replay:
            yield self._sampled(self._replay, start)
            return
        source = islice(self._dataset.batches(self._config.epochs, start), self._steps - start)
        with prefetched(source) as batches:
            yield ((None, batch) for batch in batches)

    def _sampled(self, replay: Replay, start: int) -> Iterator[tuple[IndexArray, Any]]:
        symmetries = self._dataset.num_symmetries
        for step in range(start, self._steps):
            sample = replay.sample(step, int(self._sizes[step]), symmetries)
            yield sample.rows, self._dataset.batch(sample.rows, sample.symmetries, sample.weights)

    def _save(self) -> None:
        if not self._writes:
            return
        replay = self._replay
        arrays = {"priorities": replay.priorities.values} if replay else {}
        so_far = {**vars(self._done), "seconds": self._done.seconds + time.perf_counter() - self._started}
        state = State(so_far, self._trainer.weights, self._trainer.optimizer_state, arrays)
        self._checkpoint.write(state)

    def _count(self, result: StepResult) -> None:
        done = self._done
        done.step += 1
        if done.step > self._last_epoch_from:
            for name, value in result.metrics.items():
                done.epoch_sums[name] = done.epoch_sums.get(name, 0.0) + value
            done.epoch_steps += 1

    def _show(self, result: StepResult, curves: AddPoints) -> None:
        of_step = {"step/gradient_norm": result.gradient_norm, "step/learning_rate": result.learning_rate}
        curves({**tagged(result.metrics), **of_step}, self._trainer.total_steps)
        terms = {"total": "loss"} | {name: name for name in self._method.shown_terms}
        self._progress.describe(" ".join(f"{word} {result.metrics[name]:.3f}" for name, word in terms.items()))

    def _metrics(self) -> Metrics:
        done = self._done
        return {
            "train": {name: total / done.epoch_steps for name, total in done.epoch_sums.items()},
            "holdout_before": done.holdout_before,
            "set_before": done.set_before,
            "holdout_after": self._trainer.evaluate(self._holdout),
            "set_after": self._trainer.evaluate(self._of_set),
        }

    def _show_measured(self, metrics: Metrics, curves: AddPoints, holdout_curves: AddPoints) -> None:
        last = self._trainer.total_steps
        for when, step in (("before", last - self._done.step), ("after", last)):
            of_holdout = metrics[f"holdout_{when}"]
            holdout_curves({**tagged(of_holdout), **overfitting(of_holdout)}, step)
            curves(overfitting(metrics[f"set_{when}"]), step)
        if self._of_set:
            holdout_curves({"overfitting/value_gap": _value_gap(metrics)}, last)

    def _info(self, path: Path, metrics: Metrics, speed: float) -> ModelInfo:
        """speed: in samples/s, of this process's steps."""
        parsed = layout.parse_model_name(path.name)
        return ModelInfo(
            name=path.name,
            number=parsed.number if parsed else self._model.info.number + 1,
            game=self._model.info.game,
            architecture=self._method.stored(self._grown.architecture, path.parent),
            method=self._model.info.method,
            parents=[self._model.info.name],
            manifest={
                "stage": "train",
                "config": self._config.stored(),
                "chunk_set": self._dataset.id,
                "window": self._dataset.window,
                "examples": self._dataset.num_examples,
                "steps": self._steps,
                "steps_cut": self._steps_cut,
                "total_steps": self._trainer.total_steps,
                "seconds": round(self._done.seconds + time.perf_counter() - self._started, 1),
                "samples_per_second": round(speed, 1),
                "total_samples": _samples(self._model.info) + int(self._sizes.sum()),
                "metrics": metrics,
                "value_gap": _value_gap(metrics),
                "commit": source_commit(),
                "versions": library_versions(),
            },
        )


def _value_gap(metrics: Metrics) -> float:
    """Of the new model: see TrainSummary."""
    of_holdout, of_set = metrics["holdout_after"], metrics["set_after"]
    return of_holdout[VALUE_ERROR] - of_set[VALUE_ERROR] if VALUE_ERROR in of_holdout and of_set else 0.0
