"""The networks' shape: moves are kinds of a point."""

from __future__ import annotations

import json
from dataclasses import replace

from pipeline.games.specs import parse_game
from pipeline.networks.architecture import Architecture, weight_shapes


def test_kinds_of_moves_are_outputs_of_every_point() -> None:
    game = parse_game("shogi:5")
    architecture = Architecture.for_game("b2c32", game)
    shapes = weight_shapes(architecture)
    assert shapes["policy_points.weight"] == (27, 27) and "policy_extra.weight" not in shapes
    assert Architecture.from_dict(json.loads(json.dumps(architecture.to_dict()))) == architecture
    assert Architecture.for_game("b2c32", parse_game("go:9")).to_dict()["kinds_per_point"] == 1
    large = Architecture.for_game("b2c32", parse_game("shogi"))
    assert replace(large, planes=architecture.planes, height=5, width=5, actions=675) == architecture
