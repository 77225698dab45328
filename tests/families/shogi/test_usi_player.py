"""UsiPlayer: specs, an engine that plays, and engines that fail."""

from __future__ import annotations

import shlex
import shutil
import sys

import numpy as np
import pytest

from pipeline.errors import MuGoError, UsageError
from pipeline.evaluate.command import evaluate
from pipeline.evaluate.config import EvaluateConfig
from pipeline.families.shogi.player_kind import GO, parse_command
from pipeline.families.shogi.usi_player import UsiPlayer
from pipeline.games.specs import parse_game
from pipeline.matches.runner import common_game, load_entrant
from pipeline.players import engine_process as pipes
from pipeline.players.engine_process import GAMES_FOLDER
from pipeline.players.player import RESIGN
from pipeline.players.player_specs import is_engine, parse_player
from pipeline.run.matches import read_match
from tests.players.deciding import decided

INSTALLED = shutil.which("fairy-stockfish") or shutil.which("fairy-stockfish", path=GAMES_FOLDER)
needs_fairy = pytest.mark.skipif(INSTALLED is None, reason="no fairy-stockfish (Debian: apt install fairy-stockfish)")
GAME = parse_game("shogi:5")
ENGINE = """
import sys
for line in sys.stdin:
    word = line.split()[0]
    if word == "usi": print("id name it\\noption name Level type spin default 1 min 1 max 9\\n" + {extra!r} + "usiok")
    if word == "isready": print("readyok")
    if word == "go": {go}
    if word == "quit": break
    print(line.rstrip(), file=open({log!r}, "a"))
    sys.stdout.flush()
"""


def scripted(tmp_path, go: str, extra: str = "") -> str:
    """The command line of an engine that gives this answer to go and logs its input."""
    script = tmp_path / "engine.py"
    script.write_text(ENGINE.format(go=go, extra=extra, log=str(tmp_path / "log")))
    return shlex.join([sys.executable, str(script)])


def asked(command: str, seconds: float = 60.0, moves: str = ""):
    """The decision of a player in its only row after these moves."""
    player = UsiPlayer(GAME, 1, command, "it", seconds)
    try:
        player.new_games(np.array([0]), np.zeros(1, np.uint64))
        states = GAME.initial(1)
        for text in moves.split():
            action = np.array([GAME.parse_move(states[0], text)], np.int32)
            player.advance(np.array([0]), action)
            states = GAME.play(states, action, GAME.initial_history(states))
        player.begin(np.array([0]))
        return decided(player, 1)
    finally:
        player.close()


def test_what_a_spec_says():
    spec = parse_player("weak=usi:fairy-stockfish; Skill Level=-10; go nodes 500")
    assert (spec.kind, spec.name) == ("usi", "weak") and is_engine(spec.text)
    command = parse_command(spec.argument)
    assert (command.program, command.options, command.go) == (
        "fairy-stockfish", (("Skill Level", "-10"),), "go nodes 500"
    )  # fmt: skip
    assert parse_command("x").go == GO
    assert parse_player("usi:fairy-stockfish; go nodes 5").name != parse_player("usi:fairy-stockfish; go nodes 6").name
    for wrong in ("usi:", "usi:x; fast", "usi:x; go nodes", "usi:x; go infinite", "usi:x; =3"):
        with pytest.raises(UsageError, match="wanted"):
            parse_player(wrong)
    with pytest.raises(UsageError, match="USI engines play shogi only, not go:5"):
        common_game("go:5", [load_entrant("random", 1), load_entrant("usi:true", 1)])
    with pytest.raises(UsageError, match=r"no program 'nonsense'.* apt install fairy-stockfish"):
        common_game("shogi:5", [load_entrant("random", 1), load_entrant("usi:nonsense", 1)])


def test_what_an_engine_is_told(tmp_path):
    extra = "option name USI_Variant type combo default shogi var minishogi\n"
    command = scripted(tmp_path, 'print("info depth 1\\nbestmove 1b1c ponder 5c5b")', extra)
    found = asked(f"{command}; Level=3; go nodes 7", moves="5d5c")
    assert GAME.action_name(found.actions[0]) == GAME.action_name(GAME.parse_move(_after("5d5c"), "1b1c"))
    log = (tmp_path / "log").read_text().splitlines()
    assert log == ["usi", "setoption name USI_Variant value minishogi", "setoption name Level value 3", "isready",
                   "usinewgame", "position startpos moves 5d5c", "go nodes 7"]  # fmt: skip


def _after(*moves: str):
    states = GAME.initial(1)
    for text in moves:
        action = np.array([GAME.parse_move(states[0], text)], np.int32)
        states = GAME.play(states, action, GAME.initial_history(states))
    return states[0]


@pytest.mark.parametrize("go, kind, problem", [
    ('print("bestmove 9z9y")', "protocol", "'9z9y' is no move here"),
    ('print("bestmove 5d5b")', "illegal", "chose 5d5b at ply 0, which shogi:5 forbids"),
    ('print("bestmove win")', "protocol", "declares a win at ply 0, where shogi:5 allows none"),
    ('print("bestmove")', "protocol", "wanted bestmove MOVE"),
    ("sys.exit(3)", "broken", "ended with status 3"),
    ("import time; time.sleep(60)", "broken", "gave no answer to 'go btime 0 wtime 0 byoyomi 1000' within 1 s"),
])  # fmt: skip
def test_an_engine_that_fails(tmp_path, monkeypatch, go, kind, problem):
    monkeypatch.setattr(pipes, "GRACE_SECONDS", 0.3)
    found = asked(scripted(tmp_path, go), seconds=1.0 if "sleep" in go else 60.0)
    assert found.faults[0].kind == kind and problem in str(found.faults[0])


def test_an_engine_that_is_none_and_one_without_the_option(tmp_path, monkeypatch):
    monkeypatch.setattr(pipes, "START_SECONDS", 0.5)
    monkeypatch.setattr(pipes, "GRACE_SECONDS", 0.3)
    found = asked("cat", seconds=0.5)
    assert "gave no answer to 'usi' within 0.5 s" in str(found.faults[0]) and "does it speak USI?" in str(
        found.faults[0]
    )
    monkeypatch.setattr(pipes, "START_SECONDS", 60.0)
    found = asked(scripted(tmp_path, "pass") + "; Threads=2")
    assert "has no option 'Threads'; known: Level" in str(found.faults[0])


def test_an_engine_that_resigns(tmp_path):
    assert asked(scripted(tmp_path, 'print("bestmove resign")')).actions.tolist() == [RESIGN]


@needs_fairy
@pytest.mark.parametrize("game", ["shogi", "shogi:5"])
def test_whole_games_with_fairy_stockfish(tmp_path, game):
    """Its moves are legal by our rules in every game, and it beats random moves."""
    summary = evaluate(EvaluateConfig(
        game=game, white_model="usi:fairy-stockfish; Skill Level=5; go nodes 200", black_model="random", games=4,
        opening_plies=2, output_dir=tmp_path, engine_seconds=60.0,
    ))  # fmt: skip
    match = read_match(next(tmp_path.glob("*/games.jsonl")).parent)
    assert len(match.games) == 4 and not match.failures
    assert summary.wins == 4


@needs_fairy
def test_an_option_that_it_refuses_ends_the_match_with_its_words(tmp_path):
    with pytest.raises(MuGoError, match="has no option 'Strength'"):
        evaluate(EvaluateConfig(
            game="shogi:5", white_model="usi:fairy-stockfish; Strength=5", black_model="random", games=2,
            opening_plies=0, output_dir=tmp_path,
        ))  # fmt: skip
