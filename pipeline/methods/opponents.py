"""``ActiveOpponents``: the opponents at work in an actor, each in the rows where it is met.

Whoever is met no more is let go of, because each promotion brings another model. Axes: R rows, n rows of a call.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import MuGoError
from pipeline.games.contract import Actions
from pipeline.methods.method import Encounter, Opponent
from pipeline.players.player import RESIGN, Decisions, Player

IDLE_OPPONENTS = 8  # opponents kept ready though they play no game now: building one costs memory and time

Rows = NDArray[np.int64]


class ActiveOpponent:
    """An opponent at work in an actor. plays [R]: the rows where it is met; thinking: in how many it is to move."""

    def __init__(self, opponent: Opponent, game: Any, num_rows: int) -> None:
        self.opponent = opponent
        self.player = opponent.make(game, num_rows)
        self.plays = np.zeros(num_rows, np.bool_)
        self.thinking = 0

    def begin(self, rows: Rows) -> None:
        """It is to move in rows [n]."""
        self.thinking += len(rows)
        self.player.begin(rows)

    def step(self) -> Decisions:
        """A batch of its work. Raises PlayerFault, and MuGoError if it gives up: only the learner may."""
        decisions = self.player.step()
        for fault in decisions.faults.values():
            raise fault
        if (decisions.actions == RESIGN).any():
            raise MuGoError(f"{self.opponent.name} resigned a game of self-play; wanted an opponent that plays on")
        self.thinking -= len(decisions.rows)
        return decisions


class ActiveOpponents:
    """See the module docstring. Iterating gives those that are kept, the longest unused first."""

    def __init__(self, game: Any, num_rows: int) -> None:
        self._game, self._num_rows = game, num_rows
        self._known: dict[Opponent, ActiveOpponent] = {}

    def __len__(self) -> int:
        return len(self._known)

    def __iter__(self) -> Iterator[ActiveOpponent]:
        return iter(list(self._known.values()))

    def meet(self, row: int, encounter: Encounter) -> Player:
        """The player that is met in a new game in row, at the initial position. Lets go of those idle for longest."""
        opponent = encounter.opponent
        active = self._known.pop(opponent, None) or ActiveOpponent(opponent, self._game, self._num_rows)
        self._known[opponent] = active  # the last used stands last
        active.plays[row] = True
        active.player.new_games(np.array([row]), np.array([encounter.seed], np.uint64))
        idle = [other for other, its in self._known.items() if not its.plays.any()]
        for other in idle[: max(0, len(idle) - IDLE_OPPONENTS)]:
            self._known.pop(other).player.close()
        return active.player

    def advance(self, rows: Rows, actions: Actions) -> None:
        """Show moves made in rows [n] to those who play there."""
        for active in self._known.values():
            met = active.plays[rows]
            if met.any():
                active.player.advance(rows[met], actions[met])

    def drop(self, row: int) -> None:
        """The game in row is over."""
        for active in self._known.values():
            if active.plays[row]:
                active.plays[row] = False
                active.player.drop(np.array([row]))

    def close(self) -> None:
        """Let go of all; none may be met afterwards."""
        for active in self._known.values():
            active.player.close()
