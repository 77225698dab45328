"""What the heuristic wants, as diagrams: X is the first player (black), O the second.

* marks where the mover must want to play: the best moves are some of these and nothing else.
? marks where it must not play: in Go it would rather pass. Everything else is free.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from pipeline.games.base import Game, History, States
from pipeline.games.go import heuristic as go_heuristic
from pipeline.games.go import kernels as go_kernels
from pipeline.games.go.game import Go
from pipeline.games.lines import kernels as line_kernels
from pipeline.games.registry import parse_game
from tests.games.gomoku.test_rules import board as gomoku_board
from tests.games.playing import sample_positions

STONES = {"X": 1, "O": 2}


def move_scores(game: Game, states: States, history: History) -> np.ndarray:
    evaluate = game.heuristic()
    assert evaluate is not None
    return evaluate(states, history)


@dataclass(frozen=True)
class Case:
    name: str
    mover: str
    diagram: str
    komi: float = 0.5
    passed: bool = False  # the opponent, just before
    passes: bool = False  # whether the pass must be the best move


def set_up(game: Game, case: Case) -> tuple[States, History, list[str]]:
    """The position of a diagram, and the diagram's marks by point."""
    marks = case.diagram.split()
    states = game.initial(1)
    states[0, : game.num_points] = [STONES.get(mark, 0) for mark in marks]
    num_stones, mover = sum(mark in STONES for mark in marks), "XO".index(case.mover)
    if isinstance(game, Go):
        extra = {go_kernels.TO_MOVE: mover, go_kernels.PLY: num_stones, go_kernels.PASSES: int(case.passed),
                 go_kernels.STONES: num_stones, go_kernels.MAX_STONES: num_stones}  # fmt: skip
    else:
        extra = {line_kernels.TO_MOVE: mover, line_kernels.PLY: num_stones}
    for word, value in extra.items():
        states[0, game.num_points + word] = value
    return states, game.initial_history(states), marks


def check(game: Game, case: Case) -> None:
    states, history, marks = set_up(game, case)
    scores = move_scores(game, states, history)[0]
    legal = game.legal(states, history)[0]
    np.testing.assert_array_equal(np.isfinite(scores), legal)
    best = set(np.flatnonzero(scores == scores.max()).tolist())
    report = f"{game.diagram(states[0])}\nbest: {sorted(map(game.action_name, best))}"
    width = game.board_shape[1]
    falls = game.num_actions == width
    stars, unwanted = (
        {point % width if falls else point for point, mark in enumerate(marks) if mark == wanted} for wanted in "*?"
    )
    floor = scores.max()
    if isinstance(game, Go):
        floor = scores[game.pass_action]
        if case.passes:
            stars.add(game.pass_action)
    assert stars or unwanted, "the case says nothing"
    assert not stars or best <= stars, report
    assert all(scores[action] < floor for action in unwanted), report


