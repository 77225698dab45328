"""Networks like trained ones: norms with statistics, outputs that aren't near 0."""

import numpy as np
import pytest

from pipeline.networks.architecture import Architecture, Weights, random_weights

# Boards and actions as in Go with a pass, tic-tac-toe (points only) and connect four (columns only).
ARCHITECTURES = {
    "points and pass": Architecture(blocks=2, channels=16, planes=5, height=5, width=5, actions=26),
    "points": Architecture(blocks=2, channels=8, planes=3, height=3, width=3, actions=9),
    "win, draw, loss": Architecture(2, 16, planes=5, height=5, width=5, actions=26, value_head="wdl"),
    "any board": Architecture(2, 16, planes=9, height=5, width=5, actions=26, value_head="wdl", global_planes=4),
    "kinds of moves": Architecture(2, 16, planes=7, height=5, width=5, actions=175, kinds_per_point=7),
    "columns": Architecture(blocks=3, channels=12, planes=3, height=6, width=7, actions=7),
}


def lively_weights(architecture: Architecture, seed: int = 1) -> Weights:
    """Random weights whose norms and biases aren't neutral, so that a mistake in folding them shows."""
    generator = np.random.default_rng(seed)
    weights = random_weights(architecture, seed)
    for name, array in weights.items():
        if name.endswith(("running_var", "norm.weight")):
            weights[name] = generator.uniform(0.5, 1.5, array.shape).astype(np.float32)
        elif array.ndim == 1:
            weights[name] = generator.normal(0, 0.2, array.shape).astype(np.float32)
        elif ".conv." not in name:
            # The value must not saturate: a tanh near 1 hides every difference.
            gain = 0.2 if name.startswith("value_output") else 1.0
            weights[name] = generator.normal(0, gain * array.shape[1] ** -0.5, array.shape).astype(np.float32)
    return weights


def random_planes(architecture: Architecture, count: int, seed: int = 0) -> np.ndarray:
    shape = (count, architecture.planes, architecture.height, architecture.width)
    return (np.random.default_rng(seed).random(shape) < 0.3).astype(np.uint8)


@pytest.fixture(params=ARCHITECTURES, ids=lambda name: name.replace(" ", "_"))
def architecture(request: pytest.FixtureRequest) -> Architecture:
    return ARCHITECTURES[request.param]
