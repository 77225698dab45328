"""``play`` by scripted input: games against models and built-in players, every command, bad input."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import FileError, MuGoError, UsageError
from pipeline.games.sgf import read_sgf
from pipeline.games.specs import parse_game
from pipeline.play.config import EngineConfig, PlayConfig
from pipeline.play.engine import engine
from pipeline.play.findings import Findings
from pipeline.play.game_in_progress import GameInProgress
from pipeline.play.session import SearchSession
from pipeline.play.terminal import COMMANDS, SearchOpponent, Table, play
from pipeline.search.options import SearchOptions
from tests.helpers import make_model
from tests.players.finished import GO, behind, white_wins
from tests.players.scripted_engine import engine_command
from tests.search.helpers import hashed_evaluator

ROOT = Path(__file__).parents[2]


def run(*lines: str, model: str = "heuristic", game: str | None = "go:5", **options) -> str:
    """Everything that is shown while these lines are typed."""
    shown = io.StringIO()
    options = {"seed": 1, "backend": "torch", "readouts": 8, **options}
    play(PlayConfig(model=model, game=game, **options), typed=io.StringIO("".join(f"{line}\n" for line in lines)),
         shown=shown)  # fmt: skip
    return shown.getvalue()


def refusals(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("? ")]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch) -> None:
    """Run in a temporary folder, because a typed line may save a game to the current one."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    return str(make_model(tmp_path_factory.mktemp("models"), spec="go:5"))


def test_a_game_against_a_model(model, tmp_path):
    path = tmp_path / "game.sgf"
    text = run("c3", "hint", "B2", f"sgf {path}", "resign", f"sgf {path}", model=model, game=None)
    assert text.startswith("You are X, 000000-test is O. Type a move (A5), or help.\n")
    assert len(re.findall(r"000000-test: \w+   \(winrate \d+%\)", text)) == 2
    assert text.count("to move, ply") == 5 and "ply 4" in text  # the empty board, and one after each move
    hints = re.findall(r"^\w+ +winrate +\d+% +\d+ visits +prior +\d+%   [A-E]\d", text, re.MULTILINE)
    assert 0 < len(hints) <= 5 and not refusals(text)
    assert "The game is over: O wins by resignation. You lose." in text
    record = read_sgf(path.read_bytes(), parse_game("go:5"))
    assert (record.black, record.white, record.result) == ("a person", "000000-test", "W+R") and len(record.moves) == 4


def test_the_raw_policy_plays_and_hints_too(model):
    text = run("hint", "C3", model=model, game=None, readouts=0)
    assert "0 visits" in text and "ply 2" in text and not refusals(text)


def test_white_waits_for_the_first_move(model):
    text = run("undo", "quit", model=model, game="go:5", colour="w")
    assert "is X" in text.splitlines()[0] and "O to move, ply 1" in text
    assert refusals(text) == ["? there is no move of yours to take back"]


def test_undo_takes_back_the_move_and_its_reply():
    text = run("undo", "A1", "B1", "undo", "undo", "undo")
    boards = re.findall(r"ply (\d+)", text)
    assert boards == ["0", "1", "2", "3", "4", "2", "0"] and len(refusals(text)) == 2


def test_a_game_to_its_end_can_be_taken_back():
    text = run(*["pass"] * 60, "A1", "hint", "resign", "undo", "help")
    assert re.search(r"The game is over: [XO] wins by [\d.]+\. You (win|lose)\.", text)
    assert refusals(text).count("? the game is over; undo, sgf FILE or quit") >= 3
    over = text.index("The game is over")
    assert "to move, ply" in text[over:] and all(f"{name} " in text[over:] for name in COMMANDS)


def test_a_resignation_can_be_taken_back():
    text = run("A1", "resign", "B1", "undo", "B1")
    assert text.count("The game is over") == 1 and "ply 4" in text
    assert refusals(text) == ["? the game is over; undo, sgf FILE or quit"]


