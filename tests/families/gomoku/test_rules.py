"""Gomoku's rules as diagrams: every rule of the module docstring, at edges and in combination.

In a diagram X is the first player, O the second, . empty; ? marks the point that is played (or asked about), empty.
"""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.errors import IllegalMove
from pipeline.families.gomoku import kernels
from pipeline.families.gomoku.game import Gomoku
from pipeline.games.contract import States
from pipeline.games.row_kernels import FIRST, SECOND
from pipeline.games.specs import parse_game
from tests.games.playing import NO_HISTORY

SIZE = 9
EMPTY_ROW = "........."


def board(*rows: str, to_move: str = "X", pairs: tuple[int, int] = (0, 0), spec: str = "capture") -> tuple:
    """(game, state [1, S], marked point or None). Rows that are missing below are empty, short ones are filled up."""
    game = parse_game(f"gomoku:{SIZE},{spec}" if spec else f"gomoku:{SIZE}")
    assert isinstance(game, Gomoku)
    text = "".join(row.replace(" ", "").ljust(SIZE, ".") for row in rows).ljust(SIZE * SIZE, ".")
    state = game.initial(1)
    for point, mark in enumerate(text):
        state[0, point] = ".XO".find(mark.replace("?", "."))
    words = state[0, game.num_points :]
    words[kernels.TO_MOVE] = "XO".index(to_move)
    words[kernels.PAIRS : kernels.PAIRS + 2] = pairs
    # What has been played so far: as many moves as stones, on and off the board, and one more if that gives the mover.
    played = int((state[0, : game.num_points] != 0).sum()) + 2 * sum(pairs)
    words[kernels.PLY] = played + (played % 2 != words[kernels.TO_MOVE])
    return game, state, text.index("?") if "?" in text else None


def play(game: Gomoku, state: States, *points: int | str) -> States:
    for point in points:
        action = game.parse_action(point) if isinstance(point, str) else point
        state = game.play(state, np.array([action], np.int32), NO_HISTORY)
    return state


def is_legal(game: Gomoku, state: States, point: int) -> bool:
    """The answer of both verbs, which must agree."""
    allowed = bool(game.legal(state, NO_HISTORY)[0, point])
    if not allowed:
        with pytest.raises(IllegalMove):
            play(game, state, point)
    else:
        play(game, state, point)
    return allowed


def result(game: Gomoku, state: States) -> float | None:
    return float(game.returns(state)[0]) if game.is_over(state)[0] else None


