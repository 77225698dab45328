"""Gomoku's kernels against the plain twin, and the free game against OpenSpiel's rules, over random games.

Uniformly random games rarely have threes, fives and captures, so moves are sampled near other stones, preferably where
a player could capture or make a three, a four or a five.
"""

from __future__ import annotations

import os
from functools import cache

import numpy as np
import pytest

from pipeline.families.gomoku import kernels
from pipeline.families.gomoku import shapes as gomoku_shapes
from pipeline.families.gomoku.game import Gomoku
from pipeline.games.contract import History
from pipeline.games.specs import parse_game
from tests.games.playing import assert_same_board
from tests.reference.gomoku import GomokuReference, lines_through, shape_of

VARIANTS = {
    "gomoku:9": {},
    "gomoku:9,exact": {"exact": True},
    "gomoku:9,capture": {"pairs": 5},
    "gomoku:9,capture,pairs=7": {"pairs": 7},
    "gomoku:9,capture,pairs=3,threes_by_capture=off": {"pairs": 3, "threes_by_capture": False},
    "gomoku:9,capture,threes_by_capture=off": {"pairs": 5, "threes_by_capture": False},
    "gomoku:9,capture,breakable=off": {"pairs": 5, "breakable": False},
    "gomoku:10,capture,pairs=7": {"pairs": 7},
    "gomoku:19,capture": {"pairs": 5},
}
GAMES = int(os.environ.get("GOMOKU_TWIN_GAMES", "6"))  # of each variant; more by hand
FEWER = {"gomoku:19,capture": 0.34}  # large boards take the twin long


def lively_move(game: Gomoku, state: np.ndarray, legal: np.ndarray, rng: np.random.Generator) -> int:
    """A random legal move of state [1, S], preferably near others, capturing, or making shapes."""
    grid = (state[0, : game.num_points] != gomoku_shapes.EMPTY).reshape(game.board_shape)
    padded = np.pad(grid, 1)
    near = sum(np.roll(padded, shift, (0, 1)) for shift in ((0, 1), (1, 0), (1, 1), (1, -1), (0, -1), (-1, 0)))
    weights = 0.02 + 1.0 * (near[1:-1, 1:-1].ravel() > 0)
    for player in (0, 1):
        shapes = game.shapes(state)[0, player]
        weights += (shapes[:, gomoku_shapes.THREE :] @ np.array([1, 2, 2, 1])) * rng.choice([0, 1, 6])
        if game.rules.goal:
            weights += game.captures(state, np.array([player], np.int8))[0] * rng.choice([0, 2, 20])
    weights = weights * legal
    if state[0, game.num_points + kernels.FIVE] and rng.random() < 0.8:  # try to answer the five
        mover = int(game.to_move(state)[0])
        taken = game.captures(state, np.array([mover], np.int8))[0] * legal
        weights = np.where(taken > 0, weights, weights * 1e-3)
    return int(rng.choice(len(weights), p=weights / weights.sum()))


def assert_same_planes(game: Gomoku, state: np.ndarray, legal: np.ndarray, twin: GomokuReference, where: str) -> int:
    """Compare the shapes of a stone of either player on every empty point. -> the number of marked points."""
    wanted = np.zeros((2 * kernels.SHAPE_PLANES, game.size, game.size), np.uint8)
    other = "O" if twin.to_move == "X" else "X"
    for side, stone in enumerate((twin.to_move, other)):
        for row in range(game.size):
            for column in range(game.size):
                if twin.board[row][column] != ".":
                    continue
                after = [list(marks) for marks in twin.board]  # by the lines alone: captures aren't looked at
                after[row][column] = stone
                lines = lines_through(game.size, row, column)
                shapes = [shape_of(after, line, (row, column)) for line in lines]
                first = side * kernels.SHAPE_PLANES
                if twin.exact:
                    shapes = ["" if shape == "five" and not twin.has_five(after, stone) else shape for shape in shapes]
                for plane, shape in enumerate(("five", "straight four", "four", "three")):
                    wanted[first + plane, row, column] = shape in shapes
                threats = sum(shape in ("straight four", "four", "three") for shape in shapes)
                wanted[first + 4, row, column] = threats > 1
    planes = game.observe(state, legal[None])[0]
    found = planes[kernels.BASE_PLANES :][: 2 * kernels.SHAPE_PLANES]
    names = game.plane_names[kernels.BASE_PLANES :]
    for number, (plane, right) in enumerate(zip(found, wanted, strict=True)):
        np.testing.assert_array_equal(plane, right, err_msg=f"{where}: {names[number]}\n{game.diagram(state[0])}")
    return int(wanted.sum())


