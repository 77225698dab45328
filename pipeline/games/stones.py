"""What games of stones on points share: the names of the points, and the verbs of games that somebody wins by a row."""

from __future__ import annotations

import string
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from pipeline.games.base import BoolArray, FloatArray, Game, IntArray, KeyArray, States, small_number
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


class RowGame(Game):
    """A game that a row of stones wins, or something else that is written down as a winner, and that can draw.

    A state is the points, each 0, FIRST or SECOND; then TO_MOVE, PLY, OVER and WINNER as in line_kernels; perhaps more
    words of the game's own. Stones own their points; the score is the result.
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
        """[B] of states [B, S]; word: as line_kernels counts them."""
        found: NDArray[np.int16] = states[:, self.num_points + word]
        return found

    def _whose_turn(self, state: States) -> str:
        """ "X to move, ply 7" or "over, ply 9", of one state [S]."""
        mover, ply, over = (
            int(self._word(state[None], word)[0])
            for word in (line_kernels.TO_MOVE, line_kernels.PLY, line_kernels.OVER)
        )
        return f"{'over' if over else 'XO'[mover] + ' to move'}, ply {ply}"
