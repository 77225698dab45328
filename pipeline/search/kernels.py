"""The kernels behind ``BatchSearch``: search over a batch of trees with sparse edges.

``puct.py`` and ``gumbel.py`` hold what is specific to each algorithm; ``tree.py`` defines the arrays, their axes and
viewpoints. Kernels know neither games nor networks, change the tree in place and run in one thread.
Plain twin: ``tests/reference/puct.py``.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

import math

import numpy as np

from pipeline.search.gumbel import BY_PUCT
from pipeline.search.gumbel import select_child as select_by_gumbel
from pipeline.search.puct import forced_edge
from pipeline.search.puct import select_child as select_by_puct
from pipeline.search.random import kernel, uniform
from pipeline.search.tree import NO_CHILD, NO_PARENT, PENDING, ROOT, put_best_unvisited_next, swap_unvisited


@kernel
def backup(tree, row, node, edge, mover, value, visits):
    """Add `visits` and `value` (seen by `mover`) to every edge from this one up to the root.

    edge is counted from the node's edge_start. Does nothing if node is NO_PARENT.
    """
    square = value * value
    while node != NO_PARENT:
        this = tree.node[row, node]
        above = tree.edge[row, this.edge_start + edge]
        seen = value if this.mover == mover else -value
        above.visits += visits
        above.value_sum += seen
        this.visits += visits
        this.value_sum += seen
        this.square_sum += square
        edge = this.parent_edge
        node = this.parent


@kernel
def count_pending(tree, row, node, edge, change):
    """Add `change` to edge_pending of every edge from this one up to the root; edge is counted from edge_start."""
    while node != NO_PARENT:
        this = tree.node[row, node]
        tree.edge_pending[row, this.edge_start + edge] += change
        edge = this.parent_edge
        node = this.parent


@kernel
def select(tree, rows, limits, puct, pending, forced, gumbel, games, leaves):
    """Descend from the root of each of rows [n] to up to num_leaves unexpanded leaves and write them to `leaves`.

    A descent to a terminal node is backed up at once: it costs a readout but no place in the batch. Any other descent
    counts as a visit immediately and is pending until its value arrives. A row stops when a descent reaches a leaf that
    is already pending. A root with V valued visits has at most 1 + V / readouts_per_leaf pending leaves.

    limits   (num_leaves, readouts_per_leaf)
    pending  tree.edge_pending, or None if num_leaves is 1
    forced   [R] float32: k of forced playouts at each root, or None
    gumbel   Gumbel settings for the rows that aren't BY_PUCT, or None
    games    (states [R, S], past [R, T], num_past [R]): each game's position and the keys that have occurred in it
    leaves   the fields of a large enough Leaves, as a plain tuple, which numba unpacks faster. keys and movers are not
             filled in; past, where games repeat, lacks the leaf's own key
    Returns the number of leaves, how many of them are roots, and the number of readouts spent.
    """
    num_leaves, readouts_per_leaf = limits
    states, all_past, all_num_past = games
    out_row, out_node, out_edge, out_action, out_states, _keys, _movers, out_past, out_num_past = leaves
    found, roots, spent = 0, 0, 0
    for i in range(rows.size):
        row = rows[i]
        num_past = all_num_past[row]
        if tree.num_nodes[row] == 0:
            if tree.pending[row] == 0:
                tree.pending[row] = 1
                out_row[found], out_node[found], out_edge[found] = row, NO_PARENT, 0
                out_states[found] = states[row]
                if out_past.shape[1] > 0:
                    out_past[found, :num_past] = all_past[row, :num_past]
                    out_num_past[found] = num_past - 1  # its own key is added again
                found += 1
                roots += 1
            continue
        valued = tree.node[row, ROOT].visits - tree.pending[row]
        most = min(num_leaves, 1 + valued // readouts_per_leaf)
        while tree.remaining[row] > 0 and tree.pending[row] < most:
            node, edge = ROOT, 0
            while True:
                # Branches on None are removed at compile time. Keep this inline: calling another kernel copies every
                # field of tree.
                by_puct = True
                if gumbel is not None:
                    by_puct = gumbel.budget[row] == BY_PUCT
                if by_puct:
                    edge = select_by_puct(tree, row, node, puct, pending)
                if gumbel is not None and not by_puct:
                    edge = select_by_gumbel(tree, row, node, gumbel)
                if forced is not None and node == ROOT:
                    edge = forced_edge(tree, row, forced[row], edge)
                unvisited = edge == tree.node[row, node].num_visited
                child = NO_CHILD if unvisited else tree.edge[row, tree.node[row, node].edge_start + edge].child
                if child < 0 or tree.node[row, child].terminal:
                    break
                node = child
            if child == PENDING:
                break
            tree.remaining[row] -= 1
            spent += 1
            if child >= 0:
                end = tree.node[row, child]
                backup(tree, row, node, edge, end.mover, end.value, 1)
                continue
            at = tree.node[row, node].edge_start + edge
            if unvisited:
                tree.edge[row, at].visits = 0
                tree.edge[row, at].value_sum = 0.0
                tree.edge_pending[row, at] = 0
                tree.node[row, node].num_visited += 1
                put_best_unvisited_next(tree, row, node)
            tree.edge[row, at].child = PENDING
            backup(tree, row, node, edge, np.int8(0), np.float32(0.0), 1)
            if pending is not None:
                count_pending(tree, row, node, edge, np.uint8(1))
            tree.pending[row] += 1
            out_row[found], out_node[found], out_edge[found] = row, node, edge
            out_states[found] = tree.state[row, node]
            out_action[found] = tree.edge_action[row, at]
            if out_past.shape[1] > 0:
                out_past[found, :num_past] = all_past[row, :num_past]
                length = num_past
                while node != ROOT:  # the root's key is the last of the game's past
                    out_past[found, length] = tree.node[row, node].key
                    length += 1
                    node = tree.node[row, node].parent
                out_num_past[found] = length
                first, last = num_past, length - 1
                while first < last:  # from the leaf's parent upwards → in order of play
                    out_past[found, first], out_past[found, last] = out_past[found, last], out_past[found, first]
                    first += 1
                    last -= 1
            found += 1
    return found, roots, spent


@kernel
def add_node(tree, leaves, i, value, terminal):
    """Add leaf i as a node without edges and back up its value (to move). Returns the node's index."""
    row, node, edge = leaves.row[i], leaves.node[i], leaves.edge[i]
    index = tree.num_nodes[row]
    tree.num_nodes[row] += 1
    tree.state[row, index] = leaves.states[i]
    this = tree.node[row, index]
    this.key = leaves.keys[i]
    this.mover = leaves.movers[i]
    this.terminal = terminal
    this.value = value
    this.parent = node
    this.parent_edge = edge
    this.edge_start = tree.num_edges[row]
    this.edge_count = 0
    this.num_visited = 0
    this.visits = 0
    this.value_sum = 0.0
    this.square_sum = 0.0
    tree.pending[row] -= 1
    if node != NO_PARENT:
        at = tree.node[row, node].edge_start + edge
        tree.edge[row, at].child = index
        if tree.edge_pending[row, at] > 0:
            count_pending(tree, row, node, edge, np.uint8(255))  # one less
        backup(tree, row, node, edge, leaves.movers[i], value, 0)
    return index


