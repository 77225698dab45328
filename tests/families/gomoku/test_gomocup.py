"""The Gomocup protocol: a scripted manager, the mistakes of managers, and a real client over pipes."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import MuGoError, UsageError
from pipeline.families.gomoku.game import Gomoku
from pipeline.families.gomoku.gomocup import Gomocup
from pipeline.families.gomoku.protocol import GomocupProtocol
from pipeline.games.contract import History, States
from pipeline.games.specs import parse_game
from pipeline.play.command_lines import CommandLines
from pipeline.play.config import EngineConfig
from pipeline.play.engine import engine
from pipeline.play.session import SearchSession
from pipeline.search.options import SearchOptions
from tests.helpers import make_model
from tests.search.helpers import hashed_evaluator

ROOT = Path(__file__).parents[3]


class FirstFree:
    """Plays the first legal point of the board and records its time limits."""

    def __init__(self, spec: str) -> None:
        game = parse_game(spec)
        assert isinstance(game, Gomoku)
        self.game: Gomoku = game
        self.seconds: list[float | None] = []
        self.warmed_up = ""
        self.restart()

    def restart(self, state: States | None = None) -> None:
        self.state: States = self.game.initial(1) if state is None else state
        self.moves: list[int] = []
        self.before: list[States] = []

    def warm_up(self) -> None:
        self.warmed_up = self.game.spec

    def play(self, action: int) -> None:
        after = self.game.play(self.state, np.array([action], np.int32), History.empty(1, 1))
        self.before.append(self.state)
        self.moves.append(action)
        self.state = after

    def undo(self) -> None:
        self.moves.pop()
        self.state = self.before.pop()

    def think(self, seconds: float | None, readouts: int | None, enough: Callable[[], bool]) -> int:
        self.seconds.append(seconds)
        return int(self.game.legal(self.state, History.empty(1, 1))[0].argmax())

    def change_game(self, game: Gomoku) -> None:
        self.game = game
        self.restart()

    @property
    def is_over(self) -> bool:
        return bool(self.game.is_over(self.state)[0])


def test_a_model_of_all_boards_plays_the_managers() -> None:
    player = FirstFree("gomoku:any")
    session = Gomocup(player)  # type: ignore[arg-type]
    assert session.answer("START 15") == ["OK"] and player.game.spec == player.warmed_up == "gomoku:any,size=15"
    assert session.answer("TURN 14,14") == ["0,0"]
    assert session.answer("START 20") == ["ERROR unsupported size '20'; this model plays on 9 to 19"]
    assert session.answer("START 9") == ["OK"] and player.game.spec == "gomoku:any"
    assert session.answer("TURN 9,0")[0].startswith("ERROR TURN '9,0' is no point; wanted X,Y, each from 0 to 8")


@pytest.fixture
def first_free() -> FirstFree:
    return FirstFree("gomoku:15")


@pytest.fixture
def session(first_free: FirstFree) -> Gomocup:
    return Gomocup(first_free)


def said(session: Gomocup, *lines: str) -> list[str]:
    return [answer for line in lines for answer in session.answer(line)]


def test_a_game_as_a_manager_plays_it(session: Gomocup) -> None:
    assert said(session, "START 15") == ["OK"]
    assert said(session, "BEGIN") == ["0,0"]
    assert said(session, "TURN 2,0") == ["1,0"]  # x first: both stand in the first row
    assert said(session, "turn 0,2\r\n") == ["3,0"]
    assert said(session, "RESTART", "TURN 14,14") == ["OK", "0,0"]
    assert said(session, "END") == [] and session.ended


def test_about_and_info(session: Gomocup, first_free: FirstFree) -> None:
    (about,) = said(session, "ABOUT")
    assert 'name="MuGo"' in about and "version=" in about and "author=" in about
    assert (
        said(session, "INFO timeout_turn 5000", "INFO folder /tmp/x", "INFO max_memory 83886080", "INFO rule 0") == []
    )
    said(session, "START 15", "BEGIN")
    assert first_free.seconds == [pytest.approx(4.9)]
    said(session, "INFO timeout_turn 0", "TURN 5,5")
    assert first_free.seconds[-1] == 0
    said(session, "INFO timeout_turn 5000", "INFO timeout_match 60000", "INFO time_left 20000", "TURN 6,6")
    assert first_free.seconds[-1] == pytest.approx(0.9)  # a twentieth of what is left, less the margin
    other = Gomocup(FirstFree("gomoku:15"))
    said(other, "INFO timeout_match 60000", "START 15", "BEGIN")
    assert other.session.seconds == [pytest.approx(2.9)]
    said(other, "INFO timeout_match 0", "INFO timeout_turn -5", "TURN 1,0")
    assert other.session.seconds[-1] == 0, "a manager says that the time is over"
    for match, left, seconds in (
        ("-5", None, 0), ("0", "2147483647", None), ("60000", "-100", 0), ("0", "-100", None), (None, "20000", 0.9),
        (None, "-1", 0), (None, "2147483647", None),
    ):  # fmt: skip
        told = Gomocup(FirstFree("gomoku:15"))
        lines = [f"INFO {key} {value}" for key, value in (("timeout_match", match), ("time_left", left)) if value]
        said(told, "START 15", *lines, "BEGIN")
        assert told.session.seconds == [seconds if seconds is None else pytest.approx(seconds)], lines
    said(told, "INFO time_left -1", "RESTART", "INFO timeout_match 60000", "BEGIN")
    assert told.session.seconds[-1] == pytest.approx(2.9), "what was left in the match before"
    for odd in ("nan", "soon"):
        (answer,) = said(other, f"INFO timeout_turn {odd}")
        assert answer.startswith(f"MESSAGE INFO timeout_turn: '{odd}' is no number of milliseconds")


def test_without_limits_it_takes_its_time(session: Gomocup, first_free: FirstFree) -> None:
    said(session, "START 15", "BEGIN")
    assert first_free.seconds == [None]


@pytest.mark.parametrize("rule", ["1", "4", "9", "x"])
def test_another_rule_is_said(session: Gomocup, rule: str) -> None:
    (answer,) = said(session, f"INFO rule {rule}")
    assert answer.startswith("MESSAGE") and answer.endswith("this model plays 15×15 Gomoku")
    assert said(Gomocup(FirstFree("gomoku:15,exact")), "INFO rule 1") == []
    assert said(Gomocup(FirstFree("gomoku:15,capture")), "INFO rule 0")[0].startswith("MESSAGE")


def test_a_whole_position(session: Gomocup, first_free: FirstFree) -> None:
    assert said(session, "START 15", "BOARD", "7,7,2", "8,8,1", "9,9,2", "DONE") == ["OK", "0,0"]
    assert first_free.game.diagram(first_free.state[0]).count("X") == 2 + 1  # theirs began; one is a letter
    assert said(session, "TURN 1,0") == ["2,0"]
    assert said(session, "BOARD", "7,7,1", "8,8,2", "DONE") == ["0,0"]
    assert said(session, "BOARD", "DONE") == ["0,0"]  # empty: the engine begins
    assert said(session, "BOARD", "7,7,2", "INFO timeout_turn 100", "DONE") == ["0,0"]
    assert said(session, "TAKEBACK 0,0", "TAKEBACK 7,7", "TURN 7,7") == ["OK", "OK", "0,0"]
    assert said(session, "BOARD", "7,7,2", "8,8,1", "9,9,2", "DONE", "TAKEBACK 0,0", "TAKEBACK 8,8") == [
        "0,0",
        "OK",
        "ERROR TAKEBACK 8,8: that isn't the last move (none)",
    ]
    assert said(session, "TAKEBACK 7,7", "TAKEBACK 8,8", "TAKEBACK 9,9", "TURN 9,9") == ["OK", "OK", "OK", "0,0"]
    assert said(session, "RESTART", "TAKEBACK 9,9")[1].startswith("ERROR TAKEBACK 9,9: that isn't the last move (none)")


def test_a_failing_search_is_an_answer(session: Gomocup, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*arguments: object) -> int:
        raise MuGoError("the network computed numbers\nthat are not finite")

    monkeypatch.setattr(session.session, "think", fails)
    wrong = "ERROR the network computed numbers that are not finite"
    assert said(session, "START 15", "BEGIN", "TURN 7,7") == ["OK", wrong, wrong]
    monkeypatch.undo()
    assert said(session, "TURN 7,7") == ["0,0"], "the position is what it was"


def test_the_order_of_a_boards_lines_does_not_matter() -> None:
    """Exactly five wins: played in this order the game would be over before the sixth stone makes an overline."""
    own = [f"{x},0,1" for x in (0, 1, 2, 3, 4, 5)]
    theirs = [f"{2 * x},8,2" for x in range(4)] + ["8,6,2", "8,4,2"]
    assert said(Gomocup(FirstFree("gomoku:9,exact")), "START 9", "BOARD", *own, *theirs, "DONE") == ["OK", "6,0"]


def test_takeback(session: Gomocup) -> None:
    said(session, "START 15", "BEGIN", "TURN 5,5")
    assert said(session, "TAKEBACK 1,0", "TAKEBACK 5,5") == ["OK", "OK"]
    assert said(session, "TURN 6,6") == ["1,0"]
    assert said(session, "TAKEBACK 3,3")[0].startswith("ERROR TAKEBACK 3,3: that isn't the last move (1,0)")


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("TURN", "ERROR TURN '' is no point; wanted X,Y, each from 0 to 14"),
        ("TURN 15,0", "ERROR TURN '15,0' is no point"),
        ("TURN -1,3", "ERROR TURN '-1,3' is no point"),
        ("TURN a,b", "ERROR TURN 'a,b' is no point"),
        ("TURN 1,2,3", "ERROR TURN '1,2,3' is no point"),
        ("TAKEBACK 15,0", "ERROR TAKEBACK '15,0' is no point"),
        ("TURN 0,0", "ERROR 0,0: the point is occupied"),
        ("TURN " + "1" * 5000 + ",0", "ERROR TURN '11111111111111111111' is no point"),
        ("TURN \uff11,1", "ERROR TURN '\uff11,1' is no point"),
        ("START " + "9" * 5000, "ERROR unsupported size"),
        ("BEGIN", "ERROR BEGIN within a game (ply 1)"),
        ("START 20", "ERROR unsupported size '20'; this model plays on 15"),
        ("START", "ERROR unsupported size"),
        ("START fifteen", "ERROR unsupported size"),
        ("RECTSTART 15,14", "ERROR unsupported size"),
        ("START 15 14", "ERROR unsupported size"),
        ("SWAP2BOARD", "UNKNOWN command SWAP2BOARD; known: ABOUT, BEGIN"),
        ("hello there", "UNKNOWN command hello"),
        ("__class__", "UNKNOWN command __class__"),
        ("DONE", "UNKNOWN command DONE"),
        ("\x00\x01", "UNKNOWN command ??;"),
        ("A" * 5000, "UNKNOWN command " + "A" * 40 + ";"),
    ],
)
def test_a_bad_line_is_answered_and_changes_nothing(session: Gomocup, line: str, wanted: str) -> None:
    said(session, "START 15", "BEGIN")
    (answer,) = said(session, line)
    assert answer.startswith(wanted) and "\n" not in answer
    assert said(session, "TURN 7,7") == ["1,0"]


@pytest.mark.parametrize("line", ["START 15", "start 15 15", "RECTSTART 15,15", "RECTSTART 15, 15"])
def test_a_board_of_this_size_is_accepted(session: Gomocup, line: str) -> None:
    """Yixin's board sends both sides."""
    assert said(session, line) == ["OK"]


