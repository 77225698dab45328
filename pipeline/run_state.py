"""How far a run has come when a command begins, read from its models: what settings with a schedule depend on."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from pipeline.config import EvaluateConfig, InitConfig, SelfplayConfig, StageConfig, TournamentConfig, TrainConfig
from pipeline.players.specs import parse_player
from pipeline.schedules import START, RunState
from pipeline.storage import layout
from pipeline.storage.models import newest_models, read_info, resolve_champion


def run_state_of(config: StageConfig) -> RunState:
    """The state of the run that this config is for; of config only the paths and time_share matter.

    Self-play, gathering and training make the next generation: the newest model's number plus one, or the number in
    --new-model. A match judges a challenger: the generation is that model's number, or the newest model's without
    --white-model. Samples are all that the newest model (training: --original-model) was trained on, by its manifest.
    Gathering and tournaments look into saved_models/, the other commands into the folder of their models.
    A watcher goes by each model's own state (evaluate/planning.py); its config here is that of the beginning.
    Raises FileError for models that can't be read.
    """
    if isinstance(config, InitConfig) or (isinstance(config, EvaluateConfig) and config.watch):
        return START
    return replace(_state_of_run(config), share=getattr(config, "time_share", None))


def _state_of_run(config: StageConfig) -> RunState:
    """Generation and samples only."""
    if isinstance(config, SelfplayConfig):
        return _next(_newest(resolve_champion(config.network).parent))
    if isinstance(config, TrainConfig):
        newest = _newest(config.new_model.parent if config.new_model else layout.SAVED_MODELS)
        made = layout.parse_model_name(config.new_model.name) if config.new_model else None
        generation = made.number if made else _next(newest).generation
        return RunState(generation, _state_of(config.original_model or newest).samples)
    if isinstance(config, EvaluateConfig):
        return _state_of(_challenger(config))
    newest = _newest(layout.SAVED_MODELS)
    return _state_of(newest) if isinstance(config, TournamentConfig) else _next(newest)


def _challenger(config: EvaluateConfig) -> Path | None:
    if config.white_model is not None:
        challenger = parse_player(config.white_model).path
        if challenger is not None:
            return challenger
    champion = parse_player(config.black_model)
    return _newest(Path(os.path.realpath(champion.path)).parent if champion.path else layout.SAVED_MODELS)


def _newest(folder: Path) -> Path | None:
    return next(newest_models(folder), None)


def _state_of(model: Path | None) -> RunState:
    """A model's own generation and samples; START without a model."""
    if model is None:
        return START
    info = read_info(model)
    return RunState(info.number, int(info.manifest.get("total_samples", 0)))


def _next(newest: Path | None) -> RunState:
    """The generation after the newest model's; the first one without a model."""
    standing = _state_of(newest)
    return RunState(standing.generation + 1, standing.samples)
