"""GNU Backgammon as a player: its opening moves for both sides, whole matches, and what happens when it fails."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import MuGoError, UsageError
from pipeline.evaluate.command import evaluate
from pipeline.evaluate.config import EvaluateConfig
from pipeline.families.backgammon import gnubg
from pipeline.families.backgammon.game import THROW_NAMES
from pipeline.families.backgammon.gnubg import GnubgPlayer
from pipeline.games.specs import parse_game
from pipeline.matches.runner import common_game, load_entrant
from pipeline.players.engine_process import GAMES_FOLDER
from pipeline.players.player_specs import is_engine, parse_player
from pipeline.run.matches import read_match
from tests.players.deciding import decided

INSTALLED = shutil.which("gnubg") or shutil.which("gnubg", path=GAMES_FOLDER)
needs_gnubg = pytest.mark.skipif(INSTALLED is None, reason="gnubg isn't installed (Debian: apt install gnubg)")
GAME = parse_game("backgammon")


@needs_gnubg
def test_it_makes_the_points_that_everybody_makes() -> None:
    """With 31, 42, 61 and 53 as the first player, and as the second, after 65 has been played 24/13."""
    known = {"31": "8/5 6/5", "42": "8/4 6/4", "61": "13/7 8/7", "53": "8/3 6/3"}
    throws = np.array([THROW_NAMES.index(throw) for throw in known], np.int32)
    rows = np.arange(len(known))
    player = GnubgPlayer(GAME, len(known), 0, "gnubg", 20.0)
    try:
        for before in ((), ("65", "24/13")):
            player.new_games(rows, np.zeros(len(known), np.uint64))
            states = GAME.initial(len(known))
            for text in (*before, None):
                moves = throws if text is None else np.full(len(known), GAME.parse_move(states[0], text), np.int32)
                states = GAME.play(states, moves, GAME.initial_history(states))
                player.advance(rows, moves)
            player.begin(rows)
            found = decided(player, len(known))
            assert not found.faults and np.isnan(found.values).all()
            by_row = dict(zip(found.rows.tolist(), found.actions.tolist(), strict=True))
            assert [GAME.move_name(states[row], by_row[row]) for row in rows] == list(known.values())
    finally:
        player.close()


@needs_gnubg
def test_a_match_against_random(tmp_path: Path) -> None:
    config = EvaluateConfig(
        white_model="gnubg:0", black_model="random", game="backgammon", games=12, output_dir=tmp_path
    )
    summary = evaluate(config)
    match = read_match(Path(summary.match))
    assert (match.header.challenger, match.header.players[0].kind) == ("gnubg-0ply", "gnubg")
    assert summary.games_played == 12 and not match.failures
    assert summary.points is not None and summary.points.per_game > 1
    assert evaluate(config).wins == summary.wins  # nothing is played again


FAKE = """
import sys, time
mode = sys.argv[1]
for line in sys.stdin:
    number, word, *words = line.split()
    if word == "quit":
        break
    if word == "hello":
        answer = "gnubg" if mode != "other" else "gnuchess"
    elif mode == "crash":
        sys.exit("no weights")
    elif mode == "hang":
        time.sleep(60)
    else:
        answer = {"lie": "24/1 13/2", "garbage": "resign?", "nothing": ""}.get(mode, "")
    print(f"={number} {answer}", flush=True) if mode != "noise" else print("Hello!", flush=True)
    print(flush=True)
"""


@pytest.mark.parametrize(
    ("mode", "kind", "problem"),
    [
        ("crash", "broken", "ended with status 1 .*no weights"),
        ("hang", "broken", "gave no answer to 'move .* within 0.5 s, so it was ended(?!; does it speak)"),
        ("lie", "illegal", "chose '24/1 13/2' at ply"),
        ("garbage", "illegal", "chose 'resign\\?'"),
        ("nothing", "illegal", "chose ''"),
        ("other", "protocol", "is not the program gnubg"),
        ("noise", "protocol", "wanted a line that begins with ="),
    ],
)
def test_what_fails_is_a_failed_game_tried_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, kind: str, problem: str
) -> None:
    script = tmp_path / "fake.py"
    script.write_text(FAKE)
    monkeypatch.setattr(gnubg, "command", lambda plies: shlex.join([sys.executable, str(script), mode]))
    players = {"white_model": "gnubg:0", "black_model": "random", "game": "backgammon"}
    config = EvaluateConfig(**players, games=2, output_dir=tmp_path, engine_seconds=0.5, threads=1)
    with pytest.raises(MuGoError, match="every game failed"):
        evaluate(config)
    failures = read_match(tmp_path / "gnubg-0ply-vs-random").failures
    assert sorted((one.failed, one.attempt) for one in failures) == [(0, 1), (0, 2), (1, 1), (1, 2)]
    assert {one.kind for one in failures} == {kind} and {one.player for one in failures} == {"gnubg-0ply"}
    assert all(re.search(problem, one.problem) for one in failures), failures[0].problem


def test_specs_and_who_cannot_play(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = parse_player("gnubg:2")
    assert (spec.kind, spec.name, spec.argument) == ("gnubg", "gnubg-2ply", "2")
    assert parse_player("champion=gnubg:0").name == "champion" and is_engine("x=gnubg:1") and not is_engine("random")
    for text in ("gnubg:", "gnubg:5", "gnubg:-1", "gnubg:two", "gnubg:01"):
        with pytest.raises(UsageError, match="wanted gnubg:0 to gnubg:4"):
            parse_player(text)
    entrants = [load_entrant("gnubg:0", 0), load_entrant("random", 0)]
    with pytest.raises(UsageError, match="GNU Backgammon plays backgammon only, not hypergammon"):
        common_game("hypergammon", entrants)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(gnubg, "GAMES_FOLDER", "/nowhere")
    with pytest.raises(UsageError, match=r"gnubg:0: no program 'gnubg' .*apt install gnubg"):
        common_game("backgammon", entrants)
