"""``ActiveOpponents``: the opponents that play in an actor's games.

Each promotion brings a new opponent, so those that have been idle longest are closed. Axes: R rows, n rows of a call.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from pipeline.errors import MuGoError
from pipeline.games.contract import Actions, Rows
from pipeline.methods.method import Encounter, Opponent
from pipeline.players.player import RESIGN, Decisions, Player

MAX_IDLE_OPPONENTS = 8  # kept for later games, because making an opponent takes time


class ActiveOpponent:
    """An opponent in an actor. plays [R]: the rows in which it plays; asked [R]: where it was asked for a move."""

    def __init__(self, opponent: Opponent, game: Any, num_rows: int) -> None:
        self.opponent = opponent
        self.player = opponent.make(game, num_rows)
        self.plays = np.zeros(num_rows, np.bool_)
        self.asked = np.zeros(num_rows, np.bool_)

    @property
    def thinking(self) -> bool:
        return bool(self.asked.any())

    def begin(self, rows: Rows) -> None:
        """Ask it for a move in rows [n]."""
        self.asked[rows] = True
        self.player.begin(rows)

    def step(self) -> Decisions:
        """Do a batch of its work. Raises MuGoError if it resigns, which only the learner may do."""
        decisions = self.player.step()
        if (decisions.actions == RESIGN).any():
            raise MuGoError(f"{self.opponent.name} resigned a game of self-play; wanted an opponent that plays on")
        self.asked[decisions.rows] = False
        self.asked[list(decisions.faults)] = False
        return decisions


class ActiveOpponents:
    """See the module docstring. Iterates over the opponents kept, least recently used first."""

    def __init__(self, game: Any, num_rows: int) -> None:
        self._game, self._num_rows = game, num_rows
        self._known: dict[Opponent, ActiveOpponent] = {}

    def __len__(self) -> int:
        return len(self._known)

    def __iter__(self) -> Iterator[ActiveOpponent]:
        return iter(list(self._known.values()))

    def meet(self, row: int, encounter: Encounter) -> Player:
        """Begin a game against an opponent in row, at the initial position; returns its player. Closes idle ones."""
        opponent = encounter.opponent
        active = self._known.pop(opponent, None) or ActiveOpponent(opponent, self._game, self._num_rows)
        self._known[opponent] = active  # most recently used last
        active.plays[row] = True
        active.player.new_games(np.array([row]), np.array([encounter.seed], np.uint64))
        idle = [other for other, its in self._known.items() if not its.plays.any()]
        for other in idle[: max(0, len(idle) - MAX_IDLE_OPPONENTS)]:
            self._known.pop(other).player.close()
        return active.player

    def advance(self, rows: Rows, actions: Actions) -> None:
        """Pass moves made in rows [n] on to the opponents that play there."""
        for active in self._known.values():
            plays = active.plays[rows]
            if plays.any():
                active.player.advance(rows[plays], actions[plays])

    def drop(self, row: int) -> None:
        """End the game in row."""
        for active in self._known.values():
            if active.plays[row]:
                active.plays[row] = active.asked[row] = False
                active.player.drop(np.array([row]))

    def close(self) -> None:
        """Close all opponents; none may be met afterwards."""
        for active in self._known.values():
            active.player.close()