@kernel
def backup_terminal(tree, leaves, chosen, values):
    """Add terminal nodes for leaves chosen [n], indexes into the batch; back up their exact values [n] (to move)."""
    for j in range(chosen.size):
        add_node(tree, leaves, chosen[j], values[j], 1)


@kernel
def all_finite(numbers):
    """Whether none of numbers [n] is infinite or NaN."""
    found = False
    for number in numbers:  # without an early exit the loop is vectorised
        found |= number - number != 0  # inf − inf and NaN − NaN are NaN
    return not found


@kernel
def expand(tree, leaves, legal, logits, values):
    """Expand K leaves with softmax(logits over legal actions) [K, A] as priors and back up values [K] (to move).

    legal [K, A] bool. The rows must have room for the new edges. Plain twin: ReferenceSearch._expand.
    Returns the largest number of edges in these rows; -1, with nothing changed, if a number isn't finite.
    """
    num_actions, most_edges = legal.shape[1], 0
    for i in range(leaves.row.size):
        if not (all_finite(logits[i]) and all_finite(values[i : i + 1])):
            return -1
    for i in range(leaves.row.size):
        row = leaves.row[i]
        index = add_node(tree, leaves, i, values[i], 0)
        start = tree.num_edges[row]
        highest = np.float32(-np.inf)
        count, best = 0, 0
        for action in range(num_actions):
            if legal[i, action]:
                at = start + count
                tree.edge_action[row, at] = action
                tree.edge_prior[row, at] = logits[i, action]
                if logits[i, action] > highest:
                    highest, best = logits[i, action], count
                count += 1
        total = np.float32(0.0)
        for at in range(start, start + count):
            weight = np.float32(math.exp(tree.edge_prior[row, at] - highest))
            tree.edge_prior[row, at] = weight
            total += weight
        for at in range(start, start + count):
            tree.edge_prior[row, at] /= total
        tree.node[row, index].edge_count = count
        tree.num_edges[row] += count
        most_edges = max(most_edges, tree.num_edges[row])
        if index != ROOT:
            swap_unvisited(tree, row, index, 0, best)
    return most_edges


