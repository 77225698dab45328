"""GTP from a manager's side: every command, every error that the protocol names, analysis, clocks, strange input."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from pipeline.families.go.gtp import Gtp
from pipeline.games.specs import parse_game
from pipeline.games.stones import in_protocol_letters
from pipeline.networks.modules import Estimates
from pipeline.play.clock import Clock, TimeSettings
from pipeline.play.command_lines import CommandLines
from pipeline.play.config import EngineConfig
from pipeline.play.engine import engine
from pipeline.play.findings import Findings
from pipeline.play.session import SearchSession
from pipeline.search.options import PlaySearchOptions, SearchOptions
from tests.families import there_is
from tests.helpers import make_model
from tests.players.finished import GO, SETTLED, counted, position, white_wins
from tests.search.helpers import hashed_evaluator


def dead_at(points):
    """An estimate: the first player owns everything, and is ahead by 12.5 points."""

    def estimate(planes):
        white = planes[:, 13, 0, 0].astype(np.float32)
        sign = (1 - 2 * white)[:, None]
        owners = np.ones((len(planes), planes[0, 0].size), np.float32)
        owners[:, points] = -1
        return Estimates(owners * sign, (12.5 * sign[:, 0]).astype(np.float32))

    return estimate


def make_gtp(spec="go:9,komi=7", readouts=16, estimate=None, **options):
    game = parse_game(spec).without_move_limit()
    session = SearchSession(game, hashed_evaluator(game), SearchOptions(noise_weight=0.0), readouts)
    return Gtp(session, Findings(session, estimate), **options)


class Manager:
    """Sends lines and returns the answers, each of which must be one answer of the protocol."""

    def __init__(self, gtp: Gtp) -> None:
        self.gtp = gtp

    def __call__(self, line: str) -> str:
        written: list[str] = []
        self.gtp._write = written.append
        self.gtp.answer(line)
        text = "".join(written)
        assert re.fullmatch(r"[=?]\d*( [^\n]+)?(\n[^\n]+)*\n\n", text), text
        return text.removesuffix("\n\n")


@pytest.fixture
def say() -> Manager:
    return Manager(make_gtp())


@pytest.mark.skipif(not there_is("gomoku"), reason="needs Gomoku")
def test_gomoku_leaves_out_the_column_i_as_gtp_does():
    game = in_protocol_letters(parse_game("gomoku:9").without_move_limit())
    session = SearchSession(game, hashed_evaluator(game), SearchOptions(noise_weight=0.0), 4)
    say = Manager(Gtp(session, Findings(session, None)))
    assert say("play b J5") == "=" and say("play w I5").startswith("?")
    assert session.moves == [4 * 9 + 8]
    answers = [say(f"genmove {colour}").removeprefix("= ") for colour in "wb" * 8]
    assert all(re.fullmatch(r"[A-HJ][1-9]", answer) for answer in answers), answers


def test_ids_comments_and_control_characters(say):
    assert say("protocol_version") == "= 2"
    assert say("12 protocol_version # a comment") == "=12 2"
    assert say("\x07 7\tname\x00\r") == "=7 MuGo"
    assert say("3 fly") == "?3 unknown command"
    assert say("0012 known_command genmove") == "=0012 true"
    assert say("known_command fly") == say("known_command") == "= false"
    assert say("9") == "?9 unknown command"


@pytest.mark.parametrize("line", ["", "   ", "# only a comment", "\t\r"])
def test_lines_without_a_command_have_no_answer(line):
    gtp, written = make_gtp(), []
    gtp._write = written.append
    gtp.answer(line)
    assert written == []


def test_list_commands_are_those_it_knows(say):
    commands = say("list_commands").removeprefix("= ").split("\n")
    assert commands == sorted(commands) and len(commands) == 35
    assert all(say(f"known_command {command}") == "= true" for command in commands)
    assert {"kata-analyze", "kgs-genmove_cleanup", "set_free_handicap", "final_status_list"} < set(commands)


def test_size_and_komi_are_the_models(say):
    assert say("boardsize 9") == "="
    assert say("boardsize 19").startswith("? unacceptable size: found 19, this model plays 9")
    assert say("boardsize nine").startswith("? syntax error")
    assert say("komi 7") == say("komi 7.0") == "="
    assert say("komi 6.5") == "? unacceptable komi: found 6.5, this model plays with 7"
    assert say("komi nan").startswith("? syntax error")
    assert say("komi 7,0") == "=", "a program that follows its user's locale, such as q5go"
    assert say("rectangular_boardsize 9 9") == "="
    for command in ("rectangular_boardsize", "boardsize"):  # as KataGo takes it
        assert say(f"{command} 9 13").endswith("found 9 by 13, this model plays square boards")
        assert say(f"{command} 9 9") == "="
    assert say("get_komi") == "= 7"


def test_rules_are_told_and_others_refused(say):
    rules = json.loads(say("kata-get-rules").removeprefix("= "))
    assert rules["scoring"] == "AREA" and rules["ko"] == "POSITIONAL" and rules["suicide"] is False
    for known in ("chinese", "Tromp-Taylor", "new zealand", json.dumps(rules)):
        assert say(f"kata-set-rules {known}") == "=", known
    assert say("kgs-rules chinese") == "="
    for other in ("japanese", "anything", '{"scoring": "TERRITORY"}', "{", "[]", ""):
        assert say(f"kata-set-rules {other}").startswith("? unsupported rules"), other
    assert say("5 kgs-rules japanese") == (
        "?5 unsupported rules: found 'japanese'; this model plays by area scoring, superko, no suicide and no bonus"
    )


def of_any_board(boards=None):
    """A model of go:any whose network gives equal outputs for all positions. boards: collects the sizes it sees."""

    def evaluate(planes):
        if boards is not None:
            boards.append(planes.shape[2])
        return np.zeros((len(planes), planes[0, 0].size + 1), np.float32), np.zeros(len(planes), np.float32)

    def estimate(planes):
        return Estimates(np.zeros((len(planes), planes[0, 0].size), np.float32), np.zeros(len(planes), np.float32))

    game = parse_game("go:any,komi=7").without_move_limit()
    session = SearchSession(game, evaluate, SearchOptions(noise_weight=0.0), 8)
    return Manager(Gtp(session, Findings(session, estimate)))


def test_a_model_of_all_boards_takes_any_size_and_komi():
    say = of_any_board()
    assert say("get_komi") == "= 7" and say("showboard").count("\n") == 11
    assert say("boardsize 13") == say("komi 6.5") == "=" and say("get_komi") == "= 6.5"
    assert say("play b N13") == say("play w D4") == "="
    assert re.fullmatch(r"= ([A-HJ-N]\d+|PASS|pass)", say("genmove b"))
    board = say("showboard")
    assert say("komi 9") == "=" and say("get_komi") == "= 9" and say("showboard") == board, "the game goes on"
    assert say("undo") == say("undo") == "=" and "X to move" not in say("showboard")
    assert say("play w pass") == say("play b pass") == "="
    assert say("final_score") == "= B+160"  # one black stone owns 169 points
    assert say("komi 200") == "? unacceptable komi: found 200, wanted a multiple of 0.5 that the board has room for"
    assert say("komi 0.3").startswith("? unacceptable komi") and say("get_komi") == "= 9"
    assert say("boardsize 20") == "? unacceptable size: found size 20; wanted 5 to 19"
    assert say("boardsize 5") == "=" and say("get_komi") == "= 9" and "ply 0" in say("showboard")
    assert say("komi -3") == "=" and say("get_komi") == "= -3"
    assert say("final_score") == "= B+3"
    assert say("boardsize 13") == "=" and say("final_score") == "= B+3", "what was estimated was of a smaller board"


def test_another_board_is_warmed_up_before_any_clock_runs():
    boards = []
    say = of_any_board(boards)
    assert say("boardsize 7") == "=" and set(boards) == {7} and "ply 0" in say("showboard")
    seen = len(boards)
    assert say("boardsize 7") == "=" and len(boards) == seen


def test_moves_out_of_turn_illegal_ones_and_undo(say):
    assert [say(f"play {move}") for move in ("b D4", "B e5", "black pass", "W d5", "white C4")] == ["="] * 5
    assert say("play b D4") == "? illegal move"
    assert [say(f"play b {vertex}") for vertex in ("Z4", "I5")] == [f"? invalid vertex: '{v}'" for v in ("Z4", "I5")]
    assert say("play b D10") == "? invalid vertex: 'D10'"
    assert say("play green D4").startswith("? syntax error: 'green' is no colour")
    assert say("play b").startswith("? syntax error")
    assert say("showboard").count("O") == 2 and "X to move, ply 5" in say("showboard")
    assert [say("undo") for _ in range(6)] == ["="] * 5 + ["? cannot undo"]
    assert "X to move, ply 0" in say("showboard")


def test_undo_restores_what_superko_forbids(say):
    for move in ("b D5", "w E5", "b E6", "w F6", "b E4", "w F4", "b J9", "w G5", "b F5"):  # black takes E5 at last
        assert say(f"play {move}") == "="
    assert say("play w E5") == "? illegal move"  # the ko
    say("undo")
    assert say("play b A1") == "=" and say("play w E4") == "? illegal move"


def test_genmove_plays_for_either_colour_and_goes_on_after_passes(say):
    first = say("genmove b").removeprefix("= ")
    assert say(f"play w {first}") == "? illegal move"
    assert say("genmove b") != "= pass"  # out of turn
    assert say("play b pass") == say("play w pass") == "="
    assert say("genmove b") == say("genmove w") == "= pass"  # over: nobody has to go on
    assert say("play b A1") == "="  # but may
    before = say("showboard")
    move = say("reg_genmove w")
    found = say.gtp.session.candidates()
    assert move.startswith("= ") and say("showboard") == before
    assert say("reg_genmove w") == move and say.gtp.session.candidates() == found, "with the same search each time"
    assert say("genmove purple").startswith("? syntax error")
    assert say("genmove") == "? syntax error: nothing is no colour; wanted black or white"


def test_self_plays_move_limit_ends_no_game():
    say = Manager(make_gtp("go:5,moves=4"))
    for _ in range(3):
        assert say("play b pass") == say("play b A1") == say("undo") == say("play w B2") == say("undo") == "="
    for move in ("b A1", "w E5", "b B1", "w E4", "b C1", "w E3"):
        assert say(f"play {move}") == "="
    assert say("genmove b") != "= -1" and say("genmove w").startswith("= ")


def test_handicap(say):
    assert say("fixed_handicap 4") == "= C3 G7 C7 G3"
    assert say("fixed_handicap 4") == "? board not empty"
    assert "O to move" in say("showboard")
    say("clear_board")
    assert say("fixed_handicap 10").startswith("? invalid number of stones")
    assert say("fixed_handicap 1").startswith("? invalid number of stones")
    assert say("place_free_handicap 20").count(" ") == 9
    say("clear_board")
    assert say("set_free_handicap A1 A2 B9") == "=" and say("play w A3") == "="
    say("clear_board")
    assert say("set_free_handicap A1 A1") == say("set_free_handicap A1") == say("set_free_handicap A1 pass")
    assert say("set_free_handicap A1 A1") == "? bad vertex list"


def test_gtps_table_of_handicaps():
    nineteen = Manager(make_gtp("go:19"))
    assert nineteen("fixed_handicap 9") == "= D4 Q16 D16 Q4 D10 Q10 K4 K16 K10"
    nineteen("clear_board")
    assert nineteen("fixed_handicap 5") == "= D4 Q16 D16 Q4 K10"
    seven = Manager(make_gtp("go:7"))
    assert seven("fixed_handicap 4") == "= C3 E5 C5 E3" and seven("boardsize 7") == "="
    five = Manager(make_gtp("go:5"))
    assert five("fixed_handicap 2").endswith("2 handicap stones on 5×5; wanted none: the board is too small")
    assert five("play b A1") == "=" and five("place_free_handicap 2") == "? board not empty"
    assert seven("fixed_handicap 5").startswith("? invalid number of stones: 5 handicap stones on 7×7; wanted 2 to 4")


def test_the_score_is_of_the_board_without_dead_stones():
    say = Manager(make_gtp(estimate=dead_at([])))
    for move in ("b D4", "b E4", "w A9"):
        say(f"play {move}")
    assert say("final_status_list dead") == "= A9"
    assert say("final_status_list alive") == "= D4 E4"
    assert say("final_status_list seki") == "="
    assert say("final_score") == "= B+74"  # 81 points − 7
    assert say("final_status_list lost").startswith("? syntax error")
    plain = Manager(make_gtp())  # without an estimate nothing is dead
    for move in ("b D4", "b E4", "w A9"):
        plain(f"play {move}")
    assert plain("final_status_list dead") == "=" and plain("final_score") == "= W+6"


def test_cleanup_does_not_pass_while_stones_are_dead():
    game = parse_game("go:5")
    passes = game.pass_action

    def eager_to_pass(planes):
        logits = np.zeros((len(planes), game.num_actions), np.float32)
        logits[:, passes] = 9
        return logits, np.zeros(len(planes), np.float32)

    session = SearchSession(game, eager_to_pass, SearchOptions(noise_weight=0.0), 8)
    say = Manager(Gtp(session, Findings(session, dead_at([]))))
    say("play w A5")
    assert say("genmove b") == "= pass"
    say("play w B5")
    assert say("kgs-genmove_cleanup b") not in ("= pass", "= resign")
    assert say("play w pass") == "=" and say("genmove b") == "= pass"
    assert say("kgs-genmove_cleanup w") == "= pass", "nothing of black's is dead"
    assert say("kgs-genmove_cleanup b") not in ("= pass", "= resign"), "KGS asks for it after two passes"
    assert say("play w pass") == say("play b pass") == "="
    assert say("genmove b") == "= pass"


def test_resignation_is_off_unless_asked_for():
    def hopeless(planes):
        return np.zeros((len(planes), 26), np.float32), np.where(planes[:, 13, 0, 0] == 0, -0.99, 0.99).astype("f")

    game = parse_game("go:5")
    for threshold, resigns in ((-1.0, False), (-0.9, True)):
        session = SearchSession(game, hopeless, SearchOptions(noise_weight=0.0), 8)
        say = Manager(Gtp(session, Findings(session, None), resign_threshold=threshold))
        answers = [say(f"genmove {colour}") for colour in "bwbw"]
        assert (answers[2] == "= resign") is resigns
        assert "= resign" not in (answers[0], answers[1], answers[3])


def test_loadsgf(say, tmp_path):
    path = tmp_path / "game.sgf"
    path.write_text("(;GM[1]SZ[9]AB[cc][gg]PL[W]KM[7];W[ee];B[](;W[ef])(;W[aa]))")
    assert say(f"loadsgf {path}") == "= black"
    assert say("showboard").count("O") == 2 and "ply 3" in say("showboard")
    assert say(f"loadsgf {path} 2") == "= black" and "ply 1" in say("showboard")
    for text, problem in (
        ("no sgf", "no game found"),
        ("(;GM[1]SZ[19])", "the board is 19×19; wanted 9×9"),
        ("(;GM[2]SZ[9])", "another game"),
        ("(;GM[1]SZ[9];B[zz])", "no point"),
        ("(;GM[1]SZ[9];B[aa];W[aa])", "move 2: "),
        ("(;GM[1]SZ[9]C[\xff\0])", "in no known encoding"),
    ):
        path.write_text(text, encoding="latin-1")
        answer = say(f"loadsgf {path}")
        assert answer.startswith("? cannot load file") and problem in answer
    assert say("loadsgf /nowhere").startswith("? cannot load file")
    os.mkfifo(tmp_path / "pipe")
    assert "no regular file" in say(f"loadsgf {tmp_path / 'pipe'}")  # it would wait forever


def test_a_model_of_all_boards_takes_the_komi_of_a_record(say, tmp_path):
    path, any_board = tmp_path / "game.sgf", of_any_board()
    for komi, known, score in (("5.5", 5.5, "W+6.5"), ("-0", 0, "W+1"), ("unknown", 7, "W+8"), ("6", 6, "W+7")):
        path.write_text(f"(;GM[1]SZ[9]AB[cc][gg]KM[{komi}];W[ee];B[];W[ff];B[];W[aa])")
        assert any_board(f"loadsgf {path}") == "= black" and any_board("get_komi") == f"= {known:g}"
        assert any_board("final_score") == f"= {score}"
    assert any_board("undo") == any_board("undo") == "=" and "X to move, ply 3" in any_board("showboard")
    any_board.gtp._say = (said := []).append
    for komi in ("3.3", "400.5", "-999"):
        path.write_text(f"(;GM[1]SZ[9]KM[{komi}])")
        assert any_board(f"loadsgf {path}") == "= black" and any_board("get_komi") == "= 7"
        assert said[-1] == f"loadsgf: 9×9, komi 7, as this model can't play the record's {float(komi):g}, 0 moves"
        assert say(f"loadsgf {path}") == "= black" and say("get_komi") == "= 7", "a model of one komi shows all records"


def test_a_record_that_is_refused_changes_nothing(tmp_path):
    path = tmp_path / "game.sgf"
    for say in (of_any_board(), Manager(make_gtp())):
        for line in ("play b E5", "play w C3", "play b pass"):
            assert say(line) == "="
        before, session = say("showboard"), say.gtp.session
        for text in ("no sgf", "(;GM[1]SZ[21])", "(;GM[1]SZ[13]KM[5.5];B[aa];W[bb];B[aa])",
                     "(;GM[1]SZ[9]KM[5.5];B[aa];W[aa])", "(;GM[1]SZ[9]AB[aa]AW[ab][ba])",
                     "(;GM[1]SZ[9]KM[3];B[aa];W[bb];AB[bb];B[bb])", "(;GM[2]SZ[9])"):
            path.write_text(text)
            assert say(f"loadsgf {path}").startswith("? cannot load file: "), text
            assert say("showboard") == before and say("get_komi") == "= 7" and len(session.moves) == 3
        assert say("loadsgf /nowhere").startswith("? cannot load file") and say("showboard") == before
        assert [say("undo") for _ in range(4)] == ["=", "=", "=", "? cannot undo"]


@pytest.mark.parametrize(
    ("size", "points", "shown"),
    [("5", "cc cb", 5), ("7", "dd dc cc", 7), ("13", "jd dj jj", 13), ("13:13", "jd dj", 13), ("", "qd dp pp", 19)],
)
def test_loadsgf_takes_the_board_of_a_record(say, tmp_path, size, points, shown):
    path, any_board, said = tmp_path / "my game 3.sgf", of_any_board(), []
    any_board.gtp._say = said.append
    nodes = "".join(f";{'BW'[ply % 2]}[{point}]" for ply, point in enumerate(points.split()))
    path.write_text(f"(;GM[1]FF[4]{f'SZ[{size}]' * bool(size)}KM[7.5]{nodes})")
    colour = ("black", "white")[len(points.split()) % 2]
    assert any_board(f"loadsgf {path}") == f"= {colour}" and any_board("get_komi") == "= 7.5"
    assert any_board.gtp._game.board_shape == (shown, shown)
    assert said == [f"loadsgf: {shown}×{shown}, komi 7.5, {len(points.split())} moves"]
    assert any_board(f'loadsgf "{path}" 2') == "= white" and said[-1].endswith(f"1 of {len(points.split())} moves")
    assert any_board("undo") == "=" and any_board("genmove b").startswith("= ")
    assert f"the board is {shown}×{shown}; wanted 9×9" in say(f"loadsgf {path}") and say("get_komi") == "= 7"


def test_loadsgf_refuses_a_record_of_too_many_moves(say, tmp_path):
    path = tmp_path / "passes.sgf"
    path.write_text(f"(;GM[1]SZ[9]{';B[];W[]' * 2501})")
    assert say(f"loadsgf {path}") == "? cannot load file: 5,002 moves; wanted at most 5,000"
    assert say(f"loadsgf {path} 5001").startswith("=")


def test_loadsgf_says_what_it_took(tmp_path):
    path, any_board, said = tmp_path / "game.sgf", of_any_board(), []
    any_board.gtp._say = said.append
    path.write_bytes("(;GM[1]SZ[9]KM[375]PB[許功蓋]PW[王育]HA[2];W[ee])".encode("big5"))
    assert any_board(f"loadsgf {path}") == "= black" and any_board("get_komi") == "= 7.5"
    assert said[-1] == (
        "loadsgf: 9×9, komi 7.5, 1 move; its text is in Big5; its komi 375 is read as 7.5 points; "
        "no stones are given for its handicap of 2: they are placed on the usual points"
    )
    path.write_text("(;GM[1]SZ[9]KM[];B[cc];W[gg];AB[ce]AW[ge]AE[gg];B[ee])")
    assert any_board(f"loadsgf {path}") == "= white" and any_board("get_komi") == "= 7"
    assert said[-1] == "loadsgf: 9×9, komi 7 as the record gives no other, 3 moves"
    board = any_board("showboard")
    assert board.count("O") == 1 + board.count("O to") and any_board("undo") == any_board("undo") == "="
    path.write_text("(;GM[1]SZ[21])")
    assert any_board(f"loadsgf {path}") == "? cannot load file: the board is 21×21; this model plays 5 to 19"
    path.write_text("(;GM[1]SZ[9]HA[4];W[ee];B[cc])")
    assert "C7: the point is occupied; no stones are given for its handicap of 4: they are placed on the usual" in (
        any_board(f"loadsgf {path}")
    )
    path.write_text("(;GM[1]SZ[13];B[aa];W[aa])")
    assert "move 2" in any_board(f"loadsgf {path}") and any_board.gtp._game.board_shape == (9, 9)


def test_other_board_games_have_the_commands_that_make_sense():
    say = Manager(make_gtp("othello:6"))
    assert say("boardsize 6") == "=" and say("known_command komi") == say("known_command final_score") == "= false"
    assert say("genmove b").startswith("= ") and say("genmove w").startswith("= ")
    for command in ("genmove w", "kata-genmove_analyze w", "lz-genmove_analyze w 10"):
        assert say(f"7 {command}").startswith("?7 6×6 Othello: out of turn")
    connect = Manager(make_gtp("tictactoe"))
    for _ in range(9):
        answer = connect("genmove b") if connect.gtp.session.to_move == 0 else connect("genmove w")
        if answer.startswith("?"):
            break
    assert connect.gtp.session.is_over and connect("genmove b") == "? the game is over"
    assert connect("7 kata-genmove_analyze b") == "?7 the game is over"


RANDOM_WORDS = [*"0123456789", "b", "w", "D4", "pass", "nan", "-1", "1e9", "\x00", "é", "9" * 400, "A1 A2", "interval"]


def test_no_line_stops_it():
    gtp = make_gtp(readouts=2)
    say = Manager(gtp)
    rng = np.random.default_rng(0)
    commands = [name for name in gtp._commands if "analyze" not in name and name != "quit"]
    for _ in range(600):
        words = [str(rng.choice(commands)), *rng.choice(RANDOM_WORDS, rng.integers(0, 5))]
        say(" ".join(words))
    assert say("protocol_version") == "= 2"


class Pipe:
    """A manager at the other end of real pipes, which sends line by line."""

    def __init__(self) -> None:
        read, write = os.pipe()
        self.commands, self._typed = os.fdopen(read, encoding="utf-8", errors="replace"), os.fdopen(write, "w")
        self.written = io.StringIO()

    def type(self, line: str) -> None:
        self._typed.write(line + "\n")
        self._typed.flush()

    def end(self) -> None:
        self._typed.close()


def run_and_type(gtp: Gtp, *steps: tuple[float, str | None]) -> str:
    """What the engine wrote while these lines came, each after its number of seconds. None: nothing; just wait."""
    import threading

    pipe = Pipe()
    lines = CommandLines(pipe.commands, 1000)
    running = threading.Thread(target=gtp.run, args=(lines, pipe.written.write))
    running.start()
    for seconds, line in steps:
        time.sleep(seconds)
        if line is not None:
            pipe.type(line)
    pipe.end()
    running.join(20)
    assert not running.is_alive()
    pipe.commands.close()
    return pipe.written.getvalue()


def test_analysis_streams_until_a_line_comes():
    gtp = make_gtp(estimate=dead_at([3]))
    text = run_and_type(
        gtp,
        (0, "5 kata-analyze w 10 ownership true rootInfo true maxmoves 3"),
        (1.5, "6 name"),
        (0, "lz-analyze 10.5"),
        (1.0, ""),
        (0, "8 showboard"),
    )
    first, second, third, fourth = text.strip().split("\n\n")
    assert first.startswith("=5\ninfo move ") and second == "=6 MuGo" and fourth.startswith("=8\n")
    assert "O to move" in fourth  # w had to move
    lines = first.split("\n")[1:]
    assert len(lines) >= 3 and all(line.count("info move") == 3 for line in lines)
    assert re.match(
        r"info move [A-HJ]\d visits \d+ utility -?\d\.\d+ winrate \d\.\d+ scoreLead -12\.5\d* scoreMean \S+ "
        r"prior \d\.\d+ lcb \d\.\d+ order 0 pv [A-HJ]\d",
        lines[-1],
    )
    owners = lines[-1].partition(" ownership ")[2].split()
    assert len(owners) == 81 and owners[3] == "1.000" and owners[4] == "-1.000"  # seen by white
    visits = [int(re.search(r"rootInfo visits (\d+)", line)[1]) for line in lines]
    assert visits == sorted(visits) and visits[-1] > visits[0]
    assert re.match(r"info move \w+ visits \d+ winrate \d+ prior \d+ lcb \d+ order 0 pv", third.split("\n")[1])


def test_analysis_goes_on_once_both_have_passed():
    """As if nobody had; the game stays over for genmove."""
    moves = [(0, "genmove b"), (0, "play w pass"), (0, "play b pass")]
    gtp = make_gtp()
    text = run_and_type(gtp, *moves, (0, "5 kata-analyze w 2 rootInfo true"), (1, "6 genmove w"))
    *_, analysis, last = text.strip().split("\n\n")
    assert analysis.startswith("=5\ninfo move") and last == "=6 pass"
    assert all(line.startswith("info move") for line in analysis.split("\n")[1:])


def moves_of(analysis: str) -> set[str]:
    return set(re.findall(r"info move (\S+)", analysis))


def test_analysis_of_some_moves():
    """Lizzie and Sabaki leave moves out, or whole regions."""
    everything = ",".join(f"{letter}{row}" for letter in "abcdefghj" for row in range(1, 10))
    steps = (
        (0, "1 kata-analyze b 10 maxmoves 99 allow b C3,d4 1"), (0.6, "2 lz-analyze b 10 maxmoves 99 avoid b C3,D4 1"),
        (0.6, "3 kata-analyze b 10 maxmoves 99 avoid b C3 D4, E5 1 avoid w A1 1"),
        (0.6, f"4 kata-analyze 10 avoid b {everything},pass 1"), (0, "5 kata-analyze 10 avoid b C3"),
        (0, "6 kata-analyze avoid green C3 1"), (0, "7 kata-analyze avoid b Z3 1"), (0, "8 kata-analyze allow b 1"),
        (0, "9 kata-genmove_analyze b 10 allow b G7 1"), (0, "10 genmove w"),
        (0, f"11 kata-analyze b 10 avoid b {everything} 1"), (0.6, "12 name"),
    )  # fmt: skip
    gtp = make_gtp(readouts=100)
    answers = run_and_type(gtp, *steps).strip().split("\n\n")
    assert moves_of(answers[0]) == {"C3", "D4"}
    assert len(moves_of(answers[1])) > 10 and not moves_of(answers[1]) & {"C3", "D4"}
    assert len(moves_of(answers[2])) > 10 and not moves_of(answers[2]) & {"C3", "D4", "E5"}
    assert answers[3] == "?4 avoid and allow leave no legal move"
    assert answers[4] == "?5 syntax error: wanted avoid COLOUR VERTEX,VERTEX,… DEPTH"
    assert answers[5].startswith("?6 syntax error") and answers[6] == "?7 invalid vertex: 'z3'"
    assert answers[7] == "?8 syntax error: wanted allow COLOUR VERTEX,VERTEX,… DEPTH"
    assert answers[8].endswith("\nplay G7") and answers[9] != "=10 G7"
    assert moves_of(answers[10]) == {"pass"}


def test_moves_left_out_below_the_root_are_no_replies():
    gtp = make_gtp(readouts=400)
    text = run_and_type(gtp, (0, "kata-analyze b 10 allow b E5 1 allow w A1 2"), (1.0, "name"))
    lines = [line.split(" pv ")[1].split() for line in text.split("\n") if " pv " in line]
    assert lines and all(line[:2] == ["E5", "A1"] for line in lines if len(line) > 1) and len(lines[-1]) > 1


def test_what_was_searched_can_be_forgotten(say):
    say("genmove b")
    assert say.gtp.session.candidates()[0].visits
    assert say("clear_cache") == say("stop") == "=" and not say.gtp.session.candidates()


def test_a_resignation_is_no_move_to_take_back():
    """Leela left one, which programs had to undo."""

    def lost(planes):
        return np.zeros((len(planes), 26), np.float32), np.full(len(planes), -0.99, np.float32)

    game = parse_game("go:5").without_move_limit()
    session = SearchSession(game, lost, SearchOptions(noise_weight=0.0), 0)
    say = Manager(Gtp(session, Findings(session, None), resign_threshold=-0.5))
    say("genmove b")
    say("play w pass")
    assert say("genmove b") == "= resign" and say("undo") == "=" and len(session.moves) == 1


def test_errors_name_the_game_as_people_do(tmp_path):
    say = of_any_board()
    record = tmp_path / "twice.sgf"
    record.write_text("(;SZ[9];B[ee];W[ee])")
    assert say(f"loadsgf {record}") == "? cannot load file: move 2: 9×9 Go: E5: the point is occupied"
    say("play b E5")
    assert say("5 play w E5") == "?5 illegal move"
    for size, name in ((19, "Q16"), (13, "C3"), (5, "C3")):
        point = {"Q16": "pd", "C3": chr(96 + 3) + chr(96 + size - 2)}[name]
        problem = f"{size}×{size} Go: {name}: the point is occupied"
        record.write_text(f"(;SZ[{size}]KM[0.5];B[{point}];W[{point}])")
        assert say(f"loadsgf {record}") == f"? cannot load file: move 2: {problem}"
        record.write_text(f"(;SZ[{size}]KM[0.5];B[{point}];W[{point}];AB[aa])")
        assert say(f"loadsgf {record}") == f"? cannot load file: SGF: move 2, before stones are set up: {problem}"
    connect = Manager(make_gtp("connect4"))
    assert connect("play b 9") == "? invalid vertex: '9'"


MOVE = r" (?:[A-J]\d|pass)\n\n"


@pytest.mark.parametrize("end", ["9 quit", None])
@pytest.mark.parametrize(
    ("lines", "answers"),
    [
        (["1 genmove b"], f"=1{MOVE}"),
        (["1 reg_genmove b"], f"=1{MOVE}"),
        (["1 genmove b", "2 genmove w", "3 reg_genmove b", "4 name"], f"=1{MOVE}=2{MOVE}=3{MOVE}=4 MuGo\n\n"),
        (["1 kata-genmove_analyze b", "2 kgs-genmove_cleanup w"], f"=1\n(?:info.*\n)?play{MOVE}=2{MOVE}"),
        (["1 genmove b"] * 100, f"(?:=1{MOVE}){{100}}"),
    ],
)  # fmt: skip
def test_quit_and_the_end_of_the_input_end_every_search_before_them(lines, answers, end):
    begun = time.monotonic()
    text = run_and_type(make_gtp(readouts=1_000_000), *((0, line) for line in lines), (0.5, end))
    assert re.fullmatch(answers + r"=9\n\n" * bool(end), text) and time.monotonic() - begun < 10


def test_a_scripts_quit_has_its_turn():
    script = "genmove b\ngenmove w\nreg_genmove b\nquit\n"
    gtp, visits = make_gtp(readouts=300), []
    think = gtp.session.think

    def noted(*told):
        visits.append(told[1])
        return think(*told)

    gtp.session.think = noted
    gtp.run(CommandLines(io.StringIO(script), 1000), lambda text: None)
    assert visits == [None] * 3 and gtp.session.candidates()[0].visits > 10


def test_a_process_ends_with_its_manager(tmp_path):
    """Whatever it searches: half a second, and what a busy machine needs on top."""
    model = make_model(tmp_path, spec="go:any")
    command = [sys.executable, str(Path(__file__).parents[3] / "main.py"), "engine", "--model", str(model),
               "--backend", "torch", "--readouts", "1000000"]  # fmt: skip
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
    engines = [subprocess.Popen(command, **pipes) for _ in range(2)]
    for process, end in zip(engines, ("quit\n", ""), strict=True):
        process.stdin.write("1 name\n")
        assert process.stdout.readline() == "=1 MuGo\n"
        process.stdin.write("reg_genmove b\ngenmove b\ngenmove w\n")
        time.sleep(1)
        begun = time.monotonic()
        process.stdin.write(end)
        process.stdin.close()
        assert process.wait(60) == 0 and time.monotonic() - begun < 3
        assert process.stdout.read().count("\n\n") == (4 if end else 3)
        process.stdout.close()


def test_a_byte_order_mark_is_no_command():
    """Windows' shells begin a pipe with one."""
    assert run_and_type(make_gtp(), (0, "\ufeff1 protocol_version")) == "=1 2\n\n"


