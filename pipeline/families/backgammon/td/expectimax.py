"""``Expectimax``: values of positions by lookahead, and ``ExpectimaxPlayer``, which plays by them.

A *ply* is a throw of either player and the turn that follows. At 0 plies, a turn's value is the network's value of its
afterstate. At 1 ply it is the mean over the opponent's throws, each answered by the reply with the best network value.
At 2 plies each reply is followed by the player's own next throw and turn. (gnubg counts like this; Tesauro calls these
1, 2 and 3 plies.) All functions work on many games at once.

*Filters* limit the work: only the best few turns by the level below are evaluated at the next level, and only if they
are within a margin of the best. Without filters the result is exact expectimax.

A 1-ply score can be mixed and softened: α · (network's value) - β · Σ p(throw) · mean(best k replies). Expectimax has
α 0, β 1 and k 1.

Axes: B positions where a throw comes next, N turns of all positions, O outputs, n rows of a call.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.counter_rng import uniforms
from pipeline.families.backgammon.feature_game import FeatureGame
from pipeline.families.backgammon.options import TdPlayerOptions
from pipeline.families.backgammon.td.kernels import best_of, sample_of
from pipeline.families.backgammon.td.network import AfterstateNetwork
from pipeline.families.backgammon.td.outcomes import seen_by_other
from pipeline.games.contract import BoolArray, FloatArray, KeyArray, States, Successors
from pipeline.options import Options, taken
from pipeline.players.player import BoardsPlayer, Decisions, Rows

MOST_PLIES = 2
POSITIONS_AT_ONCE = 32  # in one batch of throws: large enough to be fast, and the turns fit into the cache


@dataclass(frozen=True)
class Filter:
    """The turns evaluated at the next level: the `most` best ones within `margin` points of the best."""

    most: int
    margin: float


ALL = Filter(1 << 30, np.inf)
ROOT_FILTERS = (Filter(8, 0.3), Filter(4, 0.15))  # before evaluation at 1 ply and at 2 plies
REPLY_FILTER = Filter(1, 0.0)  # replies evaluated further


class Expectimax:
    """Lookahead with a network. evaluations: positions that the network has evaluated so far."""

    def __init__(self, network: AfterstateNetwork, reply_filter: Filter = REPLY_FILTER) -> None:
        self.network = network
        self.game: FeatureGame = network.game
        self.evaluations = 0
        self._reply_filter = reply_filter

    def turns(self, states: States) -> tuple[Successors, FloatArray]:
        """The turns from states [B, S] with dice or over, and the mover's chances [N, O] after each, by the network."""
        found = self.game.successors(states)
        self.evaluations += len(found.states)
        return found, seen_by_other(self.network.chances(states, found))

    def expected(self, states: States, plies: int) -> FloatArray:
        """[B, O] the chances of the player who is about to throw in states [B, S], by a lookahead of plies.

        Exact where the game is over.
        """
        if plies == 0:
            self.evaluations += len(states)
            return self.network.chances_at(states)
        parts = [
            self._expected(states[start : start + POSITIONS_AT_ONCE], plies)
            for start in range(0, len(states), POSITIONS_AT_ONCE)
        ]
        return np.concatenate(parts) if parts else np.zeros((0, self.network.outputs), np.float32)

    def _expected(self, states: States, plies: int) -> FloatArray:
        over = self.game.is_over(states)
        owners, weights, found, chances = self._all_throws(states[~over])
        if plies == 1:
            best = best_of(found.offsets, self.network.values(chances)) if len(owners) else np.zeros(0, np.int64)
        else:
            best, chances = self._best_replies(found, chances, plies)
        answer = np.empty((len(states), self.network.outputs), np.float32)
        answer[over] = self.network.exact(states[over])
        going = np.flatnonzero(~over)
        for output in range(self.network.outputs):
            mean = np.bincount(owners, weights * chances[best, output], len(going))
            answer[going, output] = mean
        return answer

    def _all_throws(self, states: States) -> tuple[NDArray[np.int64], NDArray[np.float64], Successors, FloatArray]:
        """For every possible throw in states [B, S]: its row, its probability, its turns and the mover's chances."""
        odds = self.game.chance(states)
        owners, outcomes = np.nonzero(odds)
        found, chances = self.turns(self.game.happen(states[owners], outcomes.astype(np.int32)))
        return owners, odds[owners, outcomes].astype(np.float64), found, chances

    def _best_replies(self, found: Successors, chances: FloatArray, plies: int) -> tuple[NDArray[np.int64], FloatArray]:
        """Each row's best turn by plies - 1 further plies among those that pass the filter; updated chances [N, O]."""
        values = self.network.values(chances)
        kept = np.flatnonzero(passing(found.offsets, values, self._reply_filter))
        chances = chances.copy()
        chances[kept] = seen_by_other(self.expected(found.states[kept], plies - 1))
        scores = np.full(len(values), -np.inf, np.float32)
        scores[kept] = self.network.values(chances[kept])
        return best_of(found.offsets, scores), chances

    def replies(self, states: States, most: int) -> FloatArray:
        """[B] Σ p(throw) · mean value of the best `most` turns after it, for the player about to throw in states."""
        answer = self.network.values(self.network.exact(states))
        going = np.flatnonzero(~self.game.is_over(states))
        for start in range(0, len(going), POSITIONS_AT_ONCE):
            rows = going[start : start + POSITIONS_AT_ONCE]
            owners, weights, found, chances = self._all_throws(states[rows])
            means = _means_of_best(found.offsets, self.network.values(chances), most)
            answer[rows] = np.bincount(owners, weights * means, len(rows))
        return answer