@kernel
def reroot(tree, row, child, max_nodes, scratch):
    """Make the node `child` the root, in place. Keeps at most max_nodes nodes, the root included, the oldest ones.

    scratch [N] int32. An edge whose node is dropped keeps its visits; the node is created again when next reached.
    The row must have no pending leaf.
    """
    old_count = tree.num_nodes[row]
    kept, edges = 0, 0
    for old in range(child, old_count):
        scratch[old] = -1
        if old != child:
            parent = tree.node[row, old].parent
            if parent < child or scratch[parent] < 0 or kept >= max_nodes:
                continue
        new = kept
        scratch[old] = new
        kept += 1
        tree.node[row, new] = tree.node[row, old]
        this = tree.node[row, new]
        old_start, count = this.edge_start, this.edge_count
        if old == child:
            this.parent = NO_PARENT
            this.parent_edge = 0
        else:
            this.parent = scratch[this.parent]
            tree.edge[row, tree.node[row, this.parent].edge_start + this.parent_edge].child = new
        this.edge_start = edges
        tree.state[row, new] = tree.state[row, old]
        for i in range(count):
            tree.edge_action[row, edges + i] = tree.edge_action[row, old_start + i]
            tree.edge_prior[row, edges + i] = tree.edge_prior[row, old_start + i]
        for i in range(this.num_visited):
            tree.edge[row, edges + i] = tree.edge[row, old_start + i]
            tree.edge[row, edges + i].child = NO_CHILD  # set again when the child itself is kept
            tree.edge_pending[row, edges + i] = 0
        edges += count
    tree.num_nodes[row] = kept
    tree.num_edges[row] = edges


@kernel
def advance(tree, rows, actions, max_nodes):
    """Reroot each of rows [n] at its child by actions [n]; empty the tree if that child isn't expanded."""
    scratch = np.empty(tree.node.shape[1], np.int32)
    for j in range(rows.size):
        row = rows[j]
        child = NO_CHILD
        if tree.num_nodes[row] > 0:
            start = tree.node[row, ROOT].edge_start
            for i in range(tree.node[row, ROOT].num_visited):
                if tree.edge_action[row, start + i] == actions[j]:
                    child = tree.edge[row, start + i].child
        tree.remaining[row] = 0
        if child >= 0 and not tree.node[row, child].terminal:
            reroot(tree, row, child, max_nodes, scratch)
        else:
            tree.num_nodes[row] = 0
            tree.num_edges[row] = 0


@kernel
def root_table(tree, rows, visits, priors):
    """Fill visits [n, A] int32 and the network's priors [n, A] float32, without noise; 0 if a root isn't expanded."""
    visits[:] = 0
    priors[:] = 0.0
    for j in range(rows.size):
        row = rows[j]
        if tree.num_nodes[row] > 0:
            start = tree.node[row, ROOT].edge_start
            for edge in range(start, start + tree.node[row, ROOT].edge_count):
                priors[j, tree.edge_action[row, edge]] = tree.edge_prior[row, edge]
            for edge in range(start, start + tree.node[row, ROOT].num_visited):
                visits[j, tree.edge_action[row, edge]] = tree.edge[row, edge].visits


@kernel
def sample_actions(streams, rows, visits, priors, temperatures, actions):
    """Fill actions [n], sampled with probability ~ weight^(1/temperature); temperature 0 takes the largest weight.

    The weight is the visit count, or the prior if the root has no visits. Ties at temperature 0: the higher prior, then
    the lower action.
    """
    for j in range(rows.size):
        total_visits = 0
        for action in range(visits.shape[1]):
            total_visits += visits[j, action]
        best = -1
        for action in range(visits.shape[1]):
            if priors[j, action] <= 0.0 and visits[j, action] == 0:
                continue
            if (
                best < 0
                or visits[j, action] > visits[j, best]
                or (visits[j, action] == visits[j, best] and priors[j, action] > priors[j, best])
            ):
                best = action
        actions[j] = best
        if temperatures[j] <= 0.0:
            continue
        highest = np.float64(visits[j, best]) if total_visits > 0 else np.float64(priors[j, best])
        total = 0.0
        for action in range(visits.shape[1]):
            weight = np.float64(visits[j, action]) if total_visits > 0 else np.float64(priors[j, action])
            if weight > 0.0:
                total += (weight / highest) ** (1.0 / temperatures[j])
        left = uniform(streams, rows[j]) * total
        for action in range(visits.shape[1]):
            weight = np.float64(visits[j, action]) if total_visits > 0 else np.float64(priors[j, action])
            if weight > 0.0:
                left -= (weight / highest) ** (1.0 / temperatures[j])
                actions[j] = action
                if left <= 0.0:
                    break


@kernel
def finished(tree, active):
    """[n] int64: the rows that are active [R] bool, have a root, and whose search has nothing left to do."""
    rows, count = np.empty(active.size, np.int64), 0
    for row in range(active.size):
        if active[row] and tree.remaining[row] == 0 and tree.pending[row] == 0 and tree.num_nodes[row] > 0:
            rows[count] = row
            count += 1
    return rows[:count]
