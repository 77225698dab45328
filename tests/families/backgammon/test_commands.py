"""What commands do with these games, whatever the method."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pipeline.evaluate.command import evaluate
from pipeline.evaluate.config import EvaluateConfig
from tests.chaos.workshop import Workshop
from tests.test_bad_input import last_line


@pytest.mark.skipif(sys.platform != "linux", reason="forks processes as only Linux can")
@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("init --game backgammon", "backgammon has chance; wanted a board game without chance"),
        ("bench --game backgammon", "backgammon has chance; wanted a board game without chance"),
    ],
)
def test_what_a_method_cannot_do_with_backgammon_is_said_in_one_line(
    workshop: Workshop, tmp_path: Path, command: str, says: str
) -> None:
    done = workshop.run(command.split(), tmp_path)
    assert done.code == 2 and says in last_line(done) and len(done.said.splitlines()) == 1
    assert not list(tmp_path.rglob("*.json*"))


@pytest.mark.parametrize(("spec", "least"), [("backgammon", 2.0), ("hypergammon", 1.0)])
def test_heuristic_wins_points_from_random(tmp_path: Path, spec: str, least: float) -> None:
    """When written +2.6 and +1.6 points a game over 2,000 games."""
    players = {"white_model": "heuristic", "black_model": "random", "game": spec}
    summary = evaluate(EvaluateConfig(**players, games=80, output_dir=tmp_path))
    assert summary.points is not None and summary.points.per_game > least and summary.passed
