"""Waiting for players that take their time."""

from __future__ import annotations

import time

import numpy as np

from pipeline.players.player import Decisions, Player


def decided(player: Player, count: int) -> Decisions:
    """Everything that `count` rows are waiting for."""
    deadline, found = time.monotonic() + 60, []
    while sum(len(one.rows) + len(one.faults) for one in found) < count and time.monotonic() < deadline:
        found.append(player.step())
        player.wait(0.05)
    rows, actions, values = (np.concatenate([getattr(one, name) for one in found])
                             for name in ("rows", "actions", "values"))  # fmt: skip
    return Decisions(rows, actions, values, {row: fault for one in found for row, fault in one.faults.items()})
