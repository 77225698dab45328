"""``SearchSession``: one game, and a model that thinks about it for as long as a protocol allows."""

from __future__ import annotations

import time

import numpy as np

from pipeline.config import SearchConfig
from pipeline.games.base import Game, States
from pipeline.players.searching import Evaluate, SearchPlayer

ROW = np.array([0])
WARM_UP_READOUTS = 64  # two batches and more


class SearchSession:
    """A SearchPlayer of one row, with a clock. It keeps its tree from move to move."""

    def __init__(self, game: Game, evaluate: Evaluate, config: SearchConfig, readouts: int, leaves: int = 1) -> None:
        """evaluate: for batches of up to `leaves` positions of the one tree. readouts: at most, per move; 0: the raw
        policy.
        """
        self.game = game
        self._player = SearchPlayer(game, 1, evaluate, config, readouts, leaves)
        self.restart()

    def warm_up(self) -> None:
        """Do everything twice, so that nothing is compiled on a move's time; then restart.

        Uses few readouts, however many a move will get: a manager is waiting.
        """
        readouts = self._player.readouts
        self._player.readouts = min(readouts, WARM_UP_READOUTS)
        for _ in range(2):
            self.think(None)
            self.play(self.think(0.0))
        self._player.readouts = readouts
        self.restart()

    def restart(self, state: States | None = None) -> None:
        """Begin at this position [1, S], or at the initial one."""
        self._player.new_games(ROW, np.zeros(1, np.uint64))
        if state is not None:
            self._player.search.states[ROW] = state

    @property
    def state(self) -> States:
        """[1, S]"""
        return self._player.search.states

    def play(self, action: int) -> None:
        """Make either side's move. Raises IllegalMove; then nothing has changed."""
        self._player.advance(ROW, np.array([action], np.int32))

    def think(self, seconds: float | None) -> int:
        """The move to play, without playing it. seconds: when to stop; None: as long as it takes.

        The clock is read after every batch, so at most one more batch is evaluated when the time is up.
        """
        player, until = self._player, np.inf if seconds is None else time.monotonic() + seconds
        player.begin(ROW)
        decisions = player.step()
        while not decisions.rows.size:
            timed_out = time.monotonic() >= until and player.search.evaluations
            decisions = player.decide(ROW) if timed_out else player.step()
        return int(decisions.actions[0])
