"""Random games for tests, and boards that print well when they differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pytest

from pipeline.games.base import Actions, BoolArray, Game, History, States

SPECS = ("tictactoe", "connect4", "go:5", "go:5,moves=200", "go:7", "go:9", "go:9,komi=7", "go:13", "go:19",
         "gomoku:9", "gomoku:10,exact", "gomoku:9,capture",
         "gomoku:11,capture,pairs=3,threes_by_capture=off,breakable=off", "gomoku:15",
         "gomoku:19,capture,pairs=7")  # fmt: skip


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
        pass_action = getattr(game, "pass_action", None)
        if pass_action is not None:
            weights[:, pass_action] = np.where(rng.random(len(rows)) < pass_share, 2.0, 1e-9)
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


def stones_of(game: Game, states: States, legal: BoolArray) -> np.ndarray:
    """[B, P] int8: 1 the first player's stone, -1 the second's, read from the planes alone."""
    planes = game.observe(states, legal)[:, :2].reshape(len(states), 2, game.num_points).astype(np.int8)
    sign = np.where(game.to_move(states) == 0, 1, -1).astype(np.int8)
    return (planes[:, 0] - planes[:, 1]) * sign[:, None]


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
