"""A network's margin in place of its value, so that every backend and every search can work with it.

Training has a score head, which inference leaves out (``folding.py``). It reads the same hidden layer as the value, so
its weights, as those of a scalar value head, make a network whose value is the squashed margin.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pipeline.games.margins import SLOPE
from pipeline.networks.architecture import Architecture, Weights


def margin_network(architecture: Architecture, weights: Weights) -> tuple[Architecture, Weights]:
    """The same policy, and as the value tanh(SLOPE · score): the squashed margin, seen by the player to move.

    The score is that of the score head, in sides of the board, as games/margins.py counts.
    """
    score = {f"value_output.{part}": np.float32(SLOPE) * weights[f"score.{part}"] for part in ("weight", "bias")}
    return replace(architecture, value_head="scalar"), {**weights, **score}
