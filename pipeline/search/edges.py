"""The order of a node's edges, for all kernels that choose among them. Plain twin: none is needed, order is invisible.

``tree.py`` says how edges stand: the tried ones first, the best untried one behind them. An edge is no action: whoever
looks for an action's edge must read tree.edge_action.
"""

# mypy: allow-untyped-defs
from __future__ import annotations

from pipeline.kernels import make_kernel
from pipeline.search.tree import ROOT

kernel = make_kernel(error_model="numpy")


@kernel
def bring_best_untried(tree, row, node):
    """Swap the untried edge of highest prior (lowest action on ties) to the place behind the tried ones."""
    this = tree.node[row, node]
    start, first, count = this.edge_start, this.tried, this.edge_count
    if first >= count:
        return
    prior = tree.root_prior[row] if node == ROOT else tree.edge_prior[row, start : start + count]
    actions = tree.edge_action[row, start : start + count]
    best = first
    for i in range(first + 1, count):
        if prior[i] > prior[best] or (prior[i] == prior[best] and actions[i] < actions[best]):
            best = i
    swap_untried(tree, row, node, first, best)


@kernel
def swap_untried(tree, row, node, edge, other):
    """Let two untried edges, both counted from edge_start, change places."""
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
def comes_before(tree, row, start, edge, other):
    """Whether the edge has a lower action than the other; both counted from start. Without another: yes."""
    return other < 0 or tree.edge_action[row, start + edge] < tree.edge_action[row, start + other]
