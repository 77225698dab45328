"""``Plan``: what all games of a run of self-play have in common, in the process that leads and in its workers."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.errors import MuGoError
from pipeline.games.contract import AnyGame
from pipeline.games.specs import parse_game
from pipeline.methods.method import Method
from pipeline.methods.named import method_named
from pipeline.progress import Progress
from pipeline.run.models import Model, ModelInfo
from pipeline.selfplay.config import SelfplayConfig
from pipeline.selfplay.opponents import Mix, parse_mix
from pipeline.selfplay.variety import Variety


@dataclass
class Plan:
    """Raises UsageError if the model's game can't be played with this config."""

    config: SelfplayConfig  # with the seed and the resignation threshold in force
    game: AnyGame  # the model's, on its own board
    method: Method
    threads: int = 1  # of each process that plays
    rows: int = 1  # games of each thread at a time
    leaves: int = 1  # of one tree in a batch
    mix: Mix = field(init=False)
    variety: Variety = field(init=False)

    def __post_init__(self) -> None:
        self.mix = parse_mix(self.config.opponents)
        self.variety = Variety.of(self.config, self.game)

    def to_job(self) -> dict[str, Any]:
        """As JSON."""
        said: dict[str, Any] = {name: getattr(self, name) for name in ("threads", "rows", "leaves")}
        return said | {
            "config": self.config.model_dump(mode="json"),
            "game": self.game.spec,
            "method": self.method.name,
        }

    @staticmethod
    def of_job(job: dict[str, Any]) -> Plan:
        config, game, method = SelfplayConfig(**job["config"]), parse_game(job["game"]), method_named(job["method"])
        return Plan(config, game, method, job["threads"], job["rows"], job["leaves"])

    def load(self, model: Model, progress: Progress) -> list[Any]:
        """A model, the learner or an opponent, loaded for each thread: see Method.load."""
        method = method_named(model.info.method)
        return method.load(model, self.rows * self.leaves, self.threads, self.config.backend, progress)

    def check(self, learner: ModelInfo, path: Path) -> None:
        """Raises MuGoError for a model of another game or method, which can't take over."""
        if (parse_game(learner.game).spec, learner.method) != (self.game.spec, self.method.name):
            raise MuGoError(
                f"{path}: plays {learner.game} ({learner.method}), the games under way are {self.game.spec} "
                f"({self.method.name}); restart selfplay to change the game or the method"
            )
