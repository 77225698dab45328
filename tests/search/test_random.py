"""Kernel random numbers against the distributions they claim."""

import numpy as np
import pytest
from numba import njit
from scipy import stats

from pipeline.search import random as kernel_random


@njit
def draw_many(which, count, shape, seed):
    streams = np.array([seed], np.uint64)
    out = np.empty(count)
    for i in range(count):
        if which == 0:
            out[i] = kernel_random.uniform(streams, 0)
        elif which == 1:
            out[i] = kernel_random.normal(streams, 0)
        else:
            out[i] = kernel_random.gamma(streams, 0, shape)
    return out


def test_splitmix_matches_the_published_sequence():
    streams = np.array([1234567], np.uint64)
    drawn = [int(kernel_random.next_bits(streams, 0)) for _ in range(3)]
    # Vigna's splitmix64.c, seed 1234567
    assert drawn == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_uniform_and_normal():
    assert stats.kstest(draw_many(0, 50_000, 0.0, 5), "uniform").pvalue > 1e-3
    assert stats.kstest(draw_many(1, 50_000, 0.0, 6), "norm").pvalue > 1e-3


def test_the_largest_bits_are_still_below_one():
    before_largest = 3558559446808474027  # the stream whose next bits are all 1
    streams = np.array([before_largest], np.uint64)
    assert int(kernel_random.next_bits(streams, 0)) == 2**64 - 1
    assert kernel_random.uniform(np.array([before_largest], np.uint64), 0) == 1 - 2.0**-53
    assert np.isfinite(kernel_random.gumbel(np.array([before_largest], np.uint64), 0))


@pytest.mark.parametrize("shape", [0.13, 0.5, 1.0, 1.2, 10.83])
def test_gamma(shape):
    assert stats.kstest(draw_many(2, 50_000, shape, 7), stats.gamma(shape).cdf).pvalue > 1e-3


def test_dirichlet_sums_to_one_with_the_right_moments():
    streams = np.array([9], np.uint64)
    out = np.empty(40, np.float32)
    draws = []
    for _ in range(4000):
        kernel_random.dirichlet(streams, 0, np.full(40, 10.83 / 40), out)
        assert abs(out.sum() - 1) < 1e-5
        draws.append(out[0])
    expected = stats.beta(10.83 / 40, 10.83 / 40 * 39)
    assert stats.kstest(draws, expected.cdf).pvalue > 1e-3
