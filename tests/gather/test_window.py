from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

from pipeline.errors import FileError, MuGoError
from pipeline.gather import window as window_module
from pipeline.gather.config import GatherConfig
from pipeline.gather.window import Window, capacity_after, holdout_games, scan_window
from pipeline.methods.method import Positions
from pipeline.run import layout
from pipeline.run.order import Counted, ShardFile, generation_of
from pipeline.run.shards import RunNumbers, ShardMeta

NOTHING = Counted()
FUTURE = datetime(2060, 1, 1, tzinfo=UTC)
GROWING = {"max_positions": 1000, "window_start": 100, "window_exponent": 0.5, "window_slope": 0.5}


def meta(number: int, lengths: list[int], game: str = "go:9", model: str = "000001-a") -> ShardMeta:
    name = layout.ShardName(datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=number), number).shard
    path = Path("selfplay") / model / "w00" / name
    surprises = np.zeros(sum(lengths), np.float16)
    games = np.array(lengths, np.int32)
    numbers = np.arange(len(lengths))
    digests = [blake2b(f"{model} {name} {index}".encode(), digest_size=8).digest() for index in numbers]
    ids = np.array([int.from_bytes(digest) for digest in digests], np.uint64)
    return ShardMeta(
        path=path, game=game, model=model, worker="w00", method="alphazero", generation=1, positions=sum(lengths),
        games=len(lengths), lengths=games, surprises=surprises, searched=surprises > 0, evaluations=0, cut_short=0,
        game_ids=ids,
        numbers=numbers, run=RunNumbers(1, 0, len(lengths)), num_bytes=100, sha256="00",
    )  # fmt: skip


def file_of(meta: ShardMeta) -> ShardFile:
    folder, worker, name = meta.path.parts[-3:]
    parsed = layout.parse_shard_name(name)
    assert parsed
    return ShardFile(generation_of(folder), parsed, worker, folder)


def lay_out(monkeypatch: pytest.MonkeyPatch, metas: Iterable[ShardMeta]) -> list[int]:
    """Make scans find these shards, newest first. Returns a list: the positions of each sidecar opened."""
    by_file: dict[ShardFile, ShardMeta] = {}
    opened: list[int] = []

    def files() -> Iterator[ShardFile]:
        for one in metas:
            by_file[file_of(one)] = one
            yield file_of(one)

    def open_one(file: ShardFile, *rest: object) -> ShardMeta:
        opened.append(by_file[file].positions)
        return by_file[file]

    monkeypatch.setattr(window_module, "newest_files", lambda directory: files())
    monkeypatch.setattr(window_module, "meta_of", open_one)
    return opened


def counted_up_to(meta: ShardMeta, total: int) -> Counted:
    return Counted(total, {file_of(meta).place: file_of(meta).number})


def scan(
    monkeypatch: pytest.MonkeyPatch,
    metas: list[ShardMeta],
    capacity: int = 1000,
    holdout_fraction: float = 0.0,
    before: Counted = NOTHING,
    **options: Any,
) -> Window:
    """metas: newest first."""
    lay_out(monkeypatch, metas)
    config = GatherConfig(**{"max_positions": capacity, "holdout_fraction": holdout_fraction, **options})
    return scan_window(config, before, pytest.fail)


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
    window = scan(monkeypatch, [meta(3, [5]), meta(2, [3, 4]), meta(1, [9])], max_positions)
    pool = window.pool(held_out=False)
    assert window.num_positions == len(pool) == max_positions
    assert members(pool.positions(np.arange(len(pool)))) == [(0, 0, ply) for ply in range(5)] + (oldest or [])
    assert len(window.metas) == (2 if oldest else 1)


@pytest.mark.parametrize(
    ("options", "games"),
    [
        ({"max_games": 1}, [(0, 1)]),
        ({"max_games": 2}, [(0, 0), (0, 1)]),
        ({"max_games": 3}, [(0, 0), (0, 1), (1, 1)]),  # the last games of a shard are its newest
        ({"max_games": 5}, [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)]),
        ({"max_games": 9}, [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)]),
        ({"max_games": 3, "replacement": "random"}, [(0, 0), (0, 1), (1, 1)]),
    ],
)
def test_a_window_of_games_has_them_whole_and_no_others(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], games: list[tuple[int, int]]
) -> None:
    lengths = [[5, 200], [3, 4], [9]]
    window = scan(monkeypatch, [meta(3 - i, one) for i, one in enumerate(lengths)], 1000, **options)
    pool = window.pool(held_out=False)
    whole = [(shard, game, ply) for shard, game in games for ply in range(lengths[shard][game])]
    assert members(pool.positions(np.arange(len(pool)))) == whole
    assert window.counted.total == 221  # all count as played


