"""What a network for boards of every size and any komi is told beside the board: planes that are the same everywhere.

Each says that a number is at least so much, so that what holds for one number holds nearly for its neighbours, and a
network needn't learn what binary digits mean. Komi is what the mover is given: White's komi, or minus that for Black.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.games.base import Planes

# Points. With area scoring a board of an odd number of points nearly always ends with an odd lead, others with an even
# one, so that every whole number near a fair komi may decide; far from it a coarser scale will do.
KOMI = (-22, -18, -15, *range(-12, 13), 15, 18, 22)
SIDES = (7, 9, 11, 13, 15, 17, 19)
PLANE_NAMES = (
    *(f"komi for the mover above {points}" for points in KOMI),
    "komi is whole: draws are possible",
    *(f"side of the board at least {side}" for side in SIDES),
)
NUM_PLANES = len(PLANE_NAMES)
_BOUNDS = np.array(KOMI, np.int16) * 2
_SIDES = np.array(SIDES)


def show(half_points: NDArray[np.int16], side: int, planes: Planes) -> None:
    """Fill planes [B, NUM_PLANES, P]. half_points [B]: what the mover is given, in half points."""
    planes[:, : len(KOMI)] = (half_points[:, None] > _BOUNDS)[:, :, None]
    planes[:, len(KOMI)] = (half_points % 2 == 0)[:, None]
    planes[:, len(KOMI) + 1 :] = (side >= _SIDES)[None, :, None]
