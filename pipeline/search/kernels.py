"""PUCT over a batch of trees with sparse edges: the kernels behind ``BatchSearch``. Plain twin: ``reference.py``.

``tree.py`` defines the arrays, their axes and viewpoints; K leaves of a batch, T positions of a game. No kernel
knows a game or a network. All change the tree in place and run one thread.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from pipeline.search.random import dirichlet, uniform
from pipeline.search.tree import NO_PARENT, PENDING, ROOT, UNVISITED

kernel = njit(cache=True, nogil=True, error_model="numpy")


@kernel
def bring_best_untried(tree, row, node):
    """Swap the untried edge of highest prior (lowest action on ties) to the place behind the tried ones."""
    start, first, count = tree.edge_start[row, node], tree.tried[row, node], tree.edge_count[row, node]
    if first >= count:
        return
    prior = tree.root_prior[row] if node == ROOT else tree.edge_prior[row, start : start + count]
    actions = tree.edge_action[row, start : start + count]
    best = first
    for i in range(first + 1, count):
        if prior[i] > prior[best] or (prior[i] == prior[best] and actions[i] < actions[best]):
            best = i
    if best != first:
        actions[first], actions[best] = actions[best], actions[first]
        a, b = start + first, start + best
        tree.edge_prior[row, a], tree.edge_prior[row, b] = tree.edge_prior[row, b], tree.edge_prior[row, a]
        if node == ROOT:
            swapped = tree.root_prior[row, first]
            tree.root_prior[row, first] = tree.root_prior[row, best]
            tree.root_prior[row, best] = swapped


@kernel
def choose_edge(tree, row, node, c_puct, fpu_reduction):
    """The edge of highest PUCT score, counted from edge_start; lowest action on ties.

    score = Q + c_puct · P · sqrt(max(1, ΣN)) / (1 + N); an untried edge has Q = the node's mean value −
    fpu_reduction · sqrt(sum of tried priors). Source: Silver et al. 2017, Methods, "Select"; first-play urgency as
    in Leela Zero and KataGo. Plain twin: ReferenceSearch.
    """
    start, tried = tree.edge_start[row, node], tree.tried[row, node]
    prior = tree.root_prior[row] if node == ROOT else tree.edge_prior[row, start : start + tree.edge_count[row, node]]
    scale = np.float32(c_puct) * np.sqrt(np.float32(max(tree.visits[row, node], 1)))
    tried_prior = np.float32(0.0)
    best, best_score, best_action = -1, np.float32(-np.inf), np.int16(0)
    for i in range(tried):
        edge = start + i
        n = np.float32(tree.edge_visits[row, edge])
        score = tree.edge_value[row, edge] / n + scale * prior[i] / (np.float32(1.0) + n)
        tried_prior += prior[i]
        action = tree.edge_action[row, edge]
        if score > best_score or (score == best_score and action < best_action):
            best, best_score, best_action = i, score, action
    if tried < tree.edge_count[row, node]:
        mean = (tree.value[row, node] + tree.value_sum[row, node]) / np.float32(1 + tree.visits[row, node])
        score = mean - np.float32(fpu_reduction) * np.sqrt(tried_prior) + scale * prior[tried]
        if score > best_score or (score == best_score and tree.edge_action[row, start + tried] < best_action):
            best = tried
    return best


@kernel
def add_along_path(tree, row, node, edge, mover, value, visits, virtual_loss):
    """Add to the edge and to all above it: `visits` and `value` (seen by `mover`), less virtual_loss for every mover.

    edge is counted from the node's edge_start. A root leaf has node NO_PARENT: nothing happens.
    """
    while node != NO_PARENT:
        seen = value if tree.mover[row, node] == mover else -value
        at = tree.edge_start[row, node] + edge
        tree.edge_visits[row, at] += visits
        tree.edge_value[row, at] += seen - virtual_loss
        tree.visits[row, node] += visits
        tree.value_sum[row, node] += seen - virtual_loss
        edge = tree.parent_edge[row, node]
        node = tree.parent[row, node]


@kernel
def select(tree, rows, leaves, c_puct, fpu_reduction, root_fpu_reduction, virtual_loss, out_row, out_node, out_edge):
    """Walk from each root to up to `leaves` unexpanded leaves, named in out_row, out_node, out_edge [K].

    A leaf is named by the node it hangs from and the edge; the root itself by NO_PARENT. Walks that end in a terminal
    node are backed up at once and cost a readout, not a place in the batch. Each walk counts as a visit from
    now on, with virtual_loss until its value comes. A row stops early where a walk meets a pending leaf.
    Returns how many leaves were found, how many of them are roots, and how many readouts were spent.
    """
    found, roots, spent = 0, 0, 0
    for i in range(rows.size):
        row = rows[i]
        if tree.num_nodes[row] == 0:
            if tree.pending[row] == 0:
                tree.pending[row] = 1
                out_row[found], out_node[found], out_edge[found] = row, NO_PARENT, 0
                found += 1
                roots += 1
            continue
        while tree.remaining[row] > 0 and tree.pending[row] < leaves:
            node, edge = ROOT, 0
            while True:
                reduction = root_fpu_reduction if node == ROOT else fpu_reduction
                edge = choose_edge(tree, row, node, c_puct, reduction)
                untried = edge == tree.tried[row, node]
                child = UNVISITED if untried else tree.edge_child[row, tree.edge_start[row, node] + edge]
                if child < 0 or tree.terminal[row, child]:
                    break
                node = child
            if child == PENDING:
                break
            tree.remaining[row] -= 1
            spent += 1
            if child >= 0:
                add_along_path(
                    tree, row, node, edge, tree.mover[row, child], tree.value[row, child], 1, np.float32(0.0)
                )
                continue
            at = tree.edge_start[row, node] + edge
            if untried:
                tree.edge_visits[row, at] = 0
                tree.edge_value[row, at] = 0.0
                tree.tried[row, node] += 1
                bring_best_untried(tree, row, node)
            tree.edge_child[row, at] = PENDING
            add_along_path(tree, row, node, edge, np.int8(0), np.float32(0.0), 1, np.float32(virtual_loss))
            tree.pending[row] += 1
            out_row[found], out_node[found], out_edge[found] = row, node, edge
            found += 1
    return found, roots, spent


@kernel
def prepare_leaves(tree, out_row, out_node, out_edge, count, past, num_past, states, actions, keys, num_keys):
    """For `count` leaves, none of them a root: the parent's state, the action, and the keys that occurred before.

    past [R, T] uint64, num_past [R]: each game's history. Fills states [K, S], actions [K], keys [K, T'], num_keys [K].
    """
    for i in range(count):
        row, node = out_row[i], out_node[i]
        states[i] = tree.state[row, node]
        actions[i] = tree.edge_action[row, tree.edge_start[row, node] + out_edge[i]]
        length = num_past[row]
        keys[i, :length] = past[row, :length]
        while node != ROOT:  # the root's key is the last of the game's past
            keys[i, length] = tree.key[row, node]
            length += 1
            node = tree.parent[row, node]
        num_keys[i] = length


@kernel
def link(tree, row, node, edge, state, key, mover, value, terminal):
    """Make the leaf's node, without edges, and back its value up; returns its index."""
    index = tree.num_nodes[row]
    tree.num_nodes[row] += 1
    tree.state[row, index] = state
    tree.key[row, index] = key
    tree.mover[row, index] = mover
    tree.terminal[row, index] = terminal
    tree.value[row, index] = value
    tree.parent[row, index] = node
    tree.parent_edge[row, index] = edge
    tree.edge_start[row, index] = tree.num_edges[row]
    tree.edge_count[row, index] = 0
    tree.tried[row, index] = 0
    tree.visits[row, index] = 0
    tree.value_sum[row, index] = 0.0
    tree.pending[row] -= 1
    if node != NO_PARENT:
        tree.edge_child[row, tree.edge_start[row, node] + edge] = index
    return index


