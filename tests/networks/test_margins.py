"""The network of margins: the score head in place of the value, everything else unchanged."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pipeline.games.margins import squash
from pipeline.games.specs import parse_game
from pipeline.networks.architecture import Architecture, random_weights
from pipeline.networks.folding import evaluate_plain, fold, margin_network
from pipeline.networks.modules import load_network


@pytest.mark.parametrize(("spec", "head"), [("go:7", "wdl"), ("othello:6", "scalar"), ("go:any", "wdl")])
def test_its_value_is_the_squashed_score_and_its_policy_the_same(spec: str, head: str) -> None:
    game = parse_game(spec)
    architecture = Architecture.for_game("b2c8", game, head)
    weights = random_weights(architecture, 3)
    planes = np.random.default_rng(1).integers(0, 2, (5, game.num_planes, *game.board_shape), np.uint8)
    found, theirs = margin_network(architecture, weights)
    logits, values = evaluate_plain(found, fold(found, theirs), planes)
    with torch.inference_mode():
        outputs = load_network(architecture, weights).eval()(torch.from_numpy(planes))
    points = outputs.score.numpy() * game.num_points**0.5
    assert logits == pytest.approx(outputs.policy_logits.numpy(), abs=1e-4)
    assert values == pytest.approx(squash(points, game.num_points), abs=1e-4)
