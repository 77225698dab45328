"""What settings of training learn from the same samples: real training on real chunks, of a small game."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks import learning
from pipeline.games.specs import parse_game
from tests.run.random_games import random_shards


@pytest.fixture
def games(tmp_path: Path) -> Path:
    folder = tmp_path / "selfplay"
    random_shards(folder, parse_game("tictactoe"), 4, 40)
    return folder


def rows(printed: str, setting: str) -> list[tuple[int, float, float]]:
    """samples, policy and value of each line of a setting."""
    pattern = rf"^{re.escape(setting)}: +([\d,]+) samples .* policy ([\d.]+)  value ([\d.]+)  mse [\d.]+$"
    found = re.findall(pattern, printed, re.MULTILINE)
    return [(int(samples.replace(",", "")), float(policy), float(value)) for samples, policy, value in found]


def test_settings_differ_in_what_they_change_alone(games: Path, capsys: pytest.CaptureFixture[str]) -> None:
    muon = "optimizer=muon,network_size=b1c16,learning_rate=0.02,warmup_steps=0,ema_decay=0"
    settings = ["learning_rate=1.0e-9", muon, "learning_rate=1.0e-9,seed=0"]
    common = ["--games", str(games), "--preset", "tictactoe", "--samples", "1600", "--positions", "500"]
    learning.main([*common, *settings])
    printed = capsys.readouterr().out
    still, moved, again = (rows(printed, setting) for setting in settings)
    assert [row[0] for row in still] == [256, 512, 768, 1024, 1280, 1536] == [row[0] for row in moved]
    assert still == again  # the same samples in the same order
    assert moved[-1][1] < still[-1][1] - 0.05  # which moves are legal can be learned
    assert abs(still[-1][1] - still[0][1]) < 0.02  # nothing is learned without a rate; norms' statistics settle


def test_without_games_to_measure_on_nothing_is_trained(
    games: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    preset = tmp_path / "preset.yaml"
    preset.write_text("init: {game: tictactoe}\ngather: {positions_per_chunk: 256, holdout_fraction: 0}\n")
    with pytest.raises(SystemExit) as stopped:
        learning.main(["--games", str(games), "--preset", str(preset), "--samples", "512", "optimizer=adam"])
    found = capsys.readouterr()
    assert stopped.value.code == 2 and "holds out none of these games" in found.err and not found.out


@pytest.mark.parametrize(
    ("arguments", "says", "code"),
    [
        (["optimiser=muon"], "NAME=VALUE, NAME one of", 2),
        (["optimizer=sgd"], "one of adam, muon", 2),
        (["priority_exponent=0.5"], "priority_exponent without effect here", 2),
        (["optimizer=adam", "--samples", "0"], "--samples 0: wanted at least 1", 2),
        (["optimizer=adam", "--games", "nowhere"], "nowhere", 75),
    ],
)
def test_what_is_wrong_is_said(arguments: list[str], says: str, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        learning.main(["--preset", "tictactoe", *arguments])
    assert stopped.value.code == code and says in capsys.readouterr().err
