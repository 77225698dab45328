"""What a network for boards of every size and any komi is told beside the board: planes that are the same everywhere.

Each says that a number is at least so much, so that what holds for one number holds nearly for its neighbours, and a
network needn't learn what binary digits mean. Komi is what the mover is given: White's komi, or minus that for Black.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

import numpy as np

from pipeline.kernels import kernel

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
_SIDES = np.array(SIDES, np.int16)


@kernel
def show(half_points, side, planes):
    """Fill the last NUM_PLANES of planes [B, C, P] uint8. half_points [B] int16: what the mover is given, in half
    points.
    """
    first = planes.shape[1] - NUM_PLANES
    for row in range(planes.shape[0]):
        komi = half_points[row]
        for i in range(_BOUNDS.size):
            planes[row, first + i] = np.uint8(komi > _BOUNDS[i])
        planes[row, first + _BOUNDS.size] = np.uint8(komi % 2 == 0)
        for i in range(_SIDES.size):
            planes[row, first + _BOUNDS.size + 1 + i] = np.uint8(side >= _SIDES[i])
