"""The arrays that hold a batch of search trees, and the order of a node's edges.

Axes: R rows (one game and one tree each), N nodes of a row, E edges of a row, A actions, S state words, K leaves of a
batch, T positions of a game.

Node 0 (ROOT) is the root; a child's index is always larger than its parent's. A node's edges, legal actions only, are
contiguous from edge_start to edge_start + edge_count. The first `num_visited` have been visited; the next one is the
unvisited edge of highest prior. Selection reads no others, since unvisited edges all have the same value and no visits.
An unvisited edge has only an action and a prior; its EDGE record and pending visits are undefined. An edge's action is
in tree.edge_action and doesn't follow from its position.

A node's values are seen by the player to move there, an edge's values by the player to move at its parent.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.games.contract import Game, History, IntArray, KeyArray, States
from pipeline.search.random import kernel

ROOT = 0
NO_CHILD = -1  # child of an edge that leads to no node
PENDING = -2  # child of an edge whose leaf is being evaluated
NO_PARENT = -1

CACHE_LINE = 64

NODE = np.dtype(  # on one cache line, because selection reads most of these fields
    {
        "names": ["visits", "value_sum", "value", "edge_start", "edge_count", "num_visited", "parent", "parent_edge",
                  "key", "mover", "terminal", "square_sum"],
        "formats": ["<i4", "<f4", "<f4", "<i4", "<i4", "<i4", "<i4", "<i4", "<u8", "i1", "i1", "<f4"],
        "offsets": [0, 4, 8, 12, 16, 20, 24, 28, 32, 40, 41, 44],
        "itemsize": CACHE_LINE,
    }
)  # fmt: skip
EDGE = np.dtype([("visits", "<i4"), ("value_sum", "<f4"), ("child", "<i4")])


class Tree(NamedTuple):
    """R trees. Only the first num_nodes / num_edges entries of a row are defined.

    node  visits       sum of the edges' visits
          value_sum    sum of the edges' value sums
          square_sum   sum of the squares of the values in value_sum
          value        the network's value, or the exact one if terminal
          edge_start, edge_count
          num_visited  edges visited at least once (pending ones included)
          parent       node index, NO_PARENT for the root
          parent_edge  which of the parent's edges, counted from its edge_start
          key, mover, terminal (0 or 1)
    edge  visits
          value_sum    sum of the values backed up
          child        node index, NO_CHILD or PENDING
    edge_pending       how many of the edge's visits have no value yet; counted only if several leaves of a tree may be
                       pending at once
    """

    num_nodes: NDArray[np.int32]  # [R] 0: the root is not expanded yet
    num_edges: NDArray[np.int32]  # [R]
    remaining: NDArray[np.int32]  # [R] readouts left in the current search
    pending: NDArray[np.int32]  # [R] leaves in evaluation, not yet backed up
    streams: NDArray[np.uint64]  # [R] one random stream per row
    root_prior: NDArray[np.float32]  # [R, A] in edge order: the root's priors with noise; Gumbel: g + logit
    state: NDArray[np.int16]  # [R, N, S]
    node: NDArray  # [R, N] NODE
    edge_action: NDArray[np.int16]  # [R, E]
    edge_prior: NDArray[np.float32]  # [R, E]
    edge: NDArray  # [R, E] EDGE
    edge_pending: NDArray[np.uint8]  # [R, E]


MOST_ACTIONS = np.iinfo(np.int16).max + 1  # see edge_action
EDGE_ARRAYS = ("edge_action", "edge_prior", "edge", "edge_pending")


def empty_tree(num_rows: int, num_nodes: int, num_edges: int, num_actions: int, state_size: int) -> Tree:
    """R empty trees. Pages that are never touched cost no memory."""
    return Tree(
        num_nodes=np.zeros(num_rows, np.int32),
        num_edges=np.zeros(num_rows, np.int32),
        remaining=np.zeros(num_rows, np.int32),
        pending=np.zeros(num_rows, np.int32),
        streams=np.zeros(num_rows, np.uint64),
        root_prior=np.empty((num_rows, num_actions), np.float32),
        state=np.empty((num_rows, num_nodes, state_size), np.int16),
        node=_aligned((num_rows, num_nodes), NODE),
        edge_action=np.empty((num_rows, num_edges), np.int16),
        edge_prior=np.empty((num_rows, num_edges), np.float32),
        edge=np.empty((num_rows, num_edges), EDGE),
        edge_pending=np.zeros((num_rows, num_edges), np.uint8),
    )


def _aligned(shape: tuple[int, ...], kind: np.dtype) -> NDArray:
    """Like np.empty, but aligned to a cache line."""
    size = math.prod(shape) * kind.itemsize
    buffer = np.empty(size + CACHE_LINE, np.uint8)
    start = -buffer.ctypes.data % CACHE_LINE
    return buffer[start : start + size].view(kind).reshape(shape)


class Leaves(NamedTuple):
    """A batch of K leaves; the arrays are reused for every batch.

    In a game without repetition T and all keys are 0, and num_past is undefined.
    """

    row: IntArray  # [K]
    node: IntArray  # [K] the leaf's parent; NO_PARENT for a root
    edge: IntArray  # [K] the edge to the leaf, counted from the parent's edge_start
    action: IntArray  # [K] that edge's action; undefined for a root
    states: States  # [K, S] the parent's state (a root's own) until the action is played, then the leaf's
    keys: KeyArray  # [K] the leaf's
    movers: NDArray[np.int8]  # [K] the leaf's
    past: KeyArray  # [K, T] the keys in the game and on the path to the leaf, in order; its own comes last
    num_past: IntArray  # [K]

    @staticmethod
    def empty(count: int, game: Game) -> Leaves:
        return Leaves(
            row=np.empty(count, np.int32),
            node=np.empty(count, np.int32),
            edge=np.empty(count, np.int32),
            action=np.empty(count, np.int32),
            states=np.empty((count, game.state_size), np.int16),
            keys=np.zeros(count, np.uint64),
            movers=np.empty(count, np.int8),
            past=np.zeros((count, game.max_plies + 2 if game.repeats else 0), np.uint64),
            num_past=np.empty(count, np.int32),
        )

    def part(self, begin: int, end: int) -> Leaves:
        return Leaves._make(array[begin:end] for array in self)

    @property
    def history(self) -> History:
        return History(self.past, self.num_past)


@kernel
def put_best_unvisited_next(tree, row, node):
    """Move the unvisited edge of highest prior (lowest action on ties) to the place after the visited ones."""
    this = tree.node[row, node]
    start, first, count = this.edge_start, this.num_visited, this.edge_count
    if first >= count:
        return
    prior = tree.root_prior[row] if node == ROOT else tree.edge_prior[row, start : start + count]
    actions = tree.edge_action[row, start : start + count]
    best = first
    for i in range(first + 1, count):
        if prior[i] > prior[best] or (prior[i] == prior[best] and actions[i] < actions[best]):
            best = i
    swap_unvisited(tree, row, node, first, best)


@kernel
def swap_unvisited(tree, row, node, edge, other):
    """Swap two unvisited edges, both counted from edge_start."""
    if edge == other:
        return
    start = tree.node[row, node].edge_start
    a, b = start + edge, start + other
    tree.edge_action[row, a], tree.edge_action[row, b] = tree.edge_action[row, b], tree.edge_action[row, a]
    tree.edge_prior[row, a], tree.edge_prior[row, b] = tree.edge_prior[row, b], tree.edge_prior[row, a]
    if node == ROOT:
        prior = tree.root_prior[row]
        prior[edge], prior[other] = prior[other], prior[edge]


@kernel
def has_lower_action(tree, row, start, edge, other):
    """Whether an edge's action is lower than another's, both counted from start. True if other is negative."""
    return other < 0 or tree.edge_action[row, start + edge] < tree.edge_action[row, start + other]
