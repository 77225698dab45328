"""The folded network in plain float32 numpy: what every inference backend is checked against.

Slow (a few milliseconds a position) and without any library that a backend uses, so it can be wrong only by itself;
the tests compare it with the training module, and ``inference.py`` compares the backend it is about to use with it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.networks.architecture import Architecture, Weights

FloatArray = NDArray[np.float32]


def evaluate_plain(
    architecture: Architecture, folded: Weights, planes: NDArray[np.uint8]
) -> tuple[FloatArray, FloatArray]:
    """(policy_logits [B, A], value_to_move [B]) of planes [B, C, H, W], by weights from ``folding.fold``."""
    x = np.maximum(_convolve(planes.astype(np.float32), folded, "stem"), 0)
    for block in range(architecture.blocks):
        y = _convolve(x, folded, f"blocks.{block}.first")
        if architecture.has_pooling(block):
            y = y + _linear(_pooled(x), folded, f"blocks.{block}.pooling")[:, :, None, None]
        y = _convolve(np.maximum(y, 0), folded, f"blocks.{block}.second")
        x = np.maximum(x + y, 0)
    heads = np.maximum(_convolve(x, folded, "heads"), 0)
    policy, value = heads[:, : architecture.head_channels], heads[:, architecture.head_channels :]
    if architecture.point_policy:
        by_point = policy.reshape(*policy.shape[:2], -1).transpose(0, 2, 1)
        logits = _linear(by_point, folded, "policy_points")[:, :, 0]
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
