"""How far a run has come, read from its models: settings with a schedule depend on it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pipeline.run.models import ModelInfo, newest_models, read_info
from pipeline.schedules import START, RunState


def newest_model(folder: Path) -> Path | None:
    return next(newest_models(folder), None)


def state_of_model(info: ModelInfo, time_share: float | None = None) -> RunState:
    """A model's own generation, samples and share of time; time_share: the share if its manifest has none."""
    trained = info.manifest.get("config")
    share = trained.get("time_share") if isinstance(trained, dict) else None
    if not isinstance(share, int | float) or isinstance(share, bool):
        share = 0.0 if info.number == 0 else time_share
    return RunState(info.number, int(info.manifest.get("total_samples", 0)), share)


def state_of(model: Path | None, time_share: float | None = None) -> RunState:
    """As state_of_model; START without a model."""
    return START if model is None else state_of_model(read_info(model), time_share)


def state_of_next(folder: Path, time_share: float | None = None) -> RunState:
    """The state in which the generation after the folder's newest model is made; time_share: as above."""
    newest = newest_model(folder)
    if newest is None:
        return RunState(1, 0, time_share)
    state = state_of(newest, time_share)
    return replace(state, generation=state.generation + 1)
