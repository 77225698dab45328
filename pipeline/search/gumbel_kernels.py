"""Gumbel AlphaZero's choices: at the root, inside the tree, of the move, and its policy target.
Plain twin: ``gumbel_reference.py``.

Notation, all at one node: P prior, N visits of an edge, q mean value of an edge seen by the node's mover,
v_mix = (v + ΣN · Σ P·q / Σ P) / (1 + ΣN), sums of P over the visited edges, v the network's value;
completed q: q, or v_mix where an edge has no visits; q̂: completed q, rescaled so that the node's lowest is 0 and its
highest 1; σ(q̂) = (max_visit_init + max N) · value_scale · q̂. A logit is the logarithm of the prior, less that of the
node's highest: the softmax is the same. So no −∞ comes up: a prior that underflowed counts as the smallest float.

All untried edges of a node have the same σ, so only the one of highest prior can be next, and their priors sum to one
less the tried ones': a choice looks at the tried edges and one more, as PUCT's does. At the root ``root_prior`` holds
g + logit, so the untried edge that stands next is the next candidate of the top m.

Sums are in float64: the edges' order then moves a result by less than its last float32 digit.
Source: Danihelka et al. 2022, "Policy improvement by planning with Gumbel", sections 3-5, appendix D; mctx.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.search.edges import bring_best_untried, comes_before, kernel
from pipeline.search.random import gumbel as draw_gumbel
from pipeline.search.tree import ROOT

LEAST_PRIOR = 1.1754943508222875e-38  # smallest normal float32
LEAST_RANGE = 1e-8  # of completed q: below it they count as equal
BY_PUCT = -1  # a row whose present search is none of Gumbel's
TARGET_SUM = 65_535  # what a target's whole numbers sum to, but for rounding


class Gumbel(NamedTuple):
    """The settings of a batch of searches.

    tables  [B, M + 1, T] int32  halving tables of B budgets, for up to M considered moves
    which   [R] int32            each row's budget, or BY_PUCT
    weights [A] float64          scratch
    """

    tables: NDArray[np.int32]
    which: NDArray[np.int32]
    value_scale: float
    max_visit_init: float
    weights: NDArray[np.float64]


@kernel
def complete(tree, row, node, gumbel):
    """What turns a node's q into σ: (lowest completed q, highest, v_mix, prior visited, factor).

    σ(q̂) = factor · (q − lowest).
    """
    this = tree.node[row, node]
    most, visited, weighted = 0, 0.0, 0.0
    low, high = np.inf, -np.inf
    for i in range(this.edge_start, this.edge_start + this.tried):
        edge = tree.edge[row, i]
        q = np.float64(edge.value) / edge.visits
        prior = max(LEAST_PRIOR, np.float64(tree.edge_prior[row, i]))
        visited += prior
        weighted += prior * q
        low, high, most = min(low, q), max(high, q), max(most, edge.visits)
    mixed = np.float64(this.value)
    if this.tried > 0:
        mixed = (mixed + this.visits * (weighted / visited)) / (1 + this.visits)
    if this.tried < this.edge_count:
        low, high = min(low, mixed), max(high, mixed)
    factor = (gumbel.max_visit_init + most) * gumbel.value_scale / max(high - low, LEAST_RANGE)
    return low, high, mixed, visited, factor


@kernel
def best_of(tree, row, considered, gumbel):
    """The root's edge of highest g + logit + σ among those with exactly so many visits, at least one; lowest action
    on ties.
    """
    this = tree.node[row, ROOT]
    low, _high, _mixed, _visited, factor = complete(tree, row, ROOT, gumbel)
    best, best_score = -1, -np.inf
    for i in range(this.tried):
        edge = tree.edge[row, this.edge_start + i]
        if edge.visits == considered:
            q = np.float64(edge.value) / edge.visits
            score = np.float64(tree.root_prior[row, i]) + factor * (q - low)
            if score > best_score or (score == best_score and comes_before(tree, row, this.edge_start, i, best)):
                best, best_score = i, score
    return best


@kernel
def select_child(tree, row, node, gumbel):
    """The edge to walk, counted from edge_start; lowest action on ties.

    Root: sequential halving. Inside: argmax of softmax(logits + σ) − N/(1 + ΣN), section 5.
    """
    this = tree.node[row, node]
    start, tried = this.edge_start, this.tried
    if node == ROOT:
        table = gumbel.tables[gumbel.which[row]]
        considered = table[min(table.shape[0] - 1, this.edge_count), this.visits]
        if considered == 0:
            return tried
        return best_of(tree, row, considered, gumbel)
    if tried == 0:
        return tried
    _low, high, mixed, visited, factor = complete(tree, row, node, gumbel)
    total = 0.0
    for i in range(tried):
        edge = tree.edge[row, start + i]
        q = np.float64(edge.value) / edge.visits
        weight = max(LEAST_PRIOR, np.float64(tree.edge_prior[row, start + i])) * math.exp(factor * (q - high))
        gumbel.weights[i] = weight
        total += weight
    untried = 0.0
    if tried < this.edge_count:
        prior = max(LEAST_PRIOR, np.float64(tree.edge_prior[row, start + tried]))
        left = math.exp(factor * (mixed - high))
        untried = prior * left
        total += max(prior, 1.0 - visited) * left
    spread = 1.0 / (1 + this.visits)
    best, best_score = -1, -np.inf
    for i in range(tried):
        score = gumbel.weights[i] / total - tree.edge[row, start + i].visits * spread
        if score > best_score or (score == best_score and comes_before(tree, row, start, i, best)):
            best, best_score = i, score
    if tried < this.edge_count:
        score = untried / total
        if score > best_score or (score == best_score and comes_before(tree, row, start, tried, best)):
            best = tried
    return best


@kernel
def clear_roots(tree, rows):
    """Keep of rows' trees the expanded root alone: the network's evaluation of it, as if just accepted."""
    for j in range(rows.size):
        row = rows[j]
        if tree.num_nodes[row] == 0:
            continue
        this = tree.node[row, ROOT]
        actions = tree.edge_action[row, : this.edge_count]
        priors = tree.edge_prior[row, : this.edge_count]
        for i in range(1, this.edge_count):  # nearly in order: searching moves few
            action, prior, at = actions[i], priors[i], i
            while at > 0 and actions[at - 1] > action:
                actions[at], priors[at] = actions[at - 1], priors[at - 1]
                at -= 1
            actions[at], priors[at] = action, prior
        this.tried = 0
        this.visits = 0
        this.value_sum = 0.0
        tree.num_nodes[row] = 1
        tree.num_edges[row] = this.edge_count


@kernel
def prepare_roots(tree, rows, scales):
    """Set root_prior of expanded, untried roots to scale·g + logit, g drawn per edge where scales [n] isn't 0.

    The edges stand in the order of their actions: after expand() and after clear_roots().
    """
    for j in range(rows.size):
        row = rows[j]
        start, count = tree.node[row, ROOT].edge_start, tree.node[row, ROOT].edge_count
        highest = LEAST_PRIOR
        for i in range(start, start + count):
            highest = max(highest, np.float64(tree.edge_prior[row, i]))
        for i in range(count):
            score = math.log(max(LEAST_PRIOR, np.float64(tree.edge_prior[row, start + i])) / highest)
            if scales[j] > 0.0:
                score += scales[j] * draw_gumbel(tree.streams, row)
            tree.root_prior[row, i] = score
        bring_best_untried(tree, row, ROOT)


@kernel
def winners(tree, rows, gumbel, actions):
    """Fill actions [n] of searched roots: the highest g + logit + σ among the most visited."""
    for j in range(rows.size):
        row = rows[j]
        start = tree.node[row, ROOT].edge_start
        most = 0
        for i in range(tree.node[row, ROOT].tried):
            most = max(most, tree.edge[row, start + i].visits)
        actions[j] = tree.edge_action[row, start + best_of(tree, row, most, gumbel)]


@kernel
def targets(tree, rows, gumbel, out):
    """Fill out [n, A] int32: softmax(logits + σ) at the roots, in whole numbers of about TARGET_SUM in all.

    No noise is in it. 0 everywhere where a root has no visits.
    """
    out[:] = 0
    for j in range(rows.size):
        row = rows[j]
        if tree.num_nodes[row] == 0 or tree.node[row, ROOT].visits == 0:
            continue
        this = tree.node[row, ROOT]
        _low, high, mixed, _visited, factor = complete(tree, row, ROOT, gumbel)
        total = 0.0
        for i in range(this.edge_count):
            at = this.edge_start + i
            q = np.float64(tree.edge[row, at].value) / tree.edge[row, at].visits if i < this.tried else mixed
            weight = max(LEAST_PRIOR, np.float64(tree.edge_prior[row, at])) * math.exp(factor * (q - high))
            gumbel.weights[i] = weight
            total += weight
        for i in range(this.edge_count):
            out[j, tree.edge_action[row, this.edge_start + i]] = int(gumbel.weights[i] / total * TARGET_SUM + 0.5)
