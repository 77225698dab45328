"""Names, shapes and random weights, without torch."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from pipeline.errors import MuGoError, UsageError
from pipeline.games.specs import parse_game
from pipeline.networks.architecture import Architecture, check_weights, parse_size, random_weights, weight_shapes
from tests.families import having

SMALL = Architecture(blocks=2, channels=8, planes=3, height=4, width=5, actions=21)


@pytest.mark.parametrize(
    "spec, actions, extra_actions, point_policy",
    [
        ("go:9", 82, 1, True),
        ("tictactoe", 9, 0, True),
        ("connect4", 7, 0, False),
        *having("shogi", ("shogi", 2187, 0, True)),
    ],
)
def test_the_policy_head_follows_the_game(spec: str, actions: int, extra_actions: int, point_policy: bool) -> None:
    game = parse_game(spec)
    architecture = Architecture.for_game("b4c64", game)
    assert (architecture.blocks, architecture.channels, architecture.size) == (4, 64, "b4c64")
    assert (architecture.planes, architecture.height, architecture.width) == (game.num_planes, *game.board_shape)
    assert architecture.actions == actions
    assert architecture.extra_actions == extra_actions
    assert architecture.point_policy is point_policy


@pytest.mark.parametrize("value_head", ["scalar", "wdl"])
def test_dict_round_trip(value_head: str) -> None:
    architecture = replace(SMALL, value_head=value_head)
    assert Architecture.from_dict(json.loads(json.dumps(architecture.to_dict()))) == architecture


@pytest.mark.parametrize(("value_head", "outputs"), [("scalar", 1), ("wdl", 3)])
def test_the_value_head_has_one_output_or_three(value_head: str, outputs: int) -> None:
    architecture = Architecture.for_game("b1c8", parse_game("connect4"), value_head)
    assert weight_shapes(architecture)["value_output.weight"] == (outputs, 64)
    assert random_weights(architecture, 0)["value_output.bias"].shape == (outputs,)


def test_a_dict_names_every_field() -> None:
    values = Architecture.for_game("b1c8", parse_game("connect4")).to_dict()
    assert values["value_hidden"] == 64
    for name in values:
        with pytest.raises(MuGoError, match=f"{name} is None"):
            Architecture.from_dict({other: value for other, value in values.items() if other != name})


def test_every_policy_head_has_the_policy_s_shape() -> None:
    for spec, layers in (("go:5", ("points", "extra")), ("tictactoe", ("points",)), ("connect4", ("dense",))):
        shapes = weight_shapes(Architecture.for_game("b1c8", parse_game(spec)))
        for head in ("reply", "soft_policy"):
            for layer in layers:
                for part in ("weight", "bias"):
                    assert shapes[f"{head}_{layer}.{part}"] == shapes[f"policy_{layer}.{part}"]


def test_a_missing_weight_is_named() -> None:
    weights = random_weights(SMALL, 0)
    del weights["reply_points.bias"]
    with pytest.raises(MuGoError, match=r"reply_points\.bias is missing"):
        check_weights(SMALL, weights)


@pytest.mark.parametrize(
    "change, named",
    [
        ({"blocks": None}, "blocks"),
        ({"channels": "8"}, "channels"),
        ({"planes": 0}, "planes"),
        ({"height": True}, "height"),
        ({"depth": 3}, "depth"),
        ({"value_head": "wld"}, "value_head is 'wld'; wanted one of scalar, wdl"),
        ({"value_head": ["wdl"]}, "value_head"),
        ({"value_head": None}, "value_head"),
        ({"kinds_per_point": 2}, "kinds_per_point is 2; wanted 1 to 1, as it has 21 actions"),
        ({"kinds_per_point": True}, "kinds_per_point"),
        ({"value_hidden": 0}, "value_hidden is 0; wanted 1 to 1024"),
        ({"value_hidden": "64"}, "value_hidden is '64'"),
    ],
)
def test_a_wrong_dict_is_refused_by_field(change: dict, named: str) -> None:
    with pytest.raises(MuGoError, match=named):
        Architecture.from_dict({**SMALL.to_dict(), **change})


@pytest.mark.parametrize("size", ["", "big", "b2", "c32", "b2c32x", "b0c32", "b2c1", "b65c32", "b2c2000", "b-1c8"])
def test_an_unknown_size_is_a_usage_error_that_carries_it(size: str) -> None:
    with pytest.raises(UsageError, match=f"network size '{size}'"):
        parse_size(size)


def test_pooling_stands_in_every_second_block() -> None:
    shapes = weight_shapes(Architecture(4, 8, 3, 4, 5, 21))
    pooling = [name for name in shapes if "pooling.weight" in name]
    assert pooling == ["blocks.1.pooling.weight", "blocks.3.pooling.weight"]
    assert shapes["blocks.1.pooling.weight"] == (8, 16)


def test_random_weights_depend_on_the_seed_only() -> None:
    first, again, other = random_weights(SMALL, 5), random_weights(SMALL, 5), random_weights(SMALL, 6)
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert not np.array_equal(first["stem.conv.weight"], other["stem.conv.weight"])
    assert all(array.dtype == np.float32 for array in first.values())
    check_weights(SMALL, first)


@pytest.mark.parametrize(
    "damage, named",
    [
        (lambda weights: weights.pop("stem.norm.bias"), "stem.norm.bias is missing"),
        (lambda weights: weights.update(extra=np.zeros(1, np.float32)), "extra is not one of its weights"),
        (lambda weights: weights.update({"score.bias": np.zeros(2, np.float32)}), r"score.bias has shape \[2\];"),
        (lambda weights: weights["stem.conv.weight"].fill(np.nan), "stem.conv.weight .* not finite"),
    ],
)
def test_weights_that_do_not_fit_are_named(damage, named: str) -> None:
    weights = random_weights(SMALL, 0)
    damage(weights)
    with pytest.raises(MuGoError, match=named):
        check_weights(SMALL, weights)


def test_random_weights_need_no_torch() -> None:
    code = (
        "import sys; from pipeline.networks.architecture import *; import pipeline.networks.inference; "
        "random_weights(Architecture(1, 8, 3, 3, 3, 9), 0); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
