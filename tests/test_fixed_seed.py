"""The fixed-seed benchmark: what counts as the same, and how a difference is reported."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks import fixed_seed
from benchmarks.fixed_seed import Arrays


def shard(*game_ids: int) -> tuple[Arrays, list[str]]:
    """Game i has i moves; move m visits m edges."""
    moves = [move for game in game_ids for move in range(1, game + 1)]
    arrays = {
        "game_ids": np.array(game_ids, np.uint64),
        "lengths": np.array(game_ids),
        "opponents": np.array([-1 if game % 2 else 0 for game in game_ids]),
        "moves": np.array(moves),
        "visit_lengths": np.array(moves),
        "visit_actions": np.array([100 * move + edge for move in moves for edge in range(move)]),
    }
    return arrays, ["random"]


def test_a_digest_is_of_type_shape_and_entries() -> None:
    array = np.arange(6, dtype="<i4")
    assert fixed_seed.digest(array) == fixed_seed.digest(array.astype(">i4")) == fixed_seed.digest(array.copy())
    others = [array.astype("<i8"), array.reshape(2, 3), array[::-1], array[:5]]
    assert len({fixed_seed.digest(other) for other in [array, *others]}) == 5


def test_games_are_the_same_however_shards_are_cut() -> None:
    one = fixed_seed.read_games([shard(1, 2, 3)])
    other = fixed_seed.read_games([shard(3), shard(2, 1)])
    assert one["moves"].tolist() == [1, 1, 2, 1, 2, 3]
    assert one["opponents"].tolist() == ["itself", "random", "itself"]
    assert one["visit_actions"].tolist() == [100, 100, 200, 201, 100, 200, 201, 300, 301, 302]
    assert fixed_seed.digests_of({"games": one}) == fixed_seed.digests_of({"games": other})


@pytest.mark.parametrize(
    ("now", "earlier", "how"),
    [
        (np.array([1.0]), np.array([3.0]), "x differs in 1 of 1 entries, by 2 at most; entry 0 is 1.0, was 3.0"),
        (np.array([np.nan, 1]), np.array([np.nan, 1]), "x has other bits of the same values"),
        (np.array(["a", "b"]), np.array(["a", "c"]), "x differs in 1 of 2 entries; entry 1 is b, was c"),
        (np.zeros(2, int), np.zeros(3, int), "x is int64 (2,), was int64 (3,)"),
        (np.array([0.0]), np.array([-0.0]), "x has other bits of the same values"),
        (None, np.zeros(1), "x is missing"),
        (np.zeros(1), None, "x is new"),
    ],
)  # fmt: skip
def test_a_difference_in_words(now: np.ndarray | None, earlier: np.ndarray | None, how: str) -> None:
    assert fixed_seed.difference("x", now, earlier) == how


def test_a_line_for_each_part_that_differs(tmp_path: Path) -> None:
    folders = tmp_path / "now", tmp_path / "earlier"
    digests = []
    for folder, last in zip(folders, (1, 2), strict=True):
        parts = {part: {"a": np.arange(3), "b": np.array([0, last])} for part in fixed_seed.PARTS}
        parts["games"]["b"] = np.array([0])
        (folder / "arrays").mkdir(parents=True)
        fixed_seed.store(folder, "go", parts)
        digests.append(fixed_seed.digests_of(parts))
    lines = list(fixed_seed.differences("go", digests[0], digests[1], *folders))
    how = "1 of 2 arrays differ; b differs in 1 of 2 entries; entry 1 is 1, was 2"
    assert lines == [f"go, {part}: {how}" for part in ("examples", "weights", "matches")]
