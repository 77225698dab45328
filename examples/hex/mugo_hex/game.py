"""Hex on rhombic boards from 3×3 to 19×19.

Rules, where implementations differ:
    sides   the first player, X, joins the top and the bottom; the second player, O, joins left and right
    swap    there is no swap rule: the first player has a won game on every board
    draw    none is possible: on a full board exactly one player has joined their sides

Spec: ``hex:SIZE``, or ``hex:any`` for a network that plays all sizes. Actions are points, named by a column letter and
a row number from below, e.g. ``D4``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mugo_hex import kernels
from pipeline.games import row_kernels
from pipeline.games.all_boards import maker
from pipeline.games.contract import Actions, BoolArray, History, MoveScores, Planes, Scores, States, Symmetries
from pipeline.games.heuristic import scores_of_positions
from pipeline.games.stones import RowGame


class Hex(RowGame):
    """See the module docstring for the rules. A state is the points, then the words that RowGame reads."""

    examples = "e.g. D4"
    plane_names = ("own stones", "opponent's stones", "second player to move")

    def __init__(self, size: int) -> None:
        super().__init__(size, size, row_kernels.EXTRA_WORDS)
        self.size = size
        self.spec = f"hex:{size}"
        self.max_plies = self.num_points
        points = np.arange(self.num_points, dtype=np.int32)
        turns = np.stack([points, points[::-1]])  # a reflection would exchange the players' sides
        self.symmetries = Symmetries(turns, turns, np.arange(2, dtype=np.int32))

    @staticmethod
    def from_spec(size: str | None, options: dict[str, str]) -> Hex:
        """Raises UsageError for a size outside 3–19 and for options: there are none."""
        return maker(Hex, "hex", size, options, sizes=range(3, 20), home=7)()

    def initial(self, num_games: int) -> States:
        return np.zeros((num_games, self.state_size), np.int16)

    def attempt(self, states: States, actions: Actions, history: History) -> tuple[States, NDArray[np.uint8]]:
        return kernels.play(states, actions, self.size)

    def analyse(self, states: States, history: History | None, allowed: BoolArray, planes: Planes) -> None:
        row_kernels.legal_and_observe(states, self.num_points, history is not None, allowed, planes)

    def heuristic(self) -> MoveScores:
        return self._move_scores

    def _move_scores(self, states: States, history: History) -> Scores:
        """[n, A] by how many stones the mover is closer to a connection than the opponent after each move."""
        return scores_of_positions(self, states, history, self._lead)

    def _lead(self, states: States) -> NDArray[np.integer]:
        """[M] by how many stones the first player is closer to a connection."""
        missing = kernels.missing_stones(states, self.size)
        return missing[:, 1] - missing[:, 0]

    def _row_label(self, row: int) -> str:
        """Rows are slanted: each stands half a point further to the right than the one above it."""
        return f"{self.size - row:2d} " + " " * row

    def _indent(self) -> str:
        return " " * (3 + self.size)
