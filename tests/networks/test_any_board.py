"""A network for boards of every size: one set of weights, each board's own folded network, growth from one board."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import torch

from pipeline.errors import MuGoError
from pipeline.games.specs import parse_game
from pipeline.networks.architecture import (
    Architecture,
    check_weights,
    grow,
    nearest_side,
    of_side,
    side_scale,
    weight_shapes,
)
from pipeline.networks.folding import evaluate_plain, fold
from pipeline.networks.inference import make_evaluators
from pipeline.networks.modules import Network, load_network, measure_statistics, network_weights, pooled, read_pooled
from tests.networks.conftest import ARCHITECTURES, lively_weights, random_planes

HOME = ARCHITECTURES["any board"]


@pytest.mark.parametrize("side", [5, 7, 14, 19])
def test_each_board_is_folded_for_itself(side: int) -> None:
    there, weights = HOME.at(side, side), lively_weights(HOME)
    assert there.actions == side * side + 1
    planes = random_planes(there, 5)
    with torch.inference_mode():
        wanted = load_network(HOME, weights).eval()(torch.from_numpy(planes))
    logits, values = evaluate_plain(there, fold(there, weights), planes)
    np.testing.assert_allclose(logits, wanted.policy_logits.numpy(), atol=1e-4)
    np.testing.assert_allclose(values, wanted.value.numpy(), atol=1e-4)


def test_another_boards_folded_network_answers_otherwise() -> None:
    """Shows that the test above would notice another board's scale."""
    weights, here, there = lively_weights(HOME), HOME.at(9, 9), HOME.at(13, 13)
    planes = random_planes(here, 5)
    right, wrong = (evaluate_plain(here, fold(one, weights), planes) for one in (here, there))
    assert np.abs(right[0] - wrong[0]).max() > 0.01 and np.abs(right[1] - wrong[1]).max() > 0.001


def test_the_scaled_mean_by_hand() -> None:
    x = torch.arange(2 * 3 * 4 * 4, dtype=torch.float32).reshape(2, 3, 4, 4)
    weight = torch.zeros(1, 9)
    weight[0, 7] = 2.0  # of the second channel's scaled mean; side 4: (4 - 14) / 10 = -1
    found = read_pooled(pooled(x), weight, torch.tensor([0.5]), 16)
    assert side_scale(16) == -1.0
    np.testing.assert_allclose(found[:, 0].numpy(), 0.5 - 2.0 * x[:, 1].mean((1, 2)).numpy())


def test_only_the_first_point_of_global_planes_is_read() -> None:
    weights, planes = lively_weights(HOME), random_planes(HOME, 4)
    folded = fold(HOME, weights)
    before = evaluate_plain(HOME, folded, planes)
    changed = planes.copy()
    changed[:, HOME.local_planes :, 1:, 1:] ^= 1
    for one, other in zip(before, evaluate_plain(HOME, folded, changed), strict=True):
        assert (one == other).all()
    changed[:, HOME.local_planes :, 0, 0] ^= 1
    assert np.abs(before[0] - evaluate_plain(HOME, folded, changed)[0]).max() > 0.01


@pytest.mark.parametrize("backend", ["openvino", "torch"])
def test_backends(backend: str) -> None:
    if backend == "openvino":
        pytest.importorskip("openvino")
    there = HOME.at(7, 7)
    weights, planes = lively_weights(HOME), random_planes(there, 20)
    logits, values = make_evaluators(there, weights, 32, 2, backend)[0](planes)
    wanted = evaluate_plain(there, fold(there, weights), planes)
    np.testing.assert_allclose(values, wanted[1], atol=0.05)
    assert np.corrcoef(logits.ravel(), wanted[0].ravel())[0, 1] > 0.999


@pytest.mark.parametrize("training", [False, True])
def test_a_network_of_one_board_becomes_one_of_all(training: bool) -> None:
    old = Architecture.for_game("b2c16", parse_game("go:9"), "wdl")
    new = Architecture.for_game("b2c16", parse_game("go:any"), "wdl")
    weights = lively_weights(old)
    grown = grow(weights, old, new, seed=3)
    planes = torch.from_numpy(random_planes(new, 6))
    with torch.no_grad():
        was = load_network(old, weights).train(training)(planes[:, : old.planes])
        now = load_network(new, grown).train(training)(planes)
    for name, one, other in zip(was._fields, was, now, strict=True):
        assert torch.allclose(one, other, rtol=1e-4, atol=1e-4), name


def test_all_that_is_new_then_learns() -> None:
    old, new = (Architecture.for_game("b2c16", parse_game(spec), "wdl") for spec in ("go:9", "go:any"))
    grown = grow(lively_weights(old), old, new, seed=3)
    network = load_network(new, grown).train()
    out = network(torch.from_numpy(random_planes(new, 32)))
    sum((part.float() ** 2).mean() for part in out).backward()
    for name, parameter in network.named_parameters():
        if name in ("stem_globals.weight", "value_hidden.weight", "blocks.1.pooling.weight"):
            scaled = parameter.grad[:, -16:] if "pooling" in name else parameter.grad
            assert (scaled != 0).float().mean() > 0.5, name


