"""Commits of self-play: finished games become shards, a group at a time."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pipeline.games.contract import AnyGame
from pipeline.interrupts import held_back
from pipeline.methods.method import FinishedGame, Method
from pipeline.run.layout import games_folder
from pipeline.run.shards import GameRecord, RunNumbers, write_shard
from pipeline.selfplay.config import SelfplayConfig


class _Waiting(NamedTuple):
    number: int
    record: GameRecord


class _Kind(NamedTuple):
    """What the games of a shard have in common. spec: of their game."""

    generation: int
    model: str
    spec: str


@dataclass
class Committer:
    """Collects finished games and writes them as shards every commit_seconds (0: each game at once).

    A shard's games are of one generation, of one model and on one board.

    games        that are played, one for each board
    evaluations: how many the network has made so far; each sidecar says how many came since the one before.
    """

    config: SelfplayConfig
    games: Sequence[AnyGame]
    method: Method
    provenance: dict[str, Any]
    evaluations: Callable[[], int]
    run: RunNumbers
    shards: int = field(default=0, init=False)
    _counted: int = field(default=0, init=False)  # evaluations that a sidecar has
    _waiting: dict[_Kind, list[_Waiting]] = field(default_factory=lambda: defaultdict(list), init=False)
    _since: float = field(default=0.0, init=False)  # when the oldest waiting game came

    def add(self, finished: FinishedGame, game: AnyGame, generation: int, number: int) -> None:
        """game: one of games; generation: the number of the newest model when it began, but games that a later one went
        on with are of that one's generation; number: which of the worker's games it is.
        """
        if not self._waiting:
            self._since = time.monotonic()
        kind = _Kind(games_folder(finished.player, generation).generation, finished.player, game.spec)
        self._waiting[kind].append(_Waiting(number, finished.record))

    def due_in(self) -> float:
        """Seconds until the oldest waiting game must be committed."""
        if not self._waiting:
            return float("inf")
        return self._since + self.config.commit_seconds - time.monotonic()

    def commit(self) -> None:
        """Write what waits. If writing fails, the games that aren't written still wait, and the error is raised.

        An interrupt comes between two shards: games are written and wait no longer, or neither.
        """
        for kind, games in sorted(self._waiting.items()):
            while games:
                count = len(games) if self.config.commit_seconds > 0 else 1
                with held_back():
                    self._write(kind, games[:count])
                    del games[:count]
                    if not games:
                        del self._waiting[kind]

    def _write(self, kind: _Kind, games: list[_Waiting]) -> None:
        evaluations = self.evaluations()
        (board,) = (one for one in self.games if one.spec == kind.spec)
        write_shard(
            self.config.output_dir,
            kind.model,
            self.config.worker,
            kind.spec,
            [game.record for game in games],
            {"generation": kind.generation, **self.provenance},
            method=self.method.name,
            recorded=self.method.recorded(board),
            max_result=board.max_result,
            evaluations=evaluations - self._counted,
            numbers=[game.number for game in games],
            run=self.run,
        )
        self._counted = evaluations
        self.shards += 1
