"""Who answers a protocol: one game, and a player that thinks about it for as long as it is given."""

from __future__ import annotations

import time
from typing import Protocol

import numpy as np

from pipeline.config import SearchConfig
from pipeline.games.base import Game, States
from pipeline.players.searching import Evaluate
from pipeline.search.batch import BatchSearch

ROW = np.array([0])
WARM_UP_READOUTS = 64  # two batches and more


class Session(Protocol):
    """The position of one game, and what to play in it."""

    game: Game

    def restart(self, state: States | None = None) -> None:
        """To this position [1, S], or the initial one."""
        ...

    def play(self, action: int) -> None:
        """Either side moves. Raises IllegalMove; then nothing has changed."""
        ...

    def think(self, seconds: float | None) -> int:
        """The move to play, which isn't played yet. seconds: to stop after, None: as long as it takes."""
        ...

    @property
    def state(self) -> States:
        """[1, S]"""
        ...


class SearchSession:
    """Searches with a network, with at most so many readouts a move; keeps its tree from move to move."""

    def __init__(self, game: Game, evaluate: Evaluate, config: SearchConfig, readouts: int, leaves: int = 1) -> None:
        """evaluate: for batches of up to leaves positions, which the tree shares. readouts 0: the raw policy."""
        self.game = game
        self._evaluate = evaluate
        self._readouts = np.array([readouts], np.int32)
        self._search = BatchSearch(game, 1, readouts, config, leaves)
        self._explore = np.array([readouts > 0 and config.noise_weight > 0 and config.algorithm == "puct"])
        self.restart()

    def warm_up(self) -> None:
        """Do everything twice, so that what is compiled at its first use isn't compiled on a move's time. Restarts.

        With few readouts, however many a move will get: a manager is waiting.
        """
        readouts, self._readouts = self._readouts, np.minimum(self._readouts, np.int32(WARM_UP_READOUTS))
        for _ in range(2):
            self.think(None)
            self.play(self.think(0.0))
        self._readouts = readouts
        self.restart()

    def restart(self, state: States | None = None) -> None:
        self._search.new_games(ROW, np.zeros(1, np.uint64))
        if state is not None:
            self._search.states[ROW] = state

    @property
    def state(self) -> States:
        return self._search.states

    def play(self, action: int) -> None:
        self._search.advance(ROW, np.array([action], np.int32))

    def think(self, seconds: float | None) -> int:
        """As in Session. The clock is looked at after every batch, so that at most one more is made when time is up."""
        search = self._search
        until = np.inf if seconds is None else time.monotonic() + seconds
        search.begin(ROW, self._readouts, self._explore)
        while not search.finished().size:
            planes = search.leaves()
            if len(planes):
                search.expand(*self._evaluate(planes))
            if time.monotonic() >= until and search.evaluations:
                break
        search.stop(ROW)
        return int(search.choose(ROW, np.zeros(1, np.float32))[0])
