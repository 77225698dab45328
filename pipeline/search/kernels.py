"""PUCT over a batch of trees with sparse edges: the kernels behind ``BatchSearch``. Plain twin: ``reference.py``.
What Gumbel does otherwise is in ``gumbel_kernels.py``, what exploring adds at the root in ``exploration.py``.

``tree.py`` defines the arrays, their axes and viewpoints; K leaves of a batch, T positions of a game. No kernel
knows a game or a network. All change the tree in place and run one thread.
"""

from __future__ import annotations

import math

import numpy as np

from pipeline.search import gumbel_kernels
from pipeline.search.edges import bring_best_untried, comes_before, kernel, swap_untried
from pipeline.search.exploration import forced_edge
from pipeline.search.random import uniform
from pipeline.search.tree import NO_PARENT, PENDING, ROOT, UNVISITED


@kernel
def select_child(tree, row, node, c_puct, fpu_reduction):
    """The edge of highest PUCT score, counted from edge_start; lowest action on ties.

    score = Q + c_puct · P · sqrt(max(1, ΣN)) / (1 + N); an untried edge has Q = the node's mean value −
    fpu_reduction · sqrt(sum of tried priors). Source: Silver et al. 2017, Methods, "Select"; first-play urgency as
    in Leela Zero and KataGo. Plain twin: ReferenceSearch.
    """
    this = tree.node[row, node]
    start, tried = this.edge_start, this.tried
    prior = tree.root_prior[row] if node == ROOT else tree.edge_prior[row, start : start + this.edge_count]
    scale = np.float32(c_puct) * np.sqrt(np.float32(max(this.visits, 1)))
    tried_prior = np.float32(0.0)
    best, best_score = -1, np.float32(-np.inf)
    for i in range(tried):
        edge = tree.edge[row, start + i]
        n = np.float32(edge.visits)
        score = edge.value / n + scale * prior[i] / (np.float32(1.0) + n)
        tried_prior += prior[i]
        if score > best_score or (score == best_score and comes_before(tree, row, start, i, best)):
            best, best_score = i, score
    if tried < this.edge_count:
        mean = (this.value + this.value_sum) / np.float32(1 + this.visits)
        score = mean - np.float32(fpu_reduction) * np.sqrt(tried_prior) + scale * prior[tried]
        if score > best_score or (score == best_score and comes_before(tree, row, start, tried, best)):
            best = tried
    return best


@kernel
def backup(tree, row, node, edge, mover, value, visits, virtual_loss):
    """Add to the edge and to all above it: `visits` and `value` (seen by `mover`), less virtual_loss for every mover.

    edge is counted from the node's edge_start. A root leaf has node NO_PARENT: nothing happens.
    """
    while node != NO_PARENT:
        this = tree.node[row, node]
        tried = tree.edge[row, this.edge_start + edge]
        seen = value if this.mover == mover else -value
        tried.visits += visits
        tried.value += seen - virtual_loss
        this.visits += visits
        this.value_sum += seen - virtual_loss
        edge = this.parent_edge
        node = this.parent


@kernel
def select(
    tree, rows, leaves, c_puct, fpu_reduction, root_fpu_reduction, forced, gumbel, virtual_loss, states, past, num_past,
    out_row, out_node, out_edge, out_states, out_actions, out_past, out_num_past,
):  # fmt: skip
    """Walk from the root of each of rows [n] to up to `leaves` unexpanded leaves.

    A leaf [K] is named by the node it hangs from and the edge; the root itself by NO_PARENT. Walks that end in a
    terminal node are backed up at once and cost a readout, not a place in the batch. Each walk counts as a visit from
    now on, with virtual_loss until its value comes. A row stops early where a walk meets a pending leaf.

    forced  [R] float32: k of forced playouts at each root, or None; gumbel: Gumbel's choices instead of PUCT's where
    its `which` doesn't say BY_PUCT, or None. What is None costs nothing: the kernel is compiled for the types it gets,
    without the branches.
    states [R, S], past [R, T] uint64, num_past [R]: where each game stands and the keys that occurred in it.
    out_states [K, S], out_actions [K]: the node's state and the action that leads to the leaf (a root's own state, no
    action); out_past [K, T'], out_num_past [K]: the keys that occurred before the leaf, its game's and its path's.
    Returns how many leaves were found, how many of them are roots, and how many readouts were spent.
    """
    found, roots, spent = 0, 0, 0
    for i in range(rows.size):
        row = rows[i]
        if tree.num_nodes[row] == 0:
            if tree.pending[row] == 0:
                tree.pending[row] = 1
                out_row[found], out_node[found], out_edge[found] = row, NO_PARENT, 0
                out_states[found] = states[row]
                out_past[found, : num_past[row]] = past[row, : num_past[row]]
                out_num_past[found] = num_past[row] - 1  # its own key comes again
                found += 1
                roots += 1
            continue
        while tree.remaining[row] > 0 and tree.pending[row] < leaves:
            node, edge = ROOT, 0
            while True:
                reduction = root_fpu_reduction if node == ROOT else fpu_reduction
                by_puct = True
                if gumbel is not None:
                    by_puct = gumbel.which[row] == gumbel_kernels.BY_PUCT
                if by_puct:
                    edge = select_child(tree, row, node, c_puct, reduction)
                if gumbel is not None and not by_puct:
                    edge = gumbel_kernels.select_child(tree, row, node, gumbel)
                if forced is not None and node == ROOT:
                    edge = forced_edge(tree, row, forced[row], edge)
                untried = edge == tree.node[row, node].tried
                child = UNVISITED if untried else tree.edge[row, tree.node[row, node].edge_start + edge].child
                if child < 0 or tree.node[row, child].terminal:
                    break
                node = child
            if child == PENDING:
                break
            tree.remaining[row] -= 1
            spent += 1
            if child >= 0:
                backup(
                    tree, row, node, edge, tree.node[row, child].mover, tree.node[row, child].value, 1, np.float32(0.0)
                )
                continue
            at = tree.node[row, node].edge_start + edge
            if untried:
                tree.edge[row, at].visits = 0
                tree.edge[row, at].value = 0.0
                tree.node[row, node].tried += 1
                bring_best_untried(tree, row, node)
            tree.edge[row, at].child = PENDING
            backup(tree, row, node, edge, np.int8(0), np.float32(0.0), 1, np.float32(virtual_loss))
            tree.pending[row] += 1
            out_row[found], out_node[found], out_edge[found] = row, node, edge
            out_states[found] = tree.state[row, node]
            out_actions[found] = tree.edge_action[row, at]
            length = num_past[row]
            out_past[found, :length] = past[row, :length]
            while node != ROOT:  # the root's key is the last of the game's past
                out_past[found, length] = tree.node[row, node].key
                length += 1
                node = tree.node[row, node].parent
            out_num_past[found] = length
            found += 1
    return found, roots, spent


