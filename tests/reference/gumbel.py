"""``GumbelReference``: Gumbel AlphaZero on one tree, in plain Python. What ``gumbel.py`` is compared with.

Every formula is written over all legal moves of a node, tried or not, in float64, as the paper has it; the kernels
look at the tried ones only. So visits and choices are the same, targets equal up to the rounding to whole numbers.
Noise is handed in.

Source: Danihelka et al. 2022, "Policy improvement by planning with Gumbel", sections 3-5, appendix D; mctx,
action_selection.py, qtransforms.py and policies.py.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.games.contract import FloatArray, IntArray
from pipeline.search.gumbel import MIN_PRIOR, MIN_RANGE, TARGET_SUM, sequence_of_considered_visits
from tests.reference.puct import Edge, Node, ReferenceSearch

Doubles = NDArray[np.float64]


class GumbelReference(ReferenceSearch):
    """One game and its tree, which is no older than the move. See the module docstring."""

    _halving: list[int]  # the visits of the move that gets each readout of the present search
    _candidate_scores: FloatArray  # [edges] g + logit at the root

    def search(self, readouts: int, noise: FloatArray | None = None, force: bool = False, leaves: int = 1) -> None:
        """A new search of so many readouts. noise [A]: scaled Gumbel noise by action, or None. Nothing is forced.

        leaves: how many may be without a value at the same time.
        """
        self.root = None
        super().search(0)
        root = self.root
        assert root is not None
        gumbel = np.zeros(self.game.num_actions) if noise is None else noise
        self._candidate_scores = (gumbel[_actions(root)] + _logits(root)).astype(np.float32)
        self._halving = sequence_of_considered_visits(
            min(self._config.max_num_considered_actions, len(root.edges)), readouts
        )
        self._spend(root, readouts, None, leaves)

    def winner(self) -> int:
        """The action to play after a search of at least one readout."""
        assert self.root is not None
        return self._best_with(self.root, max(edge.visits for edge in self.root.edges)).action

    def improved_policy(self) -> Doubles:
        """[A] float64: softmax(logits + σ) at the root."""
        policy = np.zeros(self.game.num_actions)
        assert self.root is not None
        policy[_actions(self.root)] = self._improved(self.root)
        return policy

    def targets(self) -> IntArray:
        """[A] int32: the improved policy in whole numbers."""
        return np.floor(self.improved_policy() * TARGET_SUM + 0.5).astype(np.int32)

    def _select_child(self, node: Node, priors: list[np.float32], is_root: bool) -> Edge:
        if is_root:
            return self._best_with(node, self._halving[node.visits])
        visits = np.array([edge.visits for edge in node.edges])
        return node.edges[int(np.argmax(self._improved(node) - visits / (1 + visits.sum())))]

    def _best_with(self, root: Node, considered: int) -> Edge:
        """The highest g + logit + σ; moves without that number of visits are out."""
        score = self._candidate_scores + self._sigma(root)
        visits = np.array([edge.visits for edge in root.edges])
        return root.edges[int(np.argmax(np.where(visits == considered, score, -np.inf)))]

    def _improved(self, node: Node) -> Doubles:
        scores = _logits(node) + self._sigma(node)
        weights = np.exp(scores - scores.max())
        return weights / weights.sum()

    def _sigma(self, node: Node) -> Doubles:
        """[edges] (max_visit_init + max N) · value_scale · q̂"""
        visits = np.array([edge.visits - edge.pending for edge in node.edges])  # those that have a value
        tried = visits > 0
        q = np.array([float(edge.value_sum) for edge in node.edges]) / np.maximum(1, visits)
        mixed = float(node.value)
        if tried.any():
            priors = _priors(node)[tried]
            mixed = (mixed + visits.sum() * (priors @ q[tried]) / priors.sum()) / (1 + visits.sum())
        completed = np.where(tried, q, mixed)
        low, high = completed.min(), completed.max()
        rescaled = (completed - low) / max(high - low, MIN_RANGE)
        return (self._config.max_visit_init + visits.max()) * self._config.value_scale * rescaled


class MixedReference(GumbelReference):
    """Gumbel's search where noise is handed in; without, PUCT's, which goes on with the tree that is there."""

    _searcher: type[ReferenceSearch]  # whose the present search is

    def search(self, readouts: int, noise: FloatArray | None = None, force: bool = False, leaves: int = 1) -> None:
        """See the class's docstring. Nothing is forced."""
        self._searcher = ReferenceSearch if noise is None else GumbelReference
        self._searcher.search(self, readouts, noise, leaves=leaves)

    def targets(self) -> IntArray:
        return self._searcher.targets(self)

    def _select_child(self, node: Node, priors: list[np.float32], is_root: bool) -> Edge:
        return self._searcher._select_child(self, node, priors, is_root)


def _actions(node: Node) -> IntArray:
    return np.array([edge.action for edge in node.edges])


def _priors(node: Node) -> Doubles:
    return np.maximum(MIN_PRIOR, np.array([edge.prior for edge in node.edges], np.float64))


def _logits(node: Node) -> Doubles:
    logits = np.log(_priors(node))
    return logits - logits.max()
