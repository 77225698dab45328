"""Games of stones in a line, slow and obvious: the plain twin of ``pipeline/games/lines``. For tests, not for play.

A board is a list of rows, the top one first, of "X" (first player), "O" or ".". An action is a point, row · width +
column, or a column where stones fall.
"""

from __future__ import annotations

from pipeline.errors import IllegalMove


class LineReference:
    """One game. It only changes by ``play``."""

    def __init__(self, height: int, width: int, length: int, falls: bool) -> None:
        self.height, self.width, self.length, self.falls = height, width, length, falls
        self.board = [["."] * width for _ in range(height)]
        self.to_move = "X"

    @property
    def is_full(self) -> bool:
        return all("." not in row for row in self.board)

    @property
    def is_over(self) -> bool:
        return self.is_full or self.has_line("X") or self.has_line("O")

    def has_line(self, stone: str) -> bool:
        """Whether `length` stones of one player stand in a row anywhere: horizontal, vertical or diagonal."""
        rows = ["".join(row) for row in self.board]
        # Rows pushed apart by one point each turn diagonals into columns; the dots added win nothing.
        leaning = ["." * i + row + "." * (self.height - 1 - i) for i, row in enumerate(rows)]
        tilting = ["." * (self.height - 1 - i) + row + "." * i for i, row in enumerate(rows)]
        lines = [
            *rows,
            *map("".join, [*zip(*rows, strict=True), *zip(*leaning, strict=True), *zip(*tilting, strict=True)]),
        ]
        return any(stone * self.length in line for line in lines)

    def result(self) -> int:
        """+1 the first player made a line, -1 the second did, 0 neither (yet)."""
        return int(self.has_line("X")) - int(self.has_line("O"))

    def legal(self) -> list[int]:
        if self.is_over:
            return []
        actions = range(self.width if self.falls else self.height * self.width)
        return [action for action in actions if self._landing_rows(action)]

    def play(self, action: int) -> None:
        """Raises IllegalMove; then nothing has changed."""
        if action not in self.legal():
            raise IllegalMove(f"action {action}: no such action, no room, or the game is over")
        self.board[self._landing_rows(action)[-1]][action % self.width] = self.to_move
        self.to_move = "O" if self.to_move == "X" else "X"

    def _landing_rows(self, action: int) -> list[int]:
        """The empty rows that the action may use, top first; a stone takes the last."""
        row, column = divmod(action, self.width)
        rows = range(self.height) if self.falls else [row]
        return [r for r in rows if self.board[r][column] == "."]
