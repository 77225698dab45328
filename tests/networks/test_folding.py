"""Folding is exact up to rounding, and the plain twin computes what the training module does."""

import numpy as np
import torch

from pipeline.networks.architecture import Architecture
from pipeline.networks.folding import evaluate_plain, fold
from pipeline.networks.modules import load_network
from tests.networks.conftest import lively_weights, random_planes

TOLERANCE = 1e-4  # stated in folding.py


def test_folded_equals_the_training_module(architecture: Architecture) -> None:
    weights = lively_weights(architecture)
    planes = random_planes(architecture, 7)
    with torch.inference_mode():
        wanted = load_network(architecture, weights).eval()(torch.from_numpy(planes))
    logits, value = evaluate_plain(architecture, fold(architecture, weights), planes)
    np.testing.assert_allclose(logits, wanted.policy_logits.numpy(), atol=TOLERANCE)
    np.testing.assert_allclose(value, wanted.value.numpy(), atol=TOLERANCE)
    assert logits.std() > 0.1, "too flat to tell anything"


def test_the_norms_matter_to_the_test_above(architecture: Architecture) -> None:
    """The tolerance used reveals if any norm's statistics are ignored."""
    weights = lively_weights(architecture)
    planes = random_planes(architecture, 7)
    right = evaluate_plain(architecture, fold(architecture, weights), planes)
    for name in [name for name in weights if name.endswith("running_mean")]:
        changed = {**weights, name: np.zeros_like(weights[name])}
        wrong = evaluate_plain(architecture, fold(architecture, changed), planes)
        differences = [np.abs(one - other).max() for one, other in zip(right, wrong, strict=True)]
        assert max(differences) > 2 * TOLERANCE, name


def test_what_only_training_reads_is_left_out(architecture: Architecture) -> None:
    folded = fold(architecture, lively_weights(architecture))
    unread = ("ownership", "score", "reply", "soft_policy")
    assert not [name for name in folded if "norm" in name or name.startswith(unread)]
    assert all(array.dtype == np.float32 for array in folded.values())
