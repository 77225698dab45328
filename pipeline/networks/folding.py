"""The folded network for inference, with batch norms folded into convolutions, and its evaluation in plain numpy.

A norm with frozen statistics is a scale and a shift per channel: norm(conv(x)) = conv(x)·s + t with
s = weight / sqrt(running_var + ε) and t = bias − running_mean·s. Folding scales the convolution's kernels by s and
gives it the bias t. It leaves out the heads that serve only training, joins the first convolutions of policy and value,
and the mean with the scaled mean of networks for all boards. Outputs change only by float32 rounding.

Every inference backend is checked against ``evaluate_plain``, which is slow and shares no library with them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pipeline.games.contract import Evaluation, FloatArray, Planes
from pipeline.games.margins import SLOPE
from pipeline.networks.architecture import (
    NORM_EPSILON,
    NORM_PARTS,
    POOLED,
    Architecture,
    Weights,
    check_weights,
    nearest_side,
    of_side,
    side_scale,
    sides_of,
    weight_shapes,
)

TRAINING_ONLY = ("reply", "soft_policy", "ownership", "score")  # heads that inference doesn't use


def fold(architecture: Architecture, weights: Weights) -> Weights:
    """The folded weights, float32: ``NAME.weight`` [out, in, kh, kw] or [out, in] and ``NAME.bias`` [out] for

    stem, stem_globals (with global planes), blocks.i.first, blocks.i.pooling (in blocks with pooling), blocks.i.second,
    heads (policy features, then value features), policy_points and policy_extra or policy_dense, value_hidden,
    value_output.
    Raises MuGoError if the weights don't fit the architecture.
    """
    check_weights(architecture, weights)
    folded: Weights = {}
    side = nearest_side(sides_of(weights), architecture.height)
    for name in weight_shapes(architecture):
        if name.endswith(".conv.weight"):
            layer = name.removesuffix(".conv.weight")
            names = [f"{layer}.norm.{part}" for part in NORM_PARTS]
            own = names if side is None else [of_side(side, one) for one in names]
            norm = (weights.get(a, weights[b]).astype(np.float64) for a, b in zip(own, names, strict=True))
            scale, shift, centre, variance = norm
            scale /= np.sqrt(variance + NORM_EPSILON)
            folded[f"{layer}.weight"] = (weights[name] * scale[:, None, None, None]).astype(np.float32)
            folded[f"{layer}.bias"] = (shift - centre * scale).astype(np.float32)
        elif ".norm." not in name and not name.startswith(TRAINING_ONLY):
            folded[name] = np.asarray(weights[name], np.float32)
            if architecture.any_board and name.endswith(POOLED):
                average, maximum, scaled = np.split(folded[name], 3, axis=1)
                average = average + np.float32(side_scale(architecture.points)) * scaled
                folded[name] = np.concatenate([average, maximum], axis=1)
    for part in ("weight", "bias"):
        heads = [folded.pop(f"{head}_features.{part}") for head in ("policy", "value")]
        folded[f"heads.{part}"] = np.concatenate(heads)
    return folded


def margin_network(architecture: Architecture, weights: Weights) -> tuple[Architecture, Weights]:
    """The same policy, and as the value tanh(SLOPE · score): the squashed margin, seen by the player to move.

    The score is the training head's, in sides of the board, as games/margins.py counts. It reads the same hidden layer
    as the value, so every backend and every search can work with this network.
    """
    score = {f"value_output.{part}": np.float32(SLOPE) * weights[f"score.{part}"] for part in ("weight", "bias")}
    return replace(architecture, value_head="scalar"), {**weights, **score}


def evaluate_plain(architecture: Architecture, folded: Weights, planes: Planes | FloatArray) -> Evaluation:
    """(policy_logits [B, A], value_to_move [B]) of planes [B, C, H, W], with weights from ``fold``."""
    planes = planes.astype(np.float32)
    x = _convolve(planes[:, : architecture.local_planes], folded, "stem")
    if architecture.global_planes:
        x = x + _linear(planes[:, architecture.local_planes :, 0, 0], folded, "stem_globals")[:, :, None, None]
    x = np.maximum(x, 0)
    for block in range(architecture.blocks):
        y = _convolve(x, folded, f"blocks.{block}.first")
        if architecture.has_pooling(block):
            y = y + _linear(_pooled(x), folded, f"blocks.{block}.pooling")[:, :, None, None]
        y = _convolve(np.maximum(y, 0), folded, f"blocks.{block}.second")
        x = np.maximum(x + y, 0)
    policy, value = np.split(np.maximum(_convolve(x, folded, "heads"), 0), 2, axis=1)
    if architecture.point_policy:
        by_point = policy.reshape(*policy.shape[:2], -1).transpose(0, 2, 1)
        logits = _linear(by_point, folded, "policy_points").transpose(0, 2, 1).reshape(len(policy), -1)
        if architecture.extra_actions:
            logits = np.concatenate([logits, _linear(_pooled(policy), folded, "policy_extra")], axis=1)
    else:
        logits = _linear(policy.reshape(len(policy), -1), folded, "policy_dense")
    hidden = np.maximum(_linear(_pooled(value), folded, "value_hidden"), 0)
    value = _linear(hidden, folded, "value_output")
    if architecture.value_head == "scalar":
        return logits, np.tanh(value[:, 0])
    powers = np.exp(value - value.max(axis=1, keepdims=True))  # win, draw, loss
    return logits, (powers[:, 0] - powers[:, 2]) / powers.sum(axis=1)


def _convolve(x: FloatArray, folded: Weights, name: str) -> FloatArray:
    kernel, bias = folded[f"{name}.weight"], folded[f"{name}.bias"]
    margin = kernel.shape[-1] // 2
    padded = np.pad(x, ((0, 0), (0, 0), (margin, margin), (margin, margin)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, kernel.shape[2:], axis=(2, 3))  # [B, C, H, W, kh, kw]
    y = np.tensordot(windows, kernel, axes=((1, 4, 5), (1, 2, 3)))  # [B, H, W, out]
    return (y + bias).transpose(0, 3, 1, 2)


def _linear(x: FloatArray, folded: Weights, name: str) -> FloatArray:
    return x @ folded[f"{name}.weight"].T + folded[f"{name}.bias"]


def _pooled(x: FloatArray) -> FloatArray:
    return np.concatenate([x.mean((2, 3)), x.max((2, 3))], axis=1)
