"""Commits of self-play: finished games become shards, a group at a time."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pipeline.interrupts import held_back
from pipeline.run.layout import games_folder
from pipeline.run.shards import GameRecord, RunNumbers, write_shard
from pipeline.selfplay.plan import Plan
from pipeline.selfplay.playing import PlayedGame


class _Kind(NamedTuple):
    """What the games of a shard have in common. spec: of their game."""

    generation: int
    model: str
    spec: str


@dataclass
class Committer:
    """Collects finished games and writes them as shards every commit_seconds (0: each game at once).

    A shard's games are of one generation, of one model and on one board.

    evaluations  returns the number of the network's evaluations so far; each sidecar has those since the one before
    """

    plan: Plan
    provenance: dict[str, Any]
    evaluations: Callable[[], int]
    run: RunNumbers
    shards: int = field(default=0, init=False)
    _counted: int = field(default=0, init=False)  # evaluations that a sidecar has
    _waiting: dict[_Kind, list[tuple[int, GameRecord]]] = field(default_factory=lambda: defaultdict(list), init=False)
    _since: float = field(default=0.0, init=False)  # when the oldest waiting game came

    def add(self, played: PlayedGame) -> None:
        """Games that a model took over are of that model's generation."""
        assert played.finished is not None
        if not self._waiting:
            self._since = time.monotonic()
        model = played.finished.player
        kind = _Kind(games_folder(model, played.generation).generation, model, played.game.spec)
        self._waiting[kind].append((played.number, played.finished.record))

    def due_in(self) -> float:
        """Seconds until the oldest waiting game must be committed."""
        if not self._waiting:
            return float("inf")
        return self._since + self.plan.config.commit_seconds - time.monotonic()

    def commit(self) -> None:
        """Write what waits. If writing fails, the games that aren't written still wait, and the error is raised.

        An interrupt comes between two shards: games are written and wait no longer, or neither.
        """
        for kind, games in sorted(self._waiting.items()):
            while games:
                count = len(games) if self.plan.config.commit_seconds > 0 else 1
                with held_back():
                    self._write(kind, games[:count])
                    del games[:count]
                    if not games:
                        del self._waiting[kind]

    def _write(self, kind: _Kind, games: list[tuple[int, GameRecord]]) -> None:
        evaluations = self.evaluations()
        (board,) = (one for one in self.plan.variety.games if one.spec == kind.spec)
        write_shard(
            self.plan.config.output_dir,
            kind.model,
            self.plan.config.worker,
            kind.spec,
            [record for _, record in games],
            {"generation": kind.generation, **self.provenance},
            method=self.plan.method.name,
            recorded=self.plan.method.recorded(board),
            max_result=board.max_result,
            evaluations=evaluations - self._counted,
            numbers=[number for number, _ in games],
            run=self.run,
        )
        self._counted = evaluations
        self.shards += 1
