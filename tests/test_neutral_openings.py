"""Openings that favour nobody's taste: how they are made, and those that are there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks import measuring, neutral_openings
from benchmarks.neutral_openings import playout, random_openings, seen_from_all_sides
from pipeline.families.go.gtp_client import GtpEngine
from pipeline.games.specs import parse_game
from pipeline.games.testing import symmetries_of_start
from pipeline.matches.openings import WANTED, OpeningsFile, read_openings
from pipeline.run import atomic

GAME = parse_game("go:9,komi=7")


def test_every_legal_move_but_a_pass_is_as_likely() -> None:
    openings = random_openings(GAME, 4000, 2, np.random.default_rng(0))
    assert len(openings) == 4000
    counts = np.bincount([move for opening in openings for move in opening], minlength=82)
    assert counts[81] == 0 and counts[:81].min() > 60 and counts[:81].max() < 140  # 99 each, deviation 10


def test_an_opening_mirrored_or_turned_is_the_same() -> None:
    rng = np.random.default_rng(1)
    boards = GAME.symmetries.points[symmetries_of_start(GAME)]
    for opening in random_openings(GAME, 20, 6, rng):
        keys = {seen_from_all_sides(GAME, [int(one[move]) for move in opening]) for one in boards}
        assert len(keys) == 1
        assert seen_from_all_sides(GAME, opening[:4]) not in keys


@pytest.mark.parametrize("size", [9, 13])
def test_those_of_go_are_many_even_and_different(size: int) -> None:
    game = parse_game(f"go:{size},komi=7")
    path = measuring.neutral_openings(game.spec)
    assert path is not None and measuring.neutral_openings("go:5") is None
    for other in (f"go:{size}", f"go:{size},komi=22", f"go:any,size={size},komi=7", f"go:any,size={size}"):
        assert measuring.neutral_openings(other) == path
    openings = read_openings(path, game)
    assert len(openings) >= 100 and {len(opening) for opening in openings} == {6}
    assert len({seen_from_all_sides(game, opening) for opening in openings}) == len(openings)
    origin = atomic.read_record(path, OpeningsFile, WANTED).origin
    assert origin["tried"] >= origin["even_to_model"] > len(openings) and "--never-resign" in origin["engine"]
    # uniform plies: a policy would play few moves on the first line
    edge = [move for opening in openings for move in opening if {move // size, move % size} & {0, size - 1}]
    wanted = 1 - ((size - 2) / size) ** 2
    assert wanted - 0.14 < len(edge) / (6 * len(openings)) < wanted + 0.11


@pytest.mark.skipif(measuring.gnugo(1) is None, reason="GNU Go is not installed (Debian: apt install gnugo)")
def test_gnugo_plays_an_opening_out() -> None:
    command = measuring.gnugo(1)
    assert command is not None
    engine = GtpEngine(command, "gnugo", 60.0)
    try:
        engine.handshake()
        opening = random_openings(GAME, 1, 6, np.random.default_rng(2))[0]
        score = playout(engine, GAME, opening, seed=1)
        assert abs(score) <= 88 and score == playout(engine, GAME, opening, seed=1)
    finally:
        engine.kill()


def test_wrong_numbers_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        neutral_openings.main(["--openings", "0"])
    assert caught.value.code == 2 and "--openings 0: wanted at least 1" in capsys.readouterr().err
