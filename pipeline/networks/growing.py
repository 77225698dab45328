"""Growing a network: more blocks, more channels, the same function.

A larger network learns slower per second and ends stronger, so a run may begin small and grow on the way. What the
grown network says is what the smaller one said, so nothing that was learned is lost and the champion never dips:

    new channels  have random weights of their own, and weigh 0 in all that was there before them
    new blocks    stand behind the others and begin as the identity: their last norm multiplies by 0
    new planes    of a game that has more than when the network was made weigh 0

Both learn from the first step on: what weighs 0 has a gradient. Source: Chen, Goodfellow & Shlens 2016, "Net2Net",
whose idea this is; zero weights instead of copied channels need no noise to tell copies apart.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pipeline.errors import UsageError
from pipeline.networks.architecture import Architecture, Weights, parse_size, random_weights, weight_shapes

POOLED = ("pooling.weight", "_extra.weight", "value_hidden.weight")  # read means, then maxima, of the same channels


def grown_architecture(architecture: Architecture, size: str | None, planes: int) -> Architecture:
    """The architecture with the blocks and channels of size, or its own, and so many planes.

    Raises UsageError if one of that is less than it has.
    """
    blocks, channels = parse_size(size) if size else (architecture.blocks, architecture.channels)
    if blocks < architecture.blocks or channels < architecture.channels:
        raise UsageError(
            f"network size {size}: a network of {architecture.size} can't shrink; wanted at least as many blocks and "
            "channels"
        )
    if planes < architecture.planes:
        found = f"the network sees {architecture.planes} planes, its game has {planes}"
        raise UsageError(f"{found}; a newer MuGo made it: use that, or begin anew with init")
    return replace(architecture, blocks=blocks, channels=channels, planes=planes)


def grow(weights: Weights, old: Architecture, new: Architecture, seed: int) -> Weights:
    """Weights of the new architecture that compute what these compute in the old one.

    new must come from grown_architecture(old, …); seed is of the random weights of new channels and blocks.
    """
    grown = random_weights(new, seed)
    for name, array in weights.items():
        target = grown[name]
        if array.ndim == 1:
            target[: len(array)] = array
            continue
        groups = 2 if name.endswith(POOLED) else 1
        outputs, (inputs, more) = len(array), (array.shape[1] // groups, target.shape[1] // groups)
        for group in range(groups):
            into = target[:outputs, group * more : (group + 1) * more]
            into[:, :inputs] = array[:, group * inputs : (group + 1) * inputs]
            into[:, inputs:] = 0.0
    for name in weight_shapes(new):
        if name.endswith(".second.norm.weight") and name not in weights:
            grown[name] = np.zeros_like(grown[name])
    return grown
