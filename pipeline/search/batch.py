"""``BatchSearch``: searches many games together, one tree each, with one batch of leaves for the network at a time.

Axes: R rows (a row is one game and its tree), K leaves of a batch, A actions, C planes, H×W board, n rows named in a
call. The caller evaluates leaves() with the network and passes the result to expand(). Not thread-safe. Rows never
influence each other.

    search.new_games(rows, seeds)
    search.begin(rows, readouts, explore)
    while not all finished:
        planes = search.leaves()
        search.expand(*network(planes))
        for the rows in search.finished(): choose, record targets, advance, begin again

config.algorithm is PUCT, which keeps the subtree of the move played; Gumbel AlphaZero, which keeps only the root's
evaluation; or mixed: Gumbel for rows whose begin() says explore, PUCT for the others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import MuGoError
from pipeline.games.boards import Boards
from pipeline.games.contract import (
    Actions,
    BoolArray,
    Evaluate,
    FloatArray,
    Game,
    IntArray,
    KeyArray,
    Planes,
    Rows,
    States,
)
from pipeline.phrases import counted
from pipeline.search import gumbel, kernels, puct
from pipeline.search.options import SearchOptions
from pipeline.search.tree import EDGE_ARRAYS, NO_PARENT, ROOT, Leaves, Tree, empty_tree

RootTable = tuple[IntArray, FloatArray]  # visits and priors [n, A]

# A tree may have one more pending leaf for every READOUTS_PER_LEAF visits of its root that have a value: pending leaves
# are selected without each other's values. Measured in docs/log, "Many leaves of one tree, at no cost".
READOUTS_PER_LEAF = 16
MAX_ROUNDS = 4  # of selection for one batch: terminal leaves need no network, so a further round replaces them
ROWS_PER_ENDED = 12  # a further round pays if one row in this many reached a terminal leaf
MAX_VARIATION = 30  # moves of a candidate's
GROWTH = 1.25  # of the room for edges; all rows get what the fullest one needs, so it grows in small steps


@dataclass(frozen=True)
class Candidate:
    """A move at the root."""

    action: int
    visits: int  # readouts that went through it
    value_to_move: float  # their mean, in [-1, 1], seen by the player to move at the root; the root's without visits
    prior: float  # the network's, without noise
    variation: tuple[int, ...]  # this action, then the most visited ones


class BatchSearch(Boards):
    """R games with one tree each. See the module docstring."""

    game: Game

    def __init__(
        self,
        game: Game,
        num_rows: int,
        max_readouts: int,
        config: SearchOptions,
        leaves: int = 1,
        pass_after: float = 0.0,
    ) -> None:
        """max_readouts: the most that begin() accepts; leaves: the most of one tree that may be pending at once;
        pass_after: moves per point before a pass is allowed, see TreeSelfplayOptions.
        Raises MuGoError if the trees don't fit into memory.
        """
        super().__init__(game, num_rows)
        self._first_pass_ply = pass_after * game.num_points if game.pass_action is not None else 0.0
        self.num_leaves = leaves
        self.max_readouts = max_readouts
        self._config = config
        self._keeps_trees = config.algorithm != "gumbel"
        # A kept subtree has nodes of earlier searches. There is room for those of three searches; the newest beyond
        # that are dropped.
        num_nodes = (4 if self._keeps_trees else 1) * max_readouts + leaves + 2
        self._max_kept = num_nodes - max_readouts - leaves - 1
        num_edges = max(4 * game.num_actions * leaves, num_nodes * min(game.num_actions, 64))
        try:
            if num_edges > np.iinfo(np.int32).max:  # trees' indexes
                raise MemoryError
            self._tree = empty_tree(num_rows, num_nodes, num_edges, game.num_actions, game.state_size)
        except (MemoryError, ValueError) as error:  # ValueError: more bytes than addresses
            found = f"{max_readouts:,} readouts in {counted(num_rows, 'game')} at once"
            raise MuGoError(
                f"search: the trees of {found} don't fit into memory; wanted fewer --readouts or --parallel-games"
            ) from error
        self._active = np.zeros(num_rows, np.bool_)
        self._until: NDArray[np.int16] | None = None  # [R, 2, A], of restrict(); made when first needed
        self._deepest = np.zeros(num_rows, np.int16)  # [R] the highest of _until; 0: the row isn't restricted
        self._explore = np.zeros(num_rows, np.bool_)
        forcing = config.algorithm == "puct" and config.forced_playouts > 0
        self._forced = np.zeros(num_rows, np.float32) if forcing else None
        self._puct = puct.Puct(config.c_puct, config.fpu_reduction, config.root_fpu_reduction)
        self._gumbel: gumbel.Gumbel | None = None
        if config.algorithm != "puct":
            max_considered = min(config.max_num_considered_actions, game.num_actions)
            tables = np.empty((0, max_considered + 1, max_readouts), np.int32)
            budget, weights = np.zeros(num_rows, np.int32), np.empty(game.num_actions, np.float64)
            self._gumbel = gumbel.Gumbel(tables, budget, config.value_scale, config.max_visit_init, weights)
        self._tables: dict[int, int] = {}  # readouts → index into the Gumbel tables
        batch = num_rows * leaves
        self._leaves = Leaves.empty(batch, game)
        self._batch_index = np.arange(batch)
        self._num_waiting = 0
        self._num_roots = 0  # among the waiting leaves
        self._legal = np.zeros((batch, game.num_actions), np.bool_)
        self._planes = np.zeros((batch, game.num_planes, *game.board_shape), np.uint8)
        self.simulations = 0  # readouts so far, terminal ones included
        self.evaluations = 0  # by the network so far

    # Games

    def new_games(self, rows: Rows, seeds: KeyArray) -> None:  # type: ignore[override]  # a row also needs its stream
        """Set rows [n] to the initial position with empty trees. seeds [n] uint64: each row's random stream."""
        super().new_games(rows)
        self._drop_trees(rows)
        self._tree.streams[rows] = seeds
        self._active[rows] = False
        self._deepest[rows] = 0

    def place(self, row: int, state: NDArray[np.int16], keys: KeyArray) -> None:
        super().place(row, state, keys)
        self._tree.num_nodes[row] = self._tree.num_edges[row] = self._tree.remaining[row] = 0
        self._active[row] = False
        self._deepest[row] = 0

    def advance(self, rows: Rows, actions: Actions) -> None:
        """Play actions [n] in rows [n] and keep the subtrees below them. Ends the rows' searches and restrictions.

        Raises IllegalMove and changes nothing if an action is illegal.
        """
        super().advance(rows, actions)
        kernels.advance(self._tree, rows, np.asarray(actions, np.int32), self._max_kept)
        if not self._keeps_trees:
            gumbel.clear_roots(self._tree, rows)
        self._active[rows] = False
        restricted = rows[self._deepest[rows] > 0]
        self._drop_trees(restricted)
        self._deepest[restricted] = 0

    def restrict(self, rows: Rows, until: NDArray[np.int16]) -> None:
        """Leave moves out of the searches of rows [n], until their games go on. Ends the rows' searches.

        until [n, 2, A]: by player and action, the first ply of the search, counted from the root's 0, at which the
        player may make the move; 0: the move isn't left out. Where all legal moves would be, none is. Drops the trees
        of rows for which this changes anything. See restriction.py.
        """
        deepest = until.max(axis=(1, 2))
        changed = (deepest > 0) | (self._deepest[rows] > 0)
        if self._until is not None:
            changed &= (self._deepest[rows] == 0) | (self._until[rows] != until).any(axis=(1, 2))
        rows, until, deepest = rows[changed], until[changed], deepest[changed]
        if not len(rows):
            return
        if self._until is None:
            self._until = np.zeros((self.num_rows, 2, self.game.num_actions), np.int16)
        self._until[rows], self._deepest[rows] = until, deepest
        self._drop_trees(rows)
        self._active[rows] = False

    def stop(self, rows: Rows) -> None:
        """End the rows' searches; they take no part until begin()."""
        self._active[rows] = False

    def allowed(self, rows: Rows) -> BoolArray:
        """[n, A] the legal moves without those that restrict() leaves out, and without passes before pass_after unless
        there is no other move.
        """
        legal = self.legal(rows)
        self._drop_early_passes(legal, self.states[rows])
        self._leave_out(legal, rows, self.states[rows])
        return legal

    # Search

    def begin(self, rows: Rows, readouts: IntArray, explore: BoolArray) -> None:
        """Start a search in rows [n], whose games are not over.

        readouts [n]  each at most max_readouts, in addition to the tree's visits; evaluating the root isn't a readout
        explore  [n]  whether to use root noise and forced playouts and, in a mixed search, Gumbel
        """
        if self._gumbel is not None:
            by_gumbel = explore if self._keeps_trees else np.ones(len(rows), np.bool_)
            self._gumbel.budget[rows] = gumbel.BY_PUCT
            gumbel.clear_roots(self._tree, rows[by_gumbel])
            self._set_budgets(rows[by_gumbel], readouts[by_gumbel])
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
        """Rows whose search has used up its readouts and that haven't been advanced yet."""
        rows: Rows = kernels.finished(self._tree, self._active)
        return rows

    def leaves(self) -> Planes:
        """The next batch of positions for the network: [K, C, H, W] uint8, 0 ≤ K ≤ num_rows · num_leaves.

        The array is valid until the next call. K is 0 if every active row is finished, or every leaf reached terminal.
        """
        if self._num_waiting:
            raise MuGoError("search: leaves() called again before expand()")
        rows = np.flatnonzero(self._active)
        self._num_roots = 0
        for _ in range(MAX_ROUNDS):
            rows = self._select(rows)
            if rows.size * ROWS_PER_ENDED < self.num_rows:
                break
        batch = self._leaves.part(0, self._num_waiting)
        room = self._legal[: self._num_waiting], self._planes[: self._num_waiting]
        legal, planes = self.game.legal_and_observe(batch.states, batch.history, out=room)
        self._drop_early_passes(legal, batch.states)
        self._leave_out(legal, batch.row, batch.states)
        return planes

    def leaf_rows(self) -> IntArray:
        """[K] the row of each position of the last leaves()."""
        return self._leaves.row[: self._num_waiting]

    def expand(self, policy_logits: FloatArray, value_to_move: FloatArray) -> None:
        """Expand the last leaves() with their logits [K, A] over all actions and values [K] in [−1, 1].

        Raises MuGoError if a number isn't finite.
        """
        batch = self._leaves.part(0, self._num_waiting)
        legal = self._legal[: self._num_waiting]
        most_edges = kernels.expand(self._tree, batch, legal, policy_logits, value_to_move)
        if most_edges < 0:
            raise MuGoError("search: the network answered with numbers that are not finite; is the model damaged?")
        self._reserve_edges(most_edges)
        if self._num_roots:
            self._prepare_roots(batch.row[batch.node == NO_PARENT])
        self.evaluations += self._num_waiting
        self._num_waiting = 0

    def step(self, evaluate: Evaluate) -> int:
        """Evaluate the next batch; returns its size.

        Any error of the network drops the batch and its rows' trees, and ends their searches. Positions stay.
        """
        planes = self.leaves()
        if len(planes):
            try:
                self.expand(*evaluate(planes))
            except Exception:
                rows = np.unique(self.leaf_rows())
                self._drop_trees(rows)
                self._active[rows] = False
                self._num_waiting = 0
                raise
        return len(planes)

    # What the search found

    def root_table(self, rows: Rows) -> RootTable:
        """Visits [n, A] int32 and the network's priors [n, A] float32, without noise; 0 for illegal actions."""
        visits = np.empty((len(rows), self.game.num_actions), np.int32)
        priors = np.empty((len(rows), self.game.num_actions), np.float32)
        kernels.root_table(self._tree, rows, visits, priors)
        return visits, priors

    def root_values(self, rows: Rows) -> FloatArray:
        """[n] float32: the mean of the network's value and all readouts' values, seen by the player to move.

        For Gumbel too, as in mctx's search summary: it includes the actions that lost the halving.
        """
        roots = self._tree.node[rows, ROOT]
        return (roots["value"] + roots["value_sum"]) / (1 + roots["visits"]).astype(np.float32)

    def root_action_values(self, rows: Rows) -> FloatArray:
        """[n, A] float32: the mean values of the visited moves, seen by the player to move; NaN for other moves."""
        values = np.full((len(rows), self.game.num_actions), np.nan, np.float32)
        for found, row in zip(values, rows.tolist(), strict=True):
            if self._tree.num_nodes[row]:
                root = self._tree.node[row, ROOT]
                visited = slice(int(root["edge_start"]), int(root["edge_start"]) + int(root["num_visited"]))
                edges = self._tree.edge[row, visited]
                known = edges["visits"] - self._tree.edge_pending[row, visited]
                with np.errstate(invalid="ignore"):
                    found[self._tree.edge_action[row, visited]] = edges["value_sum"] / known
        return values

    def choose(self, rows: Rows, temperature: FloatArray, table: RootTable | None = None) -> Actions:
        """[n] the actions to play.

        PUCT: sampled by visits^(1/temperature), or by prior if the root has no visits; at temperature 0 the most
        visited or, with lcb_deviations, the one of highest lower confidence bound.
        Gumbel: the winner of the sequential halving at any temperature; without visits as PUCT.
        table: root_table(rows), or other visits to choose by, such as targets(rows).
        """
        actions = np.empty(len(rows), np.int32)
        temperature = np.asarray(temperature, np.float64)
        decided = self._by_gumbel(rows)
        if decided.any():
            decided &= (self._tree.num_nodes[rows] > 0) & (self._tree.node[rows, ROOT]["visits"] > 0)
        if not decided.any():
            visits, priors = table or self.root_table(rows)
            kernels.sample_actions(self._tree.streams, rows, visits, priors, temperature, actions)
            if self._config.lcb_deviations > 0.0:
                puct.lcb_actions(self._tree, rows, visits, temperature, self._config.lcb_deviations, actions)
        elif decided.all():
            gumbel.best_actions(self._tree, rows, self._gumbel, actions)
        else:
            for part in (decided, ~decided):
                known = (table[0][part], table[1][part]) if table else None
                actions[part] = self.choose(rows[part], temperature[part], known)
        return actions

    def targets(self, rows: Rows, table: RootTable | None = None) -> IntArray:
        """[n, A] int32: the policy targets, unnormalised; all 0 for a root without visits.

        PUCT: the visits, without those that forced playouts may have added.
        Gumbel: the improved policy softmax(logits + σ(completed Q)), as integers that sum to about gumbel.TARGET_SUM.
        table: root_table(rows), if the caller has it already; not changed.
        """
        by_gumbel = self._by_gumbel(rows)
        if by_gumbel.any():
            improved = np.empty((np.count_nonzero(by_gumbel), self.game.num_actions), np.int32)
            gumbel.targets(self._tree, rows[by_gumbel], self._gumbel, improved)
            if by_gumbel.all():
                return improved
            found = (table or self.root_table(rows))[0].copy()
            found[by_gumbel] = improved
            return found
        visits = (table or self.root_table(rows))[0]
        if self._forced is None:
            return visits
        pruned = visits.copy()
        puct.prune_forced(self._tree, rows, self._forced, self._config.c_puct, pruned)
        return pruned

    def candidates(self, row: int) -> list[Candidate]:
        """The root's visited moves, most visited first; without visits all legal moves, highest prior first.

        With lcb_deviations the move that choose() takes comes first.
        """
        found = _candidates(self._tree, row)
        if self._config.lcb_deviations > 0.0 and found:
            chosen = self.choose(np.array([row]), np.zeros(1, np.float32))[0]
            found.sort(key=lambda move: move.action != chosen)
        return found

    def room(self, row: int) -> int:
        """How many readouts begin() accepts for this row now; at most max_readouts."""
        used = int(self._tree.num_nodes[row])
        if not self._keeps_trees:
            used = min(used, 1)  # begin() drops the others
        free = self._tree.node.shape[1] - used - self.num_leaves - 1
        return max(0, min(self.max_readouts, free))

    # Inside

    def _drop_trees(self, rows: Rows | IntArray) -> None:
        for array in (self._tree.num_nodes, self._tree.num_edges, self._tree.remaining, self._tree.pending):
            array[rows] = 0

    def _select(self, rows: Rows) -> Rows:
        """Add leaves of rows to the batch. Terminal ones are backed up at once; returns their rows."""
        begin = self._num_waiting
        free = self._leaves.part(begin, len(self._batch_index))
        limits = self.num_leaves, READOUTS_PER_LEAF
        pending = self._tree.edge_pending if self.num_leaves > 1 else None
        games = self.states, self.history.keys, self.history.lengths
        count, num_roots, spent = kernels.select(
            self._tree, rows, limits, self._puct, pending, self._forced, self._gumbel, games, tuple(free)
        )
        self.simulations += spent
        batch = free.part(0, count)
        over = self._play_into(batch, num_roots)
        self._num_roots += num_roots
        self._num_waiting += count
        if not over.any():
            return np.empty(0, np.int64)
        ended = np.flatnonzero(over)
        values = self._ending_values(batch.row[ended], batch.states[ended], batch.movers[ended])
        kernels.backup_terminal(self._tree, batch, ended, values)
        ended_rows = np.unique(batch.row[ended]).astype(np.int64)
        going, first = np.flatnonzero(~over), ended[0]
        for array in batch:
            array[first : going.size] = array[going[first:]]
        self._num_waiting = begin + going.size
        return ended_rows

    def _ending_values(self, rows: IntArray, states: States, movers: NDArray[np.int8]) -> FloatArray:
        """[n] float32, seen by movers [n]: the values of ended games [n, S] of these rows."""
        results = self.game.returns(states)
        return np.where(movers == 0, results, -results).astype(np.float32)

    def _play_into(self, batch: Leaves, num_roots: int) -> BoolArray:
        """Turn a batch's parent states into the leaves', set keys and movers; [K] whether the leaf is terminal."""
        count = len(batch.row)
        if num_roots == 0:
            batch.states[:] = self.game.play(batch.states, batch.action, batch.history)
        elif num_roots < count:
            inner = np.flatnonzero(batch.node != NO_PARENT)
            batch.states[inner] = self.game.play(batch.states[inner], batch.action[inner], batch.history.select(inner))
        if self.game.repeats:
            batch.keys[:] = self.game.keys(batch.states)
            batch.history.append(self._batch_index[:count], batch.keys)
        batch.movers[:] = self.game.to_move(batch.states)
        return self.game.is_over(batch.states)

    def _drop_early_passes(self, legal: BoolArray, states: States) -> None:
        """Remove passes before pass_after from legal [n, A], in place, where there is another move."""
        if self._first_pass_ply:
            early = np.flatnonzero(self.game.plies(states) < self._first_pass_ply)
            legal[early] = self.game.passing_last(legal[early])

    def _leave_out(self, legal: BoolArray, rows: Rows | IntArray, states: States) -> None:
        """Remove what restrict() leaves out from legal [n, A], in place, in positions states [n, S] of these rows."""
        if self._until is None:
            return
        at = np.flatnonzero(self._deepest[rows])
        if not at.size:
            return
        ply = self.game.plies(states[at]) - self.game.plies(self.states[rows[at]])
        near = ply < self._deepest[rows[at]]
        at, ply = at[near], ply[near]
        kept = legal[at] & (self._until[rows[at], self.game.to_move(states[at])] <= ply[:, None])
        legal[at] = np.where(kept.any(axis=1, keepdims=True), kept, legal[at])

    def _by_gumbel(self, rows: Rows | IntArray) -> BoolArray:
        """[n] whether the rows' current search is Gumbel's."""
        if self._gumbel is None:
            return np.zeros(len(rows), np.bool_)
        return self._gumbel.budget[rows] != gumbel.BY_PUCT

    def _prepare_roots(self, rows: Rows | IntArray) -> None:
        if not len(rows):
            return
        config, explore, by_gumbel = self._config, self._explore[rows], self._by_gumbel(rows)
        if by_gumbel.any():
            scales = np.where(explore[by_gumbel], config.gumbel_scale, 0.0)
            gumbel.prepare_roots(self._tree, rows[by_gumbel], scales)
        if not by_gumbel.all():
            noisy = explore[~by_gumbel] & (config.noise_weight > 0)
            noise = config.noise_weight, config.noise_total, config.noise_shape
            puct.prepare_roots(self._tree, rows[~by_gumbel], noisy, *noise)

    def _set_budgets(self, rows: Rows, readouts: IntArray) -> None:
        """Point rows [n] to the sequential halving tables of their budgets; make those that don't exist yet."""
        assert self._gumbel is not None
        for budget in np.unique(readouts).tolist():
            if budget not in self._tables:
                tables = self._gumbel.tables
                new = np.zeros((1, *tables.shape[1:]), np.int32)
                new[0, :, :budget] = gumbel.table_of_considered_visits(tables.shape[1] - 1, budget)
                self._gumbel = self._gumbel._replace(tables=np.concatenate([tables, new]))
                self._tables[budget] = len(tables)
            self._gumbel.budget[rows[readouts == budget]] = self._tables[budget]

    def _reserve_edges(self, most: int) -> None:
        """Make room for the edges of the next batch's leaves; `most`: the most edges that a row has."""
        capacity, wanted = self._tree.edge.shape[1], most + self.num_leaves * self.game.num_actions
        if wanted <= capacity:
            return
        capacity = max(wanted, int(capacity * GROWTH))
        for name in EDGE_ARRAYS:  # one at a time, so that each old array is freed before the next is allocated
            old = getattr(self._tree, name)
            new = np.empty((self.num_rows, capacity), old.dtype)
            for row, used in enumerate(self._tree.num_edges.tolist()):
                new[row, :used] = old[row, :used]  # pages beyond stay untouched and cost no memory
            self._tree = self._tree._replace(**{name: new})
            del old


