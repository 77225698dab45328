"""The rules of Hex over rows of states. Plain twin: tests/test_hex.py.

Axes: B batch, P points (row by row from the top). A point's neighbours are those beside it in its row, two above it
(straight up and to the right of that) and two below it (straight down and to the left of that).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.compiled_kernels import kernel
from pipeline.games.contract import Actions, States
from pipeline.games.row_kernels import EMPTY, FIRST, GAME_OVER, OCCUPIED, OUT_OF_RANGE, OVER, PLY, TO_MOVE, WINNER

STEPS = ((-1, 0), (-1, 1), (0, -1), (0, 1), (1, -1), (1, 0))


@kernel
def play(states: States, actions: Actions, size: int) -> tuple[States, NDArray[np.uint8]]:
    """-> states [B, S] after actions [B], and status [B]: 0, or why not (then the row is unchanged)."""
    num_points = size * size
    after, status = states.copy(), np.zeros(len(states), np.uint8)
    for b in range(len(states)):
        state, action = after[b], actions[b]
        if action < 0 or action >= num_points:
            status[b] = OUT_OF_RANGE
        elif state[num_points + OVER]:
            status[b] = GAME_OVER
        elif state[action] != EMPTY:
            status[b] = OCCUPIED
        else:
            colour = state[num_points + TO_MOVE] + 1
            state[action] = colour
            state[num_points + TO_MOVE] = 2 - colour
            state[num_points + PLY] += 1
            if joins_sides(state, size, action):
                state[num_points + OVER] = 1
                state[num_points + WINNER] = colour
    return after, status


@kernel
def joins_sides(state: NDArray[np.int16], size: int, point: int) -> bool:
    """Whether the chain of the stone on this point reaches both sides of its player."""
    colour = state[point]
    seen, waiting = np.zeros(size * size, np.bool_), np.empty(size * size, np.int32)
    seen[point], waiting[0], count = True, point, 1
    near, far = False, False
    while count:
        count -= 1
        row, column = waiting[count] // size, waiting[count] % size
        along = row if colour == FIRST else column
        near, far = near or along == 0, far or along == size - 1
        for down, right in STEPS:
            r, c = row + down, column + right
            if 0 <= r < size and 0 <= c < size and state[r * size + c] == colour and not seen[r * size + c]:
                seen[r * size + c] = True
                waiting[count] = r * size + c
                count += 1
    return near and far


@kernel
def missing_stones(states: States, size: int) -> NDArray[np.int32]:
    """-> [B, 2] how many stones each player must add to join their sides, the opponent adding none."""
    far = size * size + 1
    found = np.full((len(states), 2), far, np.int32)
    for b in range(len(states)):
        for player in range(2):
            cost = np.full(size * size, far, np.int32)  # of a path from the near side to each point, the point included
            changed = True
            while changed:
                changed = False
                for point in range(size * size):
                    stone = states[b, point]
                    if stone == 2 - player:
                        continue
                    row, column = point // size, point % size
                    best = 0 if (row if player == 0 else column) == 0 else far
                    for down, right in STEPS:
                        r, c = row + down, column + right
                        if 0 <= r < size and 0 <= c < size:
                            best = min(best, cost[r * size + c])
                    best += stone == EMPTY
                    if best < cost[point]:
                        cost[point] = best
                        changed = True
            for i in range(size):
                end = (size - 1) * size + i if player == 0 else i * size + size - 1
                found[b, player] = min(found[b, player], cost[end])
    return found
