"""What the loop says about its champion, from real matches of tiny models."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest

from pipeline.evaluate.command import evaluate
from pipeline.evaluate.config import EvaluateConfig
from pipeline.games.specs import parse_game
from pipeline.loop.command import FIRST_SECONDS, GAMES, MOST_TIME, Strength, elo_line
from pipeline.run import layout
from tests.helpers import make_champion
from tests.ratings.test_command import make_match


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
    assert said.startswith("champion 000001-test scores ") and "against 000000-test" in said
    assert run.played[2:] == [("000001-test", one) for one in ("random", "heuristic", "saved_models/000000-test")]
    assert elo.startswith("Elo of the champions ") and elo.endswith(" over 000000-test") and set(elo) & {"▁", "█"}


def test_elo_comes_from_measuring_matches_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three champions, each winning three of four games with the one before: 191 Elo each, less by the prior."""
    monkeypatch.chdir(tmp_path)
    names = [make_champion(layout.SAVED_MODELS, number=number).name for number in range(3)]

    make_match(layout.MEASURED_MATCHES, f"{names[1]}@8", f"{names[0]}@8", [1, 1, 1, -1] * 25)
    before = elo_line()
    assert before.endswith(f" over {names[0]}")
    make_match(layout.MATCHES, f"{names[1]}@2", f"{names[0]}@2", [1] * 100)
    assert elo_line() == before
    # A person has changed the readouts.
    make_match(layout.MEASURED_MATCHES, f"{names[2]}@16", f"{names[1]}@16", [1, 1, 1, -1] * 25)
    found = re.fullmatch(rf"Elo of the champions ▁\S█ \+(\d+) ± (\d+) over {names[0]}", elo_line())
    assert found and 370 < int(found[1]) < 383
    # Each step's error: 95 % of 400 / ln 10 / √(games · p(1 − p)).
    assert int(found[2]) == pytest.approx(2**0.5 * 1.96 * 400 / math.log(10) / (100 * 3 / 16) ** 0.5, abs=3)


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
