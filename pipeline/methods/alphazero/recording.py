"""What is kept of a game while it is played, and how it becomes a record.

Axes: R rows (one unfinished game each), T plies, A actions, n rows named in a call. Values are seen by the player to
move.
Knows how AlphaZero records a position (visits, value, move); doesn't play and doesn't write files. The learner is the
model whose games these are; an opponent's moves are recorded without visits and are never policy targets. The
learner's own are, unless it says that a move was only searched to get on with the game.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.games.contract import Actions, FloatArray, IntArray
from pipeline.methods.resignation import CALM
from pipeline.run.shards import BOTH, DRAWN, NO_VALUE, POLICY_COUNTS, End, GameRecord

Rows = NDArray[np.int64]
LEAST_PRIOR = 1e-12  # a float32 softmax may underflow to 0, where surprise would be infinite


class _Ply(NamedTuple):
    """A move and what is recorded with it. visited: the actions visited at the root; counts: how often each."""

    move: int
    flags: int
    value: np.float32
    surprise: float = 0.0
    visited: NDArray[np.uint16] = np.empty(0, np.uint16)
    counts: NDArray[np.uint32] = np.empty(0, np.uint32)


@dataclass
class _Game:
    """An unfinished game. Fields as in GameRecord and FinishedGame."""

    game_id: int
    no_resign: bool
    opponent: str | None
    learner: int
    setup: int
    would_have_resigned: int = -1
    plies: list[_Ply] = field(default_factory=list)


class GameBuffer:
    """The unfinished games of some rows: moves, visits and values so far, and whether a player has given up."""

    def __init__(self, resign_threshold: float) -> None:
        self._threshold = resign_threshold
        self._games: dict[int, _Game] = {}  # by row

    def start(
        self,
        row: int,
        game_id: int,
        no_resign: bool,
        opponent: str | None = None,
        learner: int = BOTH,
        setup: int = 0,
    ) -> None:
        """A new game begins in row. game_id: uint64, kept in the record; no_resign: play on whatever the values say.

        opponent, learner, setup: as in GameRecord.
        """
        self._games[row] = _Game(game_id, no_resign, opponent, learner, setup)

    def add(
        self,
        rows: Rows,
        actions: Actions,
        visits: IntArray,
        values: FloatArray,
        priors: FloatArray,
        counts: NDArray[np.bool_],
    ) -> None:
        """One more move of the learner in each of rows [n].

        actions [n], values [n]; visits [n, A] what the policy target is made of; priors [n, A] the network's own policy
        counts [n]: whether it is a target
        A move that counts and was made without search is its own single visit: the raw policy's own sample. Nothing
        was found out there, so it surprises nobody.
        """
        surprises = np.where(counts, _surprises(visits, priors), 0.0)
        alone = np.flatnonzero((visits.sum(axis=1) == 0) & counts)
        if alone.size:
            visits = visits.copy()
            visits[alone, actions[alone]] = 1
        who, where = np.nonzero(visits)
        numbers = visits[who, where].astype(np.uint32)
        visited = where.astype(np.uint16)
        ends = np.cumsum(np.bincount(who, minlength=len(rows))).tolist()
        begin = 0
        for i, (row, end) in enumerate(zip(rows.tolist(), ends, strict=True)):
            flags = POLICY_COUNTS if counts[i] else 0
            ply = _Ply(int(actions[i]), flags, values[i], surprises[i], visited[begin:end], numbers[begin:end])
            self._games[row].plies.append(ply)
            begin = end

    def add_opponents(self, rows: Rows, actions: Actions, values: FloatArray) -> None:
        """One more move of an opponent in each of rows [n]: actions [n], values [n], NaN where it has no opinion."""
        for row, action, value in zip(rows.tolist(), actions.tolist(), values, strict=True):
            is_silent = np.isnan(value)
            ply = _Ply(action, NO_VALUE, np.float32(0.0)) if is_silent else _Ply(action, 0, value)
            self._games[row].plies.append(ply)

    def add_drawn(self, rows: Rows, actions: Actions) -> None:
        """One more move in each of rows [n] that nobody chose."""
        for row, action in zip(rows.tolist(), actions.tolist(), strict=True):
            self._games[row].plies.append(_Ply(action, NO_VALUE | DRAWN, np.float32(0.0)))

    def resigns(self, rows: Rows, values: FloatArray, movers: NDArray[np.int8]) -> NDArray[np.bool_]:
        """[n]: which players to move give up, before their move is recorded. values [n]: what the search just found.

        A player resigns when its value is below the threshold now and at its move before. In games that
        never resign the answer is False, and the first who would have is remembered. Only to be asked where the
        learner is to move: its move before is its own, so what an opponent thinks never counts. Whether a move is a
        policy target makes no difference: a value counts as it is, from however short a search.
        """
        answer = np.zeros(len(rows), np.bool_)
        for i in np.flatnonzero(values < self._threshold).tolist():
            game = self._games[int(rows[i])]
            if len(game.plies) < CALM or game.plies[-CALM].value >= self._threshold:
                continue
            if not game.no_resign:
                answer[i] = True
            elif game.would_have_resigned < 0:
                game.would_have_resigned = int(movers[i])
        return answer

    def would_have_resigned(self, row: int) -> int:
        """The player (0 or 1) who would have resigned first in a game that never resigns; −1 if nobody."""
        return self._games[row].would_have_resigned

    def finish(self, row: int, result_first_player: float, end: End) -> GameRecord:
        """The record of the game in row, which has at least one move."""
        game = self._games[row]
        moves, flags, values, surprises, visited, counts = zip(*game.plies, strict=True)
        return GameRecord(
            game_id=game.game_id,
            moves=np.array(moves, np.uint16),
            flags=np.array(flags, np.uint8),
            root_values=np.array(values, np.float32),
            surprises=np.array(surprises, np.float32),
            visit_lengths=np.array([len(actions) for actions in visited], np.uint16),
            visit_actions=np.concatenate(visited),
            visit_counts=np.concatenate(counts),
            result_first_player=result_first_player,
            end=end,
            no_resign=game.no_resign,
            opponent=game.opponent,
            learner=game.learner,
            setup=game.setup,
        )


def _surprises(visits: IntArray, priors: FloatArray) -> NDArray[np.float64]:
    """[n] KL(visits / Σ visits || priors) in nats, of visits [n, A] and priors [n, A]; 0 where nothing was visited."""
    who, where = np.nonzero(visits)
    found = visits[who, where].astype(np.float64)
    found /= np.bincount(who, found, len(visits))[who]
    terms = found * np.log(found / np.maximum(priors[who, where], LEAST_PRIOR))
    return np.maximum(np.bincount(who, terms, len(visits)), 0.0)  # rounding may go below