GO_CASES = [
    Case(
        "captures a stone in atari",
        mover="X",
        diagram="""
        . . . . . . .
        . . . . . . .
        . . . X . . .
        . . X O X . .
        . . . * . . .
        . . . . . . .
        . . . . . . .""",
    ),
    Case(
        "captures in the other colour",
        mover="O",
        diagram="""
        . . . . . . .
        . . . . . . .
        . . . O . . .
        . . O X O . .
        . . . * . . .
        . . . . . . .
        . . . . . . .""",
    ),
    Case(
        "captures two stones rather than one",
        mover="X",
        diagram="""
        . . . . . . .
        . X . . . . .
        X O . . . X .
        . X . . X O *
        . . . . X O X
        . . . . . X .
        . . . . . . .""",
    ),
    Case(
        "rescues its stones from atari by adding liberties",
        mover="X",
        diagram="""
        . . . . . . .
        . . . O . . .
        . . O X O . .
        . . O X O . .
        . . . * . . .
        . . . . . . .
        . . . . . . .""",
    ),
    Case(
        "rescues its stones by taking those around them, where running doesn't help",
        mover="X",
        diagram="""
        . . . . X O .
        . . . . . X .
        . . . . . . .
        . . . . . . .
        . . . . . . .
        O O X . . . .
        . X O * . . .""",
    ),
    Case(
        "connects a stone in atari to a living group",
        mover="O",
        diagram="""
        . . . . . . .
        . . . X . . .
        . . X O X . .
        . . . * . . .
        . O O O O . .
        . . . . . . .
        . . . . . . .""",
    ),
    Case(
        "gives atari rather than a stone beside it",
        mover="X",
        diagram="""
        . . . . . . .
        . . . . . . .
        . . . X . . .
        . . X O * . .
        . . . * . . .
        . . . . . . .
        . . . . . . .""",
    ),
    Case(
        "doesn't put its own stones into atari",
        mover="X",
        diagram="""
        . . . . . . .
        . . . O . . .
        . . O ? O . .
        . . . . . . .
        . . O ? O . .
        . . . O . . .
        . . . . . . .""",
    ),
    Case(
        "doesn't throw a stone into the enemy's eye, and passes where nothing else is left",
        mover="O",
        diagram="""
        ? X ? X O
        X X X X O
        X X X X O
        O O O O O
        ? O ? O ?""",
        passes=True,
    ),
    Case(
        "doesn't fill its own eyes, on the edge, in the corner and inside",
        mover="X",
        diagram="""
        ? X X X ?
        X X X X X
        X X ? X X
        X X X X X
        ? X X X ?""",
        passes=True,
    ),
    Case(
        "fills a false eye if that connects stones in atari",
        mover="X",
        diagram="""
        . . . . . . .
        . . O O . . .
        . O X X O . .
        . O X * X X .
        . O O X O . .
        . . . X . . .
        . . . . . . .""",
    ),
    Case(
        "plays away from the edge while the board is empty",
        mover="X",
        diagram="""
        . . . . . . .
        . . . X . . .
        . . * * * . .
        . . * * * . .
        . . * * * . .
        . . . . . . .
        . . . . . . .""",
    ),
    Case(
        "plays where the opponent is",
        mover="X",
        diagram="""
        . . . . . . .
        . . . . . . .
        . . . . . . .
        . . . * . . .
        . . . . O . .
        . . . . . . .
        . . . . . . .""",
    ),
    Case(
        "passes at once when that wins",
        mover="X",
        diagram="""
        . . X O .
        . . X O .
        . . X O .
        . . X O .
        . . X O .""",
        passed=True,
        passes=True,
    ),
    Case(
        "plays on after a pass while the score is lost",
        mover="X",
        diagram="""
        * * X O *
        * * X O *
        * * X O *
        * * X O *
        * * X O *""",
        komi=7.5,
        passed=True,
    ),
    Case(
        "passes for white by komi",
        mover="O",
        diagram="""
        . . X O .
        . . X O .
        . . X O .
        . . X O .
        . . X O .""",
        komi=7.5,
        passed=True,
        passes=True,
    ),
    Case(
        "rather loses by a pass than by filling eyes",
        mover="O",
        diagram="""
        . X . X X
        X X X X X
        O O O O O
        O ? O O O
        O O O ? O""",
        passed=True,
        passes=True,
    ),
]


@pytest.mark.parametrize("case", GO_CASES, ids=lambda case: case.name)
def test_go(case: Case) -> None:
    check(Go(int(len(case.diagram.split()) ** 0.5), case.komi), case)


