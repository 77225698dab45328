"""The complete tree of a small text game, and a policy's exact exploitability by best responses.

All seeds are equally likely. Seeds that both players see alike along the line of first actions are merged, so the
environment's own randomness must not depend on the actions. The tree has legal actions only: an invalid one is never a
best response, and a policy is renormalised over the legal ones.

An *information set* is all messages to a player so far (perfect recall). A policy may be shown less. Values are player
0's, in rewards. Axes: N nodes.
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
"""Observations with their legal actions → the probability of each action."""

_NO_HISTORY = History(np.zeros((0, 0), np.uint64), np.zeros(0, np.int32))


@dataclass(frozen=True)
class Node:
    """A position. player: to move, −1 if over; decision: an index into Tree.decisions; value: 0 unless over."""

    player: int
    ply: int
    information_set: int
    decision: int
    children: tuple[int, ...]
    value: float


@dataclass(frozen=True)
class Tree:
    """nodes: each after its children. roots, weights: the positions after the seed; weights sum to 1.

    decisions: each different observation with its legal actions.
    """

    nodes: list[Node]
    roots: list[int]
    weights: NDArray[np.float64]
    decisions: list[tuple[str, tuple[str, ...]]]


def build_tree(game: TextGame) -> Tree:
    """Raises UsageError for a game with more than MOST_NODES positions, or whose actions are texts."""
    if game.speaks:
        raise UsageError(f"{game.spec}: its actions are texts; wanted an environment that lists its actions")
    kinds: dict[tuple[object, ...], list[int]] = {}
    for seed in range(SEEDS):
        kinds.setdefault(_signature(game, seed), []).append(seed)
    builder = _Builder(game)
    roots = [builder.add(_play(game, game.initial(1)[0], seeds[0])) for seeds in kinds.values()]
    weights = np.array([len(seeds) for seeds in kinds.values()]) / SEEDS
    return Tree(builder.nodes, roots, weights, list(builder.decisions))


def _play(game: TextGame, state: NDArray[np.int16], action: int) -> NDArray[np.int16]:
    return game.play(state[None], np.array([action], np.int32), _NO_HISTORY)[0]


def _signature(game: TextGame, seed: int) -> tuple[object, ...]:
    before = state = _play(game, game.initial(1)[0], seed)
    while not state[OVER]:
        before, state = state, _play(game, state, 0)
    # Messages after the end inform no decision. The rewards are included, because luck may be revealed only at the end.
    messages = (tuple(game.messages_to(before, player)) for player in (0, 1))
    return (*messages, tuple(game.rewards(state[None])[0].tolist()))


class _Builder:
    def __init__(self, game: TextGame) -> None:
        self._game = game
        self.nodes: list[Node] = []
        self.decisions: dict[tuple[str, tuple[str, ...]], int] = {}
        self._information_sets: dict[tuple[object, ...], int] = {}

    def add(self, state: NDArray[np.int16]) -> int:
        """Add this position after its children; returns its index."""
        game = self._game
        if len(self.nodes) > MOST_NODES:
            raise UsageError(f"{game.spec}: more than {MOST_NODES:,} positions; wanted a smaller game")
        if state[OVER]:
            rewards = game.rewards(state[None])[0]
            node = Node(-1, int(state[0]), -1, -1, (), float(rewards[0] - rewards[1]) / 2)
        else:
            player, listed = int(state[TO_MOVE]), game.listed(state)
            key = (player, *game.messages_to(state, player))
            information_set = self._information_sets.setdefault(key, len(self._information_sets))
            decision = self.decisions.setdefault((game.observation(state), listed), len(self.decisions))
            children = tuple(self.add(_play(game, state, action)) for action in range(len(listed)))
            node = Node(player, int(state[0]), information_set, decision, children, 0.0)
        self.nodes.append(node)
        return len(self.nodes) - 1


@dataclass(frozen=True)
class Exploitability:
    """value: player 0's if both play the policy; best [2]: the values of players 0 and 1 with a best response to it.

    total: NashConv, the sum of both players' gains by responding; 0 for an equilibrium.
    """

    value: float
    best: tuple[float, float]

    @property
    def total(self) -> float:
        return sum(self.best)


def exploitability(tree: Tree, policy: Policy) -> Exploitability:
    """Exact, for a policy of both players."""
    chances = [np.asarray(one, np.float64) / np.sum(one) for one in policy(tree.decisions)]
    own = [0.0] * len(tree.nodes)
    for number, node in enumerate(tree.nodes):
        if node.player < 0:
            own[number] = node.value
        else:
            own[number] = sum(p * own[child] for p, child in zip(chances[node.decision], node.children, strict=True))
    value = float(sum(weight * own[root] for weight, root in zip(tree.weights, tree.roots, strict=True)))
    return Exploitability(value, (_best(tree, chances, 0), _best(tree, chances, 1)))


def _best(tree: Tree, chances: Sequence[NDArray[np.float64]], responder: int) -> float:
    """The value of this player's best response, seen by this player."""
    nodes, sign = tree.nodes, 1 if responder == 0 else -1
    reach = np.zeros(len(nodes))  # probability of chance's and the other player's choices
    reach[tree.roots] = tree.weights
    for number in range(len(nodes) - 1, -1, -1):
        node = nodes[number]
        for i, child in enumerate(node.children):
            reach[child] = reach[number] * (1.0 if node.player == responder else chances[node.decision][i])
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
                sets.setdefault(node.information_set, []).append(number)
            else:
                values[number] = chances[node.decision] @ values[list(node.children)]
        for members in sets.values():
            children = np.array([nodes[number].children for number in members])
            best = int((reach[members] @ values[children]).argmax())
            values[members] = values[children[:, best]]
    return float(tree.weights @ values[tree.roots])
