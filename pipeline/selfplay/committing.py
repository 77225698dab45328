"""Commits of self-play: finished games become shards, a group at a time."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pipeline.config import SelfplayConfig
from pipeline.games.base import AnyGame
from pipeline.interrupts import held_back
from pipeline.methods.base import FinishedGame, Method
from pipeline.storage.shards import GameRecord, RunNumbers, write_shard


class _Waiting(NamedTuple):
    number: int
    record: GameRecord


@dataclass
class Committer:
    """Collects finished games and writes them as shards every commit_seconds (0: each game at once).

    A shard's games are of one generation and of one model.

    evaluations: how many the network has made so far; each sidecar says how many came since the one before.
    """

    config: SelfplayConfig
    game: AnyGame
    method: Method
    provenance: dict[str, Any]
    evaluations: Callable[[], int]
    run: RunNumbers | None = None
    shards: int = field(default=0, init=False)
    _counted: int = field(default=0, init=False)  # evaluations that a sidecar has
    _waiting: dict[tuple[int, str], list[_Waiting]] = field(default_factory=lambda: defaultdict(list), init=False)
    _since: float = field(default=0.0, init=False)  # when the oldest waiting game came

    def add(self, finished: FinishedGame, generation: int, number: int) -> None:
        """generation: the number of the newest model when the game began; number: which of the worker's games it is."""
        if not self._waiting:
            self._since = time.monotonic()
        self._waiting[generation, finished.player].append(_Waiting(number, finished.record))

    def due_in(self) -> float:
        """Seconds until the oldest waiting game must be committed."""
        if not self._waiting:
            return float("inf")
        return self._since + self.config.commit_seconds - time.monotonic()

    def commit(self) -> None:
        """Write what waits. If writing fails, the games that aren't written still wait, and the error is raised.

        An interrupt comes between two shards: games are written and wait no longer, or neither.
        """
        for (generation, model), games in sorted(self._waiting.items()):
            while games:
                count = len(games) if self.config.commit_seconds > 0 else 1
                with held_back():
                    self._write(generation, model, games[:count])
                    del games[:count]
                    if not games:
                        del self._waiting[generation, model]

    def _write(self, generation: int, model: str, games: list[_Waiting]) -> None:
        evaluations = self.evaluations()
        write_shard(
            self.config.output_dir,
            model,
            self.config.worker,
            self.game.spec,
            [game.record for game in games],
            {"generation": generation, **self.provenance},
            evaluations - self._counted,
            self.method.name,
            self.method.recorded(self.game),
            self.game.max_result,
            [game.number for game in games],
            self.run,
        )
        self._counted = evaluations
        self.shards += 1
