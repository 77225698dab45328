"""Pass-alive areas, slow and obvious: the plain twin of ``families/go/pass_alive.py``, over sets of points."""

from __future__ import annotations

from collections.abc import Sequence

Points = frozenset[int]


def beside(point: int, size: int) -> set[int]:
    row, column = divmod(point, size)
    near = [(row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)]
    return {r * size + c for r, c in near if 0 <= r < size and 0 <= c < size}


def around(points: Points, size: int) -> set[int]:
    return set().union(*(beside(point, size) for point in points)) - points


def connected(points: set[int], size: int) -> set[Points]:
    """The connected parts of a set of points."""
    left, found = set(points), set()
    while left:
        part, edge = set(), {left.pop()}
        while edge:
            part |= edge
            edge = set().union(*(beside(point, size) for point in edge)) & left
            left -= edge
        found.add(frozenset(part))
    return found


def area(board: Sequence[int], size: int, colour: int) -> set[int]:
    """The points of a colour's area; board [P]: 0 empty, 1 black, 2 white."""
    everywhere = set(range(size * size))
    own = {point for point in everywhere if board[point] == colour}
    empty = {point for point in everywhere if board[point] == 0}
    chains, regions = connected(own, size), connected(everywhere - own, size)

    def is_vital(region: Points, chain: Points) -> bool:
        return all(beside(point, size) & chain for point in region & empty)

    while True:
        alive = {chain for chain in chains if sum(is_vital(region, chain) for region in regions) >= 2}
        stones = set().union(*alive)
        healthy = {region for region in regions if around(region, size) <= stones}
        if (alive, healthy) == (chains, regions):
            break
        chains, regions = alive, healthy
    found = set(stones)
    for region in regions if stones else set():
        if sum(not beside(point, size) & stones for point in region) <= 1:
            found |= region
    return found
