"""Which numbers a run plays after earlier runs, finished or not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import FileError
from pipeline.games.specs import parse_game
from pipeline.run.shards import MOST_NUMBER, RunNumbers
from pipeline.selfplay.numbering import Numbering, numbering
from tests.run.random_games import random_games, write_shard

GAME = parse_game("tictactoe")


def plan(folder: Path, generation: int, wanted: int, worker: str = "w00") -> Numbering:
    return numbering(folder, worker, generation, wanted, pytest.fail)


def commit(folder: Path, found: Numbering, numbers: list[int], generation: int | None = None) -> None:
    """Write a shard of these games. generation: in which they began; None: that in which the run began."""
    since = found.run.since if generation is None else generation
    games = random_games(GAME, len(numbers), numbers[0])
    write_shard(folder, "000000-a", "w00", GAME.spec, games, {"generation": since}, numbers=numbers, run=found.run)


def test_the_first_run_begins_with_zero(tmp_path: Path) -> None:
    found = plan(tmp_path, 3, 5)
    assert found.run == RunNumbers(3, 0, 5) and found.numbers == [0, 1, 2, 3, 4]


def test_what_is_missing_is_played_first_then_it_goes_on(tmp_path: Path) -> None:
    first = plan(tmp_path, 0, 10)
    commit(tmp_path, first, [1, 2])
    commit(tmp_path, first, [5])
    assert plan(tmp_path, 0, 7).numbers == [0, 3, 4, 6, 7, 8, 9]
    more = plan(tmp_path, 0, 9)
    assert more.numbers == [0, 3, 4, 6, 7, 8, 9, 10, 11] and more.run == RunNumbers(0, 0, 12)
    assert more.continues is not None and plan(tmp_path, 0, 3).run == RunNumbers(0, 0, 10)  # its end stays the end


def test_the_next_generation_begins_where_the_run_before_was_to_end(tmp_path: Path) -> None:
    commit(tmp_path, plan(tmp_path, 0, 10), [4])  # and was killed
    after = plan(tmp_path, 1, 3)
    assert after.run == RunNumbers(1, 10, 13) and after.numbers == [10, 11, 12] and after.continues is None
    assert plan(tmp_path, 1, 3, "w01").run == RunNumbers(1, 0, 3)  # another worker's are others


def test_a_run_that_outlives_its_generation_leaves_no_number_to_be_played_twice(tmp_path: Path) -> None:
    """Generation 1 doesn't look at the games of generation 0, where fast threads may have played high numbers."""
    long = plan(tmp_path, 0, 100)
    commit(tmp_path, long, [0, 2, 80])
    commit(tmp_path, long, [1, 3], generation=1)
    assert plan(tmp_path, 1, 3).numbers == [100, 101, 102]


def test_random_kills_leave_neither_gaps_nor_copies(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    for case in range(20):
        folder, base = tmp_path / str(case), 0
        for generation in range(3):
            played: list[int] = []
            while len(played) < 30:
                found = plan(folder, generation, 30 - len(played))
                ahead = found.numbers
                done = rng.permutation(ahead)[: int(rng.integers(1, len(ahead) + 1))].tolist()
                commit(folder, found, done)
                played += done
            assert sorted(played) == list(range(base, base + 30))
            base += 30


def test_numbers_behind_which_there_is_no_room(tmp_path: Path) -> None:
    run = RunNumbers(0, 0, MOST_NUMBER)
    write_shard(tmp_path, "000000-a", "w00", GAME.spec, random_games(GAME, 2, 0), {"generation": 0},
                numbers=[5, MOST_NUMBER - 1], run=run)  # fmt: skip
    assert plan(tmp_path, 0, 3).numbers == [0, 1, 2]  # costs no memory
    with pytest.raises(FileError, match="remove this shard"):
        plan(tmp_path, 1, 3)


def test_generations_that_are_played_again_repeat_no_number(tmp_path: Path) -> None:
    """A bad model was deleted after its games had begun; its predecessor played on, and so did its successor."""
    commit(tmp_path, plan(tmp_path, 1, 5), [0, 1, 2, 3, 4])
    commit(tmp_path, plan(tmp_path, 2, 5), [5, 6])
    back = plan(tmp_path, 1, 3)
    assert back.run == RunNumbers(1, 10, 13) and back.numbers == [10, 11, 12] and back.continues is None
    commit(tmp_path, back, [10, 12])  # and was killed
    assert plan(tmp_path, 1, 2).numbers == [13, 14]
    again = plan(tmp_path, 2, 6)
    assert again.numbers == [7, 8, 9, 11, 13, 14] and again.run == RunNumbers(2, 5, 15)
