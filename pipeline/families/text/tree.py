"""The whole tree of a small text game, and how far a policy is from unbeatable: exact best responses.

Of the game as it is played here: each seed is as likely as any. Seeds that look alike to both players along the line of
first actions are taken for one, so the environment's own luck must not depend on what is played. Only legal actions are
in the tree: an invalid one is never a best response, and a policy is taken among the legal ones.

A player knows all that it was told, and remembers it: its *information set*. What a policy is shown of that may be
less. Values are player 0's, in rewards. Axes: N nodes, E edges.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import UsageError
from pipeline.families.text.game import OVER, SEEDS, TO_MOVE, TextGame
from pipeline.games.contract import History

MOST_NODES = 500_000
Policy = Callable[[Sequence[tuple[str, tuple[str, ...]]]], Sequence[NDArray[np.floating]]]
"""What players are shown, with the legal actions → the probability of each."""

_NO_HISTORY = History(np.zeros((0, 0), np.uint64), np.zeros(0, np.int32))


@dataclass(frozen=True)
class Node:
    """A position. player: who moves, −1 where it is over; known: the mover's information set; value: at the end."""

    player: int
    ply: int
    known: int
    asked: int
    children: tuple[int, ...]
    value: float


@dataclass(frozen=True)
class Tree:
    """nodes: every one behind its children. roots, weights: after chance's seed; weights sum to 1.

    asked: what players are shown, and the legal actions, each once.
    """

    nodes: list[Node]
    roots: list[int]
    weights: NDArray[np.float64]
    asked: list[tuple[str, tuple[str, ...]]]


def whole_tree(game: TextGame) -> Tree:
    """Raises UsageError for a game of more than MOST_NODES positions."""
    kinds: dict[tuple[object, ...], list[int]] = {}
    for seed in range(SEEDS):
        kinds.setdefault(_signature(game, seed), []).append(seed)
    building = _Building(game)
    roots = [building.add(_play(game, game.initial(1)[0], seeds[0])) for seeds in kinds.values()]
    weights = np.array([len(seeds) for seeds in kinds.values()]) / SEEDS
    return Tree(building.nodes, roots, weights, list(building.asked))


def _play(game: TextGame, state: NDArray[np.int16], action: int) -> NDArray[np.int16]:
    return game.play(state[None], np.array([action], np.int32), _NO_HISTORY)[0]


def _signature(game: TextGame, seed: int) -> tuple[object, ...]:
    before = state = _play(game, game.initial(1)[0], seed)
    while not state[OVER]:
        before, state = state, _play(game, state, 0)
    # What is told when all is over tells nobody anything; the result may depend on luck that came to light only there.
    told = (tuple(game.told(before, player)) for player in (0, 1))
    return (*told, tuple(game.rewards(state[None])[0].tolist()))


class _Building:
    def __init__(self, game: TextGame) -> None:
        self._game = game
        self.nodes: list[Node] = []
        self.asked: dict[tuple[str, tuple[str, ...]], int] = {}
        self._known: dict[tuple[object, ...], int] = {}

    def add(self, state: NDArray[np.int16]) -> int:
        """The number of the node of this position, whose children come before it."""
        game = self._game
        if len(self.nodes) > MOST_NODES:
            raise UsageError(f"{game.spec}: more than {MOST_NODES:,} positions; wanted a smaller game")
        if state[OVER]:
            rewards = game.rewards(state[None])[0]
            node = Node(-1, int(state[0]), -1, -1, (), float(rewards[0] - rewards[1]) / 2)
        else:
            player, listed = int(state[TO_MOVE]), game.listed(state)
            known = self._known.setdefault((player, *game.told(state, player)), len(self._known))
            asked = self.asked.setdefault((game.observation(state), listed), len(self.asked))
            children = tuple(self.add(_play(game, state, action)) for action in range(len(listed)))
            node = Node(player, int(state[0]), known, asked, children, 0.0)
        self.nodes.append(node)
        return len(self.nodes) - 1


@dataclass(frozen=True)
class Exploitability:
    """value: player 0's if both play the policy; best [2]: what players 0 and 1 get by a best response to it.

    total: how much both gain together by responding; 0 for an equilibrium (NashConv).
    """

    value: float
    best: tuple[float, float]

    @property
    def total(self) -> float:
        return sum(self.best)


def exploitability(tree: Tree, policy: Policy) -> Exploitability:
    """Exact, for a policy that both players play."""
    chances = [np.asarray(one, np.float64) / np.sum(one) for one in policy(tree.asked)]
    own = [0.0] * len(tree.nodes)
    for number, node in enumerate(tree.nodes):
        if node.player < 0:
            own[number] = node.value
        else:
            own[number] = sum(p * own[child] for p, child in zip(chances[node.asked], node.children, strict=True))
    value = float(sum(weight * own[root] for weight, root in zip(tree.weights, tree.roots, strict=True)))
    return Exploitability(value, (_best(tree, chances, 0), _best(tree, chances, 1)))


def _best(tree: Tree, chances: Sequence[NDArray[np.float64]], responder: int) -> float:
    """What a best response of this player gets, seen by it."""
    nodes, sign = tree.nodes, 1 if responder == 0 else -1
    reach = np.zeros(len(nodes))  # by chance and the other player
    reach[tree.roots] = tree.weights
    for number in range(len(nodes) - 1, -1, -1):
        node = nodes[number]
        for i, child in enumerate(node.children):
            reach[child] = reach[number] * (1.0 if node.player == responder else chances[node.asked][i])
    values = np.array([sign * node.value for node in nodes])
    by_ply: dict[int, list[int]] = {}
    for number, node in enumerate(nodes):
        if node.player >= 0:
            by_ply.setdefault(node.ply, []).append(number)
    for ply in sorted(by_ply, reverse=True):
        sets: dict[int, list[int]] = {}
        for number in by_ply[ply]:
            node = nodes[number]
            if node.player == responder:
                sets.setdefault(node.known, []).append(number)
            else:
                values[number] = chances[node.asked] @ values[list(node.children)]
        for members in sets.values():
            children = np.array([nodes[number].children for number in members])
            best = int((reach[members] @ values[children]).argmax())
            values[members] = values[children[:, best]]
    return float(tree.weights @ values[tree.roots])
