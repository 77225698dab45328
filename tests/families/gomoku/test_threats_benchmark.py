"""Which threats a run's moves answer: positions by hand, and games of random moves."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks import gomoku_threats
from benchmarks.gomoku_threats import KINDS, answered, kinds
from pipeline.games.specs import parse_game
from tests.families.gomoku.test_rules import BREAKABLE, board, play
from tests.run.random_games import random_shards


@pytest.mark.parametrize(
    ("rows", "words", "kind", "good", "bad"),
    [
        (("OOOO.", "XX"), {}, "four", {"E9"}, {"F9", "A1"}),
        (("..O.OOO", "XX"), {}, "four", {"D9"}, {"B9", "H9"}),
        ((".........", "..OOO", "XX"), {}, "three", {"B8", "F8"}, {"A8", "A1"}),
        ((".........", "..OOO", ".........", "XXX......", ".X"), {}, "three", {"D6", "B8"}, {"A1"}),  # makes a four
        ((".OOOO.", "XX"), {}, None, set(), set()),  # too late
        (("XXXX.", "OOOO."), {}, None, set(), set()),  # it can win: nothing has to be answered
        (("XX", "OO"), {}, None, set(), set()),
        (("XOO.", "OOO"), {"pairs": (4, 0)}, "pairs", {"D9"}, {"E9", "D8"}),
        (("XOO.", "OOO"), {"pairs": (3, 0)}, None, set(), set()),
    ],
)
def test_what_a_position_asks_for(
    rows: tuple[str, ...], words: dict[str, object], kind: str | None, good: set[str], bad: set[str]
) -> None:
    game, state, _ = board(*rows, **words)  # type: ignore[arg-type]
    assert kinds(game, state).tolist() == [-1 if kind is None else KINDS.index(kind)]
    for move in good | bad:
        found, movers = kinds(game, state), game.to_move(state)
        assert answered(game, found, movers, play(game, state, move)).tolist() == [move in good], move


def test_a_five_is_answered_by_a_capture_that_breaks_it() -> None:
    game, state, point = board(*BREAKABLE)
    state = play(game, state, point)
    assert kinds(game, state).tolist() == [KINDS.index("five")]
    for move, wanted in (("D8", True), ("A1", False)):
        after = play(game, state, move)
        assert answered(game, kinds(game, state), game.to_move(state), after).tolist() == [wanted]


def test_the_table_of_random_games(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    random_shards(tmp_path / "selfplay", parse_game("gomoku:9,capture"), 3, 40)
    gomoku_threats.main([str(tmp_path / "selfplay"), "--every", "1"])
    lines = capsys.readouterr().out.splitlines()
    assert re.split(" {2,}", lines[0]) == ["generations", *KINDS] and lines[-1].startswith("random moves")
    fours, again = (re.split(" {2,}", line)[3] for line in lines[1:])
    assert fours.split(" of ")[1] == again.split(" of ")[1] and float(fours.split("%")[0]) < 20


@pytest.mark.parametrize(
    ("spec", "arguments", "says", "code"),
    [("tictactoe", [], "wanted Gomoku", 2), (None, [], "no games", 1), (None, ["--every", "0"], "at least 1", 2)],
)
def test_what_cannot_be_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], spec: str | None, arguments: list[str], says: str, code: int
) -> None:
    if spec:
        random_shards(tmp_path, parse_game(spec), 1, 4)
    with pytest.raises(SystemExit) as stopped:
        gomoku_threats.main([str(tmp_path), *arguments])
    assert stopped.value.code == code and says in capsys.readouterr().err
