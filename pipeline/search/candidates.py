"""What a tree found, for people and protocols to read: the root's moves and how the game might go on after each.

Plain Python that runs once per answer, not per readout. Changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.search.tree import ROOT, Tree

LONGEST_VARIATION = 30  # moves


@dataclass(frozen=True)
class Candidate:
    """A move at the root.

    visits         readouts that went through it
    value_to_move  their mean value, in [-1, 1], seen by the player to move at the root; the root's own without visits
    prior          the network's policy, without noise
    variation      the actions most visited from here on, this one first
    """

    action: int
    visits: int
    value_to_move: float
    prior: float
    variation: tuple[int, ...]


def candidates(tree: Tree, row: int, longest: int = LONGEST_VARIATION) -> list[Candidate]:
    """The visited moves at a row's root, most visited first, then by value; without any visit all legal ones by prior.

    Empty if the root isn't expanded. longest: of the variations, in moves.
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
            variation = (action, *_most_visited(tree, row, int(edge["child"]), longest - 1))
            found.append(Candidate(action, visits, value, float(tree.edge_prior[row, i]), variation))
    if found:
        return sorted(found, key=lambda move: (-move.visits, -move.value_to_move, move.action))
    edges = range(start, start + int(root["edge_count"]))
    unvisited = [(int(tree.edge_action[row, i]), float(tree.edge_prior[row, i])) for i in edges]
    value = float(root["value"])
    return [Candidate(action, 0, value, prior, (action,)) for action, prior in sorted(unvisited, key=lambda a: -a[1])]


def _most_visited(tree: Tree, row: int, node: int, longest: int) -> list[int]:
    """The path of most visits from a node down; ties: the higher prior."""
    path: list[int] = []
    while node >= 0 and len(path) < longest:
        start, count = int(tree.node[row, node]["edge_start"]), int(tree.node[row, node]["num_visited"])
        if not count:
            break
        best = max(range(start, start + count), key=lambda i: (tree.edge[row, i]["visits"], tree.edge_prior[row, i]))
        if not tree.edge[row, best]["visits"]:
            break
        path.append(int(tree.edge_action[row, best]))
        node = int(tree.edge[row, best]["child"])
    return path
