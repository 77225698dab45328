"""Connect four: 6 rows, 7 columns, stones fall to the lowest empty point of their column, four in a row wins.

Spec: ``connect4``. Actions are columns, 0 at the left; their names count from 1. The only symmetry is left-right.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from pipeline.errors import IllegalMove
from pipeline.families.lines.game import LineGame
from pipeline.games.contract import Symmetries
from pipeline.games.row_kernels import OCCUPIED
from pipeline.games.stones import REFUSALS, Look


def _mirror_symmetries(height: int, width: int) -> Symmetries:
    """The identity and the left-right mirror of a board whose actions are columns."""
    points = np.arange(height * width, dtype=np.int32).reshape(height, width)
    columns = np.arange(width, dtype=np.int32)
    return Symmetries(
        actions=np.stack([columns, columns[::-1]]),
        points=np.stack([points.ravel(), points[:, ::-1].ravel()]),
        inverse=np.array([0, 1], np.int32),
    )


class ConnectFour(LineGame):
    """See LineGame."""

    spec, known_as = "connect4", "Connect four"
    height, width, length, falls = 6, 7, 4, True
    columns = "1234567"
    colours = ("Red", "Yellow")
    look = Look("frame", stones=("red", "yellow"), called="disc")
    refusals: ClassVar[Mapping[int, str]] = {**REFUSALS, OCCUPIED: "the column is full"}

    def __init__(self) -> None:
        super().__init__()
        self.num_actions = self.width
        self.symmetries = _mirror_symmetries(self.height, self.width)

    def action_name(self, action: int) -> str:
        return self.columns[action]

    def parse_action(self, text: str) -> int:
        name = text.strip()
        if name not in set(self.columns):
            raise IllegalMove(f"{self.spec}: {text!r} is no column; wanted 1 to {self.width}")
        return self.columns.index(name)

    def _row_label(self, row: int) -> str:
        return "  "