@kernel
def accept_terminal(tree, out_row, out_node, out_edge, chosen, states, keys, movers, values, virtual_loss):
    """Make nodes of the leaves chosen [n] (indexes into the batch), which end the game, and back up values [n],
    exact.
    """
    for j in range(chosen.size):
        i = chosen[j]
        row, node, edge = out_row[i], out_node[i], out_edge[i]
        link(tree, row, node, edge, states[i], keys[i], movers[i], values[j], True)
        add_along_path(tree, row, node, edge, movers[i], values[j], 0, np.float32(-virtual_loss))


@kernel
def accept(tree, out_row, out_node, out_edge, states, keys, movers, legal, logits, values, virtual_loss):
    """Expand K leaves with softmax(logits over legal actions) [K, A] as priors and back up values [K] (to move).

    legal [K, A] bool. A row's edges must have room: see BatchSearch. Plain twin: ReferenceSearch.
    """
    num_actions = legal.shape[1]
    for i in range(out_row.size):
        row, node, edge = out_row[i], out_node[i], out_edge[i]
        index = link(tree, row, node, edge, states[i], keys[i], movers[i], values[i], False)
        start = tree.num_edges[row]
        highest = np.float32(-np.inf)
        count = 0
        for action in range(num_actions):
            if legal[i, action]:
                at = start + count
                tree.edge_action[row, at] = action
                tree.edge_prior[row, at] = logits[i, action]
                highest = max(highest, logits[i, action])
                count += 1
        total = np.float32(0.0)
        for at in range(start, start + count):
            weight = np.float32(math.exp(tree.edge_prior[row, at] - highest))
            tree.edge_prior[row, at] = weight
            total += weight
        for at in range(start, start + count):
            tree.edge_prior[row, at] /= total
        tree.edge_count[row, index] = count
        tree.num_edges[row] += count
        if node != NO_PARENT:
            bring_best_untried(tree, row, index)
            add_along_path(tree, row, node, edge, movers[i], values[i], 0, np.float32(-virtual_loss))