def test_the_capacity_limits_a_window_of_games(monkeypatch: pytest.MonkeyPatch) -> None:
    window = scan(monkeypatch, [meta(2, [3, 4]), meta(1, [9])], 5, max_games=3)
    pool = window.pool(held_out=False)
    assert members(pool.positions(np.arange(len(pool)))) == [(0, 0, 2), *((0, 1, ply) for ply in range(4))]


def test_the_scan_stops_when_a_window_has_its_games(monkeypatch: pytest.MonkeyPatch) -> None:
    metas = [meta(9 - i, [10], model=f"{9 - i:06d}-a") for i in range(9)]
    opened = lay_out(monkeypatch, metas)
    scan_window(GatherConfig(max_games=2), counted_up_to(metas[0], 90), pytest.fail)
    assert len(opened) == 2


def test_a_window_that_is_not_full_holds_all(monkeypatch: pytest.MonkeyPatch) -> None:
    window = scan(monkeypatch, [meta(2, [3, 4]), meta(1, [9])], 1000)
    assert (window.num_positions, window.spans.num_games, len(window.metas)) == (16, 3, 2)


def test_an_empty_window(monkeypatch: pytest.MonkeyPatch) -> None:
    window = scan(monkeypatch, [], 1000)
    assert window.num_positions == 0 and len(window.pool(held_out=False)) == 0
    assert len(window.pool(held_out=False).sample(0, np.random.default_rng(0))) == 0


def test_what_was_searched_in_full_counts_though_it_surprised_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    one = meta(1, [3, 2])
    searched = np.array([True, False, True, False, True])
    window = scan(monkeypatch, [replace(one, searched=searched)], searched_only=True)
    pool = window.pool(held_out=False)
    assert not one.surprises.any()
    assert members(pool.positions(np.arange(len(pool)))) == [(0, 0, 0), (0, 0, 2), (0, 1, 1)]


def test_the_scan_stops_when_the_window_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    def shards() -> Iterator[ShardMeta]:
        yield meta(3, [5], model="000002-b")
        yield meta(2, [5], model="000002-b")
        yield meta(1, [5], model="000001-a")  # to see that the generation ends
        pytest.fail("went on")

    opened = lay_out(monkeypatch, shards())
    before = counted_up_to(meta(3, [5], model="000002-b"), 15)
    assert scan_window(GatherConfig(max_positions=10), before, pytest.fail).num_positions == 10
    assert opened == [5, 5]


def test_mixed_games_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MuGoError, match=r"mix go:9 \(.*\) and go:13 \(.*\); wanted one game") as caught:
        scan(monkeypatch, [meta(2, [5]), meta(1, [5], game="go:13")], 10)
    assert "\n" not in str(caught.value)
    scan(monkeypatch, [meta(2, [5]), meta(1, [5], game="go:13")], 5)  # the other one is outside


@pytest.mark.parametrize("change", [{"game": "ho:9"}, {"game": "go:9,komi"}, {"method": "alphazerp"}])
def test_a_sidecar_of_an_unknown_game_or_method_is_skipped_unless_there_is_no_other(
    monkeypatch: pytest.MonkeyPatch, change: dict[str, str]
) -> None:
    metas = [replace(meta(3, [5]), **change), meta(2, [3]), replace(meta(1, [4]), **change)]  # type: ignore[arg-type]
    lay_out(monkeypatch, metas)
    told: list[FileError] = []
    window = scan_window(GatherConfig(), NOTHING, told.append)
    assert window.metas == (metas[1],) and window.num_positions == 3
    assert [error.path for error in told] == [layout.meta_path(metas[index].path) for index in (0, 2)]
    lay_out(monkeypatch, [metas[0], metas[2]])
    with pytest.raises(FileError, match=rf"{layout.meta_path(metas[0].path).name}: .*wanted games that this program"):
        scan_window(GatherConfig(), NOTHING, told.append)


# Holding out


def test_hold_out_depends_on_the_game_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    metas = [meta(number, [3] * 50) for number in range(40, 0, -1)]
    small = scan(monkeypatch, metas[:20], 3000, 0.1)
    large = scan(monkeypatch, metas, 6000, 0.1)
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


# Sampling