def test_random_and_a_draw():
    text = run("hint", *[f"{column}{row}" for row in (1, 2, 3) for column in "ABC"], model="random", game="tictactoe")
    assert "random would play" in text
    assert re.search(r"The game is over: (a draw|X wins\. You win|O wins\. You lose)\.", text)
    assert run("A1", "B1", model="random", seed=5) == run("A1", "B1", model="random", seed=5)
    assert "sgf" not in run("sgf x", model="random", game="tictactoe").splitlines()[0]
    assert refusals(run("sgf x", model="random", game="tictactoe")) == ["? tictactoe isn't written in SGF"]


@pytest.mark.parametrize(
    "line", ["Z9", "D10", "A0", "A1A1", "move A1", "9", "x" * 100_000, "\x00", "é", "undoo", "-", "."]
)
def test_bad_input_gets_one_line_and_the_game_goes_on(line):
    text = run(line, "A1")
    assert len(refusals(text)) == 1 and len(refusals(text)[0]) < 150 and "ply 2" in text


def test_moves_that_the_rules_forbid():
    assert refusals(run("C3", "C3")) == ["? the point is occupied; help lists what else can be typed"]
    assert refusals(run("pass", game="gomoku:9"))[0].startswith("? 'pass' is no point; wanted")


def test_records_never_replace_other_files(tmp_path):
    kept = tmp_path / "kept.sgf"
    kept.write_text("mine")
    text = run(f"sgf {kept}", "sgf", f"sgf {tmp_path / 'no' / 'x' / 'y.sgf'}", f"sgf {tmp_path}", "sgf ~nobody/x",
               "sgf a\0b", "sgf " + "x" * 5000, "A1")  # fmt: skip
    assert kept.read_text() == "mine" and "ply 2" in text
    found = refusals(text)
    assert "exists; choose another name" in found[0] and found[1] == "? wanted sgf FILE"
    assert len(found) == 7 and "exists; choose another name" in found[3]


def test_blank_lines_and_the_end_of_the_input_are_nothing():
    assert run("", "   ") == run()
    assert run("A1", "quit", "B1") == run("A1")


def test_no_line_stops_it():
    rng = np.random.default_rng(0)
    words = ["A1", "C3", "pass", "undo", "hint", "help", "resign", "sgf", "E5", "0", "\x1b[A", "D4 D4", "PASS", "Undo"]
    lines = [" ".join(rng.choice(words, rng.integers(1, 3))) for _ in range(300)]
    assert run(*lines, model="random").count("ply ") > 50


def test_what_cannot_be_played(model, tmp_path):
    with pytest.raises(UsageError, match=r"plays 5×5 Go, komi 7.5 \(go:5\)"):
        run(model=model, game="go:9")
    with pytest.raises(FileError):
        run(model=str(tmp_path / "nothing"), game=None)
    with pytest.raises(UsageError, match="chess"):
        run(game="chess")


def test_an_engine_plays_and_moves_are_taken_back():
    text = run("C3", "undo", "A1", "hint", "quit", model=f"gtp:{engine_command('play')}")
    assert "is O" in text.splitlines()[0] and not refusals(text)
    assert text.count("ply 2") == 2 and "would play" in text


def test_over_a_real_pipe():
    command = [sys.executable, "main.py", "play", "--model", "random", "--game", "go:5"]
    done = subprocess.run(command, cwd=ROOT, input=b"\xff\xfe\nA1\nresign", capture_output=True, timeout=120)
    text = done.stdout.decode()
    assert done.returncode == 0 and "> " not in text and "You lose." in text and len(refusals(text)) == 1
    wrong = subprocess.run([*command, "--colour", "green"], cwd=ROOT, capture_output=True, timeout=120)
    assert wrong.returncode == 2 and b"colour" in wrong.stderr


def test_a_line_without_end_is_bounded() -> None:
    class Endless(io.StringIO):
        longest = 0

        def readline(self, size: int | None = -1) -> str:  # type: ignore[override]
            assert size is not None and 0 < size <= 65_536
            return super().readline(size)

    shown = io.StringIO()
    play(PlayConfig(model="random", game="tictactoe"), typed=Endless("x" * 200_000 + "\nquit\n"), shown=shown)
    assert "x" * 100 not in shown.getvalue()


