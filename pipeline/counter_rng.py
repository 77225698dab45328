"""Counter-based random numbers: the same key and counter give the same number, in any order.

They need no state, neither in memory nor in files. They don't replace a Generator for numbers drawn in sequence.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray


def key_of(text: str) -> np.uint64:
    """A 64-bit key for a text."""
    return np.frombuffer(hashlib.blake2b(text.encode(), digest_size=8).digest(), np.uint64)[0]


def uniforms(keys: np.uint64 | NDArray[np.uint64], counters: NDArray[np.integer]) -> NDArray[np.float64]:
    """[n] numbers in [0, 1): those at counters [n] ≥ 0 of the streams of keys (one key, or [n]).

    Source: splitmix64, Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators".
    """
    with np.errstate(over="ignore"):
        mixed = keys + (counters.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(31)
    return (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53
