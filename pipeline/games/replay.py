"""Replaying recorded games, and finding the first illegal move.

Axes: G games, T plies of the longest one, S words of a state. A game begins at its initial position, or after handicap
stones (``handicap_start``); its history for repetition rules begins there as well. Doesn't check how a game ended:
callers compare the last states with the records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import IllegalMove
from pipeline.games.capabilities import AnyPosition
from pipeline.games.contract import Actions, AnyGame, History, States


class IllegalRecord(IllegalMove):
    """The recorded move of game ``row`` at ``ply`` is illegal. The message is the game's."""

    def __init__(self, row: int, ply: int, reason: IllegalMove) -> None:
        super().__init__(str(reason))
        self.row, self.ply = row, ply


def handicap_start(game: AnyGame, stones: Sequence[int]) -> States:
    """[1, S] the start of a game whose first player has these handicap stones, so that the second player moves first.

    Without stones the initial position. Raises IllegalMove for stones that can't stand together, and for a game without
    handicaps.
    """
    if not stones:
        return game.initial(1)
    if not isinstance(game, AnyPosition):
        raise IllegalMove(f"{game.spec}: no handicap stones are known in this game")
    return game.position(stones, [], 1)


def replay(
    game: AnyGame, moves: NDArray[np.integer], lengths: NDArray[np.integer], starts: States | None = None
) -> Iterator[tuple[States, History]]:
    """Play recorded games in lockstep: yields states [g, S] and history [g] for each ply from 0 to T.

    moves [T, G]   actions; entries after a game's end are ignored
    lengths [G]    plies of each game, longest first, so the g games that reach a ply are the first rows
    starts [G, S]  where the games begin; None: at the initial position
    The next step changes the yielded history.
    Raises IllegalRecord for the first row with an illegal move at the first ply that has one.
    """
    states = game.initial(len(lengths)) if starts is None else starts
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


def replay_one(
    game: AnyGame,
    moves: Sequence[int] | NDArray[np.integer],
    stones: Sequence[int] = (),
    start: States | None = None,
) -> Iterator[States]:
    """The T + 1 states [1, S] of one game, from the start to its end.

    stones: the first player's handicap. start [1, S]: where the game begins instead.
    Raises IllegalRecord as replay does, IllegalMove as handicap_start does.
    """
    column = np.array(moves, np.int32).reshape(-1, 1)
    begin = handicap_start(game, stones) if start is None else start
    found = replay(game, column, np.array([len(column)]), begin)
    return (states for states, _ in found)


def move_names(game: AnyGame, moves: Sequence[int], stones: Sequence[int] = ()) -> list[str]:
    """The moves of one game in its notation; ``#N`` from the first one that it can't name or that is illegal."""
    names = []
    try:
        for move, state in zip(moves, replay_one(game, moves, stones), strict=False):
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
