"""Tic-tac-toe: 3×3, three in a row. Small enough for exact answers: 255,168 games, and perfect play draws.

Spec: ``tictactoe``. Actions are points, named as on a chessboard: a1 is the lower left corner, c3 the upper right.
"""

from __future__ import annotations

from pipeline.families.lines.game import LineGame
from pipeline.games.stones import Look


class TicTacToe(LineGame):
    """See LineGame."""

    spec, known_as = "tictactoe", "Tic-tac-toe"
    height, width, length, falls = 3, 3, 3, False
    columns, examples = "abc", "a1 to c3"
    colours = ("X", "O")
    look = Look("paper", stones=("cross", "ring"), called="mark")

    def _row_label(self, row: int) -> str:
        return f"{self.height - row} "
