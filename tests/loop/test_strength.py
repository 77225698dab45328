"""What the loop says about its champion, from real matches of tiny models."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline.evaluate.command import evaluate
from pipeline.evaluate.config import EvaluateConfig
from pipeline.games.specs import parse_game
from pipeline.loop.command import FIRST_SECONDS, GAMES, MOST_TIME, Strength
from pipeline.run import layout
from tests.helpers import make_champion


class Run:
    def __init__(self) -> None:
        self.said: list[str] = []
        self.played: list[tuple[str, str]] = []
        self.strength = Strength(self.play, self.said.append)

    def play(self, model: Path, opponent: str) -> bool:
        self.played.append((model.name, opponent))
        terms = {"games": GAMES, "readouts": 0, "promote": False, "output_dir": layout.MEASURED_MATCHES}
        evaluate(EvaluateConfig(white_model=str(model), black_model=opponent, **terms))
        return True

    def show(self, seconds: float, measuring: float = 0.0, is_last: bool = False) -> list[str]:
        self.said.clear()
        self.strength.show(seconds, measuring, is_last)
        return self.said


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    layout.SAVED_MODELS.mkdir()
    return Run()


def test_each_champion_is_measured_once_from_the_second_minute_on(run: Run) -> None:
    assert run.show(1000) == []  # no champion yet
    make_champion(layout.SAVED_MODELS)
    assert run.show(FIRST_SECONDS - 1, is_last=True) == [] and not run.played
    (said,) = run.show(FIRST_SECONDS)
    assert run.played == [("000000-test", "random"), ("000000-test", "heuristic")]
    assert said.startswith("champion 000000-test scores ")
    assert f"{100 * share('random'):.0f} % against random ({GAMES}" in said and said.endswith("; without search")
    assert run.show(1000, is_last=True) == [] and len(run.played) == 2
    make_champion(layout.SAVED_MODELS, number=1, seed=1)
    said, elo = run.show(1000)
    assert said.startswith("champion 000001-test scores ")
    assert elo.startswith("Elo of the champions ") and elo.endswith("; random is 0") and set(elo) & {"▁", "█"}


def share(opponent: str) -> float:
    folder = layout.MEASURED_MATCHES / layout.match_name("000000-test", opponent)
    summary = json.loads((folder / layout.MATCH_SUMMARY).read_text())
    return float(summary["wins"] + summary["draws"] / 2) / GAMES


def test_measuring_takes_a_small_share_of_the_time_but_for_the_last_champion(run: Run) -> None:
    make_champion(layout.SAVED_MODELS)
    assert run.show(1000, measuring=1000 * MOST_TIME + 1) == []
    assert len(run.show(1000, measuring=1000 * MOST_TIME + 1, is_last=True)) == 1


def test_a_game_without_a_heuristic_is_measured_against_random_play_alone(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_champion(layout.SAVED_MODELS)
    monkeypatch.setattr(type(parse_game("tictactoe")), "heuristic", lambda game: None)
    run.show(1000)
    assert [opponent for _, opponent in run.played] == ["random"]


def test_a_champion_that_cannot_be_read_is_left_to_the_commands(run: Run) -> None:
    (make_champion(layout.SAVED_MODELS) / layout.MODEL_JSON).write_text("{}")
    assert run.show(1000) == [] and not run.played
