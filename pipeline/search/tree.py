"""The arrays that hold a batch of search trees.

Axes: R rows (one game and one tree each), N nodes of a row, E edges of a row, A actions, S state words.

Node 0 (ROOT) is the root; a child's index is always larger than its parent's. A node's edges stand side by side at
edge_start .. edge_start + edge_count, legal actions only. Their first `tried` have been visited; the next one is
the untried edge of highest prior. That is all a descent must look at: untried edges share one value and no visits. Of
an untried edge only action and prior are stored; its TRIED record means nothing.

Every value is seen by the player to move at the node it belongs to; an edge's value by the mover of the node it leaves.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

ROOT = 0
UNVISITED = -1  # edge_child of an edge without a node
PENDING = -2  # edge_child of an edge whose leaf is being evaluated
NO_PARENT = -1

CACHE_LINE = 64


# What a walk reads of a node, on one cache line.
NODE = np.dtype(
    {
        "names": ["visits", "value_sum", "value", "edge_start", "edge_count", "tried", "parent", "parent_edge",
                  "key", "mover", "terminal"],
        "formats": ["<i4", "<f4", "<f4", "<i4", "<i4", "<i4", "<i4", "<i4", "<u8", "i1", "i1"],
        "offsets": [0, 4, 8, 12, 16, 20, 24, 28, 32, 40, 41],
        "itemsize": CACHE_LINE,
    }
)  # fmt: skip
# What it reads of an edge that was tried.
TRIED = np.dtype([("visits", "<i4"), ("value", "<f4"), ("child", "<i4")])


class Tree(NamedTuple):
    """R trees. Only the first num_nodes / num_edges entries of a row hold anything.

    num_nodes     [R] int32          0: the root is not expanded yet
    num_edges     [R] int32
    remaining     [R] int32          readouts left in the present search
    pending       [R] int32          leaves handed out and not yet backed up
    streams       [R] uint64         one random stream per row
    root_prior    [R, A] float32     the root's priors as the search uses them: with noise, in edge order
                                     (Gumbel: g + logit instead)
    state         [R, N, S] int16
    node          [R, N] NODE        visits       sum of the edges' visits
                                     value_sum    sum of the edges' values
                                     value        the network's value, or the exact one if terminal
                                     edge_start, edge_count
                                     tried        edges visited at least once (pending ones included)
                                     parent       node index, NO_PARENT for the root
                                     parent_edge  which of the parent's edges, counted from its edge_start
                                     key, mover, terminal (0 or 1)
    edge_action   [R, E] int16
    edge_prior    [R, E] float32
    edge          [R, E] TRIED       visits
                                     value        sum of the values backed up
                                     child        node index, UNVISITED or PENDING
    """

    num_nodes: NDArray[np.int32]
    num_edges: NDArray[np.int32]
    remaining: NDArray[np.int32]
    pending: NDArray[np.int32]
    streams: NDArray[np.uint64]
    root_prior: NDArray[np.float32]
    state: NDArray[np.int16]
    node: NDArray
    edge_action: NDArray[np.int16]
    edge_prior: NDArray[np.float32]
    edge: NDArray


EDGE_ARRAYS = ("edge_action", "edge_prior", "edge")


def empty_tree(num_rows: int, num_nodes: int, num_edges: int, num_actions: int, state_size: int) -> Tree:
    """Room for R trees. Pages that are never touched cost no memory."""
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
        edge=np.empty((num_rows, num_edges), TRIED),
    )


def _aligned(shape: tuple[int, ...], kind: np.dtype) -> NDArray:
    """Like np.empty, from the beginning of a cache line."""
    size = math.prod(shape) * kind.itemsize
    buffer = np.empty(size + CACHE_LINE, np.uint8)
    start = -buffer.ctypes.data % CACHE_LINE
    return buffer[start : start + size].view(kind).reshape(shape)
