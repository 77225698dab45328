"""``train``: the newest set of chunks and the newest model in, the next model out.

The run keeps a checkpoint in a hidden folder beside the model that it will become, renewed every checkpoint_seconds and
when it is interrupted. It is keyed by the original model, the set and the settings: the same command again goes on from
it and ends with the same weights as a run that was never interrupted; any other run starts over. The new model appears
whole, with its optimiser's state, which the next training continues.

With priority_exponent > 0 examples are drawn by priorities (``replay.py``), which change after every batch and
are kept beside the chunks, too: with each checkpoint and at the end. A training starts from what is stored of its set
or, for positions that were in an earlier one, of that. What an interrupted run goes on from is in its checkpoint. Such
a set is held in memory whole. With max_samples_per_position > 0 the run ends before the model and its ancestors have
been trained on more samples than so many per position that self-play has made. With a network_size that is larger than
the original's the network grows first, from the weights that the original plays with; its optimiser starts anew and
counts its steps from 0.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.config import TrainConfig
from pipeline.errors import FileError, NotYet, naming
from pipeline.games.base import AnyGame
from pipeline.games.registry import parse_game
from pipeline.methods.base import Grown, IndexArray, Method
from pipeline.methods.registry import method_named
from pipeline.phrases import counted, duration, percent
from pipeline.progress import SILENT, Progress
from pipeline.storage import layout
from pipeline.storage.chunks import ChunkSet, newest_complete_set, read_header
from pipeline.storage.models import (
    Model,
    ModelInfo,
    check_game,
    newest_model,
    next_model_path,
    read_model,
    read_optimizer,
    resolve_champion,
    write_model,
)
from pipeline.storage.priorities import (
    Priorities,
    newest_priorities,
    read_priorities,
    remove_stale_priorities,
    write_priorities,
)
from pipeline.storage.provenance import library_versions, source_commit
from pipeline.train.checkpoint import Checkpoint, State
from pipeline.train.curves import VALUE_ERROR, Curves, curves_of, overfitting, tagged
from pipeline.train.interrupts import interrupts_between_steps
from pipeline.train.replay import Replay, starting_priorities

if TYPE_CHECKING:
    from pipeline.train.dataset import Dataset
    from pipeline.train.trainer import StepResult, Trainer

MOST_MEASURED = 4_096  # examples of the hold-out that are measured, and as many of the set
SHOWN_EVERY = 10  # steps between two points of the curves
# Settings that don't change what a run computes: a checkpoint of a run with others is as good.
NOT_IN_KEY = {"directory", "original_model", "new_model", "logdir", "checkpoint_seconds", "time_share"}


@dataclass(frozen=True)
class TrainSummary:
    """What one training did; 0 where nothing was measured.

    Losses of training are means over the last epoch's steps. value_gap: by how much the new model's (v − z)² is larger
    on the hold-out than on as many examples of the set; well above 0 it has learned results by heart. Not measured
    where the set's values are not results alone (gather's td_lambda).
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

    def lines(self) -> list[str]:
        """The short form."""
        resumed = f", resumed at step {self.resumed_from_step:,}" if self.resumed_from_step else ""
        lines = [
            f"{self.model.name} from {self.original_model.name}: {counted(self.steps, 'step')} on "
            f"{counted(self.examples, 'example')} in {duration(self.seconds)}, "
            f"{self.samples_per_second:,.0f} samples/s{resumed}",
            f"training: loss {self.loss:.3f} (policy {self.policy_loss:.3f}, value {self.value_loss:.3f}); "
            f"{percent(self.policy_accuracy)} of the moves, {percent(self.value_sign_accuracy)} of the winners right",
        ]
        if self.holdout_examples:
            lines.append(
                f"held out: loss {self.holdout_loss_before:.3f} before, {self.holdout_loss_after:.3f} after; "
                f"{percent(self.holdout_policy_accuracy_before)} and {percent(self.holdout_policy_accuracy_after)} "
                f"of the moves right ({counted(self.holdout_examples, 'example')})"
            )
        if self.steps_cut:
            lines.append(f"{counted(self.steps_cut, 'step')} left out because of --max-samples-per-position")
        return lines


@dataclass
class _Progress:
    """How far a run is, beside the trainer's own state; what a checkpoint carries as JSON."""

    step: int = 0
    holdout_before: dict[str, float] = field(default_factory=dict)
    set_before: dict[str, float] = field(default_factory=dict)  # the same on examples of the set
    epoch_sums: dict[str, float] = field(default_factory=dict)  # of the steps of the last epoch so far
    epoch_steps: int = 0


