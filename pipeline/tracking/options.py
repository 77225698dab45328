"""The options of commands that track numbers, and which sinks they name."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

from pydantic import Field, field_validator
from pydantic_core import PydanticCustomError

from pipeline.errors import UsageError
from pipeline.options import Options

NONE, TENSORBOARD, WANDB, WANDB_ONLINE, MLFLOW = "none", "tensorboard", "wandb", "wandb:online", "mlflow"
NAMES = (TENSORBOARD, WANDB, WANDB_ONLINE, MLFLOW)
PACKAGES = {WANDB: "wandb", WANDB_ONLINE: "wandb", MLFLOW: "mlflow"}  # name → package and extra of the same name


class TrackingOptions(Options):
    """See tracker.py. They never change what a command computes."""

    panel = "Tracking"

    track: str = Field(
        TENSORBOARD,
        description="Where numbers go beside points.jsonl: tensorboard, wandb (offline; wandb:online sends them), "
        "mlflow, several with commas, or none.",
    )
    logdir: Path | None = Field(
        None, description="Folder of what is tracked. [default: logs/ beside the folder of games, chunks or matches]"
    )

    @field_validator("track")
    @classmethod
    def names_sinks(cls, track: str) -> str:
        """Raises PydanticCustomError for names that aren't known, and for both forms of wandb."""
        names = sinks_in(track)
        if not set(names) <= set(NAMES) or {WANDB, WANDB_ONLINE} <= set(names):
            wanted = f"{', '.join(NAMES)}, several with commas, or {NONE}"
            raise PydanticCustomError("track", wanted)  # type: ignore[arg-type]
        return track


FIELDS = frozenset(TrackingOptions.model_fields)


def sinks_in(track: str) -> list[str]:
    """The names in --track."""
    return [] if track == NONE else [name.strip() for name in track.split(",")]


def extras_of(tracks: Iterable[str]) -> set[str]:
    """The extras of pyproject.toml that values of --track need."""
    return {PACKAGES[name] for track in tracks for name in sinks_in(track) if name in PACKAGES}


def check_packages(command: str, track: str) -> None:
    """Raise UsageError if a package that --track needs isn't installed. Call it before anything starts."""
    for extra in sorted(extras_of([track])):
        found = find_spec(extra)
        if found is None or found.origin is None:  # a mere folder of this name
            raise UsageError(
                f"{command} --track: found {track!r}, but the package {extra} isn't installed; wanted the extra "
                f"{extra}: python -m pip install -c constraints.txt -e '.[{extra}]'"
            )
