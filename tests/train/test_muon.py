"""Muon's steps: directions of equal length, a formula computed by hand, one moment."""

import numpy as np
import pytest
import torch

from pipeline.train.muon import LENGTH, MOMENTUM, Muon, orthogonal


@pytest.mark.parametrize("shape", [(48, 432), (48, 96), (64, 20), (7, 7), (1, 9)])
def test_all_directions_get_about_the_same_length(shape: tuple[int, int]) -> None:
    generator = torch.Generator().manual_seed(sum(shape))
    given = torch.randn(3, *shape, generator=generator)
    given[1] = given[1] @ torch.diag(torch.logspace(0, -1.5, shape[1]))  # directions of very different lengths
    found = orthogonal(given)
    for one, other in zip(given, found, strict=True):
        u, _, v = torch.linalg.svd(one, full_matrices=False)
        lengths = (u.mT @ other @ v.mT).diagonal()  # singular values, if the singular vectors are still the same
        assert lengths.min() > 0.6 and lengths.max() < 1.3
        assert torch.linalg.matrix_norm(u @ torch.diag(lengths) @ v - other) < 1e-3


def test_the_length_of_the_gradient_does_not_matter() -> None:
    given = torch.randn(1, 8, 18, generator=torch.Generator().manual_seed(0))
    for factor in (1e-12, 1e12):
        torch.testing.assert_close(orthogonal(factor * given), orthogonal(given), rtol=1e-3, atol=1e-4)
    assert (orthogonal(torch.zeros(1, 8, 18)) == 0).all()


def test_steps_are_the_formula_s() -> None:
    """Against numpy, with an exact singular value decomposition; two parameters of one shape and one of another."""
    generator = np.random.default_rng(0)
    shapes = [(6, 4, 3, 3), (6, 4, 3, 3), (5, 12)]
    start = [generator.standard_normal(shape).astype(np.float32) for shape in shapes]
    parameters = [torch.nn.Parameter(torch.from_numpy(array.copy())) for array in start]
    parameters[0].data = parameters[0].data.to(memory_format=torch.channels_last)
    rate, decay = 0.01, 0.1
    optimizer = Muon(parameters, rate, decay)
    moments = [np.zeros(shape) for shape in shapes]
    for _ in range(3):
        before = [parameter.detach().numpy().copy() for parameter in parameters]
        for i, parameter in enumerate(parameters):
            gradient = generator.standard_normal(shapes[i]).astype(np.float32)
            parameter.grad = torch.empty_like(parameter).copy_(torch.from_numpy(gradient))
            moments[i] = MOMENTUM * moments[i] + (1 - MOMENTUM) * gradient
        optimizer.step()
        for i, parameter in enumerate(parameters):
            direction = MOMENTUM * moments[i] + (1 - MOMENTUM) * parameter.grad.numpy()
            u, _, v = np.linalg.svd(direction.reshape(len(direction), -1), full_matrices=False)
            length = rate * LENGTH * max(u.shape[0], v.shape[1]) ** 0.5
            step = (1 - rate * decay) * before[i] - parameter.detach().numpy()
            lengths = np.linalg.svd(step.reshape(len(step), -1), compute_uv=False)
            assert (0.6 * length < lengths).all() and (lengths < 1.3 * length).all()
            assert np.sum(step.reshape(len(step), -1) * (u @ v)) > 0.75 * length * len(lengths)
            exactly = length * orthogonal(torch.from_numpy(direction).float().flatten(1)[None])[0]
            np.testing.assert_allclose(step.reshape(len(step), -1), exactly.numpy(), atol=0.02 * rate)
            np.testing.assert_allclose(optimizer.state[parameter]["exp_avg"].numpy(), moments[i], rtol=1e-5, atol=1e-6)


def test_what_has_no_gradient_stays() -> None:
    parameters = [torch.nn.Parameter(torch.ones(2, 3)) for _ in range(2)]
    parameters[0].grad = torch.ones(2, 3)
    Muon(parameters, 0.1, 0.1).step()
    assert (parameters[1] == 1).all() and not (parameters[0] == 1).any()
