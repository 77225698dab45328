"""How far a run has come, read from its models: what settings with a schedule depend on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pipeline.run.models import ModelInfo, newest_models, read_info
from pipeline.schedules import START, RunState


def newest_model(folder: Path) -> Path | None:
    return next(newest_models(folder), None)


def state_of_model(info: ModelInfo, time_share: float | None = None) -> RunState:
    """A model's own generation, samples and, as its manifest says, share of time; time_share: where it says nothing."""
    trained = info.manifest.get("config")
    share = trained.get("time_share") if isinstance(trained, dict) else None
    if not isinstance(share, int | float) or isinstance(share, bool):
        share = 0.0 if info.number == 0 else time_share
    return RunState(info.number, int(info.manifest.get("total_samples", 0)), share)


def state_of_next(folder: Path, time_share: float | None) -> RunState:
    """The state in which the generation after the folder's newest model is made; time_share: as above."""
    newest = newest_model(folder)
    if newest is None:
        return RunState(1, 0, time_share)
    state = state_of_model(read_info(newest), time_share)
    return replace(state, generation=state.generation + 1)


def state_of(model: Path | None) -> RunState:
    """A model's own generation and samples; START without a model."""
    if model is None:
        return START
    return replace(state_of_model(read_info(model)), share=START.share)


def next_state(newest: Path | None) -> RunState:
    """The generation after the newest model's; the first one without a model."""
    standing = state_of(newest)
    return RunState(standing.generation + 1, standing.samples)
