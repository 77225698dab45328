from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import FileError
from pipeline.games.specs import parse_game
from pipeline.methods.method import FinishedGame
from pipeline.methods.named import method_named
from pipeline.run.shards import GameRecord, RunNumbers, newest_shards, read_shard
from pipeline.selfplay import command
from pipeline.selfplay.command import Committer
from pipeline.selfplay.config import SelfplayConfig
from pipeline.selfplay.playing import Plan, PlayedGame


def finished(game_id: int, player: str = "000001-a") -> FinishedGame:
    one = np.ones(1, int)
    record = GameRecord(game_id=game_id, moves=0 * one, flags=one, root_values=0.0 * one, result_first_player=1.0)
    return FinishedGame(record, player, -1, np.zeros(1, np.int16))


GAME = parse_game("go:9")


def committer(folder: Path, commit_seconds: float) -> Committer:
    config = SelfplayConfig(output_dir=folder, commit_seconds=commit_seconds)
    return Committer(Plan(config, GAME, method_named("alphazero")), {}, lambda: 0, RunNumbers(0, 0, 9))


def written(folder: Path) -> list[int]:
    metas = list(newest_shards(folder))
    return sorted(number for meta in metas for number in read_shard(meta.path, meta).game_ids.tolist())


@pytest.mark.parametrize("commit_seconds", [0.0, 1.0])
def test_what_a_failed_commit_wrote_is_not_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commit_seconds: float
) -> None:
    one = committer(tmp_path, commit_seconds)
    for number in range(4):
        one.add(PlayedGame(GAME, finished(number, "000001-a" if number < 3 else "000002-b"), 2, number))
    real, calls = command.write_shard, iter([True, False])

    def full_at_the_second(*arguments: object, **named: object) -> Path:
        if not next(calls):
            raise FileError("disk", "full")
        return real(*arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(command, "write_shard", full_at_the_second)
    with pytest.raises(FileError):
        one.commit()
    before = written(tmp_path)
    assert before == ([0] if commit_seconds == 0 else [0, 1, 2]) and one.due_in() < 2
    monkeypatch.undo()
    one.commit()
    assert written(tmp_path) == [0, 1, 2, 3]
    assert one.due_in() == float("inf") and one.shards == (4 if commit_seconds == 0 else 2)


@pytest.fixture
def interrupts() -> Iterator[None]:
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("commit_seconds", [0.0, 1.0])
@pytest.mark.parametrize("renames", [1, 2, 3, 4])
def test_an_interrupt_neither_loses_games_nor_writes_them_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interrupts: None, commit_seconds: float, renames: int
) -> None:
    """It comes right after this many renames; a shard takes two. Self-play then commits what still waits."""
    one = committer(tmp_path, commit_seconds)
    for number in range(4):
        one.add(PlayedGame(GAME, finished(number), 1, number))
    rename, left = os.rename, [renames]

    def interrupted(source: Path, target: Path) -> None:
        rename(source, target)
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(os, "rename", interrupted)
    if commit_seconds == 0 or renames <= 2:
        with pytest.raises(KeyboardInterrupt):
            one.commit()
    one.commit()
    assert written(tmp_path) == [0, 1, 2, 3]


def test_games_of_two_generations_are_two_shards(tmp_path: Path) -> None:
    one = committer(tmp_path, 1.0)
    for number, (model, generation) in enumerate([("000001-a", 1), ("000001-a", 2), ("000002-b", 2), ("000001-a", 2)]):
        one.add(PlayedGame(GAME, finished(number, model), generation, number))
    one.commit()
    found = [(meta.path.parts[-3], meta.model, meta.generation, meta.games) for meta in newest_shards(tmp_path)]
    assert sorted(found) == [
        ("000001-a", "000001-a", 1, 1), ("000002+000001-a", "000001-a", 2, 2), ("000002-b", "000002-b", 2, 1)
    ]  # fmt: skip


def test_a_game_that_a_later_model_ended_is_of_that_ones_generation(tmp_path: Path) -> None:
    one = committer(tmp_path, 1.0)
    one.add(PlayedGame(GAME, finished(0, "000002-b"), 1, 0))
    one.commit()
    (found,) = newest_shards(tmp_path)
    assert (found.path.parts[-3], found.generation) == ("000002-b", 2)