def _candidates(tree: Tree, row: int) -> list[Candidate]:
    """As BatchSearch.candidates; empty if the root isn't expanded."""
    if not tree.num_nodes[row]:
        return []
    root = tree.node[row, ROOT]
    start = int(root["edge_start"])
    found = []
    for i in range(start, start + int(root["num_visited"])):
        edge = tree.edge[row, i]
        visits = int(edge["visits"])
        if visits:
            action = int(tree.edge_action[row, i])
            value = float(edge["value_sum"]) / visits
            variation = (action, *_most_visited(tree, row, int(edge["child"])))
            found.append(Candidate(action, visits, value, float(tree.edge_prior[row, i]), variation))
    if found:
        return sorted(found, key=lambda move: (-move.visits, -move.value_to_move, move.action))
    edges = range(start, start + int(root["edge_count"]))
    unvisited = [(int(tree.edge_action[row, i]), float(tree.edge_prior[row, i])) for i in edges]
    value = float(root["value"])
    return [Candidate(action, 0, value, prior, (action,)) for action, prior in sorted(unvisited, key=lambda a: -a[1])]


def _most_visited(tree: Tree, row: int, node: int) -> list[int]:
    """The most visited path down from a node; ties: the higher prior."""
    path: list[int] = []
    while node >= 0 and len(path) < MAX_VARIATION - 1:
        start, count = int(tree.node[row, node]["edge_start"]), int(tree.node[row, node]["num_visited"])
        if not count:
            break
        best = max(range(start, start + count), key=lambda i: (tree.edge[row, i]["visits"], tree.edge_prior[row, i]))
        if not tree.edge[row, best]["visits"]:
            break
        path.append(int(tree.edge_action[row, best]))
        node = int(tree.edge[row, best]["child"])
    return path
