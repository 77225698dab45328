"""The heuristic evaluation of line games. For the marks see tests/games/heuristic_cases.py."""

from __future__ import annotations

import pytest

from pipeline.games import row_kernels as kernels
from pipeline.games.specs import parse_game
from tests.games.heuristic_cases import Case, check, stones_and_mover

CASES = {
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


@pytest.mark.parametrize(("spec", "case"), [(spec, case) for spec, cases in CASES.items() for case in cases], ids=str)
def test_best_moves(spec: str, case: Case) -> None:
    num_stones, mover = stones_and_mover(case)
    check(parse_game(spec), case, {kernels.TO_MOVE: mover, kernels.PLY: num_stones})
