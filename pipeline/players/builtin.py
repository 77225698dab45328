"""The built-in players ``random`` and ``heuristic``: they score the moves of a position and play the best.

The row's own numpy Generator breaks ties, with one
number per decision, so a game is a function of its seed and the opponent's moves. They estimate no values.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import UsageError
from pipeline.games.contract import AnyGame, Game, KeyArray, MoveScores, States
from pipeline.players.player import BoardsPlayer, Decisions, Rows


class DrawingPlayer(BoardsPlayer):
    """Plays one of the moves that a subclass calls the best, in one step."""

    def __init__(self, game: Game, num_rows: int) -> None:
        super().__init__(game, num_rows)
        self._generators = [np.random.default_rng(0) for _ in range(num_rows)]

    @abstractmethod
    def best(self, rows: Rows) -> list[NDArray[np.integer]]:
        """The best actions in each of rows [n], ascending."""

    def new_games(self, rows: Rows, seeds: KeyArray) -> None:
        super().new_games(rows, seeds)
        for row, seed in zip(rows.tolist(), seeds.tolist(), strict=True):
            self._generators[row] = np.random.default_rng(seed)

    def set_up(self, rows: Rows, states: States, stones: Sequence[Sequence[int]]) -> None:
        self._boards.set_up(rows, states)

    def step(self) -> Decisions:
        rows = np.flatnonzero(self._wanted)
        if not rows.size:
            return Decisions.none()
        best = self.best(rows)
        actions = np.empty(len(rows), np.int32)
        for i, row in enumerate(rows.tolist()):
            actions[i] = best[i][self._generators[row].integers(len(best[i]))]
        self._wanted[rows] = False
        return Decisions(rows, actions, np.full(len(rows), np.nan, np.float32))


class ScoringPlayer(DrawingPlayer):
    """Plays a move with the highest score. Subclasses define the scores."""

    @abstractmethod
    def scores(self, rows: Rows) -> NDArray[np.float64]:
        """[n, A] scores of the moves in rows [n]; -inf for illegal moves."""

    def best(self, rows: Rows) -> list[NDArray[np.integer]]:
        return [np.flatnonzero(scores == scores.max()) for scores in self.scores(rows)]


class RandomPlayer(DrawingPlayer):
    """Uniform over the legal moves, including a pass; where any text may be said, over the game's suggestions."""

    def best(self, rows: Rows) -> list[NDArray[np.integer]]:
        moves = self._boards.moves(rows)
        return [moves.of(i) for i in range(len(rows))]


def heuristic_of(game: AnyGame) -> MoveScores:
    """Raises UsageError for a game without a heuristic evaluation."""
    evaluate = game.heuristic()
    if evaluate is None:
        raise UsageError(f"player heuristic: {game.spec} has no heuristic evaluation of moves; name another player")
    return evaluate


class HeuristicPlayer(ScoringPlayer):
    """Plays by the game's heuristic evaluation of moves."""

    def __init__(self, game: Game, num_rows: int) -> None:
        """Raises UsageError as heuristic_of()."""
        self._evaluate, self._mixes = heuristic_of(game), game.heuristic_mixes
        super().__init__(game, num_rows)

    def scores(self, rows: Rows) -> NDArray[np.float64]:
        scores = self._evaluate(self._boards.states[rows], self._boards.history.select(rows))
        if self._mixes:  # the maximum of scores + Gumbel noise is a sample from softmax(scores)
            scores = scores + [self._generators[row].gumbel(size=scores.shape[1]) for row in rows.tolist()]
        return scores


BUILT_INS: dict[str, type[RandomPlayer] | type[HeuristicPlayer]] = {
    "random": RandomPlayer,
    "heuristic": HeuristicPlayer,
}
