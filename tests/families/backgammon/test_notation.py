"""Names of turns and diagrams: as people write them, there and back, and against GNU Backgammon's steps."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from pipeline.errors import IllegalMove
from pipeline.families.backgammon.game import Backgammon
from pipeline.families.backgammon.kernels import HIGH_DIE, LOW_DIE, TURN
from tests.families.backgammon.boards import board, random_positions, seen_by, with_every_throw

BACKGAMMON, HYPERGAMMON = Backgammon(), Backgammon("hypergammon")
AWAY = {25: 1}  # the opponent's only checker


@pytest.mark.parametrize(
    ("mine", "theirs", "dice", "text", "left", "hit"),
    [
        ({24: 2, 13: 5}, AWAY, "62", "24/18 13/11", {24: 1, 18: 1, 13: 4, 11: 1}, 0),
        ({24: 2, 13: 5}, AWAY, "62", "24/16", {24: 1, 16: 1, 13: 5}, 0),
        ({25: 1, 6: 2}, AWAY, "42", "bar/21 6/4", {21: 1, 6: 1, 4: 1}, 0),
        ({25: 2}, AWAY, "42", "bar/23 bar/21", {23: 1, 21: 1}, 0),
        ({6: 1, 5: 1, 4: 1}, AWAY, "62", "6/off 5/3", {4: 1, 3: 1}, 0),
        # Two checkers alike, the first of which hits.
        ({8: 2, 24: 2}, {20: 1}, "33", "24/21(2) 8/5*(2)", {21: 2, 5: 2}, 1),
        # A checker that hits on its way, one that goes on after hitting, one that needn't hit.
        ({13: 1}, {15: 1, 16: 1}, "31", "13/10*/9*", {9: 1}, 2),
        ({13: 1}, {15: 1}, "31", "13/10*/9", {9: 1}, 1),
        ({13: 1}, {15: 1}, "31", "13/9", {9: 1}, 0),
        ({13: 1}, {15: 1, 13: 1}, "31", "13/12*/9", {9: 1}, 1),
        # Two checkers hit, on one point only once.
        ({8: 1, 6: 1}, {20: 1}, "31", "8/5* 6/5", {5: 2}, 1),
        ({25: 1, 7: 1}, {5: 1, 20: 1}, "52", "bar/20* 7/5*", {20: 1, 5: 1}, 2),
        # A double by one checker, by two, and by as many as can move.
        ({24: 2}, AWAY, "55", "24/4", {24: 1, 4: 1}, 0),
        ({24: 2}, AWAY, "55", "24/14(2)", {14: 2}, 0),
        ({24: 2}, {11: 1}, "55", "24/14*(2)", {14: 2}, 1),
        ({24: 2}, {6: 1}, "55", "24/19*/14(2)", {14: 2}, 1),
        ({24: 2}, AWAY, "55", "24/9 24/19", {19: 1, 9: 1}, 0),
        ({6: 2, 3: 3}, AWAY, "66", "6/off(2) 3/off(2)", {3: 1}, 0),
        ({24: 1}, {5: 2, 6: 2}, "54", "pass", {24: 1}, 0),
    ],
)  # fmt: skip
@pytest.mark.parametrize("mover", [0, 1])
def test_turns_as_people_write_them(
    mine: dict[int, int], theirs: dict[int, int], dice: str, text: str, left: dict[int, int], hit: int, mover: int
) -> None:
    state = board(mine, theirs, dice, mover)
    action = BACKGAMMON.parse_move(state[0], text)
    assert BACKGAMMON.move_name(state[0], action) == text
    after = seen_by(BACKGAMMON.successors(state).states[action], mover)
    assert {point: count for point, count in enumerate(after.mine) if count and point} == left
    assert after.theirs[25] == theirs.get(25, 0) + hit


@pytest.mark.parametrize("game", [BACKGAMMON, HYPERGAMMON], ids=lambda game: game.spec)
def test_every_name_leads_back_whatever_the_order_of_its_parts(game: Backgammon) -> None:
    states = with_every_throw(random_positions(game, 20, 1)[0][:210])
    stars = doubled = 0
    for state in states:
        names = [game.move_name(state, action) for action in range(len(game.successors(state[None]).states))]
        assert len(set(names)) == len(names)
        for action in np.random.default_rng(0).permutation(len(names))[:10].tolist():
            for parts in list(permutations(names[action].split()))[:6]:
                assert game.parse_move(state, " ".join(parts)) == action, game.diagram(state)
            stars, doubled = stars + ("*" in names[action]), doubled + ("(" in names[action])
    assert stars > 50 and doubled > 10


def test_steps_of_gnu_backgammon_are_read() -> None:
    """It lists a turn's steps, one for each die and without marks of hits, and the board that they lead to."""
    gnubg = pytest.importorskip("gnubg_nn", reason="GNU Backgammon isn't installed: pip install gnubg-nn")
    states = with_every_throw(random_positions(BACKGAMMON, 20, 2)[0][:210])
    turns = 0
    for state in states:
        mover, after = int(state[TURN]), BACKGAMMON.successors(state[None]).states
        one = seen_by(state, mover)
        sides = [list(one.theirs[1:]), list(one.mine[1:])]
        for key, steps in gnubg.moves(sides, int(state[HIGH_DIE]), int(state[LOW_DIE]), 1)[:20]:
            text = " ".join(f"{source}/{target}" for source, target in steps)
            end = seen_by(after[BACKGAMMON.parse_move(state, text)], mover)
            assert gnubg.key_of_board([list(end.theirs[1:]), list(end.mine[1:])]) == key, (
                f"{text}\n{BACKGAMMON.diagram(state)}"
            )
            turns += 1
    assert turns > 1500


