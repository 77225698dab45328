"""An afterstate network one position at a time, in Python's own numbers: the plain twin of
``families/backgammon/td/kernels.py``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > 0 else math.exp(x) / (1 + math.exp(x))


def outputs(weights: Mapping[str, np.ndarray], features: Sequence[float]) -> list[float]:
    """The outputs for a list of features."""
    hidden = [
        sigmoid(float(bias) + sum(float(w) * float(x) for w, x in zip(row, features, strict=True)))
        for row, bias in zip(weights["hidden.weight"], weights["hidden.bias"], strict=True)
    ]
    return [
        sigmoid(float(bias) + sum(float(w) * h for w, h in zip(row, hidden, strict=True)))
        for row, bias in zip(weights["output.weight"], weights["output.bias"], strict=True)
    ]


def equity(chances: Sequence[float], most: float) -> float:
    """Expected points from one output or from five, where a backgammon counts `most`."""
    if len(chances) == 1:
        return most * (2 * chances[0] - 1)
    win, win_2, win_3, lose_2, lose_3 = chances
    single = (win - win_2) - ((1 - win) - lose_2)
    return single + 2 * (win_2 - win_3 - lose_2 + lose_3) + most * (win_3 - lose_3)
