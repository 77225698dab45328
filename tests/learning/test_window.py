from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

from pipeline.errors import MuGoError
from pipeline.learning import window as window_module
from pipeline.learning.drawing import Positions
from pipeline.learning.window import Window, holdout_games, scan_window
from pipeline.records import layout
from pipeline.records.shards import ShardMeta


def meta(number: int, lengths: list[int], game: str = "go:9", model: str = "000001-a") -> ShardMeta:
    name = layout.ShardName(datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=number), 1).shard
    path = Path("selfplay") / model / "w00" / name
    return ShardMeta(path, game, model, "w00", 1, sum(lengths), len(lengths), np.array(lengths, np.int32), np.zeros(sum(lengths), np.float16), 100, "00")


def window_of(
    monkeypatch: pytest.MonkeyPatch, metas: list[ShardMeta], max_positions: int, holdout_share: float = 0.0
) -> Window:
    """metas: newest first."""
    monkeypatch.setattr(window_module, "newest_shards", lambda directory, on_damage: iter(metas))
    return scan_window(Path("selfplay"), max_positions, holdout_share, pytest.fail)


def members(positions: Positions) -> list[tuple[int, int, int]]:
    return list(zip(positions.shard.tolist(), positions.game.tolist(), positions.ply.tolist(), strict=True))


@pytest.mark.parametrize(
    ("max_positions", "oldest"),
    [
        (5, None),  # the newest shard just fills it
        (6, [(1, 1, 3)]),  # the last position of the older one
        (9, [(1, 1, 0), (1, 1, 1), (1, 1, 2), (1, 1, 3)]),
        (10, [(1, 0, 2), (1, 1, 0), (1, 1, 1), (1, 1, 2), (1, 1, 3)]),
        (12, [(1, 0, 0), (1, 0, 1), (1, 0, 2), (1, 1, 0), (1, 1, 1), (1, 1, 2), (1, 1, 3)]),
    ],
)
def test_the_window_is_exactly_the_newest_positions(
    monkeypatch: pytest.MonkeyPatch, max_positions: int, oldest: list[tuple[int, int, int]] | None
) -> None:
    window = window_of(monkeypatch, [meta(3, [5]), meta(2, [3, 4]), meta(1, [9])], max_positions)
    pool = window.pool(held_out=False)
    assert window.num_positions == len(pool) == max_positions
    assert members(pool.positions(np.arange(len(pool)))) == [(0, 0, ply) for ply in range(5)] + (oldest or [])
    assert len(window.metas) == (2 if oldest else 1)


def test_a_window_that_is_not_full_holds_all(monkeypatch: pytest.MonkeyPatch) -> None:
    window = window_of(monkeypatch, [meta(2, [3, 4]), meta(1, [9])], 1000)
    assert (window.num_positions, window.num_games, len(window.metas)) == (16, 3, 2)


def test_an_empty_window(monkeypatch: pytest.MonkeyPatch) -> None:
    window = window_of(monkeypatch, [], 1000)
    assert window.num_positions == 0 and len(window.pool(held_out=False)) == 0
    assert len(window.pool(held_out=False).draw(0, np.random.default_rng(0))) == 0


def test_the_scan_stops_when_the_window_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    def shards() -> Any:
        yield meta(3, [5])
        yield meta(2, [5])
        pytest.fail("went on")

    monkeypatch.setattr(window_module, "newest_shards", lambda directory, on_damage: shards())
    assert scan_window(Path("x"), 10, 0.0, pytest.fail).num_positions == 10


def test_mixed_games_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MuGoError, match=r"mix go:9 \(.*\) and go:13 \(.*\); wanted one game") as caught:
        window_of(monkeypatch, [meta(2, [5]), meta(1, [5], game="go:13")], 10)
    assert "\n" not in str(caught.value)
    window_of(monkeypatch, [meta(2, [5]), meta(1, [5], game="go:13")], 5)  # the other one is outside


# Holding out


def test_hold_out_depends_on_the_shard_and_the_game_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    metas = [meta(number, [3] * 50) for number in range(40, 0, -1)]
    small = window_of(monkeypatch, metas[:20], 3000, 0.1)
    large = window_of(monkeypatch, metas, 6000, 0.1)
    np.testing.assert_array_equal(small.held_out, large.held_out[:1000])
    elsewhere = ShardMeta(**{**metas[0].__dict__, "path": Path("/elsewhere") / metas[0].path})
    np.testing.assert_array_equal(holdout_games(metas[0], 0.1), holdout_games(elsewhere, 0.1))
    assert len(small.pool(held_out=False)) + len(small.pool(held_out=True)) == 3000


def test_hold_out_has_its_share_and_grows_with_it() -> None:
    metas = [meta(number, [1] * 100) for number in range(100)]
    held = {share: np.concatenate([holdout_games(m, share) for m in metas]) for share in (0.0, 0.05, 0.2)}
    assert held[0.0].sum() == 0
    for share in (0.05, 0.2):  # within five standard deviations
        assert abs(held[share].mean() - share) < 5 * np.sqrt(share * (1 - share) / 10_000)
    assert (held[0.2] | ~held[0.05]).all()
    one_game = np.array([holdout_games(meta(number, [1]), 0.2)[0] for number in range(2000)])
    assert 300 < one_game.sum() < 500  # one-game shards are not all alike


# Drawing


def test_draws_are_uniform_and_without_replacement(monkeypatch: pytest.MonkeyPatch) -> None:
    window = window_of(monkeypatch, [meta(3, [1, 9, 2]), meta(2, [30]), meta(1, [8, 10])], 55)
    pool = window.pool(held_out=False)
    counts = dict.fromkeys(members(pool.positions(np.arange(55))), 0)
    places = np.zeros(20)
    for seed in range(3000):
        drawn = members(pool.draw(20, np.random.default_rng(seed)))
        assert len(set(drawn)) == 20
        for position in drawn:
            counts[position] += 1
        if (0, 0, 0) in drawn:
            places[drawn.index((0, 0, 0))] += 1
    # without replacement the counts vary less than a multinomial's: the statistic is scaled to make up for it
    found = np.array(list(counts.values()), float)
    statistic = float(((found - found.mean()) ** 2 / found.mean()).sum()) / (1 - 20 / 55)
    assert 20 < statistic < 100  # χ² with 54 degrees of freedom: outside with probability 2e-4
    assert chisquare(places).pvalue > 1e-4  # every place is as likely: the order is random


def test_others_are_drawn_from_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    window = window_of(monkeypatch, [meta(3, [4, 4]), meta(2, [6]), meta(1, [9])], 20)  # cuts the oldest game
    rng = np.random.default_rng(0)
    pool = window.pool(held_out=False)
    taken = pool.draw(8, rng)
    others = pool.draw_others(5, taken, rng)
    assert len(set(members(taken)) | set(members(others))) == 13
    rest = pool.draw_others(100, Positions(*map(np.concatenate, zip(*(
        (p.shard, p.game, p.ply) for p in (taken, others)), strict=True))), rng)  # fmt: skip
    everything = set(members(pool.positions(np.arange(20))))
    assert set(members(rest)) == everything - set(members(taken)) - set(members(others))
    without = window.pool(held_out=False, without=frozenset({0}))
    assert set(members(without.draw_others(100, taken, rng))) == {
        position for position in everything if position[0] != 0
    } - set(members(taken))
    nothing = window.pool(held_out=False, without=frozenset({0, 1, 2}))
    assert len(nothing.draw_others(5, taken, rng)) == 0
