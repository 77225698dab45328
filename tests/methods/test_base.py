"""What makes one game differ from the next."""

from __future__ import annotations

import numpy as np

from pipeline.config import DEFAULT_WORKER
from pipeline.methods.base import GameSeed, game_seeds


def drawn(seed: int, number: int, fraction: float, worker: str) -> GameSeed:
    """By a numpy Generator, as games were numbered from the beginning."""
    who = () if worker == DEFAULT_WORKER else tuple(worker.encode())
    stream = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, number], spawn_key=who)))
    first, second = stream.integers(0, 2**64, 2, np.uint64).tolist()
    no_resign = bool(stream.random() < fraction)
    encounter, kinds = stream.integers(0, 2**64, 2, np.uint64).tolist()
    return GameSeed(first, second, no_resign, encounter, kinds)


def test_seeds_are_those_of_a_generator() -> None:
    for seed, fraction, worker in ((0, 0.0, DEFAULT_WORKER), (7, 0.1, "w03"), (2**63, 0.5, "another"), (1, 1.0, "x")):
        found = list(game_seeds(seed, iter(range(1000)), fraction, worker))
        assert found == [drawn(seed, number, fraction, worker) for number in range(1000)]
        assert all(type(one.no_resign) is bool for one in found)
        if 0 < fraction < 1:
            assert {one.no_resign for one in found} == {True, False}
