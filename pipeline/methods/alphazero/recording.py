"""``GameBuffer``: the moves, visits and values of unfinished games, until they become game records.

Opponents' moves have no visits, or a single one, of the move, where they are learned. Axes: R rows (one unfinished game
each), T plies, A actions, n rows named in a call. Values are seen by the player to move.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.games.contract import Actions, FloatArray, IntArray, Rows
from pipeline.methods.resignation import PLIES, resignation_values
from pipeline.run.shards import DRAWN, NO_VALUE, POLICY_COUNTS, SEARCHED, End, GameRecord

MIN_PRIOR = 1e-12  # a float32 softmax may underflow to 0, which would make the surprise infinite


class _Ply(NamedTuple):
    """A move and its search.

    surprise: None where an opponent teaches: no search says how much its move surprises the network
    visited: the actions visited at the root; counts: their visits
    """

    move: int
    flags: int
    value: np.float32
    surprise: float | None = 0.0
    visited: NDArray[np.uint16] = np.empty(0, np.uint16)
    counts: NDArray[np.uint32] = np.empty(0, np.uint32)


@dataclass
class _Game:
    """An unfinished game. facts: the fields of its GameRecord that are known from the beginning."""

    facts: dict[str, Any]
    would_have_resigned: int = -1
    plies: list[_Ply] = field(default_factory=list)


class GameBuffer:
    """See the module docstring. Also applies the rule of resignation."""

    def __init__(self, resign_threshold: float) -> None:
        self._threshold = resign_threshold
        self._games: dict[int, _Game] = {}  # by row

    def start(self, row: int, game_id: int, no_resign: bool, **facts: Any) -> None:
        """Begin a new game in row. facts: opponent, learner and setup, as in GameRecord."""
        self._games[row] = _Game({"game_id": game_id, "no_resign": no_resign, **facts})

    def add(
        self,
        rows: Rows,
        actions: Actions,
        visits: IntArray,
        values: FloatArray,
        priors: FloatArray,
        counts: NDArray[np.bool_],
    ) -> None:
        """Add a move of the learner in each of rows [n].

        actions [n]    the moves
        visits [n, A]  the policy target, unnormalised
        values [n]     the search's values
        priors [n, A]  the network's policy, without noise
        counts [n]     whether the move is a policy target
        A target without visits, a sample of the raw policy, is recorded as one visit of the move, with surprise 0.
        """
        surprises = np.where(counts, _surprises(visits, priors), 0.0)
        is_searched = visits.sum(axis=1) > 0
        alone = np.flatnonzero(~is_searched & counts)
        if alone.size:
            visits = visits.copy()
            visits[alone, actions[alone]] = 1
        index, action = np.nonzero(visits)
        numbers = visits[index, action].astype(np.uint32)
        visited = action.astype(np.uint16)
        ends = np.cumsum(np.bincount(index, minlength=len(rows))).tolist()
        begin = 0
        for i, (row, end) in enumerate(zip(rows.tolist(), ends, strict=True)):
            flags = 0 if not counts[i] else POLICY_COUNTS | SEARCHED if is_searched[i] else POLICY_COUNTS
            ply = _Ply(int(actions[i]), flags, values[i], surprises[i], visited[begin:end], numbers[begin:end])
            self._games[row].plies.append(ply)
            begin = end

    def add_opponents(self, rows: Rows, actions: Actions, values: FloatArray, learned: bool = False) -> None:
        """Add a move of an opponent in each of rows [n]: actions [n] and values [n], NaN where it gives none.

        learned: the moves are policy targets, which count as searched in full.
        """
        for row, action, value in zip(rows.tolist(), actions.tolist(), values, strict=True):
            ply = _Ply(action, NO_VALUE, np.float32(0.0)) if np.isnan(value) else _Ply(action, 0, value)
            if learned:
                visited, counts = np.array([action], np.uint16), np.ones(1, np.uint32)
                flags = ply.flags | POLICY_COUNTS | SEARCHED
                ply = ply._replace(flags=flags, surprise=None, visited=visited, counts=counts)
            self._games[row].plies.append(ply)

    def add_random(self, rows: Rows, actions: Actions) -> None:
        """Add a random opening move in each of rows [n]."""
        for row, action in zip(rows.tolist(), actions.tolist(), strict=True):
            self._games[row].plies.append(_Ply(action, NO_VALUE | DRAWN, np.float32(0.0)))

    def resigns(self, rows: Rows, values: FloatArray, movers: NDArray[np.int8]) -> NDArray[np.bool_]:
        """[n] whether the learner, to move in rows [n], resigns. values [n]: of searches whose moves aren't added yet.

        False in games that never resign, which remember the first player who would have resigned.
        """
        resigned = np.zeros(len(rows), np.bool_)
        for i in np.flatnonzero(values < self._threshold).tolist():
            game = self._games[int(rows[i])]
            recent = np.array([*(ply.value for ply in game.plies[1 - PLIES :]), values[i]], np.float32)
            if resignation_values(recent)[-1] >= self._threshold:
                continue
            if not game.facts["no_resign"]:
                resigned[i] = True
            elif game.would_have_resigned < 0:
                game.would_have_resigned = int(movers[i])
        return resigned

    def would_have_resigned(self, row: int) -> int:
        """The player (0 or 1) who would have resigned first in a game that never resigns; −1 if nobody."""
        return self._games[row].would_have_resigned

    def finish(self, row: int, result_first_player: float, end: End) -> GameRecord:
        """The record of the game in row, which has at least one move."""
        game = self._games[row]
        moves, flags, values, surprises, visited, counts = zip(*game.plies, strict=True)
        return GameRecord(
            moves=np.array(moves, np.uint16),
            flags=np.array(flags, np.uint8),
            root_values=np.array(values, np.float32),
            surprises=_completed(surprises, flags),
            visit_lengths=np.array([len(actions) for actions in visited], np.uint16),
            visit_actions=np.concatenate(visited),
            visit_counts=np.concatenate(counts),
            result_first_player=result_first_player,
            end=end,
            **game.facts,
        )


def _completed(surprises: Sequence[float | None], flags: Sequence[int]) -> NDArray[np.float32]:
    """[T] the surprises of T plies; for None the mean of the game's full searches, so it weighs as much as they."""
    own = [one for one, flag in zip(surprises, flags, strict=True) if one is not None and flag & SEARCHED]
    mean = np.mean(own) if own else 0.0
    return np.array([mean if one is None else one for one in surprises], np.float32)


def _surprises(visits: IntArray, priors: FloatArray) -> NDArray[np.float64]:
    """[n] KL(visits / Σ visits || priors) in nats, of visits [n, A] and priors [n, A]; 0 without visits."""
    index, action = np.nonzero(visits)
    shares = visits[index, action].astype(np.float64)
    shares /= np.bincount(index, shares, len(visits))[index]
    terms = shares * np.log(shares / np.maximum(priors[index, action], MIN_PRIOR))
    return np.maximum(np.bincount(index, terms, len(visits)), 0.0)  # rounding may go below
