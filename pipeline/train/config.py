"""The configs of ``init``, ``train`` and ``export``."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from pipeline.methods.alphazero.options import LossOptions
from pipeline.methods.options import FirstModelOptions, GrowthOptions
from pipeline.options import Options, composed
from pipeline.run import layout
from pipeline.tracking.options import TrackingOptions


@composed("init")
class InitConfig(FirstModelOptions):
    """Make a model with random weights: every run begins with one.

    \b
    Reads:   nothing, or the model of --original-model or --base-model
    Writes:  a model directory, and best_model beside it if there is none yet
    Exit:    0 made, 1 the directory exists already or best_model plays another game, 2 wrong usage
    Example: python main.py init --game go:9 --network-size b2c32 --new-model saved_models/000000-init
    """


class PriorityOptions(Options):
    """See prioritised_replay.py."""

    panel = "Prioritised replay"

    priority_exponent: float = Field(
        0.0,
        ge=0,
        description="alpha: sample positions in proportion to (value error)^alpha (usual: 0.6); 0 = uniformly.",
    )
    priority_correction: float = Field(0.4, ge=0, le=1, description="beta: how far loss weights correct for that.")
    priority_floor: float = Field(0.001, gt=0, description="epsilon: added to every value error.")


class OptimizerOptions(Options):
    """See trainer.py and muon.py."""

    panel = "Optimiser"

    optimizer: str = Field(
        "adam", pattern="^(adam|muon)$", description="adam; or muon: orthogonal steps in the blocks, adam elsewhere."
    )
    warmup_steps: int = Field(50, ge=0, description="Steps over which the learning rate rises linearly from 0.")
    weight_decay: float = Field(1e-4, ge=0, description="Decoupled weight decay, not of biases and norms.")
    ema_decay: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="Save a moving average of the weights with this decay per step; 0 = the last weights.",
    )
    gradient_clip: float = Field(5.0, gt=0, description="Largest gradient norm; larger gradients are scaled down.")
    precision: str = Field(
        "auto",
        pattern="^(auto|float32|bfloat16)$",
        description="auto: bfloat16 where the processor is fast at it, else float32.",
    )


@composed("train")
class TrainConfig(OptimizerOptions, PriorityOptions, LossOptions, GrowthOptions, TrackingOptions):
    """Train a new model on the newest set of chunks.

    An interrupted training resumes from its checkpoint and ends with the same weights as an uninterrupted one (on a
    GPU with nearly the same).

    \b
    Reads:   data/training_data/*.h5, and the model to start from (--original-model)
    Writes:  a new directory in saved_models/, tracked numbers in data/logs/
    Exit:    0 trained, 1 failed, 2 wrong usage,
             75 no new chunks yet, too few positions for --max-samples-per-position, or another process is training
             this model
    Example: python main.py train --epochs 2
    """

    leading = ("directory", "original_model", "new_model", "network_size")

    directory: Path = Field(layout.CHUNKS, description="Chunks; the newest complete set is used.")
    original_model: Path | None = Field(None, description="Model to start from. [default: newest beside --new-model]")
    new_model: Path | None = Field(None, description="Model to create. [default: the next number in saved_models/]")
    epochs: int = Field(10, ge=1, description="Passes over the set of chunks.")
    batch_size: int = Field(512, ge=1, description="Samples per step.")
    learning_rate: float = Field(0.002, gt=0, description="The optimiser's peak learning rate.")
    symmetries: bool = Field(True, description="Rotate and mirror each example at random, as far as the game allows.")
    max_samples_per_position: float = Field(
        0.0,
        ge=0,
        description="Train on at most this many samples per self-play position (KataGo: 8); 0 = no limit.",
    )
    checkpoint_seconds: float = Field(60.0, ge=0, description="Seconds between checkpoints to resume from.")


class ExportConfig(Options):
    """Copy a model to give away: 16-bit weights, measured strength, and nothing that only training needs.

    The copy is half as large and plays the same but for rounding. All commands accept it, train included. --match names
    matches that the model played; the copy's model.json states their results.

    \b
    Reads:   the model, and matches given with --match
    Writes:  the new directory
    Exit:    0 done, 1 failed, 2 wrong usage
    Example: python main.py export saved_models/best_model mine --match data/evaluate/000018-b6c48-vs-gnugo
    """

    model: Path = Field(layout.CHAMPION_LINK, description="The model to copy.", json_schema_extra={"argument": True})
    output: Path | None = Field(
        None, description="The directory to make; never an existing one.", json_schema_extra={"argument": True}
    )
    match: list[Path] = Field([], description="Folder of a match that the model played; may be given several times.")
    note: str = Field("", description="A note to store in the copy, e.g. what else was measured.")
