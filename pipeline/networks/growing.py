"""Growing a network: more blocks, channels or planes, the same function.

    new channels  have random weights; the old layers read them with weight 0
    new blocks    follow the old ones and start as the identity: their last norm multiplies by 0
    new planes    which the game has gained since the network was made, are read with weight 0
    all boards    if a network for one board becomes one for all, it reads their additional inputs with weight 0

All learn from the first step, since a weight of 0 has a gradient. Source: Chen, Goodfellow & Shlens 2016, "Net2Net".
"""

from __future__ import annotations

from dataclasses import replace

from pipeline.errors import UsageError
from pipeline.networks.architecture import POOLED, Architecture, Weights, parse_size, random_weights


def grown_architecture(architecture: Architecture, size: str | None, planes: int) -> Architecture:
    """The architecture with the blocks and channels of `size` (None: unchanged) and this many planes.

    Raises UsageError if that would shrink it.
    """
    blocks, channels = parse_size(size or architecture.size)
    if blocks < architecture.blocks or channels < architecture.channels:
        found = f"network size {size}: a network of {architecture.size} can't shrink"
        raise UsageError(f"{found}; wanted at least as many blocks and channels")
    if planes < architecture.planes:
        found = f"the network sees {architecture.planes} planes, its game has {planes}"
        raise UsageError(f"{found}; a newer MuGo made it: use that, or begin anew with init")
    return replace(architecture, blocks=blocks, channels=channels, planes=planes)


def grow(weights: Weights, old: Architecture, new: Architecture, seed: int) -> Weights:
    """Weights with which the new architecture computes the same as the old one with these.

    new: from grown_architecture(old, …); seed: of the random weights of new channels and blocks.
    """
    grown = random_weights(new, seed)
    if new.any_board and not old.any_board:
        grown["stem_globals.weight"][:] = 0.0
    for name, array in weights.items():
        target = grown[name]
        if array.ndim == 1:
            target[: len(array)] = array
            continue
        before, after = (one.pooled_groups if name.endswith(POOLED) else 1 for one in (old, new))
        kept = array.reshape(len(array), before, -1, *array.shape[2:])  # [out, groups, in, …]
        into = target.reshape(len(target), after, -1, *array.shape[2:])[: len(array)]
        into[:] = 0.0
        into[:, :before, : kept.shape[2]] = kept
    for block in range(old.blocks, new.blocks):
        grown[f"blocks.{block}.second.norm.weight"][:] = 0.0
    return grown
