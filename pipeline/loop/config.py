"""The options of ``loop``."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator

from pipeline.errors import UsageError
from pipeline.options import Options
from pipeline.tracking.options import TrackingOptions

DEFAULT_RUN = "go:9,komi=7"
MINUTES = 15.0


class LoopConfig(Options):
    """Train generation after generation: selfplay, gather, train, evaluate, again and again.

    All four run in this process, one after another, with the settings of one preset; --game needs none: the loop
    measures the game and this machine, and derives a preset from them and --minutes, on top of the learning recipe
    (`presets recipe`). It keeps that preset in data/preset.yaml. --overlap plays games beside them
    in a process of its own. They communicate only through files, so each can also be run by hand at any time. Stop the
    loop with Ctrl-C or kill at any moment; the same command continues where it stood. A second loop in the same folder
    exits at once.

    \b
    Reads:   what the commands that it calls read
    Writes:  what they write, data/.loop.json: the time that it has run here, and with --game data/preset.yaml
    Exit:    0 done, 1 a command failed, 2 wrong usage, 75 another loop is running here
    Example: python main.py loop --preset go9 --minutes 120 --directory runs/go9
    """

    preset: str = Field(
        "",
        description="Settings of all commands: a name from `presets`, or a .yaml file. [default: derived for --game]",
    )
    game: str | None = Field(
        None,
        description="Instead of a preset: train this board game with settings that fit it, the machine and --minutes. "
        f"[default: {DEFAULT_RUN}]",
    )
    minutes: float | None = Field(
        None,
        gt=0,
        allow_inf_nan=False,
        description="Stop after the generation in which the loop's total time here reaches this. `until_share` in a "
        f"preset means the share of this time. [default: none; {MINUTES:g} with --game]",
    )
    generations: int | None = Field(
        None,
        ge=0,
        description="Stop when this many models have been trained; 0: never. [default: 5; 0 with --minutes or --game]",
    )
    directory: Path = Field(
        Path(),
        description="Where data/ and saved_models/ are; or the address of a run in object storage, e.g. "
        "s3://bucket/runs/go9, of which this machine then keeps a working copy.",
    )
    overlap: bool = Field(
        False,
        description="Keep playing while other commands run, at the lowest priority; unfinished games continue in the "
        "next generation. Two cores are busy without it.",
    )
    tidy: bool = Field(
        False,
        description="After each generation run `compact` and `prune --apply`: pack the games of older ones, and remove "
        "what no window, training or report needs.",
    )
    runner: Literal["local", "ray"] | None = Field(
        None,
        description="Where games are played; ray: on all of a Ray cluster (docs/machines.md). gather and train stay "
        "here. [default: the preset's]",
    )
    track: str | None = Field(
        None,
        description="Where tracked numbers go beside points.jsonl, as for train: tensorboard, wandb, mlflow, several "
        "with commas, or none. [default: the preset's]",
    )
    extras: bool = Field(
        False, description="Only print the extras of pyproject.toml that this run needs, separated by commas."
    )

    @field_validator("track")
    @classmethod
    def _names_sinks(cls, track: str | None) -> str | None:
        return None if track is None else TrackingOptions.names_sinks(track)

    def with_defaults(self) -> LoopConfig:
        """Without a preset: a game and minutes to derive one from. Raises UsageError for a game beside a preset."""
        if not self.preset:
            return self.model_copy(update={"game": self.game or DEFAULT_RUN, "minutes": self.minutes or MINUTES})
        if self.game is not None:
            raise UsageError(f"loop --game {self.game}, --preset {self.preset}: a preset names its game; choose one")
        return self
