"""Records of backgammon: GNU Backgammon imports what we write and means the same games; what is read is checked."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import FileError, MuGoError, UsageError
from pipeline.evaluate.command import evaluate
from pipeline.evaluate.config import EvaluateConfig
from pipeline.families.backgammon.game import Backgammon
from pipeline.families.backgammon.kernels import points_won
from pipeline.families.backgammon.records import gammon_sgf, mat_record, read_mat, turns
from pipeline.games.contract import CHANCE
from pipeline.games.records import RecordText
from pipeline.games.replay import replay_one
from pipeline.games.specs import parse_game
from pipeline.games.testing import random_moves
from pipeline.players.engine_process import GAMES_FOLDER
from pipeline.reports.show import game_records, show
from pipeline.run.matches import read_match

GNUBG = shutil.which("gnubg") or shutil.which("gnubg", path=GAMES_FOLDER)
needs_gnubg = pytest.mark.skipif(GNUBG is None, reason="gnubg isn't installed (Debian: apt install gnubg)")
GAME: Backgammon = parse_game("backgammon")  # type: ignore[assignment]
TEXT = RecordText("000001-a", "random", event="a match", round="7")


@pytest.fixture(scope="module")
def games() -> list[list[int]]:
    """Whole games of random moves: hits, dances, doubles, bearing off, every kind of win, a turn of 28 characters."""
    return [random_moves(GAME, seed) for seed in (*range(8), 38)]


def imported(folder: Path, command: str, files: Sequence[str]) -> list[dict[str, Any]]:
    """What GNU Backgammon makes of each file: its own description of the match."""
    script = folder / "read.py"
    script.write_text(
        "import gnubg, json\n"
        "gnubg.command('set confirm new off')\n"
        "gnubg.command('set jacoby off')\n"  # by default gammons count 1 in money play without a cube
        "with open('found.json', 'w') as out:\n"
        f"    for name in {list(files)!r}:\n"
        f"        gnubg.command('{command} ' + name)\n"
        "        out.write(json.dumps(gnubg.match(analysis=0, boards=0, statistics=0, verbose=0)) + '\\n')\n"
    )
    words = [str(GNUBG), "--tty", "--quiet", "--no-rc", "--python", "read.py"]
    subprocess.run(words, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=True)
    return [json.loads(line) for line in (folder / "found.json").read_text().splitlines()]


def check_imported(moves: list[int], found: dict[str, Any]) -> None:
    """That its turns and result are ours."""
    played, last = turns(GAME, moves)
    one = found["games"][0]
    assert found["match-info"]["X"]["name"] == TEXT.first and found["match-info"]["O"]["name"] == TEXT.second
    assert found["match-info"]["match-length"] == 0
    theirs = [turn for turn in one["game"] if turn["action"] == "move"]
    assert len(theirs) == len(played)
    for our, their in zip(played, theirs, strict=True):
        assert their["player"] == "XO"[our.player] and sorted(their["dice"]) == sorted(map(int, our.dice))
        # Steps of one checker may be joined; what counts is what leaves and reaches each point.
        steps = their["move"] or []
        assert net(steps) == net(our.steps)
    points = int(points_won(last[None], GAME.num_checkers)[0])
    assert (one["info"]["winner"], one["info"]["points-won"]) == ("XO"[points < 0], abs(points))


def net(steps: Sequence[Sequence[int]]) -> dict[int, int]:
    found: dict[int, int] = {}
    for source, target in steps:
        found[source] = found.get(source, 0) - 1
        found[target] = found.get(target, 0) + 1
    return {point: count for point, count in found.items() if count and point}


@needs_gnubg
@pytest.mark.parametrize(("suffix", "command"), [(".mat", "import mat"), (".sgf", "load match")])
def test_gnu_backgammon_imports_them(tmp_path: Path, games: list[list[int]], suffix: str, command: str) -> None:
    names = [f"{number}{suffix}" for number in range(len(games))]
    for name, moves in zip(names, games, strict=True):
        text = mat_record(GAME, moves, TEXT) if suffix == ".mat" else gammon_sgf(GAME, moves, TEXT, ["a ] comment"] * 9)
        (tmp_path / name).write_text(text)
    found = imported(tmp_path, command, names)
    assert len(found) == len(games)
    for moves, one in zip(games, found, strict=True):
        check_imported(moves, one)


@needs_gnubg
def test_what_gnu_backgammon_exports_is_read(tmp_path: Path) -> None:
    commands = [
        "set automatic game off", "set display off", "set player 0 gnubg", "set player 1 gnubg", "set cube use off",
        "set player 0 chequer evaluation plies 0", "set player 1 chequer evaluation plies 0", "set seed 5",
        "set jacoby off", "set confirm new off", "new session", "export match mat a.mat", "quit",
    ]  # fmt: skip
    words = [str(GNUBG), "--tty", "--quiet", "--no-rc"]
    subprocess.run(
        words, cwd=tmp_path, input="\n".join(commands).encode(), capture_output=True, timeout=120, check=True
    )
    (one,) = read_mat(tmp_path / "a.mat", GAME)
    assert len(one.moves) > 20 and one.points and "gnubg" in one.players
    text = "\n".join(show(tmp_path / "a.mat"))
    assert "match of backgammon" in text and one.players[0] in text


def test_what_is_written_is_read_back(tmp_path: Path, games: list[list[int]]) -> None:
    path = tmp_path / "a.mat"
    together = "".join(
        mat_record(GAME, moves, TEXT).replace(" Game 1", f" Game {number}") for number, moves in enumerate(games, 1)
    )
    path.write_text(together)
    found = read_mat(path, GAME)
    assert [one.moves for one in found] == games
    for one in found:
        last = list(replay_one(GAME, one.moves))[-1]
        assert one.points == points_won(last, 15)[0] and not one.end and one.players == ("000001-a", "random")
    shown = "\n".join(show(path, game=3, moves=True))
    assert "game 3: X 000001-a, O random" in shown and shown.count("+-13-14-15") == len(games[3]) + 1
    cut = games[0][:20]
    for loser, points in ((0, -1), (1, 1)):  # whoever is to move
        path.write_text(mat_record(GAME, cut, TEXT, loser))
        (resigned,) = read_mat(path, GAME)
        assert resigned.end == "resigned" and resigned.moves == cut and resigned.points == points
        assert f"RE[{'BW'[loser]}+1R]" in gammon_sgf(GAME, cut, TEXT, (), loser)


def test_a_turn_that_fills_its_column_is_apart_from_the_next(games: list[list[int]]) -> None:
    rows = [line for line in mat_record(GAME, games[-1], TEXT).splitlines() if "bar/20 21/16 19/14 18/13" in line]
    assert [" ".join(row.split()[1:6]) for row in rows] == ["55: bar/20 21/16 19/14 18/13"]


GOOD = """ 0 point match

 Game 1
 a : 0                       b : 0
  1) 31: 8/5 6/5                 62: 24/18 13/11
  2) 44: 24/16(2)
      Wins 1 point