def test_marks_of_hits_may_be_left_out_unless_that_leaves_two_turns() -> None:
    state = board({13: 1}, {15: 1, 13: 1}, "31")[0]
    assert BACKGAMMON.parse_move(state, "13/12/9") == BACKGAMMON.parse_move(state, "13/12*/9")
    with pytest.raises(IllegalMove, match=r"'13/9' is ambiguous; wanted 13/12\*/9 or 13/10\*/9"):
        BACKGAMMON.parse_move(state, "13/9")
    only = board({13: 1}, {15: 1, 13: 2}, "31")[0]
    assert BACKGAMMON.move_name(only, BACKGAMMON.parse_move(only, "13/9")) == "13/10*/9"


@pytest.mark.parametrize(
    "text",
    ["", " ", "13", "13/", "/9", "13/9/13", "9/13", "13/13", "13/9(5)", "13/9*", "13/9 13/9", "13/8", "26/22", "bar/9",
     "13/-4", "13/9 pass", "off/9", "13/9.", "³/1", "13//9"],
)  # fmt: skip
def test_garbage_is_no_move(text: str) -> None:
    state = board({13: 1, 4: 2}, AWAY, "31")[0]
    with pytest.raises(IllegalMove) as raised:
        BACKGAMMON.parse_move(state, text)
    assert repr(text) in str(raised.value) and "wanted e.g. 13/9 or 13/10 4/3" in str(raised.value)


def test_throws() -> None:
    start = BACKGAMMON.initial(1)[0]
    assert BACKGAMMON.move_name(start, 3) == "31"
    assert BACKGAMMON.parse_move(start, "31") == BACKGAMMON.parse_move(start, "13") == 3
    later = board({6: 15}, {6: 15})[0]
    assert BACKGAMMON.move_name(later, BACKGAMMON.parse_move(later, "66")) == "66"
    for state, text in ((start, "66"), (later, "70"), (later, "6"), (later, "13/9")):
        with pytest.raises(IllegalMove, match=f"{text!r} is not a possible throw here; wanted two dice, e.g. 31"):
            BACKGAMMON.parse_move(state, text)
    with pytest.raises(IllegalMove, match="'13/9': the game is over"):
        BACKGAMMON.parse_move(board({}, {6: 15})[0], "13/9")


def test_diagrams() -> None:
    state = board({25: 1, 24: 2, 13: 7, 8: 3}, {25: 2, 24: 1, 13: 5, 6: 4}, "31")
    assert BACKGAMMON.diagram(state[0]).splitlines() == [
        " +-13-14-15-16-17-18-+-19-20-21-22-23-24-+",
        " |  X                |  O              X |",
        " |  X                |  O              X |",
        " |  X                |  O                |",
        " |  X                |  O                |",
        " |  7                |                   |",
        " |                   |                   |",
        " |  O                |                   |",
        " |  O                |                   |",
        " |  O           X    |                   |",
        " |  O           X    |                   |",
        " |  O           X    |                 O |",
        " +-12-11-10--9--8--7-+--6--5--4--3--2--1-+",
        "  bar: X 1, O 2; off: X 2, O 3",
        "  X to move, dice 31, ply 20",
    ]
    state[0, TURN], state[0, HIGH_DIE : LOW_DIE + 1] = 1, 0
    lines = BACKGAMMON.diagram(state[0]).splitlines()
    assert lines[0] == " +-12-11-10--9--8--7-+--6--5--4--3--2--1-+"
    assert lines[-1] == "  O to throw, ply 20"
    over = BACKGAMMON.diagram(board({}, {6: 15})[0]).splitlines()
    assert over[-2:] == ["  bar: X 0, O 0; off: X 15, O 0", "  over, ply 20"]
