"""What commands do with these games, whatever the method."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.evaluate.command import evaluate
from pipeline.evaluate.config import EvaluateConfig
from tests.test_bad_input import last_line, run


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("init --game backgammon", "backgammon has chance; wanted a board game without chance"),
        ("bench --game backgammon", "backgammon has chance; wanted a board game without chance"),
    ],
)
def test_what_a_method_cannot_do_with_backgammon_is_said_in_one_line(tmp_path, command, says):
    done = run(tmp_path, *command.split())
    assert done.returncode == 2 and says in last_line(done) and len(done.stderr.splitlines()) == 1
    assert not list(tmp_path.rglob("*.json*"))


@pytest.mark.parametrize(("spec", "least"), [("backgammon", 2.0), ("hypergammon", 1.0)])
def test_heuristic_wins_points_from_random(tmp_path: Path, spec: str, least: float) -> None:
    """When written +2.6 and +1.6 points a game over 2,000 games."""
    players = {"white_model": "heuristic", "black_model": "random", "game": spec}
    summary = evaluate(EvaluateConfig(**players, games=80, output_dir=tmp_path))
    assert summary.points is not None and summary.points.per_game > least and summary.passed