@pytest.mark.parametrize("command", ["SWAP2BOARD", "YXBOARD", "yxboard"])
def test_an_unknown_command_with_a_board_has_one_answer(session: Gomocup, command: str) -> None:
    """A manager takes the next answer for that to the next command."""
    said(session, "START 15")
    answers = said(session, command, "7,7,1", "8,8,2", "DONE", "BEGIN")
    assert len(answers) == 2 and answers[0].startswith(f"UNKNOWN command {command}") and answers[1] == "0,0"
    assert said(session, command, "7,7,1", "TURN 3,3")[-1] == "1,0", "another command ends the lines"


@pytest.mark.parametrize("line", ["BEGIN", "TURN 3,3", "RESTART", "BOARD", "TAKEBACK 1,1"])
def test_nothing_is_played_before_the_start(session: Gomocup, line: str) -> None:
    assert said(session, line) == ["ERROR no game yet; wanted START 15 first"]
    assert said(session, "START 15", "BEGIN") == ["OK", "0,0"]


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        (["7,7,1"], "ERROR BOARD with 1 own stones and 0"),
        (["7,7,2", "8,8,2"], "ERROR BOARD with 0 own stones and 2"),
        (["7,7,3"], "ERROR BOARD line '7,7,3'"),
        (["7,7"], "ERROR BOARD line '7,7'"),
        (["77,7,2"], "ERROR BOARD '77,7' is no point"),
        (["7,7,2", "8,8,3"], "ERROR BOARD line '8,8,3'"),
        (["7,7,2", "7,7,1"], "ERROR BOARD: two stones on H8: no position of 15×15 Gomoku"),
        ([f"{x},0,2" for x in range(5)] + [f"{2 * x},8,1" for x in range(5)], "ERROR BOARD: a five stands already"),
    ],
)
def test_a_bad_position_leaves_the_old_one(session: Gomocup, lines: list[str], wanted: str) -> None:
    said(session, "START 15", "BEGIN")
    answers = said(session, "BOARD", *lines, "DONE")
    assert len(answers) == 1 and answers[0].startswith(wanted)
    assert said(session, "TURN 7,7") == ["1,0"]


