"""A position's tactical features, slow and obvious: the plain twin of ``families/backgammon/tactical_features.py``."""

from __future__ import annotations

from collections.abc import Iterator

from tests.reference.backgammon import BackgammonReference

ROLLS = [(one, other) for one in range(1, 7) for other in range(1, 7)]  # all 36 are equally likely


def made(board: BackgammonReference, point: int) -> bool:
    """Whether the opponent has made the mover's point; nobody makes a point off the board."""
    return point >= 1 and board.theirs[25 - point] >= 2


def blot(board: BackgammonReference, point: int) -> bool:
    return point >= 1 and board.theirs[25 - point] == 1


def checkers(board: BackgammonReference) -> list[int]:
    """The points of the mover's checkers, the rearmost first."""
    return [point for point in range(25, 0, -1) for _ in range(board.mine[point])]


def orders(roll: tuple[int, int]) -> Iterator[list[int]]:
    one, other = roll
    yield from [[one] * 4] if one == other else [[one, other], [other, one]]


def hits(board: BackgammonReference, roll: tuple[int, int]) -> set[int]:
    """The blots that a checker can hit, all on the bar having entered first."""
    found = set()
    for dice in orders(roll):
        left, standing = list(dice), checkers(board)
        for _ in range(board.mine[25]):
            if not left or made(board, 25 - left[0]):
                left, standing = [], []
                break
            entry = 25 - left.pop(0)
            standing = [*standing[1:], entry]
            if blot(board, entry):
                found.add(entry)
        for start in standing:
            at = start
            for die in left:
                at -= die
                if at < 1 or made(board, at):
                    break
                if blot(board, at):
                    found.add(at)
    return found


def way(board: BackgammonReference, start: int, roll: tuple[int, int]) -> int:
    """The pips that one checker makes, with two steps at most."""
    firsts = [die for die in roll if not made(board, start - die)]
    if firsts and not made(board, start - sum(roll)):
        return sum(roll)
    return max(firsts, default=0)


def mean(numbers: list[float]) -> float:
    return sum(numbers) / len(numbers)


def of_player(board: BackgammonReference) -> list[float]:
    """The mover's ten numbers."""
    hit = [hits(board, roll) for roll in ROLLS]
    found = [mean([bool(points) for points in hit]), mean([max(points, default=0) / 25 for points in hit])]
    found.append(mean([len(points) > 1 for points in hit]))
    stand = checkers(board)
    for start in stand[:2]:
        made_pips = [way(board, start, roll) for roll in ROLLS]
        found += [mean([pips > 0 for pips in made_pips]), mean([pips / 8 for pips in made_pips])]
    found += [0.0] * (4 - 2 * len(stand[:2]))
    longest = run = 0
    for point in range(1, stand[0]):
        run = run + 1 if made(board, point) else 0
        longest = max(longest, run)
    found += [sum(stand) / 100, min(longest, 6) / 4]
    enters = mean([not all(made(board, 25 - die) for die in roll) for roll in ROLLS])
    return [*found, enters if board.mine[25] else 1.0]


def tactical_features(board: BackgammonReference) -> list[float]:
    """All numbers, seen by the mover of a board on which both have checkers left."""
    other = board.swapped()
    contact = max(checkers(board)[0] + checkers(other)[0] - 25, 0) / 12
    return [*of_player(board), *of_player(other), contact]
