"""``Boards``: the positions of R games, without a tree. Axes as in contract.py; n rows named in a call."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.games.contract import (
    Actions,
    AnyGame,
    BoolArray,
    FloatArray,
    History,
    IntArray,
    KeyArray,
    Moves,
    Rows,
    States,
)


class Boards:
    """The positions of R games, for referees, for players without a tree, and for searches to start from.

    states [R, S]; history of R games. Rows without a game are at the initial position.
    """

    def __init__(self, game: AnyGame, num_rows: int) -> None:
        self.game = game
        self.num_rows = num_rows
        self.states: States = game.initial(num_rows)
        self.history = History.empty(num_rows, game.max_plies + 1)
        self.history.append(np.arange(num_rows), game.keys(self.states))

    def new_games(self, rows: Rows) -> None:
        """Put rows [n] at the initial position."""
        self.states[rows] = self.game.initial(len(rows))
        self.history.lengths[rows] = 0
        self.history.append(rows, self.game.keys(self.states[rows]))

    def place(self, row: int, state: NDArray[np.int16], keys: KeyArray) -> None:
        """Put a row at this position [S]. keys [t]: of all positions of its game so far, this one included."""
        self.states[row] = state
        self.history.keys[row, : len(keys)] = keys
        self.history.lengths[row] = len(keys)

    def set_up(self, rows: Rows, states: States) -> None:
        """Put rows [n] at states [n, S], without earlier positions."""
        for row, state, key in zip(rows.tolist(), states, self.game.keys(states), strict=True):
            self.place(row, state, np.array([key], np.uint64))

    def advance(self, rows: Rows, actions: Actions) -> None:
        """Play actions [n] in rows [n]. Raises IllegalMove; then nothing has changed."""
        after = self.game.play(self.states[rows], np.asarray(actions, np.int32), self.history.select(rows))
        self.states[rows] = after
        self.history.append(rows, self.game.keys(after))

    def legal(self, rows: Rows) -> BoolArray:
        """[n, A]"""
        return self.game.legal(self.states[rows], self.history.select(rows))

    def moves(self, rows: Rows) -> Moves:
        return self.game.moves(self.states[rows], self.history.select(rows))

    def over(self, rows: Rows) -> BoolArray:
        return self.game.is_over(self.states[rows])

    def returns(self, rows: Rows) -> FloatArray:
        """[n] float32, the results for the first player; 0 where not over."""
        return self.game.returns(self.states[rows])

    def plies(self, rows: Rows) -> IntArray:
        return self.game.plies(self.states[rows])

    def to_move(self, rows: Rows) -> NDArray[np.int8]:
        return self.game.to_move(self.states[rows])
