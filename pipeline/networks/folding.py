"""Batch norms folded into their convolutions, for inference. Plain numpy.

A norm with frozen statistics is a scale and a shift per channel: norm(conv(x)) = conv(x)·s + t with
s = weight / sqrt(running_var + ε) and t = bias − running_mean·s. Scaling the convolution's kernels by s and giving it
the bias t computes the same thing. The heads that only training reads (ownership, score, reply, soft policy) are left
out, and the first convolutions of policy and value, which read the same input, become one.

Equality: folding is exact in exact arithmetic; in float32 the outputs differ by rounding only, tested at 1e-4.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.networks.architecture import NORM_EPSILON, Architecture, Weights, check_weights


def fold(architecture: Architecture, weights: Weights) -> Weights:
    """What inference needs, float32: ``NAME.weight`` [out, in, kh, kw] or [out, in], and ``NAME.bias`` [out], for

    stem, blocks.i.first, blocks.i.pooling (in blocks that have it), blocks.i.second, heads (policy features first,
    then value features), policy_points and policy_extra, or policy_dense, then value_hidden, value_output.
    Raises MuGoError if the weights don't fit the architecture.
    """
    check_weights(architecture, weights)
    folded: Weights = {}
    convolutions = ["stem"]
    linears = ["value_hidden", "value_output"]
    for block in range(architecture.blocks):
        convolutions += [f"blocks.{block}.first", f"blocks.{block}.second"]
        if architecture.has_pooling(block):
            linears.append(f"blocks.{block}.pooling")
    if not architecture.point_policy:
        linears.append("policy_dense")
    else:
        linears.append("policy_points")
        if architecture.extra_actions:
            linears.append("policy_extra")

    for name in convolutions:
        folded[f"{name}.weight"], folded[f"{name}.bias"] = _fold_convolution(weights, name)
    heads = [_fold_convolution(weights, name) for name in ("policy_features", "value_features")]
    folded["heads.weight"] = np.concatenate([kernel for kernel, _ in heads])
    folded["heads.bias"] = np.concatenate([bias for _, bias in heads])
    for name in linears:
        folded[f"{name}.weight"] = np.asarray(weights[f"{name}.weight"], np.float32)
        folded[f"{name}.bias"] = np.asarray(weights[f"{name}.bias"], np.float32)
    return folded


def _fold_convolution(weights: Weights, name: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    norm = {part: weights[f"{name}.norm.{part}"].astype(np.float64) for part in ("weight", "bias")}
    mean = weights[f"{name}.norm.running_mean"].astype(np.float64)
    variance = weights[f"{name}.norm.running_var"].astype(np.float64)
    scale = norm["weight"] / np.sqrt(variance + NORM_EPSILON)
    kernel = weights[f"{name}.conv.weight"] * scale[:, None, None, None]
    return kernel.astype(np.float32), (norm["bias"] - mean * scale).astype(np.float32)
