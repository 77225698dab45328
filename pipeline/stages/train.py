"""``train``: the newest set of chunks and the newest model in, the next model out.

The run keeps a checkpoint in a hidden folder beside the model that it will become, renewed every checkpoint_seconds and
when it is interrupted. It is keyed by the original model, the set and the settings: the same command again goes on from
it and ends with the same weights as a run that was never interrupted; any other run starts over. The new model appears
whole, with its optimiser's state, which the next training continues.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import time
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.config import TrainConfig
from pipeline.errors import FileError, NotYet, naming
from pipeline.games.base import Game
from pipeline.games.registry import parse_game
from pipeline.learning.checkpoint import Checkpoint
from pipeline.learning.curves import Curves, curves_of
from pipeline.progress import SILENT, Progress
from pipeline.records import layout
from pipeline.records.chunks import ChunkSet, newest_complete_set, read_header
from pipeline.records.models import (
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
from pipeline.stages.provenance import library_versions, source_commit

if TYPE_CHECKING:
    from pipeline.learning.dataset import Dataset
    from pipeline.learning.trainer import StepResult, Trainer

SAVED_MODELS = Path("saved_models")
MOST_HOLDOUT = 16_384  # examples of the hold-out that are measured
SHOWN_EVERY = 10  # steps between two points of the curves
# Settings that don't change what a run computes: a checkpoint of a run with others is as good.
NOT_IN_KEY = {"directory", "original_model", "new_model", "logdir", "checkpoint_seconds"}


@dataclass(frozen=True)
class TrainSummary:
    """What one training did. Losses of training are means over the last epoch's steps; 0 where nothing was measured."""

    model: Path
    original_model: Path
    chunk_set: str
    examples: int
    steps: int
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
    seconds: float  # of training steps, this process's only
    samples_per_second: float


@dataclass
class _Progress:
    """How far a run is, beside the trainer's own state; what a checkpoint carries as JSON."""

    step: int = 0
    holdout_before: dict[str, float] = field(default_factory=dict)
    epoch_sums: dict[str, float] = field(default_factory=dict)  # of the steps of the last epoch so far
    epoch_steps: int = 0


def train(config: TrainConfig, progress: Progress = SILENT) -> TrainSummary:
    """Train one model.

    Raises NotYet if there is no complete set or the newest model has been trained on it already, FileError for files
    that are missing, damaged or of another game, MuGoError if the loss stops being finite (then nothing is written).
    """
    saved_models = config.new_model.parent if config.new_model else SAVED_MODELS
    chunks = newest_complete_set(config.directory)
    if chunks is None:
        raise NotYet(f"{config.directory}: no complete set of chunks yet; run `python main.py gather`", missing=1)
    original = resolve_champion(config.original_model) if config.original_model else newest_model(saved_models)
    model = read_model(original)
    if config.original_model is None and model.info.manifest.get("chunk_set") == chunks.id:
        raise NotYet(f"no new chunks since {model.info.name}: run `python main.py selfplay` and `gather`", missing=1)
    spec = read_header(chunks.chunks[0]).game
    check_game(model.info, spec, original)
    new_model = config.new_model or next_model_path(saved_models, _label(model))
    layout.check_model_name(new_model.name)
    if os.path.lexists(new_model):
        raise FileError(new_model, "it exists already, and is never overwritten; choose another --new-model")
    _remove_finished_checkpoints(saved_models)

    from pipeline.learning.trainer import NotFinite

    with Checkpoint(layout.checkpoint_path(new_model), _key(config, model, chunks)) as checkpoint:
        run = _Run(config, parse_game(spec), model, chunks, checkpoint, progress)
        try:
            summary = run.train(new_model)
        except NotFinite:
            checkpoint.remove()  # it leads here again
            raise
        checkpoint.remove()
    return summary


def _label(model: Model) -> str:
    from pipeline.networks.architecture import Architecture

    return Architecture.from_dict(model.info.architecture).size


def _key(config: TrainConfig, model: Model, chunks: ChunkSet) -> str:
    """Equal keys: equal runs."""
    identity = {
        "model": {name: stamp.sha256 for name, stamp in model.info.files.items()},
        "chunk_set": chunks.id,
        "config": config.model_dump(mode="json", exclude=NOT_IN_KEY),
    }
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()