@kernel
def link(tree, row, node, edge, state, key, mover, value, terminal):
    """Make the leaf's node, without edges, and back its value up; returns its index."""
    index = tree.num_nodes[row]
    tree.num_nodes[row] += 1
    tree.state[row, index] = state
    this = tree.node[row, index]
    this.key = key
    this.mover = mover
    this.terminal = terminal
    this.value = value
    this.parent = node
    this.parent_edge = edge
    this.edge_start = tree.num_edges[row]
    this.edge_count = 0
    this.tried = 0
    this.visits = 0
    this.value_sum = 0.0
    tree.pending[row] -= 1
    if node != NO_PARENT:
        tree.edge[row, tree.node[row, node].edge_start + edge].child = index
    return index


@kernel
def backup_terminal(tree, out_row, out_node, out_edge, chosen, states, keys, movers, values, virtual_loss):
    """Make nodes of the leaves chosen [n] (indexes into the batch), which end the game, and back up values [n],
    exact.
    """
    for j in range(chosen.size):
        i = chosen[j]
        row, node, edge = out_row[i], out_node[i], out_edge[i]
        link(tree, row, node, edge, states[i], keys[i], movers[i], values[j], 1)
        backup(tree, row, node, edge, movers[i], values[j], 0, np.float32(-virtual_loss))


@kernel
def expand(tree, out_row, out_node, out_edge, states, keys, movers, legal, logits, values, virtual_loss):
    """Expand K leaves with softmax(logits over legal actions) [K, A] as priors and back up values [K] (to move).

    legal [K, A] bool. A row's edges must have room: see BatchSearch. Plain twin: ReferenceSearch.
    """
    num_actions = legal.shape[1]
    for i in range(out_row.size):
        row, node, edge = out_row[i], out_node[i], out_edge[i]
        index = link(tree, row, node, edge, states[i], keys[i], movers[i], values[i], 0)
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
        if node != NO_PARENT:
            swap_untried(tree, row, index, 0, best)
            backup(tree, row, node, edge, movers[i], values[i], 0, np.float32(-virtual_loss))


@kernel
def reroot(tree, row, child, max_nodes, scratch):
    """Make the node `child` the root and keep the nodes below it, in place; the newest beyond max_nodes are dropped.

    scratch [N] int32. An edge whose node was dropped keeps its visits; its node is made again when it is next reached.
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
        for i in range(this.tried):
            tree.edge[row, edges + i] = tree.edge[row, old_start + i]
            tree.edge[row, edges + i].child = UNVISITED  # set again when the child itself is kept
        edges += count
    tree.num_nodes[row] = kept
    tree.num_edges[row] = edges


@kernel
def advance(tree, rows, actions, max_nodes):
    """For each row, keep the subtree below actions[i] as the new tree, or none if it wasn't expanded."""
    scratch = np.empty(tree.node.shape[1], np.int32)
    for j in range(rows.size):
        row = rows[j]
        child = UNVISITED
        if tree.num_nodes[row] > 0:
            start = tree.node[row, ROOT].edge_start
            for i in range(tree.node[row, ROOT].tried):
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
    """Fill visits [n, A] int32 and priors [n, A] float32 (the network's, without noise) of expanded roots; 0
    elsewhere.
    """
    visits[:] = 0
    priors[:] = 0.0
    for j in range(rows.size):
        row = rows[j]
        if tree.num_nodes[row] > 0:
            start = tree.node[row, ROOT].edge_start
            for edge in range(start, start + tree.node[row, ROOT].edge_count):
                priors[j, tree.edge_action[row, edge]] = tree.edge_prior[row, edge]
            for edge in range(start, start + tree.node[row, ROOT].tried):
                visits[j, tree.edge_action[row, edge]] = tree.edge[row, edge].visits


@kernel
def sample_actions(streams, rows, visits, priors, temperatures, actions):
    """Fill actions [n]: drawn with probability ~ weight^(1/temperature); temperature 0 takes the largest.

    The weight is the visit count, or the prior where nothing was visited. Ties at temperature 0: the higher prior, then
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
        drawn = uniform(streams, rows[j]) * total
        for action in range(visits.shape[1]):
            weight = np.float64(visits[j, action]) if total_visits > 0 else np.float64(priors[j, action])
            if weight > 0.0:
                drawn -= (weight / highest) ** (1.0 / temperatures[j])
                actions[j] = action
                if drawn <= 0.0:
                    break
