"""``SearchPlayer``: a model that searches, or with 0 readouts plays the likeliest move of its raw policy.

Axes as in base.py; K leaves of a batch, C planes, H×W board. Knows the network as a callable only.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pipeline.config import SearchConfig
from pipeline.games.base import Actions, FloatArray, Game, KeyArray, Planes
from pipeline.players.base import Decisions, Player, Rows
from pipeline.search.batch import BatchSearch

Evaluate = Callable[[Planes], tuple[FloatArray, FloatArray]]  # planes [K, C, H, W] → logits [K, A], value to move [K]


FEW_ROWS = 8  # below so many games a thread fills its batch with several leaves of one tree
MOST_LEAVES = 8
READOUTS_PER_LEAF = 16  # pending leaves search blindly: at most one per so many readouts


def leaves_per_tree(rows: int, readouts: int) -> int:
    """How many leaves of one tree may be pending: 1 where enough games share the batch, more where few do."""
    if rows >= FEW_ROWS:
        return 1
    return max(1, min(MOST_LEAVES, readouts // READOUTS_PER_LEAF))


class SearchPlayer(Player):
    """A tree per row, kept from move to move whoever makes it. Chooses the most visited move; Gumbel: without noise,
    whatever self-play has.

    values are the mean of the network's value of the position and of all readouts'.
    """

    def __init__(
        self, game: Game, num_rows: int, evaluate: Evaluate, config: SearchConfig, readouts: int, leaves: int = 1
    ) -> None:
        """evaluate: for batches of up to num_rows · leaves; leaves: of one tree that may be in a batch."""
        self._search = BatchSearch(game, num_rows, readouts, config, leaves)
        self._evaluate = evaluate
        self._readouts = readouts
        self._explore = readouts > 0 and config.noise_weight > 0 and config.algorithm == "puct"

    @property
    def simulations(self) -> int:
        """Readouts done so far, in all rows."""
        return self._search.simulations

    @property
    def evaluations(self) -> int:
        """Positions that the network was asked about so far."""
        return self._search.evaluations

    def new_games(self, rows: Rows, seeds: KeyArray) -> None:
        self._search.new_games(rows, seeds)

    def advance(self, rows: Rows, actions: Actions) -> None:
        self._search.advance(rows, actions)

    def begin(self, rows: Rows) -> None:
        readouts = np.full(len(rows), self._readouts, np.int32)
        self._search.begin(rows, readouts, np.full(len(rows), self._explore))

    def step(self) -> Decisions:
        """One batch for the network. Raises MuGoError if its answer isn't finite."""
        search, before = self._search, self._search.simulations
        planes = search.leaves()
        if len(planes):
            search.expand(*self._evaluate(planes))
        finished = search.finished()
        if not finished.size:
            return Decisions.none(worked=len(planes) > 0 or search.simulations > before)
        actions = search.choose(finished, np.zeros(len(finished), np.float32))
        values = search.root_values(finished)
        search.stop(finished)
        return Decisions(finished, actions, values)

    def drop(self, rows: Rows) -> None:
        self._search.stop(rows)
