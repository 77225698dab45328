"""How far a run has come when a command begins, read from its models: what settings with a schedule depend on."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from pipeline.evaluate.config import EvaluateConfig
from pipeline.options import Options
from pipeline.players.player_specs import parse_player
from pipeline.ratings.config import TournamentConfig
from pipeline.run import layout
from pipeline.run.models import ModelInfo, newest_models, read_info, resolve_champion
from pipeline.schedules import START, RunState
from pipeline.selfplay.config import SelfplayConfig
from pipeline.train.config import InitConfig, TrainConfig


def run_state_of(config: Options) -> RunState:
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


def _state_of_run(config: Options) -> RunState:
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


def state_of_model(info: ModelInfo, time_share: float | None = None) -> RunState:
    """A model's own generation, samples and, as its manifest says, share of time; time_share: where it says nothing."""
    trained = info.manifest.get("config")
    share = trained.get("time_share") if isinstance(trained, dict) else None
    if not isinstance(share, int | float) or isinstance(share, bool):
        share = 0.0 if info.number == 0 else time_share
    return RunState(info.number, int(info.manifest.get("total_samples", 0)), share)


def state_of_next(folder: Path, time_share: float | None) -> RunState:
    """The state in which the generation after the folder's newest model is made; time_share: as above."""
    newest = _newest(folder)
    if newest is None:
        return RunState(1, 0, time_share)
    state = state_of_model(read_info(newest), time_share)
    return replace(state, generation=state.generation + 1)


def _state_of(model: Path | None) -> RunState:
    """A model's own generation and samples; START without a model."""
    if model is None:
        return START
    return replace(state_of_model(read_info(model)), share=START.share)


def _next(newest: Path | None) -> RunState:
    """The generation after the newest model's; the first one without a model."""
    standing = _state_of(newest)
    return RunState(standing.generation + 1, standing.samples)
