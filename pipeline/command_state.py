"""The state of the run in which a command begins: its settings with schedules take their values there."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from pipeline.evaluate.config import EvaluateConfig
from pipeline.options import Options
from pipeline.players.player_specs import parse_player
from pipeline.ratings.config import TournamentConfig
from pipeline.run import layout
from pipeline.run.models import ModelInfo, home_of, newest_info, read_info, resolve_champion, state_of, state_of_next
from pipeline.schedules import START, RunState
from pipeline.selfplay.config import SelfplayConfig
from pipeline.train.config import InitConfig, TrainConfig


def run_state_of(config: Options) -> RunState:
    """The state of the run that a config is for. Only the config's paths and time_share matter.

    Self-play, gathering and training make the next generation: the newest model's number plus one, or the number in
    --new-model. A match judges a challenger: its generation is that model's number. Samples are those that the newest
    model (in training --original-model) was trained on, by its manifest. Gathering and tournaments look into
    saved_models/, other commands into the folder of their models.
    A watcher uses each model's own state (evaluate/watch_plan.py); its config here gets START.
    Raises FileError for models that can't be read.
    """
    if isinstance(config, InitConfig) or (isinstance(config, EvaluateConfig) and config.watch):
        return START
    return replace(_state_of_run(config), share=getattr(config, "time_share", None))


def _state_of_run(config: Options) -> RunState:
    """Generation and samples only."""
    if isinstance(config, SelfplayConfig):
        return state_of_next(home_of(config.network, resolve_champion(config.network)))
    if isinstance(config, TrainConfig):
        folder = config.new_model.parent if config.new_model else layout.SAVED_MODELS
        made = layout.number_of(config.new_model.name) if config.new_model else None
        generation = state_of_next(folder).generation if made is None else made
        original = read_info(resolve_champion(config.original_model)) if config.original_model else newest_info(folder)
        return RunState(generation, state_of(original).samples)
    if isinstance(config, EvaluateConfig):
        return state_of(_challenger(config))
    if isinstance(config, TournamentConfig):
        return state_of(newest_info(layout.SAVED_MODELS))
    return state_of_next(layout.SAVED_MODELS)


def _challenger(config: EvaluateConfig) -> ModelInfo | None:
    if config.white_model is not None:
        challenger = parse_player(config.white_model).path
        if challenger is not None:
            return read_info(challenger)
    spec = parse_player(config.black_model)
    if spec.path is None or spec.given is None:
        return newest_info(layout.SAVED_MODELS)
    from pipeline.evaluate.command import next_challenger  # it imports much

    champion = Path(os.path.realpath(spec.path))
    home = home_of(spec.given, champion)
    path, _ = next_challenger(config.output_dir, home, champion, spec.name)
    return newest_info(home) if path is None else read_info(path)