LINE_CASES = {
    "tictactoe": [
        Case("opens in the centre", "X", ". . . . * . . . ."),
        Case("wins rather than blocks", "X", "X X * O O . . . ."),
        Case("blocks", "O", "X X * . O . . . ."),
        Case("answers the centre in a corner", "O", "* . * . X . * . *"),
        Case("blocks a diagonal", "X", "O . . . O X X . *"),
    ],
    "connect4": [
        Case("opens in the middle column", "X", ". " * 38 + "* . . ."),
        Case(
            "wins upwards",
            "X",
            """
            . . . . . . .
            . . . . . . .
            * . . . . . .
            X . . . . . .
            X O . . . . .
            X O O . . . .""",
        ),
        Case(
            "blocks rather than makes three",
            "X",
            """
            . . . . . . .
            . . . . . . .
            * . . . . . .
            O . . . . . .
            O . . . . . .
            O . X . X . .""",
        ),
        Case(
            "blocks a row, open at one end",
            "O",
            """
            . . . . . . .
            . . . . . . .
            . . . . . . .
            . . . . . . .
            O . . . . . .
            O X X X * . .""",
        ),
        Case(
            "wins on a diagonal rather than blocks",
            "O",
            """
            . . . . . . .
            . . . . . . .
            . . . * . . .
            . . O X . . X
            . O X O . . X
            O X X O . . X""",
        ),
        Case(
            "doesn't put a stone under the point where the opponent wins",
            "X",
            """
            . . . . . . .
            . . . . . . .
            . . . . . . .
            . . . . . . .
            O O O . . . .
            O O X ? X . .""",
        ),
    ],
}


@pytest.mark.parametrize(
    ("spec", "case"), [(spec, case) for spec, cases in LINE_CASES.items() for case in cases], ids=str
)
def test_line_games(spec: str, case: Case) -> None:
    check(parse_game(spec), case)


# The counts behind the senses


@pytest.mark.parametrize("spec", ["go:5", "go:9"])
def test_counts_of_stones_agree_with_the_planes(spec: str) -> None:
    game = parse_game(spec)
    assert isinstance(game, Go)
    states, history = sample_positions(game, 20, seed=3, share=0.3)
    planes = game.observe(states, game.legal(states, history)).reshape(len(states), game.num_planes, -1)
    planes = planes.astype(np.int32)
    counts, last_liberties = go_heuristic.count_stones(states, go_heuristic._around(game.size))
    movers = game.to_move(states)
    for first_plane, atari, side in ((0, 2, movers), (1, 5, 1 - movers)):
        expected = planes[:, [first_plane, atari, atari + 1]].sum(axis=2)
        np.testing.assert_array_equal(counts[np.arange(len(states)), side], expected)
    last = states[:, game.num_points + go_kernels.LAST]
    for row in range(len(states)):
        at = int(last[row])
        found = [planes[row, plane, at] for plane in (5, 6, 7)] if 0 <= at < game.num_points else [0, 0, 0]
        assert found == [last_liberties[row] == 1, last_liberties[row] == 2, last_liberties[row] > 2]
    assert {0, 1, 2, 3} <= set(last_liberties.tolist())


def test_eyes_and_contact() -> None:
    game = Go(7)
    case = Case(
        "e: black's eyes; n: none, by an open side, or by too many enemies at the corners",
        mover="X",
        diagram="""
        e X n X . . .
        X X X O . . .
        O X n X . X .
        . O X . X e X
        . X . . O X X
        X n . . X n X
        e X . . O X O""",
    )
    states, _, marks = set_up(game, case)
    eyes, contact = go_heuristic.shapes(states, go_heuristic._around(7))
    assert [point for point in range(49) if eyes[0, point]] == [p for p, mark in enumerate(marks) if mark == "e"]
    stones = np.pad(states[0, :49].reshape(7, 7), 1)
    for point in range(49):
        row, column = divmod(point, 7)
        near = (stones[row : row + 3, column : column + 3] == 2).any()
        assert contact[0, point] == (near and states[0, point] == 0)
    assert not eyes[0, 49] and not contact[0, 49]


def test_rows_are_scored_each_for_itself() -> None:
    for spec in ("go:5", "connect4"):
        game = parse_game(spec)
        states, history = sample_positions(game, 12, seed=1, share=0.3)
        going = np.flatnonzero(~game.is_over(states))
        together = move_scores(game, states[going], history.select(going))
        for at, row in enumerate(going.tolist()):
            one = np.array([row])
            alone = move_scores(game, states[one], history.select(one))[0]
            np.testing.assert_array_equal(together[at], alone)