@pytest.mark.parametrize(("algorithm", "room"), [("puct", 50), ("mixed", 50), ("gumbel", 16)])
def test_searches_that_keep_their_trees_have_room_for_more(monkeypatch, algorithm, room):
    monkeypatch.setattr("pipeline.play.session.LEAST_ROOM", 50)
    game = parse_game("tictactoe")
    session = SearchSession(game, hashed_evaluator(game), SearchOptions(algorithm=algorithm), 16)
    assert session.room() == room


def test_genmove_with_analysis_and_pondering():
    gtp = make_gtp(readouts=2000, ponder=True)
    text = run_and_type(gtp, (0, "kata-genmove_analyze b 2"), (3, "play w A1"), (0, "undo"), (0, "quit"))
    first = text.split("\n\n")[0].split("\n")
    assert first[0] == "=" and first[1].startswith("info move") and first[-1].startswith("play ")
    assert gtp.session.moves and len(gtp.session.moves) == 1


def test_an_interval_of_any_length():
    ended = [(0, "play b pass"), (0, "play w pass")]
    text = run_and_type(make_gtp(), *ended, (0, f"kata-analyze {10**12}"), (0.1, "3 name"))
    assert text.endswith("=3 MuGo\n\n")


def test_a_line_of_any_length_has_one_answer():
    assert run_and_type(make_gtp(), (0, "x" * 100_000), (0, "3 name")) == "? line too long\n\n=3 MuGo\n\n"
    long = "12 set_free_handicap" + " D4" * 10_000
    assert run_and_type(make_gtp(), (0, long), (0, "13 name")) == "?12 line too long\n\n=13 MuGo\n\n"


