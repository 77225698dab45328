"""The moves at a tree's root, with statistics and principal variations, for people and protocols to read."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.search.tree import ROOT, Tree

MAX_VARIATION = 30  # moves


@dataclass(frozen=True)
class Candidate:
    """A move at the root."""

    action: int
    visits: int  # readouts that went through it
    value_to_move: float  # their mean, in [-1, 1], seen by the player to move at the root; the root's without visits
    prior: float  # the network's, without noise
    variation: tuple[int, ...]  # this action, then the most visited ones


def candidates(tree: Tree, row: int) -> list[Candidate]:
    """The visited moves at a row's root by visits, then value; without visits all legal moves by prior.

    Empty if the root isn't expanded.
    """
    if not tree.num_nodes[row]:
        return []
    root = tree.node[row, ROOT]
    start = int(root["edge_start"])
    found = []
    for i in range(start, start + int(root["num_visited"])):
        edge = tree.edge[row, i]
        visits = int(edge["visits"])
        if visits:
            action = int(tree.edge_action[row, i])
            value = float(edge["value_sum"]) / visits
            variation = (action, *_most_visited(tree, row, int(edge["child"])))
            found.append(Candidate(action, visits, value, float(tree.edge_prior[row, i]), variation))
    if found:
        return sorted(found, key=lambda move: (-move.visits, -move.value_to_move, move.action))
    edges = range(start, start + int(root["edge_count"]))
    unvisited = [(int(tree.edge_action[row, i]), float(tree.edge_prior[row, i])) for i in edges]
    value = float(root["value"])
    return [Candidate(action, 0, value, prior, (action,)) for action, prior in sorted(unvisited, key=lambda a: -a[1])]


def _most_visited(tree: Tree, row: int, node: int) -> list[int]:
    """The most visited path down from a node; ties: the higher prior."""
    path: list[int] = []
    while node >= 0 and len(path) < MAX_VARIATION - 1:
        start, count = int(tree.node[row, node]["edge_start"]), int(tree.node[row, node]["num_visited"])
        if not count:
            break
        best = max(range(start, start + count), key=lambda i: (tree.edge[row, i]["visits"], tree.edge_prior[row, i]))
        if not tree.edge[row, best]["visits"]:
            break
        path.append(int(tree.edge_action[row, best]))
        node = int(tree.edge[row, best]["child"])
    return path
