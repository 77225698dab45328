"""A grown network computes what the smaller one did, and all of it learns."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from pipeline.errors import UsageError
from pipeline.games.specs import parse_game
from pipeline.networks.architecture import Architecture, check_weights, grow, grown_architecture
from pipeline.networks.modules import load_network
from tests.networks.conftest import lively_weights, random_planes

GROWTHS = [("b2c32", "b3c48"), ("b2c32", "b2c32"), ("b1c8", "b4c8"), ("b2c16", "b2c96"), ("b3c64", "b4c100")]


def some_planes(architecture: Architecture, count: int = 6) -> torch.Tensor:
    return torch.from_numpy(random_planes(architecture, count))


@pytest.mark.parametrize(("before", "after"), GROWTHS)
@pytest.mark.parametrize(("game", "value_head"), [("go:5", "wdl"), ("connect4", "scalar")])
@pytest.mark.parametrize("training", [False, True])
def test_it_answers_as_before(before: str, after: str, game: str, value_head: str, training: bool) -> None:
    old = Architecture.for_game(before, parse_game(game), value_head)
    new = grown_architecture(old, after, old.planes)
    assert (new.size, new.value_head, new.actions) == (after, value_head, old.actions)
    weights = lively_weights(old)
    grown = grow(weights, old, new, seed=1)
    check_weights(new, grown)
    planes = some_planes(old)
    with torch.no_grad():
        was = load_network(old, weights).train(training)(planes)
        now = load_network(new, grown).train(training)(planes)
    for name, one, other in zip(was._fields, was, now, strict=True):
        assert torch.allclose(one, other, rtol=1e-4, atol=1e-4), name


def test_everything_new_learns() -> None:
    old = Architecture.for_game("b2c16", parse_game("go:5"), "wdl")
    new = grown_architecture(old, "b4c24", old.planes + 3)
    grown = grow(lively_weights(old), old, new, seed=1)
    network = load_network(new, grown).train()
    planes = some_planes(new, 16)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    for _ in range(3):
        optimizer.zero_grad()
        out = network(planes)
        sum((part.float() ** 2).mean() for part in out).backward()  # type: ignore[union-attr]
        optimizer.step()
    for name, parameter in network.named_parameters():
        moved = np.abs(parameter.detach().numpy() - grown[name])
        assert (moved > 0).mean() > 0.5, name


def test_equal_seeds_grow_alike() -> None:
    old = Architecture.for_game("b1c8", parse_game("go:5"))
    new = grown_architecture(old, "b2c16", old.planes)
    weights = lively_weights(old)
    one, same, other = (grow(weights, old, new, seed) for seed in (1, 1, 2))
    assert all((one[name] == same[name]).all() for name in one)
    assert (one["stem.conv.weight"] != other["stem.conv.weight"]).any()


@pytest.mark.parametrize("size", ["b1c32", "b2c16", "b2", "b0c32"])
def test_a_network_never_shrinks(size: str) -> None:
    old = Architecture.for_game("b2c32", parse_game("go:5"))
    with pytest.raises(UsageError, match=r"network size"):
        grown_architecture(old, size, old.planes)
    with pytest.raises(UsageError, match=r"sees 34 planes, its game has 33"):
        grown_architecture(old, None, 33)


def test_new_planes_change_nothing_at_first() -> None:
    """They are read with weight 0 until training changes it, so a model stays usable when its game gains planes."""
    game = parse_game("go:5")
    old = replace(Architecture.for_game("b2c16", game, "wdl"), planes=16)
    new = grown_architecture(old, None, game.num_planes)
    assert new == Architecture.for_game("b2c16", game, "wdl")
    weights = lively_weights(old)
    planes = some_planes(new)
    with torch.no_grad():
        was = load_network(old, weights).eval()(planes[:, :16])
        now = load_network(new, grow(weights, old, new, seed=1)).eval()(planes)
    for name, one, other in zip(was._fields, was, now, strict=True):
        assert torch.allclose(one, other, rtol=1e-4, atol=1e-4), name
