"""Line games: players place stones in turn, the first to make a line of enough stones wins, and a full board is a draw.

Stones never leave the board, so histories are ignored. A game fixes the board, the length of a winning line and whether
stones fall to the bottom of their column (then an action is a column, otherwise a point). See ``row_kernels`` for the
state's layout.
"""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import UsageError
from pipeline.families.lines.heuristic import move_scores
from pipeline.games import row_kernels as kernels
from pipeline.games.contract import Actions, BoolArray, History, MoveScores, Planes, States
from pipeline.games.stones import RowGame


class LineGame(RowGame):
    """A subclass sets the class variables, the notation and, if stones fall, the symmetries."""

    height: ClassVar[int]
    width: ClassVar[int]
    length: ClassVar[int]  # stones in a row that win
    falls: ClassVar[bool]  # whether stones drop to the lowest empty point of their column

    plane_names = ("own stones", "opponent's stones", "second player to move")

    def __init__(self) -> None:
        super().__init__(self.height, self.width, kernels.EXTRA_WORDS)
        self.max_plies = self.num_points

    @classmethod
    def from_spec(cls, size: str | None, options: dict[str, str]) -> LineGame:
        """Raises UsageError for a size or options: there are none."""
        if size is not None or options:
            raise UsageError(f"game {cls.spec!r} takes no size or options; write just {cls.spec!r}")
        return cls()

    def initial(self, num_games: int) -> States:
        return np.zeros((num_games, self.state_size), np.int16)

    def attempt(self, states: States, actions: Actions, history: History) -> tuple[States, NDArray[np.uint8]]:
        return kernels.play(states, actions, self.height, self.width, self.length, self.falls)

    def analyse(self, states: States, history: History | None, allowed: BoolArray, planes: Planes) -> None:
        kernels.legal_and_observe(states, self.num_points, history is not None, allowed, planes)

    def heuristic(self) -> MoveScores:
        return partial(move_scores, self)
