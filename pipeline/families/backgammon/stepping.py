"""A turn entered checker by checker: the single steps that lead to a legal turn.

The legal turns are the game's successors; this module finds the paths to them. Views, steps and points as in
notation.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from pipeline.families.backgammon import notation
from pipeline.families.backgammon.game import Backgammon
from pipeline.families.backgammon.kernels import ENTERING, HIGH_DIE, HOME, LOW_DIE, TURN
from pipeline.families.backgammon.notation import Step

Board = tuple[int, ...]  # a view
Dice = tuple[int, ...]  # the dice left to play


class Stepper:
    """The paths to the legal turns of one state [S] with dice. Steps are in playing order."""

    def __init__(self, game: Backgammon, state: np.ndarray) -> None:
        mover, (high, low) = int(state[TURN]), (int(state[HIGH_DIE]), int(state[LOW_DIE]))
        dice: Dice = (high,) * 4 if high == low else (high, low)
        self._start: tuple[Board, Dice] = tuple(notation.view(state, mover)), dice
        self._turns = {tuple(notation.view(a, mover)): i for i, a in enumerate(game.successors(state[None]).states)}
        self._leads: dict[tuple[Board, Dice], bool] = {}

    def options(self, done: Sequence[Step] = ()) -> list[Step]:
        """The possible next steps; none if the turn is complete or nothing can be played."""
        return sorted(
            {step for board, dice in self._after(done) for step, *_ in self._ahead(board, dice)}, reverse=True
        )

    def board(self, done: Sequence[Step]) -> list[int]:
        """The mover's view after these steps. Raises ValueError if they are impossible."""
        found = self._after(done)
        if not found:
            raise ValueError("these steps don't lead to a legal turn")
        return list(min(found)[0])

    def action(self, done: Sequence[Step]) -> int | None:
        """The action of a complete turn, else None. Without steps: the action of a player who can't move.

        A board can equal a complete turn's while a die is left to play: 6/off with 61 is also 6/5/off.
        """
        if self.options(done):
            return None
        return next((self._turns[board] for board, _ in self._after(done) if board in self._turns), None)

    def _after(self, done: Sequence[Step]) -> set[tuple[Board, Dice]]:
        """Possible boards and dice after the steps. There can be several: either die may have borne a checker off."""
        found = {self._start}
        for wanted in done:
            found = {
                (b, d) for board, dice in found for step, b, d in self._ahead(board, dice) if step == tuple(wanted)
            }
        return found

    def _ahead(self, board: Board, dice: Dice) -> Iterator[tuple[Step, Board, Dice]]:
        """Single steps that can still lead to a legal turn."""
        for die in set(dice):
            left = list(dice)
            left.remove(die)
            for step, after in _single(board, die):
                if self._reaches(after, tuple(left)):
                    yield step, after, tuple(left)

    def _reaches(self, board: Board, dice: Dice) -> bool:
        key = board, dice
        if key not in self._leads:
            self._leads[key] = board in self._turns or any(True for _ in self._ahead(board, dice))
        return self._leads[key]


def _single(board: Board, die: int) -> Iterator[tuple[Step, Board]]:
    """Each step of one checker by one die, with the board after it."""
    highest = max((point for point in range(1, ENTERING + 1) if board[point] > 0), default=0)
    for source in [ENTERING] if board[ENTERING] else range(1, ENTERING):
        target = source - die
        if board[source] <= 0 or (target <= 0 and (highest > HOME or (target < 0 and source < highest))):
            continue
        if target > 0 and board[target] <= -2:
            continue
        after, target = list(board), max(target, 0)
        after[source] -= 1
        after[target] = max(after[target], 0) + 1
        yield (source, target), tuple(after)
