"""``Player``: chooses the moves of one side in many games at once.

A player has a fixed number of rows. A row is one game; the player gets every move made in it, by either side. Between
begin() and the decision it may take any number of step()s, so the interface fits batched searches, networks and
processes behind pipes. One thread uses a player. Rows never influence each other: the move chosen in a row depends only
on its seed, its moves and the player's settings.

Axes: R rows, n rows named in a call, S state words, A actions. Values are seen by the player to move, which is this
player.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pipeline.errors import MuGoError, UsageError
from pipeline.games.boards import Boards as Boards  # for players and referees
from pipeline.games.contract import Actions, FloatArray, KeyArray, Rows, States

RESIGN = -1  # instead of an action: the player resigns


class PlayerFault(MuGoError):
    """A player failed to make a move: the game can't go on and doesn't count.

    kind: broken    the process ended, closed its pipe, or took too long
          protocol  the answer isn't part of the protocol
          refusal   it refused a move or the game
          illegal   it chose an illegal move
          crash     a failure inside the player or the worker that ran it
    """

    def __init__(self, kind: str, player: str, problem: str) -> None:
        super().__init__(f"{player}: {problem}")
        self.kind = kind
        self.player = player


class PlayerUnavailable(MuGoError):
    """A player can't make a move in any game, e.g. because its server refuses the key: the command must end."""


@dataclass(frozen=True)
class Decisions:
    """The result of a step.

    rows     [n] with a decided move
    actions  [n] int32, or RESIGN
    values   [n] float32 value_to_move before the move; NaN if the player estimates none
    faults   row → why there will be no move
    worked   whether the step did any work; if not, and nothing is decided, wait() before the next step
    """

    rows: Rows
    actions: Actions
    values: FloatArray
    faults: dict[int, PlayerFault] = field(default_factory=dict)
    worked: bool = True

    @staticmethod
    def none(worked: bool = False) -> Decisions:
        return Decisions(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.float32), worked=worked)

    @staticmethod
    def arrived(actions: Mapping[int, int], faults: dict[int, PlayerFault]) -> Decisions:
        """By row, of a player outside this process that tells no values."""
        rows, chosen = np.array(list(actions), np.int64), np.array(list(actions.values()), np.int32)
        return Decisions(rows, chosen, np.full(len(rows), np.nan, np.float32), faults, bool(actions or faults))


class Player(ABC):
    """See the module docstring. Made for one game and a number of rows.

    meets_fixed  whether the opponent doesn't learn; set before the first game, for games whose networks see that
    """

    meets_fixed = False

    @abstractmethod
    def new_games(self, rows: Rows, seeds: KeyArray) -> None:
        """Begin new games in rows [n] at the initial position, replacing earlier ones. seeds [n] uint64."""

    def set_up(self, rows: Rows, states: States, stones: Sequence[Sequence[int]]) -> None:
        """Put rows [n], whose games have just begun, at states [n, S], after these handicap stones of the first player.

        The history of the repetition rules begins there. Raises UsageError if the player can't, the default.
        """
        raise UsageError(f"{type(self).__name__}: it begins at the initial position only; wanted a game without stones")

    @abstractmethod
    def advance(self, rows: Rows, actions: Actions) -> None:
        """Play legal moves [n], made by either side, in rows [n]. Ends any search there."""

    @abstractmethod
    def begin(self, rows: Rows) -> None:
        """Start choosing a move in each of rows [n], where it is this player's turn and the game isn't over."""

    @abstractmethod
    def step(self) -> Decisions:
        """Do one batch of work. Each row is decided or faulty exactly once per begin()."""

    def drop(self, rows: Rows) -> None:  # noqa: B027  most players have nothing to release
        """Stop searching in rows [n], whose games are over or given up; new_games() may follow there."""

    def wait(self, seconds: float) -> None:  # noqa: B027  most players never wait for anything
        """Return when step() may have something new, or after this many seconds."""

    def close(self) -> None:  # noqa: B027
        """End processes and threads. No other method may be called afterwards."""


class BoardsPlayer(Player):
    """A player that keeps the boards of its rows. A subclass decides the rows of ``_wanted`` in step()."""

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
"""(game, num_rows, thread number) → a player for the calling thread."""
