"""What policy targets are worth: in a game where every move's value is known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks import targets
from pipeline.errors import UsageError
from pipeline.games.specs import parse_game
from pipeline.progress import SILENT
from pipeline.search.options import SearchOptions
from tests.helpers import make_model


def knows_nothing(planes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.zeros((len(planes), 9), np.float32), np.zeros(len(planes), np.float32)


def test_settings_are_read() -> None:
    assert targets.setting("readouts=32,algorithm=gumbel") == (SearchOptions(algorithm="gumbel"), 32)
    assert targets.setting("readouts=2") == (SearchOptions(), 2)
    for wrong in ("algorithm=gumbel", "readouts=1", "readouts=x", "readouts=4,readouts=5", "readouts=4,c_pact=1", ""):
        with pytest.raises(UsageError):
            targets.setting(wrong)


def test_a_lesson_by_hand() -> None:
    positions = targets.Positions(
        games=[[0], [1]],
        priors=np.full((2, 3), 1 / 3, np.float32),
        values=np.array([[0.5, -0.5, 0.9], [-1.0, -0.2, 0.0]], np.float32),
        legal=np.array([[True, True, False], [True, True, True]]),  # the first one's third move doesn't count
    )
    policies = np.array([[[0.5, 0.5, 0], [0, 1, 0]], [[1, 0, 0], [0.5, 0.25, 0.25]]], np.float64)
    found = targets.lesson(positions, policies)
    assert found.regret == pytest.approx((0.5 + 0.2 + 0.0 + 0.55) / 4)  # of 0.5 and 0.0: the best legal moves
    assert found.mode == pytest.approx((0.0 + 0.2 + 0.0 + 1.0) / 4)
    assert found.entropy == pytest.approx((np.log(2) + 0 + 0 + 1.5 * np.log(2)) / 4)
    assert found.best == pytest.approx((np.log(0.75) + np.log(0.125)) / 2)


def test_moves_are_judged_by_who_makes_them() -> None:
    """Tic-tac-toe, searched to its end: a move that wins is worth 1 and one that lets the other win -1, for both."""
    game = parse_game("tictactoe")
    games = [[0, 3, 1, 4], [0, 3, 1, 4, 8], [0, 3, 1]]  # X wins by 2; O by 5; X is about to win, and 2 puts it off
    positions = targets.judged(game, knows_nothing, games, 400, 0, SILENT)
    assert positions.values[0, 2] == 1 and positions.values[0, 8] < -0.8
    assert positions.values[1, 5] == 1 and positions.values[1, 6] < -0.8
    assert positions.values[2, 2] > positions.values[2, [4, 5, 6, 7, 8]].max()
    assert (positions.legal.sum(axis=1) == [5, 4, 6]).all()


@pytest.mark.parametrize("config", [SearchOptions(), SearchOptions(algorithm="gumbel", max_num_considered_actions=4)])
def test_more_readouts_teach_more(config: SearchOptions) -> None:
    game = parse_game("tictactoe")
    positions = targets.make_positions(game, knows_nothing, 60, 200, 0, SILENT)
    few, many = (
        targets.lesson(positions, targets.taught(game, knows_nothing, positions, config, readouts, 2, 1))
        for readouts in (4, 100)
    )
    itself = targets.lesson(positions, positions.priors[None])
    assert many.regret < 0.75 * few.regret < 0.75 * itself.regret


def test_it_runs_and_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.chdir(tmp_path)
    model = make_model(Path("saved_models"))
    small = ["--model", str(model), "--positions", "8", "--deep", "8"]
    targets.main([*small, "readouts=8", "readouts=8,algorithm=gumbel"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0].strip() for line in lines[1:]] == [
        "the model itself", "readouts=8", "readouts=8,algorithm=gumbel",
    ]  # fmt: skip
    for wrong, code in (
        (["c_puct=1"], 2),
        (["--positions", "0", "readouts=8"], 2),
        (["--model", "nowhere", "readouts=8"], 1),
    ):
        with pytest.raises(SystemExit) as error:
            targets.main([*small, *wrong])
        assert error.value.code == code
