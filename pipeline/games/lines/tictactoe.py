"""Tic-tac-toe: 3×3, three in a row. Small enough for exact answers: 255,168 games, and perfect play draws.

Spec: ``tictactoe``. Actions are points, named as on a chessboard: a1 is the lower left corner, c3 the upper right.
"""

from __future__ import annotations

from pipeline.errors import IllegalMove
from pipeline.games.base import board_symmetries
from pipeline.games.lines.game import LineGame
from pipeline.games.stones import named_point, point_name

COLUMNS = "abc"


class TicTacToe(LineGame):
    """See LineGame for the rules, line_kernels for the state's layout."""

    spec = "tictactoe"
    height, width, length, falls = 3, 3, 3, False
    full = "the point is occupied"
    symmetries = board_symmetries(3, 3)

    def action_name(self, action: int) -> str:
        return point_name(action, self.height, self.width, COLUMNS)

    def parse_action(self, text: str) -> int:
        point = named_point(text, self.height, self.width, COLUMNS)
        if point < 0:
            raise IllegalMove(f"{self.spec}: {text!r} is no point; wanted a1 to c3")
        return point

    def _row_label(self, row: int) -> str:
        return f"{self.height - row} "

    def _column_labels(self) -> str:
        return "  " + " ".join(COLUMNS)