@pytest.mark.parametrize("line", ["TURN 1,1", "BEGIN", "RESTART", "START 15", "nonsense"])
def test_a_command_within_a_board_drops_it(session: Gomocup, line: str) -> None:
    said(session, "START 15", "BEGIN")
    answers = said(session, "BOARD", "7,7,1", line)
    assert answers == [f"ERROR {line.split()[0]} before the DONE of a BOARD, which is dropped"]
    assert said(session, "TURN 7,7") == ["1,0"]


def test_stones_of_a_board_are_not_captured_by_each_other() -> None:
    session = Gomocup(FirstFree("gomoku:9,capture"))
    lines = ["1,1,1", "2,1,2", "8,8,1", "3,1,2", "4,1,1", "7,7,2"]
    assert said(session, "START 9", "BOARD", *lines, "DONE") == ["OK", "0,0"]
    assert int((session.session.game.ownership(session.session.state) != 0).sum()) == 7
    answers = said(session, "BOARD", "1,1,2", "2,2,2", "3,3,2", "DONE")
    assert answers[0].startswith("ERROR BOARD with 0 own stones and 3") and "captured" in answers[0]


def test_a_finished_game_is_not_played_on(session: Gomocup) -> None:
    said(session, "START 15", "BEGIN", "TURN 0,5", "TURN 1,5", "TURN 2,5", "TURN 3,5")  # the engine has five now
    assert said(session, "TURN 4,5")[0].startswith("ERROR 4,5: the game is over")
    assert said(session, "BEGIN") == ["ERROR the game is over; wanted RESTART or START"]
    assert said(session, "RESTART", "BEGIN") == ["OK", "0,0"]


