"""Prioritised replay: examples with a larger value error are sampled more often and weigh less in the loss.

    p_i = |v − z| + ε             v: the network's value when example i was last trained on, z: its label
    P(i) = p_i^α / Σ_k p_k^α      probability of example i in each draw, with replacement
    w_i = (N·P(i))^−β / max_batch(w)          weight of i's loss in that batch; N examples

Source: Schaul et al. 2016, arXiv 1511.05952, section 3 (proportional variant) and appendix B.2.1: a batch of B samples
takes one from each of B equal parts of Σ p^α, which keeps P(i) and makes batches alike. An example that was never
trained on has the largest priority so far (1 if there is none), as in the paper's algorithm 1.

A batch depends on (seed, step, priorities) only, and sees all updates before it. An *epoch* is as many samples as there
are examples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.methods.method import IndexArray
from pipeline.run.priorities import ExampleArray, Priorities, PriorityArray

FIRST_PRIORITY = 1.0  # of all examples before any was trained on


class SumTree:
    """N weights with their sums in a binary tree: changing or finding B of them takes O(B log N).

    Every node is exactly the sum of its two children, so equal weights make equal trees in any order of changes.
    """

    def __init__(self, weights: NDArray[np.float64]) -> None:
        """weights [N], N ≥ 1, none below 0."""
        self._first = 1 << (len(weights) - 1).bit_length()  # where the leaves begin; node 1 is the root
        self._nodes = np.zeros(2 * self._first, np.float64)
        self._nodes[self._first : self._first + len(weights)] = weights
        first = self._first
        while first > 1:
            level = self._nodes[first : 2 * first]
            self._nodes[first // 2 : first] = level[::2] + level[1::2]
            first //= 2

    @property
    def total(self) -> float:
        return float(self._nodes[1])

    def __getitem__(self, rows: IndexArray) -> NDArray[np.float64]:
        return self._nodes[self._first + rows]

    def set(self, rows: IndexArray, weights: NDArray[np.float64]) -> None:
        """Set the weights [B] of rows [B]; for a row that occurs twice the last one counts."""
        nodes = self._first + rows
        self._nodes[nodes] = weights
        while nodes[0] > 1:  # all nodes are on one level
            nodes = nodes >> 1  # a parent of two rows occurs twice and gets the same sum twice
            self._nodes[nodes] = self._nodes[2 * nodes] + self._nodes[2 * nodes + 1]

    def find(self, points: NDArray[np.float64]) -> IndexArray:
        """[B] the rows whose intervals, each as long as its weight, contain the points [B] from 0 to total."""
        nodes = np.ones(len(points), np.int64)
        rest = points.copy()
        while nodes[0] < self._first:
            nodes *= 2
            left = self._nodes[nodes]
            # Sums are rounded: a point near a boundary may lie past its subtree's end, where all weights are 0.
            right = (rest >= left) & (self._nodes[nodes + 1] > 0)
            rest -= np.where(right, left, 0.0)
            nodes += right
        return nodes - self._first


@dataclass(frozen=True)
class ReplaySample:
    """One batch of B samples."""

    rows: IndexArray  # [B] of the set; may repeat
    weights: NDArray[np.float32]  # [B] of their losses, in (0, 1]
    symmetries: IndexArray  # [B]


class Replay:
    """The priorities of one set, and batches sampled by them."""

    def __init__(
        self, priorities: Priorities, exponent: float, correction: float, floor: float, seeds: Sequence[int]
    ) -> None:
        """exponent: α above 0; correction: β; floor: ε."""
        self._examples = priorities.examples
        self._values = priorities.values.copy()
        self._exponent, self._correction, self._floor = exponent, correction, floor
        self._seeds = list(seeds)
        self._tree = SumTree(self._values.astype(np.float64) ** exponent)

    @property
    def priorities(self) -> Priorities:
        """A copy of the current priorities."""
        return Priorities(self._examples, self._values.copy())

    def sample(self, step: int, batch_size: int, num_symmetries: int) -> ReplaySample:
        """The batch of this step, by the current priorities."""
        generator = np.random.default_rng([*self._seeds, step])
        parts = (np.arange(batch_size) + generator.random(batch_size)) / batch_size
        rows = self._tree.find(parts * self._tree.total)
        symmetries = generator.integers(0, num_symmetries, batch_size)
        # N and Σp^α cancel when the weights are divided by the largest one.
        lowest = self._tree[rows].min()
        weights = (lowest / self._tree[rows]) ** self._correction
        return ReplaySample(rows, weights.astype(np.float32), symmetries)

    def update(self, rows: IndexArray, errors: NDArray[np.float32]) -> None:
        """Set the priorities of a batch's rows [B] from |v − z| [B]; for a row sampled twice the last one counts."""
        self._values[rows] = errors + np.float32(self._floor)
        self._tree.set(rows, self._values[rows].astype(np.float64) ** self._exponent)


def starting_priorities(examples: ExampleArray, stored: Priorities | None) -> Priorities:
    """Initial priorities of a set's examples [n]: the stored ones, and the largest of them for new examples.

    stored: those of this set, or of an earlier one that shares positions with it.
    """
    if stored is None or not len(stored.values):
        return Priorities(examples, np.full(len(examples), FIRST_PRIORITY, np.float32))
    if np.array_equal(stored.examples, examples):
        return Priorities(examples, stored.values)
    order = np.argsort(stored.examples, kind="stable")
    known = stored.examples[order]
    places = np.searchsorted(known, examples).clip(max=len(known) - 1)
    values: PriorityArray = np.where(known[places] == examples, stored.values[order[places]], stored.values.max())
    return Priorities(examples, values)
