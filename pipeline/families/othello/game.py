"""Othello on boards of even size from 4×4 to 16×16.

Rules, where implementations differ:
    start   two discs each on the four centre points, diagonally; the upper left one is white's
    move    a disc must enclose at least one line of enemy discs; all lines that it encloses are flipped
    pass    a move of its own, legal only where no disc can be placed, and then forced
    end     when neither player can place a disc; empty points count for nobody, and the player with more discs wins
    first   black, drawn as X, moves first

Spec: ``othello:SIZE``, or ``othello:any`` (games/all_boards.py). Actions are points, then the pass. Points are named as
usual in Othello, by a column letter and a row number from *above*: ``a1`` is the upper left corner.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from pipeline.families.othello import kernels
from pipeline.families.othello.heuristic import move_scores
from pipeline.games import row_kernels
from pipeline.games.all_boards import maker
from pipeline.games.capabilities import InSgf, Sgf
from pipeline.games.contract import Actions, BoolArray, FloatArray, History, MoveScores, Planes, States
from pipeline.games.stones import REFUSALS, Look, RowGame


class Othello(RowGame, InSgf):
    """See the module docstring for the rules, kernels for the state's layout."""

    known_as, columns, examples = "Othello", "abcdefghijklmnop", "e.g. d3 or pass"
    look = Look("felt", called="disc", shows_legal=True)
    plane_names = ("own discs", "opponent's discs", "legal points", "second player to move")
    refusals: ClassVar[Mapping[int, str]] = {
        **REFUSALS,
        kernels.FLIPS_NOTHING: "it flips no disc",
        kernels.MAY_NOT_PASS: "a player who can place a disc may not pass",
    }
    sgf = Sgf(2)
    has_margins = True
    symmetries_move_start = True  # half of them swap the colours of the first four discs

    def __init__(self, size: int) -> None:
        super().__init__(size, size, row_kernels.EXTRA_WORDS, passes=True)
        self.size = size
        self.spec = f"othello:{size}"
        self.max_plies = 2 * (self.num_points - 4)  # no two passes in a row, so at most one per disc

    @staticmethod
    def from_spec(size: str | None, options: dict[str, str]) -> Othello:
        """Raises UsageError for an odd size or one outside 4–16, and for options: there are none."""
        return maker(Othello, "othello", size, options, sizes=range(4, 17, 2), home=8)()

    def initial(self, num_games: int) -> States:
        states = np.zeros((num_games, self.state_size), np.int16)
        board = states[:, : self.num_points].reshape(num_games, self.size, self.size)
        low, high = self.size // 2 - 1, self.size // 2
        board[:, low, low] = board[:, high, high] = row_kernels.SECOND
        board[:, low, high] = board[:, high, low] = row_kernels.FIRST
        return states

    def attempt(self, states: States, actions: Actions, history: History) -> tuple[States, NDArray[np.uint8]]:
        return kernels.play(states, actions, self.size)

    def analyse(self, states: States, history: History | None, allowed: BoolArray, planes: Planes) -> None:
        kernels.legal_and_observe(states, self.size, history is not None, allowed, planes)

    def scores(self, states: States) -> FloatArray:
        return self.ownership(states).sum(axis=1, dtype=np.float32)

    def heuristic(self) -> MoveScores:
        return partial(move_scores, self)

    def action_name(self, action: int) -> str:
        return super().action_name(self._upside_down(action))

    def parse_action(self, text: str) -> int:
        return self._upside_down(super().parse_action(text))

    def _upside_down(self, action: int) -> int:
        """The point in the opposite row, because BoardGame's names count rows from below."""
        if not 0 <= action < self.num_points:
            return action
        row, column = divmod(action, self.size)
        return (self.size - 1 - row) * self.size + column

    def _row_label(self, row: int) -> str:
        return f"{row + 1:2d} "