def mirrored(rows: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The diagram under all eight symmetries, filled up to the whole board."""
    full = np.array([list(row.replace(" ", "").ljust(SIZE, ".")) for row in rows] +
                    [list(EMPTY_ROW)] * (SIZE - len(rows)))  # fmt: skip
    images = [np.rot90(flipped, turns) for flipped in (full, full[:, ::-1]) for turns in range(4)]
    return [tuple("".join(row) for row in image) for image in images]


# Five in a row


@pytest.mark.parametrize("spec", ["", "exact"])
@pytest.mark.parametrize(
    "rows",
    [
        ("XXXX?",),  # in the corner
        ("....XX?XX",),  # in the middle of the row, up to the edge
        ("X", ".X", "..?", "...X", "....X"),
        ("....X", "...X", "..X", ".X", "?"),
        (*[EMPTY_ROW] * 4, "..OXX?XXO"),  # ends don't matter
    ],
)
def test_five_in_a_row_wins(spec: str, rows: tuple[str, ...]) -> None:
    for image in mirrored(rows):
        game, state, point = board(*image, spec=spec)
        after = play(game, state, point)
        assert result(game, after) == 1 and not game.legal(after, NO_HISTORY).any()


@pytest.mark.parametrize(("spec", "wanted"), [("", 1.0), ("exact", None)])
def test_six_in_a_row_win_unless_five_must_be_exact(spec: str, wanted: float | None) -> None:
    for image in mirrored(("XXX?XX",)):
        game, state, point = board(*image, spec=spec)
        assert result(game, play(game, state, point)) == wanted


def test_an_overline_and_a_five_at_once_win_even_if_exact() -> None:
    game, state, point = board("XXX?XX", "...X", "...X", "...X", "...X", spec="exact")
    assert result(game, play(game, state, point)) == 1


@pytest.mark.parametrize("rows", [("XXXX", "?"), ("XXX", "...?"), ("XX.XX", "", "....?"), (".......XX", "XX?")])
def test_what_is_no_five(rows: tuple[str, ...]) -> None:
    """Rows don't go around the edge."""
    game, state, point = board(*rows, spec="")
    assert result(game, play(game, state, point)) is None


def test_the_second_player_wins_too() -> None:
    game, state, point = board("OOOO?", "XXXX", to_move="O", spec="")
    assert result(game, play(game, state, point)) == -1


def test_a_full_board_is_a_draw() -> None:
    # No five anywhere: pairs of rows that repeat every four columns.
    rows = ["XXOOXXOOX", "OOXXOOXXO"] * 4 + ["XXOOXXOO?"]
    game, state, point = board(*rows, spec="")
    after = play(game, state, point)
    assert game.is_over(after)[0] and result(game, after) == 0


# Captures


def test_a_pair_is_captured_in_every_direction() -> None:
    for image in mirrored(("?OOX",)):
        game, state, point = board(*image)
        after = play(game, state, point)
        assert game.pairs(after).tolist() == [[1, 0]]
        assert (after[0, : game.num_points] == SECOND).sum() == 0
    for image in mirrored(("?", ".O", "..O", "...X")):
        game, state, point = board(*image)
        assert game.pairs(play(game, state, point)).tolist() == [[1, 0]]


def test_eight_pairs_at_once() -> None:
    rows = (EMPTY_ROW, ".X..X..X.", "..O.O.O..", "...OOO...", ".XOO?OOX.", "...OOO...", "..O.O.O..", ".X..X..X.")
    game, state, point = board(*rows, spec="capture,pairs=7")
    after = play(game, state, point)
    assert game.pairs(after).tolist() == [[8, 0]] and result(game, after) == 1
    assert (after[0, : game.num_points] == SECOND).sum() == 0


@pytest.mark.parametrize(
    "rows",
    [
        ("?OX",),  # one stone
        ("?OOOX",),  # three
        ("?OO.X",),
        ("?OO",),
        ("......?OO",),  # the edge is no stone
        ("?OXX",),
        ("?XXX",),
        (".......OO", "?X"),  # not around the edge
        ("?O.OX",),
    ],
)
def test_what_is_no_capture(rows: tuple[str, ...]) -> None:
    for image in mirrored(rows):
        game, state, point = board(*image)
        assert game.pairs(play(game, state, point)).tolist() == [[0, 0]]


def test_moving_in_between_is_safe() -> None:
    for image in mirrored(("OX?O",)):
        game, state, point = board(*image)
        after = play(game, state, point)
        assert (after[0, : game.num_points] == FIRST).sum() == 2 and game.pairs(after).sum() == 0


def test_captured_points_are_free_again() -> None:
    game, state, point = board("?OOX")
    after = play(game, state, point)
    assert is_legal(game, after, 1) and is_legal(game, after, 2)


@pytest.mark.parametrize("goal", [3, 5, 7])
def test_the_last_pair_wins(goal: int) -> None:
    for had, wanted in ((goal - 2, None), (goal - 1, 1.0)):
        game, state, point = board("?OOX", spec=f"capture,pairs={goal}", pairs=(had, 0))
        assert result(game, play(game, state, point)) == wanted
    game, state, point = board("?XXO", spec=f"capture,pairs={goal}", pairs=(0, goal - 1), to_move="O")
    assert result(game, play(game, state, point)) == -1


def test_captures_mean_nothing_in_the_free_game() -> None:
    game, state, point = board("?OOX", spec="")
    after = play(game, state, point)
    assert (after[0, : game.num_points] == SECOND).sum() == 2


# Double-three


@pytest.mark.parametrize(
    "rows",
    [
        (EMPTY_ROW, EMPTY_ROW, "..?XX", "..X", "..X"),  # two solid threes
        (EMPTY_ROW, EMPTY_ROW, "..?X.X", "..X", "..X"),  # one broken
        (EMPTY_ROW, EMPTY_ROW, "..?X.X", "..X", ".....", "..X"),  # both broken
        (EMPTY_ROW, "..X", "..X", ".....", "..?.XX"),  # the stone is the far end of both broken ones
        (EMPTY_ROW, EMPTY_ROW, EMPTY_ROW, "...X?X", "....X", "....X"),  # in the middle of one
        (EMPTY_ROW, "..X...X", "...X.X", "....?"),  # two diagonals
        (EMPTY_ROW, EMPTY_ROW, "..?XX..OO", "..X", "..X", EMPTY_ROW, "..O"),  # there is room on the other side
    ],
)
def test_two_free_threes_are_forbidden(rows: tuple[str, ...]) -> None:
    for image in mirrored(rows):
        game, state, point = board(*image)
        assert not is_legal(game, state, point)
        with pytest.raises(IllegalMove, match="double-three"):
            play(game, state, point)
        for_other = [row.translate(str.maketrans("XO", "OX")) for row in image]
        game, state, point = board(*for_other, to_move="O")
        assert not is_legal(game, state, point)


@pytest.mark.parametrize(
    "rows",
    [
        (EMPTY_ROW, "..?XXO", "..X", "..X"),  # one three is closed on a side
        (EMPTY_ROW, "..?XX..OO", "..X", "..X", EMPTY_ROW, "..O"),  # the column has room for a four, not a straight one
        (EMPTY_ROW, EMPTY_ROW, ".OX?X", "...X", "...X"),
        ("..?XX", "..X", "..X"),  # at the edge: no straight four upwards ... the column is closed there
        (EMPTY_ROW, ".?XX.O", ".X", ".X"),  # ".XXX.O" with the edge behind: neither four would be straight
        (EMPTY_ROW, EMPTY_ROW, "..?XXX", "..X", "..X"),  # a four and a three
        (EMPTY_ROW, EMPTY_ROW, "..?X.XX", "..X", "..X"),  # a broken four and a three
        (EMPTY_ROW, EMPTY_ROW, "..?X", "..X", "..X"),  # a two and a three
        (EMPTY_ROW, EMPTY_ROW, "..?X..X", "..X", "..X"),  # X..X is too far for a three
        (EMPTY_ROW, EMPTY_ROW, "..?XX", EMPTY_ROW),  # one three alone
    ],
)
def test_what_is_no_double_three(rows: tuple[str, ...]) -> None:
    for image in mirrored(rows):
        game, state, point = board(*image)
        assert is_legal(game, state, point)


OVERLAPPING = ".X.?X.X.."  # either gap makes a straight four: two threes that share stones, on one line


@pytest.mark.parametrize(
    ("below", "wanted"), [(("", ""), True), (("...X", "...X", "...O"), True), (("...X", "...X"), False)]
)
def test_overlapping_threes_on_one_line_count_once(below: tuple[str, ...], wanted: bool) -> None:
    """Alone, with a closed three on another line, and with a free one there."""
    for image in mirrored((EMPTY_ROW, EMPTY_ROW, EMPTY_ROW, OVERLAPPING, *below)):
        game, state, point = board(*image)
        assert is_legal(game, state, point) is wanted


def test_a_four_does_not_excuse_two_threes() -> None:
    rows = (EMPTY_ROW, EMPTY_ROW, "..?XX", "..XX", "..X.X", EMPTY_ROW)
    for image in mirrored(rows):
        game, state, point = board(*image)
        assert not is_legal(game, state, point)
    with_four = (EMPTY_ROW, EMPTY_ROW, "..?XXX", "..XX", "..X.X", EMPTY_ROW)  # a four, and threes down and across
    for image in mirrored(with_four):
        game, state, point = board(*image)
        assert not is_legal(game, state, point)


def test_a_five_comes_before_the_ban() -> None:
    two_threes = (EMPTY_ROW, EMPTY_ROW, "XXXX?", "...XX", "..X.X", EMPTY_ROW)
    for image in mirrored(two_threes):
        game, state, point = board(*image)
        assert is_legal(game, state, point) and result(game, play(game, state, point)) == 1
    without_five = (EMPTY_ROW, EMPTY_ROW, "OXX.?", "...XX", "..X.X", EMPTY_ROW)
    for image in mirrored(without_five):
        game, state, point = board(*image)
        assert not is_legal(game, state, point)


def test_the_last_pair_comes_before_the_ban() -> None:
    spec = "capture,threes_by_capture=off"
    for image in mirrored(CAPTURING):
        game, state, point = board(*image, spec=spec, pairs=(4, 0))
        assert is_legal(game, state, point) and result(game, play(game, state, point)) == 1
        game, state, point = board(*image, spec=spec, pairs=(3, 0))
        assert not is_legal(game, state, point)


def test_double_three_is_no_matter_in_the_free_game() -> None:
    game, state, point = board(EMPTY_ROW, EMPTY_ROW, "..?XX", "..X", "..X", spec="")
    assert is_legal(game, state, point)


CAPTURING = (EMPTY_ROW, EMPTY_ROW, "..?XX", "..XO", "..X.O", ".....X")  # the diagonal pair falls


def test_a_capture_may_make_a_double_three_unless_the_option_forbids() -> None:
    for image in mirrored(CAPTURING):
        game, state, point = board(*image)
        assert is_legal(game, state, point)
        game, state, point = board(*image, spec="capture,threes_by_capture=off")
        assert not is_legal(game, state, point)


def test_without_that_option_threes_count_as_they_stand_after_the_capture() -> None:
    # Taking the pair on its right opens the row: .XXX..X. The column is a three already.
    rows = (*[EMPTY_ROW] * 4, ".XX?OOX..", "...X", "...X")
    for image in mirrored(rows):
        game, state, point = board(*image)
        assert is_legal(game, state, point)
        game, state, point = board(*image, spec="capture,threes_by_capture=off")
        assert not is_legal(game, state, point)
    closed = (*[EMPTY_ROW] * 4, "OXX?OOX..", "...X", "...X")
    game, state, point = board(*closed, spec="capture,threes_by_capture=off")
    assert is_legal(game, state, point)


# Fives that can be answered


BREAKABLE = (
    EMPTY_ROW,
    EMPTY_ROW,
    "..XXXX?",  # row 2, columns 2 to 6
    "...X.....",  # below the second stone: with it a pair on a column
    "...O.....",
    EMPTY_ROW,
)  # an O above, at (1, 3), captures (2, 3) and (3, 3)


def test_a_five_that_a_capture_breaks_does_not_win_yet() -> None:
    for image in mirrored(BREAKABLE):
        game, state, point = board(*image)
        after = play(game, state, point)
        assert result(game, after) is None and after[0, game.num_points + kernels.FIVE] == FIRST
        planes = game.observe(after, game.legal(after, NO_HISTORY))
        assert planes[0, game.plane_names.index("opponent has a five to be answered")].all()


def test_broken_it_is_gone_and_the_game_goes_on() -> None:
    game, state, point = board(*BREAKABLE)
    after = play(game, state, point, "D8")
    assert result(game, after) is None and game.pairs(after).tolist() == [[0, 1]]
    assert after[0, game.num_points + kernels.FIVE] == 0
    again = play(game, after, "D7")  # the five stands again; nothing can be captured now
    assert result(game, again) == 1


def test_a_position_with_a_five_is_over_only_if_nobody_can_break_it() -> None:
    game, state, point = board(*BREAKABLE)
    after = play(game, state, point)
    first, second = (np.flatnonzero(after[0, : game.num_points] == colour).tolist() for colour in (FIRST, SECOND))
    second = [*second, 72, 74, 76, 80]  # far away; the second player is to move
    found = game.with_stones(first, second)
    assert found[0, game.num_points + kernels.FIVE] == FIRST and result(game, found) is None
    assert result(game, play(game, found, "A9")) == 1
    unbreakable = parse_game(f"gomoku:{SIZE},capture,breakable=off")
    for other, black, white in ((game, [*first, 0], [*second, 78, 8]), (unbreakable, first, second)):
        with pytest.raises(IllegalMove, match="a five stands already"):  # one's own, or one that wins
            other.with_stones(black, white)


def test_unanswered_it_wins_after_the_reply() -> None:
    game, state, point = board(*BREAKABLE)
    after = play(game, state, point, "I1")
    assert result(game, after) == 1
    with pytest.raises(IllegalMove, match="over"):
        play(game, after, "A1")


def test_an_unbreakable_five_wins_at_once() -> None:
    for rows in (
        (EMPTY_ROW, EMPTY_ROW, "..XXXX?"),
        (EMPTY_ROW, EMPTY_ROW, "..XXXX?", "...X", "...X", "...O"),  # three below: no pair
        (EMPTY_ROW, "...O", "..XXXX?", "...X", "...O"),  # already enclosed on both sides
    ):
        game, state, point = board(*rows)
        assert result(game, play(game, state, point)) == 1


def test_the_simple_rule_ends_the_game_at_any_five() -> None:
    game, state, point = board(*BREAKABLE, spec="capture,breakable=off")
    assert result(game, play(game, state, point)) == 1


def test_a_capture_that_leaves_a_five_breaks_nothing() -> None:
    # Seven in a row; the pair takes its first stone, six are left.
    game, state, point = board(EMPTY_ROW, EMPTY_ROW, "XXX?XXX", "X", "O")
    assert result(game, play(game, state, point)) == 1
    # Nine in a row; the pair takes the middle one, four are left on either side.
    game, state, point = board(EMPTY_ROW, EMPTY_ROW, "XXX?XXXXX", "....X", "....O")
    assert result(game, play(game, state, point)) is None


def test_two_fives_must_both_be_broken() -> None:
    # A row and a column cross in the stone that is played; the pair takes a stone of the row only.
    rows = (EMPTY_ROW, EMPTY_ROW, "..XXXX?", "...X..X", "...O..X", "......X", "......X")
    game, state, point = board(*rows)
    assert result(game, play(game, state, point)) == 1


def test_a_five_can_be_answered_by_winning_on_captures() -> None:
    # The pair (4, 1), (4, 2) stands nowhere near the five; it is the last that O needs.
    rows = (EMPTY_ROW, EMPTY_ROW, "..XXXX?", EMPTY_ROW, ".XXO")
    game, state, point = board(*rows, pairs=(0, 4))
    after = play(game, state, point)
    assert result(game, after) is None
    assert result(game, play(game, after, "A5")) == -1
    assert result(game, play(game, after, "I1")) == 1
    game, state, point = board(*rows, pairs=(0, 3))  # one pair short
    assert result(game, play(game, state, point)) == 1


def test_winning_by_pairs_comes_before_any_five() -> None:
    rows = (EMPTY_ROW, EMPTY_ROW, "..XXXX.", "...X", "...O", "OOOO?XXO")
    game, state, point = board(*rows, to_move="O", pairs=(0, 4))
    assert result(game, play(game, state, point)) == -1


def test_a_reply_that_breaks_the_five_may_make_its_own() -> None:
    # O at D8 captures D7 and D6, and completes A8 B8 C8 D8 E8.
    rows = (EMPTY_ROW, "OOO.O....", "..XXXX?", "...X.....", "...O.....")
    game, state, point = board(*rows)
    after = play(game, state, point)
    assert result(game, after) is None
    assert result(game, play(game, after, "D8")) == -1


def test_a_reply_with_a_five_of_its_own_does_not_help() -> None:
    rows = (EMPTY_ROW, EMPTY_ROW, "..XXXX?", "...X.....", "...O.....", EMPTY_ROW, "OOOO")
    game, state, point = board(*rows)
    after = play(game, state, point)
    assert result(game, play(game, after, "E3")) == 1  # the first five still stands


@pytest.mark.parametrize(("spec", "wanted"), [("capture", None), ("capture,threes_by_capture=off", 1.0)])
def test_a_breaking_move_that_is_forbidden_is_no_answer(spec: str, wanted: float | None) -> None:
    # Only D6 breaks the five; it makes a broken three in its row and, once the pair is gone, one in its column.
    rows = (EMPTY_ROW, "...O", "...O", "....O.O", "..XXXX?", "...X", "...O")
    game, state, point = board(*rows, spec=spec)
    assert result(game, play(game, state, point)) == wanted


# Draws and length


def test_a_full_board_is_a_draw_with_captures_too() -> None:
    rows = ["XXOOXXOOX", "OOXXOOXXO"] * 4 + ["XXOOXXOO?"]
    game, state, point = board(*rows, to_move="O")
    after = play(game, state, point)
    assert result(game, after) == 0
    game, state, point = board(*rows)  # X takes a pair there: the game goes on
    after = play(game, state, point)
    assert result(game, after) is None and game.legal(after, NO_HISTORY).sum() == 2


# Bad input


@pytest.mark.parametrize("text", ["", "I0", "A0", "A10", "K5", "5A", "AA", "H", "H-1", "pass"])
def test_no_point(text: str) -> None:
    with pytest.raises(IllegalMove, match="gomoku:9"):
        parse_game("gomoku:9").parse_action(text)


def test_notation_has_an_i() -> None:
    game = parse_game("gomoku:9")
    assert [game.action_name(action) for action in (0, 8, 72, 80)] == ["A9", "I9", "A1", "I1"]
    assert game.parse_action("i1") == 80