"""
FUZZED = {"mat": (GOOD, lambda path: read_mat(path, GAME))}  # see tests/families/__init__.py


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        ("31: 8/5", "71: 8/5", r"line 5: 71: 8/5 6/5: backgammon: '71' is not a possible throw here"),
        ("31: 8/5", "33: 8/5", r"line 5: 33: .* is not a possible throw here"),  # no double begins a game
        ("8/5 6/5", "8/5 7/6", r"line 5: 31: 8/5 7/6: backgammon: '8/5 7/6' is not a legal move here; wanted e.g."),
        ("24/16(2)", "24/16(16)", r"line 6: 44: 24/16\(16\): .*is not a legal move here"),
        ("24/16(2)", "cannot move", r"line 6: 44: cannot move: backgammon: 'pass' is not a legal move here"),
        ("24/16(2)", f"{'':27}11: 8/7 8/7", "line 6: 44: no move, though there is one, and the game goes on"),
        ("      Wins 1 point\n", "", "at its end: game 1 has no result after 6 plies; was the file cut off"),
        (" a : 0                       b : 0\n", "", r"line 4: '1\) 31: 8/5 6/5 .*wanted both players"),
        (" Game 1\n", "", "no line 'Game 1'; wanted a match of backgammon"),
        ("44: 24/16(2)", "Doubles => 4", "line 6: 'Doubles => 4': the cube was at 1"),
        ("44: 24/16(2)", "Takes", "line 6: 'Takes': there is no double to answer"),
        ("44: 24/16(2)", "Doubles => 2\n  3) 44: 24/16(2)", "line 7: 44: .*: the other player hasn't taken the cube"),
        ("44: 24/16(2)", "Doubles => 2                Doubles => 4", "line 6: 'Doubles => 4': not this player's turn"),
        ("31: 8/5 6/5                 62: 24/18 13/11", "Doubles => 2", "line 5: 'Doubles => 2': not at this time"),
        ("44: 24/16(2)\n      Wins 1 point", "Doubles => 2                Drops\n      Wins 2 points",
         r"game 1: \+2 points for the first player; the moves give \+1"),
        ("44: 24/16(2)\n      Wins 1 point", "Doubles => 2                Takes\n      Wins 3 points",
         r"game 1: \+3 points for the first player; the moves give 2 times 1, 2 or 3"),
        ("  2) 44", "Hello\n  2) 44", "line 6: 'Hello'; wanted turns"),
        ("62: 24/18 13/11\n", "62: 24/18 13/11\n  9)                             11: 8/7 8/7 6/5 6/5\n",
         "line 6: 11: .*a turn of the player who has just moved"),
        ("Wins 1 point\n", "Wins 1 point\n  3) 11: 8/7\n", "line 8: a turn after the end"),
        ("Wins 1 point", f"Wins {'9' * 5000} points", "line 7: 5,018 characters; wanted at most 500"),
        ("Wins 1 point", f"Wins {'9' * 99} points", "line 7: 'Wins 9+'; wanted turns"),
        ("Game 1\n", f"Game {'9' * 99}\n", "no line 'Game 1'"),
        (" a : 0    ", f" {'a : 1 ' * 50_000}", "line 4: 300,0.. characters"),
        ("31: 8/5", "٣١: 8/5", r"line 5: '٣١: 8/5"),
    ],
)  # fmt: skip
def test_damaged_and_illegal_files_say_what_is_wrong(tmp_path: Path, before: str, after: str, problem: str) -> None:
    path = tmp_path / "a.mat"
    path.write_text(GOOD)
    assert read_mat(path, GAME)[0].points == 1
    assert GOOD.count(before) == 1
    path.write_text(GOOD.replace(before, after))
    with pytest.raises(FileError, match=problem) as caught:
        read_mat(path, GAME)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


# Games are separated by an empty line, rows by ";", columns by "|". Results: winner, points, throws. GNU Backgammon
# wrote these matches, except for players and scores, and reads them so.
MATCHES = {
    "full": (3, [["Beta", 6, 31]], """| 65: 24/18 18/13; 53: 6/3 8/3 | 64: 24/20 20/14; 63: 13/7 24/21 | 63: 13/10 14/8
        55: 21/16 16/11 13/8 11/6 | 44: 13/9 13/9 8/4 8/4; 11: 8/7 6/5 6/5 6/5 | Doubles => 2; Takes | 41: 6/5 9/5
        42: 8/4 8/6 | 43: 9/5 13/10; 41: 5/4 13/9 | 41: 10/9 9/5; 61: 9/3 3/2 | 55: 8/3 8/3 6/1* 6/1
        54: | 55: 13/8 13/8 10/5 8/3; 51: | 31: 3/2 5/2; 66: | 52: 8/6 5/0; 55: | 42: 6/2 2/0; 62: | 52: 6/1 6/4
        53: | 66: 5/0 5/0 5/0 4/0; 43: | 33: 4/1 4/1 3/0 3/0; 53: 25/22 13/8 | 22: 2/0 2/0 1/0 1/0; | Wins 6 points"""),
    "redouble": (3, [["Beta", 1, 1], ["Alpha", 2, 3], ["Alpha", 1, 3]],
        """52: 13/8 13/11 | Doubles => 2; Drops | Wins 1 point

        | 42: 8/4 6/4; 64: 24/18 18/14 | Doubles => 2; Takes | 31: 8/5 6/5; Doubles => 4 | Drops; Wins 2 points |

        61: 13/7 8/7 | 43: 24/20 13/10; 52: 13/8 6/4 |; Wins 1 point |"""),
    "resigned": (3, [["Beta", 2, 4], ["Beta", 2, 2]], """31: 8/5 6/5 | 65: 24/18 18/13; Doubles => 2 | Takes
        55: 8/3 8/3 6/1* 6/1 | 66:; | Wins 2 points

        61: 13/7 8/7 | 43: 24/20 13/10; | Wins 2 points"""),
    "beaver": (0, [["Alpha", 4, 3]], """31: 8/5 6/5 | 65: 24/18 18/13; Doubles => 2 | Beavers => 4; 42: 8/4 6/4 |
        Wins 4 points |"""),
}  # fmt: skip
REMARKS = {  # by match and game
    "full": ["Beta doubles to 2; Alpha takes"],
    "redouble": ["Beta doubles to 2; Alpha drops", "Beta doubles to 2; Alpha takes Alpha doubles to 4; Beta drops", ""],
    "resigned": ["Alpha doubles to 2; Beta takes", ""],
    "beaver": ["Alpha doubles to 2; Beta beavers to 4"],
}


def match_of(length: int, results: list[list[Any]], text: str) -> str:
    lines, score = [f" {length} point match"], {"Alpha": 0, "Beta": 0}
    for number, ((winner, points, _), rows) in enumerate(zip(results, text.split("\n\n"), strict=True), 1):
        lines += ["", f" Game {number}", f" Alpha : {score['Alpha']:<23}Beta : {score['Beta']}"]
        score[winner] += points
        for row, cells in enumerate(rows.replace("\n", ";").split(";"), 1):
            left, right = (" " * cell[:1].isalpha() + cell for cell in map(str.strip, cells.split("|")))
            begin = "    " if "Wins" in left or (not left and "Wins" in right) else f"{row:3d})"
            lines.append(f"{begin} {left:<28}{right}".rstrip())
    return "\n".join([*lines, "", ""])


@pytest.mark.parametrize("name", MATCHES)
def test_matches_with_a_cube_are_read(tmp_path: Path, name: str) -> None:
    (length, results, text), path = MATCHES[name], tmp_path / "a.mat"
    path.write_text(match_of(length, results, text))
    games = read_mat(path, GAME)
    score = {"Alpha": 0, "Beta": 0}
    for one, (winner, points, throws), remarks in zip(games, results, REMARKS[name], strict=True):
        assert (one.players[one.points < 0], abs(one.points)) == (winner, points)
        assert sum(GAME.to_move(state)[0] == CHANCE for state in list(replay_one(GAME, one.moves))[:-1]) == throws
        assert " ".join(one.remarks.values()) == remarks
        assert one.score == tuple(score[player] for player in one.players)
        assert one.notes == ((f"it is of a match to {length} points",) if length else ())
        score[winner] += points
    shown = "\n".join(show(path, game=0))
    assert f"wins {results[0][1]} point" in shown and REMARKS[name][0] in shown
    if name == "redouble":
        table = "\n".join(show(path))
        assert "score before" in table and "O wins 2 points" in table and "a double was dropped" in table


def test_a_double_without_an_answer_is_said(tmp_path: Path) -> None:
    path = tmp_path / "a.mat"
    path.write_text(match_of(*MATCHES["redouble"]).replace("Drops", "     ", 1))
    first = read_mat(path, GAME)[0]
    assert first.end == "a double was not answered" and " ".join(first.remarks.values()) == "Beta doubles to 2"


@needs_gnubg
def test_gnu_backgammon_reads_the_same_matches(tmp_path: Path) -> None:
    for name, match in MATCHES.items():
        (tmp_path / f"{name}.mat").write_text(match_of(*match))
    for name, found in zip(MATCHES, imported(tmp_path, "import mat", [f"{name}.mat" for name in MATCHES]), strict=True):
        ours = read_mat(tmp_path / f"{name}.mat", GAME)
        assert found["match-info"]["match-length"] == MATCHES[name][0] and len(found["games"]) == len(ours)
        for one, their in zip(ours, found["games"], strict=True):
            alpha = found["match-info"]["X"]["name"] == "Alpha"
            winner = {"X": "Alpha", "O": "Beta"}[their["info"]["winner"]] if alpha else ""
            assert (winner, their["info"]["points-won"]) == (one.players[one.points < 0], abs(one.points))
            cube = [turn["action"] for turn in their["game"] if turn["action"] in ("double", "take", "drop")]
            assert len(cube) >= sum(told.count("doubles") for told in one.remarks.values())


def test_matches_of_other_programs(tmp_path: Path) -> None:
    path = tmp_path / "a.mat"
    text = GOOD.replace(" a :", " José :").replace("Wins 1 point", "Wins 1 point and the match")
    path.write_bytes(text.encode("cp1252"))
    (one,) = read_mat(path, GAME)
    assert one.players == ("José", "b") and one.notes == ("its text is in Windows-1252",)
    path.write_text(GOOD.replace("24/16(2)", ""))
    (one,) = read_mat(path, GAME)
    assert len(one.moves) == 5 and one.points == 1 and one.end == "resigned"  # after the throw
    second = GOOD.replace(" 0 point match\n", "").replace("Game 1", "Game 2").replace("a : 0", "a : 2")
    path.write_text(GOOD + second)
    assert read_mat(path, GAME)[1].notes == ("the score before game 2 is 2–0; the games before it give 1–0",)
    third = second.replace("Game 2", "Game 3:")
    for cut, problem in (("      Wins", "no result after 6 plies"), (" a : 2", "no players")):
        path.write_text(GOOD + second + third[: third.index(cut)])
        first, last = read_mat(path, GAME)
        assert first.notes == () and last.notes[1:] == (f"left out: game 3 has {problem}; was the file cut off?",)
    path.write_text(GOOD + second.replace("Wins 1 point", "") + third)
    with pytest.raises(FileError, match="game 2 has no result"):  # only the last one may be unfinished
        read_mat(path, GAME)


def test_words_of_extreme_gammon(tmp_path: Path) -> None:
    path = tmp_path / "a.mat"
    for name in ("full", "redouble"):
        path.write_text(match := match_of(*MATCHES[name]))
        theirs = match.replace("=>", "to").replace("Drops", "Passes").replace("54:\n", "54: No Move\n")
        wanted = read_mat(path, GAME)
        path.write_text(re.sub(r"(Game \d)", r"\1:", theirs))
        assert theirs != match
        for one, same in zip(read_mat(path, GAME), wanted, strict=True):
            assert (one.moves, one.points, one.remarks) == (same.moves, same.points, same.remarks)
    path.write_text(match_of(*MATCHES["full"]).replace("54:\n", "54: Passes\n"))
    assert len(read_mat(path, GAME)) == 1


def test_every_cut_is_noticed_or_leaves_whole_games(tmp_path: Path, games: list[list[int]]) -> None:
    path = tmp_path / "a.mat"
    text = mat_record(GAME, games[1], TEXT)
    for at in range(0, len(text) - 20, 41):
        path.write_text(text[:at])
        with pytest.raises(FileError):
            read_mat(path, GAME)
    path.write_bytes(b"\xff\x81" * 500)
    with pytest.raises(FileError, match="in no known encoding"):
        read_mat(path, GAME)


def test_records_of_a_match_through_show(tmp_path: Path) -> None:
    players = {"white_model": "heuristic", "black_model": "random", "game": "backgammon"}
    summary = evaluate(EvaluateConfig(**players, games=2, output_dir=tmp_path))
    folder = Path(summary.match)
    match = read_match(folder)
    (name, text), (other, second) = game_records(folder, form="mat")
    assert (name, other) == (f"{folder.name}-000000.mat", f"{folder.name}-000001.mat")
    path = tmp_path / name
    path.write_text(text)
    assert read_mat(path, GAME)[0].moves == match.games[0].moves
    assert " heuristic : 0" in text and " random : 0 " in second
    sgf = [text for _, text in game_records(folder)]
    assert all("GM[6]" in text for text in sgf) and "PW[heuristic]PB[random]" in sgf[0]
    text = "\n".join(show(folder, game=0, moves=True))
    assert "+-13-14-15-16-17-18" in text and "bar: X" in text


def test_who_is_not_written_so(tmp_path: Path) -> None:
    hyper: Backgammon = parse_game("hypergammon")  # type: ignore[assignment]
    moves = random_moves(hyper, 0)
    with pytest.raises(MuGoError, match="hypergammon; SGF supports both"):
        mat_record(hyper, moves, TEXT)
    assert "Hypergammon3" in gammon_sgf(hyper, moves, TEXT)
    players = {"white_model": "random", "black_model": "heuristic", "game": "tictactoe"}
    folder = Path(evaluate(EvaluateConfig(**players, games=2, output_dir=tmp_path, opening_plies=1)).match)
    with pytest.raises(UsageError, match=r"--mat: .* holds games of tictactoe; \.mat is for backgammon"):
        list(game_records(folder, form="mat"))
