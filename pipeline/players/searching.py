"""``SearchPlayer``: a model that searches, or with 0 readouts plays the likeliest move of its raw policy.

Axes as in base.py. Knows the network as a callable only.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pipeline.games.contract import Actions, Evaluate, Game, KeyArray, States
from pipeline.players.player import Decisions, Player, Rows
from pipeline.search.batch import BatchSearch
from pipeline.search.options import SearchOptions

FEW_ROWS = 8  # a thread with fewer games fills its batch with several leaves of one tree
MOST_LEAVES = 8
MOST_LEAVES_ALONE, READOUTS_PER_LEAF_ALONE = 32, 25
READOUTS_PER_LEAF = 16  # pending leaves search blindly: at most one per this many readouts


def leaves_per_tree(rows: int, readouts: int) -> int:
    """How many leaves of one tree may be pending: 1 where enough games share the batch, more where few do."""
    if rows >= FEW_ROWS:
        return 1
    return max(1, min(MOST_LEAVES, readouts // READOUTS_PER_LEAF))


def leaves_of_one_tree(readouts: int) -> int:
    """The same where a single game has the whole machine: enough for a batch on each of two cores, if many readouts
    follow; see docs/log for what searching so blindly costs.
    """
    return max(1, min(MOST_LEAVES_ALONE, readouts // READOUTS_PER_LEAF_ALONE))


class SearchPlayer(Player):
    """A tree per row, kept from move to move, whoever makes the moves. Chooses the move as the config says: the most
    visited one, or by lower confidence bound; Gumbel plays without noise, whatever self-play does.

    Values are the mean of the network's value of the position and those of all readouts.
    search    the trees and positions
    readouts  of the searches that begin from now on; never more than at first
    """

    def __init__(
        self, game: Game, num_rows: int, evaluate: Evaluate, config: SearchOptions, readouts: int, leaves: int = 1
    ) -> None:
        """evaluate: for batches of up to num_rows · leaves; leaves: how many of one tree may be in a batch."""
        self.search = BatchSearch(game, num_rows, readouts, config, leaves)
        self.readouts = readouts
        self._evaluate = evaluate
        self._explore = readouts > 0 and config.noise_weight > 0 and config.algorithm == "puct"

    def new_games(self, rows: Rows, seeds: KeyArray) -> None:
        self.search.new_games(rows, seeds)

    def set_up(self, rows: Rows, states: States, stones: Sequence[Sequence[int]]) -> None:
        self.search.set_up(rows, states)

    def advance(self, rows: Rows, actions: Actions) -> None:
        self.search.advance(rows, actions)

    def begin(self, rows: Rows) -> None:
        if self.meets_fixed:
            states = self.search.states
            states[rows] = self.search.game.met_by(states[rows], self.search.to_move(rows))
        self.search.begin(rows, np.full(len(rows), self.readouts, np.int32), np.full(len(rows), self._explore))

    def step(self) -> Decisions:
        """One batch for the network. Raises MuGoError if its answer isn't finite, and whatever the network raises; then
        the searches of the batch's rows are over, and their trees dropped.
        """
        search, before = self.search, self.search.simulations
        planes = search.leaves()
        if len(planes):
            try:
                search.expand(*self._evaluate(planes))
            except Exception:
                search.drop_batch()
                raise
        finished = search.finished()
        if finished.size:
            return self.decide(finished)
        return Decisions.none(worked=len(planes) > 0 or search.simulations > before)

    def decide(self, rows: Rows) -> Decisions:
        """End the searches in rows [n], finished or not; their roots must have been evaluated."""
        actions = self.search.choose(rows, np.zeros(len(rows), np.float32))
        values = self.search.root_values(rows)
        self.search.stop(rows)
        return Decisions(rows, actions, values)

    def drop(self, rows: Rows) -> None:
        self.search.stop(rows)
