"""Outcomes of chance: what a game's key and ply make of its probabilities, against the plain twin."""

from __future__ import annotations

import numpy as np

from pipeline.games.chance import _drawn


def drawn(odds: np.ndarray, point: float) -> int:
    """The plain twin, one row at a time."""
    bounds = np.cumsum(odds, dtype=np.float64)
    return int((bounds <= point * bounds[-1]).sum())


def test_draws_equal_the_plain_twin() -> None:
    rng = np.random.default_rng(1)
    odds = (rng.random((5000, 21)) * (rng.random((5000, 21)) < 0.7)).astype(np.float32)
    odds[:, 7] += 0.01
    points = rng.random(5000)
    points[:100] = 0
    found = _drawn(odds, points)
    assert found.dtype == np.int32
    assert found.tolist() == [drawn(row, point) for row, point in zip(odds, points.tolist(), strict=True)]
    assert (odds[np.arange(5000), found] > 0).all()