def test_a_lost_game_has_no_move() -> None:
    session = Gomocup(FirstFree("gomoku:9"))
    said(session, "START 9")
    for point in ("0,8", "1,8", "2,8", "3,8"):
        said(session, f"TURN {point}")
    session.session.restart()  # the engine's own stones would be five first: theirs are
    for point in (72, 0, 73, 2, 74, 4, 75, 6):
        session.session.play(point)
    assert said(session, "TURN 4,8") == ["ERROR the game is over; wanted RESTART or START"]


@pytest.mark.parametrize("algorithm", ["puct", "gumbel"])
def test_time_limits_are_kept(algorithm: str) -> None:
    """A network so slow that 400 readouts take about 10 seconds, and a batch of 8 an eighth of a second."""
    game = parse_game("gomoku:9")
    fast = hashed_evaluator(game)

    def slow(planes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        time.sleep(0.03 * len(planes))
        return fast(planes)

    first_free = SearchSession(game, slow, SearchOptions(algorithm=algorithm), 400)
    warm = SearchSession(game, fast, SearchOptions(algorithm=algorithm), 400)
    warm.warm_up()
    assert game.plies(warm.state)[0] == 0
    begun = time.monotonic()
    SearchSession(game, fast, SearchOptions(algorithm=algorithm), 1_000_000).warm_up()  # hours, if it used them all
    assert time.monotonic() - begun < 60
    for seconds in (0.0, 0.5):
        begun = time.monotonic()
        action = first_free.think(seconds)
        assert 0 <= action < 81 and seconds <= time.monotonic() - begun < seconds + 1.5
        first_free.play(action)
    assert SearchSession(game, fast, SearchOptions(algorithm=algorithm), 0).think(None) < 81


def test_it_finds_a_win_and_a_block() -> None:
    game = parse_game("gomoku:9")
    assert isinstance(game, Gomoku)

    def knows_nothing(planes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros((len(planes), 81), np.float32), np.zeros(len(planes), np.float32)

    session = Gomocup(SearchSession(game, knows_nothing, SearchOptions(), 400))
    win = ["0,0,1", "0,8,2", "1,0,1", "2,8,2", "2,0,1", "4,8,2", "3,0,1", "6,8,2"]
    assert said(session, "START 9", "BOARD", *win, "DONE") == ["OK", "4,0"]
    block = ["0,0,2", "0,8,1", "1,0,2", "2,8,1", "2,0,2", "4,8,1", "3,0,2"]
    assert said(session, "RESTART", "BOARD", *block, "DONE") == ["OK", "4,0"]


# The command


def test_the_command_serves_until_the_end_of_input(tmp_path: Path) -> None:
    model = make_model(tmp_path, spec="gomoku:9")
    answers = io.StringIO()
    commands = io.StringIO("START 9\nTURN 0,0\nnonsense\nRESTART\nBEGIN\n")
    engine(EngineConfig(model=model, readouts=8, backend="torch"), commands=commands, answers=answers)
    lines = answers.getvalue().splitlines()
    assert lines[0] == lines[3] == "OK" and len(lines) == 5 and lines[2].startswith("UNKNOWN")
    assert all(0 <= int(number) < 9 for line in (lines[1], lines[4]) for number in line.split(","))


def test_an_endless_line_is_taken_in_pieces(tmp_path: Path) -> None:
    class Counting(io.StringIO):
        longest = 0

        def readline(self, size: int | None = -1, /) -> str:
            line = super().readline(size)
            self.longest = max(self.longest, len(line))
            return line

    commands, answers = Counting("x" * 100_000 + "\nSTART 9\n"), io.StringIO()
    model = make_model(tmp_path, spec="gomoku:9")
    engine(EngineConfig(model=model, readouts=8, backend="torch"), commands=commands, answers=answers)
    lines = answers.getvalue().splitlines()
    assert commands.longest <= 4096 and lines[-1] == "OK" and max(map(len, lines)) < 200


def test_odd_bytes_end_no_game(tmp_path: Path) -> None:
    model = make_model(tmp_path, spec="gomoku:9")
    command = [
        sys.executable,
        str(ROOT / "main.py"),
        "engine",
        "--model",
        str(model),
        "--readouts",
        "8",
        "--backend",
        "torch",
    ]
    lines = b"INFO folder /tmp/\xe9\nSTART 9\n\xff\xfe 3\nBEGIN\nEND\n"
    done = subprocess.run(command, input=lines, capture_output=True, env={**os.environ, "PYTHONUTF8": "1"}, check=True)
    answers = done.stdout.decode(errors="replace").splitlines()
    assert answers[0] == "OK" and answers[1].startswith("UNKNOWN") and len(answers) == 3
    assert all(part.isdecimal() for part in answers[2].split(","))


def test_a_model_of_another_game_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="plays Backgammon; wanted a board game without dice"):
        engine(EngineConfig(model=ROOT / "pretrained" / "backgammon"))
    with pytest.raises(UsageError, match="plays Tic-tac-toe; wanted a Gomoku model"):
        engine(EngineConfig(protocol="gomocup", model=make_model(tmp_path)))


def test_a_public_client_plays_a_game(tmp_path: Path) -> None:
    """PyPI's pygomo-lib starts the command and plays the first free point until the game is over."""
    pygomo = pytest.importorskip("pygomo", reason="pygomo-lib isn't installed: pip install pygomo-lib")
    model = make_model(tmp_path, spec="gomoku:9")
    program = tmp_path / "engine.sh"
    command = f'"{sys.executable}" "{ROOT}/main.py" engine --model "{model}" --readouts 16 --backend torch'
    program.write_text(f"#!/bin/sh\nexec {command}\n")
    program.chmod(0o755)
    game = parse_game("gomoku:9")
    state = game.initial(1)
    none = History.empty(1, 1)
    with pygomo.EngineClient(str(program)) as client:
        assert client.start(9, timeout=120)
        assert "MuGo" in client.about(timeout=10)
        client.set_rule(0)
        answer = client.begin(timeout=60)
        while True:
            column, row = answer.move.to_tuple()
            state = game.play(state, np.array([row * 9 + column], np.int32), none)  # legal, or this raises
            if game.is_over(state)[0]:
                break
            reply = int(game.legal(state, none)[0].argmax())
            state = game.play(state, np.array([reply], np.int32), none)
            if game.is_over(state)[0]:
                break
            answer = client.turn((reply % 9, reply // 9), timeout=60)
        assert game.plies(state)[0] >= 9
        client.quit()


def test_a_board_without_end_is_bounded(session: Gomocup) -> None:
    session.answer("START 15")
    session.answer("BOARD")
    for _ in range(1000):
        assert session.answer("1,1,1") == session.answer("1,1,2") == []
    assert session._board is not None and len(session._board) <= 15 * 15
    assert session.answer("DONE") == ["ERROR BOARD with more than 225 stones"]
    assert session.answer("BEGIN") == ["0,0"]


def test_a_line_without_end_is_bounded(session: Gomocup) -> None:
    lines = CommandLines(io.StringIO("START 15\n" + "x" * 100_000 + "\nABOUT\n"), GomocupProtocol.longest_line)
    answers = []
    while (line := lines.next()) is not None:
        assert len(line) <= GomocupProtocol.longest_line
        answers += session.answer(line)
    assert answers[:2] == ["OK", "ERROR line too long"] and answers[2].startswith("name=")