def measured(sides: tuple[int, ...], rows: int = 96) -> tuple[Network, dict[int, torch.Tensor]]:
    """A network that knows its norms' statistics on these boards, and the planes that it has them from."""
    network = load_network(HOME, lively_weights(HOME))
    planes = {side: torch.from_numpy(random_planes(HOME.at(side, side), rows, side)) for side in sides}
    measure_statistics(network, planes.values(), lambda one, batch: one(batch))
    return network.eval(), planes


def test_on_each_board_a_network_computes_what_was_trained() -> None:
    network, planes = measured((5, 9))
    fewer = load_network(HOME, network_weights(network))
    measure_statistics(fewer, [planes[5][:8]], lambda one, batch: one(batch))  # too few on 5×5, none on 9×9
    fewer.eval()
    for batch in planes.values():
        with torch.no_grad():
            wanted, found = deepcopy(network).train()(batch), network(batch)
            mixed, without = load_network(HOME, lively_weights(HOME)).eval()(batch), fewer(batch)
        # running variances are unbiased: those of 96 positions of 25 points are 1/2,399 larger
        for name, one, other in zip(found._fields, found, wanted, strict=True):
            assert torch.allclose(one, other, atol=0.01), name
        assert (mixed.policy_logits - wanted.policy_logits).abs().max() > 0.2
        assert (without.policy_logits == mixed.policy_logits).all()


def test_a_board_without_statistics_has_those_of_the_nearest_board() -> None:
    assert [nearest_side((5, 9, 13), side) for side in (4, 6, 7, 9, 11, 19)] == [5, 5, 9, 9, 13, 13]
    assert nearest_side((), 9) is None
    network, _ = measured((5, 9))
    weights = network_weights(network)
    planes = random_planes(HOME.at(8, 8), 16)
    renamed = {name.replace("side9.", "side8."): array for name, array in weights.items()}
    with torch.no_grad():
        logits = [load_network(HOME, one).eval()(torch.from_numpy(planes)).policy_logits for one in (weights, renamed)]
    assert (logits[0] == logits[1]).all()
    folded = [fold(HOME.at(8, 8), one) for one in (weights, renamed)]
    assert all((folded[0][name] == folded[1][name]).all() for name in folded[0])


def test_statistics_of_boards_are_saved_folded_and_checked() -> None:
    network, planes = measured((5, 9))
    weights = network_weights(network)
    shapes = weight_shapes(HOME)
    assert len(weights) == len(shapes) + 2 * len([name for name in shapes if ".running_" in name])
    again = load_network(HOME, weights).eval()
    for side, batch in planes.items():
        there = HOME.at(side, side)
        with torch.no_grad():
            wanted = network(batch)
            assert (again(batch).policy_logits == wanted.policy_logits).all()
        logits, values = evaluate_plain(there, fold(there, weights), batch.numpy())
        np.testing.assert_allclose(logits, wanted.policy_logits.numpy(), atol=1e-4)
        np.testing.assert_allclose(values, wanted.value.numpy(), atol=1e-4)
    name = of_side(9, "blocks.0.first.norm.running_mean")
    unknown = of_side(9, "stem.norm.bias")
    for wrong in ({name: weights[name][1:]}, {name: np.nan * weights[name]}, {unknown: weights[name]}):
        with pytest.raises(MuGoError, match="side9"):
            check_weights(HOME, {**weights, **wrong})
    of_one_board = ARCHITECTURES["points and pass"]
    more = {**lively_weights(of_one_board), of_side(5, "stem.norm.running_mean"): weights[name]}
    with pytest.raises(MuGoError, match=r"side5\..* is not one of its weights"):
        check_weights(of_one_board, more)


def test_a_network_that_grows_keeps_its_boards_statistics() -> None:
    network, planes = measured((5, 9))
    larger = replace(HOME, blocks=3, channels=24)
    grown = load_network(larger, grow(network_weights(network), HOME, larger, seed=3)).eval()
    for batch in planes.values():
        with torch.no_grad():
            for one, other in zip(network(batch), grown(batch), strict=True):
                assert torch.allclose(one, other, rtol=1e-4, atol=1e-4)


def test_a_network_for_one_board_stays_there() -> None:
    with pytest.raises(MuGoError, match="boards of 5×5; found one of 7×7"):
        ARCHITECTURES["points and pass"].at(7, 7)


@pytest.mark.parametrize("found", [-1, 9, 3.5, True, "4"])
def test_damaged_global_planes(found: object) -> None:
    with pytest.raises(MuGoError, match="global_planes"):
        Architecture.from_dict({**HOME.to_dict(), "global_planes": found})
    assert Architecture.from_dict(HOME.to_dict()) == HOME