def test_sampling_is_uniform_and_without_replacement(monkeypatch: pytest.MonkeyPatch) -> None:
    window = scan(monkeypatch, [meta(3, [1, 9, 2]), meta(2, [30]), meta(1, [8, 10])], 55)
    pool = window.pool(held_out=False)
    counts = dict.fromkeys(members(pool.positions(np.arange(55))), 0)
    places = np.zeros(20)
    for seed in range(3000):
        drawn = members(pool.sample(20, np.random.default_rng(seed)))
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


def test_others_are_sampled_from_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    window = scan(monkeypatch, [meta(3, [4, 4]), meta(2, [6]), meta(1, [9])], 20)  # cuts the oldest game
    rng = np.random.default_rng(0)
    pool = window.pool(held_out=False)
    taken = pool.sample(8, rng)
    others = pool.sample_others(5, taken, rng)
    assert len(set(members(taken)) | set(members(others))) == 13
    rest = pool.sample_others(100, Positions(*map(np.concatenate, zip(*(
        (p.shard, p.game, p.ply) for p in (taken, others)), strict=True))), rng)  # fmt: skip
    everything = set(members(pool.positions(np.arange(20))))
    assert set(members(rest)) == everything - set(members(taken)) - set(members(others))
    assert set(members(pool.sample_others(100, taken, rng, {0}))) == {
        position for position in everything if position[0] != 0
    } - set(members(taken))
    assert len(pool.sample_others(5, taken, rng, {0, 1, 2})) == 0


# How large the window is


@pytest.mark.parametrize(
    ("total", "expected"),
    [
        (0, 250_000),
        (250_000, 250_000),
        (250_001, 250_000),  # + 0.4
        (1_000_000, 474_967),  # 4^.65 = 2.462289; 250,000 + .4 · 250,000/.65 · 1.462289
        (4_000_000, 1_028_902),
        (10_000_000, 1_500_000),  # capped
    ],
)
def test_a_growing_window_by_the_formula_of_katago(total: int, expected: int) -> None:
    found = capacity_after(GatherConfig(max_positions=1_500_000, window_start=250_000), total)
    assert found == expected
    if 250_000 < total < 10_000_000:  # as it is written: β·(x^a − s^a)/(a·s^(a−1)) + min_rows
        s, a, b = 250_000.0, 0.65, 0.4
        assert found == int(b * (total**a - s**a) / (a * s ** (a - 1)) + s)


def test_a_window_that_grows_by_hand() -> None:
    # s = 100, a = 1/2, β = 1/2, N = 400: .5 · (20 − 10)/(.5 · 100^−.5) + 100 = 5/.05 + 100 = 200
    growing = GatherConfig(**GROWING)
    assert [capacity_after(growing, total) for total in (50, 100, 400, 900, 10_000)] == [100, 100, 200, 300, 1000]
    assert capacity_after(GatherConfig(max_positions=80, window_start=100), 50) == 80  # never more than that
    assert {capacity_after(GatherConfig(max_positions=70), total) for total in (0, 70, 10**9)} == {70}


def test_the_window_grows_with_all_there_ever_were(monkeypatch: pytest.MonkeyPatch) -> None:
    metas = [meta(number, [10]) for number in range(100, 0, -1)]
    first = scan(monkeypatch, metas[60:], **GROWING)  # N = 400
    assert (first.num_positions, first.capacity, first.counted.total, first.new_positions) == (200, 200, 400, 400)
    assert first.counted.numbers == {"000001-a/w00": 40}
    later = scan(monkeypatch, metas[10:], before=first.counted, **GROWING)  # N = 900
    assert (later.num_positions, later.capacity, later.counted.total, later.new_positions) == (300, 300, 900, 500)
    at_once = scan(monkeypatch, metas[10:], **GROWING)
    assert at_once.counted == later.counted
    np.testing.assert_array_equal(at_once.spans.shard, later.spans.shard)
    again = scan(monkeypatch, metas[10:], before=later.counted, **GROWING)
    assert (again.counted, again.new_positions, again.num_positions) == (later.counted, 0, 300)


def test_counting_costs_the_window_and_what_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    metas = [meta(number, [10]) for number in range(1000, 0, -1)]

    def sidecars_opened(since: int, counted: Counted) -> int:
        opened = lay_out(monkeypatch, metas[since:])
        window = scan_window(GatherConfig(max_positions=200), counted, pytest.fail)
        assert window.num_positions == 200 and window.counted.total == 10 * (1000 - since)
        return len(opened)

    def counted(since: int) -> Counted:
        return counted_up_to(metas[since], 10 * (1000 - since))

    assert sidecars_opened(0, counted(5)) == 20  # the window
    assert sidecars_opened(0, counted(300)) == 300  # all that is new
    assert sidecars_opened(0, Counted()) == 1000  # only once


