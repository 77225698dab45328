"""Go's kernels against the plain twin: random games compared at every ply.

Random play on small boards is full of captures, ko, superko and suicide; the test counts them, so it can't pass by
comparing quiet games only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from pipeline.errors import IllegalMove
from pipeline.families.go.game import Go
from pipeline.games.specs import parse_game
from pipeline.games.testing import Step, random_games
from tests.games.playing import assert_same_board
from tests.reference.go import BLACK, EMPTY, WHITE, GoReference

REASONS = {"suicide": "suicide", "repetition": "repeats"}
SIGN = {EMPTY: 0, BLACK: 1, WHITE: -1}


def refusal(play: Callable[[], object]) -> str:
    """Why a move is refused: suicide or repetition."""
    try:
        play()
    except IllegalMove as error:
        return next(reason for reason, word in REASONS.items() if word in str(error))
    pytest.fail("an illegal move was played")


def assert_same_refusals(game: Go, twin: GoReference, step: Step, i: int) -> list[str]:
    """Compare the legal moves in row i of a step, and the reasons against the other empty points. -> the reasons."""
    allowed = twin.legal()
    marks = np.zeros(game.num_actions, np.int8)
    marks[allowed] = 1
    assert_same_board(
        marks[:-1],
        step.legal[i, :-1],
        game.size,
        lambda: f"{game.spec}: legal points (X): twin, kernel; here\n{game.diagram(step.states[i])}",
    )
    assert bool(step.legal[i, -1]) == (game.pass_action in allowed)
    reasons = []
    for point in np.flatnonzero((marks[:-1] == 0) & (np.array(twin.board) == EMPTY)):
        row = np.array([i])
        reason = refusal(lambda: twin.play(int(point)))  # noqa: B023
        assert reason == refusal(lambda: game.play(step.states[row], np.array([point]), step.history.select(row)))  # noqa: B023
        reasons.append(reason)
    return reasons


# Game and number of games; those with a longer limit are played on until the board has filled many times.
CASES = [
    ("go:5", 1100),
    ("go:5,komi=0,moves=250", 100),
    ("go:6,komi=7", 180),
    ("go:7", 100),
    ("go:7,komi=1,moves=300", 25),
    ("go:8", 40),
    ("go:9", 25),
    ("go:9,moves=400", 8),
    ("go:13", 5),
    ("go:19,moves=500", 1),
]


@pytest.mark.parametrize(("spec", "num_games"), CASES)
def test_kernels_equal_the_plain_twin(spec: str, num_games: int) -> None:
    game = parse_game(spec)
    assert isinstance(game, Go)
    twins = [GoReference(game.size, game.komi, game.max_plies) for _ in range(num_games)]
    captured = np.zeros(num_games, np.int64)  # by the last move
    seen: Counter[str] = Counter()
    for step in random_games(game, num_games, seed=game.size):
        owners, scores, returns = game.ownership(step.after), game.scores(step.after), game.returns(step.after)
        over, movers, plies = game.is_over(step.after), game.to_move(step.after), game.plies(step.after)
        for i, row in enumerate(step.rows):
            twin = twins[row]
            for reason in assert_same_refusals(game, twin, step, i):
                seen[reason] += 1
                seen["repetition that is no simple ko"] += reason == "repetition" and captured[row] != 1
            num_stones = game.num_points - twin.board.count(EMPTY)
            twin.play(int(step.actions[i]))
            where = f"{spec}, ply {len(twin.actions)}, {game.action_name(twin.actions[-1])}: twin, kernel"
            stones = [SIGN[word] for word in step.after[i, : game.num_points].tolist()]
            assert_same_board([SIGN[colour] for colour in twin.board], stones, game.size, f"stones: {where}")
            assert_same_board(twin.ownership(), owners[i], game.size, f"ownership: {where}")
            found = (scores[i], returns[i], bool(over[i]), movers[i], plies[i])
            assert found == (twin.score(), twin.result(), twin.is_over, twin.to_move - 1, len(twin.actions)), where
            is_stone = twin.actions[-1] != game.pass_action
            captured[row] = num_stones + is_stone - (game.num_points - twin.board.count(EMPTY))
            seen["capture"] += captured[row] > 0
            seen["capture of many"] += captured[row] > 3
            if twin.is_over:
                seen[f"result {twin.result()}"] += 1
                seen["end by the limit" if len(twin.actions) == game.max_plies else "end by passes"] += 1
    assert min(seen[event] for event in ("capture", "capture of many", "suicide", "repetition")) > 0
    if num_games >= 100:
        assert min(seen[event] for event in ("end by passes", "end by the limit", "result 1", "result -1")) > 0
    if game.size == 5:
        assert seen["repetition that is no simple ko"] > 0
    if game.komi == 0:
        assert seen["result 0"] > 0
