"""Random games for tests, and boards that print well when they differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pytest

from pipeline.games.contract import Actions, BoolArray, Game, History, States
from pipeline.games.specs import parse_game
from pipeline.games.stones import BoardGame
from tests.families import offered

# Every registered game with a fixed list of actions, with the sizes and options that change what its code does. The
# contract tests play them all: test_contract.py these, test_any_game.py the others. The packages of
# the families' tests list them.
SPECS = offered("SPECS")
OTHERS = offered("OTHERS")  # with chance, or without a fixed list of actions


def name_of(spec: str) -> str:
    return spec.partition(":")[0].partition(",")[0]


def smallest_of_each(specs: tuple[str, ...]) -> tuple[str, ...]:
    """One spec of each game: that of the fewest points, the first of several. For tests that need small boards."""
    by_size = sorted(specs, key=lambda spec: parse_game(spec).num_points)
    return tuple({name_of(spec): spec for spec in reversed(by_size)}.values())[::-1]


SMALL = smallest_of_each(SPECS)
NO_HISTORY = History.empty(1, 1)  # for games without repetition rules, however many rows are asked about


@dataclass
class Step:
    """One ply of several games that run side by side; games that are over are left out."""

    rows: np.ndarray  # [B] which games
    states: States  # [B, S] before the actions
    history: History
    legal: BoolArray  # [B, A]
    actions: Actions  # [B]
    after: States  # [B, S]


def random_games(game: Game, num_games: int, seed: int, pass_share: float = 0.02) -> Iterator[Step]:
    """Uniformly random legal play until every game is over.

    pass_share: the chance that a game with a pass action passes though it could do something else.
    """
    rng = np.random.default_rng(seed)
    states = game.initial(num_games)
    history = game.initial_history(states)
    while True:
        rows = np.flatnonzero(~game.is_over(states))
        if rows.size == 0:
            return
        before, past = states[rows], history.select(rows)
        legal = game.legal(before, past)
        weights = legal * rng.random(legal.shape)
        if game.pass_action is not None:
            passing = np.where(rng.random(len(rows)) < pass_share, 2.0, 1e-9)
            weights[:, game.pass_action] = passing * legal[:, game.pass_action]
        actions = weights.argmax(axis=1).astype(np.int32)
        after = game.play(before, actions, past)
        yield Step(rows, before, past, legal, actions, after)
        states[rows] = after
        history.append(rows, game.keys(after))


def sample_positions(game: Game, num_games: int, seed: int, share: float) -> tuple[States, History]:
    """Positions of random games with their histories: about this share of those with a move left, and all ends."""
    rng = np.random.default_rng(seed)
    states, keys, lengths = [], [], []

    def keep(rows: np.ndarray, found: States, history: History) -> None:
        states.append(found[rows])
        keys.append(history.keys[rows])
        lengths.append(history.lengths[rows])

    for step in random_games(game, num_games, seed):
        keep(rng.random(len(step.rows)) < share, step.states, step.history)
        past = History(step.history.keys.copy(), step.history.lengths.copy())
        past.append(np.arange(len(step.rows)), game.keys(step.after))
        keep(game.is_over(step.after), step.after, past)
    return np.concatenate(states), History(np.concatenate(keys), np.concatenate(lengths))


def stones_of(game: Game, states: States) -> np.ndarray:
    """[B, P] int8: 1 the first player's stone, -1 the second's, read from the diagrams alone."""
    stones = np.zeros((len(states), game.num_points), np.int8)
    for row, state in enumerate(states):
        board = "".join(game.diagram(state).splitlines()[: game.board_shape[0]])
        marks = [mark for mark in board if mark in ".XO"]
        assert len(marks) == game.num_points, f"{game.spec}: a diagram starts with its {game.num_points} points, .XO"
        stones[row] = [(mark == "X") - (mark == "O") for mark in marks]
    return stones


def boards_of(game: Game, states: States) -> list[bytes]:
    """What stands where, of each state: stones, or all that a diagram shows but its last line, which says whose turn it
    is.
    """
    if isinstance(game, BoardGame):
        return [row.tobytes() for row in stones_of(game, states)]
    return ["\n".join(game.diagram(state).splitlines()[:-1]).encode() for state in states]


def symmetries_of_start(game: Game) -> np.ndarray:
    """[k] the symmetries that leave the start as it is: a game from there has an image that can be played as well.

    All of them where the board is empty at first.
    """
    start = stones_of(game, game.initial(1))[0]
    return np.flatnonzero((start[game.symmetries.points] == start).all(axis=1))


def draw_board(values: np.ndarray | list[int], width: int) -> list[str]:
    """Lines of X (1), O (-1) and dots."""
    text = [".XO"[int(value)] for value in values]
    return [" ".join(text[at : at + width]) for at in range(0, len(text), width)]


def assert_same_board(
    expected: np.ndarray | list[int], found: np.ndarray | list[int], width: int, what: Callable[[], str] | str
) -> None:
    """Fail with both boards side by side, the rows that differ marked. what: the headline, asked for only then."""
    if np.array_equal(expected, found):
        return
    left, right = draw_board(expected, width), draw_board(found, width)
    head = f"{'expected':<{2 * width + 3}}found"
    rows = [f"{a:<{2 * width}}   {b}{'' if a == b else '   <'}" for a, b in zip(left, right, strict=True)]
    pytest.fail("\n".join([what if isinstance(what, str) else what(), head, *rows]), pytrace=False)