def test_games_of_an_older_model_that_end_late_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    before = [meta(3, [10], model="000002-b"), meta(1, [10], model="000001-a")]
    first = scan(monkeypatch, before, 1000)
    after = [before[0], meta(4, [7], model="000001-a"), before[1]]  # the old model's folder comes after the new one's
    second = scan(monkeypatch, after, 1000, before=first.counted)
    assert (second.counted.total, second.new_positions) == (27, 7)


def test_shards_that_are_gone_stay_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    window = scan(monkeypatch, [meta(9, [10])], 1000, before=counted_up_to(meta(8, [1]), 500))
    assert (window.counted.total, window.num_positions) == (510, 10)


def test_games_after_a_deletion_are_new(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker's numbers begin anew, in the same generation."""
    first = scan(monkeypatch, [meta(number, [10]) for number in (3, 2, 1)], 1000)
    second = scan(monkeypatch, [replace(meta(9, [7]), path=numbered(9, 2)), replace(meta(8, [5]), path=numbered(8, 1))],
                  1000, before=first.counted)  # fmt: skip
    assert (second.new_positions, second.counted.total, second.counted.numbers) == (12, 42, {"000001-a/w00": 2})
    again = scan(monkeypatch, [replace(meta(9, [7]), path=numbered(9, 2))], 1000, before=second.counted)
    assert again.new_positions == 0


def numbered(second: int, number: int) -> Path:
    name = layout.ShardName(datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=second), number)
    return Path("selfplay") / "000001-a" / "w00" / name.shard


def test_what_is_new_is_counted_without_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """One worker's clock is years ahead, so its shards sort first; new shards of the others still count as new."""
    ahead = replace(meta(10**9, [5]), path=Path("selfplay/000001-a/w01") / layout.ShardName(FUTURE, 1).shard)
    first = scan(monkeypatch, [ahead, meta(1, [10])], 1000)
    assert (first.counted.total, first.counted.numbers) == (15, {"000001-a/w00": 1, "000001-a/w01": 1})
    second = scan(monkeypatch, [ahead, meta(3, [7]), meta(2, [8]), meta(1, [10])], 12, before=first.counted)
    assert (second.counted.total, second.new_positions, second.num_positions) == (30, 15, 12)


def test_every_new_shard_is_counted_once_with_any_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random runs: generations begin, workers with wrong clocks add shards, some late, and gather runs now and then."""
    rng = np.random.default_rng(0)
    for _ in range(60):
        run: list[ShardMeta] = []
        numbers: Counter[tuple[int, int]] = Counter()
        minutes: Counter[tuple[int, int]] = Counter()
        counted, generation, made, waiting = Counted(), 0, 0, 0
        for _ in range(60):
            generation += int(rng.random() < 0.1)
            worker, begun = int(rng.integers(4)), max(0, generation - int(rng.random() < 0.2))
            numbers[begun, worker] += 1
            minutes[begun, worker] += 1 + int(rng.integers(9)) * 100
            time = FUTURE + timedelta(days=1000 * worker, minutes=minutes[begun, worker])
            folder = str(layout.games_folder("000000-a", begun))
            name = layout.ShardName(time, numbers[begun, worker]).shard
            one = replace(meta(1, [int(rng.integers(1, 9))]), path=Path("selfplay") / folder / f"w0{worker}" / name)
            run.append(one)
            made += one.positions
            waiting += one.positions
            if rng.random() < 0.2:
                window = scan(monkeypatch, sorted(run, key=file_of, reverse=True), 120, before=counted)
                counted = window.counted
                assert (counted.total, window.new_positions) == (made, waiting)
                waiting = 0


def test_what_the_window_has_left_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shard added later to generations behind the window is ignored, so that a scan costs only the window."""
    run = [meta(3, [10], model="000003-c"), meta(2, [10], model="000002-b"), meta(1, [10], model="000001-a")]
    first = scan(monkeypatch, run, 20)
    assert first.counted.numbers == {"000003-c/w00": 3, "000002-b/w00": 2}
    late = [run[0], meta(9, [4], model="000002-b"), run[1], meta(9, [5], model="000001-a"), run[2]]
    second = scan(monkeypatch, late, 10, before=first.counted)
    assert (second.counted.total, second.new_positions, second.counted.numbers) == (34, 4, {"000003-c/w00": 3})
    wide = scan(monkeypatch, late, 1000, before=second.counted)
    assert (wide.counted.total, wide.num_positions) == (39, 39)  # the window has more than was counted


# Random eviction