def test_a_line_that_is_too_long_is_no_answer_in_a_text_game() -> None:
    pytest.importorskip("textarena")
    text = run("x y " * 20_000, "quit", game="text:KuhnPoker-v0")
    assert refusals(text) == ["? a line of more than 65,536 characters; nothing was done"] and "\0" not in text


def test_a_model_of_all_boards_plays_the_one_that_is_asked_for() -> None:
    model = str(ROOT / "pretrained/go-any")
    assert "19" in run("quit", model=model, game="go:19", readouts=0)
    refused = r"gomoku:9: .* plays Go on all boards, komi 7 \(go:any,komi=7\); leave --game out"
    with pytest.raises(UsageError, match=refused):
        run("quit", model=model, game="gomoku:9")


def test_after_a_failure_of_the_network_it_is_still_the_opponents_turn(tmp_path: Path) -> None:
    """And resigning is the person's."""
    game, lines = parse_game("go:5"), []
    answers, fails = hashed_evaluator(game), False

    def evaluate(planes):
        if fails:
            raise MuGoError("no answer")
        return answers(planes)

    session = SearchSession(game.without_move_limit(), evaluate, SearchOptions(noise_weight=0.0), 8)
    played = GameInProgress(game.without_move_limit())
    table = Table(played, SearchOpponent("model", session, Findings(session, None)), 0, lines.append)
    table.begin()
    fails = True
    for typed in ("C3", "A1", "hint"):
        table.answer(typed)
        assert lines[-1] == "? no answer" and len(played.moves) == 1
    for typed in ("resign", "sgf lost.sgf", "undo"):
        table.answer(typed)
    assert read_sgf((tmp_path / "lost.sgf").read_bytes(), game).result == "W+R"
    fails = False
    table.answer("A1")
    assert len(played.moves) == 2 and played.actions[1] != game.parse_move(session.state[0], "A1")
    table.answer("hint")
    assert "winrate" in lines[-1]


@pytest.mark.parametrize(
    ("game", "instead"),
    [(None, "--model pretrained/go9"), ("gomoku:9", "--model pretrained/gomoku9"), ("othello:6", "--model heuristic")],
)
def test_without_a_champion_it_says_what_can_be_played(game: str | None, instead: str) -> None:
    wanted = f"saved_models/best_model: no champion yet: play {instead}, or train one with `python main.py loop`"
    with pytest.raises(FileError, match=f"^{wanted}$"):
        run(model="saved_models/best_model", game=game)


@pytest.mark.parametrize(
    ("protocol", "models"),
    [
        (None, ["go9"]),
        ("gtp", ["go9"]),
        ("usi", ["shogi", "shogi5"]),
        ("gomocup", ["gomoku-any", "gomoku9"]),
        ("analysis", ["go9"]),
    ],
)
def test_without_a_champion_an_engine_says_which_model_speaks_its_protocol(
    protocol: str | None, models: list[str]
) -> None:
    named = " or ".join(f"--model pretrained/{model}" for model in models)
    with pytest.raises(FileError, match=f"no champion yet: play {named}, or train one"):
        engine(EngineConfig(protocol=protocol))


@pytest.mark.parametrize(("lead", "resigns"), [(-20.0, True), (-5.0, False)])
def test_a_hopeless_opponent_resigns_at_its_second_move_unless_the_game_is_close(lead: float, resigns: bool) -> None:
    session = SearchSession(GO.without_move_limit(), white_wins(), SearchOptions(noise_weight=0.0), 8)
    played = GameInProgress(GO.without_move_limit())
    lines: list[str] = []
    opponent = SearchOpponent("model", session, Findings(session, behind(lead)))
    table = Table(played, opponent, 1, lines.append)
    table.begin()
    table.answer("hint")  # a position looked at is no move
    assert len(played.moves) == 1
    table.answer(played.name_of(int(played.choices()[0])))
    assert ("model resigns." in lines[-1]) == resigns
    assert len(played.moves) == (2 if resigns else 3)
    table.answer("undo")
    assert len(played.moves) == 1, "otherwise it would resign again at once"
