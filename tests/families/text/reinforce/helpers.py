"""A language model so small that tests can train it, and a run folder with one."""

from __future__ import annotations

from pathlib import Path

from pipeline.train.config import InitConfig
from pipeline.train.init import init

KUHN = "text:KuhnPoker-v0,show=round,prompt=80,reply=10"
SIZE = "l1d32r4"


def first_model(folder: Path, method: str = "reinforce", steps: int = 0, game: str = KUHN) -> Path:
    path = folder / "saved_models/000000-init"
    init(InitConfig(game=game, method=method, network_size=SIZE, pretraining_steps=steps, new_model=path))
    return path