def train(config: TrainConfig, progress: Progress = SILENT) -> TrainSummary:
    """Train one model.

    Raises NotYet if there is no complete set, the newest model has been trained on it already, or not one step may be
    made with the positions there are; FileError for files that are missing, damaged or of another game; MuGoError if
    the loss stops being finite (then nothing is written).
    """
    saved_models = config.new_model.parent if config.new_model else layout.SAVED_MODELS
    chunks = newest_complete_set(config.directory)
    if chunks is None:
        raise NotYet(f"{config.directory}: no complete set of chunks yet; run `python main.py gather`", missing=1)
    original = resolve_champion(config.original_model) if config.original_model else newest_model(saved_models)
    model = read_model(original)
    if config.original_model is None and model.info.manifest.get("chunk_set") == chunks.id:
        raise NotYet(f"no new chunks since {model.info.name}: run `python main.py selfplay` and `gather`", missing=1)
    spec = read_header(chunks.chunks[0]).game
    check_game(model.info, spec, original)
    game, method = parse_game(spec), method_named(model.info.method)
    _check_method(chunks, model)
    with naming(model.path):
        grown = method.grown(game, model, config)
    new_model = config.new_model or next_model_path(saved_models, grown.size)
    layout.check_model_name(new_model.name)
    if os.path.lexists(new_model):
        raise FileError(new_model, "it exists already, and is never overwritten; choose another --new-model")
    _remove_finished_checkpoints(saved_models)

    from pipeline.train.trainer import NotFinite

    with Checkpoint(layout.checkpoint_path(new_model), _key(config, model, chunks)) as checkpoint:
        run = _Run(config, method, game, model, grown, chunks, checkpoint, progress)
        try:
            summary = run.train(new_model)
        except NotFinite:
            checkpoint.remove()  # it leads here again
            raise
        checkpoint.remove()
    return summary


def _check_method(chunks: ChunkSet, model: Model) -> None:
    """Raises FileError if the examples are another method's than the model."""
    found = read_header(chunks.chunks[0]).method
    if found != model.info.method:
        raise FileError(
            chunks.chunks[0],
            f"examples of method {found}; {model.info.name} learns by {model.info.method}; "
            "wanted a folder for each method",
        )


def _key(config: TrainConfig, model: Model, chunks: ChunkSet) -> str:
    """Equal keys: equal runs."""
    identity = {
        "model": {name: stamp.sha256 for name, stamp in model.info.files.items()},
        "chunk_set": chunks.id,
        "config": config.stored(NOT_IN_KEY),
    }
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()


