"""The points of handicap stones: GTP's fixed_handicap, for the boards and in the order of its table.

Source: GTP version 2, 4.1.1 "Fixed Handicap Placement".
"""

from __future__ import annotations

from pipeline.errors import UsageError


def most_handicap(size: int) -> int:
    """The most stones of a fixed handicap: 9 on odd boards from 9×9, 4 on even ones from 8×8 and on 7×7, else 0."""
    if size < 7:
        return 0
    return 9 if size % 2 and size > 7 else 4


def fixed_handicap(size: int, stones: int) -> list[int]:
    """The points, row-major from the top left. Raises UsageError for a number of stones that isn't in GTP's table."""
    most = most_handicap(size)
    if not 2 <= stones <= most:
        wanted = f"2 to {most}" if most else "none: the board is too small"
        raise UsageError(f"{stones} handicap stones on {size}×{size}; wanted {wanted}")
    low = 3 if size > 12 else 2  # the edge is line 0
    middle, high = size // 2, size - 1 - low
    # (column, row from below) in GTP's order, D4 first on 19×19
    corners = [(low, low), (high, high), (low, high), (high, low)]
    sides = [(low, middle), (high, middle), (middle, low), (middle, high)]
    chosen = corners[: min(stones, 4)]
    if stones >= 6:
        chosen += sides[: 4 if stones >= 8 else 2]
    if stones in (5, 7, 9):
        chosen.append((middle, middle))
    return [(size - 1 - row) * size + column for column, row in chosen]
