"""Planes, constant over the board, that tell a network for all boards the board's size and the komi.

Each plane says whether a number exceeds a bound. So close numbers look similar, which binary digits wouldn't. Komi is
the mover's: White's komi, or its negative for Black.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

import numpy as np

from pipeline.compiled_kernels import kernel
from pipeline.games.all_boards import side_planes, sides

# Points. Under area scoring, leads on boards with an odd number of points are nearly always odd, others even, so every
# whole number near a fair komi may decide. Far from it, a coarser scale is enough.
KOMI = (-22, -18, -15, *range(-12, 13), 15, 18, 22)
SIZES = range(5, 20)
SIDES = sides(SIZES)
PLANE_NAMES = (
    *(f"komi for the mover above {points}" for points in KOMI),
    "komi is whole: draws are possible",
    *side_planes(SIZES),
)
NUM_PLANES = len(PLANE_NAMES)
_BOUNDS = np.array(KOMI, np.int16) * 2
_SIDES = np.array(SIDES, np.int16)


@kernel
def show(half_points, side, planes):
    """Fill the last NUM_PLANES of planes [B, C, P] uint8. half_points [B] int16: the mover's komi."""
    first = planes.shape[1] - NUM_PLANES
    for row in range(planes.shape[0]):
        komi = half_points[row]
        for i in range(_BOUNDS.size):
            planes[row, first + i] = np.uint8(komi > _BOUNDS[i])
        planes[row, first + _BOUNDS.size] = np.uint8(komi % 2 == 0)
        for i in range(_SIDES.size):
            planes[row, first + _BOUNDS.size + 1 + i] = np.uint8(side >= _SIDES[i])
