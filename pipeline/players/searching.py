"""``SearchPlayer``: a model that searches, or with 0 readouts plays the likeliest move of its raw policy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pipeline.games.capabilities import SeesOpponents
from pipeline.games.contract import Actions, Evaluate, Game, KeyArray, States
from pipeline.games.margins import MarginNetwork
from pipeline.players.endings import Endings
from pipeline.players.player import Decisions, Player, Rows
from pipeline.search.batch import BatchSearch
from pipeline.search.options import SearchOptions

FEW_ROWS = 8  # a thread with fewer games fills its batch with several leaves of one tree
MAX_LEAVES = 8
READOUTS_PER_LEAF = 16  # a leaf is chosen without the results of the pending ones: at most one per this many readouts
MAX_LEAVES_ALONE, READOUTS_PER_LEAF_ALONE = 32, 25


def leaves_per_tree(rows: int, readouts: int) -> int:
    """The most pending leaves of one tree: 1 if enough games share the batch, more if few do."""
    if rows >= FEW_ROWS:
        return 1
    return max(1, min(MAX_LEAVES, readouts // READOUTS_PER_LEAF))


def leaves_of_one_tree(readouts: int) -> int:
    """The same for a single game on the whole machine: one batch for each of two cores. docs/log: its cost in Elo."""
    return max(1, min(MAX_LEAVES_ALONE, readouts // READOUTS_PER_LEAF_ALONE))


class SearchPlayer(Player):
    """Keeps a tree per row, across the moves of both sides. Chooses the most visited move or the one with the highest
    lower confidence bound, as the config says; Gumbel search plays without noise. In decided games Endings choose.

    Values are the mean of the network's value of the position and those of all readouts.
    search    the trees and positions
    readouts  of searches that begin from now on; at most the initial number
    """

    def __init__(
        self,
        game: Game,
        num_rows: int,
        evaluate: Evaluate,
        config: SearchOptions,
        readouts: int,
        leaves: int = 1,
        margins: MarginNetwork | None = None,
    ) -> None:
        """evaluate: takes batches of up to num_rows · leaves. leaves: the most leaves of one tree in a batch.
        margins: see Endings; None: not known.
        """
        self.search = BatchSearch(game, num_rows, readouts, config, leaves)
        self.readouts = readouts
        self._evaluate = evaluate
        self._endings = Endings(game, num_rows, evaluate, margins, config, readouts, leaves)
        self._values = np.zeros(num_rows, np.float32)  # of rows in which Endings search
        self._explore = readouts > 0 and config.noise_weight > 0 and config.algorithm == "puct"

    def new_games(self, rows: Rows, seeds: KeyArray) -> None:
        self._endings.stop(rows)
        self.search.new_games(rows, seeds)

    def set_up(self, rows: Rows, states: States, stones: Sequence[Sequence[int]]) -> None:
        self.search.set_up(rows, states)

    def advance(self, rows: Rows, actions: Actions) -> None:
        self._endings.stop(rows)
        self.search.advance(rows, actions)

    def begin(self, rows: Rows) -> None:
        game, states = self.search.game, self.search.states
        if self.meets_fixed and isinstance(game, SeesOpponents):
            states[rows] = game.met_by(states[rows], self.search.to_move(rows))
        self.search.begin(rows, np.full(len(rows), self.readouts, np.int32), np.full(len(rows), self._explore))

    def step(self) -> Decisions:
        """Evaluate one batch. Raises MuGoError if the network's answer isn't finite, and any error of the network.

        After an error the searches of the batch's rows are over, and their trees are dropped.
        """
        search, before = self.search, self.search.simulations
        worked = search.step(self._evaluate) > 0 or search.simulations > before
        found = self.decide(search.finished())
        if not self._endings.live:
            return found if found.rows.size else Decisions.none(worked)
        rows, actions = self._endings.step()
        return Decisions(
            np.concatenate([found.rows, rows]),
            np.concatenate([found.actions, actions]),
            np.concatenate([found.values, self._values[rows]]),
        )

    def decide(self, rows: Rows) -> Decisions:
        """End the searches in rows [n], whose roots have been evaluated; decides those without an ending to search."""
        if not rows.size:
            return Decisions.none()
        actions = self.search.choose(rows, np.zeros(len(rows), np.float32))
        values = self.search.root_values(rows)
        self.search.stop(rows)
        actions, begun = self._endings.begin(self.search, rows, actions)
        self._values[rows[begun]] = values[begun]
        return Decisions(rows[~begun], actions[~begun], values[~begun])

    def drop(self, rows: Rows) -> None:
        self._endings.stop(rows)
        self.search.stop(rows)
