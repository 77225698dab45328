"""Random numbers inside kernels: one splitmix64 stream per row of a uint64 array.

Each game gets a 64-bit seed from its own numpy stream, and kernels continue from there.
Source: Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators"; gamma: Marsaglia, Tsang 2000.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

import math

import numpy as np

from pipeline.compiled_kernels import make_kernel

kernel = make_kernel(error_model="numpy")
BELOW_ONE = 1.0 - 2.0**-53


@kernel
def next_bits(streams, row):
    """The next 64 random bits of streams[row]. Changes streams [B] uint64."""
    streams[row] += np.uint64(0x9E3779B97F4A7C15)
    z = streams[row]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@kernel
def uniform(streams, row):
    """A float64 in (0, 1)."""
    # Of the largest bits the sum is rounded to 2**53, which would be 1.
    return min((np.float64(next_bits(streams, row) >> np.uint64(11)) + 0.5) * (1.0 / 9007199254740992.0), BELOW_ONE)


@kernel
def normal(streams, row):
    """A standard normal float64 (Box-Muller)."""
    radius = math.sqrt(-2.0 * math.log(uniform(streams, row)))
    return radius * math.cos(2.0 * math.pi * uniform(streams, row))


@kernel
def gamma(streams, row, shape):
    """A float64 from Gamma(shape, scale 1), any shape > 0. May underflow to 0 for tiny shapes."""
    boost = 1.0
    if shape < 1.0:
        boost = uniform(streams, row) ** (1.0 / shape)
        shape += 1.0
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = normal(streams, row)
        v = (1.0 + c * x) ** 3
        if v > 0.0 and math.log(uniform(streams, row)) < 0.5 * x * x + d - d * v + d * math.log(v):
            return d * v * boost


@kernel
def gumbel(streams, row):
    """A standard Gumbel float64: −log(−log u)."""
    return -math.log(-math.log(uniform(streams, row)))


@kernel
def dirichlet(streams, row, shapes, out):
    """Fill out [n] float32 with a sample of Dirichlet(shapes [n] float64); uniform if every component underflows."""
    total = 0.0
    for i in range(out.size):
        sampled = gamma(streams, row, shapes[i])
        out[i] = sampled
        total += sampled
    for i in range(out.size):
        out[i] = out[i] / total if total > 0.0 else 1.0 / out.size
