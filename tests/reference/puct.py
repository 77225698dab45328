"""``ReferenceSearch``: PUCT on one tree, in plain Python. What the batched kernels are compared with, move for move.

Slow and obvious on purpose: a node is an object, every legal edge is scored at every step, nothing is cached.
Arithmetic is in float32 scalars, in the order in which ``kernels.py`` does it, so that equal inputs give equal bits.
Has no batches of several games, no random numbers (noise is handed in) and no limit on kept nodes.

Every value is seen by the player to move at the node it belongs to; an edge's value by the mover of the node it leaves.
Who moves is asked of the game at every node: players need not alternate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import IllegalMove
from pipeline.games.contract import Evaluate, FloatArray, Game, History, IntArray, States
from pipeline.search.batch import MAX_ROUNDS, READOUTS_PER_LEAF
from pipeline.search.options import SearchOptions

ZERO, ONE = np.float32(0.0), np.float32(1.0)
Path = list[tuple["Node", "Edge"]]


@dataclass
class Edge:
    """One legal action of a node. value_sum: of all values backed up through it, seen by the node's mover.

    pending: how many of the visits have no value yet.
    """

    action: int
    prior: np.float32
    visits: int = 0
    value_sum: np.float32 = ZERO
    child: Node | None = None
    pending: int = 0


@dataclass
class Node:
    """One position.

    state  [1, S]
    value  the network's, or the exact one if terminal
    edges  legal actions in ascending order, none if terminal
    tried  the visited edges, first visit first
    visits, value_sum  sums over the edges
    square_sum         of the squares of the values in value_sum
    """

    state: States
    mover: int
    value: np.float32
    terminal: bool
    edges: list[Edge] = field(default_factory=list)
    tried: list[Edge] = field(default_factory=list)
    visits: int = 0
    value_sum: np.float32 = ZERO
    square_sum: np.float32 = ZERO


class ReferenceSearch:
    """One game and its tree. See the module docstring."""

    def __init__(self, game: Game, config: SearchOptions, evaluate: Evaluate) -> None:
        self.game = game
        self._config = config
        self._evaluate = evaluate
        self.new_game()

    def new_game(self) -> None:
        """Go to the initial position with an empty tree."""
        self.state = self.game.initial(1)
        self._noise: FloatArray | None = None
        self._forced = 0.0  # k of the present search
        self.past = self.game.initial_history(self.state)
        self.root: Node | None = None

    def search(self, readouts: int, noise: FloatArray | None = None, force: bool = False, leaves: int = 1) -> None:
        """Descend `readouts` times from the root, terminal leaves included. The root's own evaluation is no readout.

        noise  [A] float32 or None: mixed into the root's priors of this search, P' = (1 − w)·P + w·noise
        force  whether this search has forced playouts, which targets() then prunes
        leaves how many may be without a value at the same time
        Raises IllegalMove if the game is over.
        """
        if self.game.is_over(self.state)[0]:
            raise IllegalMove(f"{self.game.spec}: search: the game is over")
        if self.root is None:
            self.root = self._expand(self.state, self.past)
        self._noise, self._forced = noise, self._config.forced_playouts if force else 0.0
        self._spend(self.root, readouts, noise, leaves)

    def visits(self) -> IntArray:
        """[A] int32: visits of the root's edges; 0 for illegal actions."""
        counts = np.zeros(self.game.num_actions, np.int32)
        for edge in self.root.edges if self.root else []:
            counts[edge.action] = edge.visits
        return counts

    def targets(self) -> IntArray:
        """[A] int32: visits, without those that forced playouts may have added. See prune()."""
        root, counts = self.root, self.visits()
        if root is None or not self._forced or not root.visits:
            return counts
        tried = [edge for edge in root.edges if edge.visits]
        priors = {e.action: p for e, p in zip(root.edges, self._priors(root, self._noise), strict=True)}
        kept = prune(
            [edge.visits for edge in tried],
            [edge.value_sum / np.float32(edge.visits) for edge in tried],
            [priors[edge.action] for edge in tried],
            max(range(len(tried)), key=lambda i: (tried[i].visits, tried[i].prior, -tried[i].action)),
            self._config.c_puct,
            self._forced,
        )
        counts[[edge.action for edge in tried]] = kept
        return counts

    def policy(self) -> FloatArray:
        """[A] float32: the network's priors at the root, without noise; 0 for illegal actions."""
        priors = np.zeros(self.game.num_actions, np.float32)
        for edge in self.root.edges if self.root else []:
            priors[edge.action] = edge.prior
        return priors

    def lcb_action(self, deviations: float) -> int | None:
        """The root's move of highest lower bound among those with 2 visits and 15 % of the most; None without one."""
        tried = [edge for edge in self.root.edges if edge.visits] if self.root else []
        most = max((edge.visits for edge in tried), default=0)
        bounds = {e.action: lower_bound(e, deviations) for e in tried if e.visits >= max(2, 0.15 * most)}
        return max(bounds, key=lambda action: (bounds[action], -action), default=None)

    def root_value(self) -> np.float32:
        """The mean of the network's value and all readouts', seen by the player to move. 0 before the first search."""
        return ZERO if self.root is None else mean_value(self.root)

    def advance(self, action: int) -> None:
        """Play action; the tree below it is kept, visits and all. Raises IllegalMove."""
        self.state = self.game.play(self.state, np.array([action], np.int32), self.past)
        self.past.append(np.array([0]), self.game.keys(self.state))
        below = [edge.child for edge in self.root.edges if edge.action == action] if self.root else []
        self.root = below[0] if below and below[0] is not None and not below[0].terminal else None

    def _spend(self, root: Node, readouts: int, noise: FloatArray | None, leaves: int) -> None:
        """Descend so often. Up to `leaves` are chosen before the first gets its value, fewer while the root has few
        visits with one; those that end the game get theirs sooner.
        """
        left = readouts
        while left:
            waiting: list[tuple[Path, States, History]] = []
            for _ in range(MAX_ROUNDS):
                most = min(leaves, 1 + (root.visits - pending_below(root)) // READOUTS_PER_LEAF)
                while left and len(waiting) < most:
                    path, past = self._walk(root, noise)
                    parent, edge = path[-1]
                    if edge.pending and edge.child is None:
                        break
                    left -= 1
                    if edge.child is not None:
                        back_up(path, edge.child, visits=1)
                        continue
                    if not edge.visits:
                        parent.tried.append(edge)
                    back_up(path, None, visits=1)
                    state = self.game.play(parent.state, np.array([edge.action], np.int32), past)
                    past.append(np.array([0]), self.game.keys(state))
                    waiting.append((path, state, past))
                ended = [one for one in waiting if self.game.is_over(one[1])[0]]
                waiting = [one for one in waiting if not self.game.is_over(one[1])[0]]
                self._arrive(ended)
                if not ended:
                    break
            self._arrive(waiting)

    def _walk(self, root: Node, noise: FloatArray | None) -> tuple[Path, History]:
        """From the root to an edge without a node, or to one whose node ends the game; the keys on the way."""
        path: Path = []
        past = self.past.select(np.array([0]))
        node: Node | None = root
        while node is not None and not node.terminal:
            edge = self._select_child(node, self._priors(node, noise if node is root else None), is_root=node is root)
            path.append((node, edge))
            node = edge.child
            if node is not None:
                past.append(np.array([0]), self.game.keys(node.state))
        return path, past

    def _arrive(self, arrived: list[tuple[Path, States, History]]) -> None:
        for path, state, past in arrived:
            child = path[-1][1].child = self._expand(state, past)
            back_up(path, child, visits=0)

    def _priors(self, node: Node, noise: FloatArray | None) -> list[np.float32]:
        """The priors of the node's edges, mixed with noise if there is any."""
        if noise is None:
            return [edge.prior for edge in node.edges]
        keep, weight = np.float32(1.0 - self._config.noise_weight), np.float32(self._config.noise_weight)
        return [keep * edge.prior + weight * np.float32(noise[edge.action]) for edge in node.edges]

    def _select_child(self, node: Node, priors: list[np.float32], is_root: bool) -> Edge:
        """The edge of highest Q + c_puct·P·sqrt(max(1, ΣN))/(1 + N); the lowest action on ties.

        Q is the mean of the values that have arrived; where none has, the node's mean value − fpu_reduction·sqrt(ΣP of
        visited edges).
        With forced playouts a root move that was visited, but less than forced_visits, goes first; the lowest action.
        Source: Silver et al. 2017, Methods, "Select".
        """
        config = self._config
        reduction = np.float32(config.root_fpu_reduction if is_root else config.fpu_reduction)
        prior_of = {edge.action: prior for edge, prior in zip(node.edges, priors, strict=True)}
        tried_prior = ZERO
        for edge in node.tried:
            tried_prior += prior_of[edge.action]
        first_play = mean_value(node) - reduction * np.sqrt(tried_prior)
        scale = np.float32(config.c_puct) * np.sqrt(np.float32(max(node.visits, 1)))
        if is_root and self._forced:
            for edge in node.edges:
                if edge.visits and edge.visits < forced_visits(self._forced, prior_of[edge.action], node.visits):
                    return edge
        best, best_score = node.edges[0], np.float32(-np.inf)
        for edge in node.edges:
            valued = edge.visits - edge.pending
            q = edge.value_sum / np.float32(valued) if valued > 0 else first_play
            score = q + scale * prior_of[edge.action] / (ONE + np.float32(edge.visits))
            if score > best_score:
                best, best_score = edge, score
        return best

    def _expand(self, state: States, past: History) -> Node:
        """The node of a new position. past: the keys of all positions of its game, its own included."""
        mover = int(self.game.to_move(state)[0])
        if self.game.is_over(state)[0]:
            result = np.float32(self.game.returns(state)[0])
            return Node(state, mover, result if mover == 0 else -result, terminal=True)
        legal, planes = self.game.legal_and_observe(state, past)
        logits, values = self._evaluate(planes)
        actions = np.flatnonzero(legal[0]).tolist()
        edges = [Edge(action, prior) for action, prior in zip(actions, softmax(logits[0, actions]), strict=True)]
        return Node(state, mover, np.float32(values[0]), terminal=False, edges=edges)


def lower_bound(edge: Edge, deviations: float) -> float:
    """q − deviations·s/sqrt(n), s of the values at the child and below, as if 1/n of another were off by 1."""
    valued, child = edge.visits - edge.pending, edge.child
    if not valued:
        return -math.inf
    if child is None or child.terminal:
        variance = 0.0 if child else 1.0
    else:
        known = float(1 + child.visits)
        mean = (float(child.value) + float(child.value_sum)) / known
        spread = max(0.0, float(child.value) * float(child.value) + float(child.square_sum) - known * mean * mean)
        variance = (spread + 1.0 / known) / (known + 1.0 / known)
    return float(edge.value_sum) / valued - deviations * math.sqrt(variance / valued)


def mean_value(node: Node) -> np.float32:
    """The mean of the node's own value and of all values backed up through it, to its mover."""
    return (node.value + node.value_sum) / np.float32(1 + node.visits - pending_below(node))


def pending_below(node: Node) -> int:
    """How many of the node's visits have no value yet."""
    return sum(edge.pending for edge in node.edges)


def back_up(path: Path, child: Node | None, visits: int) -> None:
    """Add visits to all of a path, and the value of the child that it leads to. None: that is still to come; visits=0:
    it is the value of a child that was pending.
    """
    for node, edge in path:
        seen = ZERO
        if child is not None:
            seen = child.value if node.mover == child.mover else -child.value
        for counts in (edge, node):
            counts.visits += visits
            counts.value_sum += seen
        node.square_sum += seen * seen
        edge.pending += (child is None) - (visits == 0)


def softmax(logits: FloatArray) -> list[np.float32]:
    """Each exponential rounded to float32, their sum taken from left to right in float32."""
    highest = logits.max()
    # math.exp on one number, not numpy's vector exp: that one rounds differently from the C library the kernels call.
    weights = [np.float32(math.exp(logit - highest)) for logit in logits]
    total = ZERO
    for weight in weights:
        total += weight
    return [weight / total for weight in weights]


def forced_visits(k: float, prior: np.float32, visits: int) -> np.float32:
    """sqrt(k·P·ΣN). Source: Wu 2019, arXiv 1902.10565, section 3.2."""
    return np.sqrt(np.float32(k) * prior * np.float32(visits))


def prune(
    visits: list[int], q: list[np.float32], priors: list[np.float32], best: int, c_puct: float, k: float
) -> list[int]:
    """The visits of a root's moves without forced playouts: policy target pruning, Wu 2019, section 3.2.

    best  the most visited one, which keeps all. Every other loses up to forced_visits, one by one, as long as its
    score stays below the best's; then what has a single visit left goes. As it is if nobody has two visits.
    """
    if visits[best] < 2:
        return visits
    total = sum(visits)
    scale = np.float32(c_puct) * np.sqrt(np.float32(total))

    def score(i: int, count: int) -> np.float32:
        return q[i] + scale * priors[i] / (ONE + np.float32(count))

    kept = list(visits)
    for i in range(len(visits)):
        if i != best:
            for _ in range(int(forced_visits(k, priors[i], total))):
                if kept[i] > 0 and score(i, kept[i] - 1) < score(best, visits[best]):
                    kept[i] -= 1
            kept[i] = 0 if kept[i] == 1 else kept[i]
    return kept


def noise_shapes(priors: FloatArray, total: float, shaped_share: float) -> NDArray[np.float64]:
    """[n] float64: the Dirichlet parameters of moves with these priors.

    Source: KataGo, cpp/search/searchhelpers.cpp, Search::computeDirichletAlphaDistribution, where the share is 0.5.
    """
    even = np.full(len(priors), 1 / len(priors))
    heights = np.log(np.minimum(np.float64(priors), 0.01) + 1e-20)
    heights = np.maximum(0.0, heights - heights.mean())
    shaped = heights / heights.sum() if heights.sum() > 1e-9 else even
    return total * ((1 - shaped_share) * even + shaped_share * shaped)
