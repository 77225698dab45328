"""Evaluators for tests: deterministic, a function of each row's planes alone."""

from __future__ import annotations

import numpy as np

from pipeline.search.batch import BatchSearch
from pipeline.search.tree import Tree


def zero_evaluator(game):
    """Uniform policy, value 0: only finished games give information."""

    def evaluate(planes):
        return np.zeros((len(planes), game.num_actions), np.float32), np.zeros(len(planes), np.float32)

    return evaluate


def hashed_evaluator(game, seed=0):
    """Arbitrary but fixed outputs per position, in steps of 1/64, whose sums are exact in float32."""
    weights = np.random.default_rng(seed).integers(1, 2**31, game.num_planes * game.num_points)

    def evaluate(planes):
        rows = planes.reshape(len(planes), -1).astype(np.int64) @ weights
        steps = (rows[:, None] * (2654435761 + 2 * np.arange(game.num_actions)[None, :])) >> 7
        logits = ((steps % 257) / 64).astype(np.float32)
        return logits, ((rows // 11 % 129 - 64) / 64).astype(np.float32)

    return evaluate


def twin_games(twin, game, config, readouts, seeds, plies, leaves=1):
    """(seed, ply, evaluate, plain, fast) before each move of a game per seed: a plain twin, and a batch of one row with
    room for so many readouts. Whoever asks plays the move in both.
    """
    for seed in range(seeds):
        evaluate = hashed_evaluator(game, seed)
        plain = twin(game, config, evaluate)
        fast = BatchSearch(game, 1, readouts, config, leaves)
        fast.new_games(np.arange(1), np.array([seed], np.uint64))
        for ply in range(min(plies, game.max_plies)):
            if fast.over(np.arange(1))[0]:
                break
            yield seed, ply, evaluate, plain, fast


def run_searches(search: BatchSearch, evaluate) -> None:
    """Evaluate batches until every active row has finished."""
    while True:
        before = search.simulations
        planes = search.leaves()
        if len(planes):
            search.expand(*evaluate(planes))
        elif search.simulations == before:  # not even a leaf that ends the game
            return


def tree_of(search: BatchSearch) -> Tree:
    """The search's current trees, which its public functions don't show. Growing replaces the arrays."""
    return search._tree