# Clocks


def test_absolute_time_lasts_for_the_whole_game():
    clock = Clock(TimeSettings(60.0))
    assert clock.seconds(30) == pytest.approx(54 / 30)
    clock.set_left(18.0, 0)
    assert clock.seconds(1) == pytest.approx(12 / 12)
    clock.set_left(6.0, 0)
    assert clock.seconds(1) == 0.0  # the reserve
    clock.set_left(0.1, 0)
    assert clock.seconds(1) == 0.0
    assert Clock().seconds(30) is None


def test_canadian_and_japanese_periods():
    canadian = Clock(TimeSettings(0.0, 30.0, 10))
    assert canadian.seconds(30) == pytest.approx(3.0)
    canadian.set_left(5.0, 1)
    assert canadian.seconds(30) == pytest.approx(5 - 0.15 - 0.1)
    japanese = Clock(TimeSettings(0.0, 5.0, 0, 3))
    assert japanese.seconds(30) == pytest.approx(5 - 0.15 - 0.1)
    japanese.set_left(2.0, 1)
    assert japanese.seconds(30) == pytest.approx(2 - 0.15 - 0.04)
    assert Clock(TimeSettings(60.0, 5.0, 0, 3)).seconds(30) == pytest.approx(5.0)
    assert Clock(TimeSettings(60.0, 5.0, 0)).seconds(30) is None  # GTP: a period for no stones is no limit


