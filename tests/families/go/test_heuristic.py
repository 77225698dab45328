"""Go's heuristic evaluation, and the counts behind it. For the marks see tests/games/heuristic_cases.py."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from pipeline.families.go import heuristic, kernels
from pipeline.families.go.board import points_around
from pipeline.families.go.game import Go
from pipeline.families.go.groups import sets_beside, words_for
from pipeline.games.specs import parse_game
from pipeline.games.testing import sample_positions
from tests.games.heuristic_cases import Case, check, move_scores, set_up, stones_and_mover


@dataclass(frozen=True)
class GoCase(Case):
    komi: float = 0.5
    passed: bool = False  # the opponent, just before
    passes: bool = False  # whether the pass must be the best move


def words_of(case: GoCase) -> dict[int, int]:
    num_stones, mover = stones_and_mover(case)
    return {kernels.TO_MOVE: mover, kernels.PLY: num_stones, kernels.PASSES: int(case.passed),
            kernels.STONES: num_stones, kernels.MAX_STONES: num_stones}  # fmt: skip


CASES = [
    GoCase(
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
    GoCase(
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
    GoCase(
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
    GoCase(
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
    GoCase(
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
    GoCase(
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
    GoCase(
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
    GoCase(
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
    GoCase(
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
    GoCase(
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
    GoCase(
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
    GoCase(
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
    GoCase(
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
    GoCase(
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
    GoCase(
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
    GoCase(
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
    GoCase(
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


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_best_moves(case: GoCase) -> None:
    check(Go(int(len(case.diagram.split()) ** 0.5), case.komi), case, words_of(case), case.passes)


# The counts behind the senses


@pytest.mark.parametrize("spec", ["go:5", "go:9"])
def test_counts_of_stones_agree_with_the_planes(spec: str) -> None:
    game = parse_game(spec)
    assert isinstance(game, Go)
    states, history = sample_positions(game, 20, seed=3, share=0.3)
    planes = game.observe(states, game.legal(states, history)).reshape(len(states), game.num_planes, -1)
    planes = planes.astype(np.int32)
    counts, last_liberties = heuristic.count_stones(
        states, points_around(game.size), sets_beside(game.size), words_for(game.num_points)
    )
    movers = game.to_move(states)
    for first_plane, atari, side in ((0, 2, movers), (1, 5, 1 - movers)):
        expected = planes[:, [first_plane, atari, atari + 1]].sum(axis=2)
        np.testing.assert_array_equal(counts[np.arange(len(states)), side], expected)
    last = states[:, game.num_points + kernels.LAST]
    for row in range(len(states)):
        at = int(last[row])
        found = [planes[row, plane, at] for plane in (5, 6, 7)] if 0 <= at < game.num_points else [0, 0, 0]
        assert found == [last_liberties[row] == 1, last_liberties[row] == 2, last_liberties[row] > 2]
    assert {0, 1, 2, 3} <= set(last_liberties.tolist())


def test_eyes_and_contact() -> None:
    game = Go(7)
    case = GoCase(
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
    states, _ = set_up(game, case, words_of(case))
    marks = case.diagram.split()
    eyes, contact = heuristic.shapes(states, points_around(7))
    assert [point for point in range(49) if eyes[0, point]] == [p for p, mark in enumerate(marks) if mark == "e"]
    stones = np.pad(states[0, :49].reshape(7, 7), 1)
    for point in range(49):
        row, column = divmod(point, 7)
        near = (stones[row : row + 3, column : column + 3] == 2).any()
        assert contact[0, point] == (near and states[0, point] == 0)
    assert not eyes[0, 49] and not contact[0, 49]


def test_superko_is_kept() -> None:
    """A move that repetition forbids is never chosen, however much it captures."""
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