def passing(offsets: NDArray[np.int64], values: FloatArray, wanted: Filter) -> BoolArray:
    """[N] whether each row's turns pass a filter by their values [N]; of equal turns the first passes."""
    rows = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    order = np.lexsort((-values, rows))
    rank = np.empty(len(values), np.int64)
    rank[order] = np.arange(len(values)) - offsets[rows[order]]
    best = values[order[np.minimum(offsets[:-1], len(order) - 1)]] if len(order) else values
    return (rank < wanted.most) & (values >= best[rows] - wanted.margin)


def _means_of_best(offsets: NDArray[np.int64], values: FloatArray, most: int) -> NDArray[np.float64]:
    kept = np.flatnonzero(passing(offsets, values, Filter(most, np.inf)))
    rows = np.searchsorted(offsets, kept, side="right") - 1
    count = len(offsets) - 1
    return np.bincount(rows, values[kept], count) / np.maximum(np.bincount(rows, minlength=count), 1)


class ExpectimaxPlayer(BoardsPlayer):
    """Plays the turn with the highest score, or samples one with probability ∝ exp(score / temperature).

    Its decisions' values are the expected points of the turn played; with mixed scores they come from the
    replies alone.
    """

    def __init__(
        self, game: FeatureGame, num_rows: int, network: AfterstateNetwork, config: Options, plies: int,
        filters: tuple[Filter, ...] = ROOT_FILTERS,
    ) -> None:  # fmt: skip
        """plies: capped at MOST_PLIES. filters: for the root's turns before evaluation at 1 and 2 plies."""
        self._search, self._config = Expectimax(network), taken(config, TdPlayerOptions)
        self._plies, self._filters = min(plies, MOST_PLIES), filters
        super().__init__(game, num_rows)
        self._keys = np.zeros(num_rows, np.uint64)

    def new_games(self, rows: Rows, seeds: KeyArray) -> None:
        super().new_games(rows, seeds)
        self._keys[rows] = seeds

    def step(self) -> Decisions:
        rows = np.flatnonzero(self._wanted)
        if self._plies:
            rows = rows[:POSITIONS_AT_ONCE]  # limits the duration of a step
        if not rows.size:
            return Decisions.none()
        self._wanted[rows] = False
        found, scores, values = self.scores(self._boards.states[rows])
        if self._config.temperature:
            points = uniforms(self._keys[rows], self._boards.plies(rows))
            chosen = sample_of(found.offsets, scores, self._config.temperature, points)
        else:
            chosen = best_of(found.offsets, scores)
        return Decisions(rows, (chosen - found.offsets[:-1]).astype(np.int32), values[chosen])

    def scores(self, states: States) -> tuple[Successors, FloatArray, FloatArray]:
        """The turns from states [n, S], and the mover's score and value [N] of each; -inf for those filtered out.

        They differ only if scores are mixed. Then a value comes from the replies alone, in points.
        """
        config, network = self._config, self._search.network
        found, chances = self._search.turns(states)
        scores = values = network.values(chances)
        for plies in range(1, self._plies + 1):
            kept = np.flatnonzero(passing(found.offsets, scores, self._filters[plies - 1]))
            closer = np.full(len(scores), -np.inf, np.float32)
            if plies == 1 and self._plies == 1 and self._is_mixed:
                replies = self._search.replies(found.states[kept], config.replies_counted)
                own = network.values(chances[kept])
                closer[kept] = config.static_weight * own - config.replies_weight * replies
                values = closer.copy()
                values[kept] = -replies
            else:
                closer[kept] = -network.values(self._search.expected(found.states[kept], plies))
                values = closer
            scores = closer
        return found, scores, values

    @property
    def _is_mixed(self) -> bool:
        config = self._config
        return (config.static_weight, config.replies_weight, config.replies_counted) != (0, 1, 1)