def test_a_clock_counts_by_itself():
    clock = Clock(TimeSettings(10.0))
    clock.start()
    time.sleep(0.2)
    clock.stop()
    assert clock.seconds(100) == pytest.approx(8.8 / 100, rel=0.02)


def test_a_game_on_time_never_oversteps():
    """With 3 s for the whole game, announced before each move, no game is lost on time."""
    gtp = make_gtp("go:5", readouts=100_000)
    say = Manager(gtp)
    say("time_settings 3 0 0")
    left, passes = 3.0, 0
    for move in range(40):
        say(f"time_left b {left:.2f} 0")
        started = time.monotonic()
        passes = passes + 1 if say("genmove b") == "= pass" else 0
        left -= time.monotonic() - started
        assert left > 0, move
        if passes:
            break
        say("play w pass")


@pytest.mark.parametrize("line", ["none", "absolute 60", "byoyomi 60 5 3", "byoyomi 60 5 0", "canadian 60 30 10"])
def test_kgs_time_settings(say, line):
    assert say(f"kgs-time_settings {line}") == "=" and say("time_left w 5 1") == "="
    assert say("kgs-time_settings hourglass").startswith("? syntax error")
    assert say("time_settings -1 0 0").startswith("? syntax error")
    assert say("time_left w soon 0").startswith("? syntax error")
    assert say("time_left w 1000000000 0").startswith("? syntax error") and say("time_left w -1 0") == "="


