"""``BatchSearch``: many games searched together, a tree each, one batch of leaves for the network at a time.

Axes: R rows (a row is one game and its tree), K leaves of a batch, A actions, C planes, H×W board, n rows named in a
call.
Knows games through their batched verbs and the network through whoever carries leaves() to expand(). Doesn't know
files,
resignation or opponents. Used by one thread at a time; rows never influence each other.

    search.new_games(rows, seeds)
    search.begin(rows, readouts, explore)
    while not all finished:
        planes = search.leaves()
        search.expand(*network(planes))
        for the rows in search.finished(): choose, record targets, advance, begin again

config.algorithm says how it searches: PUCT, which goes on with what it kept of the tree; Gumbel AlphaZero, which starts
from the root's own evaluation each move; or mixed: Gumbel where begin() is told to explore, PUCT elsewhere.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.config import SearchConfig
from pipeline.errors import MuGoError
from pipeline.games.base import (
    Actions,
    BoolArray,
    FloatArray,
    Game,
    History,
    IntArray,
    KeyArray,
    Planes,
    States,
)
from pipeline.search import exploration, gumbel_kernels, kernels
from pipeline.search.gumbel_kernels import BY_PUCT
from pipeline.search.halving import halving_table
from pipeline.search.tree import EDGE_ARRAYS, NO_PARENT, ROOT, empty_tree

Rows = NDArray[np.int64]
MAX_ROUNDS = 4  # how often a batch is topped up after walks that ended the game
WORTH_TOPPING_UP = 12  # it is, if one row in so many gave no leaf: a round costs about as much as a few evaluations


class _Leaves(NamedTuple):
    """A batch of leaves on its way, the first K entries of arrays that are used again and again.

    row [K], node [K] and edge [K] say where each hangs; states [K, S], keys [K] and movers [K] what stands there;
    past [K, T] and num_past [K] are its history, which ends with its own key once it is known.
    """

    row: IntArray
    node: IntArray
    edge: IntArray
    states: States
    keys: KeyArray
    movers: NDArray[np.int8]
    past: KeyArray
    num_past: IntArray

    @staticmethod
    def room(count: int, game: Game) -> _Leaves:
        return _Leaves(
            row=np.empty(count, np.int32),
            node=np.empty(count, np.int32),
            edge=np.empty(count, np.int32),
            states=np.empty((count, game.state_size), np.int16),
            keys=np.empty(count, np.uint64),
            movers=np.empty(count, np.int8),
            past=np.zeros((count, game.max_plies + 2), np.uint64),
            num_past=np.empty(count, np.int32),
        )

    def part(self, begin: int, end: int) -> _Leaves:
        return _Leaves._make(array[begin:end] for array in self)

    @property
    def history(self) -> History:
        return History(self.past, self.num_past)


class BatchSearch:
    """R trees over one game. See the module docstring."""

    def __init__(self, game: Game, num_rows: int, max_readouts: int, config: SearchConfig, leaves: int = 1) -> None:
        """max_readouts: the most that begin() will be asked for; leaves: how many of one tree may be pending at
        once.
        """
        self.game = game
        self.num_rows = num_rows
        self.num_leaves = leaves
        self.max_readouts = max_readouts
        self._config = config
        self._gumbel = _gumbel(config, num_rows, game.num_actions, max_readouts)
        self._keeps_trees = config.algorithm != "gumbel"
        # A kept subtree may bring nodes of earlier searches along: room for three searches' worth, the newest go
        # beyond it. Gumbel keeps the root alone.
        num_nodes = (4 if self._keeps_trees else 1) * max_readouts + leaves + 2
        self._max_kept = num_nodes - max_readouts - leaves - 1
        num_edges = max(4 * game.num_actions * leaves, num_nodes * min(game.num_actions, 64))
        self._tree = empty_tree(num_rows, num_nodes, num_edges, game.num_actions, game.state_size)
        # With one leaf a tree there is nothing to keep apart; 0 then keeps the sums exact.
        self._virtual_loss = np.float32(config.virtual_loss if leaves > 1 else 0.0)
        self._active = np.zeros(num_rows, np.bool_)
        self._explore = np.zeros(num_rows, np.bool_)
        forcing = self._gumbel is None and config.forced_playouts > 0
        self._forced = np.zeros(num_rows, np.float32) if forcing else None
        self._budgets: dict[int, int] = {}  # readouts → which of Gumbel's tables
        self.states = game.initial(num_rows)
        self.history = History.empty(num_rows, game.max_plies + 1)
        batch = num_rows * leaves
        self._leaves = _Leaves.room(batch, game)
        self._actions = np.empty(batch, np.int32)
        self._places = np.arange(batch)
        self._num_waiting = 0
        self._num_roots = 0  # of those that wait
        self._legal = np.zeros((batch, game.num_actions), np.bool_)
        self._planes = np.zeros((batch, game.num_planes, *game.board_shape), np.uint8)
        self.simulations = 0  # readouts done so far, terminal ones included
        self.evaluations = 0  # positions that the network was asked about

    # --- games -----------------------------------------------------------------------------------------------------

    def new_games(self, rows: Rows, seeds: KeyArray) -> None:
        """Put rows [n] at the initial position with empty trees. seeds [n] uint64: each row's random stream."""
        self.states[rows] = self.game.initial(len(rows))
        self.history.lengths[rows] = 0
        self.history.append(rows, self.game.keys(self.states[rows]))
        self._tree.num_nodes[rows] = 0
        self._tree.num_edges[rows] = 0
        self._tree.remaining[rows] = 0
        self._tree.pending[rows] = 0
        self._tree.streams[rows] = seeds
        self._active[rows] = False

    def advance(self, rows: Rows, actions: Actions) -> None:
        """Play actions [n] in rows [n] and keep what the trees know about what follows. Ends the rows' searches.

        Raises IllegalMove; then nothing has changed.
        """
        after = self.game.play(self.states[rows], actions, self.history.select(rows))
        kernels.advance(self._tree, rows, np.asarray(actions, np.int32), self._max_kept)
        if not self._keeps_trees:
            gumbel_kernels.clear_roots(self._tree, rows)
        self.states[rows] = after
        self.history.append(rows, self.game.keys(after))
        self._active[rows] = False

    def stop(self, rows: Rows) -> None:
        """Rows take no further part until they begin again."""
        self._active[rows] = False

    def over(self, rows: Rows) -> BoolArray:
        return self.game.is_over(self.states[rows])

    def returns(self, rows: Rows) -> FloatArray:
        """[n] float32, the results for the first player; 0 where not over."""
        return self.game.returns(self.states[rows])

    def plies(self, rows: Rows) -> IntArray:
        return self.game.plies(self.states[rows])

    def to_move(self, rows: Rows) -> NDArray[np.int8]:
        return self.game.to_move(self.states[rows])

    # --- search ----------------------------------------------------------------------------------------------------

    def begin(self, rows: Rows, readouts: IntArray, explore: BoolArray) -> None:
        """Start a search on rows [n], whose games are not over. readouts [n], each at most max_readouts; explore [n]:
        with noise at the root, and PUCT's forced playouts, as the config says; by Gumbel, if that is mixed.

        The root's own evaluation is no readout; what an earlier search left in the tree doesn't count towards them.
        """
        if self._gumbel is not None:
            halved = explore if self._keeps_trees else np.ones(len(rows), np.bool_)
            self._gumbel.which[rows] = BY_PUCT
            gumbel_kernels.clear_roots(self._tree, rows[halved])
            self._budget(rows[halved], readouts[halved])
        if len(rows):
            most = int((self._tree.num_nodes[rows] + readouts).max()) + self.num_leaves + 1
            if most > self._tree.node.shape[1]:
                raise MuGoError(f"search: no room for {np.max(readouts)} readouts; it was made for {self.max_readouts}")
        self._tree.remaining[rows] = readouts
        self._explore[rows] = explore
        self._active[rows] = True
        if self._forced is not None:
            self._forced[rows] = np.where(explore, np.float32(self._config.forced_playouts), np.float32(0.0))
        self._prepare_roots(rows[self._tree.num_nodes[rows] > 0])

    def finished(self) -> Rows:
        """Rows whose search has used up its readouts and that have not been advanced yet."""
        tree = self._tree
        return np.flatnonzero(self._active & (tree.remaining == 0) & (tree.pending == 0) & (tree.num_nodes > 0))

    def leaves(self) -> Planes:
        """The next batch of positions for the network: [K, C, H, W] uint8, 0 ≤ K ≤ num_rows · leaves.

        The array is the search's own and holds the batch until the next call.
        K is 0 when every active row is finished, or when all walks of this turn ended in decided games.
        """
        if self._num_waiting:
            raise MuGoError("search: leaves() called again before expand()")
        rows = np.flatnonzero(self._active)
        self._num_roots = 0
        for _ in range(MAX_ROUNDS):
            again = self._collect(rows)
            if again.size * WORTH_TOPPING_UP < self.num_rows:
                break
            rows = again
        batch = self._leaves.part(0, self._num_waiting)
        room = self._legal[: self._num_waiting], self._planes[: self._num_waiting]
        return self.game.legal_and_observe(batch.states, batch.history, out=room)[1]

    def leaf_rows(self) -> IntArray:
        """[K] the row that each position of the last leaves() belongs to."""
        return self._leaves.row[: self._num_waiting]

    def expand(self, policy_logits: FloatArray, value_to_move: FloatArray) -> None:
        """The network's answer to the last leaves(): [K, A] logits over all actions, [K] values in [−1, 1], by the
        mover.

        Raises MuGoError if one of them isn't finite.
        """
        if not (np.isfinite(policy_logits.sum()) and np.isfinite(value_to_move.sum())):
            raise MuGoError("search: the network answered with numbers that are not finite; is the model damaged?")
        batch = self._leaves.part(0, self._num_waiting)
        self._reserve_edges()
        kernels.expand(
            self._tree,
            batch.row,
            batch.node,
            batch.edge,
            batch.states,
            batch.keys,
            batch.movers,
            self._legal[: self._num_waiting],
            policy_logits,
            value_to_move,
            self._virtual_loss,
        )
        if self._num_roots:
            self._prepare_roots(batch.row[batch.node == NO_PARENT])
        self.evaluations += self._num_waiting
        self._num_waiting = 0

    # --- what the search found --------------------------------------------------------------------------------------

    def root_table(self, rows: Rows) -> tuple[IntArray, FloatArray]:
        """Visits [n, A] int32 and the network's priors [n, A] float32 (no noise) at the roots; 0 for illegal
        actions.
        """
        visits = np.empty((len(rows), self.game.num_actions), np.int32)
        priors = np.empty((len(rows), self.game.num_actions), np.float32)
        kernels.root_table(self._tree, rows, visits, priors)
        return visits, priors

    def root_visits(self, rows: Rows) -> IntArray:
        """[n, A] int32"""
        return self.root_table(rows)[0]

    def root_policy(self, rows: Rows) -> FloatArray:
        """[n, A] float32: the network's priors, without noise."""
        return self.root_table(rows)[1]

    def root_values(self, rows: Rows) -> FloatArray:
        """[n] float32: the mean of the network's value and all readouts', seen by the player to move."""
        roots = self._tree.node[rows, ROOT]
        return (roots["value"] + roots["value_sum"]) / (1 + roots["visits"]).astype(np.float32)

    def choose(self, rows: Rows, temperature: FloatArray, table: tuple[IntArray, FloatArray] | None = None) -> Actions:
        """[n] actions drawn by visits^(1/temperature), the largest at temperature 0; by prior if nothing was visited.

        Gumbel: the winner of the sequential halving where anything was visited, whatever the temperature.
        table: what root_table(rows) gave, if the caller has it already.
        """
        actions = np.empty(len(rows), np.int32)
        temperature = np.asarray(temperature, np.float64)
        decided = self._halved(rows)
        if decided.any():
            decided &= (self._tree.num_nodes[rows] > 0) & (self._tree.node[rows, ROOT]["visits"] > 0)
        if not decided.any():
            visits, priors = table or self.root_table(rows)
            kernels.sample_actions(self._tree.streams, rows, visits, priors, temperature, actions)
        elif decided.all():
            gumbel_kernels.winners(self._tree, rows, self._gumbel, actions)
        else:
            for part in (decided, ~decided):
                known = (table[0][part], table[1][part]) if table else None
                actions[part] = self.choose(rows[part], temperature[part], known)
        return actions

    def targets(self, rows: Rows, table: tuple[IntArray, FloatArray] | None = None) -> IntArray:
        """[n, A] int32: what a policy target records, in proportion; 0 everywhere where nothing was visited.

        PUCT: the visits, pruned of forced playouts where there were any (moves that the pruning leaves out get 0).
        Gumbel: the improved policy softmax(logits + σ(completed Q)) in whole numbers that sum to about 65,535.
        table: what root_table(rows) gave, if the caller has it already; it isn't changed.
        """
        halved = self._halved(rows)
        if halved.any():
            improved = np.empty((np.count_nonzero(halved), self.game.num_actions), np.int32)
            gumbel_kernels.targets(self._tree, rows[halved], self._gumbel, improved)
            if halved.all():
                return improved
            found = (table or self.root_table(rows))[0].copy()
            found[halved] = improved
            return found
        visits = (table or self.root_table(rows))[0]
        if self._forced is None:
            return visits
        pruned = visits.copy()
        exploration.prune_forced(self._tree, rows, self._forced, self._config.c_puct, pruned)
        return pruned

    # --- inside -----------------------------------------------------------------------------------------------------

    def _collect(self, rows: Rows) -> Rows:
        """Add leaves of rows to the batch; those that end the game are backed up at once, and their rows returned."""
        config, tree, begin = self._config, self._tree, self._num_waiting
        free = self._leaves.part(begin, len(self._places))
        count, num_roots, spent = kernels.select(
            tree,
            rows,
            self.num_leaves,
            config.c_puct,
            config.fpu_reduction,
            config.root_fpu_reduction,
            self._forced,
            self._gumbel,
            self._virtual_loss,
            self.states,
            self.history.keys,
            self.history.lengths,
            free.row,
            free.node,
            free.edge,
            free.states,
            self._actions,
            free.past,
            free.num_past,
        )
        self.simulations += spent
        batch = free.part(0, count)
        over = self._arrive(batch, self._actions[:count], num_roots)
        self._num_roots += num_roots
        self._num_waiting += count
        if not over.any():
            return np.empty(0, np.int64)
        ended = np.flatnonzero(over)
        results = self.game.returns(batch.states[ended])
        values = np.where(batch.movers[ended] == 0, results, -results).astype(np.float32)
        kernels.backup_terminal(
            tree, batch.row, batch.node, batch.edge, ended, batch.states, batch.keys, batch.movers, values,
            self._virtual_loss,
        )  # fmt: skip
        again = np.unique(batch.row[ended]).astype(np.int64)
        going = np.flatnonzero(~over)
        for array in batch:
            array[: going.size] = array[going]
        self._num_waiting = begin + going.size
        return again

    def _arrive(self, batch: _Leaves, actions: Actions, num_roots: int) -> BoolArray:
        """Turn the parents' states of a batch into the leaves' own, their keys and movers; returns which are over.

        actions [K]: what leads to each leaf; of a root, which stands there already, it means nothing.
        """
        if num_roots == 0:
            batch.states[:] = self.game.play(batch.states, actions, batch.history)
        elif num_roots < len(actions):
            inner = np.flatnonzero(batch.node != NO_PARENT)
            batch.states[inner] = self.game.play(batch.states[inner], actions[inner], batch.history.select(inner))
        batch.keys[:] = self.game.keys(batch.states)
        batch.movers[:] = self.game.to_move(batch.states)
        batch.past[self._places[: len(actions)], batch.num_past] = batch.keys  # a root's stands there already
        batch.num_past[:] += 1
        return self.game.is_over(batch.states)

    def _halved(self, rows: NDArray[np.integer]) -> BoolArray:
        """[n] whether Gumbel's sequential halving searches the rows' roots."""
        if self._gumbel is None:
            return np.zeros(len(rows), np.bool_)
        return self._gumbel.which[rows] != BY_PUCT

    def _prepare_roots(self, rows: NDArray[np.integer]) -> None:
        if not len(rows):
            return
        config, explore, halved = self._config, self._explore[rows], self._halved(rows)
        if halved.any():
            scales = np.where(explore[halved], config.gumbel_scale, 0.0)
            gumbel_kernels.prepare_roots(self._tree, rows[halved], scales)
        if not halved.all():
            rest = ~halved
            exploration.prepare_roots(
                self._tree, rows[rest], explore[rest] & (config.noise_weight > 0),
                config.noise_weight, config.noise_total, config.noise_shape,
            )  # fmt: skip

    def _budget(self, rows: Rows, readouts: IntArray) -> None:
        """Say which table the sequential halving of rows [n] follows; a budget not seen before gets its own."""
        assert self._gumbel is not None
        for budget in np.unique(readouts).tolist():
            if budget not in self._budgets:
                tables = self._gumbel.tables
                new = np.zeros((1, *tables.shape[1:]), np.int32)
                new[0, :, :budget] = halving_table(tables.shape[1] - 1, budget)
                self._gumbel = self._gumbel._replace(tables=np.concatenate([tables, new]))
                self._budgets[budget] = len(tables)
            self._gumbel.which[rows[readouts == budget]] = self._budgets[budget]

    def _reserve_edges(self) -> None:
        """Before leaves are expanded: make sure that no row can run out of edges."""
        capacity = self._tree.edge.shape[1]
        if int(self._tree.num_edges.max()) + self.num_leaves * self.game.num_actions <= capacity:
            return
        grown = {}
        for name in EDGE_ARRAYS:
            old = getattr(self._tree, name)
            new = np.empty((self.num_rows, 2 * capacity), old.dtype)
            new[:, :capacity] = old
            grown[name] = new
        self._tree = self._tree._replace(**grown)


def _gumbel(config: SearchConfig, num_rows: int, num_actions: int, max_readouts: int) -> gumbel_kernels.Gumbel | None:
    """The settings of Gumbel's kernels, without tables yet; None if the algorithm is another."""
    if config.algorithm == "puct":
        return None
    considered = min(config.max_num_considered_actions, num_actions)
    return gumbel_kernels.Gumbel(
        tables=np.empty((0, considered + 1, max_readouts), np.int32),
        which=np.zeros(num_rows, np.int32),
        value_scale=config.value_scale,
        max_visit_init=config.max_visit_init,
        weights=np.empty(num_actions, np.float64),
    )
