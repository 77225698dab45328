"""Sampling by surprise: how often each position is sampled, computed by hand and counted."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from pipeline.gather.window import PositionSampler, Spans, choose_weighted
from pipeline.methods.method import Positions


def spans(*rows: tuple[int, int, int, int, int]) -> Spans:
    return Spans(*np.array(rows, np.int64).T)


# Two shards: 0 with games of 3 and 4 moves, 1 with a game of 5; some plies are missing.
SURPRISES = [np.array([0, 1, 2, 3, 0, 0, 4], np.float16), np.array([5, 0, 0, 0, 0], np.float16)]
SOME = spans((0, 0, 0, 2, 0), (0, 1, 0, 1, 3), (0, 1, 3, 1, 6), (1, 0, 0, 2, 0))
THERE = [(0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 1, 3), (1, 0, 0), (1, 0, 1)]
THEIR_SURPRISES = np.array([0, 1, 3, 4, 5, 0])
ONE_GAME = ["go:9", "go:9"]


def members(positions: Positions) -> list[tuple[int, int, int]]:
    return list(zip(positions.shard.tolist(), positions.game.tolist(), positions.ply.tolist(), strict=True))


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_weights_by_hand(share: float) -> None:
    pool = PositionSampler(SOME, SURPRISES, share, ONE_GAME)
    assert members(pool.positions(np.arange(6))) == THERE
    # the mean surprise is 13/6, so with share .5 the fourth weighs .5 + .5 · 4 · 6/13 = 1.423
    assert pool.weights() == pytest.approx((1 - share) + share * THEIR_SURPRISES * 6 / 13)
    assert pool.weights().mean() == pytest.approx(1.0)


def test_a_board_on_which_searches_surprise_less_keeps_its_share_of_the_samples() -> None:
    pool = PositionSampler(SOME, SURPRISES, 0.5, ["go:9", "go:19"])
    # shard 0: surprises 0, 1, 3, 4 with mean 2; shard 1: 5, 0 with mean 2.5
    assert pool.weights() == pytest.approx([0.5, 0.75, 1.25, 1.5, 1.5, 0.5])
    unknown = PositionSampler(SOME, [SURPRISES[0], 0 * SURPRISES[1]], 1.0, ["go:9", "go:19"])
    assert unknown.weights() == pytest.approx([0, 0.5, 1.5, 2, 1, 1])  # nothing is known of the second board


def test_without_surprises_all_are_alike() -> None:
    nothing = [np.zeros(7, np.float16), np.zeros(5, np.float16)]
    assert PositionSampler(SOME, nothing, 0.5, ONE_GAME).weights().tolist() == [1.0] * 6
    assert sorted(members(PositionSampler(SOME, nothing, 0.5, ONE_GAME).sample(6, np.random.default_rng(0)))) == THERE
    empty = PositionSampler(SOME.at(np.zeros(0, np.int64)), nothing, 0.5, ONE_GAME)
    assert len(empty) == 0 and len(empty.sample(0, np.random.default_rng(0))) == 0


def test_each_is_sampled_in_proportion_to_its_weight() -> None:
    weights = np.array([0.1, 0.5, 0.5, 1.0, 1.5, 3.0, 0.4])
    count, runs = 4, 20_000
    expected = count * weights / weights.sum()  # the sixth: 12/7 = 1.71 times
    rng = np.random.default_rng(0)
    drawn = np.stack([np.bincount(choose_weighted(rng, weights, count), minlength=7) for _ in range(runs)])
    assert (drawn.sum(axis=1) == count).all()
    assert ((drawn == np.floor(expected)) | (drawn == np.ceil(expected))).all()
    part = expected - np.floor(expected)
    assert (np.abs(drawn.mean(axis=0) - expected) < 5 * np.sqrt(part * (1 - part) / runs)).all()
    pairs = np.corrcoef(drawn[:, 1], drawn[:, 2])[0, 1]  # neighbours aren't more alike than any two
    assert abs(pairs) < 0.4


def test_the_order_is_random_and_copies_are_apart() -> None:
    weights = np.array([8.0, 1, 1, 1, 1, 1, 1, 1, 1])
    rng = np.random.default_rng(1)
    places = np.zeros(8)
    for _ in range(4000):
        places += choose_weighted(rng, weights, 8) == 0
    assert np.abs(places / 4000 - 0.5).max() < 0.05


def test_sampling_is_reproducible_and_follows_the_surprise() -> None:
    rng = np.random.default_rng(2)
    surprises = rng.exponential(1.0, 4000).astype(np.float16)
    surprises[:3000] = 0  # cheap moves
    games = spans(*((0, game, 0, 40, 40 * game) for game in range(100)))
    pool = PositionSampler(games, [surprises], 0.5, ["go:9"])
    drawn = pool.sample(1000, np.random.default_rng(7))
    assert members(drawn) == members(pool.sample(1000, np.random.default_rng(7)))
    assert members(drawn) != members(pool.sample(1000, np.random.default_rng(8)))
    moves = drawn.game * 40 + drawn.ply
    assert (moves < 3000).sum() == pytest.approx(375, abs=40)  # 1,000 · 3/4 · (1 − .5)
    assert surprises[moves].astype(float).mean() > 2 * surprises.astype(float).mean()
    most = np.ceil(1000 / 4000 * pool.weights())
    assert all(count <= most[move] for move, count in Counter(moves.tolist()).items())


def test_others_by_surprise() -> None:
    pool = PositionSampler(SOME, SURPRISES, 1.0, ONE_GAME)
    taken = Positions(*np.array([THERE[4], (1, 0, 4), (0, 1, 1)], np.int64).T)  # the last two are not in the pool
    for seed in range(20):
        others = members(pool.sample_others(2, taken, np.random.default_rng(seed)))
        assert len(others) == 2 and set(others) <= {THERE[1], THERE[2], THERE[3]}  # not taken, of some surprise


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_all_that_is_left(share: float) -> None:
    none = np.zeros(7, np.float16)
    pool = PositionSampler(SOME, [none, none[:5]], share, ONE_GAME)
    taken = Positions(*np.array(THERE[:4], np.int64).T)
    assert sorted(members(pool.sample_others(9, taken, np.random.default_rng(0)))) == THERE[4:]
