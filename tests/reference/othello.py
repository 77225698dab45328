"""Othello, slow and obvious: the plain twin of ``families/othello/kernels.py``. For tests, not for play.

A board is a list of rows, the top one first, of "X" (first player), "O" or ".". An action is a point, row · size +
column, or size² for the pass.
"""

from __future__ import annotations

from pipeline.errors import IllegalMove

OTHER = {"X": "O", "O": "X"}


class OthelloReference:
    """One game. It only changes by ``play``."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.board = [["."] * size for _ in range(size)]
        middle = size // 2
        self.board[middle - 1][middle - 1] = self.board[middle][middle] = "O"
        self.board[middle - 1][middle] = self.board[middle][middle - 1] = "X"
        self.to_move = "X"

    @property
    def is_over(self) -> bool:
        return not any(self.flips(point, disc) for disc in "XO" for point in self.empty_points())

    def empty_points(self) -> list[int]:
        return [point for point in range(self.size**2) if self.board[point // self.size][point % self.size] == "."]

    def count(self, disc: str) -> int:
        return sum(row.count(disc) for row in self.board)

    def result(self) -> int:
        """+1 the first player has more discs, -1 the second has, 0 equally many, or the game isn't over."""
        lead = self.count("X") - self.count("O")
        return (lead > 0) - (lead < 0) if self.is_over else 0

    def flips(self, action: int, disc: str) -> list[tuple[int, int]]:
        """Where discs are flipped if `disc` is placed on a point, which is empty."""
        found = []
        for down in (-1, 0, 1):
            for across in (-1, 0, 1):
                row, column = divmod(action, self.size)
                line = []
                while True:
                    row, column = row + down, column + across
                    on_board = 0 <= row < self.size and 0 <= column < self.size
                    if not on_board or self.board[row][column] != OTHER[disc]:
                        break
                    line.append((row, column))
                if on_board and self.board[row][column] == disc:
                    found += line
        return found

    def legal(self) -> list[int]:
        placements = [point for point in self.empty_points() if self.flips(point, self.to_move)]
        return placements or ([] if self.is_over else [self.size**2])

    def play(self, action: int) -> None:
        """Raises IllegalMove; then nothing has changed."""
        flipped = self.flips(action, self.to_move) if action in self.empty_points() else []
        may_pass = action == self.size**2 and self.legal() == [action]
        if not flipped and not may_pass:
            raise IllegalMove(f"action {action}: no such action, it flips nothing, or the game is over")
        for row, column in [divmod(action, self.size), *flipped] if flipped else []:
            self.board[row][column] = self.to_move
        self.to_move = OTHER[self.to_move]