def literal_buffer(capacity: int, total: int, rng: np.random.Generator) -> np.ndarray:
    """[total] which of the positions 0, 1, … remain if each new one replaces a random one of a full buffer."""
    buffer = list(range(min(capacity, total)))
    for position in range(capacity, total):
        buffer[int(rng.integers(capacity))] = position
    there = np.zeros(total, np.bool_)
    there[buffer] = True
    return there


def survivors(window: Window, metas: list[ShardMeta]) -> np.ndarray:
    """[N] which positions are in the window, oldest first; metas: newest first."""
    number = {one.id: index for index, one in enumerate(reversed(metas))}
    there = np.zeros(sum(one.positions for one in metas), np.bool_)
    drawn = window.pool(held_out=False).positions(np.arange(window.num_positions))
    for shard, game, ply in members(drawn):
        one = window.metas[shard]
        there[number[one.id] * one.positions + int(one.lengths[:game].sum()) + ply] = True
    return there


@pytest.mark.parametrize("total", [30, 60, 90, 300])
def test_random_eviction_keeps_each_position_as_often_as_a_buffer_would(
    monkeypatch: pytest.MonkeyPatch, total: int
) -> None:
    capacity, runs = 60, 600
    metas = [meta(number, [4, 6]) for number in range(total // 10, 0, -1)]
    rng = np.random.default_rng(5)
    buffer = np.mean([literal_buffer(capacity, total, rng) for _ in range(runs)], axis=0)
    sizes, found = [], np.zeros(total)
    for seed in range(runs):
        window = scan(monkeypatch, metas, capacity, replacement="random", seed=seed)
        sizes.append(window.num_positions)
        found += survivors(window, metas)
    expected = (1 - 1 / capacity) ** np.minimum(np.arange(total)[::-1], max(total - capacity, 0))
    error = np.sqrt(expected * (1 - expected) / runs)
    assert (np.abs(buffer - expected) <= 4.5 * error + 1e-9).all()
    assert (np.abs(found / runs - expected) <= 4.5 * error + 1e-9).all()
    assert abs(np.mean(sizes) - min(capacity, total)) < 5 * np.sqrt(capacity / runs)
    assert np.std(sizes) < np.sqrt(capacity)


def test_an_evicted_position_never_returns(monkeypatch: pytest.MonkeyPatch) -> None:
    metas = [meta(number, [7, 13]) for number in range(40, 0, -1)]
    counted, before = Counted(), None
    for since in range(39, -1, -1):
        window = scan(monkeypatch, metas[since:], 100, before=counted, replacement="random", seed=4)
        at_once = scan(monkeypatch, metas[since:], 100, replacement="random", seed=4)
        there = survivors(window, metas[since:])
        np.testing.assert_array_equal(there, survivors(at_once, metas[since:]))  # no state but the files
        if before is not None:
            assert not (there[: len(before)] & ~before).any()
            assert there[len(before) :].sum() >= 15  # most of the newest 20
        counted, before = window.counted, there


def test_random_eviction_looks_no_further_than_its_horizon(monkeypatch: pytest.MonkeyPatch) -> None:
    metas = [meta(number, [10]) for number in range(400, 0, -1)]
    opened = lay_out(monkeypatch, metas)
    counted = counted_up_to(metas[0], 4000)
    window = scan_window(GatherConfig(max_positions=50, replacement="random"), counted, pytest.fail)
    assert len(opened) == 14 * 5 and window.counted.total == 4000
    assert (1 - 1 / 50) ** (14 * 50) < 2e-6


def test_spans_lie_within_games(monkeypatch: pytest.MonkeyPatch) -> None:
    metas = [meta(number, [1, 9, 5]) for number in range(60, 0, -1)]
    window = scan(monkeypatch, metas, 300, replacement="random", seed=1)
    spans = window.spans
    lengths = np.array([window.metas[s].lengths[g] for s, g in zip(spans.shard, spans.game, strict=True)])
    assert (spans.num_plies >= 1).all() and (spans.first_ply + spans.num_plies <= lengths).all()
    everything = members(window.pool(held_out=False).positions(np.arange(window.num_positions)))
    assert len(set(everything)) == len(everything) and everything == sorted(everything)
    assert spans.num_games == len({position[:2] for position in everything}) < len(spans)
    figures = window.figures(frozenset({0, 2}))
    left = [position for position in everything if position[0] not in (0, 2)]
    assert (figures["positions"], figures["games"]) == (len(left), len({position[:2] for position in left}))
    assert (figures["shards"], figures["newest"]) == (len({p[0] for p in left}), window.metas[1].id)
