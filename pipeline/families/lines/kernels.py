"""The kernels behind ``LineGame``. Axes and states as in games/row_kernels.py; plain twin: tests/reference/lines.py."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.compiled_kernels import kernel
from pipeline.games.contract import Actions, States
from pipeline.games.row_kernels import EMPTY, OCCUPIED, OVER, PLY, TO_MOVE, WINNER, makes_line, unplayable


@kernel
def landing_point(state: States, height: int, width: int, falls: bool, action: int) -> int:
    """The point where a stone of this action comes to rest, -1 if there is no room. action is in 0..A-1."""
    if not falls:
        return action if state[action] == EMPTY else -1
    for row in range(height - 1, -1, -1):
        if state[row * width + action] == EMPTY:
            return row * width + action
    return -1


@kernel
def play(
    states: States, actions: Actions, height: int, width: int, length: int, falls: bool
) -> tuple[States, NDArray[np.uint8]]:
    """-> states [B, S] after actions [B] int32, and status [B] uint8: LEGAL or the reason (then the row is unchanged).

    Plain twin: LineReference.play.
    """
    num_points = height * width
    num_actions = width if falls else num_points
    after = states.copy()
    status = np.zeros(len(states), np.uint8)
    for b in range(len(states)):
        state, action = after[b], actions[b]
        status[b] = unplayable(action, num_actions, state[num_points + OVER])
        if status[b]:
            continue
        point = landing_point(state, height, width, falls, action)
        if point < 0:
            status[b] = OCCUPIED
            continue
        mover = state[num_points + TO_MOVE]
        state[point] = mover + 1
        state[num_points + TO_MOVE] = 1 - mover
        state[num_points + PLY] += 1
        if makes_line(state, height, width, length, 0, point, mover + 1):
            state[num_points + WINNER] = mover + 1
            state[num_points + OVER] = 1
        elif state[num_points + PLY] == num_points:
            state[num_points + OVER] = 1
    return after, status
