"""Gumbel AlphaZero: sequential halving at the root, selection inside the tree, the move to play, the policy target.
Plain twin: ``tests/reference/gumbel.py``.

Notation, at one node:

    P            prior of an edge
    N            its visits; pending ones count where N spreads the search, but not in q and v_mix
    q            its mean value, seen by the node's player to move
    v            the network's value of the node
    v_mix        (v + ΣN · Σ P·q / Σ P) / (1 + ΣN), with sums of P over the visited edges
    completed q  q, or v_mix for an edge without a value
    q̂            completed q, rescaled so that the node's lowest is 0 and its highest is 1
    σ(q̂)         (max_visit_init + max N) · value_scale · q̂
    logit        log P − log of the node's highest P, which leaves the softmax unchanged. A prior that underflowed
                 counts as the smallest float, so that no −∞ occurs

All unvisited edges of a node have the same σ, so only the one of highest prior can be next: selection reads the visited
edges and one more, as in PUCT. At the root, root_prior holds g + logit, so that edge is the next of the top m. Sums are
in float64, so that the order of the edges changes a result by less than its last float32 digit.
Sources: Danihelka et al. 2022, "Policy improvement by planning with Gumbel", sections 3-5, algorithm 2, appendix D;
Karnin et al. 2013, "Almost Optimal Exploration in Multi-Armed Bandits"; mctx, seq_halving.py and qtransforms.py.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.games.contract import IntArray
from pipeline.search.random import gumbel as draw_gumbel
from pipeline.search.random import kernel
from pipeline.search.tree import ROOT, has_lower_action, put_best_unvisited_next

MIN_PRIOR = 1.1754943508222875e-38  # smallest normal float32
MIN_RANGE = 1e-8  # a smaller range of completed q counts as this
BY_PUCT = -1  # budget of a row whose current search is PUCT
TARGET_SUM = 65_535  # sum of a policy target's integers, up to rounding


class Gumbel(NamedTuple):
    """The settings of a batch of searches."""

    tables: IntArray  # [B, M + 1, T] table_of_considered_visits of B budgets, for at most M considered actions
    budget: IntArray  # [R] index of each row's table, or BY_PUCT
    value_scale: float
    max_visit_init: float
    weights: NDArray[np.float64]  # [A] scratch


def sequence_of_considered_visits(max_num_considered_actions: int, readouts: int) -> list[int]:
    """[readouts] sequential halving: each readout goes to the best-scored action with exactly this many visits.

    Every considered action gets a visit, then the better half more, and so on down to two. The scores determine the
    half, so no list of survivors is needed. A budget too small for one visit each ends in the first round; 0 or 1
    actions get every readout. Same as mctx's get_sequence_of_considered_visits.
    """
    if max_num_considered_actions <= 1:
        return list(range(readouts))
    num_rounds = (max_num_considered_actions - 1).bit_length()  # ceil(log2)
    visits = [0] * max_num_considered_actions  # survivors first
    sequence: list[int] = []
    num_considered = max_num_considered_actions
    while len(sequence) < readouts:
        for _ in range(max(1, readouts // (num_rounds * num_considered))):
            sequence += visits[:num_considered]
            visits[:num_considered] = [n + 1 for n in visits[:num_considered]]
        num_considered = max(2, num_considered // 2)
    return sequence[:readouts]


def table_of_considered_visits(max_num_considered_actions: int, readouts: int) -> IntArray:
    """[max_num_considered_actions + 1, readouts] int32: the sequence for each number of considered actions."""
    numbers = range(max_num_considered_actions + 1)
    return np.array([sequence_of_considered_visits(number, readouts) for number in numbers], np.int32)


@kernel
def known_q(tree, row, at, otherwise):
    """(q of a visited edge, how many of its visits have a value); q is `otherwise` if none has."""
    known = tree.edge[row, at].visits - np.int64(tree.edge_pending[row, at])
    if known <= 0:
        return otherwise, 0
    return np.float64(tree.edge[row, at].value_sum) / known, known


@kernel
def completed_q(tree, row, node, gumbel):
    """(lowest completed q, highest, v_mix, sum of the visited edges' priors, factor): σ(q̂) = factor · (q − lowest)."""
    this = tree.node[row, node]
    most, visited_prior, known_prior, weighted = 0, 0.0, 0.0, 0.0
    total, num_known = 0, 0
    low, high = np.inf, -np.inf
    for i in range(this.edge_start, this.edge_start + this.num_visited):
        prior = max(MIN_PRIOR, np.float64(tree.edge_prior[row, i]))
        visited_prior += prior
        q, known = known_q(tree, row, i, 0.0)
        if known > 0:
            num_known += 1
            total += known
            known_prior += prior
            weighted += prior * q
            low, high, most = min(low, q), max(high, q), max(most, known)
    v_mix = np.float64(this.value)
    if num_known > 0:
        v_mix = (v_mix + total * (weighted / known_prior)) / (1 + total)
    if num_known < this.edge_count:
        low, high = min(low, v_mix), max(high, v_mix)
    factor = (gumbel.max_visit_init + most) * gumbel.value_scale / max(high - low, MIN_RANGE)
    return low, high, v_mix, visited_prior, factor


@kernel
def best_considered(tree, row, considered_visits, gumbel):
    """The root edge of highest g + logit + σ among those with considered_visits ≥ 1 visits; lowest action on ties."""
    this = tree.node[row, ROOT]
    low, _high, v_mix, _visited_prior, factor = completed_q(tree, row, ROOT, gumbel)
    best, best_score = -1, -np.inf
    for i in range(this.num_visited):
        if tree.edge[row, this.edge_start + i].visits == considered_visits:
            q, _known = known_q(tree, row, this.edge_start + i, v_mix)
            score = np.float64(tree.root_prior[row, i]) + factor * (q - low)
            if score > best_score or (score == best_score and has_lower_action(tree, row, this.edge_start, i, best)):
                best, best_score = i, score
    return best


@kernel
def select_child(tree, row, node, gumbel):
    """The edge to follow, counted from edge_start; lowest action on ties.

    Root: sequential halving. Elsewhere: argmax of softmax(logits + σ) − N/(1 + ΣN), section 5.
    Plain twin: GumbelReference._select_child.
    """
    this = tree.node[row, node]
    start, num_visited = this.edge_start, this.num_visited
    if node == ROOT:
        table = gumbel.tables[gumbel.budget[row]]
        considered_visits = table[min(table.shape[0] - 1, this.edge_count), this.visits]
        if considered_visits == 0:
            return num_visited
        return best_considered(tree, row, considered_visits, gumbel)
    if num_visited == 0:
        return num_visited
    _low, high, v_mix, visited_prior, factor = completed_q(tree, row, node, gumbel)
    total = 0.0
    for i in range(num_visited):
        q, _known = known_q(tree, row, start + i, v_mix)
        weight = max(MIN_PRIOR, np.float64(tree.edge_prior[row, start + i])) * math.exp(factor * (q - high))
        gumbel.weights[i] = weight
        total += weight
    unvisited = 0.0
    if num_visited < this.edge_count:
        prior = max(MIN_PRIOR, np.float64(tree.edge_prior[row, start + num_visited]))
        left = math.exp(factor * (v_mix - high))
        unvisited = prior * left
        total += max(prior, 1.0 - visited_prior) * left
    spread = 1.0 / (1 + this.visits)
    best, best_score = -1, -np.inf
    for i in range(num_visited):
        score = gumbel.weights[i] / total - tree.edge[row, start + i].visits * spread
        if score > best_score or (score == best_score and has_lower_action(tree, row, start, i, best)):
            best, best_score = i, score
    if num_visited < this.edge_count:
        score = unvisited / total
        if score > best_score or (score == best_score and has_lower_action(tree, row, start, num_visited, best)):
            best = num_visited
    return best


@kernel
def clear_roots(tree, rows):
    """Reduce each row's tree to its expanded root, as it was before any readout."""
    for j in range(rows.size):
        row = rows[j]
        if tree.num_nodes[row] == 0:
            continue
        this = tree.node[row, ROOT]
        actions = tree.edge_action[row, : this.edge_count]
        priors = tree.edge_prior[row, : this.edge_count]
        for i in range(1, this.edge_count):  # insertion sort: a search moves few of them out of order
            action, prior, at = actions[i], priors[i], i
            while at > 0 and actions[at - 1] > action:
                actions[at], priors[at] = actions[at - 1], priors[at - 1]
                at -= 1
            actions[at], priors[at] = action, prior
        this.num_visited = 0
        this.visits = 0
        this.value_sum = 0.0
        this.square_sum = 0.0
        tree.num_nodes[row] = 1
        tree.num_edges[row] = this.edge_count


@kernel
def prepare_roots(tree, rows, scales):
    """Set root_prior of expanded, unvisited roots to scale·g + logit; g is sampled per edge where scales [n] isn't 0.

    The edges must be sorted by action, as after expand() and clear_roots().
    """
    for j in range(rows.size):
        row = rows[j]
        start, count = tree.node[row, ROOT].edge_start, tree.node[row, ROOT].edge_count
        highest = MIN_PRIOR
        for i in range(start, start + count):
            highest = max(highest, np.float64(tree.edge_prior[row, i]))
        for i in range(count):
            score = math.log(max(MIN_PRIOR, np.float64(tree.edge_prior[row, start + i])) / highest)
            if scales[j] > 0.0:
                score += scales[j] * draw_gumbel(tree.streams, row)
            tree.root_prior[row, i] = score
        put_best_unvisited_next(tree, row, ROOT)


@kernel
def best_actions(tree, rows, gumbel, actions):
    """Fill actions [n] of searched roots: the highest g + logit + σ among the most visited. Plain twin: winner."""
    for j in range(rows.size):
        row = rows[j]
        start = tree.node[row, ROOT].edge_start
        most = 0
        for i in range(tree.node[row, ROOT].num_visited):
            most = max(most, tree.edge[row, start + i].visits)
        actions[j] = tree.edge_action[row, start + best_considered(tree, row, most, gumbel)]


@kernel
def targets(tree, rows, gumbel, out):
    """Fill out [n, A] int32: softmax(logits + σ) at the roots, without noise, as integers that sum to about TARGET_SUM.

    0 for a root without visits. Plain twin: improved_policy.
    """
    out[:] = 0
    for j in range(rows.size):
        row = rows[j]
        if tree.num_nodes[row] == 0 or tree.node[row, ROOT].visits == 0:
            continue
        this = tree.node[row, ROOT]
        _low, high, v_mix, _visited_prior, factor = completed_q(tree, row, ROOT, gumbel)
        total = 0.0
        for i in range(this.edge_count):
            at = this.edge_start + i
            q = v_mix
            if i < this.num_visited:
                q, _known = known_q(tree, row, at, v_mix)
            weight = max(MIN_PRIOR, np.float64(tree.edge_prior[row, at])) * math.exp(factor * (q - high))
            gumbel.weights[i] = weight
            total += weight
        for i in range(this.edge_count):
            out[j, tree.edge_action[row, this.edge_start + i]] = int(gumbel.weights[i] / total * TARGET_SUM + 0.5)
