"""The training module: shapes, the pitfalls of batch norm, weights in and out."""

import numpy as np
import pytest
import torch

from pipeline.errors import MuGoError
from pipeline.networks.architecture import VALUE_OUTPUTS, Architecture, random_weights, weight_shapes
from pipeline.networks.modules import Network, Outputs, load_network, network_weights, pooled, value_of
from tests.networks.conftest import ARCHITECTURES, lively_weights, random_planes


def outputs(network: Network, planes: np.ndarray) -> list[np.ndarray]:
    with torch.inference_mode():
        return [part.numpy() for part in network(torch.from_numpy(planes))]


def test_shapes_and_ranges(architecture: Architecture) -> None:
    network = load_network(architecture, lively_weights(architecture)).eval()
    found = Outputs(*outputs(network, random_planes(architecture, 6)))
    for logits in (found.policy_logits, found.reply_logits, found.soft_policy_logits):
        assert logits.shape == (6, architecture.actions)
    assert found.value.shape == found.score.shape == (6,)
    assert found.value_logits.shape == (6, {"scalar": 1, "wdl": 3}[architecture.value_head])
    assert found.ownership_logits.shape == (6, architecture.points)
    assert np.abs(found.value).max() < 1
    assert all(part.dtype == np.float32 for part in found)


def test_named_shapes_are_the_module_s_own(architecture: Architecture) -> None:
    state = Network(architecture).state_dict()
    found = {name: tuple(tensor.shape) for name, tensor in state.items() if not name.endswith("num_batches_tracked")}
    assert found == weight_shapes(architecture)


def test_weights_survive_the_module_unchanged(architecture: Architecture) -> None:
    weights = lively_weights(architecture)
    found = network_weights(load_network(architecture, weights))
    assert list(found) == list(weight_shapes(architecture))
    for name, array in weights.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].flags.c_contiguous
    assert not np.shares_memory(found["stem.conv.weight"], weights["stem.conv.weight"])


def test_weights_that_do_not_fit_are_refused(architecture: Architecture) -> None:
    weights = random_weights(architecture, 0)
    weights["stem.conv.weight"] = weights["stem.conv.weight"][:, :1]
    with pytest.raises(MuGoError, match=r"stem\.conv\.weight has shape"):
        load_network(architecture, weights)


@pytest.mark.parametrize("value_head", VALUE_OUTPUTS)
def test_a_fresh_network_prefers_nothing(value_head: str) -> None:
    architecture = Architecture(6, 32, 16, 9, 9, 82, value_head)
    network = load_network(architecture, random_weights(architecture, 0)).eval()
    found = Outputs(*outputs(network, random_planes(architecture, 16)))
    for logits in (found.policy_logits, found.reply_logits, found.soft_policy_logits):
        assert torch.softmax(torch.from_numpy(logits), 1).numpy().max() < 4 / 82
    assert np.abs(found.value).max() < 0.5


def test_a_value_is_win_minus_loss_or_the_tanh() -> None:
    chances = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.0001, 0.8999], [0.0001, 0.9998, 0.0001]])
    np.testing.assert_allclose(value_of(torch.log(chances) + 3).numpy(), [0.3, -0.7999, 0.0], atol=1e-5)
    np.testing.assert_allclose(value_of(torch.tensor([[0.5], [-2.0]])).numpy(), np.tanh([0.5, -2.0]), rtol=1e-6)


def test_every_policy_comes_from_layers_of_its_own(architecture: Architecture) -> None:
    """Changing one head's weights changes its own output and no other's."""
    weights = lively_weights(architecture)
    planes = random_planes(architecture, 3)
    before = Outputs(*outputs(load_network(architecture, weights).eval(), planes))
    for head in ("policy", "reply", "soft_policy"):
        names = [name for name in weights if name.startswith(f"{head}_") and "features" not in name]
        assert names
        for name in names:
            changed = {**weights, name: weights[name] + 1}
            after = Outputs(*outputs(load_network(architecture, changed).eval(), planes))
            moved = [part for part in Outputs._fields if not np.allclose(getattr(before, part), getattr(after, part))]
            assert moved == [f"{head}_logits"], name


def test_pooled_is_mean_then_maximum() -> None:
    x = torch.tensor([[[[1.0, 2.0], [3.0, 6.0]], [[-1.0, -1.0], [-1.0, -5.0]]]])
    assert pooled(x).tolist() == [[3.0, -2.0, 6.0, -1.0]]


def test_pooling_carries_a_far_corner_in_one_block() -> None:
    """Without it, two blocks of 3×3 convolutions can't see 18 points away."""
    architecture = Architecture(2, 8, 2, 19, 19, 362)
    network = load_network(architecture, lively_weights(architecture)).eval()
    planes = random_planes(architecture, 1)
    changed = planes.copy()
    changed[0, :, :3, :3] = 1 - changed[0, :, :3, :3]
    before, after = outputs(network, planes)[2], outputs(network, changed)[2]
    assert before[0, -1] != after[0, -1]


class TestBatchNorm:
    """Mistakes with batch norm that spoil a player although it seems to learn."""

    architecture = ARCHITECTURES["points and pass"]

    def test_evaluating_does_not_depend_on_the_rest_of_the_batch(self) -> None:
        network = load_network(self.architecture, lively_weights(self.architecture)).eval()
        planes = random_planes(self.architecture, 8)
        together = outputs(network, planes)
        for row in range(8):
            for part, alone in zip(together, outputs(network, planes[row : row + 1]), strict=True):
                np.testing.assert_allclose(part[row : row + 1], alone, atol=1e-5)

    def test_evaluating_leaves_the_statistics_alone(self) -> None:
        network = load_network(self.architecture, lively_weights(self.architecture)).eval()
        before = network_weights(network)
        outputs(network, random_planes(self.architecture, 8))
        after = network_weights(network)
        assert all(np.array_equal(before[name], after[name]) for name in before)

    def test_after_some_steps_training_and_evaluating_agree(self) -> None:
        """Running statistics of batches like this one must nearly equal the batch's own."""
        torch.manual_seed(0)
        network = load_network(self.architecture, random_weights(self.architecture, 0)).train()
        for seed in range(60):
            network(torch.from_numpy(random_planes(self.architecture, 256, seed)))
        planes = torch.from_numpy(random_planes(self.architecture, 256, 1000))
        with torch.no_grad():
            evaluated = network.eval()(planes)
            trained = network.train()(planes)
        for evaluated_part, trained_part in zip(evaluated, trained, strict=True):
            spread = trained_part.std().item()
            assert (evaluated_part - trained_part).abs().max().item() < 0.25 * spread + 1e-3
        variances = [array for name, array in network_weights(network).items() if name.endswith("running_var")]
        assert all(np.isfinite(array).all() and (array > 0).all() for array in variances)

    def test_memory_format_does_not_matter(self) -> None:
        for architecture in ARCHITECTURES.values():
            network = load_network(architecture, lively_weights(architecture)).eval()
            planes = random_planes(architecture, 4)
            channels_last = outputs(network, planes)
            contiguous = outputs(network.to(memory_format=torch.contiguous_format), planes)
            for first, second in zip(channels_last, contiguous, strict=True):
                np.testing.assert_allclose(first, second, atol=1e-5)
