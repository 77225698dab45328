"""PUCT: selection of a child, and what self-play adds at the root. Plain twin: ``tests/reference/puct.py``.

Self-play adds Dirichlet noise to the root's priors, spread evenly or shaped by the network's policy; forced playouts,
which give a move that the noise favours more than one visit; and pruning, which removes forced visits from the policy
target. ``tree.py`` defines the arrays and their axes; kernels change them in place and run in one thread.

Sources: Silver et al. 2017, Methods (selection, noise); Wu 2019, "Accelerating Self-Play Learning in Go", arXiv
1902.10565, section 3.2 (forced playouts and policy target pruning); KataGo, cpp/search/searchhelpers.cpp,
Search::computeDirichletAlphaDistribution (the shape).
"""

# mypy: allow-untyped-defs
from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from pipeline.search.random import dirichlet, kernel
from pipeline.search.tree import ROOT, has_lower_action, put_best_unvisited_next

MAX_SHAPED_PRIOR = 0.01  # KataGo: higher priors count as this, so that the noise doesn't just follow the favourite
MIN_SHAPED_PRIOR = 1e-20  # KataGo: added to every prior before taking its logarithm
LCB_MIN_VISIT_FRACTION = 0.15  # KataGo: of the most visits that a root move has; fewer can't be chosen by LCB
LCB_MIN_VISITS = 2  # a single value has no spread


class Puct(NamedTuple):
    """The settings of selection."""

    c_puct: float
    fpu_reduction: float
    root_fpu_reduction: float


@kernel
def first_play(node, unvalued, visited_prior, reduction):
    """First-play urgency, the Q of an edge without a value: the node's mean value − reduction · sqrt(visited_prior).

    unvalued: how many of the node's visits are pending; visited_prior: sum over the visited edges.
    """
    mean = (node.value + node.value_sum) / np.float32(1 + node.visits - unvalued)
    return mean - np.float32(reduction) * np.sqrt(visited_prior)


@kernel
def select_child(tree, row, node, puct, pending):
    """The edge of highest PUCT score, counted from edge_start; lowest action on ties.

    score = Q + c_puct · P · sqrt(max(1, ΣN)) / (1 + N); an edge without a value has first_play as Q. Source: Silver et
    al. 2017, Methods, "Select"; first-play urgency as in Leela Zero and KataGo. Plain twin:
    ReferenceSearch._select_child.

    pending: tree.edge_pending, or None if nothing can be pending. Pending visits count as visits, which steers other
    descents elsewhere, but don't change Q as a virtual loss would. Source: Liu et al. 2020, "Watch the Unobserved: A
    Simple Approach to Parallelizing Monte Carlo Tree Search" (WU-UCT).
    """
    this = tree.node[row, node]
    start, num_visited = this.edge_start, this.num_visited
    prior = tree.root_prior[row] if node == ROOT else tree.edge_prior[row, start : start + this.edge_count]
    scale = np.float32(puct.c_puct) * np.sqrt(np.float32(max(this.visits, 1)))
    reduction = puct.root_fpu_reduction if node == ROOT else puct.fpu_reduction
    unvalued, visited_prior, first = 0, np.float32(0.0), np.float32(0.0)
    if pending is not None:
        for i in range(num_visited):
            unvalued += pending[row, start + i]
            visited_prior += prior[i]
        first = first_play(this, unvalued, visited_prior, reduction)
        visited_prior = np.float32(0.0)
    best, best_score = -1, np.float32(-np.inf)
    for i in range(num_visited):
        edge = tree.edge[row, start + i]
        n = np.float32(edge.visits)
        if pending is not None:
            known = edge.visits - np.int32(pending[row, start + i])
            q = edge.value_sum / np.float32(known) if known > 0 else first
        else:
            q = edge.value_sum / n
        score = q + scale * prior[i] / (np.float32(1.0) + n)
        visited_prior += prior[i]
        if score > best_score or (score == best_score and has_lower_action(tree, row, start, i, best)):
            best, best_score = i, score
    if num_visited < this.edge_count:
        score = first_play(this, unvalued, visited_prior, reduction) + scale * prior[num_visited]
        if score > best_score or (score == best_score and has_lower_action(tree, row, start, num_visited, best)):
            best = num_visited
    return best


