"""What games of this method keep of each move, and what an example holds. See actor.py and targets.py."""

from __future__ import annotations

from typing import Any

from pipeline.run.chunks import ColumnTypes

MOST_OUTPUTS = 5  # of a network; where it has fewer, the rest of a column is NaN


def recorded_columns() -> ColumnTypes:
    """Of each ply. chances: see actor.py; flags and root_values say the same in points."""
    return {"flags": ("|u1", ()), "root_values": ("<f4", ()), "chances": ("<f2", (MOST_OUTPUTS,))}


def column_types(game: Any) -> ColumnTypes:
    """What an example holds, beside chunks.ORIGIN.

    state   [S] the position before a throw             target  what the outputs learn there; NaN beyond the outputs
    """
    return {"state": ("<i2", (game.state_size,)), "target": ("<f4", (MOST_OUTPUTS,))}
