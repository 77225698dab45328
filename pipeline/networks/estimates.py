"""Who will own each point, and by how much: the heads of a network that search doesn't ask, for people to look at.

Slow beside ``inference.py`` (torch in float32, nothing folded), and asked for a few positions per answer. B positions,
C planes, H×W board, P points.
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
    """Seen by the player to move.

    ownership  [B, P] float32 in [-1, 1]: the expected owner at the end of the game, +1 the player to move
    score      [B] float32: the expected lead at the end, in the game's points
    """

    ownership: FloatArray
    score: FloatArray


def estimator(architecture: Architecture, weights: Weights) -> Callable[[Planes], Estimates]:
    """What estimates planes [B, C, H, W]; planes that the game has got since the network was made are left out."""
    network = load_network(architecture, weights).eval()

    @torch.inference_mode()
    def estimate(planes: Planes) -> Estimates:
        outputs = network(torch.from_numpy(np.ascontiguousarray(planes[:, : architecture.planes])))
        score = outputs.score * side_of(outputs.ownership_logits.shape[1])
        return Estimates(torch.tanh(outputs.ownership_logits).numpy(), score.numpy())

    return estimate
