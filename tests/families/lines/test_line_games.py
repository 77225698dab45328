"""Tic-tac-toe and connect four: known counts of positions and games, exact values, and the plain twin."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.errors import IllegalMove
from pipeline.families.lines.game import LineGame
from pipeline.games.contract import Game, States
from pipeline.games.specs import parse_game
from pipeline.games.testing import random_games
from tests.games.playing import NO_HISTORY, assert_same_board
from tests.reference.lines import LineReference


def children(game: Game, states: States) -> tuple[States, np.ndarray]:
    """Every state one ply later, and the row of `states` that each came from."""
    rows, actions = np.nonzero(game.legal(states, NO_HISTORY))
    before = states[rows]
    return game.play(before, actions.astype(np.int32), NO_HISTORY), rows


def play_names(game: Game, names: str) -> States:
    """The state [1, S] after these moves, separated by blanks."""
    states = game.initial(1)
    for name in names.split():
        states = game.play(states, np.array([game.parse_action(name)]), NO_HISTORY)
    return states


def twin_of(game: Game) -> LineReference:
    assert isinstance(game, LineGame)
    return LineReference(game.height, game.width, game.length, game.falls)


# Games by length and winner; 255,168 in all: https://en.wikipedia.org/wiki/Tic-tac-toe#Combinatorics
TICTACTOE_GAMES = {(5, 1): 1440, (6, -1): 5328, (7, 1): 47952, (8, -1): 72576, (9, 1): 81792, (9, 0): 46080}


def test_tictactoe_has_255168_games() -> None:
    game = parse_game("tictactoe")
    states, found = game.initial(1), {}
    for ply in range(1, 10):
        states, _ = children(game, states)
        over = game.is_over(states)
        for result in (1, 0, -1):
            count = int((over & (game.returns(states) == result)).sum())
            if count:
                found[ply, result] = count
        states = states[~over]
    assert len(states) == 0
    assert found == TICTACTOE_GAMES
    assert sum(found.values()) == 255_168


def test_tictactoe_is_a_draw_with_5478_positions() -> None:
    """Minimax over the 5,478 distinct positions, identified by their keys."""
    game = parse_game("tictactoe")
    levels = [game.initial(1)]
    while len(levels[-1]):
        made, _ = children(game, levels[-1])
        _, first = np.unique(game.keys(made), return_index=True)
        levels.append(made[first])
    assert sum(map(len, levels)) == 5478
    values: dict[int, float] = {}
    for states in reversed(levels[:-1]):
        made, rows = children(game, states)
        child_values = np.array([values[key] for key in game.keys(made).tolist()])
        for row, key in enumerate(game.keys(states).tolist()):
            if game.is_over(states[row : row + 1])[0]:
                values[key] = float(game.returns(states[row : row + 1])[0])
            else:
                best = max if game.to_move(states[row : row + 1])[0] == 0 else min
                values[key] = best(child_values[rows == row])
    assert values[int(game.keys(game.initial(1))[0])] == 0


# Move sequences: 7^n until a column can be full (7^7 - 7 at ply 7) or a game over (ply 8).
CONNECT4_SEQUENCES = (1, 7, 49, 343, 2401, 16807, 117649, 823536, 5673234)
# Distinct positions by ply, won ones included: https://oeis.org/A212693
CONNECT4_POSITIONS = (1, 7, 49, 238, 1120, 4263, 16422, 54859, 184275)


def test_connect4_perft() -> None:
    game = parse_game("connect4")
    states, found = game.initial(1), [1]
    for _ in range(7):
        states, _ = children(game, states)
        found.append(len(states))
        states = states[~game.is_over(states)]
    live = game.legal(states, NO_HISTORY)
    found.append(int(live.sum()))  # the last ply needs no boards
    assert tuple(found) == CONNECT4_SEQUENCES


def test_connect4_distinct_positions() -> None:
    game = parse_game("connect4")
    states, found = game.initial(1), [1]
    for _ in CONNECT4_POSITIONS[1:]:
        states, _ = children(game, states)
        _, first = np.unique(game.keys(states), return_index=True)
        found.append(len(first))
        states = states[first]
    assert tuple(found) == CONNECT4_POSITIONS


@pytest.mark.parametrize(("spec", "num_games"), [("tictactoe", 1500), ("connect4", 600)])
def test_kernels_equal_the_plain_twin(spec: str, num_games: int) -> None:
    game = parse_game(spec)
    twins = [twin_of(game) for _ in range(num_games)]
    results = set()
    for step in random_games(game, num_games, 7):
        over, returns, owners = game.is_over(step.after), game.returns(step.after), game.ownership(step.after)
        for i, row in enumerate(step.rows):
            twin = twins[row]
            assert np.flatnonzero(step.legal[i]).tolist() == twin.legal(), game.diagram(step.states[i])
            twin.play(int(step.actions[i]))
            stones = [".XO".index(mark) for line in twin.board for mark in line]
            assert_same_board([(0, 1, -1)[mark] for mark in stones], owners[i], game.board_shape[1], "twin, kernel")
            assert (twin.is_over, twin.result()) == (over[i], returns[i]), game.diagram(step.after[i])
            results.add((twin.is_over, twin.result()))
    assert results == {(False, 0), (True, 0), (True, 1), (True, -1)} or spec == "connect4"


def lines_of(game: LineGame) -> list[list[int]]:
    """Every winning line of the board, as points."""
    lines = []
    for row in range(game.height):
        for column in range(game.width):
            for down, right in ((0, 1), (1, 0), (1, 1), (1, -1)):
                cells = [(row + i * down, column + i * right) for i in range(game.length)]
                if all(0 <= r < game.height and 0 <= c < game.width for r, c in cells):
                    lines.append([r * game.width + c for r, c in cells])
    return lines


@pytest.mark.parametrize(("spec", "num_lines"), [("tictactoe", 8), ("connect4", 69)])
def test_every_line_wins_whichever_stone_completes_it(spec: str, num_lines: int) -> None:
    """Boards with a line but for one stone; if stones fall, the opponent has the empty points below it."""
    game = parse_game(spec)
    assert isinstance(game, LineGame)
    lines = lines_of(game)
    assert len(lines) == num_lines
    for line in lines:
        for last in line:
            for mover in (0, 1):
                states = game.initial(1)
                states[0, [point for point in line if point != last]] = mover + 1
                states[0, game.num_points] = mover
                action = last
                if game.falls:
                    action = last % game.width
                    below = np.arange(last + game.width, game.num_points, game.width)
                    states[0, below[states[0, below] == 0]] = 2 - mover
                after = game.play(states, np.array([action]), NO_HISTORY)
                assert game.is_over(after)[0] and game.returns(after)[0] == (1, -1)[mover], game.diagram(after[0])


def test_a_line_does_not_wrap_around_the_edge() -> None:
    game = parse_game("connect4")
    states = play_names(game, "5 5 6 6 7 1 1 2")  # X on 5 6 7 of the bottom row and column 1 of the next
    assert not game.is_over(states)[0]
    states = play_names(game, "6 1 7 2 6 1 7")
    assert not game.is_over(states)[0]


def test_a_win_on_the_last_point_is_no_draw() -> None:
    game = parse_game("tictactoe")
    states = play_names(game, "a1 a2 b1 b2 c2 a3 b3 c3 c1")
    assert game.plies(states)[0] == game.max_plies and game.returns(states)[0] == 1


def test_refusals_say_why() -> None:
    tictactoe, connect4 = parse_game("tictactoe"), parse_game("connect4")
    with pytest.raises(IllegalMove, match=r"action 4 \(b2\): the point is occupied"):
        play_names(tictactoe, "b2 b2")
    with pytest.raises(IllegalMove, match=r"action 2 \(3\): the column is full"):
        play_names(connect4, "3 3 3 3 3 3 3")
    with pytest.raises(IllegalMove, match="the game is over"):
        play_names(connect4, "1 2 1 2 1 2 1 2")


def test_stones_fall_in_the_diagram() -> None:
    states = play_names(parse_game("connect4"), "4 4 1")
    assert parse_game("connect4").diagram(states[0]).splitlines() == [
        "  . . . . . . .",
        "  . . . . . . .",
        "  . . . . . . .",
        "  . . . . . . .",
        "  . . . O . . .",
        "  X . . X . . .",
        "  1 2 3 4 5 6 7",
        "  O to move, ply 3",
    ]