class _Run:
    """One training, from the original model or a checkpoint to the new model."""

    def __init__(
        self,
        config: TrainConfig,
        method: Method,
        game: AnyGame,
        model: Model,
        grown: Grown,
        chunks: ChunkSet,
        checkpoint: Checkpoint,
        progress: Progress,
    ) -> None:
        from pipeline.train.dataset import MEMORY_BYTES, Dataset, holdout_batches
        from pipeline.train.trainer import Trainer

        self._config, self._model, self._grown, self._chunks = config, model, grown, chunks
        self._checkpoint, self._progress = checkpoint, progress
        memory = math.inf if config.priority_exponent else MEMORY_BYTES
        self._dataset: Dataset = Dataset(
            method, game, chunks, config.batch_size, config.seed, memory, config.symmetries
        )
        self._samples_before = int(model.info.manifest.get("total_samples", 0))
        planned = self._dataset.batch_sizes(config.epochs)
        self._sizes = self._allowed(planned)
        self._steps, self._steps_cut = len(self._sizes), len(planned) - len(self._sizes)
        self._last_epoch_from = max(0, self._steps - len(self._dataset.batch_sizes(1)))
        self._holdout = (
            holdout_batches(method, game, chunks.holdout, config.batch_size, MOST_MEASURED) if chunks.holdout else []
        )
        results_alone = self._dataset.window.get("td_lambda", 1) == 1  # which is what the hold-out always has
        self._of_set = self._dataset.first(self._num_holdout) if self._holdout and results_alone else []
        with naming(model.path):
            weights = grown.weights
            optimizer = None if grown.fresh_optimizer else read_optimizer(model.path)
            if grown.note:
                progress.say(grown.note)
            self._done = _Progress()
            found = checkpoint.read(progress)
            if found is not None:
                self._done, weights, optimizer = _Progress(**found.progress), found.weights, found.optimizer
                progress.say(f"resuming at step {self._done.step} of {self._steps}")
            self._trainer: Trainer = Trainer(method.objective(grown.architecture, config), weights, config, optimizer)
        self._resumed_from = self._done.step
        if found is None:
            self._done.holdout_before = self._trainer.evaluate(self._holdout)
            self._done.set_before = self._trainer.evaluate(self._of_set)
        self._replay = self._make_replay(found) if config.priority_exponent else None

    @property
    def _num_holdout(self) -> int:
        return sum(len(batch.value) for batch in self._holdout)

    def _allowed(self, planned: IndexArray) -> IndexArray:
        """The first of these batch sizes [steps], as far as max_samples_per_position allows. Raises NotYet if none."""
        cap, positions = self._config.max_samples_per_position, self._dataset.window.get("total_positions")
        if not cap:
            return planned
        if not isinstance(positions, int):
            self._progress.warn(
                f"set {self._chunks.id} doesn't say how many positions self-play has made: trained without "
                "max_samples_per_position; run gather again for a set that does"
            )
            return planned
        steps = int((self._samples_before + planned.cumsum() <= cap * positions).sum())
        if not steps:
            missing = max(1, math.ceil((self._samples_before + int(planned[0])) / cap) - positions)
            raise NotYet(
                f"{self._model.info.name} was trained on {self._samples_before} samples and self-play has made "
                f"{positions} positions: {missing} more are missing for a step at {cap:g} samples per position; "
                "run `python main.py selfplay` and `gather`",
                missing,
            )
        return planned[:steps]

    def _make_replay(self, found: State | None) -> Replay:
        """Draws by the priorities of the checkpoint, else by those stored beside the chunks, else by equal ones."""
        examples = self._dataset.examples
        if found is not None:
            priorities = Priorities(examples, found.replay["priorities"])
        else:
            priorities = starting_priorities(examples, self._stored_priorities())
        config = self._config
        seeds = [config.seed, *self._chunks.id.encode()]
        return Replay(priorities, config.priority_exponent, config.priority_correction, config.priority_floor, seeds)

    def _stored_priorities(self) -> Priorities | None:
        path = newest_priorities(self._config.directory, self._chunks.id)
        if path is None:
            return None
        try:
            return read_priorities(path)
        except FileError as error:
            self._progress.warn(f"{error}: all priorities start anew")
            return None

    def train(self, new_model: Path) -> TrainSummary:
        """Train to the end and write the model. An interrupt leaves a checkpoint of all that was done."""
        started = time.perf_counter()
        try:
            logs = self._config.logdir / new_model.name
            with curves_of(logs / "train") as curves, curves_of(logs / "holdout") as holdout_curves:
                samples = self._steps_to_go(curves)
                seconds = time.perf_counter() - started
                if self._replay:
                    self._save()  # so that a kill between the files below doesn't count these steps twice
                measured = self._measure(curves, holdout_curves)
            trained = {name: total / self._done.epoch_steps for name, total in self._done.epoch_sums.items()}
            info = self._info(new_model, {"train": trained, **measured})
            write_model(new_model, info, self._trainer.weights, self._trainer.optimizer_state)
            remove_stale_priorities(self._config.directory, self._chunks.id)
        except KeyboardInterrupt:
            self._save()
            self._progress.say(f"interrupted after step {self._done.step} of {self._steps}; run it again to go on")
            raise
        before, after = measured["holdout_before"], measured["holdout_after"]
        return TrainSummary(
            model=new_model,
            original_model=self._model.path,
            chunk_set=self._chunks.id,
            examples=self._dataset.num_examples,
            steps=self._steps,
            steps_cut=self._steps_cut,
            total_samples=self._total_samples,
            resumed_from_step=self._resumed_from,
            loss=trained["total"],
            policy_loss=trained.get("policy", 0.0),
            value_loss=trained.get("value", 0.0),
            policy_accuracy=trained.get("policy_accuracy", 0.0),
            value_sign_accuracy=trained.get("value_sign_accuracy", 0.0),
            holdout_examples=self._num_holdout,
            holdout_loss_before=before.get("total", 0.0),
            holdout_loss_after=after.get("total", 0.0),
            holdout_policy_accuracy_before=before.get("policy_accuracy", 0.0),
            holdout_policy_accuracy_after=after.get("policy_accuracy", 0.0),
            value_gap=_value_gap(measured),
            seconds=seconds,
            samples_per_second=samples / seconds,
        )

    @property
    def _total_samples(self) -> int:
        return self._samples_before + int(self._sizes.sum())

    def _measure(self, curves: Curves, holdout_curves: Curves) -> dict[str, dict[str, float]]:
        """The exported model on the hold-out and on as many examples of the set, and the original model likewise."""
        done, last = self._done, self._trainer.total_steps
        measured = {
            "holdout_before": done.holdout_before,
            "set_before": done.set_before,
            "holdout_after": self._trainer.evaluate(self._holdout),
            "set_after": self._trainer.evaluate(self._of_set),
        }
        for when, step in (("before", last - self._steps), ("after", last)):
            of_holdout, of_set = measured[f"holdout_{when}"], measured[f"set_{when}"]
            holdout_curves.add({**tagged(of_holdout), **overfitting(of_holdout)}, step)
            curves.add(overfitting(of_set), step)
        if self._of_set:
            holdout_curves.add({"overfitting/value_gap": _value_gap(measured)}, last)
        return measured

    def _steps_to_go(self, curves: Curves) -> int:
        """Train to the end; how many samples this process trained on."""
        done, samples, saved = self._done, 0, time.monotonic()
        self._progress.start("training", total=self._steps, unit="step")
        self._progress.advance(done.step)
        with interrupts_between_steps() as deliver_interrupts, self._batches() as batches:
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
                deliver_interrupts()
        self._progress.finish()
        return samples

    @contextmanager
    def _batches(self) -> Iterator[Iterator[tuple[IndexArray | None, Any]]]:
        """The batches of the steps to go; with priorities, each is drawn when it is asked for, with its rows [B]."""
        from pipeline.train.dataset import prefetched

        start = self._done.step
        if self._replay:
            yield self._drawn(self._replay, start)
            return
        source = islice(self._dataset.batches(self._config.epochs, start), self._steps - start)
        with prefetched(source) as batches:
            yield ((None, batch) for batch in batches)

    def _drawn(self, replay: Replay, start: int) -> Iterator[tuple[IndexArray, Any]]:
        symmetries = self._dataset.num_symmetries
        for step in range(start, self._steps):
            draw = replay.draw(step, int(self._sizes[step]), symmetries)
            yield draw.rows, self._dataset.batch(draw.rows, draw.symmetries, draw.weights)

    def _save(self) -> None:
        replay = self._replay
        arrays = {"priorities": replay.priorities.values} if replay else {}
        state = State(vars(self._done), self._trainer.weights, self._trainer.optimizer_state, arrays)
        self._checkpoint.write(state)
        if replay:
            # Later than the checkpoint: a kill in between leaves a run that can go on, and older priorities.
            write_priorities(self._config.directory / layout.priorities_name(self._chunks.id), replay.priorities)

    def _count(self, result: StepResult) -> None:
        done = self._done
        done.step += 1
        if done.step > self._last_epoch_from:
            for name, value in result.metrics.items():
                done.epoch_sums[name] = done.epoch_sums.get(name, 0.0) + value
            done.epoch_steps += 1

    def _show(self, result: StepResult, curves: Curves) -> None:
        of_step = {"step/gradient_norm": result.gradient_norm, "step/learning_rate": result.learning_rate}
        curves.add({**tagged(result.metrics), **of_step}, self._trainer.total_steps)
        shown = {"total": "loss", "policy": "policy", "value": "value"}
        found = [f"{word} {result.metrics[name]:.3f}" for name, word in shown.items() if name in result.metrics]
        self._progress.describe(" ".join(found))

    def _info(self, path: Path, metrics: dict[str, dict[str, float]]) -> ModelInfo:
        parsed = layout.parse_model_name(path.name)
        return ModelInfo(
            name=path.name,
            number=parsed.number if parsed else self._model.info.number + 1,
            game=self._model.info.game,
            architecture=self._grown.architecture,
            method=self._model.info.method,
            parents=[self._model.info.name],
            manifest={
                "stage": "train",
                "config": self._config.stored(),
                "chunk_set": self._chunks.id,
                "window": self._dataset.window,
                "examples": self._dataset.num_examples,
                "steps": self._steps,
                "steps_cut": self._steps_cut,
                "total_steps": self._trainer.total_steps,
                "total_samples": self._total_samples,
                "metrics": metrics,
                "value_gap": _value_gap(metrics),
                "commit": source_commit(),
                "versions": library_versions(),
            },
        )


def _value_gap(metrics: dict[str, dict[str, float]]) -> float:
    """Of the new model: see TrainSummary."""
    of_holdout, of_set = metrics["holdout_after"], metrics["set_after"]
    return of_holdout[VALUE_ERROR] - of_set[VALUE_ERROR] if VALUE_ERROR in of_holdout and of_set else 0.0


def _remove_finished_checkpoints(saved_models: Path) -> None:
    """A run killed between writing its model and removing its checkpoint leaves one that nobody needs."""
    for folder in saved_models.glob(".*"):
        model = layout.parse_checkpoint_name(folder.name)
        if model and (saved_models / model / layout.MODEL_JSON).exists():
            shutil.rmtree(folder, ignore_errors=True)
