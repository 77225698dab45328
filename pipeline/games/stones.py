"""What games of stones on points share: names of points, diagrams, and the verbs of games that a row wins."""

from __future__ import annotations

import string
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import IllegalMove
from pipeline.games.base import BoolArray, FloatArray, Game, IntArray, KeyArray, Planes, States, small_number
from pipeline.games.lines import kernels as line_kernels

COLUMNS = string.ascii_uppercase
GTP_COLUMNS = COLUMNS.replace("I", "")  # Go leaves it out, because it looks like a 1


def point_name(point: int, height: int, width: int, columns: str = COLUMNS) -> str:
    """A column letter and a row number from below: "H8"."""
    row, column = divmod(point, width)
    return f"{columns[column]}{height - row}"


def named_point(text: str, height: int, width: int, columns: str = COLUMNS) -> int:
    """The point of a name in either case; -1 if it is none of the board's."""
    name = text.strip().upper()
    column, row = columns[:width].upper().find(name[:1] or "?"), small_number(name[1:])
    return (height - row) * width + column if column >= 0 and 1 <= row <= height else -1


@lru_cache(maxsize=16)
def _key_weights(num_points: int) -> KeyArray:
    return np.random.Generator(np.random.PCG64(0)).integers(0, 2**64, num_points, np.uint64)


class BoardGame(Game):
    """A game of stones whose actions are the points, and the pass where it has one.

    Its first two planes are the mover's stones and the opponent's.
    """

    columns = COLUMNS  # the letters of the board's columns
    examples: str  # of names, for what says that a text is none

    def action_name(self, action: int) -> str:
        return "pass" if action == self.pass_action else point_name(action, *self.board_shape, self.columns)

    def parse_action(self, text: str) -> int:
        if self.pass_action is not None and text.strip().upper() == "PASS":
            return self.pass_action
        point = named_point(text, *self.board_shape, self.columns)
        if point < 0:
            raise IllegalMove(f"{self.spec}: {text!r} is no point; wanted {self.examples}")
        return point

    def planes_diagram(self, planes: Planes) -> str:
        own, theirs = planes[0].ravel().tolist(), planes[1].ravel().tolist()
        return "\n".join(self._board([".XO"[mine or 2 * other] for mine, other in zip(own, theirs, strict=True)]))

    def _board(self, marks: list[str]) -> list[str]:
        """The lines of a board with its labels; marks: one character for each point."""
        height, width = self.board_shape
        rows = [self._row_label(row) + " ".join(marks[row * width : (row + 1) * width]) for row in range(height)]
        return [*rows, self._column_labels()]

    def _row_label(self, row: int) -> str:
        """What stands left of a row of the diagram; all rows' labels have one width."""
        return f"{self.board_shape[0] - row:2d} "

    def _column_labels(self) -> str:
        """The diagram's line below the board."""
        return "   " + " ".join(self.columns[: self.board_shape[1]])


class RowGame(BoardGame):
    """A game that a row of stones wins, or something else that is written down as a winner, and that can draw.

    A state is the points, each 0, FIRST or SECOND; then TO_MOVE, PLY, OVER and WINNER as in lines/kernels.py; perhaps
    more words of the game's own. Stones own their points; the score is the result.
    """

    def is_over(self, states: States) -> BoolArray:
        return self._word(states, line_kernels.OVER) != 0

    def returns(self, states: States) -> FloatArray:
        winners = self._word(states, line_kernels.WINNER)
        return (winners == line_kernels.FIRST).astype(np.float32) - (winners == line_kernels.SECOND)

    def to_move(self, states: States) -> NDArray[np.int8]:
        return self._word(states, line_kernels.TO_MOVE).astype(np.int8)

    def plies(self, states: States) -> IntArray:
        return self._word(states, line_kernels.PLY).astype(np.int32)

    def keys(self, states: States) -> KeyArray:
        return line_kernels.keys(states, _key_weights(self.num_points))

    def scores(self, states: States) -> FloatArray:
        return self.returns(states)

    def ownership(self, states: States) -> NDArray[np.int8]:
        points = states[:, : self.num_points]
        return (points == line_kernels.FIRST).astype(np.int8) - (points == line_kernels.SECOND)

    def _word(self, states: States, word: int) -> NDArray[np.int16]:
        """[B] of states [B, S]; word: as lines/kernels.py counts them."""
        found: NDArray[np.int16] = states[:, self.num_points + word]
        return found

    def _whose_turn(self, state: States) -> str:
        """ "X to move, ply 7" or "over, ply 9", of one state [S]."""
        mover, ply, over = (
            int(self._word(state[None], word)[0])
            for word in (line_kernels.TO_MOVE, line_kernels.PLY, line_kernels.OVER)
        )
        return f"{'over' if over else 'XO'[mover] + ' to move'}, ply {ply}"
