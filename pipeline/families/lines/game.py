"""Games of stones in a line: players place one stone in turn, the first with enough in a row wins, a full board draws.

No repetition is possible (stones never leave), so histories are ignored. A game fixes the board, the length of a
winning line and whether stones fall to the bottom of their column (then an action is a column, otherwise a point). See
games/row_kernels.py for the state's layout.
"""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import numpy as np

from pipeline.errors import UsageError
from pipeline.families.lines import kernels
from pipeline.families.lines.heuristic import move_scores
from pipeline.games import row_kernels
from pipeline.games.contract import Actions, BoolArray, History, MoveScores, OneAnalysis, Planes, States
from pipeline.games.stones import RowGame


class LineGame(RowGame, OneAnalysis):
    """Everything but the notation and the symmetries. A subclass sets the class variables and those."""

    height: ClassVar[int]
    width: ClassVar[int]
    length: ClassVar[int]  # stones in a row that win
    falls: ClassVar[bool]  # whether stones drop to the lowest empty point of their column

    plane_names = ("own stones", "opponent's stones", "second player to move")

    def __init__(self) -> None:
        super().__init__(self.height, self.width, row_kernels.EXTRA_WORDS)
        self.max_plies = self.num_points

    @classmethod
    def from_spec(cls, size: str | None, options: dict[str, str]) -> LineGame:
        """Raises UsageError for a size or options: there are none."""
        if size is not None or options:
            raise UsageError(f"game {cls.spec!r} takes no size or options; write just {cls.spec!r}")
        return cls()

    def initial(self, num_games: int) -> States:
        return np.zeros((num_games, self.state_size), np.int16)

    def play(self, states: States, actions: Actions, history: History) -> States:
        actions = np.asarray(actions, np.int32)
        after, status = kernels.play(states, actions, self.height, self.width, self.length, self.falls)
        self._refuse(states, actions, status, self.refusals)
        return after

    def analyse(self, states: States, history: History | None, allowed: BoolArray, planes: Planes) -> None:
        row_kernels.legal_and_observe(states, self.num_points, history is not None, allowed, planes)

    def heuristic(self) -> MoveScores:
        return partial(move_scores, self)
