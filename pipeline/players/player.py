"""``Player``: what chooses the moves of one side in many games at once.

A player has a fixed number of rows; a row is one game, and the player gets every move made in it, by either side.
Between begin() and the decision the player may take any number of step()s, so that a batch of searches, a network and a
process behind a pipe all fit. One thread uses a player. Rows never influence each other: the move chosen in a row
depends only on its seed, its moves and the player's settings.

Axes: R rows, n rows named in a call, S state words, A actions. Values are seen by the player to move, which is the one
asked.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pipeline.errors import MuGoError, UsageError
from pipeline.games.boards import Boards as Boards  # for players and referees
from pipeline.games.contract import Actions, FloatArray, KeyArray, Rows, States

RESIGN = -1  # instead of an action: the player resigns


class PlayerFault(MuGoError):
    """A player failed to make a move: the game can't go on and doesn't count.

    kind: broken    the channel to it broke: the process ended, closed its pipe, or took too long
          protocol  its answer isn't part of its protocol
          refusal   it refused a move or the game
          illegal   it chose a move that the rules forbid
          crash     a bug or a failure inside the player or the worker that ran it
    """

    def __init__(self, kind: str, player: str, problem: str) -> None:
        super().__init__(f"{player}: {problem}")
        self.kind = kind
        self.player = player


@dataclass(frozen=True)
class Decisions:
    """The result of a step.

    rows     [n] where a move is decided
    actions  [n] int32, or RESIGN
    values   [n] float32 value_to_move before the move; NaN where the player has no opinion
    faults   row → why no move will come there
    worked   whether the step did any work; if not, and nothing is decided, wait() before the next one
    """

    rows: Rows
    actions: Actions
    values: FloatArray
    faults: dict[int, PlayerFault] = field(default_factory=dict)
    worked: bool = True

    @staticmethod
    def none(worked: bool = False) -> Decisions:
        return Decisions(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.float32), worked=worked)


class Player(ABC):
    """See the module docstring. Made for one game and a number of rows.

    meets_fixed  whether the other side doesn't learn; set before the first game, for games whose networks see that
    """

    meets_fixed = False

    @abstractmethod
    def new_games(self, rows: Rows, seeds: KeyArray) -> None:
        """Begin new games in rows [n], at the initial position; earlier games there are over. seeds [n] uint64."""

    def set_up(self, rows: Rows, states: States, stones: Sequence[Sequence[int]]) -> None:
        """Put rows [n], whose games have just begun, at states [n, S]: those with these handicap stones of the first
        player. What the repetition rules know begins there.

        Raises UsageError unless a player can; those of other packages may not.
        """
        raise UsageError(f"{type(self).__name__}: it begins at the initial position only; wanted a game without stones")

    @abstractmethod
    def advance(self, rows: Rows, actions: Actions) -> None:
        """Take note of legal moves [n] made in rows [n] by either side. Ends any thinking there."""

    @abstractmethod
    def begin(self, rows: Rows) -> None:
        """Start to choose a move in each of rows [n], where it is this player's turn and the game isn't over."""

    @abstractmethod
    def step(self) -> Decisions:
        """Do one batch of work; each row is decided (or faulty) exactly once per begin()."""

    def drop(self, rows: Rows) -> None:  # noqa: B027  most players have nothing to release
        """Stop thinking in rows [n], whose games are over or given up; new_games() may follow there."""

    def wait(self, seconds: float) -> None:  # noqa: B027  most players never wait for anything
        """Return when step() may have something new, or after this many seconds."""

    def close(self) -> None:  # noqa: B027
        """End processes and threads. No other method may be called afterwards."""


class BoardsPlayer(Player):
    """A player that keeps the boards of its rows, and in step() decides rows that wait for it: those of ``_wanted``."""

    def __init__(self, game: Any, num_rows: int) -> None:
        self._boards = Boards(game, num_rows)
        self._wanted = np.zeros(num_rows, np.bool_)

    def new_games(self, rows: Rows, seeds: KeyArray) -> None:
        self._boards.new_games(rows)
        self._wanted[rows] = False

    def advance(self, rows: Rows, actions: Actions) -> None:
        self._boards.advance(rows, actions)
        self._wanted[rows] = False

    def begin(self, rows: Rows) -> None:
        self._wanted[rows] = True

    def drop(self, rows: Rows) -> None:
        self._wanted[rows] = False


MakePlayer = Callable[[Any, int, int], Player]
"""(game, num_rows, number of the thread) → a player for the calling thread."""
