"""Game specs: what they mean, that they are canonical, and what a wrong one says."""

from __future__ import annotations

import pytest

from pipeline.errors import IllegalMove, UsageError
from pipeline.extensions import GAMES, bundled
from pipeline.games.contract import spec_in_words
from pipeline.games.specs import parse_game
from tests.families import having
from tests.games.playing import OTHERS, SPECS


@pytest.mark.parametrize("spec", [*SPECS, *OTHERS])
def test_spec_round_trip(spec: str) -> None:
    game = parse_game(spec)
    assert game.spec == spec
    assert parse_game(game.spec).spec == spec


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        (" go:9 ", "go:9"),
        ("go:09", "go:9"),
        ("go:9,komi=7.5", "go:9"),
        ("go:9,komi=7.50,moves=162", "go:9"),
        ("go:9,komi=7.0", "go:9,komi=7"),
        ("go:9,moves=100,komi=-6.5", "go:9,komi=-6.5,moves=100"),
        ("go:9,komi=-0", "go:9,komi=0"),
        *having("backgammon", ("backgammon,reward=3", "backgammon")),
        ("go:19,komi=360.5", "go:19,komi=360.5"),
        ("gomoku:09,exact=on", "gomoku:9,exact"),
        ("gomoku:15,exact=off,capture=off", "gomoku:15"),
        ("gomoku:19,capture=on,pairs=5,breakable=on", "gomoku:19,capture"),
        (
            "gomoku:19,breakable=off,threes_by_capture=off,pairs=3,capture",
            "gomoku:19,capture,pairs=3,threes_by_capture=off,breakable=off",
        ),
    ],
)
def test_specs_are_canonical(written: str, canonical: str) -> None:
    assert parse_game(written).spec == canonical
    assert parse_game(canonical).spec == canonical


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ("", "known games: " + ", ".join(sorted(bundled(GAMES)))),
        ("chess", "known games"),
        ("GO:9", "known games"),
        ("go", "from 5 to 19"),
        ("go:", "nothing after ':'"),
        ("gomoku:", "wanted a size, e.g. gomoku:9"),
        ("gomoku,capture", "gomoku: no size; wanted a number from 9 to 19"),
        ("go:4", "from 5 to 19"),
        ("go:20", "from 5 to 19"),
        ("go:9.0", "from 5 to 19"),
        ("go:-9", "from 5 to 19"),
        ("go:nine", "from 5 to 19"),
        ("go:9,7", "unknown option '7'"),
        ("go:9,", "NAME=VALUE"),
        ("go:9,komi", "komi=on; wanted a multiple of 0.5"),
        ("go:9,komi=", "NAME=VALUE"),
        ("go:9,=7", "NAME=VALUE"),
        ("go:9,komi=7,komi=7", "twice"),
        ("gomoku", "from 9 to 19"),
        ("gomoku:8", "from 9 to 19"),
        ("gomoku:20,capture", "from 9 to 19"),
        ("gomoku:15,renju", "unknown option 'renju'; known: exact, capture"),
        ("gomoku:15,exact=yes", "wanted on or off"),
        ("gomoku:15,exact,capture", "don't go together"),
        ("gomoku:15,pairs=5", "pairs needs captures"),
        ("gomoku:15,breakable=off", "wanted gomoku:15,capture,breakable=off"),
        ("gomoku:15,capture,pairs=2", "from 3 to 7"),
        ("gomoku:15,capture,pairs=8", "from 3 to 7"),
        ("gomoku:15,capture,pairs=on", "from 3 to 7"),
        ("gomoku:15,capture,capture", "twice"),
        ("go:9,rules=japanese", "known: komi, moves"),
        ("go:9,komi=seven", "multiple of 0.5"),
        ("go:9,komi=7.25", "multiple of 0.5"),
        ("go:9,komi=nan", "multiple of 0.5"),
        ("go:9,komi=inf", "multiple of 0.5"),
        ("go:9,komi=82", "at most 81"),
        ("go:9,moves=1", "from 2 to 30000"),
        ("go:9,moves=1e3", "from 2 to 30000"),
        ("go:9,moves=40000", "from 2 to 30000"),
        ("tictactoe:3", "no size or options"),
        ("connect4,komi=1", "no size or options"),
        *having(
            "backgammon",
            ("backgammon:15", "no size and only the option reward=2.5"),
            ("backgammon,cube", "only the option reward=2.5"),
            ("backgammon,reward=2", "wanted 3 or 2.5"),
            ("backgammon,reward", "reward=on; wanted 3 or 2.5"),
            ("hypergammon,reward=2.5", "no size or options"),
            ("hypergammon:3", "no size or options"),
        ),
    ],
)
def test_wrong_specs_say_what_was_wanted(spec: str, wanted: str) -> None:
    with pytest.raises(UsageError, match=wanted) as raised:
        parse_game(spec)
    assert raised.value.exit_code == 2
    assert "\n" not in str(raised.value)
    if not spec.startswith("go"):
        assert repr(spec) in str(raised.value) or spec.partition(":")[0].partition(",")[0] in str(raised.value)


@pytest.mark.parametrize(
    ("spec", "title"),
    [
        ("go:9,komi=7", "9×9 Go, komi 7"),
        ("go:19", "19×19 Go, komi 7.5"),
        ("go:9,moves=100", "9×9 Go, at most 100 moves, komi 7.5"),
        ("go:any,komi=7", "Go on all boards, komi 7"),
        ("go:any,size=13", "Go on all boards, here 13×13, komi 7.5"),
        ("gomoku:15", "15×15 Gomoku"),
        ("gomoku:9,opponents", "9×9 Gomoku"),
        ("gomoku:15,exact", "15×15 Gomoku, exactly five win"),
        ("gomoku:19,capture,pairs=3,breakable=off", "19×19 Gomoku with captures, 3 pairs win, any five wins at once"),
        ("othello:8", "8×8 Othello"),
        ("connect4", "Connect four"),
        ("tictactoe", "Tic-tac-toe"),
        *having("shogi", ("shogi", "Shogi"), ("shogi:5", "Minishogi"),
                ("shogi,declaration=24,moves=300", "Shogi, declaration 24, at most 300 moves")),
        *having("backgammon", ("backgammon", "Backgammon"), ("backgammon,reward=2.5", "Backgammon, reward 2.5"),
                ("hypergammon", "Hypergammon")),
    ],
)  # fmt: skip
def test_what_people_call_a_game(spec: str, title: str) -> None:
    assert parse_game(spec).title == title


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("nim", "Nim"),
        ("nim:7,last_wins", "Nim 7, last wins"),
        ("dots-and-boxes:3,komi=2,draws=off", "Dots and boxes 3, draws off"),
    ],
)
def test_without_a_name_of_its_own_a_game_is_called_by_its_spec(spec: str, words: str) -> None:
    assert spec_in_words(spec) == words


def test_a_square_board_comes_before_the_name() -> None:
    assert spec_in_words("hex:11,swap", square=True) == "11×11 Hex, swap"


def test_the_same_spec_is_the_same_object() -> None:
    assert parse_game("go:9") is parse_game("go:9")


def test_go_has_no_column_i() -> None:
    with pytest.raises(IllegalMove, match="I5"):
        parse_game("go:9").parse_action("I5")
