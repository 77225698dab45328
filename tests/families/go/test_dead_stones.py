"""Groups, dead groups and the score without them, on boards worked out by hand."""

from __future__ import annotations

import numpy as np

from pipeline.families.go.dead_stones import dead_groups, groups, owner_of, score_without
from pipeline.games.specs import parse_game

GAME = parse_game("go:5,komi=0.5")
# . X O . .     black's two groups left of the wall of whites, and one stone behind it
# . X O . X
# X . O . .
# . X O . .
# . X O . .
BLACK, WHITE = [1, 6, 9, 10, 16, 21], [2, 7, 12, 17, 22]
STATE = GAME.position(BLACK, WHITE, 0)[0]


def test_groups_are_connected_stones_of_one_colour() -> None:
    assert groups(GAME, STATE) == [[1, 6], [2, 7, 12, 17, 22], [9], [10], [16, 21]]
    assert [owner_of(STATE, point) for point in (1, 2, 0)] == [0, 1, -1]


def test_a_group_is_dead_where_its_points_are_the_opponents_on_average() -> None:
    black = np.ones(25, np.float32)
    black[[2, 3, 4, 7, 8, 9, 12, 13, 14, 17, 18, 19, 22, 23, 24]] = -1  # the wall and what is behind it are white's
    assert dead_groups(GAME, STATE, black) == [[9]]
    black[[1, 6]] = -0.4  # not sure enough
    assert dead_groups(GAME, STATE, black) == [[9]]
    assert dead_groups(GAME, STATE, -black) == [[2, 7, 12, 17, 22], [10], [16, 21]]
    assert dead_groups(GAME, STATE, None) == []


def test_the_score_without_dead_stones() -> None:
    # black has 9 points on the left, where B3 touches both; with its stone behind the wall one more, and nobody's empty
    # points are there; without it they are white's
    assert score_without(GAME, STATE, []) == 9 + 1 - 5 - 0.5
    assert score_without(GAME, STATE, [[9]]) == 9 - 15 - 0.5
