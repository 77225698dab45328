"""For the tests of stages: small models, and what a stage says."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from pipeline.games.specs import parse_game
from pipeline.networks.architecture import Architecture, random_weights
from pipeline.progress import Progress
from pipeline.run.models import ModelInfo, set_champion, write_model


class Heard(Progress):
    """Keeps what it is told. said, warned: in order."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.warned: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)

    def warn(self, text: str) -> None:
        self.warned.append(text)


def make_model(folder: Path, number: int = 0, spec: str = "tictactoe", size: str = "b1c8", seed: int = 0) -> Path:
    """A model with random weights in folder, named like NNNNNN-test."""
    game = parse_game(spec)
    architecture = Architecture.for_game(size, game)
    path = folder / f"{number:06d}-test"
    info = ModelInfo(
        name=path.name, number=number, game=game.spec, method="alphazero", architecture=architecture.to_dict()
    )
    write_model(path, info, random_weights(architecture, seed))
    return path


def make_champion(folder: Path, **kwargs) -> Path:
    """The same, with best_model pointing to it."""
    path = make_model(folder, **kwargs)
    set_champion(folder, path, {"reason": "test"})
    return path


def wait_for(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    """Return when it holds. Fails after so many seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def session_niceness(process: int) -> int | None:
    """The niceness of a process's session; None if the kernel has no such groups."""
    with suppress(OSError, ValueError):
        return int(Path(f"/proc/{process}/autogroup").read_text().rpartition(" ")[2])
    return None
