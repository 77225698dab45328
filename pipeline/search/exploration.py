"""What exploring adds to PUCT at the root, and how a policy target is freed of it again. Plain twin: ``reference.py``.

Three parts: Dirichlet noise in the priors, evenly spread or shaped by the network's policy; forced playouts, which
make sure that a move the noise found is looked at more than once; pruning, which takes from the counts what only the
forcing put there. All kernels work on the root's edges, in place, one thread; ``tree.py`` defines the arrays.

Sources: Silver et al. 2017, Methods (noise); Wu 2019, "Accelerating Self-Play Learning in Go", arXiv 1902.10565,
section 3.2 (forced playouts and policy target pruning); KataGo, cpp/search/searchhelpers.cpp,
Search::computeDirichletAlphaDistribution (the shape).
"""

# mypy: allow-untyped-defs
from __future__ import annotations

import math

import numpy as np

from pipeline.search.edges import bring_best_untried, comes_before, kernel
from pipeline.search.random import dirichlet
from pipeline.search.tree import ROOT

MOST_SHAPED = 0.01  # KataGo: priors above it are all alike, so that the noise doesn't just follow the favourite
LEAST_SHAPED = 1e-20  # KataGo: added to every prior before its logarithm is taken


@kernel
def noise_shapes(prior, total, shaped_share, shapes):
    """Fill shapes [n] float64, the Dirichlet parameters of n moves with priors [n]; their sum is total.

    1 − shaped_share of it is spread evenly; shaped_share in proportion to how far log(min(prior, 0.01)) lies above
    its own mean over the moves, nothing to moves below. Evenly too if no move lies above.
    """
    count = prior.size
    for i in range(count):
        shapes[i] = total / count
    if shaped_share == 0.0:
        return
    mean = 0.0
    for i in range(count):
        mean += math.log(min(np.float64(prior[i]), MOST_SHAPED) + LEAST_SHAPED) / count
    above = 0.0
    for i in range(count):
        above += max(0.0, math.log(min(np.float64(prior[i]), MOST_SHAPED) + LEAST_SHAPED) - mean)
    # Equal priors may miss their own mean by a rounding.
    if above <= 1e-9:
        return
    for i in range(count):
        height = max(0.0, math.log(min(np.float64(prior[i]), MOST_SHAPED) + LEAST_SHAPED) - mean)
        shapes[i] = total * ((1.0 - shaped_share) / count + shaped_share * height / above)


@kernel
def prepare_roots(tree, rows, noisy, noise_weight, noise_total, noise_shape):
    """Set root_prior of expanded roots: the network's priors, mixed with Dirichlet noise where noisy [n] says so.

    P' = (1 − w)·P + w·η, η ~ Dirichlet(noise_shapes). Scaling by legal moves as in KataGo.
    """
    shapes = np.empty(tree.root_prior.shape[1], np.float64)
    for j in range(rows.size):
        row = rows[j]
        start, count = tree.node[row, ROOT].edge_start, tree.node[row, ROOT].edge_count
        prior = tree.root_prior[row, :count]
        if noisy[j] and count > 0:
            noise_shapes(tree.edge_prior[row, start : start + count], noise_total, noise_shape, shapes)
            dirichlet(tree.streams, row, shapes, prior)
            keep = np.float32(1.0 - noise_weight)
            for i in range(count):
                prior[i] = keep * tree.edge_prior[row, start + i] + np.float32(noise_weight) * prior[i]
        else:
            prior[:] = tree.edge_prior[row, start : start + count]
        bring_best_untried(tree, row, ROOT)


@kernel
def forced_visits(k, prior, visits):
    """sqrt(k·P·ΣN): how many visits of a root move forcing asks for; P with noise, visits of the root. float32."""
    return np.sqrt(np.float32(k) * prior * np.float32(visits))


@kernel
def forced_edge(tree, row, k, edge):
    """The root's edge to walk: the tried one of lowest action that has fewer visits than forced, else `edge`."""
    this = tree.node[row, ROOT]
    best = -1
    for i in range(this.tried if k > 0.0 else 0):
        at = this.edge_start + i
        wanted = forced_visits(k, tree.root_prior[row, i], this.visits)
        if tree.edge[row, at].visits < wanted and comes_before(tree, row, this.edge_start, i, best):
            best = i
    return best if best >= 0 else edge


@kernel
def prune_forced(tree, rows, forced, c_puct, visits):
    """Take from visits [n, A] int32 of expanded roots what forced playouts with k = forced [R] may have added.

    The most visited move (the higher prior, then the lower action, on ties) keeps all. Every other loses visits, at
    most sqrt(k·P·ΣN), as long as its PUCT score with what is left stays below the most visited one's, Q and ΣN held;
    what is left with a single visit is removed. Nothing changes where no move has two visits: nothing was forced.
    """
    for j in range(rows.size):
        row = rows[j]
        if forced[row] <= 0.0 or tree.num_nodes[row] == 0 or tree.node[row, ROOT].visits == 0:
            continue
        this = tree.node[row, ROOT]
        start = this.edge_start
        best = 0
        for i in range(1, this.tried):
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
        to_beat = tree.edge[row, start + best].value / n + scale * tree.root_prior[row, best] / (one + n)
        for i in range(this.tried):
            if i == best:
                continue
            edge = tree.edge[row, start + i]
            prior = tree.root_prior[row, i]
            q = edge.value / np.float32(edge.visits)
            left = edge.visits
            least = max(0, left - int(forced_visits(forced[row], prior, this.visits)))
            while left > least and q + scale * prior / np.float32(left) < to_beat:
                left -= 1
            visits[j, tree.edge_action[row, start + i]] = left if left > 1 else 0
