"""The arrays that hold a batch of search trees.

Axes: R rows (one game and one tree each), N nodes of a row, E edges of a row, A actions, S state words.

Node 0 (ROOT) is the root; a child's index is always larger than its parent's. A node's edges stand side by side at
edge_start .. edge_start + edge_count, legal actions only. Their first `tried` have been visited; the next one is
the untried edge of highest prior. That is all a descent must look at: untried edges share one value and no visits. Of
an untried edge only action and prior are stored; what stands in its other arrays means nothing.

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


class Tree(NamedTuple):
    """R trees. Only the first num_nodes / num_edges entries of a row hold anything.

    num_nodes     [R] int32          0: the root is not expanded yet
    num_edges     [R] int32
    remaining     [R] int32          readouts left in the present search
    pending       [R] int32          leaves handed out and not yet backed up
    streams       [R] uint64         one random stream per row
    root_prior    [R, A] float32     the root's priors as the search uses them: with noise, in edge order
    state         [R, N, S] int16
    key           [R, N] uint64
    mover         [R, N] int8
    terminal      [R, N] bool
    value         [R, N] float32     the network's value, or the exact one if terminal
    parent        [R, N] int32
    parent_edge   [R, N] int32       which of the parent's edges, counted from its edge_start
    edge_start    [R, N] int32
    edge_count    [R, N] int32
    tried         [R, N] int32       edges visited at least once (pending ones included)
    visits        [R, N] int32       sum of the edges' visits
    value_sum     [R, N] float32     sum of the edges' value sums
    edge_action   [R, E] int16
    edge_prior    [R, E] float32
    edge_visits   [R, E] int32
    edge_value    [R, E] float32     sum of the values backed up
    edge_child    [R, E] int32       node index, UNVISITED or PENDING
    """

    num_nodes: NDArray[np.int32]
    num_edges: NDArray[np.int32]
    remaining: NDArray[np.int32]
    pending: NDArray[np.int32]
    streams: NDArray[np.uint64]
    root_prior: NDArray[np.float32]
    state: NDArray[np.int16]
    key: NDArray[np.uint64]
    mover: NDArray[np.int8]
    terminal: NDArray[np.bool_]
    value: NDArray[np.float32]
    parent: NDArray[np.int32]
    parent_edge: NDArray[np.int32]
    edge_start: NDArray[np.int32]
    edge_count: NDArray[np.int32]
    tried: NDArray[np.int32]
    visits: NDArray[np.int32]
    value_sum: NDArray[np.float32]
    edge_action: NDArray[np.int16]
    edge_prior: NDArray[np.float32]
    edge_visits: NDArray[np.int32]
    edge_value: NDArray[np.float32]
    edge_child: NDArray[np.int32]


def empty_tree(num_rows: int, num_nodes: int, num_edges: int, num_actions: int, state_size: int) -> Tree:
    """Room for R trees. Pages that are never touched cost no memory.

    All arrays are carved from one buffer: a descent touches a dozen of them at random places, and only a large
    buffer gets the huge pages that spare it a page walk each time.
    """
    nodes, edges = (num_rows, num_nodes), (num_rows, num_edges)
    shapes: dict[str, tuple[tuple[int, ...], type]] = {
        "num_nodes": ((num_rows,), np.int32),
        "num_edges": ((num_rows,), np.int32),
        "remaining": ((num_rows,), np.int32),
        "pending": ((num_rows,), np.int32),
        "streams": ((num_rows,), np.uint64),
        "root_prior": ((num_rows, num_actions), np.float32),
        "state": ((num_rows, num_nodes, state_size), np.int16),
        "key": (nodes, np.uint64),
        "mover": (nodes, np.int8),
        "terminal": (nodes, np.bool_),
        "value": (nodes, np.float32),
        "parent": (nodes, np.int32),
        "parent_edge": (nodes, np.int32),
        "edge_start": (nodes, np.int32),
        "edge_count": (nodes, np.int32),
        "tried": (nodes, np.int32),
        "visits": (nodes, np.int32),
        "value_sum": (nodes, np.float32),
        "edge_action": (edges, np.int16),
        "edge_prior": (edges, np.float32),
        "edge_visits": (edges, np.int32),
        "edge_value": (edges, np.float32),
        "edge_child": (edges, np.int32),
    }
    sizes = {
        name: math.prod(shape) * np.dtype(kind).itemsize + CACHE_LINE for name, (shape, kind) in shapes.items()
    }
    buffer = np.empty(sum(sizes.values()) + CACHE_LINE, np.uint8)
    arrays: dict[str, NDArray] = {}
    offset = -buffer.ctypes.data % CACHE_LINE
    for name, (shape, kind) in shapes.items():
        count = math.prod(shape) * np.dtype(kind).itemsize
        arrays[name] = buffer[offset : offset + count].view(kind).reshape(shape)
        offset += -(-count // CACHE_LINE) * CACHE_LINE
    for name in ("num_nodes", "num_edges", "remaining", "pending", "streams"):
        arrays[name][:] = 0
    return Tree(**arrays)
