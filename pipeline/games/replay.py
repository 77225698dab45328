"""Replaying recorded games, and finding the one whose move is illegal.

Axes: G games, T plies of the longest one, S the size of a state. Doesn't judge how a game ended: callers compare the
last states with what was recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import IllegalMove
from pipeline.games.base import Actions, AnyGame, History, States


class IllegalRecord(IllegalMove):
    """A recorded move is illegal: that of game ``row`` at ``ply``. The message is the game's own for that move."""

    def __init__(self, row: int, ply: int, reason: IllegalMove) -> None:
        super().__init__(str(reason))
        self.row, self.ply = row, ply


def replay(game: AnyGame, moves: NDArray[np.integer], lengths: NDArray[np.integer]) -> Iterator[tuple[States, History]]:
    """Play recorded games in lockstep: yields states [g, S] and history [g] for each ply from 0 to T.

    moves [T, G] actions; entries after a game's end are ignored. lengths [G]: plies of each game, longest first, so the
    g games that last at least that many plies are always the first rows. The history is changed by the next step.
    Raises IllegalRecord for the first row whose move is illegal at the first ply that has an illegal move.
    """
    states = game.initial(len(lengths))
    history = game.initial_history(states)
    yield states, history
    for ply, row_moves in enumerate(moves):
        going = int(np.count_nonzero(lengths > ply))
        before, actions = states[:going], row_moves[:going].astype(np.int32)
        history = History(history.keys[:going], history.lengths[:going])
        try:
            states = game.play(before, actions, history)
        except IllegalMove as error:
            raise _first_illegal(game, before, actions, history, ply) from error
        history.append(np.arange(going), game.keys(states))
        yield states, history


def replay_one(game: AnyGame, moves: Sequence[int] | NDArray[np.integer]) -> Iterator[States]:
    """The T + 1 states [1, S] of one game, from the start to its end. Raises IllegalRecord as replay does."""
    column = np.array(moves, np.int32).reshape(-1, 1)
    return (states for states, _ in replay(game, column, np.array([len(column)])))


def movers(game: AnyGame, moves: Sequence[int] | NDArray[np.integer]) -> list[int]:
    """Who made each of the T moves of one game: 0, 1, or CHANCE. Raises IllegalRecord as replay does."""
    return [int(game.to_move(state)[0]) for state in replay_one(game, moves)][: len(moves)]


def move_names(game: AnyGame, moves: Sequence[int]) -> list[str]:
    """The moves of one game in its notation. ``#N`` for those that it can't name, and for all behind an illegal one."""
    names = []
    try:
        for move, state in zip(moves, replay_one(game, moves), strict=False):
            names.append(game.move_name(state[0], move))
    except (IllegalMove, IndexError):
        pass
    return names + [f"#{move}" for move in moves[len(names) :]]


def _first_illegal(game: AnyGame, states: States, actions: Actions, history: History, ply: int) -> IllegalRecord:
    """The error of the first row whose action is illegal, played alone."""
    for row in range(len(states)):
        one = slice(row, row + 1)
        try:
            game.play(states[one], actions[one], History(history.keys[one], history.lengths[one]))
        except IllegalMove as error:
            return IllegalRecord(row, ply, error)
    raise RuntimeError(f"{game.spec}: a move is illegal in a batch but not alone")
