"""Ownership and score from the heads that search doesn't use, for people to look at.

Unfolded torch in float32: much slower than ``inference.py``, for a few positions at a time. B positions, C planes,
H×W board, P points.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch

from pipeline.games.contract import FloatArray, Planes
from pipeline.networks.architecture import Architecture, Weights, side_of
from pipeline.networks.modules import load_network


class Estimates(NamedTuple):
    """Seen by the player to move."""

    ownership: FloatArray  # [B, P] in [-1, 1]: the expected owner at the end of the game, +1 the player to move
    score: FloatArray  # [B] the expected lead at the end, in the game's points


def estimator(architecture: Architecture, weights: Weights) -> Callable[[Planes], Estimates]:
    """A function that estimates planes [B, C, H, W]; it ignores planes added to the game since the network was made."""
    network = load_network(architecture, weights).eval()

    @torch.inference_mode()
    def estimate(planes: Planes) -> Estimates:
        outputs = network(torch.from_numpy(np.ascontiguousarray(planes[:, : architecture.planes])))
        score = outputs.score * side_of(outputs.ownership_logits.shape[1])
        return Estimates(torch.tanh(outputs.ownership_logits).numpy(), score.numpy())

    return estimate