class _Run:
    """One training, from the original model or a checkpoint to the new model."""

    def __init__(
        self,
        config: TrainConfig,
        game: Game,
        model: Model,
        chunks: ChunkSet,
        checkpoint: Checkpoint,
        progress: Progress,
    ) -> None:
        from pipeline.learning.dataset import Dataset, holdout_batches
        from pipeline.learning.trainer import Trainer
        from pipeline.networks.architecture import Architecture

        self._config, self._model, self._chunks = config, model, chunks
        self._checkpoint, self._progress = checkpoint, progress
        self._dataset: Dataset = Dataset(game, chunks, config.batch_size, config.seed)
        self._holdout = (
            holdout_batches(game, chunks.holdout, config.batch_size, MOST_HOLDOUT) if chunks.holdout else []
        )
        self._steps = self._dataset.steps(config.epochs)
        self._last_epoch_from = self._dataset.steps(config.epochs - 1)
        with naming(model.path):
            architecture = Architecture.from_dict(model.info.architecture)
            weights, optimizer = model.weights, read_optimizer(model.path)
            self._done = _Progress()
            found = checkpoint.read(progress)
            if found is not None:
                self._done, weights, optimizer = _Progress(**found.progress), found.weights, found.optimizer
                progress.say(f"resuming at step {self._done.step} of {self._steps}")
            self._trainer: Trainer = Trainer(architecture, weights, config, optimizer)
        self._resumed_from = self._done.step
        if found is None:
            self._done.holdout_before = self._trainer.evaluate(self._holdout)

    def train(self, new_model: Path) -> TrainSummary:
        """Train to the end and write the model. An interrupt leaves a checkpoint of all that was done."""
        started = time.perf_counter()
        try:
            with curves_of(self._config.logdir / new_model.name) as curves:
                samples = self._steps_to_go(curves)
                seconds = time.perf_counter() - started
                after = self._trainer.evaluate(self._holdout)
                curves.add("holdout", self._done.holdout_before, self._trainer.total_steps - self._steps)
                curves.add("holdout", after, self._trainer.total_steps)
            trained = {name: total / self._done.epoch_steps for name, total in self._done.epoch_sums.items()}
            info = self._info(new_model, trained, after)
            write_model(new_model, info, self._trainer.weights, self._trainer.optimizer_state)
        except KeyboardInterrupt:
            self._save()
            self._progress.say(f"interrupted after step {self._done.step} of {self._steps}; run it again to go on")
            raise
        before = self._done.holdout_before
        return TrainSummary(
            model=new_model,
            original_model=self._model.path,
            chunk_set=self._chunks.id,
            examples=self._dataset.num_examples,
            steps=self._steps,
            resumed_from_step=self._resumed_from,
            loss=trained["total"],
            policy_loss=trained["policy"],
            value_loss=trained["value"],
            policy_accuracy=trained["policy_accuracy"],
            value_sign_accuracy=trained["value_sign_accuracy"],
            holdout_examples=sum(len(batch.value) for batch in self._holdout),
            holdout_loss_before=before.get("total", 0.0),
            holdout_loss_after=after.get("total", 0.0),
            holdout_policy_accuracy_before=before.get("policy_accuracy", 0.0),
            holdout_policy_accuracy_after=after.get("policy_accuracy", 0.0),
            seconds=seconds,
            samples_per_second=samples / seconds,
        )

    def _steps_to_go(self, curves: Curves) -> int:
        """Train to the end; how many samples this process trained on."""
        from pipeline.learning.dataset import prefetched

        done, samples, saved = self._done, 0, time.monotonic()
        self._progress.start("training", total=self._steps, unit="step")
        self._progress.advance(done.step)
        source = self._dataset.batches(self._config.epochs, done.step)
        with interrupts_between_steps() as deliver_interrupts, prefetched(source) as batches:
            for batch in batches:
                result = self._trainer.step(batch)
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

    def _save(self) -> None:
        self._checkpoint.write(vars(self._done), self._trainer.weights, self._trainer.optimizer_state)

    def _count(self, result: StepResult) -> None:
        done = self._done
        done.step += 1
        if done.step > self._last_epoch_from:
            for name, value in result.metrics.items():
                done.epoch_sums[name] = done.epoch_sums.get(name, 0.0) + value
            done.epoch_steps += 1

    def _show(self, result: StepResult, curves: Curves) -> None:
        shown = {**result.metrics, "gradient_norm": result.gradient_norm, "learning_rate": result.learning_rate}
        curves.add("train", shown, self._trainer.total_steps)
        self._progress.describe(
            f"loss {result.metrics['total']:.3f} policy {result.metrics['policy']:.3f} "
            f"value {result.metrics['value']:.3f}"
        )

    def _info(self, path: Path, trained: dict[str, float], after: dict[str, float]) -> ModelInfo:
        parsed = layout.parse_model_name(path.name)
        return ModelInfo(
            name=path.name,
            number=parsed.number if parsed else self._model.info.number + 1,
            game=self._model.info.game,
            architecture=self._model.info.architecture,
            method="alphazero",
            parents=[self._model.info.name],
            manifest={
                "stage": "train",
                "config": self._config.model_dump(mode="json"),
                "chunk_set": self._chunks.id,
                "window": self._dataset.window,
                "examples": self._dataset.num_examples,
                "steps": self._steps,
                "total_steps": self._trainer.total_steps,
                "metrics": {"train": trained, "holdout_before": self._done.holdout_before, "holdout_after": after},
                "commit": source_commit(),
                "versions": library_versions(),
            },
        )


def _remove_finished_checkpoints(saved_models: Path) -> None:
    """A run killed between writing its model and removing its checkpoint leaves one that nobody needs."""
    for folder in saved_models.glob(".*"):
        model = layout.parse_checkpoint_name(folder.name)
        if model and (saved_models / model / layout.MODEL_JSON).exists():
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def interrupts_between_steps() -> Iterator[Callable[[], None]]:
    """Hold SIGINT and SIGTERM back until the function that the block gets is called: a step is done whole or not.

    Whoever handled them before handles them then. In other threads than the main one signals don't arrive anyway.
    """
    caught: list[tuple[int, types.FrameType | None]] = []
    before: dict[int, Any] = {}

    def deliver() -> None:
        if caught:
            number, frame = caught.pop(0)
            before[number](number, frame)

    with suppress(ValueError):  # not the main thread
        for wanted in (signal.SIGINT, signal.SIGTERM):
            if callable(signal.getsignal(wanted)):
                before[wanted] = signal.signal(wanted, lambda *args: caught.append(args))
    try:
        yield deliver
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    deliver()