def test_superko_is_kept() -> None:
    """What the rules forbid by the game's past is never wanted, however much it captures."""
    game = Go(5)
    states = game.initial(1)
    history = game.initial_history(states)
    for move in ["B4", "C4", "A3", "D3", "B2", "C2", "C3", "B3"]:  # white has just taken the ko at C3
        states = game.play(states, np.array([game.parse_action(move)], np.int32), history)
        history.append(np.arange(1), game.keys(states))
    scores = move_scores(game, states, history)[0]
    assert scores[game.parse_action("C3")] == -np.inf
    scores = move_scores(game, states, game.initial_history(states))[0]
    assert game.action_name(int(scores.argmax())) == "C3"  # without that past it would be the best


# Gomoku


def best_gomoku(spec: str, *rows: str, to_move: str = "X", **words: object) -> set[str]:
    """Names of the best moves in a diagram of 9×9; see tests/games/test_gomoku_rules.py."""
    game, state, _ = gomoku_board(*rows, to_move=to_move, spec=spec, **words)  # type: ignore[arg-type]
    scores = move_scores(game, state, History.empty(1, 1))[0]
    return {game.action_name(int(action)) for action in np.flatnonzero(scores == scores.max())}


@pytest.mark.parametrize(
    ("spec", "rows", "wanted"),
    [
        ("", ("XXXX.", "OOOO."), {"E9"}),  # wins rather than blocks
        ("", ("XX.XX", "OOOO."), {"C9"}),
        ("", (".........", "OOOO.", "X..X"), {"E8"}),  # blocks a four
        ("", (".........", "OO.OO", "X..X"), {"C8"}),
        ("", (".........", "..XXX..", "........", ".OO......"), {"B8", "F8"}),  # makes a straight four
        ("", (".........", "..OOO..", "........", ".XX......"), {"B8", "F8"}),  # keeps one from being made
        ("exact", ("XXX.XX", "X", "X", "X"), {"A5"}),  # six are no five
        ("exact", ("OOO.OO", ".........", "........", "..XXX...."), {"B6", "F6"}),  # nor need they be kept from
        ("capture", ("XXXX.", "", "XOO."), {"E9"}),
        ("capture", (".........", "XOO......", ".......", "....X...."), {"D8"}),  # takes a pair
    ],
)
def test_gomoku_best_moves(spec: str, rows: tuple[str, ...], wanted: set[str]) -> None:
    best = best_gomoku(spec, *rows)
    assert best <= wanted and best


def test_gomoku_the_last_pair_wins_and_is_kept_from_the_other() -> None:
    rows = (".........", "XOO......", "........", "..OOOO...")
    assert best_gomoku("capture", *rows, pairs=(4, 0)) == {"D8"}
    rows = (".........", "OXX......", "........", "....X....")
    assert best_gomoku("capture", *rows, pairs=(0, 4)) == {"D8"}


def test_gomoku_a_five_that_must_be_answered_is() -> None:
    game, state, point = gomoku_board(
        ".........", ".........", "..XXXX?", "...X.....", "...O.....", "........O", spec="capture"
    )
    state = game.play(state, np.array([point], np.int32), History.empty(1, 1))
    assert not game.is_over(state)[0]
    scores = move_scores(game, state, History.empty(1, 1))[0]
    assert game.action_name(int(scores.argmax())) == "D8"


def test_gomoku_beats_random_moves() -> None:
    game = parse_game("gomoku:9,capture")
    none = History.empty(1, 1)
    rng = np.random.default_rng(2)
    for number in range(10):
        state = game.initial(1)
        while not game.is_over(state)[0]:
            own = game.to_move(state)[0] == number % 2
            weights = move_scores(game, state, none)[0] if own else 1.0 * game.legal(state, none)[0]
            weights = weights + 1e-3 * rng.random(len(weights))
            state = game.play(state, np.array([weights.argmax()], np.int32), none)
        assert game.returns(state)[0] == (1 if number % 2 == 0 else -1)
