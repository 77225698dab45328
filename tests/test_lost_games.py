"""Where games are lost: by hand, and in a game whose values a search knows exactly."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from benchmarks import lost_games
from benchmarks.lost_games import Course
from pipeline.errors import UsageError
from pipeline.games.specs import parse_game
from pipeline.progress import SILENT
from pipeline.ratings.config import TournamentConfig
from pipeline.ratings.tournament import tournament
from pipeline.run.matches import MatchGame, list_matches, read_match
from tests.helpers import make_model
from tests.test_targets import knows_nothing


def by_hand(judged: list[float]) -> Course:
    """From ply 6 on, the loser at even plies, who always thought 0.25."""
    moves = len(judged) - 1
    by_player = np.arange(moves) % 2 == 0
    own = np.where(by_player, np.float32(0.25), np.float32(np.nan))
    return Course(6, np.array(judged, np.float32), own, by_player)


def test_a_course_by_hand() -> None:
    one = by_hand([0.1, 0.3, 0.6, -0.6, -0.4, -0.7, -1.0])
    assert one.lost_at == 6 + 5  # behind the last value above -0.5
    assert one.was_ahead
    assert one.drops == pytest.approx([0, 0.3, 1.2, 0.2, 0.3, 0], abs=1e-6)  # the opponent's second move gives 0.2 back


def test_a_game_that_was_always_lost_and_one_that_was_lost_at_its_end() -> None:
    assert by_hand([-0.6, -0.9, -1.0]).lost_at == 6
    assert by_hand([0.4, 0.4, -1.0]).lost_at == 6 + 2
    assert not by_hand([0.4, 0.4, -1.0]).was_ahead


def test_the_table_counts_by_stretches() -> None:
    lines = lost_games.table([by_hand([0.1, 0.3, 0.6, -0.6, -0.4, -0.7, -1.0]), by_hand([-0.6, -0.9, -1.0])])
    assert [line.split()[:3] for line in lines[1:]] == [["0-7", "2", "1"], ["8-15", "1", "1"]]
    first, second = (line.split() for line in lines[1:])
    assert first[3:] == ["-0.25", "+0.25", "0.15", "0.15"]  # (0.1 − 0.6) / 2; (0 + 0.3) / 2; (0.3 + 0) / 2
    assert second[2:] == ["1", "+0.10", "+0.25", "1.50", "0.20"]


@pytest.mark.parametrize("loser", [0, 1])
def test_values_are_the_losers(loser: int) -> None:
    """Tic-tac-toe, searched to its end: the loser's mistake costs 1 or more, and nothing else costs anything.

    X takes a corner, O an edge next to it, which loses; or O takes the centre and X lets it win at the end.
    """
    game = parse_game("tictactoe")
    moves = [0, 1, 4, 8, 3, 6, 5] if loser == 1 else [0, 4, 1, 2, 3, 6]
    played = MatchGame(
        index=0, challenger_player=0, opening_plies=0, moves=moves, values_to_move=[None, 0.5] * (len(moves) // 2)
        + [None] * (len(moves) % 2), result_first_player=1 if loser == 1 else -1, end="played_out",
    )  # fmt: skip
    found = lost_games.course(game, knows_nothing, played, loser, 3_000)
    assert len(found.judged) == len(moves) + 1 and found.judged[-1] == -1
    assert (found.by_player == (np.arange(len(moves)) % 2 == loser)).all()
    thought = found.own[np.isfinite(found.own)]
    assert thought.tolist() == ([0.5] * (len(moves) // 2) if loser == 1 else [])
    mistake = 1 if loser == 1 else 4  # O's edge; X's move that doesn't stop 2-4-6
    assert found.drops.argmax() == mistake and found.drops[mistake] > 0.6
    assert found.judged[mistake] > -0.3 and found.judged[mistake + 1] < -0.7
    assert found.lost_at == mistake + 1


def test_it_runs_and_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.chdir(tmp_path)
    model = make_model(Path("saved_models"))
    config = TournamentConfig(player=["random", f"judge={model}@30"], games=20, game="tictactoe", output_dir=Path("m"))
    tournament(config, SILENT)
    (folder,) = list_matches(Path("m"))
    match = read_match(folder)
    losses = lost_games.lost_games(match, "random")
    assert losses and all(game.result_first_player == (1 if player == 1 else -1) for game, player in losses)
    options = [str(folder), "--judge", str(model), "--readouts", "20", "--games", "3"]
    lost_games.main([*options, "--player", "random"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("3 lost games: for good at ply ") and lines[1].split()[:3] == ["plies", "games", "lost"]
    with pytest.raises(UsageError, match=r"--player 'nobody' fits 0 of .* wanted one"):
        lost_games.lost_games(match, "nobody")
    turned = Path("turned") / folder.name
    shutil.copytree(folder, turned)
    games = turned / "games.jsonl"
    header, *rest = games.read_text().splitlines(keepends=True)
    swapped = json.loads(header)
    swapped["players"].reverse()
    games.write_text("".join([json.dumps(swapped) + "\n", *rest]))
    with pytest.raises(SystemExit):
        lost_games.main([str(turned), *options])  # both as --player's default takes them
    assert "the challenger is " in capsys.readouterr().err
    other = make_model(Path("others"), spec="connect4")
    for wrong in (["--player", "nobody"], ["--readouts", "0"], ["--judge", str(other), "--player", "random"]):
        with pytest.raises(SystemExit) as error:
            lost_games.main([*options, *wrong])
        assert error.value.code == 2
        assert "[--player PLAYER]" in capsys.readouterr().err
    (games.parent / "games.jsonl").write_text("nothing")
    with pytest.raises(SystemExit) as error:
        lost_games.main([str(turned), *options[1:]])
    said = capsys.readouterr().err
    assert error.value.code == 1 and said.startswith("python -m benchmarks.lost_games: ") and "usage" not in said
