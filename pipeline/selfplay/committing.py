"""Commits of self-play: finished games become shards, a group at a time."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable

from pipeline.config import SelfplayConfig
from pipeline.methods.base import FinishedGame
from pipeline.storage.shards import write_shard


class Committer:
    """Collects finished games per model and writes them as shards every commit_seconds (0: each game at once).

    evaluations: how many the network has made so far; each sidecar says how many came since the one before.
    """

    def __init__(
        self, config: SelfplayConfig, game: str, method: str, provenance: dict, evaluations: Callable[[], int]
    ) -> None:
        self._config = config
        self._game = game
        self._method = method
        self._provenance = provenance
        self._evaluations = evaluations
        self._counted = 0  # evaluations that a sidecar has
        self._waiting: dict[str, list[FinishedGame]] = defaultdict(list)
        self._since = time.monotonic()
        self.shards = 0

    def add(self, finished: FinishedGame) -> None:
        if not self._waiting:
            self._since = time.monotonic()
        self._waiting[finished.player].append(finished)

    def due_in(self) -> float:
        """Seconds until the oldest waiting game must be committed."""
        if not self._waiting:
            return float("inf")
        return self._since + self._config.commit_seconds - time.monotonic()

    def commit(self) -> None:
        """Write what waits. If writing fails the games still wait, and the error is raised."""
        for model in list(self._waiting):
            games = [finished.record for finished in self._waiting[model]]
            groups = [games] if self._config.commit_seconds > 0 else [[game] for game in games]
            for group in groups:
                evaluations = self._evaluations()
                write_shard(
                    self._config.output_dir,
                    model,
                    self._config.worker,
                    self._game,
                    group,
                    self._provenance,
                    evaluations - self._counted,
                    self._method,
                )
                self._counted = evaluations
                self.shards += 1
            del self._waiting[model]
