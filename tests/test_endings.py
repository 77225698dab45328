"""How lost games end: by hand, and by a scripted engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import endings
from benchmarks.endings import Ending
from pipeline.games.specs import parse_game
from pipeline.progress import SILENT
from pipeline.ratings.config import TournamentConfig
from pipeline.ratings.tournament import tournament
from pipeline.run.matches import list_matches, read_match
from tests.players.scripted_engine import engine_command


def test_a_summary_by_hand() -> None:
    found = [Ending("m", 0, 60, -3.0, -3.5, False), Ending("m", 1, 120, -74.0, -3.0, True)]
    assert [one.given_up for one in found] == [-0.5, 71]
    said = endings.summary(found)
    assert said.startswith("2 lost games of 90 plies on average: 50.0% end within 10 points of the estimate")
    assert said.endswith("no stone left in 1")


def test_it_reads_matches_and_refuses_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    folders = {}
    for spec in ("go:5", "tictactoe"):
        output = Path(spec.replace(":", ""))
        players = ["random", "heuristic"]
        tournament(TournamentConfig(player=players, games=4, game=spec, output_dir=output, opening_plies=0), SILENT)
        (folders[spec],) = list_matches(output)
    asked = []

    def estimate(engine, game, played, ply, bonus):
        asked.append((played.index, ply, bonus))
        return 4.5

    monkeypatch.setattr(endings, "estimate", estimate)
    options = ["--engine", engine_command(), "--player", "random", "--ply", "20"]
    endings.main([str(folders["go:5"]), *options, "--verbose"])
    *lines, total = capsys.readouterr().out.splitlines()
    assert len(lines) == len(asked) and all(ply == 20 and bonus == 0 for _, ply, bonus in asked)
    assert total.startswith(f"{len(asked)} lost games of ")
    games = {game.index: game for game in read_match(folders["go:5"]).games}
    for line, (index, *_) in zip(lines, asked, strict=True):
        lead = 1 if games[index].result_first_player < 0 else -1  # the loser's, of black's 4.5 points
        assert f"game {index}: {len(games[index].moves)} plies, margin -" in line
        assert f"estimate {4.5 * lead:+g}" in line
    for wrong, said in (
        ([str(folders["tictactoe"]), *options], "wanted Go"),
        ([str(folders["go:5"]), *options, "--ply", "0"], "--ply 0: wanted at least 1"),
        ([str(folders["go:5"]), "--engine", "no-such-program"], "no-such-program"),
    ):
        with pytest.raises(SystemExit):
            endings.main(wrong)
        assert said in capsys.readouterr().err


def test_the_engine_gets_the_game_up_to_the_ply() -> None:
    """With handicap stones white begins, and the komi is lower by what the engine gives for them."""

    class Engine:
        name, commands = "engine", frozenset()

        def __init__(self) -> None:
            self.lines: list[str] = []

        def send(self, line: str, seconds: float) -> str:
            self.lines.append(line)
            return "W+2.5 (upper bound: -2.5, lower: -3.5)" if line == "estimate_score" else ""

    class Played:
        stones = (0, 12)
        moves = (7, 25, 8)

    engine, game = Engine(), parse_game("go:5")
    assert endings.estimate(engine, game, Played, 2, 2.0) == -2.5
    names = [game.action_name(action) for action in (0, 12, 7)]
    assert engine.lines[2:] == [
        "komi 5.5",
        f"play black {names[0]}",
        f"play black {names[1]}",
        f"play white {names[2]}",
        "play black pass",
        "estimate_score",
    ]
