"""Backgammon, slow and obvious: the plain twin of ``families/backgammon/kernels.py``. For tests, not for play.

A board is two lists of 26 numbers, one for each player, who both count the points so that they bear off below 1: index
0 is how many are off, 1 to 24 the points, 25 the bar. The player to move comes first. The opponent's point p is the
mover's point 25 - p.
"""

from __future__ import annotations

from dataclasses import dataclass

Board = tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True)
class BackgammonReference:
    """A position whose mover is about to play. Nothing changes it."""

    mine: tuple[int, ...]
    theirs: tuple[int, ...]

    @property
    def num_checkers(self) -> int:
        return sum(self.mine)

    def steps(self, die: int) -> list[BackgammonReference]:
        """The boards after one checker of the mover has moved by one die."""
        found = []
        for source in range(1, 26):
            if self.mine[source] == 0 or (self.mine[25] > 0 and source != 25):
                continue
            target = source - die
            if target <= 0:
                at_home = sum(self.mine[7:]) == 0
                farthest = max(point for point in range(26) if self.mine[point] > 0)
                if not at_home or (target < 0 and source < farthest):
                    continue
                target = 0
            elif self.theirs[25 - target] >= 2:
                continue
            mine, theirs = list(self.mine), list(self.theirs)
            mine[source] -= 1
            mine[target] += 1
            if target > 0 and theirs[25 - target] == 1:
                theirs[25 - target] = 0
                theirs[25] += 1
            found.append(BackgammonReference(tuple(mine), tuple(theirs)))
        return found

    def sequences(self, dice: tuple[int, ...]) -> set[tuple[tuple[int, ...], BackgammonReference]]:
        """(the dice that were played, the board then), for these dice in this order until one can't be played."""
        after = self.steps(dice[0]) if dice else []
        found = {((dice[0], *played), end) for board in after for played, end in board.sequences(dice[1:])}
        return found or {((), self)}

    def successors(self, high: int, low: int) -> list[BackgammonReference]:
        """The boards that a legal turn leads to, in the order of ``Backgammon.successors``."""
        orders = [(high,) * 4] if high == low else [(high, low), (low, high)]
        found = {sequence for order in orders for sequence in self.sequences(order)}
        most = max(len(played) for played, _ in found)
        longest = [(played, board) for played, board in found if len(played) == most]
        if most == 1 and any(played == (high,) for played, _ in longest):
            longest = [(played, board) for played, board in longest if played == (high,)]
        return sorted({board for _, board in longest}, key=BackgammonReference.rank)

    def rank(self) -> tuple[int, ...]:
        """Successors stand in ascending order of this: the mover's checkers on points 24 to 1, then the opponent's."""
        return *self.mine[24:0:-1], *self.theirs[1:25]

    def swapped(self) -> BackgammonReference:
        """The same board with the other player to move."""
        return BackgammonReference(self.theirs, self.mine)

    def points_won(self) -> int:
        """What the winner gets; 0 if the game isn't over. Negative if the mover has lost."""
        if self.theirs[0] == self.num_checkers:
            return -self.swapped().points_won()
        if self.mine[0] < self.num_checkers:
            return 0
        if self.theirs[0] > 0:
            return 1
        in_winners_home = sum(self.theirs[19:25])  # the winner's points 6 to 1
        return 3 if self.theirs[25] > 0 or in_winners_home > 0 else 2

    def features(self, my_turn: bool = True) -> list[float]:
        """Tesauro's 198 inputs, the mover's first; my_turn: what the two flags say."""
        found: list[float] = []
        for side in (self.mine, self.theirs):
            for n in side[1:25]:
                found += [float(n >= 1), float(n >= 2), float(n >= 3), max(n - 3, 0) / 2]
            found += [side[25] / 2, side[0] / 15]
        return [*found, float(my_turn), float(not my_turn)]
