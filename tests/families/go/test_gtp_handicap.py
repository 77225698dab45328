"""Handicap stones that an engine places."""

from __future__ import annotations

import pytest

from pipeline.errors import UsageError
from pipeline.families.go.gtp_player import place_handicap
from pipeline.games.specs import parse_game
from pipeline.matches.runner import common_game, load_entrant
from pipeline.players.player import PlayerFault
from tests.players.scripted_engine import engine_command

GAME = parse_game("go:9")
LONG = 60.0


def placed(mode: str, stones: int = 3, log: str = "", number: int = 2) -> list[list[str]]:
    command = engine_command(mode, *(["--log", log] if log else []))
    found = place_handicap(GAME, command, "fake", stones, [[7]] * number, LONG)
    return [[GAME.action_name(point) for point in points] for points in found]


def test_an_engine_places_its_own_stones_for_every_game(tmp_path) -> None:
    log = tmp_path / "log"
    assert placed("free", log=str(log)) == [["B2", "C2", "D2"], ["C2", "D2", "E2"]]
    commands = [line.partition(" ")[2].partition(" ")[2] for line in log.read_text().splitlines()]
    fresh = ["boardsize 9", "clear_board", "komi 7.5"]
    assert commands[2:] == [*fresh, "place_free_handicap 3", *fresh, "place_free_handicap 3", "quit"]


def test_placements_differ_as_far_as_the_engine_lets_them() -> None:
    """The fake engine places stones along a line, and gets a game's next seed if others have the same stones."""
    first = [GAME.parse_action(vertex) for vertex in ("C2", "B2")]  # in any order
    found = place_handicap(GAME, engine_command("free"), "fake", 2, [[1, 2], [3, 4], [5]], LONG, [first])
    named = [[GAME.action_name(point) for point in points] for points in found]
    assert named == [["C2", "D2"], ["D2", "E2"], ["E2", "F2"]]
    repeated = place_handicap(GAME, engine_command("play"), "fake", 2, [[1, 2, 3]] * 2, LONG)
    assert repeated[0] == repeated[1] == GAME.handicap(2)  # an engine without a choice may repeat itself


def test_one_that_knows_only_the_table_is_asked_for_that_and_one_that_knows_neither_gets_ours() -> None:
    assert placed("fixed", number=1) == [["B2", "C2", "D2"]]
    ours = [[GAME.action_name(point) for point in GAME.handicap(3)]] * 2
    assert placed("play") == ours == [["C3", "G7", "C7"]] * 2


@pytest.mark.parametrize(
    ("mode", "problem"),
    [("few", "2 stones; wanted 3"), ("twice", "two stones on B2"), ("off", "Z9")],
)
def test_an_answer_that_is_no_handicap(mode: str, problem: str) -> None:
    with pytest.raises(PlayerFault, match=problem) as caught:
        placed(mode)
    assert caught.value.kind == "protocol" and "answered place_free_handicap 3 with" in str(caught.value)


@pytest.mark.parametrize(
    ("spec", "stones", "problem"),
    [
        ("go:9", 10, "10 handicap stones on 9×9; wanted 2 to 9"),
        ("go:7", 5, "5 handicap stones on 7×7; wanted 2 to 4"),
        ("go:5", 2, "the board is too small"),
        ("othello:8", 2, "othello:8 knows no handicap stones"),
    ],
)
def test_a_handicap_that_the_game_does_not_have(spec: str, stones: int, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        common_game(spec, [load_entrant(f"handicap:{stones}:random", 0), load_entrant("random", 0)])
