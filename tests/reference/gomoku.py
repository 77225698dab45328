"""Gomoku, slow and obvious: the plain twin of ``pipeline/games/gomoku``. For tests, not for play.

A board is a list of rows, the top one first, of "X" (first player), "O" or ".". An action is row · size + column. Rules
are read off whole lines as text, as pipeline/families/gomoku/game.py words them, without windows, tables or anything
carried along.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from pipeline.errors import IllegalMove

Line = list[tuple[int, int]]
Board = list[list[str]]


class GomokuReference:
    """One game. It only changes by ``play``."""

    def __init__(
        self, size: int, exact: bool = False, pairs: int = 0, threes_by_capture: bool = True, breakable: bool = True
    ) -> None:
        self.size, self.exact, self.goal = size, exact, pairs
        self.threes_by_capture, self.breakable = threes_by_capture, breakable
        self.board: Board = [["."] * size for _ in range(size)]
        self.to_move = "X"
        self.pairs = {"X": 0, "O": 0}
        self.winner = ""
        self.unanswered = ""  # who has a five that the player to move can answer
        self._moves: list[int] | None = None  # of this position, once they were asked for

    @property
    def is_over(self) -> bool:
        return bool(self.winner) or not self.moves()

    def result(self) -> int:
        """+1 X has won, -1 O has, 0 neither (yet)."""
        return {"X": 1, "O": -1, "": 0}[self.winner]

    def legal(self) -> list[int]:
        return [] if self.winner else self.moves()

    def moves(self) -> list[int]:
        if self._moves is None:
            points = [(row, column) for row in range(self.size) for column in range(self.size)]
            self._moves = [row * self.size + column for row, column in points if self.is_allowed(row, column)]
        return self._moves

    def is_allowed(self, row: int, column: int) -> bool:
        if self.board[row][column] != ".":
            return False
        if not self.goal:
            return True
        pairs = len(captured(self.board, row, column, self.to_move)) // 2
        if pairs and (self.threes_by_capture or self.pairs[self.to_move] + pairs >= self.goal):
            return True
        after = placed(self.board, row, column, self.to_move)
        five = self.to_move * 5
        lines = lines_through(self.size, row, column)
        if any(holds(text_of(after, line), line.index((row, column)), five) for line in lines):
            return True
        return sum(makes_free_three(after, line, (row, column)) for line in lines) < 2

    def play(self, action: int) -> None:
        """Raises IllegalMove; then nothing has changed."""
        if action not in self.legal():
            raise IllegalMove(f"action {action}: no such action, occupied, a double-three, or the game is over")
        row, column = divmod(action, self.size)
        mover, other = self.to_move, "O" if self.to_move == "X" else "X"
        if self.goal:
            self.pairs[mover] += len(captured(self.board, row, column, mover)) // 2
            self.board = placed(self.board, row, column, mover)
        else:
            self.board[row][column] = mover
        self.to_move, self._moves = other, None
        if self.goal and self.pairs[mover] >= self.goal:
            self.winner = mover
        elif self.unanswered == other and self.has_five(self.board, other):
            self.winner = other
        elif self.has_five(self.board, mover):
            self.unanswered = mover if self.goal and self.breakable and self.can_answer() else ""
            self.winner = "" if self.unanswered else mover
        else:
            self.unanswered = ""

    def can_answer(self) -> bool:
        """Whether the player to move can win by captures or leave the other without a five by one."""
        mover, other = self.to_move, "O" if self.to_move == "X" else "X"
        for action in self.moves():
            row, column = divmod(action, self.size)
            taken = len(captured(self.board, row, column, mover)) // 2
            if taken and self.pairs[mover] + taken >= self.goal:
                return True
            if taken and not self.has_five(placed(self.board, row, column, mover), other):
                return True
        return False

    def has_five(self, board: Board, stone: str) -> bool:
        for line in all_lines(self.size):
            runs = "".join(mark if mark == stone else " " for mark in text_of(board, line)).split()
            if any(len(run) == 5 or (len(run) > 5 and not self.exact) for run in runs):
                return True
        return False


@cache
def all_lines(size: int) -> list[Line]:
    """Every row, column and diagonal."""
    return list(_all_lines(size))


def _all_lines(size: int) -> Iterator[Line]:
    for start in range(size):
        yield [(start, i) for i in range(size)]
        yield [(i, start) for i in range(size)]
    for total in range(2 * size - 1):
        yield [(row, total - row) for row in range(size) if 0 <= total - row < size]
        yield [(row, row + total - size + 1) for row in range(size) if 0 <= row + total - size + 1 < size]


@cache
def lines_through(size: int, row: int, column: int) -> list[Line]:
    return [line for line in all_lines(size) if (row, column) in line]


def text_of(board: Board, line: Line) -> str:
    return "".join(board[row][column] for row, column in line)


def captured(board: Board, row: int, column: int, stone: str) -> Line:
    """The enemy stones that a stone there takes."""
    size, enemy = len(board), "O" if stone == "X" else "X"
    found: Line = []
    for down, across in ((-1, -1), (-1, 0), (-1, 1), (0, -1), (0, 1), (1, -1), (1, 0), (1, 1)):
        points = [(row + step * down, column + step * across) for step in (1, 2, 3)]
        inside = all(0 <= r < size and 0 <= c < size for r, c in points)
        if inside and text_of(board, points) == enemy + enemy + stone:
            found += points[:2]
    return found


def placed(board: Board, row: int, column: int, stone: str) -> Board:
    """The board after a stone there and its captures."""
    after = [list(marks) for marks in board]
    for r, c in captured(board, row, column, stone):
        after[r][c] = "."
    after[row][column] = stone
    return after


def shape_of(board: Board, line: Line, point: tuple[int, int]) -> str:
    """What the stone on `point` makes on this line: "five", "straight four", "four", "three" or "". Overlines count as
    fives."""
    text, here = text_of(board, line), line.index(point)
    own = text[here]
    if holds(text, here, own * 5):
        return "five"
    if holds(text, here, "." + own * 4 + "."):
        return "straight four"
    for i, mark in enumerate(text):
        if mark == "." and holds(text[:i] + own + text[i + 1 :], here, own * 5, i):
            return "four"
    return "three" if makes_free_three(board, line, point) else ""


def makes_free_three(board: Board, line: Line, point: tuple[int, int]) -> bool:
    """Whether the stone on `point` stands in a free three on this line; see gomoku/game.py for what that is."""
    text, here = text_of(board, line), line.index(point)
    own = text[here]
    if holds(text, here, own * 5):
        return False
    straight = False
    for i, mark in enumerate(text):
        if mark == ".":
            more = text[:i] + own + text[i + 1 :]
            if holds(more, here, own * 5, i):
                return False
            straight = straight or holds(more, here, "." + own * 4 + ".", i)
    return straight


def holds(text: str, here: int, pattern: str, also: int | None = None) -> bool:
    """Whether the pattern stands somewhere in text with both places among its stones."""
    also = here if also is None else also
    for start in range(len(text) - len(pattern) + 1):
        if text[start : start + len(pattern)] == pattern:
            stones = [start + i for i, mark in enumerate(pattern) if mark != "."]
            if here in stones and also in stones:
                return True
    return False