@cache
def play_beside_the_twin(spec: str) -> dict[str, int]:
    """Play random games with both, which must agree at every ply. -> how often each rule came up."""
    game = parse_game(spec)
    assert isinstance(game, Gomoku) and game.spec == spec
    rng = np.random.default_rng(sum(spec.encode()))
    seen = {"pairs": 0, "forbidden": 0, "five to be answered": 0, "answered": 0, "won": 0, "drawn": 0, "planes": 0}
    games = max(1, round(GAMES * FEWER.get(spec, 1)))
    for number in range(games):
        state, twin = game.initial(1), GomokuReference(game.size, **VARIANTS[spec])
        waiting = False
        while not twin.is_over:
            legal = game.legal(state, History.empty(1, 1))[0]
            where = f"{spec}, game {number}, ply {int(game.plies(state)[0])}"
            assert np.flatnonzero(legal).tolist() == twin.legal(), f"{where}\n{game.diagram(state[0])}"
            seen["forbidden"] += int((~legal & (state[0, : game.num_points] == gomoku_shapes.EMPTY)).sum())
            if rng.random() < (0.2 if game.size < 15 else 0.05):
                seen["planes"] += assert_same_planes(game, state, legal, twin, where)
            action = lively_move(game, state, legal, rng)
            state = game.play(state, np.array([action], np.int32), History.empty(1, 1))
            twin.play(action)
            stones = [0 if mark == "." else 1 if mark == "X" else -1 for row in twin.board for mark in row]
            assert_same_board(stones, game.ownership(state)[0], game.size, where)
            words = state[0, game.num_points :]
            assert game.pairs(state)[0].tolist() == [twin.pairs["X"], twin.pairs["O"]], where
            five = 0 if twin.is_over else ".XO".index(twin.unanswered or ".")
            assert words[kernels.FIVE] == five, f"{where}\n{game.diagram(state[0])}"
            seen["answered"] += waiting and not five and not twin.is_over
            waiting = five > 0
            seen["five to be answered"] += waiting
            assert bool(words[kernels.OVER]) == twin.is_over, f"{where}\n{game.diagram(state[0])}"
        assert game.returns(state)[0] == twin.result()
        assert game.plies(state)[0] <= game.max_plies
        seen["pairs"] += int(game.pairs(state).sum())
        seen["won" if twin.result() else "drawn"] += 1
    return seen


@pytest.mark.parametrize("spec", VARIANTS)
def test_the_kernels_play_as_the_twin_does(spec: str) -> None:
    seen = play_beside_the_twin(spec)
    assert seen["won"] > 0 and seen["planes"] > 0
    if "capture" in spec:
        assert seen["pairs"] > 0 and (seen["five to be answered"] == 0 or "breakable=off" not in spec)


def test_the_rare_rules_came_up() -> None:
    """Over all variants: a rule with count 0 wouldn't have been compared."""
    seen = [play_beside_the_twin(spec) for spec in VARIANTS]
    total = {what: sum(one[what] for one in seen) for what in seen[0]}
    print(total)
    assert total["forbidden"] > 100 and total["pairs"] > 100
    assert total["answered"] >= 5 and total["five to be answered"] > total["answered"]


@pytest.mark.parametrize("size", [9, 15, 19])
def test_the_free_game_is_open_spiels(size: int) -> None:
    pyspiel = pytest.importorskip("pyspiel", reason="OpenSpiel isn't installed: pip install open_spiel")
    game, oracle = parse_game(f"gomoku:{size}"), pyspiel.load_game("gomoku", {"size": size})
    assert isinstance(game, Gomoku)
    rng = np.random.default_rng(size)
    results = []
    for number in range(40):
        state, other = game.initial(1), oracle.new_initial_state()
        lively = number % 4 > 0  # uniformly random games are longer and reach more edges
        while not other.is_terminal():
            legal = game.legal(state, History.empty(1, 1))[0]
            assert np.flatnonzero(legal).tolist() == other.legal_actions()
            assert game.to_move(state)[0] == other.current_player()
            action = lively_move(game, state, legal, rng) if lively else int(rng.choice(np.flatnonzero(legal)))
            state = game.play(state, np.array([action], np.int32), History.empty(1, 1))
            other.apply_action(action)
        assert game.is_over(state)[0]
        results.append(float(game.returns(state)[0]))
        assert results[-1] == other.returns()[0]
    assert {1.0, -1.0} <= set(results)