@kernel
def noise_shapes(prior, total, shaped_fraction, shapes):
    """Fill shapes [n] float64 with the Dirichlet parameters of n moves with priors [n]; they sum to total.

    1 − shaped_fraction of the total is spread evenly. The rest is shared in proportion to how far a move's
    log(min(prior, 0.01)) lies above the mean over all moves; if none lies above it, everything is spread evenly.
    """
    count = prior.size
    mean, above = 0.0, 0.0
    for i in range(count):
        shapes[i] = math.log(min(np.float64(prior[i]), MAX_SHAPED_PRIOR) + MIN_SHAPED_PRIOR)
        mean += shapes[i] / count
    for i in range(count):
        shapes[i] = max(0.0, shapes[i] - mean)
        above += shapes[i]
    if shaped_fraction == 0.0 or above <= 1e-9:  # equal priors may differ from their mean by rounding
        shapes[:count] = total / count
        return
    for i in range(count):
        shapes[i] = total * ((1.0 - shaped_fraction) / count + shaped_fraction * shapes[i] / above)


@kernel
def prepare_roots(tree, rows, explore, noise_weight, noise_total, noise_shape):
    """Set root_prior of expanded roots to the network's priors, mixed with Dirichlet noise where explore [n] is True.

    P' = (1 − w)·P + w·η, η ~ Dirichlet(noise_shapes).
    """
    shapes = np.empty(tree.root_prior.shape[1], np.float64)
    for j in range(rows.size):
        row = rows[j]
        start, count = tree.node[row, ROOT].edge_start, tree.node[row, ROOT].edge_count
        prior = tree.root_prior[row, :count]
        if explore[j] and count > 0:
            noise_shapes(tree.edge_prior[row, start : start + count], noise_total, noise_shape, shapes)
            dirichlet(tree.streams, row, shapes, prior)
            keep = np.float32(1.0 - noise_weight)
            for i in range(count):
                prior[i] = keep * tree.edge_prior[row, start + i] + np.float32(noise_weight) * prior[i]
        else:
            prior[:] = tree.edge_prior[row, start : start + count]
        put_best_unvisited_next(tree, row, ROOT)


@kernel
def forced_visits(k, prior, visits):
    """sqrt(k·P·ΣN), float32: the fewest visits that forced playouts allow. P includes noise; visits are the root's."""
    return np.sqrt(np.float32(k) * prior * np.float32(visits))


@kernel
def forced_edge(tree, row, k, edge):
    """The visited root edge of lowest action that has fewer than forced_visits; `edge` if there is none."""
    this = tree.node[row, ROOT]
    best = -1
    for i in range(this.num_visited if k > 0.0 else 0):
        at = this.edge_start + i
        wanted = forced_visits(k, tree.root_prior[row, i], this.visits)
        if tree.edge[row, at].visits < wanted and has_lower_action(tree, row, this.edge_start, i, best):
            best = i
    return best if best >= 0 else edge


