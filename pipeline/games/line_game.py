"""Games of stones in a line: players place one stone in turn, the first with enough in a row wins, a full board draws.

What all of them share: no repetition is possible (stones never leave), so histories are ignored; ``scores`` equal
``returns``; a point is owned by the stone on it. A game fixes the board, the length of a winning line and whether
stones fall to the bottom of their column (then an action is a column, otherwise a point). See line_kernels for the
state's layout.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pipeline.games import line_kernels as kernels
from pipeline.games.base import (
    Actions,
    BoolArray,
    FloatArray,
    Game,
    History,
    IntArray,
    KeyArray,
    Planes,
    States,
)

REFUSALS = {kernels.OUT_OF_RANGE: "no such action", kernels.GAME_OVER: "the game is over"}


class LineGame(Game):
    """Everything but the notation and the symmetries. A subclass sets the class variables and those."""

    height: ClassVar[int]
    width: ClassVar[int]
    length: ClassVar[int]  # stones in a row that win
    falls: ClassVar[bool]  # whether stones drop to the lowest empty point of their column
    full: ClassVar[str]  # why a stone may not go where there is no room

    plane_names = ("own stones", "opponent's stones", "second player to move")

    def __init__(self) -> None:
        points = self.height * self.width
        self.board_shape = (self.height, self.width)
        self.num_actions = self.width if self.falls else points
        self.state_size = points + kernels.EXTRA_WORDS
        self.max_plies = points

    def initial(self, num_games: int) -> States:
        return np.zeros((num_games, self.state_size), np.int16)

    def play(self, states: States, actions: Actions, history: History) -> States:
        actions = np.asarray(actions, np.int32)
        after, status = kernels.play(states, actions, self.height, self.width, self.length, self.falls)
        self._refuse(actions, status, {**REFUSALS, kernels.OCCUPIED: self.full})
        return after

    def legal(self, states: States, history: History) -> BoolArray:
        return kernels.legal(states, self.height, self.width, self.falls)

    def is_over(self, states: States) -> BoolArray:
        return states[:, self.num_points + kernels.OVER] != 0

    def returns(self, states: States) -> FloatArray:
        winners = states[:, self.num_points + kernels.WINNER]
        return (winners == kernels.FIRST).astype(np.float32) - (winners == kernels.SECOND)

    def to_move(self, states: States) -> NDArray[np.int8]:
        return states[:, self.num_points + kernels.TO_MOVE].astype(np.int8)

    def plies(self, states: States) -> IntArray:
        return states[:, self.num_points + kernels.PLY].astype(np.int32)

    def keys(self, states: States) -> KeyArray:
        return kernels.keys(states, self.num_points)

    def observe(self, states: States, legal: BoolArray) -> Planes:
        return kernels.observe(states, self.num_points).reshape(len(states), self.num_planes, *self.board_shape)

    def scores(self, states: States) -> FloatArray:
        return self.returns(states)

    def ownership(self, states: States) -> NDArray[np.int8]:
        points = states[:, : self.num_points]
        return (points == kernels.FIRST).astype(np.int8) - (points == kernels.SECOND)

    def diagram(self, state: States) -> str:
        lines = []
        for row in range(self.height):
            cells = [".XO"[state[row * self.width + column]] for column in range(self.width)]
            lines.append(self._row_label(row) + " ".join(cells))
        lines.append(self._column_labels())
        mover = "XO"[int(state[self.num_points + kernels.TO_MOVE])]
        over = bool(state[self.num_points + kernels.OVER])
        lines.append(f"  {'over' if over else mover + ' to move'}, ply {int(state[self.num_points + kernels.PLY])}")
        return "\n".join(lines)

    def _row_label(self, row: int) -> str:
        """What stands left of a row of the diagram; all rows' labels have one width."""
        return "  "

    def _column_labels(self) -> str:
        """The diagram's line below the board."""
        return "  " + " ".join(self.action_name(column) for column in range(self.width))
