"""What is kept of a game while it is played, and how it becomes a record.

Axes: R rows (one unfinished game each), T plies, A actions, n rows named in a call. Values are seen by the player to
move.
Knows how AlphaZero records a position (visits, value, move); doesn't play and doesn't write files. The learner is the
model whose games these are; an opponent's moves are recorded without visits and are never policy targets. The
learner's own are, unless it says that a move was only searched to get on with the game.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.games.base import Actions, FloatArray, IntArray
from pipeline.storage.shards import BOTH, NO_VALUE, POLICY_COUNTS, End, GameRecord

Rows = NDArray[np.int64]
CALM = 2  # how many of a player's moves in a row must look lost before it resigns; its last is that many plies ago
LEAST_PRIOR = 1e-12  # a float32 softmax may underflow to 0, where surprise would be infinite
Visits = tuple[NDArray[np.uint16], NDArray[np.uint32]]  # the actions visited at a root and their counts
UNSEARCHED: Visits = (np.empty(0, np.uint16), np.empty(0, np.uint32))


class GameBuffer:
    """The unfinished games of R rows: moves, visits and values so far, and whether a player has given up."""

    def __init__(self, num_rows: int, max_plies: int, resign_threshold: float) -> None:
        self._threshold = resign_threshold
        self._moves = np.zeros((num_rows, max_plies), np.uint16)
        self._values = np.zeros((num_rows, max_plies), np.float32)
        self._surprises = np.zeros((num_rows, max_plies), np.float32)
        self._flags = np.zeros((num_rows, max_plies), np.uint8)
        self._visits: list[list[Visits]] = [[] for _ in range(num_rows)]
        self._game_id = np.zeros(num_rows, np.uint64)
        self._no_resign = np.zeros(num_rows, np.bool_)
        self._lost_for = np.full(num_rows, -1, np.int8)  # who would have resigned first, in a game that never resigns
        self._met: list[tuple[str | None, int]] = [(None, BOTH)] * num_rows

    def start(self, row: int, game_id: int, no_resign: bool, opponent: str | None = None, learner: int = BOTH) -> None:
        """A new game begins in row. game_id: uint64, kept in the record; no_resign: play on whatever the values say.

        opponent, learner: as in GameRecord.
        """
        self._visits[row] = []
        self._flags[row] = POLICY_COUNTS
        self._surprises[row] = 0.0
        self._met[row] = (opponent, learner)
        self._game_id[row] = game_id
        self._no_resign[row] = no_resign
        self._lost_for[row] = -1

    def add(
        self,
        rows: Rows,
        actions: Actions,
        visits: IntArray,
        values: FloatArray,
        priors: FloatArray,
        counts: NDArray[np.bool_] | None = None,
    ) -> None:
        """One more move of the learner in each of rows [n].

        actions [n], values [n]; visits [n, A] what the policy target is made of; priors [n, A] the network's own policy
        counts [n]: whether it is a target; None: all are
        A move that counts and was made without search is its own single visit: the raw policy's own sample. Nothing
        was found out there, so it surprises nobody.
        """
        unsearched = visits.sum(axis=1) == 0
        surprises = _surprises(visits, priors)
        if counts is not None:
            surprises[~counts] = 0.0
        alone = np.flatnonzero(unsearched if counts is None else unsearched & counts)
        if alone.size:
            visits = visits.copy()
            visits[alone, actions[alone]] = 1
        who, where = np.nonzero(visits)
        numbers = visits[who, where].astype(np.uint32)
        where = where.astype(np.uint16)
        ends = np.cumsum(np.bincount(who, minlength=len(rows)))
        begin = 0
        for i, row in enumerate(rows.tolist()):
            game = self._visits[row]
            self._moves[row, len(game)] = actions[i]
            self._values[row, len(game)] = values[i]
            self._surprises[row, len(game)] = surprises[i]
            if counts is not None and not counts[i]:
                self._flags[row, len(game)] = 0
            end = int(ends[i])
            game.append((where[begin:end], numbers[begin:end]))
            begin = end

    def add_opponents(self, rows: Rows, actions: Actions, values: FloatArray) -> None:
        """One more move of an opponent in each of rows [n]: actions [n], values [n], NaN where it has no opinion."""
        silent = np.isnan(values)
        for row, action, value, no_value in zip(rows.tolist(), actions, values, silent.tolist(), strict=True):
            game = self._visits[row]
            self._moves[row, len(game)] = action
            self._values[row, len(game)] = 0.0 if no_value else value
            self._flags[row, len(game)] = NO_VALUE if no_value else 0
            game.append(UNSEARCHED)

    def resigns(self, rows: Rows, values: FloatArray, movers: NDArray[np.int8]) -> NDArray[np.bool_]:
        """[n]: which players to move give up, before their move is recorded. values [n]: what the search just found.

        A player resigns when its value is below the threshold now and at its move before. In games that
        never resign the answer is False, and the first who would have is remembered. Only to be asked where the
        learner is to move: its move before is its own, so what an opponent thinks never counts. Whether a move is a
        policy target makes no difference: a value counts as it is, from however short a search.
        """
        answer = np.zeros(len(rows), np.bool_)
        for i in np.flatnonzero(values < self._threshold).tolist():
            row = int(rows[i])
            before = len(self._visits[row]) - CALM
            if before < 0 or self._values[row, before] >= self._threshold:
                continue
            if not self._no_resign[row]:
                answer[i] = True
            elif self._lost_for[row] < 0:
                self._lost_for[row] = movers[i]
        return answer

    def would_have_resigned(self, row: int) -> int:
        """The player (0 or 1) who would have resigned first in a game that never resigns; −1 if nobody."""
        return int(self._lost_for[row])

    def finish(self, row: int, result_first_player: float, end: End) -> GameRecord:
        """The record of the game in row."""
        game = self._visits[row]
        length = len(game)
        opponent, learner = self._met[row]
        return GameRecord(
            game_id=int(self._game_id[row]),
            moves=self._moves[row, :length].copy(),
            flags=self._flags[row, :length].copy(),
            root_values=self._values[row, :length].copy(),
            surprises=self._surprises[row, :length].copy(),
            visit_lengths=np.array([len(where) for where, _ in game], np.uint16),
            visit_actions=np.concatenate([where for where, _ in game]) if game else np.empty(0, np.uint16),
            visit_counts=np.concatenate([counts for _, counts in game]) if game else np.empty(0, np.uint32),
            result_first_player=result_first_player,
            end=end,
            no_resign=bool(self._no_resign[row]),
            opponent=opponent,
            learner=learner,
        )


def _surprises(visits: IntArray, priors: FloatArray) -> NDArray[np.float64]:
    """[n] KL(visits / Σ visits || priors) in nats, of visits [n, A] and priors [n, A]; 0 where nothing was visited."""
    who, where = np.nonzero(visits)
    found = visits[who, where].astype(np.float64)
    found /= np.bincount(who, found, len(visits))[who]
    terms = found * np.log(found / np.maximum(priors[who, where], LEAST_PRIOR))
    return np.maximum(np.bincount(who, terms, len(visits)), 0.0)  # rounding may go below