@kernel
def prune_forced(tree, rows, forced, c_puct, visits):
    """Remove from visits [n, A] int32 of expanded roots what forced playouts with k = forced [R] may have added.

    The most visited move (ties: the higher prior, then the lower action) keeps all its visits. Every other move loses
    up to sqrt(k·P·ΣN) visits while its PUCT score, with Q and ΣN unchanged, stays below the most visited move's. A
    single remaining visit is removed too. If no move has two visits, nothing was forced and nothing changes.
    Plain twin: prune.
    """
    for j in range(rows.size):
        row = rows[j]
        if forced[row] <= 0.0 or tree.num_nodes[row] == 0 or tree.node[row, ROOT].visits == 0:
            continue
        this = tree.node[row, ROOT]
        start = this.edge_start
        best = 0
        for i in range(1, this.num_visited):
            a, b = start + i, start + best
            if tree.edge[row, a].visits != tree.edge[row, b].visits:
                better = tree.edge[row, a].visits > tree.edge[row, b].visits
            elif tree.edge_prior[row, a] != tree.edge_prior[row, b]:
                better = tree.edge_prior[row, a] > tree.edge_prior[row, b]
            else:
                better = tree.edge_action[row, a] < tree.edge_action[row, b]
            if better:
                best = i
        if tree.edge[row, start + best].visits < 2:
            continue
        scale = np.float32(c_puct) * np.sqrt(np.float32(this.visits))
        one = np.float32(1.0)
        n = np.float32(tree.edge[row, start + best].visits)
        to_beat = tree.edge[row, start + best].value_sum / n + scale * tree.root_prior[row, best] / (one + n)
        for i in range(this.num_visited):
            if i == best:
                continue
            edge = tree.edge[row, start + i]
            prior = tree.root_prior[row, i]
            q = edge.value_sum / np.float32(edge.visits)
            left = edge.visits
            least = max(0, left - int(forced_visits(forced[row], prior, this.visits)))
            while left > least and q + scale * prior / np.float32(left) < to_beat:
                left -= 1
            visits[j, tree.edge_action[row, start + i]] = left if left > 1 else 0


@kernel
def lower_bound(tree, row, edge, deviations):
    """The lower confidence bound of a visited edge's value: q − deviations · s / sqrt(n), float64.

    n   the edge's visits that have a value
    s²  the variance of the child's m values and one more, of weight 1/m, that is off by 1: without it a few values
        that agree by chance would look certain. 0 if the child is terminal; 1 if its node was dropped
    Plain twin: ReferenceSearch.lower_bound.
    """
    this = tree.edge[row, edge]
    n = np.float64(this.visits - np.int64(tree.edge_pending[row, edge]))
    if n <= 0.0:
        return -np.inf
    variance = 1.0
    if this.child >= 0:
        child = tree.node[row, this.child]
        known = np.float64(1 + child.visits)
        mean = (np.float64(child.value) + np.float64(child.value_sum)) / known
        squares = np.float64(child.value) * np.float64(child.value) + np.float64(child.square_sum)
        variance = max(0.0, squares - known * mean * mean)
        variance = 0.0 if child.terminal else (variance + 1.0 / known) / (known + 1.0 / known)
    return np.float64(this.value_sum) / n - deviations * math.sqrt(variance / n)


@kernel
def lcb_actions(tree, rows, chosen_by, temperatures, deviations, actions):
    """Where temperatures [n] is 0, set actions [n] to the root's move of highest lower_bound; lowest action on ties.

    A move qualifies if it has visits in chosen_by [n, A] and, at the root, at least LCB_MIN_VISITS and
    LCB_MIN_VISIT_FRACTION of the most visited move's. If none qualifies, the action is left unchanged. Source: KataGo,
    cpp/search/searchresults.cpp, getPlaySelectionValues. Plain twin, without chosen_by: ReferenceSearch.lcb_action.
    """
    for j in range(rows.size):
        row = rows[j]
        if temperatures[j] > 0.0 or tree.num_nodes[row] == 0:
            continue
        start, num_visited = tree.node[row, ROOT].edge_start, tree.node[row, ROOT].num_visited
        most = 0
        for i in range(num_visited):
            most = max(most, tree.edge[row, start + i].visits)
        best, best_bound = -1, -np.inf
        for i in range(num_visited):
            visits = tree.edge[row, start + i].visits
            if visits < LCB_MIN_VISITS or visits < LCB_MIN_VISIT_FRACTION * most:
                continue
            if chosen_by[j, tree.edge_action[row, start + i]] == 0:
                continue
            bound = lower_bound(tree, row, start + i, deviations)
            if bound > best_bound or (bound == best_bound and has_lower_action(tree, row, start, i, best)):
                best, best_bound = i, bound
        if best >= 0:
            actions[j] = tree.edge_action[row, start + best]
