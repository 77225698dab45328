"""Files of openings: what is written is read, and what can't be played is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline.errors import FileError
from pipeline.games.specs import parse_game
from pipeline.run.openings import read_openings, write_openings

GAME = parse_game("tictactoe")
CORNERS = [[0, 4], [2, 4], [8, 4]]


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "some" / "openings.json"
    write_openings(path, GAME, CORNERS, {"made_by": "hand", "tried": 3})
    assert read_openings(path, GAME) == CORNERS
    lines = path.read_text().splitlines()
    assert sum('["' in line for line in lines) == 3  # one a line
    assert json.loads(path.read_text())["origin"] == {"made_by": "hand", "tried": 3}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"game": "connect4"}, "openings of connect4; wanted some of tictactoe"),
        ({"openings": [["a1", "a1"]]}, r"opening 0 \(a1 a1\): .*; wanted legal moves"),
        ({"openings": [["a1"], ["z9"]]}, r"opening 1 \(z9\)"),
        ({"openings": [["a1", "b1", "a2", "b2", "a3"]]}, r"opening 0 \(.*\) ends the game"),
        ({"openings": [["a1"], ["a1"]]}, "is there twice"),
        ({"openings": []}, "openings"),
        ({"format": "mugo-match"}, "format"),
    ],
)
def test_what_cannot_be_played_is_refused(tmp_path: Path, change: dict, message: str) -> None:
    path = tmp_path / "openings.json"
    write_openings(path, GAME, CORNERS, {})
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(FileError, match=message):
        read_openings(path, GAME)


@pytest.mark.parametrize(
    ("spec", "fits"),
    [
        ("go:9,komi=7", True),
        ("go:9", True),
        ("go:9,komi=22", True),
        ("go:any,komi=7", True),
        ("go:any,size=13,komi=7", False),
        ("go:13,komi=7", False),
        ("go:13,komi=150", False),  # no komi of 9x9
        ("go:9,komi=7,moves=50", False),
        ("tictactoe", False),
    ],
)
def test_openings_of_go_are_for_every_komi(tmp_path: Path, spec: str, fits: bool) -> None:
    path, listed = tmp_path / "openings.json", parse_game("go:9,komi=7")
    write_openings(path, listed, [[0, 1], [2, 3]], {})
    if fits:
        assert read_openings(path, parse_game(spec)) == [[0, 1], [2, 3]]
    else:
        with pytest.raises(FileError, match="openings of go:9,komi=7; wanted some of"):
            read_openings(path, parse_game(spec))
    write_openings(path, GAME, CORNERS, {})
    with pytest.raises(FileError, match="openings of tictactoe; wanted some of go:9"):
        read_openings(path, listed)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="no such file; wanted a file of openings"):
        read_openings(tmp_path / "none.json", GAME)
