"""A model meets itself with other search settings, or with another inference backend."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks import tune
from pipeline.bench.match_speed import SEARCH, play_match, searching
from pipeline.errors import UsageError
from pipeline.games.specs import parse_game
from pipeline.players.loading import load_with_margins
from pipeline.players.searching import SearchPlayer
from pipeline.progress import SILENT
from pipeline.run.matches import MatchGame
from pipeline.run.models import read_model
from pipeline.search.options import SearchOptions
from tests.helpers import make_model
from tests.search.helpers import zero_evaluator

ROOT = Path(__file__).parents[1]


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return make_model(Path("saved_models"))


def test_settings_are_read() -> None:
    base = SearchOptions(c_puct=2.0)
    found = tune.changed(base, "fpu_reduction=0.4,algorithm=gumbel")
    assert (found.c_puct, found.fpu_reduction, found.algorithm) == (2.0, 0.4, "gumbel")
    assert tune.changed(base, "") == base
    for wrong in ("c_pact=1", "c_puct", "c_puct=much", "c_puct=-1", "algorithm=minimax", "c_puct=[1"):
        with pytest.raises(UsageError):
            tune.changed(base, wrong)


def test_each_setting_meets_the_base(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    default = f"c_puct={SEARCH.c_puct}"
    tune.main(["--model", str(model), "--games", "20", "--readouts", "16", "--opening-plies", "2", "c_puct=1", default])
    changed, same = capsys.readouterr().out.splitlines()
    assert changed.startswith("c_puct=1: ") and changed.endswith(")")
    assert same.startswith(default) and "50.0%" in same  # against itself every pair of games is even


@pytest.mark.parametrize(("resign", "ends"), [(-1.0, {"resigned"}), (1.0, {"played_out"})])
def test_a_player_resigns_below_its_value(resign: float, ends: set[str]) -> None:
    """All values lie between -1 and 1."""
    game = parse_game("tictactoe")

    def make(game: Any, rows: int, evaluate: Any, search: SearchOptions, readouts: int) -> SearchPlayer:
        return tune.ResigningPlayer(resign, game, rows, zero_evaluator(game), search, readouts)

    player = searching([None], 8, make=make)  # type: ignore[list-item]
    games = play_match(game, (player, player), [[0], [4]], range(4), 1, 4)
    assert {one.end for one in games.values()} == ends and len(games) == 4


@pytest.mark.parametrize("resign", [None, 0.95])
def test_decided_positions_are_searched_for_the_margin(resign: float | None) -> None:
    """As evaluate's players do. With 0.01 nearly every position is decided."""
    model = read_model(ROOT / "pretrained/go9")
    loaded, game = load_with_margins(model, tune.ROWS, 1, "torch", SILENT), parse_game(model.info.game)

    def moves(margin_from: float) -> list[list[int]]:
        search = tune.changed(SEARCH, f"margin_from={margin_from}")
        games = tune.meet(game, [loaded, loaded], (search, SEARCH), 2, 4, SILENT, opening_plies=20, resign=resign)
        return [one.moves for one in sorted(games, key=lambda one: one.index)]

    assert moves(1) == moves(1) != moves(0.01)


def test_the_interval_is_that_of_pairs() -> None:
    """One pair is 2-0, the other seven 1-1, since the first move wins: a mean of 1/8 with an error of 1/8."""
    games = [
        MatchGame(index=number, challenger_player=number % 2, opening_plies=0, moves=[0], values_to_move=[None],
                  result_first_player=-1 if number == 1 else 1, end="played_out")
        for number in range(16)
    ]  # fmt: skip
    assert tune.described(games).startswith("9 won, 0 drawn, 7 lost: 56.2% (44.0% to 68.5%), +44 Elo (-42 to ")
    assert "(21.5% to " in tune.described([games[0], games[3]] * 4), "without pairs as for single games"


def test_who_searches_more_wisely_wins(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exploration without end plays the readouts evenly over all moves: it doesn't see three in a row coming."""
    tune.main(["--model", str(model), "--games", "60", "--readouts", "64", "--opening-plies", "2", "c_puct=1000"])
    share = float(capsys.readouterr().out.split("lost: ")[1].split("%")[0])
    assert share < 45


def test_wrong_calls_are_refused(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for wrong, code in (
        (["--games", "3", "c_puct=1"], 2),
        (["c_pact=1"], 2),
        ([], 2),
        (["--model", "nowhere", "c_puct=1"], 1),
    ):
        with pytest.raises(SystemExit) as error:
            tune.main([*wrong, *(["--model", str(model)] if "--model" not in wrong else [])])
        assert error.value.code == code
        said = capsys.readouterr().err
        assert ("usage: " in said) == (code == 2)
    assert said.startswith("python -m benchmarks.tune: nowhere: ")


def test_two_backends_meet(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    backends = ["--backend", "int8", "--base-backend", "openvino"]
    tune.main(["--model", str(model), "--games", "8", "--readouts", "8", *backends, ""])
    out = capsys.readouterr().out
    assert out.startswith("base: ") and "Elo" in out
