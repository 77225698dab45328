"""``EndingSearch``: searches positions whose winner is clear for what is left to decide there.

Where games have margins (``Game.has_margins``) that is the margin: the value of an end is its squashed score, and the
caller's network gives squashed margins instead of values. In other games it is the length of the game: a win counts
more the sooner it comes, a loss the later. Every search begins with an empty tree, at positions of another search, and
its values mean nothing to people.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.games import margins
from pipeline.games.contract import Actions, BoolArray, FloatArray, Game, IntArray, Rows, States
from pipeline.search.batch import BatchSearch
from pipeline.search.options import SearchOptions
from pipeline.search.tree import NO_PARENT

PASS_PRIOR = 0.1  # least prior of the root's pass, where all moves have 1: networks hardly learn to pass in lost games
NOTHING = 0.5  # points: a pass is played unless another move gains more
FAR = 0.5  # what a win counts that isn't reached within the search, in games without margins
NEAR_PLIES = 10.0  # after this many plies, a third of the other half is left


class EndingSearch(BatchSearch):
    """See the module docstring. Rows are those of the search whose positions it takes over."""

    def __init__(self, game: Game, num_rows: int, max_readouts: int, config: SearchOptions, leaves: int = 1) -> None:
        plain = config.model_copy(update={"algorithm": "puct", "noise_weight": 0.0, "forced_playouts": 0.0})
        super().__init__(game, num_rows, max_readouts, plain, leaves)

    def begin_at(self, other: BatchSearch, rows: Rows, readouts: IntArray, allowed: BoolArray) -> None:
        """Start a search at the positions of another search in rows [n]; of the moves, only allowed [n, A] count."""
        self.states[rows] = other.states[rows]
        lengths = other.history.lengths[rows]
        self.history.keys[rows, : lengths.max(initial=0)] = other.history.keys[rows, : lengths.max(initial=0)]
        self.history.lengths[rows] = lengths
        self._drop_trees(rows)
        self.restrict(rows, np.repeat(~allowed[:, None], 2, axis=1).astype(np.int16))
        self.begin(rows, readouts, np.zeros(len(rows), np.bool_))

    def expand(self, policy_logits: FloatArray, value_to_move: FloatArray) -> None:
        if not self.game.has_margins:
            value_to_move = np.float32(FAR) * value_to_move
        passes, roots = self.game.pass_action, self._waiting_roots()
        if passes is not None and roots.size:
            policy_logits = policy_logits.copy()
            others = np.where(self._legal[roots], policy_logits[roots], -np.inf)
            highest = others.max(axis=1)
            total = highest + np.log(np.exp(others - highest[:, None]).sum(axis=1))
            policy_logits[roots, passes] = np.maximum(policy_logits[roots, passes], total + np.log(PASS_PRIOR))
        super().expand(policy_logits, value_to_move)

    def best(self, rows: Rows) -> Actions:
        """[n] the moves to play: a pass, unless another move gains something."""
        actions = self.choose(rows, np.zeros(len(rows), np.float32))
        passes = self.game.pass_action
        if passes is None or not self.game.has_margins:
            return actions
        values = self.root_action_values(rows)
        every = np.arange(len(rows))
        best, of_pass = values[every, actions], values[every, passes]
        enough = of_pass >= best - margins.step_of(best, NOTHING, self.game.num_points)
        actions[enough] = passes  # not where the pass has no value: a comparison with NaN is false
        return actions

    def _ending_values(self, rows: IntArray, states: States, movers: NDArray[np.int8]) -> FloatArray:
        sign = np.where(movers == 0, np.float32(1), np.float32(-1))
        if self.game.has_margins:
            return sign * margins.squash(self.game.scores(states), self.game.num_points)
        length = self.game.plies(states) - self.game.plies(self.states[rows])
        near = np.exp(-length / NEAR_PLIES).astype(np.float32)
        return sign * self.game.returns(states) * (np.float32(FAR) + np.float32(1 - FAR) * near)

    def _waiting_roots(self) -> Rows:
        """Indexes into the last leaves() of those that are roots."""
        return np.flatnonzero(self._leaves.node[: self._num_waiting] == NO_PARENT)