@kernel
def prepare_roots(tree, rows, noisy, noise_weight, noise_total):
    """Set root_prior of expanded roots: the network's priors, mixed with Dirichlet noise where noisy [n] says so.

    P' = (1 − w)·P + w·η, η ~ Dirichlet(noise_total / legal moves). Source: Silver et al. 2017, Methods;
    the scaling by legal moves as in KataGo.
    """
    for j in range(rows.size):
        row = rows[j]
        start, count = tree.edge_start[row, ROOT], tree.edge_count[row, ROOT]
        prior = tree.root_prior[row, :count]
        if noisy[j] and count > 0:
            dirichlet(tree.streams, row, noise_total / count, prior)
            keep = np.float32(1.0 - noise_weight)
            for i in range(count):
                prior[i] = keep * tree.edge_prior[row, start + i] + np.float32(noise_weight) * prior[i]
        else:
            prior[:] = tree.edge_prior[row, start : start + count]
        bring_best_untried(tree, row, ROOT)


@kernel
def rebase(tree, row, child, max_nodes, scratch):
    """Make the node `child` the root and keep the nodes below it, in place; the newest beyond max_nodes are dropped.

    scratch [N] int32. An edge whose node was dropped keeps its visits; its node is made again when it is next reached.
    """
    old_count = tree.num_nodes[row]
    kept, edges = 0, 0
    for old in range(child, old_count):
        scratch[old] = -1
        if old != child:
            parent = tree.parent[row, old]
            if parent < child or scratch[parent] < 0 or kept >= max_nodes:
                continue
        new = kept
        scratch[old] = new
        kept += 1
        old_start, count = tree.edge_start[row, old], tree.edge_count[row, old]
        if old == child:
            tree.parent[row, new] = NO_PARENT
            tree.parent_edge[row, new] = 0
        else:
            new_parent = scratch[tree.parent[row, old]]
            which = tree.parent_edge[row, old]
            tree.parent[row, new] = new_parent
            tree.parent_edge[row, new] = which
            tree.edge_child[row, tree.edge_start[row, new_parent] + which] = new
        tree.state[row, new] = tree.state[row, old]
        tree.key[row, new] = tree.key[row, old]
        tree.mover[row, new] = tree.mover[row, old]
        tree.terminal[row, new] = tree.terminal[row, old]
        tree.value[row, new] = tree.value[row, old]
        tree.tried[row, new] = tree.tried[row, old]
        tree.visits[row, new] = tree.visits[row, old]
        tree.value_sum[row, new] = tree.value_sum[row, old]
        tree.edge_start[row, new] = edges
        tree.edge_count[row, new] = count
        for i in range(count):
            tree.edge_action[row, edges + i] = tree.edge_action[row, old_start + i]
            tree.edge_prior[row, edges + i] = tree.edge_prior[row, old_start + i]
        for i in range(tree.tried[row, new]):
            tree.edge_visits[row, edges + i] = tree.edge_visits[row, old_start + i]
            tree.edge_value[row, edges + i] = tree.edge_value[row, old_start + i]
            tree.edge_child[row, edges + i] = UNVISITED  # set again when the child itself is kept
        edges += count
    tree.num_nodes[row] = kept
    tree.num_edges[row] = edges


@kernel
def advance(tree, rows, actions, max_nodes):
    """For each row, keep the subtree below actions[i] as the new tree, or none if it wasn't expanded."""
    scratch = np.empty(tree.parent.shape[1], np.int32)
    for j in range(rows.size):
        row = rows[j]
        child = UNVISITED
        if tree.num_nodes[row] > 0:
            start = tree.edge_start[row, ROOT]
            for i in range(tree.tried[row, ROOT]):
                if tree.edge_action[row, start + i] == actions[j]:
                    child = tree.edge_child[row, start + i]
        tree.remaining[row] = 0
        if child >= 0 and not tree.terminal[row, child]:
            rebase(tree, row, child, max_nodes, scratch)
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
            start = tree.edge_start[row, ROOT]
            for edge in range(start, start + tree.edge_count[row, ROOT]):
                priors[j, tree.edge_action[row, edge]] = tree.edge_prior[row, edge]
            for edge in range(start, start + tree.tried[row, ROOT]):
                visits[j, tree.edge_action[row, edge]] = tree.edge_visits[row, edge]


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