def test_a_model_plays_through_the_engine_command(tmp_path):
    model = make_model(tmp_path, spec="go:5")
    answers = io.StringIO()
    config = EngineConfig(model=model, readouts=8, backend="torch")
    engine(config, commands=io.StringIO("boardsize 5\nkomi 7.5\ngenmove b\ngenmove w\nfinal_score\nquit\nname\n"),
           answers=answers)  # fmt: skip
    told = answers.getvalue().split("\n\n")
    assert told[:2] == ["=", "="] and len(told) == 7 and re.fullmatch(r"= [BW]\+[\d.]+|= 0", told[4])


def test_a_decided_game_ends_with_passes():
    """The loser doesn't fill its eyes, and the winner answers its pass; a search with time left does the same."""
    session = SearchSession(GO.without_move_limit(), white_wins(), PlaySearchOptions(), 60, 1, counted())
    say = Manager(Gtp(session, Findings(session, None)))
    session.restart(position(SETTLED, 0))
    assert say("reg_genmove b") == "= pass"
    say("time_settings 60 0 0")
    assert [say("genmove b"), say("genmove w")] == ["= pass", "= pass"]
    assert session.is_over
    say("clear_board")
    session.restart(position(SETTLED, 0))
    say("time_left b 0 0")
    assert say("genmove b") != "= pass", "no time for a second search"
