"""The evaluation cache: what it returns is what the network says, whatever it has forgotten."""

import numpy as np

from pipeline.games.registry import parse_game
from pipeline.networks.caching import CachedEvaluator, hash_plain, hash_rows
from tests.search.helpers import hashed_evaluator


def random_planes(game, count: int, seed: int):
    shape = (count, game.num_planes, *game.board_shape)
    return np.random.default_rng(seed).integers(0, 2, shape, np.uint8)


def test_the_hash_is_its_plain_twin_and_tells_rows_apart():
    rows = np.random.default_rng(0).integers(0, 2, (3000, 126), np.uint8)
    keys = np.empty(len(rows), np.uint64)
    hash_rows(rows, keys)
    assert [int(key) for key in keys[:300]] == [hash_plain(row.tobytes()) for row in rows[:300]]
    near = np.repeat(rows[:1], 126, axis=0) ^ np.eye(126, dtype=np.uint8)  # one bit apart
    apart = np.empty(126, np.uint64)
    hash_rows(near, apart)
    assert len(np.unique(np.concatenate([keys, apart]))) == len(np.unique(rows, axis=0)) + 126


def test_answers_are_the_networks_own_even_where_places_are_few():
    game = parse_game("connect4")
    network = hashed_evaluator(game)
    asked = []

    def counted(planes):
        asked.append(len(planes))
        return network(planes)

    pool = random_planes(game, 60, 1)
    cache = CachedEvaluator(counted, 16, game.num_actions)  # far fewer places than positions
    draw = np.random.default_rng(2)
    for _ in range(200):
        planes = pool[draw.integers(0, len(pool), draw.integers(1, 20))]
        logits, values = cache(planes)
        wanted = network(planes)
        assert (logits == wanted[0]).all() and (values == wanted[1]).all()
        logits[:] = values[:] = np.nan  # the arrays belong to the caller
    assert cache.asked - cache.found == sum(asked) < cache.asked


def test_what_was_asked_before_is_not_asked_again():
    game = parse_game("tictactoe")
    network = hashed_evaluator(game)
    planes = random_planes(game, 8, 3)
    cache = CachedEvaluator(network, 4096, game.num_actions)
    cache(planes)
    cache._evaluate = None  # type: ignore[assignment]  # would raise if it were asked
    assert (cache(planes[::-1])[0] == network(planes[::-1])[0]).all() and cache.found == 8
    assert len(cache(planes[:0])[1]) == 0
