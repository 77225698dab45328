"""What self-play tracks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.methods.method import FinishedGame
from pipeline.run.shards import BOTH, NO_VALUE, End, GameRecord, newest_shards
from pipeline.selfplay import points
from pipeline.selfplay.command import selfplay
from pipeline.selfplay.config import SelfplayConfig
from pipeline.selfplay.points import _about
from tests.helpers import make_champion


@pytest.fixture(autouse=True)
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make_champion(Path("saved_models"))


def config(**options: Any) -> SelfplayConfig:
    quick = {"games": 12, "readouts": 4, "parallel_games": 4, "threads": 1, "backend": "torch"}
    return SelfplayConfig(**(quick | options))


def lines(worker: str = "w00") -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path("data/logs/selfplay", worker, "points.jsonl").read_text().splitlines()]


def test_points_are_about_the_games(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(points, "POINT_SECONDS", 0.0)
    summary = selfplay(config(commit_seconds=0, opponents="random=1,mirror=1", seed=3))
    found = lines()
    assert sum(line["selfplay/positions"] for line in found) == summary.positions
    assert found[-1]["selfplay/games"] == summary.games == 12
    assert sum(sum(line["selfplay/plies"]["counts"]) for line in found) == 12
    met = [line for line in found if "selfplay/against/random/games" in line]
    assert sum(line["selfplay/against/random/games"] for line in met) == summary.opponents["random"]["games"]
    score = sum(line["selfplay/against/random/games"] * line["selfplay/against/random/score"] for line in met)
    assert score == summary.opponents["random"]["wins"] + summary.opponents["random"]["draws"] / 2
    for line in found:
        assert line["selfplay/games_per_second"] > 0 and line["selfplay/training_step"] == 0
        histogram = line["selfplay/value_to_move"]
        assert -1 <= histogram["edges"][0] <= histogram["edges"][-1] <= 1
        assert "selfplay/tokens_per_second" not in line


def test_x_goes_on_over_runs_and_each_worker_has_its_own() -> None:
    for _ in range(2):
        selfplay(config())
    selfplay(config(worker="w01", track="none", logdir=Path("other")))
    assert [line["selfplay/games"] for line in lines()] == [12, 24]
    (line,) = map(json.loads, Path("other/selfplay/w01/points.jsonl").read_text().splitlines())
    assert line["selfplay/games"] == 12 and not Path("data/logs/selfplay/w01").exists()
    assert list(Path("data/logs/selfplay/w00").glob("events.*"))


def test_workers_report_through_the_command_and_write_nothing() -> None:
    selfplay(config(workers=2, track="tensorboard"))
    line = lines()[-1]  # a slow start takes more than one
    assert line["selfplay/games"] == 12 and line["selfplay/evaluations_per_second"] > 0
    assert len(list(Path("data/logs/selfplay/w00").glob("events.*"))) == 1


def test_games_are_the_same_whatever_is_tracked(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any) -> None:
        raise RuntimeError("no")

    selfplay(config(seed=1))
    with monkeypatch.context() as patched:
        patched.setattr("pipeline.tracking.jsonl.JsonLines.add", fail)
        patched.setattr("pipeline.tracking.tensorboard.EventFile.add", fail)
        selfplay(config(seed=1, output_dir=Path("b/data/selfplay")))
    one, other = (next(newest_shards(Path(folder, "data/selfplay"))).path for folder in (".", "b"))
    assert sum(meta.games for meta in newest_shards(Path("b/data/selfplay"))) == 12
    assert len(lines()) == 1 and one.name != other.name


def game(moves: int, result: float, end: End = End.PLAYED_OUT, resigner: int = -1, **more: Any) -> FinishedGame:
    record = GameRecord(
        game_id=1, moves=np.zeros(moves, np.uint16), result_first_player=result, end=end,
        flags=np.zeros(moves, np.uint8), root_values=np.full(moves, 0.5, np.float32), **more,
    )  # fmt: skip
    return FinishedGame(record, "m", resigner, np.zeros(1, np.int16))


def test_statistics() -> None:
    games = [
        game(4, 1, learner=BOTH, resigner=1),  # who would have resigned lost
        game(6, -2, End.RESIGNED, learner=BOTH, resigner=1),  # here it won
        game(5, 0, End.MOVE_LIMIT, opponent="random", learner=0),
        game(5, -1, opponent="random", learner=1),
    ]
    games[0].record.flags[:3] = NO_VALUE
    found = _about(games, {2.0: "gammon"})
    samples = {name: value for name, value in found.items() if isinstance(value, np.ndarray)}
    assert {name: len(value) for name, value in samples.items()} == {"plies": 4, "value_to_move": 17}
    assert {name: value for name, value in found.items() if name not in samples} == {
        "positions": 20, "plies_per_game": 5, "first_player_score": 1.5 / 4, "draw_share": 0.25,
        "first_player_points": -0.5, "gammon_share": 0.25, "resigned_share": 0.25, "move_limit_share": 0.25,
        "settled_share": 0, "wrong_resignation_share": 0.5,
        "against/random/games": 2, "against/random/score": 0.75,
    }  # fmt: skip
