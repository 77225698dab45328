"""A real run on tic-tac-toe with a tiny network, made by the commands themselves in this process, in seconds."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pipeline.evaluate.command import evaluate
from pipeline.evaluate.config import EvaluateConfig
from pipeline.gather.command import gather
from pipeline.gather.config import GatherConfig
from pipeline.selfplay.command import selfplay
from pipeline.selfplay.config import SelfplayConfig
from pipeline.train.command import train
from pipeline.train.config import InitConfig, TrainConfig
from pipeline.train.init import init


def make_run(folder: Path) -> None:
    """One generation in folder: games, chunks with a hold-out and priorities, a trained model, a match, a promotion."""
    before = Path.cwd()
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    try:
        init(InitConfig(game="tictactoe", network_size="b1c8"))
        playing: dict[str, Any] = {"backend": "torch", "threads": 1, "parallel_games": 8, "seed": 1}
        selfplay(SelfplayConfig(games=24, readouts=4, temperature_plies=9, commit_seconds=0, **playing))
        gather(GatherConfig(positions_per_chunk=32, as_many_as_possible=True, holdout_fraction=0.3))
        train(TrainConfig(epochs=1, batch_size=32, priority_exponent=0.6))
        evaluate(EvaluateConfig(games=8, threshold=0.25, readouts=2, opening_plies=2, **playing))
    finally:
        os.chdir(before)
